// A policy file, and what follows --gpus and --driver: text of any kind gives a policy or one sentence that names the
// place, never anything else. toml++ is compiled in, so that the fuzzer sees through it.
// The seeds are written by hand; those of templates/policies are read too.
#include "policy.hpp"

#include <sys/mman.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "gpu.hpp"
#include "hostile_input.hpp"
#include "rule.hpp"

using cudeploy::require;

namespace {

using namespace cudeploy;

/// A file that has a name and is gone when it is closed.
class NamedText {
 public:
  explicit NamedText(std::string_view text) : descriptor_(memfd_create("policy", MFD_CLOEXEC)) {
    require(descriptor_ >= 0 && write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  ~NamedText() { close(descriptor_); }
  NamedText(const NamedText&) = delete;
  NamedText& operator=(const NamedText&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// What `read` returns, or nothing where it says what is wrong: any other exception ends the run.
template <typename Read>
auto said(const std::string& where, Read read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    require(message.starts_with(where + ":") && message.find(": error: ") < where.size() + 24);
    return {};
  }
}

/// The table of rules.cpp without the rules: here they are words.
std::vector<Rule> rules_by_name() {
  static std::vector<std::string> names;
  names.reserve(100);
  std::vector<Rule> rules;
  const auto add = [&](std::string_view id, std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    rules.push_back({});
    rules.back().id = id;
    rules.back().name = names.emplace_back(std::move(name));
  };
#define RULE(id, variable) add(id, #variable);
#include "rules.def"
#undef RULE
  return rules;
}

std::string_view word(Severity severity) {
  switch (severity) {
    case Severity::off:
      return "off";
    case Severity::info:
      return "info";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  std::abort();
}

std::string written_again(const Policy& policy) {
  toml::table table;
  toml::array gpus, provided;
  for (const GpuTarget& gpu : policy.gpus) gpus.push_back(gpu.major * 10 + gpu.minor);
  for (const std::string& name : policy.provided) provided.push_back(name);
  table.insert("gpus", std::move(gpus));
  table.insert("provided", std::move(provided));
  if (policy.driver) table.insert("driver", *policy.driver);
  toml::table severities;
  for (const auto& [rule, severity] : policy.severity) severities.insert(rule, word(severity));
  table.insert("severity", std::move(severities));
  std::ostringstream text;
  text << table;
  return text.str();
}

}  // namespace

std::span<const Rule> cudeploy::all_rules() {
  static const std::vector<Rule> rules = rules_by_name();
  return rules;
}

const Rule* cudeploy::find_rule(std::string_view id_or_name) {
  for (const Rule& rule : all_rules())
    if (rule.id == id_or_name || rule.name == id_or_name) return &rule;
  return nullptr;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string line(text.substr(0, 64));
  if (const auto gpus = said("--gpus", [&] { return parse_gpus(line); })) {
    require(!gpus->empty() && std::is_sorted(gpus->begin(), gpus->end()));
    for (const GpuTarget& gpu : *gpus) require(find_gpu(gpu));
  }
  if (const auto driver = said("--driver", [&] { return parse_driver(line); }))
    require(*driver == line && driver_version(line));

  const NamedText file(text);
  const auto policy = said(file.path(), [&] { return load_policy(file.path()); });
  if (!policy) return 0;
  require(std::adjacent_find(policy->gpus.begin(), policy->gpus.end(), std::greater_equal{}) == policy->gpus.end());
  for (const GpuTarget& gpu : policy->gpus) require(find_gpu(gpu));
  for (const std::string& name : policy->provided) require(!name.empty() && name.find('/') == std::string::npos);
  for (const auto& [rule, severity] : policy->severity) require(find_rule(rule) && find_rule(rule)->name == rule);
  require(!policy->driver || driver_version(*policy->driver));
  // What was understood, written down, is understood as the same.
  const NamedText again(written_again(*policy));
  const Policy same = load_policy(again.path());
  require(same.gpus == policy->gpus && same.driver == policy->driver && same.provided == policy->provided &&
          same.severity == policy->severity);
  return 0;
}
