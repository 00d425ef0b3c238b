#include "runtime_states.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>

#include "closure.hpp"
#include "gpu.hpp"

namespace cudeploy {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// A file name without what tells builds of one thing apart: "libx_cuda118.so" -> "libx_.so",
/// "y.cpython-311-x86_64-linux-gnu.so" -> "y.-x86_64-linux-gnu.so".
std::string without_build_tags(std::string_view name) {
  std::string result;
  for (std::size_t at = 0; at < name.size();) {
    std::size_t skip = 0;
    for (const std::string_view tag : {"cuda", "cu", "cpython-", "cp"})
      if (name.substr(at).starts_with(tag) && at + tag.size() < name.size() && is_digit(name[at + tag.size()])) {
        skip = tag.size();
        break;
      }
    if (!skip) {
      result += name[at++];
      continue;
    }
    at += skip;
    while (at < name.size() && is_digit(name[at])) ++at;
  }
  return result;
}

std::optional<int> leading_number(std::string_view text) {
  if (const auto version = driver_version(text.substr(0, text.find_first_not_of("0123456789")))) return version->branch;
  return {};
}

}  // namespace

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

std::optional<int> major_of(const FileRecord& file, const RuntimeCopy& copy) {
  if (copy.version)
    if (const auto major = leading_number(*copy.version)) return major;
  if (copy.api_level) return *copy.api_level / 1000;
  if (copy.generation)
    if (const auto major = leading_number(*copy.generation)) return major;
  if (copy.kind == RuntimeCopyKind::driver_hybrid) return 13;
  if (copy.kind == RuntimeCopyKind::needs_shared)
    for (const std::string& name : file.needed) {
      if (name.starts_with("libcudart.so.")) return leading_number(std::string_view(name).substr(13));
      if (name.starts_with("cudart64_")) {
        const auto number = leading_number(std::string_view(name).substr(9));
        return number && *number >= 100 ? *number / 10 : number;  // cudart64_110.dll is 11.0
      }
    }
  return {};
}

bool is_vendor_file(const FileRecord& file) { return file.vendor.has_value(); }

bool may_meet(const FileRecord& a, const FileRecord& b) {
  if (a.format != b.format || a.machine != b.machine) return false;
  if (is_executable(a) && is_executable(b)) return false;
  return without_build_tags(file_name(a.path)) != without_build_tags(file_name(b.path)) ||
         file_name(a.path) == file_name(b.path);
}

std::string short_list(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + most, ", "), names.size() - most);
}

}  // namespace cudeploy
