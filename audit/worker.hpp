// A parser that is fed hostile bytes may crash, hang or swallow all memory, and then must not take the other
// files with it. So each file is read in a process of its own kind: forked, limited, and expendable. The parent
// hands out tasks, gathers what comes back, and writes down which file a worker died on. It opens nothing itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "inspect_record.hpp"

namespace cudeploy {

/// One file to read, perhaps a package with many files in it.
struct Task {
  std::string path;
  bool named = true;       ///< by the user; false for what was found in a folder
  std::uint64_t skip = 0;  ///< so many items of it were read before a worker died; they are not read again
};

/// What a reader tells while it works. An item is a file, or one member of a package.
class Sink {
 public:
  virtual ~Sink() = default;
  /// The task is a package: what it holds ships together. Told of it, then of each package in it, by its path as of a
  /// member; and how what it holds gets onto a machine.
  virtual void package(const std::string& path, Unpacking unpacking) = 0;
  /// An item is read now; its size in bytes. Whoever dies next died of it.
  virtual void begin(const std::string& path, std::uint64_t size) = 0;
  /// The item that was begun is read; or, without one, something about the whole task.
  virtual void records(std::vector<FileRecord> files) = 0;
  /// A symbolic link in a package: its path as of a member, and what it says.
  virtual void link(const std::string& path, const std::string& target) = 0;
  /// A file of a package that names folders for the loader's cache: its path as of a member, and the folders.
  virtual void loader_folders(const std::string& path, const std::vector<std::string>& folders) = 0;
  /// What whoever gave the task wants to know of it, in a form that the two agree on.
  virtual void answer(const std::vector<std::uint8_t>& bytes) = 0;
  /// Long work goes on (unpacking).
  virtual void alive() = 0;
};

/// Runs in the worker. What it throws becomes a problem of the item that was begun.
using Reader = std::function<void(const Task&, Sink&)>;

struct WorkerLimits {
  unsigned workers = 0;                           ///< 0: one per core
  std::uint64_t memory = std::uint64_t{1} << 30;  ///< bytes of data (RLIMIT_DATA) per worker
  std::chrono::milliseconds silence{60'000};      ///< a worker that says nothing for so long is stopped,
  std::chrono::milliseconds per_mebibyte{0};      ///< plus so much for each MiB of the item it is at
  /// Called in the parent some times a second: files done, all of them, and one that is being read.
  std::function<void(std::size_t done, std::size_t all, const std::string& path)> progress = {};
  unsigned deaths = 8;  ///< per task; then the rest of the package is given up
};

/// What was read of one task.
struct Reading {
  std::vector<FileRecord> files;             ///< in the order of the package
  std::map<std::string, std::string> links;  ///< path -> what the link says
  std::map<std::string, std::vector<std::string>> loader_folders;
  std::vector<std::uint8_t> answer;
  std::map<std::string, Unpacking> packages;  ///< itself and those in it, by path; none: it is no package
};

/// Reads all tasks; the result has the order of `tasks`. Throws std::runtime_error when no worker can be started.
std::vector<Reading> read_in_workers(std::span<const Task> tasks, const Reader& reader, const WorkerLimits& limits);

}  // namespace cudeploy
