// The first hour of a project goes into files that every project of its kind has. `cudeploy new` writes them: the
// folders of templates/project/, compiled into the command, so that the one file of a release has them too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cudeploy {

struct ProjectFile {
  std::string_view kind;  ///< folder of templates/project
  std::string_view path;  ///< below it; slashes
  std::string_view text;
};

/// All files, by kind and path.
const std::vector<ProjectFile>& project_files();

/// The kinds that there are, sorted.
std::vector<std::string> project_kinds();

/// Makes the folder `path` with the files of `kind`; its last part is the name of the project and takes the place of
/// "starter" in names and texts. Returns what was written, below `path`. Throws std::runtime_error ("path: error: …")
/// when the name cannot be one, when something of that name exists, and when a file cannot be written; then nothing is
/// left behind.
std::vector<std::string> make_project(const std::string& path, const std::string& kind);

}  // namespace cudeploy
