// What readelf says of a file's dynamic table, to hold ours against.
#pragma once

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "binary.hpp"

namespace cudeploy {

/// One line per fact, in the order of the file, from our record.
inline std::vector<std::string> facts_of(const FileRecord& record) {
  std::vector<std::string> facts;
  auto join = [](const std::vector<std::string>& parts) {
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ":") + parts[i];
    return text;
  };
  if (record.soname) facts.push_back("SONAME " + *record.soname);
  if (!record.rpath.empty()) facts.push_back("RPATH " + join(record.rpath));
  if (!record.runpath.empty()) facts.push_back("RUNPATH " + join(record.runpath));
  for (const auto& library : record.needed) facts.push_back("NEEDED " + library);
  return facts;
}

/// The same from what `readelf -dW` prints.
inline std::vector<std::string> facts_of_readelf(const std::string& output) {
  std::vector<std::string> soname, rpath, runpath, needed;
  std::istringstream lines(output);
  const std::regex entry(R"(\((SONAME|RPATH|RUNPATH|NEEDED)\)[^\[]*\[(.*)\]$)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, entry)) continue;
    auto& list = match[1] == "SONAME" ? soname : match[1] == "RPATH" ? rpath : match[1] == "RUNPATH" ? runpath : needed;
    list.push_back(match[1].str() + " " + match[2].str());
  }
  std::vector<std::string> facts;
  for (const auto* list : {&soname, &rpath, &runpath, &needed}) facts.insert(facts.end(), list->begin(), list->end());
  return facts;
}

/// All ELF facts of a record as one text, so that a difference shows.
inline std::string all_facts(const FileRecord& record) {
  std::string text = record.machine.value_or("-") + " " + record.type.value_or("-") + "\n";
  for (const auto& fact : facts_of(record)) text += fact + "\n";
  text += "interpreter " + record.interpreter.value_or("-") + "\n";
  text += std::string(record.nodeflib ? "nodeflib " : "") + (record.nodelete ? "nodelete " : "") +
          (record.symbolic ? "symbolic " : "") + "\n";
  for (const auto& version : record.version_definitions) text += "defines " + version + "\n";
  for (const auto& need : record.version_needs) {
    text += "needs " + need.version + " of " + need.library + " for";
    for (const auto& symbol : need.symbols) text += " " + symbol;
    text += "\n";
  }
  return text;
}

}  // namespace cudeploy
