// Some packages hold device code as thousands of loose .cubin and .ptx files. Which of them belong together only the
// program knows, so they are judged as one, over the whole bundle: one answer instead of thousands.
#pragma once

#include <vector>

#include "bundle.hpp"

namespace cudeploy {

/// A bare cubin or PTX file. A .fatbin file is a fat binary like any other.
bool is_loose_code(const FileRecord& file);

/// Where the one verdict stands; null where the bundle has none.
const FileRecord* first_loose_code(const Bundle& bundle);

/// All of them, in the bundle's order: their images are in no container, so JudgedCode joins them.
std::vector<const FileRecord*> loose_code(const Bundle& bundle);

/// Whether some device code of these files is linked already.
bool is_any_loadable(const std::vector<const FileRecord*>& files);

}  // namespace cudeploy
