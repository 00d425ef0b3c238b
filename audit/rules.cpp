// The rules are one table. Everything that holds for all of them is here: stages, severities, the count of verdicts,
// the pages that explain them.
#include <fmt/format.h>
#include <algorithm>
#include <tuple>

#include "closure.hpp"
#include "rule.hpp"

namespace cudeploy {
namespace rules {

#define RULE(id, variable) extern const Rule variable;
#include "rules.def"
#undef RULE

}  // namespace rules

namespace {

std::vector<Rule> with_ids() {
  std::vector<Rule> all;
  const auto add = [&](std::string_view id, const Rule& rule) {
    all.push_back(rule);
    all.back().id = id;
  };
#define RULE(id, variable) add(id, rules::variable);
#include "rules.def"
#undef RULE
  return all;
}

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::off:
      return "off";
    case Severity::info:
      return "info";
    case Severity::warning:
      return "warning";
    case Severity::error:
      break;
  }
  return "error";
}

std::string_view stages(const Rule& rule) {
  if (rule.at_link && rule.at_package) return "link, package";
  return rule.at_link ? "link" : "package";
}

Severity severity_of(const Rule& rule, const Policy& policy) {
  const auto chosen = policy.severity.find(std::string(rule.name));
  return chosen == policy.severity.end() ? rule.severity : chosen->second;
}

/// What keeps a rule from looking at a file at all; empty where nothing does.
std::string kept_from(const Rule& rule, const FileRecord& file, Severity severity, Stage stage) {
  if (severity == Severity::off) return "turned off by the policy";
  if (file.unreadable) return "the file could not be read";
  if (stage == Stage::link && !rule.at_link) return "judged when it is packaged";
  if (stage == Stage::package && !rule.at_package) return "judged when it is linked";
  return {};
}

/// Breaks at blanks so that no line is longer than `width`, each line indented.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result, line;
  const auto flush = [&] {
    if (!line.empty()) result += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) flush();
    if (!line.empty()) line += ' ';
    line += word;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  flush();
  return result;
}

}  // namespace

std::span<const Rule> all_rules() {
  static const std::vector<Rule> all = with_ids();
  return all;
}

const Rule* find_rule(std::string_view id_or_name) {
  for (const Rule& rule : all_rules())
    if (rule.id == id_or_name || rule.name == id_or_name) return &rule;
  return nullptr;
}

Judgement judge(std::span<const Bundle> bundles, const Policy& policy, Stage stage,
                const std::optional<std::vector<std::string>>& install_rpath) {
  Judgement result;
  for (const Bundle& bundle : bundles) {
    const Closure closure = close_over(bundle, policy);
    for (const FileRecord* file : bundle.files) {
      const Subject subject{*file, bundle, policy, stage, install_rpath, closure};
      for (const Rule& rule : all_rules()) {
        const Severity severity = severity_of(rule, policy);
        const std::string kept = kept_from(rule, *file, severity, stage);
        Verdict verdict = kept.empty() ? rule.check(subject) : Verdict::not_applicable(kept);
        result.verdicts.push_back({file->path, &rule, verdict.outcome, std::move(verdict.reason)});
        for (Evidence& evidence : verdict.evidence)
          result.findings.push_back({&rule, severity, file->path, std::move(evidence)});
      }
    }
  }
  std::stable_sort(result.findings.begin(), result.findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.path, a.rule->id, a.evidence.message) < std::tie(b.path, b.rule->id, b.evidence.message);
  });
  std::stable_sort(result.verdicts.begin(), result.verdicts.end(), [](const VerdictRow& a, const VerdictRow& b) {
    return std::tie(a.path, a.rule->id) < std::tie(b.path, b.rule->id);
  });
  return result;
}

std::string explain_text(const Rule& rule) {
  constexpr std::size_t width = 100;
  std::string page = fmt::format("{} {}\n", rule.id, rule.name);
  page += wrapped(rule.summary, width, 0);
  page += fmt::format("\nseverity: {}   stages: {}   since: {}\n", to_string(rule.severity), stages(rule), rule.since);
  for (const auto& [title, text] : {std::pair("why", rule.why), {"fix", rule.fix}, {"source", rule.source}})
    page += fmt::format("\n{}\n{}", title, wrapped(text, width, 2));
  return page;
}

std::string explain_markdown(const Rule& rule) {
  std::string page = fmt::format("## {} {}\n\n{}\n\n", rule.id, rule.name, rule.summary);
  page += fmt::format("Severity: {}. Stages: {}. Since: {}.\n\n", to_string(rule.severity), stages(rule), rule.since);
  page += fmt::format("**Why.** {}\n\n**Fix.** {}\n\n**Source.** {}\n", rule.why, rule.fix, rule.source);
  return page;
}

std::string rules_markdown() {
  std::string page =
      "# Rules\n\n"
      "Written by `cudeploy explain --all --format markdown`; a test keeps it true. Each binary gets one verdict from\n"
      "each rule: clean, flagged, or not applicable with the reason. A policy changes a severity by\n"
      "`severity.<name> = \"error\" | \"warning\" | \"info\" | \"off\"`.\n\n"
      "| id | name | severity | stages | what it finds |\n|---|---|---|---|---|\n";
  for (const Rule& rule : all_rules())
    page += fmt::format(
        "| {0} | [{1}](#{2}-{1}) | {3} | {4} | {5} |\n", rule.id, rule.name,
        [&] {
          std::string anchor(rule.id);
          for (char& c : anchor) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
          return anchor;
        }(),
        to_string(rule.severity), stages(rule), rule.summary);
  for (const Rule& rule : all_rules()) page += "\n" + explain_markdown(rule);
  return page;
}

}  // namespace cudeploy
