// In place of files the command takes what was written of them elsewhere: inspect records, reports of a process. Who
// gives a report of cudeploy audit hears what to give instead. Such a document comes from anybody, and as a tree in
// memory it is many times what it is on disk. So it is read as binaries are: in a worker with limits of memory and
// time, and the other files are done whatever happens to it.
#pragma once

#include <string>
#include <vector>

#include "inspect_record.hpp"
#include "worker.hpp"

namespace cudeploy {

/// What a path stands for.
struct SavedDocument {
  enum class Kind { none, record, report, audit_report, damaged } kind = Kind::none;
  InspectRecord record = {};  ///< of a record
  std::string text = {};      ///< a report as people read it; what is wrong, `path: error: …` with its hint line
};

/// One for each path, in their order. A document of ours is told by its content: JSON with our schema; all else, what
/// cannot be opened too, is `none`. `records`: whether inspect records are wanted; where they are not, one is `none`.
/// Throws std::runtime_error when no worker can be started.
std::vector<SavedDocument> read_saved_documents(const std::vector<std::string>& paths, bool records,
                                                WorkerLimits limits);

}  // namespace cudeploy
