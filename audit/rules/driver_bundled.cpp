// The user-mode driver must match the kernel module of the machine that it runs on. A copy in a bundle matches the
// machine that built the bundle.
#include <fmt/format.h>

#include "closure.hpp"
#include "rule.hpp"
#include "system_names.hpp"

namespace cudeploy::rules {
namespace {

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!is_loadable(file)) return Verdict::not_applicable("is not loaded into a process");
  const std::string_view name = file_name(file.path);
  constexpr std::string_view hint =
      "leave it out: the driver of the target machine brings it; exclude libcuda.so* and libnvidia-* where libraries "
      "are collected";
  if (file.vendor && file.vendor->role == Vendor::Role::driver_stub)
    return Verdict::not_applicable("a stub, not the driver");
  if (file.vendor && file.vendor->role == Vendor::Role::driver)
    return Verdict::flagged(
        {{fmt::format("is part of the NVIDIA driver ({}; {})", file.vendor->name, file.vendor->evidence),
          std::string(hint),
          {}}});
  if (is_driver_name(name))
    return Verdict::flagged(
        {{fmt::format("has a name that belongs to the NVIDIA driver, {}", name), std::string(hint), {}}});
  if (const auto link = subject.closure.driver_links.find(&file); link != subject.closure.driver_links.end())
    return Verdict::flagged({{fmt::format("has a name that belongs to the NVIDIA driver by the link {}", link->second),
                              std::string(hint),
                              {}}});
  if (file.soname && is_driver_name(*file.soname))
    return Verdict::flagged(
        {{fmt::format("has the soname {}, which belongs to the NVIDIA driver", *file.soname), std::string(hint), {}}});
  return Verdict::clean();
}

}  // namespace

extern const Rule driver_bundled;
constinit const Rule driver_bundled = {
    .id = {},
    .name = "driver-bundled",
    .severity = Severity::error,
    .at_link = false,
    .at_package = true,
    .since = "1.0",
    .summary = "a library of the NVIDIA driver inside what is shipped",
    .why =
        "The user-mode driver has to be of the same version as the kernel module. A bundled copy wins over the "
        "machine's own and fails there: 'system has unsupported display driver / cuda driver combination' (803), "
        "'forward compatibility was attempted on non supported HW' (804). Its licence does not allow to ship it "
        "with programs. The same holds for nvcuda.dll and for nvcudart_hybrid64.dll, which is the CUDA 13 runtime "
        "of the Windows driver.",
    .fix =
        "Take it out of the bundle. For auditwheel --exclude libcuda.so.1 and 'libnvidia-*', for linuxdeploy "
        "--exclude-library; in CMake 'cudeploy_package' leaves it out.",
    .source =
        "CUDA EULA, Attachment A; CUDA Compatibility; pytorch/ao#2927; EricLBuehler/mistral.rs#2411; "
        "ai-dynamo/nixl#475; NVIDIA/nvidia-docker#539; chainguard-dev/melange#1515; sandrohanea/whisper.net#509 "
        "(hybrid runtime).",
    .check = check,
};

}  // namespace cudeploy::rules
