#include "loose_code.hpp"

#include <algorithm>

namespace cudeploy {

bool is_loose_code(const FileRecord& file) {
  return (file.format == Format::cubin || file.format == Format::ptx) && !file.fat_binaries.empty();
}

const FileRecord* first_loose_code(const Bundle& bundle) {
  const auto first = std::find_if(bundle.files.begin(), bundle.files.end(),
                                  [](const FileRecord* file) { return is_loose_code(*file); });
  return first == bundle.files.end() ? nullptr : *first;
}

LooseCode join_loose_code(const Bundle& bundle) {
  LooseCode result;
  result.joined.loadable = false;
  for (const FileRecord* file : bundle.files) {
    if (!is_loose_code(*file)) continue;
    ++result.files;
    for (const FatBinary& container : file->fat_binaries) {
      if (!container.loadable) continue;
      result.joined.loadable = true;
      result.joined.images.insert(result.joined.images.end(), container.images.begin(), container.images.end());
    }
  }
  return result;
}

}  // namespace cudeploy
