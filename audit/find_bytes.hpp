// Names and ids are looked for in hundreds of megabytes of data. Reading in blocks that stay in the processor's
// cache, and jumping from one rare byte to the next, makes that as fast as reading alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "bytes.hpp"

namespace cudeploy {

/// What to look for. `rare` is the index of a byte of the text that is seldom in such data.
struct Needle {
  std::string_view text;
  std::size_t rare = 0;
};

/// Calls `found` with the index of the needle and the offset of each occurrence that lies wholly inside one of
/// `where`; per needle in the order of `where`. All needles in one pass over the data; at most 64 KiB long each.
void find_bytes(const Bytes& bytes, const std::vector<Extent>& where, std::span<const Needle> needles,
                const std::function<void(std::size_t, std::uint64_t)>& found);

}  // namespace cudeploy
