// What ships is a package or a folder, seldom one file, and the faults that count lie between its files. From the
// paths that a user names, this finds the binaries, whatever they are packed in, and what ships together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inspect_record.hpp"
#include "worker.hpp"

namespace cudeploy {

/// A package is somebody else's; what it may cost us is bounded. Counted over a package and all packages in it.
struct PackageLimits {
  std::uint64_t members = 1'000'000;
  std::uint64_t inflated = std::uint64_t{64} << 30;     ///< bytes
  std::uint64_t ratio = 200;                            ///< inflated bytes per byte of the package …
  std::uint64_t ratio_from = std::uint64_t{256} << 20;  ///< … once more than this many bytes are inflated
  std::uint64_t member = std::uint64_t{16} << 30;       ///< bytes of one member that is read
  std::uint64_t in_memory = std::uint64_t{64} << 20;    ///< a larger member goes through an unlinked temporary file
  std::uint64_t names = std::uint64_t{256} << 20;       ///< bytes of all member names and links
  unsigned depth = 5;                                   ///< packages in packages
};

/// Paths of the command line, and what they stand for.
struct Inputs {
  std::vector<Task> tasks;             ///< files, sorted by path, each once
  std::vector<BundleRecord> bundles;   ///< `files` are paths of tasks here
  std::vector<FileRecord> unreadable;  ///< no such file, no permission, no regular file
};

/// Finds the files; opens none of them. Folders are walked in sorted order. A symbolic link in a folder is kept as
/// a link of the bundle and not followed, unless it leads to a file outside of the folder. Special files in a
/// folder are passed over.
Inputs collect(const std::vector<std::string>& paths);

/// Reads one file, or all that a package holds. Runs in a worker.
void read_input(const Task& task, const ReadOptions& options, const PackageLimits& limits, Sink& sink);

/// The whole way: collect, read in workers, put together.
InspectRecord inspect_paths(const std::vector<std::string>& paths, const ReadOptions& options,
                            const PackageLimits& package_limits, const WorkerLimits& worker_limits);

}  // namespace cudeploy
