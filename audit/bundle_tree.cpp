#include "bundle_tree.hpp"

#include <algorithm>
#include <utility>

namespace cudeploy {
namespace {

std::string_view strip_root(std::string_view path) {
  while (path.starts_with('/')) path.remove_prefix(1);
  return path;
}

std::string key(const Place& place) { return place.root + '\n' + place.inner; }

}  // namespace

BundleTree::BundleTree(const Bundle& bundle) : bundle_(bundle) {
  for (const FileRecord* file : bundle.files)
    if (is_loadable(*file)) files_.emplace(key(places_.emplace(file->path, locate(file->path)).first->second), file);
  for (const auto& [path, folders] : bundle.loader_folders) places_.emplace(path, locate(path));
  for (const auto& [path, target] : bundle.links) links_.emplace(key(locate(path)), target);
}

std::string BundleTree::folder_of(const std::string& inner) {
  const std::size_t slash = inner.rfind('/');
  if (slash == std::string::npos) return "";
  return slash == 0 ? "/" : inner.substr(0, slash);
}

const FileRecord* BundleTree::open(const std::string& root, const std::string& path, const std::string& folder) const {
  const auto resolved = resolve(root, path, folder);
  if (!resolved) return nullptr;
  const auto file = files_.find(key({root, *resolved}));
  return file == files_.end() ? nullptr : file->second;
}

const FileRecord* BundleTree::open_link(std::string_view path) const {
  const Place link = locate(path);
  return open(link.root, link.inner);
}

std::optional<std::string> BundleTree::resolve(const std::string& root, std::string path, std::string done) const {
  constexpr int most_links = 40;                    // as Linux has it
  const std::string top = root.empty() ? "/" : "";  // where an absolute path begins
  if (path.starts_with('/')) done = top;
  std::string name = key({root, ""});
  const std::size_t before = name.size();
  int followed = 0;
  for (std::size_t at = 0; at < path.size();) {
    if (path.size() - at >= path_limit) return {};
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = std::string_view(path).substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (done == "/") continue;
      if (!done.empty() && file_name(done) != "..") {
        done = folder_of(done);
      } else if (root.empty()) {
        done += done.empty() ? ".." : "/..";
      } else if (!is_unpacked_at_root(bundle_, root)) {
        return {};
      }
      continue;
    }
    const std::size_t folder = done.size();
    if (!done.empty() && done != "/") done += '/';
    done += part;
    if (links_.empty()) continue;
    name.resize(before);
    walked_ += one_try + done.size();
    const auto link = links_.find(name += done);
    if (link == links_.end()) continue;
    if (++followed > most_links) return {};
    done.resize(folder);
    if (link->second.starts_with('/')) {
      if (!root.empty() && !is_unpacked_at_root(bundle_, root)) return {};
      done = top;
    }
    path = link->second + "/" + path.substr(std::min(at, path.size()));
    at = 0;
  }
  return done;
}

Place BundleTree::locate(std::string_view path) const {
  if (const std::string_view root = package_root(bundle_, path); !root.empty())
    return {std::string(root), normal_path(strip_root(path.substr(root.size() + 1)))};
  if (!bundle_.name.empty()) {
    std::string_view folder = bundle_.name;
    while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
    if (path.starts_with(folder) && path.size() > folder.size() && (folder == "/" || path[folder.size()] == '/'))
      return {std::string(folder), normal_path(strip_root(path.substr(folder.size())))};
  }
  return {"", normal_path(path)};
}

}  // namespace cudeploy
