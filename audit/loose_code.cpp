#include "loose_code.hpp"

#include <algorithm>
#include <iterator>

namespace cudeploy {

bool is_loose_code(const FileRecord& file) {
  return (file.format == Format::cubin || file.format == Format::ptx) && !file.fat_binaries.empty();
}

const FileRecord* first_loose_code(const Bundle& bundle) {
  const auto first = std::find_if(bundle.files.begin(), bundle.files.end(),
                                  [](const FileRecord* file) { return is_loose_code(*file); });
  return first == bundle.files.end() ? nullptr : *first;
}

std::vector<const FileRecord*> loose_code(const Bundle& bundle) {
  std::vector<const FileRecord*> files;
  std::ranges::copy_if(bundle.files, std::back_inserter(files),
                       [](const FileRecord* file) { return is_loose_code(*file); });
  return files;
}

bool is_any_loadable(const std::vector<const FileRecord*>& files) {
  return std::ranges::any_of(
      files, [](const FileRecord* file) { return std::ranges::any_of(file->fat_binaries, &FatBinary::loadable); });
}

}  // namespace cudeploy
