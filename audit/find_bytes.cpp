#include "find_bytes.hpp"

#include <algorithm>
#include <cstring>

namespace cudeploy {

namespace {
constexpr std::size_t kBlock = 256 << 10;
}

void find_bytes(const Bytes& bytes, const std::vector<Extent>& where, std::span<const Needle> needles,
                const std::function<void(std::size_t, std::uint64_t)>& found) {
  std::size_t longest = 0;
  for (const Needle& needle : needles) longest = std::max(longest, needle.text.size());
  std::vector<std::byte> block(kBlock);
  for (const Extent& extent : where) {
    std::size_t seen = 0;  // bytes at the start of the block that were searched with the block before
    for (std::uint64_t at = extent.offset; at < extent.end();) {
      std::size_t got = bytes.read(at, std::span(block).first(std::min<std::uint64_t>(kBlock, extent.end() - at)));
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
          if (std::memcmp(hit - rare, text.data(), text.size()) == 0) {
            found(i, at + static_cast<std::uint64_t>(hit - rare - begin));
          }
        }
      }
      if (at + got >= extent.end()) break;
      seen = std::min(got, longest - 1);
      at += got - seen;
    }
  }
}

}  // namespace cudeploy
