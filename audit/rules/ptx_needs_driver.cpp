// A driver compiles PTX up to its own version only. Cubins run under minor-version compatibility; the JIT path does
// not.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "gpu.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

/// What one PTX version asks for, and where.
struct Ask {
  std::string driver;  ///< or "unknown, at least …"
  std::size_t containers = 0;
  std::vector<std::string> gpus;
};

/// The wanted ones, or all where nothing was said.
std::vector<GpuTarget> gpus_to_look_at(const Policy& policy) {
  if (!policy.gpus.empty()) return policy.gpus;
  std::vector<GpuTarget> all;
  for (const Gpu& gpu : known_gpus()) all.push_back(gpu.target);
  return all;
}

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!subject.policy.driver)
    return Verdict::not_applicable("no oldest driver was named (--driver, or driver in the policy)");
  if (file.fat_binaries.empty()) return Verdict::not_applicable("no device code");
  const auto wanted = driver_version(*subject.policy.driver);
  if (!wanted) return Verdict::not_applicable("the driver's version is not understood");

  std::map<std::string, Ask> asks;  // by PTX version
  const JudgedCode code(file);
  for (const FatBinary* container : code.fat_binaries) {
    std::map<std::string, bool> counted;
    for (const GpuTarget gpu : gpus_to_look_at(subject.policy)) {
      const ContainerFit serving = fit(*container, gpu);
      if (serving.fit != Fit::jit || serving.image->kind != ImageKind::ptx || !serving.image->ptx_version) continue;
      // A GPU that the wanted driver does not know yet will have a newer one.
      const Gpu* row = find_gpu(gpu);
      if (row && !row->first_driver.empty() && *driver_version(driver_number_for(file, row->first_driver)) > *wanted)
        continue;
      const std::string& version = *serving.image->ptx_version;
      auto driver = driver_of_ptx(version);
      if (driver) driver = driver_number_for(file, *driver);
      if (driver && *driver_version(*driver) <= *wanted) continue;
      Ask& ask = asks[version];
      ask.driver = driver.value_or("newer than any that is known");
      if (!counted[version]) ++ask.containers;
      counted[version] = true;
      const std::string name = to_string(gpu);
      if (std::find(ask.gpus.begin(), ask.gpus.end(), name) == ask.gpus.end()) ask.gpus.push_back(name);
    }
  }
  if (code.fat_binaries.empty()) return Verdict::not_applicable("no kernels");
  std::vector<Evidence> evidence;
  for (const auto& [version, ask] : asks)
    evidence.push_back(
        {fmt::format("PTX {} in {} fat {} needs driver {}, and driver {} is wanted: GPUs without a cubin of their own "
                     "({}) cannot compile it",
                     version, ask.containers, ask.containers == 1 ? "binary" : "binaries", ask.driver,
                     *subject.policy.driver, fmt::join(ask.gpus, ", ")),
         "add cubins for these GPUs, build with an older toolkit, or ask for a newer driver",
         {}});
  return evidence.empty() ? Verdict::clean() : Verdict::flagged(std::move(evidence));
}

}  // namespace

extern const Rule ptx_needs_driver;
constinit const Rule ptx_needs_driver = {
    .id = {},
    .name = "ptx-needs-driver",
    .severity = Severity::warning,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "PTX of a version that the oldest wanted driver cannot compile",
    .why =
        "nvcc writes the PTX version of its own toolkit, and a driver compiles no newer one than it knows: 'the "
        "provided PTX was compiled with an unsupported toolchain' (222). Minor-version compatibility, which lets "
        "cubins of CUDA 12.8 run on driver 525, does not hold for PTX. Only GPUs without a cubin of their own "
        "meet it, so it is seen on the newest machines first.",
    .fix =
        "Add cubins for the GPUs that are named, so that nothing has to be compiled. The PTX version cannot be lowered "
        "by an option: an older toolkit, or a newer driver as the floor, are the other ways.",
    .source =
        "CUDA Compatibility, minor-version compatibility; PTX ISA release history; haotian-liu/LLaVA#1418; "
        "openucx/ucx#8569; NVIDIA/nvbandwidth#61; vllm-project/vllm#28305.",
    .check = check,
};

}  // namespace cudeploy::rules
