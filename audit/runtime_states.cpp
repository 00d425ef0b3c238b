#include "runtime_states.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>

#include "closure.hpp"
#include "gpu.hpp"

namespace cudeploy {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Length of a word at the start of `text` that tells for which CUDA or Python a build is: "cuda118", "cu12", "cp311",
/// "cpython-311", "cuda_v12", "cuda-12.4". 0 for none. "cuda_2" is a part's number: no CUDA that is in use is that old.
std::size_t build_tag(std::string_view text) {
  std::size_t at = 0;
  bool set_apart = false;
  for (const std::string_view tag : {"cuda_v", "cuda-v", "cudav", "cuda_", "cuda-", "cuda", "cu", "cpython-", "cp"})
    if (text.starts_with(tag) && at == 0) {
      at = tag.size();
      set_apart = tag == "cuda_" || tag == "cuda-";
    }
  if (at == 0) return 0;
  const std::size_t digits = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at == digits || (set_apart && at - digits < 2)) return 0;
  while (set_apart && at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1]))
    for (++at; at < text.size() && is_digit(text[at]);) ++at;
  return at;
}

/// Length of a folder at the start of `text` in which the loader looks on better CPUs: "glibc-hwcaps/x86-64-v3/".
std::size_t cpu_folder(std::string_view text) {
  constexpr std::string_view folder = "glibc-hwcaps/";
  const std::size_t end = text.starts_with(folder) ? text.find('/', folder.size()) : std::string_view::npos;
  return end == std::string_view::npos ? 0 : end + 1;
}

/// A name without what tells builds of one thing apart: "libx_cuda118.so" -> "libx_.so",
/// "y.cpython-311-x86_64-linux-gnu.so" -> "y.-x86_64-linux-gnu.so", "lib/cuda_v12/libz.so" -> "lib//libz.so".
std::string without_build_tags(std::string_view name) {
  std::string result;
  for (std::size_t at = 0; at < name.size();) {
    const std::string_view rest = name.substr(at);
    if (const std::size_t skip = std::max(cpu_folder(rest), build_tag(rest)))
      at += skip;
    else
      result += name[at++];
  }
  return result;
}

/// A path without the folders that $LIB and $PLATFORM can stand for: a machine looks into one of them. "a/lib64/x.so"
/// -> "a/x.so"
std::string without_folders_of_tokens(const std::string& path, const Closure& closure) {
  std::string result = "/" + path;
  for (const auto* words : {&closure.lib_words, &closure.platform_words})
    for (const std::string& word : *words) {
      const std::string folder = "/" + word + "/";
      for (std::size_t at; (at = result.find(folder)) != std::string::npos;) result.erase(at, folder.size() - 1);
    }
  return result;
}

std::optional<int> leading_number(std::string_view text) {
  if (const auto version = driver_version(text.substr(0, text.find_first_not_of("0123456789")))) return version->branch;
  return {};
}

}  // namespace

std::optional<int> major_of_library(std::string_view name) {
  constexpr std::string_view elf = "libcudart", windows = "cudart64_";
  if (windows_name(name).starts_with(windows)) {  // up to CUDA 11 the release without its dot: 80, 101, 110
    const auto number = leading_number(name.substr(windows.size()));
    return number && *number >= 40 ? *number / 10 : number;
  }
  if (!name.starts_with(elf)) return {};
  name.remove_prefix(elf.size());
  if (name.starts_with('-')) name.remove_prefix(std::min(name.find('.'), name.size()));
  if (!name.starts_with(".so.")) return {};
  return leading_number(name.substr(4));
}

std::optional<RuntimeState> state_of(const RuntimeCopy& copy) {
  switch (copy.kind) {
    case RuntimeCopyKind::private_static:
      return RuntimeState::private_copy;
    case RuntimeCopyKind::unified:
      return RuntimeState::unified;
    case RuntimeCopyKind::needs_shared:
      return RuntimeState::shared;
    case RuntimeCopyKind::driver_hybrid:
      return RuntimeState::hybrid;
    case RuntimeCopyKind::shared_library:
    case RuntimeCopyKind::stand_in:
      break;
  }
  return {};
}

std::vector<int> majors_of(const FileRecord& file, const RuntimeCopy& copy) {
  if (copy.version)
    if (const auto major = leading_number(*copy.version)) return {*major};
  if (copy.api_level) return {*copy.api_level / 1000};
  if (copy.generation)
    if (const auto major = leading_number(*copy.generation)) return {*major};
  if (copy.kind == RuntimeCopyKind::driver_hybrid) return {13};
  std::vector<int> majors;
  if (copy.kind == RuntimeCopyKind::shared_library && file.soname)
    if (const auto major = major_of_library(*file.soname)) return {*major};
  if (copy.kind == RuntimeCopyKind::needs_shared)
    for (const std::string& name : file.needed)
      if (const auto major = major_of_library(name)) majors.push_back(*major);
  return majors;
}

bool is_vendor_file(const FileRecord& file) { return file.vendor.has_value(); }

Meeting::Meeting(const FileRecord& file, const Closure& closure)
    : file_(&file),
      name_(file_name(file.path)),
      executable_(cudeploy::is_executable(file)),
      path_of_any_build_(without_build_tags(without_folders_of_tokens(file.path, closure))),
      name_of_any_build_(without_build_tags(name_)) {}

bool Meeting::may_meet(const Meeting& other) const {
  if (file_->format != other.file_->format || file_->machine != other.file_->machine) return false;
  if (executable_ && other.executable_) return false;
  if (name_of_any_build_ != other.name_of_any_build_) return true;
  if (name_ != other.name_) return false;
  // One name in two folders: builds for several CUDA versions, CPUs or distributions lie in folders of their own.
  return file_->path == other.file_->path || path_of_any_build_ != other.path_of_any_build_;
}

bool may_meet(const FileRecord& a, const FileRecord& b, const Closure& closure) {
  return Meeting(a, closure).may_meet(Meeting(b, closure));
}

std::string short_list(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + most, ", "), names.size() - most);
}

}  // namespace cudeploy
