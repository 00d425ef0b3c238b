// The rules are one table. Everything that holds for all of them is here: stages, severities, the count of verdicts.
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
    for (const Rule& rule : all_rules()) {
      const Severity severity = severity_of(rule, policy);
      std::vector<const FileRecord*> together;
      if (rule.take_part && severity != Severity::off && stage == Stage::package)
        together = rule.take_part(bundle, closure);
      auto next = together.begin();
      for (const FileRecord* file : bundle.files) {
        const bool takes_part = next != together.end() && *next == file;
        next += takes_part;
        const std::string kept = kept_from(rule, *file, severity, stage);
        const Subject subject{*file, bundle, policy, stage, install_rpath, closure, together, takes_part};
        Verdict verdict = kept.empty() ? rule.check(subject) : Verdict::not_applicable(kept);
        result.verdicts.push_back({file->path, &rule, verdict.outcome, std::move(verdict.reason)});
        for (Evidence& evidence : verdict.evidence)
          result.findings.push_back({&rule, severity, file->path, std::move(evidence)});
      }
    }
  }
  std::stable_sort(result.findings.begin(), result.findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.path, a.rule->id) < std::tie(b.path, b.rule->id);  // of one file and rule, as the rule has them
  });
  std::stable_sort(result.verdicts.begin(), result.verdicts.end(), [](const VerdictRow& a, const VerdictRow& b) {
    return std::tie(a.path, a.rule->id) < std::tie(b.path, b.rule->id);
  });
  return result;
}

}  // namespace cudeploy
