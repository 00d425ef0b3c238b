// A statically linked CUDA runtime leaves no name behind: its symbols are hidden, its strings merged, its sections
// gone after strip. What stays is its callback table, an array in relocated data with one record per API function
// and, in it, the release that brought the function: it counts the copies and tells their version. Three 16-byte
// ids beside it must agree with the count.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "find_bytes.hpp"
#include "inspect_record.hpp"
#include "pe.hpp"
#include "slice.hpp"

namespace cudeploy {

/// A part of the file and the address that it gets.
struct MappedPart {
  std::uint64_t address = 0;
  Extent where;
  bool holds_pointers = false;  ///< that are set when the file is loaded
};

struct AddressRange {
  std::uint64_t first = 0;
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();

  bool holds(std::uint64_t address) const { return first <= address && address <= last; }
  bool meets(AddressRange other) const { return first <= other.last && other.first <= last; }
};

/// What the search needs to know of a file of any format: what lies at an address, and where pointers go.
struct MemoryView {
  std::vector<MappedPart> parts;
  bool pointers_in_place = false;  ///< slots hold absolute addresses (no PIE, RELR, PE)
  /// Calls back for each relocated pointer (address of the slot, where it points) with both in their range: a large
  /// library has 400,000, and few matter. May be empty.
  std::function<void(AddressRange slots, AddressRange targets,
                     const std::function<void(std::uint64_t, std::uint64_t)>& each)>
      relocations;
};

/// The view of an ELF file.
MemoryView memory_view(const Bytes& bytes, const ElfLayout& layout);
/// The view of a PE file.
MemoryView memory_view(const PeLayout& layout);

/// The names and ids that a runtime leaves in a file of this format. They are looked for among the constants, without
/// device code; what is found comes back to the functions below.
std::span<const Needle> runtime_marks(Format format);

/// One callback table: where, how long, and the newest release that it names.
struct CallbackTable {
  std::uint64_t address = 0;
  std::size_t records = 0;
  int api_level = 0;  ///< 13000 is 13.0
};

/// All callback tables, by address. Ids that contradict their number become a problem.
std::vector<CallbackTable> find_callback_tables(const Bytes& bytes, const MemoryView& view,
                                                std::span<const Found> marks, std::vector<Problem>& problems);

/// Windows, since CUDA 13: the driver's DLL that a loader in the place of the runtime opens; nothing where there is no
/// such loader.
std::optional<std::string> find_hybrid_loader(std::span<const Found> marks);

/// Releases that a runtime with this API level can be, oldest first; empty for a level that is not known. With
/// `open_ended` later releases are possible too.
struct LevelReleases {
  std::vector<std::string> releases;
  bool open_ended = false;
};
LevelReleases releases_of_level(int api_level);

/// What else of a file decides its rows.
struct RuntimeClues {
  std::optional<std::string> generation;      ///< of our note, "<CUDA major>_<anchor ABI>"
  std::function<std::size_t()> exported_api;  ///< counts exported functions named cuda…; called only where it matters
  std::optional<std::string> hybrid_loader;   ///< as find_hybrid_loader
};

/// The rows of one file: record's path, type, soname, needs and version tables are read from `record`.
std::vector<RuntimeCopy> runtime_copies(const std::vector<CallbackTable>& tables, const FileRecord& record,
                                        const RuntimeClues& clues);

}  // namespace cudeploy
