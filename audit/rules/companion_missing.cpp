// Some of NVIDIA's libraries open others by name, which no header tells. A bundle collected with ldd starts without
// them, and fails at the first call that wants one.
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>

#include "closure.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

/// The closure of the bundle, were what the file always opens a need of it: the loader searches both alike, the
/// folders of whoever asks first.
struct Asked {
  FileRecord file;
  Bundle bundle;
  Closure closure;
};

void ask(const Subject& subject, Asked& asked) {
  asked.file = subject.file;
  for (const Companion& companion : subject.file.vendor->opens)
    if (companion.always) asked.file.needed.push_back(companion.name);
  asked.bundle = subject.bundle;
  std::replace(asked.bundle.files.begin(), asked.bundle.files.end(), &subject.file,
               static_cast<const FileRecord*>(&asked.file));
  asked.closure = close_over(asked.bundle, subject.policy);
}

/// By the time a name is opened all needs are loaded, also those that come later in the loader's order.
bool is_loaded(const Process& process, const std::string& name) {
  return std::any_of(process.objects.begin(), process.objects.end(),
                     [&](const Loaded& object) { return object.file->soname == name; });
}

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!is_loadable(file)) return Verdict::not_applicable("is not loaded into a process");
  const auto always = [](const Companion& companion) { return companion.always; };
  if (!file.vendor || std::none_of(file.vendor->opens.begin(), file.vendor->opens.end(), always))
    return Verdict::not_applicable("is not known to open a library by name whatever it does");
  Asked asked;
  ask(subject, asked);

  std::map<std::string, Evidence> missing;
  std::set<std::string> left_to_others;
  for (const Occurrence& occurrence : asked.closure.occurrences[&asked.file]) {
    const Process& process = asked.closure.processes[occurrence.process];
    for (const Need& need : process.objects[occurrence.object].needs) {
      const auto companion = std::find_if(file.vendor->opens.begin(), file.vendor->opens.end(),
                                          [&](const Companion& one) { return one.always && one.name == need.name; });
      if (companion == file.vendor->opens.end() || need.provider != Provider::missing || missing.contains(need.name) ||
          is_loaded(process, need.name))
        continue;
      if (!need.elsewhere.file || file_name(need.elsewhere.path) != need.name) {
        Evidence evidence{
            fmt::format("opens {} by name, for {}, which is not in the bundle", need.name, companion->wanted_for),
            fmt::format("ship {} of the same release beside it", need.name),
            {}};
        if (need.elsewhere.file) {
          evidence.hint = fmt::format("{} has this soname, but is opened by its file name: ship it under its own",
                                      need.elsewhere.path);
          evidence.related.push_back(need.elsewhere.file->path);
        }
        missing.emplace(need.name, std::move(evidence));
      } else if (process.root() == &asked.file) {
        left_to_others.insert(
            fmt::format("{} is in the bundle, but no search path of this file leads there: who loads "
                        "it has to bring one",
                        need.name));
      } else {
        missing.emplace(
            need.name,
            Evidence{fmt::format("opens {} by name, for {}: {} is in the bundle, but no search path leads there when "
                                 "{} loads it",
                                 need.name, companion->wanted_for, need.elsewhere.path, process.root()->path),
                     fmt::format("NVIDIA's file may not be changed, and a RUNPATH is not passed on: let {} need {} too "
                                 "(--no-as-needed), or link it with an RPATH (--disable-new-dtags)",
                                 process.root()->path, need.name),
                     {need.elsewhere.file->path}});
      }
    }
  }
  if (missing.empty()) return Verdict::clean(fmt::format("{}", fmt::join(left_to_others, "; ")));
  std::vector<Evidence> evidence;
  for (auto& [name, one] : missing) evidence.push_back(std::move(one));
  return Verdict::flagged(std::move(evidence));
}

}  // namespace

extern const Rule companion_missing;
constinit const Rule companion_missing = {
    .id = {},
    .name = "companion-missing",
    .severity = Severity::error,
    .at_link = false,
    .at_package = true,
    .since = "1.0",
    .summary = "a library of NVIDIA's without the one that it opens by name while it runs",
    .why =
        "libnvrtc opens libnvrtc-builtins of its own release (13.0 asks for libnvrtc-builtins.so.13.0), and cuDNN its "
        "parts. No header says so: ldd does not show them, tools that collect libraries leave them behind, and the "
        "program starts. Then the first compilation fails with 'failed to open libnvrtc-builtins.so' "
        "(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, 7), or a part of cuDNN is taken from the system in another version. "
        "A file that a wheel tool renamed is not found either. The name is searched as a need is, by the search path "
        "of the library itself: the libnvrtc of some toolkits has none, so builtins beside it are not enough there.",
    .fix =
        "Ship the files that are named, of the same release and under their own names. What the target machine has, "
        "'provided' of the policy can name.",
    .source =
        "dlopen(3) (a RUNPATH counts for its owner only); NVRTC and cuDNN as their files and LD_DEBUG tell; "
        "NVIDIA/cuda-quantum#1601; PaddlePaddle/Paddle#77287; pytorch/pytorch#167614, #52365 (renamed), #185512 "
        "(cuDNN); NixOS/nixpkgs#225240; wheel ctranslate2 4.8.5 for Windows (cuDNN); nanoporetech/dorado#1319; "
        "NVIDIA/numba-cuda#196.",
    .check = check,
};

}  // namespace cudeploy::rules
