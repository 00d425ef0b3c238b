// Names, ids and magics are looked for in hundreds of megabytes of data. Most data holds none of them, and two bytes
// that seldom follow each other tell so: one pass asks that of all texts at once, in blocks that stay in the
// processor's cache. Who reads the data anyway takes the pairs of others along, so that nothing is read twice.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bytes.hpp"

namespace cudeploy {

/// Bytes that the longest text may have; the shortest has two.
constexpr std::size_t longest_needle = 32;

/// What to look for. `rare` is the index of a byte of the text that is seldom in such data before the next one.
struct Needle {
  std::string_view text;
  std::size_t rare = 0;
};

/// Finds where one of some pairs of bytes stands.
class PairFilter {
 public:
  void add(char first, char second);

  /// The index of the first byte of the first pair in `data` that `accept(index)` is true for, or the size of `data`.
  template <typename Accept>
  std::size_t find(std::span<const std::byte> data, const Accept& accept) const {
    for (std::size_t at = 0; at + 1 < data.size(); at += stride) {
      at += skip(data.subspan(at));
      const std::size_t end = std::min(at + stride, data.size() - 1);
      for (std::size_t i = at; i < end; ++i)
        if ((bits_[0][std::to_integer<std::size_t>(data[i])] & bits_[1][std::to_integer<std::size_t>(data[i + 1])]) !=
                0 &&
            accept(i))
          return i;
    }
    return data.size();
  }

 private:
  static constexpr std::size_t stride = 64;

  /// The first multiple of `stride` at which so many bytes hold the beginning of a pair, or which has no
  /// `stride` + 1 bytes behind it. Only processors with AVX2 pass over anything.
  std::size_t skip(std::span<const std::byte> data) const;
  std::size_t skip_by_avx2(std::span<const std::byte> data) const;

  // A pair has one of 8 bits; it may stand where both of its bytes have that bit.
  std::size_t count_ = 0;
  std::array<std::array<std::uint8_t, 256>, 2> bits_{};
  // The same by the lower and the upper half of each byte: tables that fit into a register.
  std::array<std::array<std::uint8_t, 16>, 2> lower_{}, upper_{};
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
  explicit NeedleSearch(std::span<const Needle> needles)
      : needles_(needles), found_(needles.size()), next_(needles.size()) {}

  void add_pairs(PairFilter& filter) const;

  /// Looks for the needles whose pair is the one at `pair` in `block`, whose first byte is at `offset` of the data.
  void look(std::span<const std::byte> block, std::size_t pair, std::uint64_t offset);

  /// One per needle.
  const std::vector<Found>& found() const { return found_; }

 private:
  std::span<const Needle> needles_;
  std::vector<Found> found_;
  std::vector<std::uint64_t> next_;  ///< the least offset at which each needle was not found yet
};

/// Occurrences that lie wholly inside one of `where`, which are disjoint and in ascending order. One per needle.
std::vector<Found> find_bytes(const Bytes& bytes, const std::vector<Extent>& where, std::span<const Needle> needles);

}  // namespace cudeploy
