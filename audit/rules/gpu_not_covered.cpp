// Whether a GPU is served is decided for each fat binary on its own: one module without code for it is enough to
// fail at its first launch, long after the program started.
#include <fmt/format.h>
#include <set>

#include "gpu.hpp"
#include "loose_code.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

std::string names_of(const std::vector<Image>& images) {
  std::set<std::pair<std::uint32_t, std::string>> names;
  for (const Image& image : images) names.insert({image.arch.value_or(0), image_name(image)});
  std::string text;
  for (const auto& [arch, name] : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "nothing" : text;
}

std::string hint_for(GpuTarget gpu) {
  const int arch = gpu.major * 10 + gpu.minor;
  std::string hint =
      fmt::format("add '-gencode arch=compute_{0},code=sm_{0}', or {0} to GPUS in cudeploy_target", arch);
  if (const Gpu* row = find_gpu(gpu)) {
    hint += fmt::format(" (CUDA {} or newer", row->first_toolkit);
    if (!row->in_newest_toolkit) hint += row->target.major < 5 ? ", before 12.0" : ", before 13.0";
    hint += ")";
  }
  return hint;
}

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (subject.policy.gpus.empty()) return Verdict::not_applicable("no GPU was named (--gpus, or gpus in the policy)");
  std::vector<const FileRecord*> files = {&file};
  std::string noun = "the device code has";
  if (is_loose_code(file)) {
    const FileRecord* first = first_loose_code(subject.bundle);
    if (first != &file)
      return Verdict::not_applicable("loose device code of a bundle is judged as one, at " + first->path);
    files = loose_code(subject.bundle);
    if (files.size() > 1) noun = fmt::format("device code in {} loose files has", files.size());
  }
  if (file.fat_binaries.empty()) return Verdict::not_applicable("no device code");
  if (!is_any_loadable(files)) return Verdict::not_applicable("relocatable device code, not device-linked yet");
  const JudgedCode code(files);
  if (code.fat_binaries.empty()) return Verdict::not_applicable("no kernels");

  std::vector<Evidence> evidence;
  for (const GpuTarget gpu : subject.policy.gpus) {
    const Coverage found = coverage(code, gpu);
    if (found.none == 0) continue;
    // NVIDIA's libraries choose among fat binaries that are each for some GPUs; only having none is a fault.
    if (file.vendor && found.native + found.jit > 0) continue;
    const FatBinary& first = *found.uncovered.front();
    std::string message =
        found.judged() == 1
            ? fmt::format("{} nothing for {}: there is {}", noun, describe(gpu), names_of(first.images))
            : fmt::format("{} of {} fat binaries have nothing for {}: the first, at offset {:#x}, has {}", found.none,
                          found.judged(), describe(gpu), first.offset, names_of(first.images));
    evidence.push_back(
        {std::move(message),
         file.vendor ? fmt::format("use a release of {} that supports this GPU", file.vendor->name) : hint_for(gpu),
         {}});
  }
  return evidence.empty() ? Verdict::clean() : Verdict::flagged(std::move(evidence));
}

}  // namespace

extern const Rule gpu_not_covered;
constinit const Rule gpu_not_covered = {
    .id = {},
    .name = "gpu-not-covered",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "device code without an image that a wanted GPU can run or compile",
    .why =
        "At the first launch on that GPU the program answers 'no kernel image is available for execution on the "
        "device' (209); with lazy loading that may be hours after its start. Some programs never look at the error "
        "and compute zeros. A cubin runs on the same major from its minor on; on Tegra (8.7, 11.0) and for the "
        "suffix a on exactly its own GPU, for the suffix f in its family. PTX runs on newer GPUs. Each fat binary "
        "with kernels counts; images in none (PTX as text, cubins as they are), from which the program picks, count as "
        "one; of NVIDIA's own libraries, which choose among theirs, one that fits is enough.",
    .fix =
        "Add the GPU's architecture to the build, or PTX of an architecture that is not newer. See the coverage table "
        "of 'cudeploy inspect'.",
    .source =
        "CUDA C++ Programming Guide, binary and PTX compatibility; LLVM NVPTX.td (families); vllm-project/vllm#20193; "
        "NVIDIA/cuda-samples#170; btxchain/btx#186; jax-ml/jax#40487; flashinfer-ai/flashinfer#5238; wheels "
        "faiss-gpu-cu12 1.14.1, onnxruntime-gpu 1.31.1.",
    .check = check,
};

}  // namespace cudeploy::rules
