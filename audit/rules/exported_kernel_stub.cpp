// The host side of a kernel is a function with the kernel's own name. Where two objects export it, the loader binds
// both to the first: the second one launches a kernel that another runtime, or another build, knows.
#include <fmt/format.h>
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "closure.hpp"
#include "rule.hpp"
#include "runtime_states.hpp"

namespace cudeploy::rules {
namespace {

/// Those with a stub that another file of the bundle exports too.
std::vector<const FileRecord*> take_part(const Bundle& bundle, const Closure&) {
  constexpr std::size_t several = static_cast<std::size_t>(-1);
  std::unordered_map<std::string_view, std::size_t> owners;  // name -> index of the one file
  for (std::size_t i = 0; i < bundle.files.size(); ++i)
    if (bundle.files[i]->exported_stubs && is_loadable(*bundle.files[i]))
      for (const ExportedStub& stub : *bundle.files[i]->exported_stubs)
        if (const auto [owner, fresh] = owners.emplace(stub.name, i); !fresh && owner->second != i)
          owner->second = several;
  std::vector<const FileRecord*> together;
  for (const FileRecord* file : bundle.files)
    if (file->exported_stubs && is_loadable(*file) &&
        std::any_of(file->exported_stubs->begin(), file->exported_stubs->end(),
                    [&](const ExportedStub& stub) { return owners.at(stub.name) == several; }))
      together.push_back(file);
  return together;
}

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!is_loadable(file)) return Verdict::not_applicable("is not loaded into a process");
  if (file.format == Format::pe)
    return Verdict::not_applicable("Windows binds a name to the DLL that it was linked with, so stubs never meet");
  if (file.fat_binaries.empty()) return Verdict::not_applicable("no device code");
  if (file.vendor) return Verdict::not_applicable(fmt::format("{} is NVIDIA's own file", file.vendor->name));
  if (!file.exported_stubs) return Verdict::not_applicable("the kernels' names were not read");
  const auto& stubs = *file.exported_stubs;
  if (stubs.empty()) return Verdict::clean();

  std::vector<std::string> names, shared_with;
  std::size_t weak = 0;
  for (const ExportedStub& stub : stubs) {
    names.push_back(stub.name);
    weak += stub.weak;
  }
  std::sort(names.begin(), names.end());
  const std::vector<const FileRecord*> nobody;
  for (const FileRecord* other : subject.stage == Stage::link ? subject.bundle.files
                                 : subject.takes_part         ? subject.together
                                                              : nobody) {
    if (other == &file || !other->exported_stubs || !is_loadable(*other) || !may_meet(file, *other, subject.closure))
      continue;
    const bool same = std::any_of(
        other->exported_stubs->begin(), other->exported_stubs->end(),
        [&](const ExportedStub& stub) { return std::binary_search(names.begin(), names.end(), stub.name); });
    if (same) shared_with.push_back(other->path);
  }
  std::string message = names.size() == 1 ? fmt::format("exports the host stub of the kernel {}", names.front())
                                          : fmt::format("exports the host stubs of {} kernels, the first {}",
                                                        names.size(), names.front());
  if (weak > 0) message += fmt::format(" ({} weak)", weak == names.size() ? "all" : std::to_string(weak));
  if (!shared_with.empty())
    message += fmt::format(
        "; {} too, so both use the one that is loaded first",
        short_list(shared_with) + (shared_with.size() == 1 ? " exports some of them" : " export some of them"));
  return Verdict::flagged(
      {{std::move(message),
        "compile with '-static-global-template-stub=true -device-entity-has-hidden-visibility=true' "
        "(defaults of nvcc 13), or with hidden visibility; 'cudeploy_target' does it",
        std::move(shared_with)}});
}

}  // namespace

extern const Rule exported_kernel_stub;
constinit const Rule exported_kernel_stub = {
    .id = {},
    .name = "exported-kernel-stub",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "kernels whose host stubs are dynamic symbols, visible to other objects",
    .why =
        "A launch goes through a host function with the kernel's own name. When two objects export the same one "
        "(templates of CUB, Thrust or CUTLASS, mostly), both use the first that is loaded: the launch "
        "configuration is pushed into one runtime and popped from another, a kernel built for other GPUs is "
        "chosen, or nothing runs and no error is reported. With one shared runtime state the last registration "
        "wins instead.",
    .fix =
        "Compile device code with hidden visibility, and with nvcc before 13 with "
        "-static-global-template-stub=true where it is known. Other libraries call a host function, not the "
        "kernel.",
    .source =
        "CCCL documentation, host stub visibility; NVIDIA/cccl#166, #343; NVIDIA/cub#545, #719; "
        "NVIDIA/cudf#14734; rapidsai/raft#1722; NVIDIA/cuopt#1215.",
    .check = check,
    .take_part = take_part,
};

}  // namespace cudeploy::rules
