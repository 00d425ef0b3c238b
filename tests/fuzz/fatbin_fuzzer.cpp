// Fat binaries, wherever they lie and however much is asked of them. The last byte of the input chooses the
// place and the options, so that a sample as it is stays a seed.
#include "fatbin.hpp"

#include "hostile_input.hpp"

using cudeploy::require;
using cudeploy::Shrunk;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cudeploy;
  const unsigned choice = size == 0 ? 0 : data[size - 1];
  const MemoryBytes memory({reinterpret_cast<const std::byte*>(data), size});
  const Shrunk bytes(memory, choice & 0x10 ? 5000 : 0);
  const auto place = choice & 1 ? FatbinPlace::any_data : FatbinPlace::named_section;
  ReadOptions options;
  options.payloads = choice & 2;
  options.kernels = choice & 4;
  options.for_audit = choice & 8;
  std::vector<Problem> problems;
  const Extent all{0, bytes.size()};
  looks_like_fatbin(bytes, all);
  const auto found = read_fat_binaries(bytes, all, place, "section", options, problems);
  std::uint64_t end = 0;
  for (const FatBinary& fat_binary : found) {
    require(fat_binary.offset >= end && bytes.holds({fat_binary.offset, fat_binary.size}));
    end = fat_binary.offset + fat_binary.size;
    for (const Image& image : fat_binary.images) {
      require(image.offset >= fat_binary.offset && image.offset < end);
      require(!image.group || (*image.group >= fat_binary.offset && *image.group < image.offset));
      require(image.kernels.empty() || image.kernel_count);
    }
  }
  for (const Problem& problem : problems) require(problem.offset && *problem.offset <= bytes.size());
  if (place == FatbinPlace::any_data) {
    // What is accepted among other data is whole: as a section of its own it has the same images and no gap.
    for (const FatBinary& fat_binary : found) {
      if (!looks_like_fatbin(bytes, {fat_binary.offset, fat_binary.size})) continue;
      std::vector<Problem> again;
      const auto alone = read_fat_binaries(bytes, {fat_binary.offset, fat_binary.size}, FatbinPlace::named_section,
                                           "section", options, again);
      require(alone.size() == 1 && alone[0].size == fat_binary.size &&
              alone[0].images.size() == fat_binary.images.size());
    }
  }
  check_wrappers(bytes, all, problems);
  return 0;
}
