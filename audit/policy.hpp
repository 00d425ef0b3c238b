// What a program needs depends on where it is meant to run. The policy says so in one small TOML file, so that
// the rules stay the same for everybody.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cudeploy {

enum class Severity { off, info, warning, error };

/// A GPU that is wanted: compute capability 9.0 is {9, 0}.
struct GpuTarget {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const GpuTarget&, const GpuTarget&) = default;
};

struct Policy {
  std::string name = "default";
  std::vector<GpuTarget> gpus;               ///< sorted; empty: nothing said
  std::optional<std::string> driver;         ///< oldest driver to run on, "535.54"
  std::map<std::string, Severity> severity;  ///< rule name -> severity
  std::vector<std::string> provided;         ///< sonames that the target machine has
};

/// "default", or the path of a TOML file (read in policy_file.cpp). Throws std::runtime_error with file, key, expected,
/// found, hint.
Policy load_policy(const std::string& name_or_path);

/// "80,90,120" -> targets. Throws std::runtime_error naming the word, with the nearest right one; the
/// message speaks of --gpus.
std::vector<GpuTarget> parse_gpus(const std::string& list);

/// Checks the form of a driver version, "535.54" or "535.54.03". Throws std::runtime_error.
std::string parse_driver(const std::string& version);

}  // namespace cudeploy
