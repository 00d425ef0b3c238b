// A bundle that starts where it was built may lean on that machine's libraries. On a bare one the loader stops before
// main, with one missing name at a time; here are all of them, with what was searched.
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>

#include "closure.hpp"
#include "rule.hpp"
#include "system_names.hpp"

namespace cudeploy::rules {
namespace {

std::string hint_for(const Need& need, const FileRecord& file) {
  if (need.name.find('/') != std::string::npos)
    return "give the library a soname and link it again: a needed path is opened as it stands";
  if (need.elsewhere.file) {
    if (file_name(need.elsewhere.path) != need.name && file.format == Format::elf)
      return fmt::format("{} has this soname, but the loader looks for the file name: ship a file or link '{}'",
                         need.elsewhere.path, need.name);
    if (file.vendor)
      return fmt::format(
          "{} is in the bundle, but NVIDIA's file has no search path to it and may not be changed: let the object that "
          "loads it need {} first",
          need.elsewhere.path, need.name);
    return fmt::format("{} is in the bundle, but no search path leads there: add one relative to $ORIGIN",
                       need.elsewhere.path);
  }
  if (file.format == Format::pe)
    return fmt::format(
        "ship {} with the bundle, or name it in 'provided' of the policy where the target machine has it", need.name);
  if (is_driver_name(need.name))
    return "link with the toolkit's stub, whose soname is libcuda.so.1: the driver has no unversioned name";
  return fmt::format(
      "ship {} with the bundle and a search path to it, or name it in 'provided' of the policy where the "
      "target machine has it",
      need.name);
}

std::string searched(const Need& need) {
  if (need.tried.empty()) return "no search path";
  constexpr std::size_t most = 8;
  if (need.tried.size() <= most) return fmt::format("{}", fmt::join(need.tried, "; "));
  return fmt::format("{}; and {} more", fmt::join(need.tried.begin(), need.tried.begin() + most, "; "),
                     need.tried.size() - most);
}

/// After a link nobody knows what will lie beside the file; these names no bundle can satisfy.
bool is_never_shipped(const std::string& name) {
  return (name.find('/') != std::string::npos && !below_origin(name)) || is_driver_name(name);
}

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!is_loadable(file)) return Verdict::not_applicable("is not loaded into a process");
  if (file.needed.empty()) return Verdict::clean("needs no library");
  const auto occurrences = subject.closure.occurrences.find(&file);
  if (occurrences == subject.closure.occurrences.end()) return Verdict::not_applicable("is not loaded into a process");

  std::map<std::string, Evidence> missing;
  std::set<std::string> lucky;
  for (const Occurrence& occurrence : occurrences->second) {
    const Process& process = subject.closure.processes[occurrence.process];
    for (const Need& need : process.objects[occurrence.object].needs) {
      if (need.provider == Provider::nobody_yet)
        lucky.insert(fmt::format("{} is loaded at the first call into it, and does not ship", need.name));
      if (need.provider == Provider::already_loaded)
        lucky.insert(fmt::format("{} is found only because {} loaded it before", need.name, need.via));
      if (need.provider != Provider::missing || missing.contains(need.name)) continue;
      if (subject.stage == Stage::link && !is_never_shipped(need.name)) continue;
      std::string message = fmt::format("needs {}, which is not found ({})", need.name, searched(need));
      if (process.root() != &file) message += fmt::format(" when loaded by {}", process.root()->path);
      Evidence evidence{std::move(message), hint_for(need, file), {}};
      if (need.elsewhere.file) evidence.related.push_back(need.elsewhere.file->path);
      missing.emplace(need.name, std::move(evidence));
    }
  }
  if (missing.empty()) return Verdict::clean(fmt::format("{}", fmt::join(lucky, "; ")));
  std::vector<Evidence> evidence;
  for (auto& [name, one] : missing) evidence.push_back(std::move(one));
  return Verdict::flagged(std::move(evidence));
}

}  // namespace

extern const Rule needed_unresolved;
constinit const Rule needed_unresolved = {
    .id = {},
    .name = "needed-unresolved",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "a needed library that the loader would not find on a machine with a driver and nothing else of CUDA's",
    .why =
        "The program does not start: 'cannot open shared object file'. What counts is the bundle itself by its own "
        "search paths, the driver's libraries, the base system (glibc's own libraries, the loader, libgcc_s, "
        "libstdc++; on Windows the system's DLLs and the Visual C++ runtime) and what the policy names in "
        "'provided'; never what the build machine has. The loader looks for file names: a file libx.so.1.2 "
        "with the soname libx.so.1 is not found without a link libx.so.1. An RPATH is inherited by what its owner "
        "loads, a RUNPATH is not. $LIB is lib/x86_64-linux-gnu on Debian, lib64 on Fedora and SUSE, lib on Arch: in a "
        ".deb or .rpm the library has to be found with its own, elsewhere with each. $PLATFORM is x86_64, but haswell "
        "on each of Intel's processors since then, and xeon_phi: it has to be found with all three. LD_LIBRARY_PATH "
        "does not count, nor do the folders tls, x86_64 and haswell, where only loaders before glibc 2.37 look first. "
        "On Windows the folders are the program's choice, so any folder of the bundle will do, and a DLL that is "
        "delay-loaded need not be there. After a link nobody knows what will be shipped beside the file: judged there "
        "is what cannot be, a path as a name and the driver's name without version.",
    .fix =
        "Ship the library in a folder that the needing file's own search path names relative to $ORIGIN, or let the "
        "package depend on it and say so in the policy.",
    .source =
        "ld.so(8); spiceai/spiceai#4471; Mesh-LLM/mesh-llm#1778; NVIDIA/cuml#5300; openvdb/fvdb-core#648; "
        "pytorch/pytorch#183971; sandrohanea/whisper.net#509 (Windows).",
    .check = check,
};

}  // namespace cudeploy::rules
