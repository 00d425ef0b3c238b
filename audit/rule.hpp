// A deployment fault is a fact plus a wish. Each rule is one pure function over facts (inspect records, what
// the loader would find) and wishes (the policy), with the words that explain it beside it: `explain`,
// RULES.md and every report print the same struct. A rule sees no parser, no printer and no other rule.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bundle.hpp"
#include "inspect_record.hpp"
#include "policy.hpp"

namespace cudeploy {

/// What is judged: a file just linked, or what is shipped.
enum class Stage { link, package };

struct Closure;  // what the loader would find, closure.hpp

/// All that a rule may look at.
struct Subject {
  const FileRecord& file;
  const Bundle& bundle;
  const Policy& policy;
  Stage stage;
  /// Stage link: the search path that the installed file will have, split at ':'; null where none was given.
  const std::optional<std::vector<std::string>>& install_rpath;
  const Closure& closure;  ///< of the bundle
  /// What the rule's take_part told of the bundle, and whether the file is among them.
  const std::vector<const FileRecord*>& together;
  bool takes_part = false;
};

/// One thing that is wrong with one file.
struct Evidence {
  std::string message;               ///< lower case, no full stop: what was found, where
  std::string hint;                  ///< what to try
  std::vector<std::string> related;  ///< other files of the bundle that take part
};

/// Every binary gets one verdict from every rule, so nothing is left out silently.
struct Verdict {
  enum class Outcome { clean, flagged, not_applicable } outcome = Outcome::clean;
  std::string reason;              ///< why not applicable; what a clean verdict rests on; where the finding stands
  std::vector<Evidence> evidence;  ///< one finding each; empty when flagged as part of another file's finding

  static Verdict clean() { return {}; }
  static Verdict clean(std::string why) { return {Outcome::clean, std::move(why), {}}; }
  static Verdict not_applicable(std::string why) { return {Outcome::not_applicable, std::move(why), {}}; }
  static Verdict flagged(std::vector<Evidence> evidence) { return {Outcome::flagged, {}, std::move(evidence)}; }
  /// Part of the finding that stands at another file.
  static Verdict flagged_with(std::string_view path) { return {Outcome::flagged, "see " + std::string(path), {}}; }
};

struct Rule {
  std::string_view id;       ///< "CD401"; given by rules.def, never reused
  std::string_view name;     ///< "missing-ptx": says what is found, not the cure
  Severity severity;         ///< default; a policy may change it
  bool at_link, at_package;  ///< the stages it judges
  std::string_view since;    ///< version of cudeploy
  std::string_view summary;  ///< one sentence
  std::string_view why;      ///< what happens to users otherwise
  std::string_view fix;      ///< what to do
  std::string_view source;   ///< documents and public reports behind it
  Verdict (*check)(const Subject&);
  /// For rules about files in company: those of a bundle that share one finding, in its order. Asked once per bundle,
  /// since each file's verdict depends on all of them; null for other rules.
  std::vector<const FileRecord*> (*take_part)(const Bundle&, const Closure&) = nullptr;
};

struct Finding {
  const Rule* rule = nullptr;
  Severity severity = Severity::error;
  std::string path;
  Evidence evidence;
};

struct VerdictRow {
  std::string path;
  const Rule* rule = nullptr;
  Verdict::Outcome outcome = Verdict::Outcome::clean;
  std::string reason;
};

/// Result of judging: as many verdicts as binaries x rules.
struct Judgement {
  std::vector<Finding> findings;  ///< sorted by path, then id
  std::vector<VerdictRow> verdicts;
};

/// All rules, in the order of rules.def (by id).
std::span<const Rule> all_rules();

/// By id or by name; null when there is none.
const Rule* find_rule(std::string_view id_or_name);

/// Judges all bundles. Pure: the same input gives the same output on every machine.
Judgement judge(std::span<const Bundle> bundles, const Policy& policy, Stage stage,
                const std::optional<std::vector<std::string>>& install_rpath);

}  // namespace cudeploy
