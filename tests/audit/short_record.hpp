// A case should show what it is about. Records are written short: images by the toolkit's names, everything that is
// usual left out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "inspect_record.hpp"

namespace cudeploy {

/// "sm_90a zstd", "compute_120 ptx=9.0", "lto_90", "tile_120", "reloc_90"; further words: lz4, group (in a
/// concatenated entry), kernels=N (0 where none; unknown where not given), toolkit=13.0.
Image short_image(const std::string& text);

/// A list of images, or an object with "images", "loadable", "offset" and "bare" (in no container; that of files of
/// device code, where nothing is said).
FatBinary short_fat_binary(const nlohmann::json& value, bool bare);

/// "private-static 13.0", "needs-shared", "unified 13.0 generation=13_1", "private-static level=12080".
RuntimeCopy short_runtime(const std::string& text);

/// An ELF shared object of x86_64 where nothing else is said.
FileRecord short_file(const std::string& path, const nlohmann::json& value);

}  // namespace cudeploy
