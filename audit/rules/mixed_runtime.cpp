// A private runtime beside the shared one, or two majors of it: the code compiles, links and starts, and then half of
// it talks to one runtime and half to the other.
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "closure.hpp"
#include "rule.hpp"
#include "runtime_states.hpp"

namespace cudeploy::rules {
namespace {

std::string hint(const FileRecord& file) {
  if (file.format == Format::pe)
    return "choose one runtime for all files that meet: 'nvcc -cudart shared' for each, from one CUDA major";
  return "choose one runtime for all objects that meet: RUNTIME unified or RUNTIME shared in each 'cudeploy_target', "
         "from one CUDA major";
}

struct Use {
  RuntimeState state;
  std::optional<int> major;
  std::string library = {};  ///< shared: what the loader calls the library, since each is a state of its own
  friend auto operator<=>(const Use&, const Use&) = default;
};

std::string describe(const Use& use) {
  const std::string major = use.major ? fmt::format(" {}", *use.major) : "";
  switch (use.state) {
    case RuntimeState::private_copy:
      return "private CUDA runtime" + major;
    case RuntimeState::unified:
      return "unified CUDA runtime" + major;
    case RuntimeState::shared:
      // The name says more than the major only where a wheel tool made it.
      return "shared libcudart" + major + (use.library.find('-') != std::string::npos ? " (" + use.library + ")" : "");
    case RuntimeState::hybrid:
      break;
  }
  return "driver's own CUDA runtime" + major;
}

/// What the loader knows a needed library by: its soname, where the bundle has it; on Windows the name that is asked
/// for.
std::string library_of(const FileRecord& file, const std::string& name, const Closure& closure) {
  if (file.format == Format::pe) return windows_name(name);
  const auto found = closure.occurrences.find(&file);
  if (found == closure.occurrences.end()) return name;
  const Occurrence& place = found->second.front();
  for (const Need& need : closure.processes[place.process].objects[place.object].needs)
    if (need.name == name && need.file) return need.file->soname.value_or(std::string(file_name(need.file->path)));
  return name;
}

std::set<Use> uses_of(const FileRecord& file, const Closure& closure) {
  std::set<Use> uses;
  if (!is_loadable(file)) return uses;
  bool named = false;  // each shared one by its name: once tells them all
  for (const RuntimeCopy& copy : file.runtime_copies) {
    const auto state = state_of(copy);
    if (!state || (named && state == RuntimeState::shared)) continue;
    if (state == RuntimeState::shared)
      for (const std::string& name : file.needed)
        if (const auto major = major_of_library(name)) {
          uses.insert({*state, major, library_of(file, name, closure)});
          named = true;
        }
    if (named && state == RuntimeState::shared) continue;
    const std::vector<int> majors = majors_of(file, copy);
    if (majors.empty()) uses.insert({*state, {}});
    for (const int major : majors) uses.insert({*state, major});
  }
  return uses;
}

/// Private copies of one kind are another rule's business; unified ones are told apart by the major, shared ones by
/// their names too.
bool differ(const Use& a, const Use& b) {
  if (a.state != b.state) return true;
  if (!a.library.empty() && !b.library.empty() && a.library != b.library) return true;
  return a.state != RuntimeState::private_copy && a.major && b.major && *a.major != *b.major;
}

/// A file that works with a runtime. Files with the same uses are told apart by nothing else here.
struct User {
  const FileRecord* file;
  std::size_t uses;  ///< index of its uses
  bool vendor;
  Meeting meeting;
  bool is_mixed = false;
};

/// Which uses may not be in one process.
class Clashes {
 public:
  std::size_t index_of(const std::set<Use>& uses) {
    const auto [known, fresh] = indices_.try_emplace(uses, all_.size());
    if (fresh) all_.push_back(&known->first);
    return known->second;
  }

  /// Whether two files with these uses clash where uses of one kind matter (two majors, two names), or of two kinds.
  bool clash(std::size_t a, std::size_t b, bool one_kind_matters, bool two_kinds_matter) {
    const auto [known, fresh] = pairs_.try_emplace({std::min(a, b), std::max(a, b)});
    auto& [one_kind, two_kinds] = known->second;
    if (fresh)
      for (const Use& one : *all_[a])
        for (const Use& other : *all_[b])
          if (differ(one, other)) (one.state == other.state ? one_kind : two_kinds) = true;
    return (one_kind && one_kind_matters) || (two_kinds && two_kinds_matter);
  }

 private:
  std::map<std::set<Use>, std::size_t> indices_;
  std::vector<const std::set<Use>*> all_;
  std::map<std::pair<std::size_t, std::size_t>, std::pair<bool, bool>> pairs_;
};

/// Those that some process loads together, by what the files themselves need. NVIDIA's own private copies are by
/// design. Two majors of the shared runtime are not, whoever needs them.
void mark_linked(std::vector<User>& users, const Closure& closure, Clashes& clashes) {
  std::map<std::size_t, std::vector<User*>> by_process;
  for (User& user : users)
    if (const auto found = closure.occurrences.find(user.file); found != closure.occurrences.end())
      for (const Occurrence& occurrence : found->second) {
        auto& loaded = by_process[occurrence.process];
        if (loaded.empty() || loaded.back() != &user) loaded.push_back(&user);
      }
  for (const auto& [process, loaded] : by_process)
    for (std::size_t i = 0; i < loaded.size(); ++i)
      for (std::size_t k = 0; k < loaded.size() && !loaded[i]->is_mixed; ++k) {
        User &a = *loaded[i], &b = *loaded[k];
        if (i == k || a.file->machine != b.file->machine ||
            !clashes.clash(a.uses, b.uses, true, !a.vendor && !b.vendor))
          continue;
        a.is_mixed = b.is_mixed = true;
      }
}

/// Those that a program may load together. Libraries for different majors that nothing links together are
/// alternatives.
void mark_met(std::vector<User>& users, Clashes& clashes) {
  for (User& a : users)
    for (User& b : users) {
      if (a.is_mixed) break;
      if (&a == &b || a.vendor || b.vendor || !a.meeting.may_meet(b.meeting)) continue;
      const bool program = a.meeting.is_executable() || b.meeting.is_executable();
      if (clashes.clash(a.uses, b.uses, program, true)) a.is_mixed = b.is_mixed = true;
    }
}

std::vector<const FileRecord*> take_part(const Bundle& bundle, const Closure& closure) {
  std::vector<User> users;
  Clashes clashes;
  for (const FileRecord* file : bundle.files)
    if (const std::set<Use> uses = uses_of(*file, closure); !uses.empty())
      users.push_back({file, clashes.index_of(uses), is_vendor_file(*file), Meeting(*file, closure)});
  mark_linked(users, closure, clashes);
  mark_met(users, clashes);
  std::vector<const FileRecord*> together;
  for (const User& user : users)
    if (user.is_mixed) together.push_back(user.file);
  return together;
}

std::string list_of_uses(const std::map<std::string, std::vector<std::string>>& by_use) {
  std::string text;
  for (const auto& [use, paths] : by_use)
    text += fmt::format("{}{} in {}", text.empty() ? "" : "; ", use, short_list(paths));
  return text;
}

Verdict check(const Subject& subject) {
  const FileRecord& file = subject.file;
  const std::set<Use> own = uses_of(file, subject.closure);
  if (own.empty())
    return Verdict::not_applicable(!file.runtime_copies.empty() && !is_loadable(file) ? "not linked yet"
                                                                                      : "uses no CUDA runtime");
  std::vector<Evidence> evidence;
  if (!is_vendor_file(file))
    for (auto one = own.begin(); one != own.end() && evidence.empty(); ++one)
      for (auto other = std::next(one); other != own.end(); ++other)
        if (differ(*one, *other)) {
          evidence.push_back(
              {fmt::format("one file with a {} and a {}", describe(*one), describe(*other)), hint(file), {}});
          break;
        }

  if (subject.takes_part) {
    if (subject.together.front() != &file) {
      Verdict verdict = Verdict::flagged_with(subject.together.front()->path);
      verdict.evidence = std::move(evidence);
      return verdict;
    }
    std::map<std::string, std::vector<std::string>> by_use;
    std::vector<std::string> related;
    for (const FileRecord* other : subject.together) {
      if (other != &file) related.push_back(other->path);
      for (const Use& use : uses_of(*other, subject.closure)) by_use[describe(use)].push_back(other->path);
    }
    evidence.push_back(
        {"different CUDA runtimes can meet in one process: " + list_of_uses(by_use), hint(file), std::move(related)});
  }
  if (evidence.empty()) return Verdict::clean();
  return Verdict::flagged(std::move(evidence));
}

}  // namespace

extern const Rule mixed_runtime;
constinit const Rule mixed_runtime = {
    .id = {},
    .name = "mixed-runtime",
    .severity = Severity::error,
    .at_link = true,
    .at_package = true,
    .since = "1.0",
    .summary =
        "CUDA runtimes of different kinds or majors that can meet in one process: static beside shared, private "
        "beside unified, two majors, libcudart under two names",
    .why =
        "Two runtimes in one process share the driver's context and nothing else. Kernels registered with one are "
        "unknown to the other, a launch configuration pushed into one is missing in the other (52), and the last "
        "error is kept twice. People meet it as illegal memory access, wrong numbers or a crash at exit, since "
        "it depends on which of them a symbol was bound to. Files of NVIDIA's that hold a private copy do not "
        "count. Libraries for different CUDA majors that nothing links together are alternatives.",
    .fix =
        "Use one kind of runtime from one CUDA major in all objects that meet. In CMake set it on every target, also "
        "on those without CUDA sources that link CUDA::cudart: CMAKE_CUDA_RUNTIME_LIBRARY does not reach them.",
    .source =
        "pytorch/FBGEMM#1818; NVIDIA/TensorRT-LLM#6890; NVIDIA/cudf#7887; celeritas-project/celeritas#442; "
        "NVIDIA/Fuser#940; vllm-project/vllm#43435; NVIDIA/cuda-quantum#4236; wheels transformer_engine_cu12 2.20.2 "
        "and k2 1.23.4.",
    .check = check,
    .take_part = take_part,
};

}  // namespace cudeploy::rules
