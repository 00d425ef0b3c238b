// A library is found by the path that somebody opens, and what lies there depends on links: of the library, and of
// each folder on the way. This opens paths of a bundle as the kernel would where the bundle is unpacked, at a cost that
// hostile links cannot raise.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bundle.hpp"

namespace cudeploy {

/// Linux opens no path of as many bytes (PATH_MAX), so longer ones lead nowhere.
constexpr std::size_t path_limit = 4096;

/// What a look costs besides the bytes of its names.
constexpr std::size_t one_try = 64;

/// A path, split where a package ends and its own tree begins.
struct Place {
  std::string root;   ///< "a.deb!/data.tar.xz!", "dist", or "" for files named one by one
  std::string inner;  ///< below it, normalised, no slash in front
};

/// The files of a bundle by path, with its symbolic links.
class BundleTree {
 public:
  /// Keeps `bundle` by reference.
  explicit BundleTree(const Bundle& bundle);

  /// Of a file that is loaded, or names folders for the loader.
  const Place& place(std::string_view path) const { return places_.find(path)->second; }

  /// The folder of a place below `root`, "" for the top.
  static std::string folder_of(const std::string& inner);

  /// The file that opening this path gives, null where the bundle has none. As the kernel does it: part by part,
  /// links followed on the way, so that a ".." behind a linked folder leads to where the folder really lies. A relative
  /// path is one from `folder`, where that really lies.
  const FileRecord* open(const std::string& root, const std::string& path, const std::string& folder = "") const;

  /// The file that a link of the bundle leads to, by the link's own path.
  const FileRecord* open_link(std::string_view path) const;

  /// Bytes of names that were looked up on the way of all paths so far: what a link says can be long, and lead on.
  std::size_t walked() const { return walked_; }

  /// Where a path really lies; nothing where it leads out of the bundle, runs in a circle or is too long.
  std::optional<std::string> resolve(const std::string& root, std::string path, std::string done = "") const;

 private:
  Place locate(std::string_view path) const;

  const Bundle& bundle_;
  std::unordered_map<std::string_view, Place> places_;  // by path: the packages of a path are many to search
  std::map<std::string, const FileRecord*> files_;
  std::map<std::string, std::string> links_;
  mutable std::size_t walked_ = 0;
};

}  // namespace cudeploy
