// Every rule is held to cases: records as they would come from the readers, and the exact verdict for each file.
// The completeness tests make sure that no rule is without them and that all words are kept true.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "closure.hpp"
#include "report.hpp"
#include "rule.hpp"
#include "short_record.hpp"

namespace cudeploy {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// All case files of all rules, sorted.
std::vector<fs::path> case_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(CUDEPLOY_RULE_CASES))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// A case file: {"story", "bundle", "links", "stage", "install_rpath", "policy", "files", "expect", "hints"}; hints are
/// those of a flagged file, where a case is about them.
struct Case {
  const Rule* rule = nullptr;
  std::string story;
  Policy policy;
  Stage stage = Stage::package;
  std::optional<std::vector<std::string>> install_rpath;
  std::vector<FileRecord> files;
  Bundle bundle;
  nlohmann::json expect, hints;

  explicit Case(const fs::path& path) {
    const nlohmann::json value = nlohmann::json::parse(content(path));
    static const std::set<std::string> keys = {"story",  "bundle", "links",  "stage", "install_rpath",
                                               "policy", "files",  "expect", "hints"};
    for (const auto& [key, field] : value.items())
      if (!keys.contains(key)) throw std::runtime_error("unknown key in a case: " + key);
    rule = find_rule(path.parent_path().filename().string());
    story = value.at("story");
    bundle.name = value.value("bundle", "");
    if (value.contains("links")) bundle.links = value.at("links").get<std::map<std::string, std::string>>();
    if (value.value("stage", "package") == "link") stage = Stage::link;
    if (value.contains("install_rpath")) install_rpath = value.at("install_rpath").get<std::vector<std::string>>();
    if (value.contains("policy")) read_policy(value.at("policy"));
    for (const auto& [name, file] : value.at("files").items()) files.push_back(short_file(name, file));
    std::vector<std::string> paths;
    for (const FileRecord& file : files) {
      bundle.files.push_back(&file);
      paths.push_back(file.path);
    }
    bundle.packages = packages_by_name(paths);
    expect = value.at("expect");
    hints = value.value("hints", nlohmann::json::object());
  }

  void read_policy(const nlohmann::json& value) {
    for (const auto& [key, field] : value.items()) {
      if (key == "gpus") {
        policy.gpus = parse_gpus(field);
      } else if (key == "driver") {
        policy.driver = parse_driver(field);
      } else if (key == "provided") {
        policy.provided = field.get<std::vector<std::string>>();
      } else if (key == "off") {
        policy.severity[field] = Severity::off;
      } else {
        throw std::runtime_error("unknown policy key in a case: " + key);
      }
    }
  }

  Judgement run() const { return judge({&bundle, 1}, policy, stage, install_rpath); }
};

/// What a case expects of one file: a list of messages where it is flagged, else "clean", "clean: why",
/// "not applicable: why" or "see <path>".
nlohmann::json outcome_of(const Judgement& judgement, const Rule* rule, const std::string& path) {
  std::vector<std::string> messages;
  for (const Finding& finding : judgement.findings)
    if (finding.rule == rule && finding.path == path) messages.push_back(finding.evidence.message);
  for (const VerdictRow& row : judgement.verdicts) {
    if (row.rule != rule || row.path != path) continue;
    const std::string why = row.reason.empty() ? "" : ": " + row.reason;
    switch (row.outcome) {
      case Verdict::Outcome::clean:
        return "clean" + why;
      case Verdict::Outcome::not_applicable:
        return "not applicable" + why;
      case Verdict::Outcome::flagged:
        break;
    }
    if (messages.empty()) return row.reason;
    return messages;
  }
  return "no verdict";
}

/// As many libraries as a hostile package may hold, each of which asks who else has a runtime. A verdict that looked
/// for the first of them again and again would take minutes: the time limit of the test tells.
TEST(RulesAboutCompany, AskOncePerBundle) {
  constexpr std::size_t count = 4000;
  for (const auto& [rule, kinds] :
       {std::pair("duplicate-runtime", std::vector{"private-static 13.0"}),
        std::pair("mixed-runtime", std::vector{"private-static 13.0", "unified 13.0 generation=13_1"})}) {
    std::vector<FileRecord> files;
    // The first half are programs of another machine, which never meet anybody. Of the others, builds of one library,
    // each meets nobody but the last two.
    for (std::size_t i = 0; i < count; ++i) {
      const char* name = i < count / 2 ? "a" : i + 2 < count ? "lib_cuda" : "z";
      files.push_back(short_file(fmt::format("d/{}{:05}", name, i), {}));
      files.back().type = i < count / 2 ? "executable" : "shared";
      files.back().machine = i < count / 2 ? "aarch64" : "x86_64";
      files.back().runtime_copies.push_back(short_runtime(kinds[i % kinds.size()]));
    }
    Bundle bundle;
    for (const FileRecord& file : files) bundle.files.push_back(&file);
    Policy policy;
    for (const Rule& other : all_rules())
      if (other.name != rule) policy.severity[std::string(other.name)] = Severity::off;
    const Judgement judgement = judge({&bundle, 1}, policy, Stage::package, {});
    ASSERT_EQ(judgement.findings.size(), 1u) << rule;
    EXPECT_EQ(judgement.findings[0].path, files[count / 2].path);
    EXPECT_EQ(judgement.findings[0].evidence.related.size(), count / 2 - 1);
  }
}

/// The same of kernel stubs: two libraries share one, and nobody else has anything in common.
TEST(RulesAboutCompany, LookForSharedStubsOncePerBundle) {
  constexpr std::size_t count = 5000, stubs = 200;
  std::vector<FileRecord> files;
  for (std::size_t i = 0; i < count; ++i) {
    files.push_back(short_file(fmt::format("d/lib{:05}.so", i), {}));
    files.back().type = "shared";
    files.back().fat_binaries.emplace_back();
    files.back().exported_stubs.emplace();
    for (std::size_t stub = 0; stub < stubs; ++stub)
      files.back().exported_stubs->push_back({fmt::format("_Z6kernel{:05}_{}v", i, stub), false});
  }
  files[count - 1].exported_stubs->at(7) = files[3].exported_stubs->at(stubs - 1);
  Bundle bundle;
  for (const FileRecord& file : files) bundle.files.push_back(&file);
  Policy policy;
  for (const Rule& other : all_rules())
    if (other.name != "exported-kernel-stub") policy.severity[std::string(other.name)] = Severity::off;
  const Judgement judgement = judge({&bundle, 1}, policy, Stage::package, {});
  ASSERT_EQ(judgement.findings.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::string> related;
    if (i == 3) related = {files[count - 1].path};
    if (i == count - 1) related = {files[3].path};
    EXPECT_EQ(judgement.findings[i].evidence.related, related) << i;
  }
}

class RuleCases : public testing::TestWithParam<fs::path> {};

TEST_P(RuleCases, HasTheExpectedVerdicts) {
  const Case given(GetParam());
  ASSERT_NE(given.rule, nullptr) << "the folder is not named after a rule: " << GetParam();
  const Judgement judgement = given.run();
  nlohmann::json found = nlohmann::json::object();
  for (const FileRecord& file : given.files) found[file.path] = outcome_of(judgement, given.rule, file.path);
  EXPECT_EQ(found.dump(1), given.expect.dump(1)) << given.story;
  for (const auto& [path, expected] : given.hints.items()) {
    std::vector<std::string> hints;
    for (const Finding& finding : judgement.findings)
      if (finding.rule == given.rule && finding.path == path) hints.push_back(finding.evidence.hint);
    EXPECT_EQ(nlohmann::json(hints).dump(1), expected.dump(1)) << given.story << ": " << path;
  }
  EXPECT_EQ(judgement.verdicts.size(), given.files.size() * all_rules().size());
}

std::string case_name(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.parent_path().filename().string() + "__" + info.param.stem().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, RuleCases, testing::ValuesIn(case_files()), case_name);

TEST(Rules, EachHasItsFileAndCasesThatAreFlaggedAndClean) {
  ASSERT_FALSE(all_rules().empty());
  for (const Rule& rule : all_rules()) {
    std::string file(rule.name);
    std::replace(file.begin(), file.end(), '-', '_');
    EXPECT_TRUE(fs::exists(fs::path(CUDEPLOY_RULES_FOLDER) / (file + ".cpp"))) << rule.name;
    std::size_t flagged = 0, clean = 0;
    for (const fs::path& path : case_files()) {
      if (path.parent_path().filename() != rule.name) continue;
      const Case given(path);
      const Judgement judgement = given.run();
      for (const VerdictRow& row : judgement.verdicts) {
        flagged += row.rule == &rule && row.outcome == Verdict::Outcome::flagged;
        clean += row.rule == &rule && row.outcome == Verdict::Outcome::clean;
      }
    }
    EXPECT_GT(flagged, 0u) << rule.name << " has no case that it flags";
    EXPECT_GT(clean, 0u) << rule.name << " has no case that it passes";
  }
}

TEST(Rules, NoFileOfTheFolderIsLeftOut) {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(CUDEPLOY_RULES_FOLDER)) {
    std::string name = entry.path().stem().string();
    std::replace(name.begin(), name.end(), '_', '-');
    EXPECT_NE(find_rule(name), nullptr) << entry.path() << " is not in rules.def";
    ++files;
  }
  EXPECT_EQ(files, all_rules().size());
}

TEST(Rules, AreInTheOrderOfTheirIdsAndFullyDescribed) {
  const std::regex id("CD[0-9]{3}"), name("[a-z][a-z0-9]*(-[a-z0-9]+)*"), version("[0-9]+\\.[0-9]+");
  std::set<std::string> names;
  std::string_view before;
  for (const Rule& rule : all_rules()) {
    EXPECT_LT(before, rule.id);
    before = rule.id;
    EXPECT_TRUE(std::regex_match(std::string(rule.id), id)) << rule.id;
    EXPECT_TRUE(std::regex_match(std::string(rule.name), name)) << rule.name;
    EXPECT_TRUE(names.insert(std::string(rule.name)).second) << rule.name;
    EXPECT_TRUE(std::regex_match(std::string(rule.since), version)) << rule.name;
    EXPECT_TRUE(rule.at_link || rule.at_package) << rule.name;
    EXPECT_NE(rule.severity, Severity::off) << rule.name;
    EXPECT_NE(rule.check, nullptr);
    for (const std::string_view text : {rule.summary, rule.why, rule.fix, rule.source})
      EXPECT_GE(text.size(), 20u) << rule.name;
    EXPECT_FALSE(rule.summary.ends_with('.')) << rule.name;
    for (const std::string_view text : {rule.why, rule.fix, rule.source}) EXPECT_TRUE(text.ends_with('.')) << rule.name;
    EXPECT_EQ(find_rule(rule.id), &rule);
    EXPECT_EQ(find_rule(rule.name), &rule);
  }
  EXPECT_EQ(find_rule("CD999"), nullptr);
}

TEST(Rules, SpeakLowerCaseWithoutAFullStopAndGiveAHint) {
  std::size_t seen = 0;
  const auto check = [](const std::string& text, const Finding& finding) {
    ASSERT_FALSE(text.empty()) << finding.rule->name << ": " << finding.evidence.message;
    // Names of files, symbols and products keep their own letters; a sentence does not begin with a capital.
    const bool capital = std::isupper(static_cast<unsigned char>(text[0])) && text.size() > 1 &&
                         std::islower(static_cast<unsigned char>(text[1]));
    EXPECT_FALSE(capital) << text;
    EXPECT_FALSE(text.ends_with('.')) << text;
    EXPECT_FALSE(std::isspace(static_cast<unsigned char>(text.back()))) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(text.find("  "), std::string::npos) << text;
  };
  for (const fs::path& path : case_files()) {
    const Case given(path);
    const Judgement judgement = given.run();
    for (const Finding& finding : judgement.findings) {
      ++seen;
      check(finding.evidence.message, finding);
      check(finding.evidence.hint, finding);
      for (const std::string& related : finding.evidence.related) {
        EXPECT_NE(related, finding.path);
        EXPECT_TRUE(std::any_of(given.files.begin(), given.files.end(), [&](const FileRecord& file) {
          return file.path == related;
        })) << related;
      }
    }
  }
  EXPECT_GT(seen, 20u);
}

TEST(Rules, FindingsAreTheSameWhenJudgedAgainAndSorted) {
  for (const fs::path& path : case_files()) {
    const Case given(path);
    const Judgement one = given.run(), two = given.run();
    ASSERT_EQ(one.findings.size(), two.findings.size());
    for (std::size_t i = 0; i < one.findings.size(); ++i) {
      EXPECT_EQ(one.findings[i].evidence.message, two.findings[i].evidence.message);
      if (i > 0) {
        const auto key = [](const Finding& finding) { return std::pair(finding.path, finding.rule->id); };
        EXPECT_LE(key(one.findings[i - 1]), key(one.findings[i]));
      }
    }
  }
}

TEST(Rules, UnreadableFilesAreNotJudgedAndTurnedOffRulesSaySo) {
  FileRecord file = short_file("lib.so", {{"unreadable", true}, {"runpath", {"/build/lib"}}});
  Bundle bundle{"", {&file}, {}};
  for (const VerdictRow& row : judge({&bundle, 1}, Policy{}, Stage::package, {}).verdicts) {
    EXPECT_EQ(row.outcome, Verdict::Outcome::not_applicable);
    EXPECT_EQ(row.reason, "the file could not be read");
  }
  file.unreadable = false;
  Policy policy;
  EXPECT_EQ(judge({&bundle, 1}, policy, Stage::package, {}).findings.size(), 1u);
  policy.severity["absolute-rpath"] = Severity::warning;
  const Judgement milder = judge({&bundle, 1}, policy, Stage::package, {});
  ASSERT_EQ(milder.findings.size(), 1u);
  EXPECT_EQ(milder.findings[0].severity, Severity::warning);
  policy.severity["absolute-rpath"] = Severity::off;
  const Judgement none = judge({&bundle, 1}, policy, Stage::package, {});
  EXPECT_TRUE(none.findings.empty());
  EXPECT_EQ(outcome_of(none, find_rule("absolute-rpath"), "lib.so"), "not applicable: turned off by the policy");
  EXPECT_EQ(outcome_of(judge({&bundle, 1}, Policy{}, Stage::link, {}), find_rule("driver-bundled"), "lib.so"),
            "not applicable: judged when it is packaged");
}

// CUDEPLOY_BLESS=1 writes the page again.
TEST(Rules, PageIsKeptTrue) {
  if (const char* bless = std::getenv("CUDEPLOY_BLESS"); bless && std::string(bless) == "1")
    std::ofstream(CUDEPLOY_RULES_PAGE, std::ios::binary) << rules_markdown();
  EXPECT_EQ(content(CUDEPLOY_RULES_PAGE), rules_markdown()) << "run the test with CUDEPLOY_BLESS=1";
}

TEST(Rules, ExplainShowsEachPart) {
  const Rule& rule = *find_rule("missing-ptx");
  const std::string page = rule_text(rule, false);
  EXPECT_TRUE(page.starts_with("CD401 missing-ptx (error, stage link, package, since 1.0)\n\n")) << page;
  for (const std::string part : {"\nwhy\n  ", "\nfix\n  ", "\nsource\n  "})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace cudeploy
