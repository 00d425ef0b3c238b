// A CUDA major has a floor below which no driver works with it, whatever the GPU. A build host with a new driver never
// meets it; the old machine meets it at the first call.
#include <fmt/format.h>

#include <map>
#include <utility>

#include "gpu.hpp"
#include "rule.hpp"
#include "runtime_states.hpp"

namespace cudeploy::rules {
namespace {

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!subject.policy.driver)
    return Verdict::not_applicable("no oldest driver was named (--driver, or driver in the policy)");
  const auto wanted = driver_version(*subject.policy.driver);
  if (!wanted) return Verdict::not_applicable("the driver's version is not understood");

  std::map<int, std::string> majors;  // and what tells it
  bool named = false;                 // one copy that is needed by name tells all such names
  for (const RuntimeCopy& copy : file.runtime_copies) {
    if (copy.kind == RuntimeCopyKind::stand_in) continue;
    if (copy.kind == RuntimeCopyKind::needs_shared && !copy.version && std::exchange(named, true)) continue;
    for (const int major : majors_of(file, copy)) majors.emplace(major, "its CUDA runtime is");
  }
  for (const FatBinary& container : file.fat_binaries)
    if (is_judged(container))
      if (const auto major = toolkit_major_of(container)) majors.emplace(*major, "its device code is");
  if (majors.empty()) return Verdict::not_applicable("nothing tells a CUDA version");

  // The newest asks for the most.
  const auto& [major, what] = *majors.rbegin();
  auto floor = driver_of_major(major);
  if (!floor) return Verdict::not_applicable(fmt::format("no driver floor is known for CUDA {}", major));
  floor = driver_number_for(file, *floor);
  if (*wanted >= *driver_version(*floor)) return Verdict::clean();
  return Verdict::flagged(
      {{fmt::format("{} of CUDA {}, which needs driver {} or newer, and driver {} is wanted", what, major, *floor,
                    *subject.policy.driver),
        fmt::format("build with a toolkit whose drivers are older, or ask for driver {} or newer", *floor),
        {}}});
}

}  // namespace

extern const Rule toolkit_needs_driver;
constinit const Rule toolkit_needs_driver = {
    .id = {},
    .name = "toolkit-needs-driver",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "made by a CUDA major whose oldest driver is newer than the oldest wanted one",
    .why =
        "Within one CUDA major a driver serves all its releases, from the first one on (minor-version compatibility). "
        "Below that, each CUDA call fails with 'CUDA driver version is insufficient for CUDA runtime version' (35), on "
        "all GPUs, and neither cubins nor PTX help.",
    .fix =
        "Build with a toolkit of an older major (12.x runs on driver 525.60.13, 11.x on 450.80.02; 528.33 and 452.39 "
        "as Windows counts), or say that a newer driver is needed.",
    .source =
        "CUDA Toolkit release notes, CUDA toolkit and minimum required driver version for minor-version compatibility; "
        "docs.nvidia.com/deploy/cuda-compatibility; sandrohanea/whisper.net#509.",
    .check = check,
};

}  // namespace cudeploy::rules
