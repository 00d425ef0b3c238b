// One large file is read by one process. Its sections do not depend on each other, so idle cores may take a share;
// what comes out must not depend on who did what when.
#pragma once

#include <cstddef>
#include <functional>

namespace cudeploy {

/// Calls `work` once for each index below `count`, on this thread and, where cores are free, up to three others.
/// Returns when all are done; the first exception that `work` throws, by index, comes through.
void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace cudeploy
