// Some packages hold device code as thousands of loose .cubin and .ptx files. Which of them belong together only the
// program knows, so they are judged as one, over the whole bundle: one answer instead of thousands.
#pragma once

#include <cstddef>

#include "bundle.hpp"

namespace cudeploy {

/// A bare cubin or PTX file. A .fatbin file is a fat binary like any other.
bool is_loose_code(const FileRecord& file);

/// Where the one verdict stands; null where the bundle has none.
const FileRecord* first_loose_code(const Bundle& bundle);

struct LooseCode {
  FatBinary joined;  ///< all their loadable images
  std::size_t files = 0;
};
LooseCode join_loose_code(const Bundle& bundle);

}  // namespace cudeploy
