// nvcc 12.8 and newer can compress device code with zstd, which drivers before CUDA 12.4's cannot unpack. The error
// that they give speaks of an invalid image, so people look for the fault in the GPU.
#include <fmt/format.h>

#include "gpu.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

constexpr std::string_view first_driver_of_linux = "550.54.14";

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!subject.policy.driver)
    return Verdict::not_applicable("no oldest driver was named (--driver, or driver in the policy)");
  if (file.fat_binaries.empty()) return Verdict::not_applicable("no device code");
  const auto wanted = driver_version(*subject.policy.driver);
  if (!wanted) return Verdict::not_applicable("the driver's version is not understood");
  std::size_t cubins = 0, compressed = 0;
  for (const FatBinary& container : file.fat_binaries) {
    if (!is_judged(container)) continue;
    for (const Image& image : container.images) {
      if (image.kind != ImageKind::cubin) continue;
      ++cubins;
      compressed += image.compression == Compression::zstd;
    }
  }
  if (compressed == 0) return Verdict::clean();
  const std::string first_driver = driver_number_for(file, first_driver_of_linux);
  if (*wanted >= *driver_version(first_driver)) return Verdict::clean();
  return Verdict::flagged(
      {{fmt::format("{} of {} cubins are compressed with zstd, which drivers before {} cannot unpack, and driver {} is "
                    "wanted",
                    compressed, cubins, first_driver, *subject.policy.driver),
        fmt::format("compile with '--compress-mode=speed' (LZ4) or 'none', or ask for driver {} or newer",
                    first_driver),
        {}}});
}

}  // namespace

extern const Rule zstd_needs_driver;
constinit const Rule zstd_needs_driver = {
    .id = {},
    .name = "zstd-needs-driver",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "cubins compressed with zstd, although an older driver than 550.54.14 is wanted",
    .why =
        "The driver answers 'device kernel image is invalid' (200), on GPUs for which the code is made. The modes "
        "size and balance of nvcc's --compress-mode write zstd; with CUDA 13 balance is the default, which leaves "
        "small cubins as they are. Compressed PTX matters to GPUs that have no cubin only.",
    .fix = "Use --compress-mode=speed, which writes LZ4, for builds that have to run on older drivers.",
    .source =
        "nvcc documentation, --compress-mode (not compatible with drivers before CUDA 12.4); ollama/ollama#12258, "
        "#16449; ml-explore/mlx#2407; unslothai/unsloth#12842.",
    .check = check,
};

}  // namespace cudeploy::rules
