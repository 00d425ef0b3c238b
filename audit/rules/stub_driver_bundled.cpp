// The toolkit's stub of the driver has the driver's soname and none of its functions.
#include <fmt/format.h>

#include "closure.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!is_loadable(file)) return Verdict::not_applicable("is not loaded into a process");
  if (!file.vendor || file.vendor->role != Vendor::Role::driver_stub) return Verdict::clean();
  return Verdict::flagged(
      {{fmt::format("is a stub for the linker, {} ({})", file.vendor->name, file.vendor->evidence),
        "leave it out: it is for the linker only, and the driver of the target machine brings the real one",
        {}}});
}

}  // namespace

extern const Rule stub_driver_bundled;
constinit const Rule stub_driver_bundled = {
    .id = {},
    .name = "stub-driver-bundled",
    .severity = Severity::error,
    .at_link = false,
    .at_package = true,
    .since = "1.0",
    .summary = "a stub of a driver library, made for the linker only, inside what is shipped",
    .why =
        "The stub carries the soname of the real library, so the loader takes it for the driver, and each call fails "
        "with 'CUDA driver is a stub library' (34), also on machines whose driver is in order.",
    .fix =
        "Take it out of the bundle, and keep the toolkit's stubs folder out of LD_LIBRARY_PATH where libraries are "
        "collected.",
    .source =
        "ofiwg/libfabric#10365; NVIDIA/warp#219; pytorch/tensorpipe#294; pytorch/pytorch#35418; "
        "vllm-project/vllm#6864; CUDA EULA, Attachment A.",
    .check = check,
};

}  // namespace cudeploy::rules
