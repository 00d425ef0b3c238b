#include "bundle.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cudeploy {

bool is_executable(const FileRecord& file) {
  return file.type == "executable" || (file.interpreter && !file.soname && file.format == Format::elf);
}

bool is_loadable(const FileRecord& file) {
  if (file.format != Format::elf && file.format != Format::pe) return false;
  return is_executable(file) || file.type == "shared";
}

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string_view package_root(const Bundle& bundle, std::string_view path) {
  // Of all packages that the path may begin with, the greatest that is not greater than the path is the innermost; if
  // it is none of them, each of them begins as both do.
  const auto& packages = bundle.packages;
  for (std::string_view rest = path; !rest.empty();) {
    auto next = packages.upper_bound(std::string(rest));
    if (next == packages.begin()) break;
    const std::string& package = (--next)->first;
    if (path.starts_with(package) && path.substr(package.size()).starts_with("!/"))
      return path.substr(0, package.size() + 1);
    const auto differ = std::mismatch(package.begin(), package.end(), rest.begin(), rest.end()).first;
    rest = rest.substr(0, std::min<std::size_t>(differ - package.begin(), package.empty() ? 0 : package.size() - 1));
  }
  return {};
}

Unpacking unpacking_of(const Bundle& bundle, std::string_view root) {
  if (!root.ends_with('!')) return Unpacking::anywhere;
  const auto package = bundle.packages.find(std::string(root.substr(0, root.size() - 1)));
  return package == bundle.packages.end() ? Unpacking::anywhere : package->second;
}

bool is_unpacked_at_root(const Bundle& bundle, std::string_view root) {
  return unpacking_of(bundle, root) != Unpacking::anywhere;
}

std::string normal_path(std::string_view path) {
  const bool absolute = path.starts_with('/');
  std::vector<std::string_view> parts;
  std::size_t at = 0;
  while (at <= path.size()) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty() && parts.back() != "..") {
      parts.pop_back();
    } else if (!absolute) {
      parts.push_back(part);
    }
  }
  const std::string joined = fmt::format("{}", fmt::join(parts, "/"));
  if (absolute) return "/" + joined;
  return joined.empty() ? "." : joined;
}

}  // namespace cudeploy
