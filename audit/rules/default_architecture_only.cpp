// Where nobody names an architecture, nvcc takes its own default, the oldest that it still supports.
#include <fmt/format.h>

#include <set>

#include "gpu.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!subject.policy.gpus.empty()) return Verdict::not_applicable("the wanted GPUs were named");
  if (file.fat_binaries.empty()) return Verdict::not_applicable("no device code");
  if (file.vendor) return Verdict::not_applicable(fmt::format("{} is NVIDIA's own file", file.vendor->name));
  std::set<std::string> names;
  for (const FatBinary& container : file.fat_binaries) {
    if (!is_judged(container)) continue;
    for (const Image& image : container.images) names.insert(image_name(image));
  }
  if (names.empty()) return Verdict::not_applicable("no kernels");
  for (const auto& [arch, toolkits] : {std::pair("52", "CUDA 11 and 12"), {"75", "CUDA 13"}})
    if (names == std::set<std::string>{std::string("sm_") + arch, std::string("compute_") + arch})
      return Verdict::flagged(
          {{fmt::format("the only device code is sm_{0} and compute_{0}, nvcc's default in {1}: every "
                        "newer GPU compiles all of it at first use",
                        arch, toolkits),
            "name the architectures: GPUS in cudeploy_target, CMAKE_CUDA_ARCHITECTURES, or -gencode",
            {}}});
  return Verdict::clean();
}

}  // namespace

extern const Rule default_architecture_only;
constinit const Rule default_architecture_only = {
    .id = {},
    .name = "default-architecture-only",
    .severity = Severity::warning,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "device code for nvcc's default architecture only, which usually nobody chose",
    .why =
        "Without -gencode or CMAKE_CUDA_ARCHITECTURES nvcc makes sm_52 (CUDA 11, 12) or sm_75 (CUDA 13) and PTX of it. "
        "Each newer GPU compiles everything at first use, for seconds to minutes, and features of newer "
        "architectures are compiled out: kernels that test __CUDA_ARCH__ may do nothing and return zeros.",
    .fix =
        "Name the architectures that the program is for. Where the default is meant, name it as a wanted GPU in the "
        "policy.",
    .source =
        "nvcc documentation, default of -arch; ggml-org/llama.cpp#1959, #13135; LLNL/zfp#178; "
        "Cytnx-dev/Cytnx#1171 (zeros); wheel xllamacpp-cuda12x 0.1.6.",
    .check = check,
};

}  // namespace cudeploy::rules
