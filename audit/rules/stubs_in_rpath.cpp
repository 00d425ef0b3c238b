// The toolkit's stubs folder holds libraries that exist for the linker only. In a search path they win over the
// driver, and every call fails.
#include <fmt/format.h>

#include "closure.hpp"
#include "rule.hpp"

namespace cudeploy::rules {
namespace {

bool names_stubs(std::string_view entry) {
  while (!entry.empty()) {
    const std::size_t end = std::min(entry.find('/'), entry.size());
    if (entry.substr(0, end) == "stubs") return true;
    entry.remove_prefix(std::min(end + 1, entry.size()));
  }
  return false;
}

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  if (!is_loadable(file) || file.format != Format::elf) return Verdict::not_applicable("has no search path");
  std::vector<Evidence> evidence;
  const auto look = [&](std::string_view kind, const std::vector<std::string>& entries) {
    for (const std::string& entry : entries)
      if (names_stubs(entry))
        evidence.push_back({fmt::format("{} entry '{}' leads to the toolkit's stubs", kind, entry),
                            "remove the entry: libcuda.so.1 comes from the driver, and the loader finds it by itself",
                            {}});
  };
  if (subject.stage == Stage::link) {
    if (!subject.install_rpath)
      return Verdict::not_applicable("the search path after installation was not given (--install-rpath)");
    look("install RPATH", *subject.install_rpath);
  } else {
    look("RPATH", file.rpath);
    look("RUNPATH", file.runpath);
  }
  return evidence.empty() ? Verdict::clean() : Verdict::flagged(std::move(evidence));
}

}  // namespace

extern const Rule stubs_in_rpath;
constinit const Rule stubs_in_rpath = {
    .id = {},
    .name = "stubs-in-rpath",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "a search path (RPATH, RUNPATH) that leads to the toolkit's stub libraries",
    .why =
        "The stub libcuda.so carries the soname libcuda.so.1. Where a search path leads to it (a link of that name "
        "beside it is enough) it wins over the driver, and each call fails with 'CUDA driver is a stub library' "
        "(34).",
    .fix =
        "Link against the stub, but keep its folder out of the search path: no -Wl,-rpath for it, "
        "INSTALL_RPATH_USE_LINK_PATH off, no compiler wrapper that turns each -L into an RPATH.",
    .source =
        "ofiwg/libfabric#10365; xmake-io/xmake#4686; NVIDIA/warp#219; pytorch/pytorch#35418; "
        "easybuilders/easybuild-framework#2683; vllm-project/vllm#6864.",
    .check = check,
};

}  // namespace cudeploy::rules
