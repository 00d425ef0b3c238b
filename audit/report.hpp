// The same facts are read by people at a terminal and by programs. Each report is made from the record and the
// judgement alone, sorted, without a clock, so that two runs over the same files can be compared byte by byte.
#pragma once

#include <string>

#include "inspect_record.hpp"
#include "policy.hpp"
#include "rule.hpp"

namespace cudeploy {

/// All that the report of an audit shows.
struct Audit {
  const InspectRecord& record;
  const Policy& policy;
  Stage stage = Stage::package;
  const Judgement& judgement;
  std::vector<std::string> contradicted = {};  ///< paths of which two inputs say different things
};

/// Bytes of a file or a name, safe on a terminal: control characters and what is not UTF-8 as \xNN.
std::string printable(std::string_view text);

/// The same of a path that begins a line: an empty one, as an unset variable leaves it behind, is ''.
std::string path_text(std::string_view path);

/// `colour`: with escape sequences for a terminal.
std::string inspect_text(const InspectRecord& record, const ReadOptions& options, bool colour);
/// Schema cudeploy/inspect/1 (inspect.schema.json).
std::string inspect_json(const InspectRecord& record);

std::string audit_text(const Audit& audit, bool colour);
/// Schema cudeploy/audit/1 (audit.schema.json).
std::string audit_json(const Audit& audit);

/// `cudeploy explain`: one rule, or the list of all.
std::string rule_text(const Rule& rule, bool colour);
std::string rule_list();

/// All rules as one page, audit/RULES.md.
std::string rules_markdown();

}  // namespace cudeploy
