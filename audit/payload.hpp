// An image may lie compressed in a fat binary, and what its header claims of sizes may be a lie. Here a stored
// stream becomes bytes within fixed bounds: nothing is allocated by a claim, only by what really comes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

enum class Codec { none, lz4_block, lz4_frame, zstd };

/// A stored stream: where its bytes lie, and how many come out.
struct Stored {
  Extent where;  ///< exact compressed bytes, without padding
  Codec codec = Codec::none;
  std::uint64_t size = 0;  ///< bytes when decompressed, as the header claims
};

/// Decompresses `stored` and hands over `parts` of it, which count from the start of the decompressed stream, are
/// sorted by offset, do not overlap and are at most `largest_image` long. Only one part is held at a time, and
/// what comes after the last part is not decompressed. False on damage: `fault` says what, and the parts handed
/// over before were whole.
bool unpack_parts(const Bytes& bytes, const Stored& stored, std::span<const Extent> parts,
                  const std::function<void(std::size_t part, std::vector<std::byte> image)>& take, std::string& fault);

/// The whole stream, down to its last byte.
std::optional<std::vector<std::byte>> unpack(const Bytes& bytes, const Stored& stored, std::string& fault);

}  // namespace cudeploy
