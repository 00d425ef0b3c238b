// A file that is right alone can be wrong in company: two runtimes, a library that no search path reaches. So what
// ships together is judged together.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inspect_record.hpp"

namespace cudeploy {

/// Files that ship together: what one package, one folder, or the files named on one command line hold.
struct Bundle {
  std::string name;                      ///< path of the package or folder; "" for files named one by one
  std::vector<const FileRecord*> files;  ///< sorted by path
  /// Symbolic links that ship with them: path of the link, written like a member's path -> what it says, as it
  /// says it ("libx.so.1.2"). The loader looks for file names, so a library without its link is not found.
  std::map<std::string, std::string> links;
  /// What ld.so.conf and the files of ld.so.conf.d that ship with them name: path of such a file -> folders.
  std::map<std::string, std::vector<std::string>> loader_folders = {};
  /// Of a package: it and each package in it: path -> how what it holds gets onto a machine.
  std::map<std::string, Unpacking> packages = {};
};

/// Whether the file is started, not loaded: also a position-independent executable.
bool is_executable(const FileRecord& file);

/// Whether the file is loaded into a process: executable or shared object, ELF or PE.
bool is_loadable(const FileRecord& file);

/// The last part of a path, package members included.
std::string_view file_name(std::string_view path);

/// The package that a member lies in, "a.deb!/data.tar.xz!" of "a.deb!/data.tar.xz!/usr/lib/x.so"; "" for a file that
/// lies in none, whatever its folders are called. A part of `path`.
std::string_view package_root(const Bundle& bundle, std::string_view path);

/// How what a package holds gets onto a machine. `root` is one of `package_root`.
Unpacking unpacking_of(const Bundle& bundle, std::string_view root);

/// Whether that is at "/": absolute paths and the loader's own folders then mean something.
bool is_unpacked_at_root(const Bundle& bundle, std::string_view root);

/// "a/./b/../c" -> "a/c". A leading ".." is kept. Purely textual.
std::string normal_path(std::string_view path);

}  // namespace cudeploy
