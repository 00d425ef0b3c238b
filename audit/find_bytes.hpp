// Names and ids are looked for in hundreds of megabytes of data. Reading in blocks that stay in the processor's
// cache, and jumping from one rare byte to the next, makes that as fast as reading alone; and who reads the data
// anyway hands on its blocks, so that nothing is read twice.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bytes.hpp"

namespace cudeploy {

/// Bytes that the longest text may have.
constexpr std::size_t longest_needle = 32;

/// What to look for. `rare` is the index of a byte of the text that is seldom in such data.
struct Needle {
  std::string_view text;
  std::size_t rare = 0;
};

/// Where a needle was found: how often, and the offsets of the first 4096 in ascending order.
struct Found {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> first;
};

/// A search through blocks as they come, in ascending order. Blocks of one stretch overlap by `longest_needle` bytes,
/// so that none is cut; what lies in two blocks counts once.
class NeedleSearch {
 public:
  explicit NeedleSearch(std::span<const Needle> needles) : needles_(needles), found_(needles.size()) {}

  void look(std::span<const std::byte> block, std::uint64_t offset);

  /// One per needle.
  const std::vector<Found>& found() const { return found_; }

 private:
  std::span<const Needle> needles_;
  std::vector<Found> found_;
  std::uint64_t searched_ = 0;  ///< the end of the blocks so far
};

/// Occurrences that lie wholly inside one of `where`, which are disjoint and in ascending order. One per needle.
std::vector<Found> find_bytes(const Bytes& bytes, const std::vector<Extent>& where, std::span<const Needle> needles);

}  // namespace cudeploy
