// A damaged file must not look like a clean one: what could not be read was not judged.
#include <fmt/format.h>

#include "rule.hpp"

namespace cudeploy::rules {
namespace {

Verdict check(const Subject& subject) {
  const auto& problems = subject.file.problems;
  if (problems.empty()) return Verdict::clean();
  std::string message = problems.front().message;
  if (problems.front().offset) message += fmt::format(" (at offset {:#x})", *problems.front().offset);
  if (problems.size() > 1)
    message += fmt::format(", and {} more {}", problems.size() - 1, problems.size() == 2 ? "problem" : "problems");
  return Verdict::flagged(
      {{std::move(message), "build or copy the file again; 'cudeploy inspect' lists every problem", {}}});
}

}  // namespace

extern const Rule malformed_file;
constinit const Rule malformed_file = {
    .id = {},
    .name = "malformed-file",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary = "a file whose content is damaged, cut off or contradicts itself, or that could not be read to its end",
    .why =
        "What cannot be read is not judged: the other verdicts about this file cover only its readable part. The "
        "loader, the driver or the runtime may stop at the same place, with an error that names no file.",
    .fix = "Build or copy the file again. Where it is as its maker shipped it, compare its checksum with the maker's.",
    .source = "Cases made by hand from real files: cut headers, sizes beyond the end, corrupt compressed payloads.",
    .check = check,
};

}  // namespace cudeploy::rules
