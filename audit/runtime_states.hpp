// Two CUDA runtimes are harmless until they meet in one process. Which ones can meet is the same question for every
// rule about runtimes: a library may be loaded by any program of its bundle, two programs never meet, and builds of
// one library for several CUDA or Python versions, CPUs or distributions are alternatives of which one is loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "closure.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// Where the state of a runtime lives.
enum class RuntimeState {
  private_copy,  ///< in this very file
  unified,       ///< one for all unified copies of a generation
  shared,        ///< in libcudart
  hybrid,        ///< Windows: in the driver's DLL
};

/// The state that a copy works on; null for what brings no state into the user's own code (the shared library
/// itself, stand-ins).
std::optional<RuntimeState> state_of(const RuntimeCopy& copy);

/// CUDA majors that a copy can be of: from its version, API level or generation; where it stands for a shared library,
/// all that the file needs by name. Empty where nothing tells.
std::vector<int> majors_of(const FileRecord& file, const RuntimeCopy& copy);

/// "libcudart.so.12" and what wheel tools make of it, "libcudart-0a1b2c3d.so.12.4.127" -> 12; "cudart64_110.dll" -> 11.
/// Nothing for other names.
std::optional<int> major_of_library(std::string_view name);

/// Whether NVIDIA made this file: its private runtime is by design, and its licence forbids changes.
bool is_vendor_file(const FileRecord& file);

/// Whether both can be in one process, as far as names and types tell.
bool may_meet(const FileRecord& a, const FileRecord& b, const Closure& closure);

/// What that depends on, for who asks about many: reading it from the names takes longest.
class Meeting {
 public:
  Meeting(const FileRecord& file, const Closure& closure);
  bool may_meet(const Meeting& other) const;
  bool is_executable() const { return executable_; }

 private:
  const FileRecord* file_;
  std::string_view name_;  // in its path
  bool executable_;
  std::string path_of_any_build_, name_of_any_build_;
};

/// "a.so, b.so, c.so and 8 more": at most three names.
std::string short_list(const std::vector<std::string>& names);

}  // namespace cudeploy
