// A policy is written by hand, so each mistake in it is answered with the line, what was expected and the nearest
// right word. Rule names are checked too: a misspelt one would silently leave the rule as it is.
#include "policy.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "gpu.hpp"
#include "nearest.hpp"
#include "rule.hpp"

namespace cudeploy {
namespace {

constexpr std::array<std::string_view, 4> keys = {"driver", "gpus", "provided", "severity"};
constexpr std::array<std::string_view, 4> severities = {"error", "info", "off", "warning"};

/// All messages of this file: where ("file:line: error"), what is wrong, and what would be right.
[[noreturn]] void fail(const std::string& where, const std::string& what, const std::string& hint = {}) {
  std::string message = where + ": " + what;
  if (!hint.empty()) message += "\nhint: " + hint;
  throw std::runtime_error(message);
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  if (const auto right = nearest(word, candidates)) return fmt::format("did you mean '{}'?", *right);
  return fmt::format("one of {}", fmt::join(candidates, ", "));
}

std::string known_gpu_list() {
  std::vector<std::string> names;
  for (const Gpu& gpu : known_gpus()) names.push_back(fmt::format("{}{}", gpu.target.major, gpu.target.minor));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// "90", "9.0" -> {9, 0}; nothing for any other form.
std::optional<GpuTarget> parse_number(std::string_view word) {
  const auto digits = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
  };
  const std::size_t dot = word.find('.');
  if (dot != std::string_view::npos) {
    const std::string_view major = word.substr(0, dot), minor = word.substr(dot + 1);
    if (!digits(major) || !digits(minor) || major.size() > 2 || minor.size() != 1) return {};
    return gpu_of_arch(static_cast<std::uint32_t>(std::stoi(std::string(major)) * 10 + minor[0] - '0'));
  }
  if (!digits(word) || word.size() > 3) return {};
  return gpu_of_arch(static_cast<std::uint32_t>(std::stoi(std::string(word))));
}

/// The known GPU whose number is the nearest; nothing where none is of the next generations.
std::optional<std::string> nearest_gpu(GpuTarget wanted) {
  constexpr int generation = 10;
  const auto distance = [&](const Gpu& gpu) {
    return std::abs((gpu.target.major - wanted.major) * generation + gpu.target.minor - wanted.minor);
  };
  const auto gpus = known_gpus();
  const auto found =
      std::min_element(gpus.begin(), gpus.end(), [&](const Gpu& a, const Gpu& b) { return distance(a) < distance(b); });
  if (found == gpus.end() || distance(*found) > generation) return {};
  return fmt::format("{}{}", found->target.major, found->target.minor);
}

GpuTarget parse_gpu(const std::string& where, const std::string& word) {
  if (const auto target = parse_number(word); target && find_gpu(*target)) return *target;
  // sm_90, compute_90, 90a: an architecture's name instead of the GPU's compute capability.
  std::string bare = word;
  for (const std::string_view prefix : {"sm_", "compute_", "sm", "lto_"})
    if (bare.starts_with(prefix)) {
      bare.erase(0, prefix.size());
      break;
    }
  for (const std::string_view suffix : {"-real", "-virtual"})
    if (bare.ends_with(suffix)) bare.erase(bare.size() - suffix.size());
  if (bare.ends_with("a") || bare.ends_with("f")) bare.pop_back();
  if (bare != word)
    if (const auto target = parse_number(bare); target && find_gpu(*target))
      fail(where, fmt::format("expected a compute capability such as 90 or 9.0, found '{}'", word),
           fmt::format("a GPU is named by its number alone: {}{}", target->major, target->minor));
  std::vector<std::string> names;
  for (const Gpu& gpu : known_gpus()) names.push_back(fmt::format("{}{}", gpu.target.major, gpu.target.minor));
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  auto right = nearest(bare, candidates);
  if (const auto number = parse_number(bare))
    if (const auto near = nearest_gpu(*number)) right = near;
  fail(
      where, fmt::format("no known GPU has the compute capability '{}'", word),
      right ? fmt::format("did you mean {}? known are {}", *right, known_gpu_list()) : "known are " + known_gpu_list());
}

void sort_unique(std::vector<GpuTarget>& gpus) {
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
}

std::string checked_driver(const std::string& where, const std::string& version) {
  const auto parsed = driver_version(version);
  if (parsed && version.find('.') != std::string::npos && parsed->branch >= 100) return version;
  fail(where, fmt::format("expected a driver version of two or three numbers, found '{}'", version),
       "write it as nvidia-smi prints it, for example 580.65 or 580.65.06");
}

/// Reads one policy file. `path` is for messages.
class PolicyFile {
 public:
  PolicyFile(std::string path, const toml::table& root) : path_(std::move(path)), root_(root) {}

  Policy read() const {
    Policy policy;
    policy.name = path_;
    for (const auto& [key, value] : root_) {
      const std::string_view name = key.str();
      if (name == "gpus")
        policy.gpus = read_gpus(value);
      else if (name == "driver")
        policy.driver = checked_driver(at(value, "driver"), text(value, "driver"));
      else if (name == "provided")
        policy.provided = read_provided(value);
      else if (name == "severity")
        policy.severity = read_severity(value);
      else
        fail(at(value, ""), fmt::format("unknown key '{}'", name), did_you_mean(name, keys));
    }
    return policy;
  }

 private:
  /// "file:line: error: key"
  std::string at(const toml::node& node, std::string_view key) const {
    std::string where = fmt::format("{}:{}: error", path_, node.source().begin.line);
    if (!key.empty()) where += fmt::format(": {}", key);
    return where;
  }

  [[noreturn]] void wrong_type(const toml::node& node, std::string_view key, std::string_view expected) const {
    std::ostringstream found;
    found << node.type();
    fail(at(node, key), fmt::format("expected {}, found {}", expected, found.str()));
  }

  std::string text(const toml::node& node, std::string_view key) const {
    if (const auto* value = node.as_string()) return value->get();
    wrong_type(node, key, "a string");
  }

  const toml::array& list(const toml::node& node, std::string_view key) const {
    if (const auto* value = node.as_array()) return *value;
    wrong_type(node, key, "an array");
  }

  std::vector<GpuTarget> read_gpus(const toml::node& node) const {
    std::vector<GpuTarget> gpus;
    for (const toml::node& entry : list(node, "gpus")) {
      std::string word;
      if (const auto* value = entry.as_string())
        word = value->get();
      else if (const auto* number = entry.as_integer())
        word = std::to_string(number->get());
      else if (const auto* real = entry.as_floating_point())
        word = fmt::format("{:.1f}", real->get());
      else
        wrong_type(entry, "gpus", "a number such as 90 or a string such as \"9.0\"");
      gpus.push_back(parse_gpu(at(entry, "gpus"), word));
    }
    sort_unique(gpus);
    return gpus;
  }

  std::vector<std::string> read_provided(const toml::node& node) const {
    std::vector<std::string> names;
    for (const toml::node& entry : list(node, "provided")) {
      const std::string name = text(entry, "provided");
      if (name.empty() || name.find('/') != std::string::npos)
        fail(at(entry, "provided"), fmt::format("expected a soname such as libcublas.so.12, found '{}'", name),
             "the loader asks for a name, not for a path");
      if (name.find_first_of("*?[") != std::string::npos)
        fail(at(entry, "provided"), fmt::format("expected a soname such as libcublas.so.12, found '{}'", name),
             "a name stands for itself, there are no patterns: give each library");
      names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

  std::map<std::string, Severity> read_severity(const toml::node& node) const {
    const auto* table = node.as_table();
    if (!table) wrong_type(node, "severity", "a table, severity.<rule> = \"off\"");
    std::map<std::string, Severity> result;
    for (const auto& [key, value] : *table) {
      const std::string name(key.str());
      const Rule* rule = find_rule(name);
      if (!rule) {
        std::vector<std::string_view> names;
        for (const Rule& known : all_rules()) names.push_back(known.name);
        fail(at(value, "severity"), fmt::format("no rule is called '{}'", name), did_you_mean(name, names));
      }
      const std::string word = text(value, "severity." + name);
      const auto found = std::find(severities.begin(), severities.end(), word);
      if (found == severities.end())
        fail(at(value, "severity." + name), fmt::format("expected error, warning, info or off, found '{}'", word),
             did_you_mean(word, severities));
      constexpr std::array meaning = {Severity::error, Severity::info, Severity::off, Severity::warning};
      const Severity severity = meaning[static_cast<std::size_t>(found - severities.begin())];
      if (!result.emplace(std::string(rule->name), severity).second)
        fail(at(value, "severity"), fmt::format("rule {} is given twice, by id and by name", rule->name));
    }
    return result;
  }

  std::string path_;
  const toml::table& root_;
};

}  // namespace

Policy load_policy(const std::string& name_or_path) {
  if (name_or_path == "default") return {};
  constexpr std::streamsize largest_file = 1 << 20;
  std::ifstream file(name_or_path, std::ios::binary);
  if (!file) {
    constexpr std::array<std::string_view, 1> names = {"default"};
    const auto right = nearest(name_or_path, names);
    fail(name_or_path + ": error", "cannot be opened, and no policy has this name",
         right ? "did you mean 'default'?" : "a policy is 'default' or the path of a TOML file");
  }
  std::string content(static_cast<std::size_t>(largest_file) + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (file.gcount() > largest_file)
    fail(name_or_path + ": error", "expected a policy file of at most 1 MiB, found a larger one");
  if (file.bad() || (file.gcount() == 0 && !file.eof())) fail(name_or_path + ": error", "cannot be read as a file");
  content.resize(static_cast<std::size_t>(file.gcount()));
  toml::table root;
  try {
    root = toml::parse(content, name_or_path);
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    if (!what.empty()) what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
    while (what.ends_with('.')) what.pop_back();
    fail(fmt::format("{}:{}: error", name_or_path, error.source().begin.line), what);
  }
  return PolicyFile(name_or_path, root).read();
}

std::vector<GpuTarget> parse_gpus(const std::string& list) {
  std::vector<GpuTarget> gpus;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string word = list.substr(begin, end - begin);
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!word.empty() && blank(word.front())) word.erase(0, 1);
    while (!word.empty() && blank(word.back())) word.pop_back();
    if (word.empty())
      fail("--gpus: error", fmt::format("expected compute capabilities such as 80,90,120, found '{}'", list));
    gpus.push_back(parse_gpu("--gpus: error", word));
    if (end == list.size()) break;
    begin = end + 1;
  }
  sort_unique(gpus);
  return gpus;
}

std::string parse_driver(const std::string& version) { return checked_driver("--driver: error", version); }

}  // namespace cudeploy
