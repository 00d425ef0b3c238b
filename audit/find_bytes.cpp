#include "find_bytes.hpp"

#include <algorithm>
#include <cstring>

#include "parallel.hpp"

namespace cudeploy {

namespace {

constexpr std::size_t kBlock = 256 << 10;
constexpr std::uint64_t kShare = 4 << 20;  // what a thread takes at a time

struct Hit {
  std::size_t needle;
  std::uint64_t offset;
};

/// Occurrences that begin in the first `size` bytes of `extent`, which reaches further so that none is cut.
void search(const Bytes& bytes, Extent extent, std::uint64_t size, std::span<const Needle> needles, std::size_t longest,
            std::vector<Hit>& hits) {
  std::vector<std::byte> block(std::min<std::uint64_t>(kBlock, extent.size));
  std::size_t seen = 0;  // bytes at the start of the block that were searched with the block before
  for (std::uint64_t at = extent.offset; at < extent.end();) {
    std::size_t got = bytes.read(at, std::span(block).first(std::min<std::uint64_t>(block.size(), extent.end() - at)));
    if (got <= seen) break;
    const char* begin = reinterpret_cast<const char*>(block.data());
    for (std::size_t i = 0; i < needles.size(); ++i) {
      const auto& [text, rare] = needles[i];
      if (got < text.size()) continue;
      // An occurrence counts in the block where its last byte is new.
      std::size_t first = seen < text.size() ? 0 : seen - text.size() + 1;
      const char* last = begin + (got - text.size()) + rare;
      for (const char* hit = begin + first + rare; hit <= last; ++hit) {
        hit = static_cast<const char*>(std::memchr(hit, text[rare], static_cast<std::size_t>(last - hit) + 1));
        if (hit == nullptr) break;
        const char* start = hit - rare;
        if (start[0] != text[0] || std::memcmp(start, text.data(), text.size()) != 0) continue;
        std::uint64_t offset = at + static_cast<std::uint64_t>(start - begin);
        if (offset - extent.offset < size) hits.push_back({i, offset});
      }
    }
    if (at + got >= extent.end()) break;
    seen = std::min(got, longest - 1);
    at += got - seen;
  }
}

}  // namespace

void find_bytes(const Bytes& bytes, const std::vector<Extent>& where, std::span<const Needle> needles,
                const std::function<void(std::size_t, std::uint64_t)>& found) {
  std::size_t longest = 0;
  for (const Needle& needle : needles) longest = std::max(longest, needle.text.size());
  if (longest == 0) return;
  struct Share {
    Extent extent;
    std::uint64_t size;
  };
  std::vector<Share> shares;
  for (const Extent& extent : where) {
    for (std::uint64_t at = 0; at < extent.size; at += kShare) {
      std::uint64_t size = std::min(kShare, extent.size - at);
      shares.push_back({{extent.offset + at, std::min(size + longest - 1, extent.size - at)}, size});
    }
  }
  std::vector<std::vector<Hit>> hits(shares.size());
  for_each_index(shares.size(),
                 [&](std::size_t i) { search(bytes, shares[i].extent, shares[i].size, needles, longest, hits[i]); });
  for (const std::vector<Hit>& some : hits) {
    for (const Hit& hit : some) found(hit.needle, hit.offset);
  }
}

}  // namespace cudeploy
