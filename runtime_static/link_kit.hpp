// A link joins the one state only when every API name of exactly the archive that is linked is routed. A list
// kept by hand would be wrong with the next toolkit, so one generator reads the archive and writes what the
// link needs. CMake, Make, Meson and setuptools all use its result; none of them knows a name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cudeploy {

/// Whether the anchor is shown to `nm -D`, gdb and the audit under a symbol version. The meeting of copies
/// never depends on it. GNU ld takes no second version script beside ours: hidden then.
enum class AnchorVisibility { exported, hidden };

struct LinkKitOptions {
  std::string cudart;   ///< path of libcudart_static.a
  std::string out;      ///< folder to write into; made when missing
  std::string sources;  ///< folder with anchor.hpp and join.cpp: installed share/cudeploy/runtime_static, or the tree
  AnchorVisibility anchor = AnchorVisibility::exported;
};

/// What was written, all paths absolute. The same facts stand in `link-kit.json` (schema cudeploy/link-kit/1).
struct LinkKit {
  std::string cudart;
  std::string machine;     ///< "x86_64" or "aarch64"
  int cuda_major = 0;      ///< 13
  int api_level = 0;       ///< highest version in the callback table, 13000
  std::string generation;  ///< "13_1": CUDA major, anchor ABI
  AnchorVisibility anchor = AnchorVisibility::exported;
  std::vector<std::string> names;    ///< routed names, sorted
  std::vector<std::string> sources;  ///< to compile, PIC, into a static library or the target itself
  std::vector<std::string> include_directories;
  std::vector<std::string> compile_options;
  std::vector<std::string> link_options;  ///< for the compiler driver
  std::string response_file;              ///< what link_options refers to; relink when it changes
  std::vector<std::string> libraries;     ///< behind the compiled sources, in this order
};

/// API names that the archive defines (`^(__)?cuda[A-Z]`, global functions), its machine and its major.
struct RuntimeArchive {
  std::string machine;
  int api_level = 0;
  std::uint64_t id = 0;            ///< FNV-1a of the file's bytes
  std::vector<std::string> names;  ///< sorted
};

/// Throws std::runtime_error: `path: error: what was expected, what was found`, then a hint line.
RuntimeArchive read_runtime_archive(const std::string& path);

/// Writes wrap.rsp, entries.cpp, cudeploy_copy.hpp, anchor.map (exported only) and link-kit.json. A file
/// whose content stays the same is not touched, so an incremental build does not link again.
/// Throws std::runtime_error as above.
LinkKit make_link_kit(const LinkKitOptions& options);

}  // namespace cudeploy
