// Names and ids are looked for in hundreds of megabytes of data. Reading in blocks that stay in the processor's
// cache, and jumping from one rare byte to the next, makes that as fast as reading alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "bytes.hpp"

namespace cudeploy {

/// Calls `found` with the offset of each occurrence of `needle` that lies wholly inside one of `where`. `rare` is
/// the index of a byte of the needle that is seldom in such data.
void find_bytes(const Bytes& bytes, const std::vector<Extent>& where, std::string_view needle, std::size_t rare,
                const std::function<void(std::uint64_t)>& found);

}  // namespace cudeploy
