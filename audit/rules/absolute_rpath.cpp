// An absolute search path names a folder of the machine that built the file. Elsewhere it is empty at best; at worst
// somebody else can fill it.
#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "closure.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

/// Folders in which any user of a usual machine can make files.
bool is_world_writable(std::string_view folder) {
  const std::string path = normal_path(folder);
  for (const std::string_view open : {"/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/usr/tmp"})
    if (path.starts_with(open) && (path.size() == open.size() || path[open.size()] == '/')) return true;
  return false;
}

bool is_home(std::string_view folder) { return folder.starts_with("/home/"); }

/// Whether a package that is unpacked at "/" holds files in this folder: then it names itself.
bool is_own_folder(const Subject& subject, std::string_view entry) {
  const std::string& path = subject.file.path;
  const std::string_view root = package_root(subject.bundle, path);
  if (!is_unpacked_at_root(subject.bundle, root)) return false;
  const std::string folder = normal_path(entry) + "/";
  return std::any_of(subject.bundle.files.begin(), subject.bundle.files.end(), [&](const FileRecord* file) {
    return file->path.starts_with(root) && normal_path(file->path.substr(root.size())).starts_with(folder);
  });
}

/// Whether a relative entry climbs out of what ships and goes on into a system's folder: absolute in all but name.
/// Where the top is, is known of folders and packages only; one that is unpacked at "/" holds such folders itself.
bool is_absolute_in_disguise(const Subject& subject, std::string_view entry) {
  const auto below = below_origin(entry);
  if (!below) return false;
  std::string_view inner = subject.file.path;
  const std::string& top = subject.bundle.name;
  if (const std::string_view root = package_root(subject.bundle, inner); !root.empty()) {
    if (is_unpacked_at_root(subject.bundle, root)) return false;
    inner.remove_prefix(root.size() + 1);
  } else if (!top.empty() && inner.starts_with(top)) {
    inner.remove_prefix(top.size());
  } else {
    return false;
  }
  while (inner.starts_with('/')) inner.remove_prefix(1);
  const std::string folder(inner.substr(0, inner.size() - file_name(inner).size()));
  const std::string place =
      normal_path(folder + "./" + std::string(below->substr(std::min(below->find('/'), below->size()))));
  std::string_view first = place;
  if (!first.starts_with("../")) return false;
  while (first.starts_with("../")) first.remove_prefix(3);
  first = first.substr(0, first.find('/'));
  // A lib folder beside the one that was named is no system's: somebody judges the bin folder alone.
  for (const std::string_view system : {"usr", "opt", "home", "root", "tmp", "var"})
    if (first == system) return true;
  return false;
}

struct Entry {
  std::string_view kind;
  std::string text;
};

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!is_loadable(file) || file.format != Format::elf) return Verdict::not_applicable("has no search path");
  std::vector<Entry> entries;
  if (subject.stage == Stage::link) {
    if (!subject.install_rpath)
      return Verdict::not_applicable("the search path after installation was not given (--install-rpath)");
    for (const std::string& entry : *subject.install_rpath) entries.push_back({"install RPATH", entry});
  } else {
    if (!names_no_folder(file.rpath))
      for (const std::string& entry : file.rpath) entries.push_back({"RPATH", entry});
    if (!names_no_folder(file.runpath))
      for (const std::string& entry : file.runpath) entries.push_back({"RUNPATH", entry});
  }
  std::vector<Evidence> evidence;
  std::set<std::string> told;
  bool vendor = false;
  for (const auto& [kind, entry] : entries) {
    const bool disguised = is_absolute_in_disguise(subject, entry);
    if (below_origin(entry) && !disguised) continue;
    std::string message, hint;
    bool open_to_others = false;
    if (disguised) {
      message = fmt::format("{} entry '{}' climbs out of the bundle into a folder of the system", kind, entry);
      hint =
          "ship what is needed and name its folder, for example $ORIGIN/../lib; the system's own folders need no entry";
    } else if (entry.starts_with('/')) {
      if (is_own_folder(subject, entry)) continue;
      open_to_others = is_world_writable(entry);
      message = fmt::format("{} entry '{}' is absolute", kind, entry);
      if (open_to_others)
        message += ", in a folder where anybody can put a library";
      else if (is_home(entry))
        message += ", in the home of whoever built it";
      hint = "use a path relative to the file, for example $ORIGIN/../lib ('cudeploy_rpath' in CMake)";
    } else {
      open_to_others = true;
      message =
          fmt::format("{} entry '{}' is searched in the current directory of whoever starts the program", kind, entry);
      hint = entry.empty()
                 ? "remove the empty entry; CMake leaves such ones in its build tree: audit what is installed or "
                   "packaged, or use '--stage link'"
                 : "start the entry with $ORIGIN, for example $ORIGIN/../lib, or remove it";
    }
    // NVIDIA's licence forbids to change its files, so only what is a way in for others is worth a finding.
    if (file.vendor && !open_to_others) {
      vendor = true;
      continue;
    }
    // CMake fills the search path of its build tree up with ':', so that the installed one fits in: one finding,
    // not 23.
    if (!told.insert(message).second) continue;
    evidence.push_back({std::move(message), std::move(hint), {}});
  }
  if (!evidence.empty()) return Verdict::flagged(std::move(evidence));
  if (vendor) return Verdict::not_applicable(fmt::format("{} is NVIDIA's own file", file.vendor->name));
  return Verdict::clean();
}

}  // namespace

extern const Rule absolute_rpath;
constinit const Rule absolute_rpath = {
    .id = {},
    .name = "absolute-rpath",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "a search path (RPATH, RUNPATH) that is not relative to the file itself",
    .why =
        "The folder exists on the build machine. On other machines the libraries in it are not found, or others of "
        "the same name are, from whatever toolkit lies there. A folder that anybody can write to, an empty entry "
        "or a relative one lets other people's code into the process. The RPATH of a CMake build tree is absolute "
        "by design, so after a link the install RPATH is judged. An entry that climbs from $ORIGIN out of the bundle "
        "to /usr and the like is absolute in all but name. A Debian or RPM package may name its own folders.",
    .fix =
        "Use $ORIGIN: 'cudeploy_rpath' or INSTALL_RPATH \"$ORIGIN/../lib\". INSTALL_RPATH_USE_LINK_PATH puts build "
        "folders into the result: leave it off.",
    .source =
        "ld.so(8); PaddlePaddle/Paddle#78285; tenstorrent/tt-metal#53604; pytorch/builder#1183; "
        "ggml-org/llama.cpp#1505; wheels bitsandbytes 0.50.2 (/usr/local/cuda-12.4), catboost 1.2.10 (a home "
        "folder), triton 3.9, k2 1.23.4.",
    .check = check,
};

}  // namespace cudeploy::rules
