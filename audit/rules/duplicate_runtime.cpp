// libcudart_static.a gives each object a runtime of its own: kernels, variables, launch configurations and the last
// error stop at its border. One such object is fine; two that meet in one process are two worlds.
#include <fmt/format.h>
#include <algorithm>

#include "closure.hpp"
#include "rule.hpp"
#include "runtime_states.hpp"

namespace cudeploy::rules {
namespace {

std::string hint(const FileRecord& file) {
  if (file.format == Format::pe)
    return "link all of them with the shared runtime: 'nvcc -cudart shared', or CUDA_RUNTIME_LIBRARY Shared in CMake";
  return "let all of them work on one state: link each with 'cudeploy_target(... RUNTIME unified)', or all with the "
         "shared libcudart";
}

std::size_t private_copies(const FileRecord& file) {
  return static_cast<std::size_t>(
      std::count_if(file.runtime_copies.begin(), file.runtime_copies.end(),
                    [](const RuntimeCopy& copy) { return state_of(copy) == RuntimeState::private_copy; }));
}

/// Those with a private copy where another file that they can meet has one.
std::vector<const FileRecord*> take_part(const Bundle& bundle, const Closure& closure) {
  std::vector<const FileRecord*> with_copy, together;
  std::vector<Meeting> meetings;
  for (const FileRecord* file : bundle.files)
    if (is_loadable(*file) && !is_vendor_file(*file) && private_copies(*file) > 0) {
      with_copy.push_back(file);
      meetings.emplace_back(*file, closure);
    }
  for (std::size_t i = 0; i < meetings.size(); ++i)
    for (std::size_t other = 0; other < meetings.size(); ++other)
      if (other != i && meetings[i].may_meet(meetings[other])) {
        together.push_back(with_copy[i]);
        break;
      }
  return together;
}

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  const std::size_t own = private_copies(file);
  if (own == 0) return Verdict::not_applicable("brings no private CUDA runtime");
  if (is_vendor_file(file))
    return Verdict::not_applicable(
        fmt::format("{} is NVIDIA's own file, which has a private runtime by design", file.vendor->name));
  if (!is_loadable(file)) return Verdict::not_applicable("not linked yet");

  std::vector<Evidence> evidence;
  if (own > 1) evidence.push_back({fmt::format("{} private CUDA runtimes in one file", own), hint(file), {}});

  if (subject.takes_part) {
    if (subject.together.front() != &file) {
      Verdict verdict = Verdict::flagged_with(subject.together.front()->path);
      verdict.evidence = std::move(evidence);
      return verdict;
    }
    std::vector<std::string> all;
    std::size_t copies = 0;
    for (const FileRecord* other : subject.together) {
      all.push_back(other->path);
      copies += private_copies(*other);
    }
    evidence.push_back({fmt::format("{} private CUDA runtimes can meet in one process, each with its own state: {}",
                                    copies, short_list(all)),
                        hint(file),
                        {all.begin() + 1, all.end()}});
  }
  if (evidence.empty()) return Verdict::clean("the only private CUDA runtime that a process can get here");
  return Verdict::flagged(std::move(evidence));
}

}  // namespace

extern const Rule duplicate_runtime;
constinit const Rule duplicate_runtime = {
    .id = {},
    .name = "duplicate-runtime",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "two or more private (static) CUDA runtimes that can meet in one process",
    .why =
        "Each copy of libcudart_static.a keeps its own table of kernels and device variables, its own launch "
        "configuration and its own last error. A kernel that one object registered is unknown to the other: "
        "launches fail with missing configuration (52) or invalid device function (98), or silently do nothing, "
        "and errors set by a plugin are not seen by the program. NVIDIA's own libraries hold private copies by "
        "design and share nothing but the driver's handles; they do not count. Programs of one bundle never share "
        "a process; builds of one library for several CUDA or Python versions are alternatives.",
    .fix =
        "Link all objects with RUNTIME unified: then every copy works on one state. Or link all of them with the "
        "shared libcudart and ship it once.",
    .source =
        "Runtime API documentation of cudaGetLastError (multiple instances); design of libcudart_static "
        "(all symbols hidden); pytorch/pytorch#21062, #19969; NVIDIA/spark-rapids-jni#146; "
        "rapidsai/build-planning#235; NVIDIA/nccl#658 (NVIDIA's own copies); wheels gpu4pyscf 1.9.2 (11 copies), "
        "CuPy 12x/13x (5).",
    .check = check,
    .take_part = take_part,
};

}  // namespace cudeploy::rules
