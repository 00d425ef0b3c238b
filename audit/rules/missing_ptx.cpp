// A cubin runs on the GPUs of its own major; PTX is the only code that a GPU of tomorrow can still compile. It has to
// lie in each fat binary that has kernels: a library is as portable as its least portable fat binary.
#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "gpu.hpp"
#include "loose_code.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

/// What newer GPUs can compile: PTX without a suffix; for tile kernels tile IR.
bool is_forward(const Image& image) {
  return image.arch && ((image.kind == ImageKind::ptx && image.variant.empty()) || image.kind == ImageKind::tile_ir);
}

bool is_relocatable_ptx(const FatBinary& container, const Image& image) {
  return (image.kind == ImageKind::ptx && !container.loadable) ||
         (image.kind == ImageKind::other && image.entry_kind == 0x40);
}

/// "8.0 and newer" would be a guess; these are the known ones that get nothing.
std::string uncovered(const std::vector<const FatBinary*>& containers) {
  std::vector<std::string> names;
  std::uint32_t newest = 0;
  for (const FatBinary* container : containers)
    for (const Image& image : container->images)
      if ((image.kind == ImageKind::cubin || image.kind == ImageKind::ptx) && image.arch)
        newest = std::max(newest, *image.arch);
  for (const Gpu& gpu : known_gpus()) {
    if (gpu.target < gpu_of_arch(newest)) continue;
    const bool served = std::all_of(containers.begin(), containers.end(), [&](const FatBinary* container) {
      return fit(*container, gpu.target).fit != Fit::none;
    });
    if (!served) names.push_back(to_string(gpu.target));
  }
  return names.empty() ? "any GPU after these" : fmt::format("{} and any GPU after these", fmt::join(names, ", "));
}

Verdict judge_containers(const std::vector<const FatBinary*>& judged, const FileRecord& file, const std::string& noun) {
  std::vector<const FatBinary*> lacking;
  for (const FatBinary* container : judged)
    if (std::none_of(container->images.begin(), container->images.end(), is_forward)) lacking.push_back(container);
  if (lacking.empty()) return Verdict::clean();

  std::set<std::string> native, special;
  bool lost = false;
  std::uint32_t newest = 0;
  for (const FatBinary* container : lacking)
    for (const Image& image : container->images) {
      if (image.kind == ImageKind::cubin) native.insert(image_name(image));
      if ((image.kind == ImageKind::cubin || image.kind == ImageKind::ptx) && image.arch)
        newest = std::max(newest, *image.arch);
      if (image.kind == ImageKind::ptx) special.insert(image_name(image));
    }
  for (const FatBinary& container : file.fat_binaries)
    for (const Image& image : container.images) lost |= is_relocatable_ptx(container, image);

  std::string message = judged.size() == 1 ? fmt::format("{} holds no PTX that a newer GPU can compile", noun)
                                           : fmt::format(
                                                 "{} of {} fat binaries with kernels hold no PTX that a newer "
                                                 "GPU can compile",
                                                 lacking.size(), judged.size());
  std::string hint;
  if (!special.empty()) {
    message += fmt::format(": the only PTX is {}, which is made for {} only", fmt::join(special, ", "),
                           special.begin()->ends_with('f') ? "its family" : "that very GPU");
    hint = "PTX with the suffix a or f is no fallback: add plain PTX, for example ";
  } else if (lost) {
    message += ": there is PTX in relocatable code, but the device link kept cubins only";
    hint =
        "it keeps machine code only: name every wanted GPU in the architectures, or compile the kernels "
        "without "
        "separable compilation (-rdc=true), with ";
  } else if (!native.empty()) {
    message += fmt::format(": there is {}", fmt::join(native, ", "));
  }
  message += fmt::format("; nothing for {}", uncovered(lacking));
  const std::string target = newest ? std::to_string(newest) : "90";
  hint += fmt::format(
      "{}'-gencode arch=compute_{},code=compute_{}', or 'PTX {}' in cudeploy_target; where no newer GPU is meant: "
      "'severity.missing-ptx = \"off\"' in the policy",
      hint.empty() ? "add PTX of the newest architecture: " : "", target, target, target);
  return Verdict::flagged({{std::move(message), std::move(hint), {}}});
}

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  std::vector<const FileRecord*> files = {&file};
  std::string noun = "the device code";
  if (is_loose_code(file)) {
    const FileRecord* first = first_loose_code(subject.bundle);
    if (first != &file)
      return Verdict::not_applicable("loose device code of a bundle is judged as one, at " + first->path);
    files = loose_code(subject.bundle);
    if (files.size() > 1) noun = fmt::format("device code in {} loose files", files.size());
  }
  if (file.fat_binaries.empty()) return Verdict::not_applicable("no device code");
  if (file.vendor) return Verdict::not_applicable(fmt::format("{} is NVIDIA's own file", file.vendor->name));
  if (!is_any_loadable(files)) return Verdict::not_applicable("relocatable device code, not device-linked yet");
  const JudgedCode code(files);
  if (code.fat_binaries.empty()) return Verdict::not_applicable("no kernels");
  return judge_containers(code.fat_binaries, file, noun);
}

}  // namespace

extern const Rule missing_ptx;
constinit const Rule missing_ptx = {
    .id = {},
    .name = "missing-ptx",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "device code with kernels and without PTX that newer GPUs can compile",
    .why =
        "A cubin runs on GPUs of the same major only. Without PTX the program answers 'no kernel image is available "
        "for execution on the device' (209) on every generation that comes after it was built. PTX of an "
        "architecture with suffix (compute_90a) is no fallback, and PTX in relocatable code is not loadable. "
        "Fat binaries without kernels, which nvcc's link step adds to each file, do not count. Images in none (PTX as "
        "text, cubins as they are), from which the program picks, count as one. NVIDIA's own "
        "libraries are not judged: they choose among fat binaries themselves, and nobody else can change them.",
    .fix =
        "Keep PTX of at least the newest architecture that you build for: 'code=compute_XY' in -gencode, "
        "'90-virtual' or a bare '90' in CMAKE_CUDA_ARCHITECTURES, PTX in cudeploy_target. With separable "
        "compilation the device link keeps machine code only. Where a bundle is meant for named GPUs only, "
        "set "
        "severity.missing-ptx in the policy.",
    .source =
        "CUDA C++ Programming Guide, PTX compatibility; microsoft/onnxruntime#26230; vllm-project/vllm#20193; "
        "NVIDIA/cuda-samples#170; easybuilders/easybuild-framework#5008 (lost in the device link); wheels "
        "faiss-gpu-cu12 1.14.1, onnxruntime-gpu 1.31.1, bitsandbytes 0.50.2.",
    .check = check,
};

}  // namespace cudeploy::rules
