// Lists of architectures have gaps that nobody sees: a GPU between the oldest and the newest served one gets nothing,
// because its cubins have another major and the PTX is of a newer architecture.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "gpu.hpp"
#include "loose_code.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

/// Tegra's host is aarch64: a hole there is none for x86_64.
bool can_be_in(const Gpu& gpu, const FileRecord& file) { return !gpu.tegra || file.machine == "aarch64"; }

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!subject.policy.gpus.empty()) return Verdict::not_applicable("the wanted GPUs were named");
  if (file.fat_binaries.empty()) return Verdict::not_applicable("no device code");
  if (is_loose_code(file))
    return Verdict::not_applicable("loose device code: which files belong together is not known");
  if (file.vendor) return Verdict::not_applicable(fmt::format("{} is NVIDIA's own file", file.vendor->name));

  std::optional<GpuTarget> oldest, newest;
  std::set<std::string> present;
  for (const FatBinary& container : file.fat_binaries) {
    if (!is_judged(container)) continue;
    for (const Image& image : container.images) {
      if (!image.arch || image.kind == ImageKind::other) continue;
      const GpuTarget made_for = gpu_of_arch(*image.arch);
      oldest = oldest ? std::min(*oldest, made_for) : made_for;
      newest = newest ? std::max(*newest, made_for) : made_for;
      present.insert(image_name(image));
    }
  }
  if (!oldest) return Verdict::not_applicable("no kernels");

  std::vector<std::string> holes;
  const JudgedCode code(file);
  std::size_t containers = 0, judged = 0;
  for (const Gpu& gpu : known_gpus()) {
    if (gpu.target < *oldest || gpu.target > *newest || !can_be_in(gpu, file)) continue;
    const Coverage found = coverage(code, gpu.target);
    judged = found.judged();
    if (found.none == 0) continue;
    holes.push_back(describe(gpu.target));
    containers = std::max(containers, found.none);
  }
  if (holes.empty()) return Verdict::clean();
  const std::string where =
      judged == 1 ? "the device code has" : fmt::format("up to {} of {} fat binaries have", containers, judged);
  return Verdict::flagged(
      {{fmt::format("{} nothing for {}, between {} and {} which it serves: there is {}", where, fmt::join(holes, ", "),
                    to_string(*oldest), to_string(*newest), fmt::join(present, ", ")),
        "add these architectures, or PTX of the oldest one; name the wanted GPUs (--gpus) to have "
        "exactly them judged",
        {}}});
}

}  // namespace

extern const Rule coverage_hole;
constinit const Rule coverage_hole = {
    .id = {},
    .name = "coverage-hole",
    .severity = Severity::warning,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "a GPU generation between the oldest and the newest served one that gets neither cubin nor PTX",
    .why =
        "CUDA cubins run within their major, PTX on what is newer than itself, Tegra and desktop never share cubins. "
        "So a list such as 80, 90, 120 with PTX of 120 serves nothing of 10.x, and all-major of CUDA 12.9 nothing "
        "of 11.0: the program starts and fails at its first launch (209). Tegra generations are looked at in files "
        "for aarch64 only, where they live.",
    .fix =
        "Add the architectures, or keep PTX of the oldest one too. Where the hole is meant, name the wanted GPUs: then "
        "only gpu-not-covered judges.",
    .source =
        "CMake, Modules/Internal/CMakeCUDAArchitecturesAll.cmake; rapids-cmake architecture lists; jax-ml/jax#40487; "
        "vllm-project/vllm#49387; wheels transformer_engine_cu12 2.20.2, onnxruntime-gpu 1.31.1.",
    .check = check,
};

}  // namespace cudeploy::rules
