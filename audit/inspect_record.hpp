// Reading hostile bytes and judging them must not share state: a reader may die, and a verdict must be
// repeatable elsewhere from what was read. The inspect record is the one border between the two. Workers
// send it, `cudeploy inspect --format json` prints it, `cudeploy audit saved.json` judges it.
// Field names are those of the schema cudeploy/inspect/1; what stands here beyond the schema may grow.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cudeploy {

/// Something in the file's content that is wrong, in words for people: field, expected, found.
struct Problem {
  std::optional<std::uint64_t> offset;  ///< bytes from the start of the file (or member)
  std::string message;
};

enum class Format { elf, pe, ar, fatbin, cubin, ptx, other };
enum class ImageKind { cubin, ptx, lto_ir, tile_ir, other };
enum class Compression { none, lz4, zstd, unknown };

/// One kernel of an image; read with --kernels.
struct Kernel {
  std::string name;                           ///< mangled, as in the image
  std::optional<std::uint32_t> registers;     ///< per thread, where the cubin says it
  std::optional<std::uint64_t> shared_bytes;  ///< static shared memory
};

/// One device code image of a fat binary.
struct Image {
  std::uint64_t offset = 0;            ///< of the entry header (of the member header in a concatenated entry)
  std::optional<std::uint64_t> group;  ///< offset of the entry header, for an image of a concatenated entry
  ImageKind kind = ImageKind::other;
  std::uint16_t entry_kind = 0;            ///< the number in the entry header (0 for a bare file)
  std::optional<std::uint32_t> arch;       ///< 90 is sm_90 or compute_90
  std::string variant;                     ///< "", "a" or "f"
  std::optional<std::string> ptx_version;  ///< ISA, for ptx
  Compression compression = Compression::none;
  std::optional<std::uint64_t> stored_size;
  std::optional<std::uint64_t> size;
  std::optional<std::string> toolkit;
  std::uint64_t flags = 0;        ///< of the entry header, as they are
  std::uint32_t header_size = 0;  ///< of the entry header
  std::string name;               ///< source file name or module id kept in the entry, or ""
  std::string options;            ///< compiler options kept in the entry, or ""
  bool arch_specific = false;     ///< the cubin itself says: its own GPU only, whatever the entry says; from sm_100 on
                                  ///< by its copy in the entry header, below that where the cubin was read
  bool debug = false;
  bool obfuscated = false;                    ///< LTO-IR that cannot be decompressed as it lies
  std::optional<std::uint32_t> kernel_count;  ///< null where nobody looked into the payload
  std::vector<Kernel> kernels;                ///< filled with --kernels
};

/// One fat binary container; a bare cubin or PTX is one with a single image.
struct FatBinary {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  ///< bytes, container header included
  std::optional<std::string> section;
  bool loadable = true;  ///< false for relocatable code that still has to be device-linked
  std::vector<Image> images;
};

/// Device code in no container, PTX kept as text or a cubin as it is: the program loads it by the driver's API. Its
/// image begins where the row does; in a container the header comes first.
inline bool is_bare(const FatBinary& row) { return row.images.size() == 1 && row.images[0].offset == row.offset; }

enum class RuntimeCopyKind { private_static, unified, shared_library, needs_shared, driver_hybrid, stand_in };

/// A CUDA runtime that the file brings or asks for.
struct RuntimeCopy {
  RuntimeCopyKind kind = RuntimeCopyKind::private_static;
  std::optional<std::string> version;   ///< major.minor where data tells it; never a guess
  std::optional<int> api_level;         ///< highest version in the callback table, 13000 = 13.0
  std::vector<std::string> candidates;  ///< releases that this level can be
  std::string evidence;
  std::optional<std::string> generation;  ///< unified only: "<CUDA major>_<anchor ABI>"
};

/// A dynamic symbol that is the host stub of a kernel of this same file, visible to other objects.
struct ExportedStub {
  std::string name;
  bool weak = false;
};

/// One needed version of one needed library (DT_VERNEED).
struct VersionNeed {
  std::string library;
  std::string version;
  std::vector<std::string> symbols;  ///< the undefined symbols that ask for it, in the order of the symbol table
};

/// A library that a file opens by name while it runs: nothing in its headers tells of it.
struct Companion {
  std::string name;        ///< as the file's own data spell it, "libnvrtc-builtins.so.13.0"
  bool always = false;     ///< false: some functions only want it, and others work without
  std::string wanted_for;  ///< "every compilation"
};

/// Who makes this file, where its content proves it: the soname is in a table AND its own symbol-version
/// node or its exports agree. The file's name alone never counts.
struct Vendor {
  enum class Role { toolkit, driver, driver_stub } role = Role::toolkit;
  std::string name;  ///< "cuBLAS", "CUDA driver"
  std::string evidence;
  std::vector<Companion> opens;  ///< sorted by name
};

/// All that is known of one file or member.
struct FileRecord {
  std::string path;  ///< as given; members: <package>!/<member>, nested where needed
  std::uint64_t size = 0;
  Format format = Format::other;
  std::optional<std::string> machine;  ///< "x86_64", "aarch64", …
  std::optional<std::string> type;     ///< "executable", "shared", "relocatable", …
  std::optional<std::string> soname;   ///< PE: its name in its own export directory
  std::vector<std::string> needed;
  std::vector<std::string> delayed;  ///< PE: those of `needed` that are loaded at the first call into them only
  std::vector<std::string> rpath;    ///< DT_RPATH split at ':'; {} where there is none, {""} where it is empty
  std::vector<std::string> runpath;  ///< DT_RUNPATH likewise
  bool nodeflib = false;             ///< DF_1_NODEFLIB
  bool nodelete = false;             ///< DF_1_NODELETE
  bool symbolic = false;             ///< DT_SYMBOLIC / DF_SYMBOLIC
  std::optional<std::string> interpreter;
  std::vector<std::string> version_definitions;  ///< DT_VERDEF names, the base one left out
  std::vector<VersionNeed> version_needs;
  std::optional<Vendor> vendor;
  std::vector<RuntimeCopy> runtime_copies;
  std::vector<FatBinary> fat_binaries;
  std::optional<std::vector<ExportedStub>> exported_stubs;  ///< null where kernel names were not read
  std::vector<Problem> problems;
  bool unreadable = false;  ///< the file could not be opened or read (exit code 2)
};

/// How what a package holds gets onto a machine: an archive is unpacked anywhere, the files of a Debian package and of
/// an RPM at "/" of a machine of their kind.
enum class Unpacking { anywhere, deb, rpm };

/// What ships together. Kept in the record, so that a saved one is judged as the files themselves would be.
struct BundleRecord {
  enum class Kind { files, folder, package } kind = Kind::files;
  std::string name;                          ///< path of the package or folder; "" for files named one by one
  std::vector<std::string> files;            ///< paths of the records in it, sorted
  std::map<std::string, std::string> links;  ///< symbolic links that ship with them: path -> what the link says
  /// Of a package: what its ld.so.conf and the files of its ld.so.conf.d name: path of such a file -> folders.
  std::map<std::string, std::vector<std::string>> loader_folders = {};
  /// Of a package: it and each package in it, told by their content: path -> how what it holds gets onto a machine. A
  /// member lies in the innermost of them that its path begins with.
  std::map<std::string, Unpacking> packages = {};
};

/// What `cudeploy inspect` found, files sorted by path, bundles by name.
struct InspectRecord {
  std::vector<FileRecord> files;
  std::vector<BundleRecord> bundles;
};

/// The most bytes that one device code image may take when decompressed; a larger one is not looked into.
inline constexpr std::uint64_t largest_image = 128u << 20;

/// How much of a file to read. By default headers only.
struct ReadOptions {
  bool payloads = false;   ///< decompress each image, fill `toolkit`, find faults inside payloads
  bool kernels = false;    ///< list the kernels of each image
  bool for_audit = false;  ///< decompress as much as a verdict needs: kernel counts, exported stubs
};

/// A file name as Windows compares it: in small letters. The needs of a PE file are spelt as its linker liked.
std::string windows_name(std::string_view name);

/// The names of the schema: "lto-ir", "private-static", …
std::string_view to_string(Format format);
std::string_view to_string(ImageKind kind);
std::string_view to_string(Compression compression);
std::string_view to_string(RuntimeCopyKind kind);
std::string_view to_string(Unpacking unpacking);
/// Throws std::runtime_error where it is the name of none.
Unpacking unpacking_of(std::string_view name);

/// Keys in the order of the schema, so that a person finds `path` first.
nlohmann::ordered_json to_json(const FileRecord& file);
nlohmann::ordered_json to_json(const InspectRecord& record);

/// Throws std::runtime_error naming the JSON field, what was expected and what was found.
FileRecord file_record_from_json(const nlohmann::json& value);
/// A record without `bundles` (written by somebody else) gets one bundle per package named in the paths, and
/// one for all other files; a package without `packages` gets them by its paths.
InspectRecord inspect_record_from_json(const nlohmann::json& value);

/// `packages` of a bundle of which nothing is left but the paths of its files: by the names in them.
std::map<std::string, Unpacking> packages_by_name(const std::vector<std::string>& files);

}  // namespace cudeploy
