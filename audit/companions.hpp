// Some of NVIDIA's libraries open others by name while they run: libnvrtc its builtins, cuDNN its own parts. No header
// names these, so ldd shows nothing, the loader does not miss them, and a bundle without them starts and then fails.
// Which library opens what is a table; the exact name, with its version, is read from the library's own data.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inspect_record.hpp"

namespace cudeploy {

/// The texts in a file's data that begin so and end with a zero byte, each once.
using TextSearch = std::function<std::vector<std::string>(std::span<const std::string_view> begins)>;

/// What `record`, known to be NVIDIA's library of this stem ("libnvrtc"; "nvrtc" of a DLL), opens by name, sorted by
/// name, without what it needs anyway.
std::vector<Companion> companions_of(const FileRecord& record, std::string_view stem, const TextSearch& texts);

}  // namespace cudeploy
