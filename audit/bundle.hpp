// A file that is right alone can be wrong in company: two runtimes, a library that no search path reaches. So what
// ships together is judged together.
#pragma once

#include <map>
#include <string>
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

}  // namespace cudeploy
