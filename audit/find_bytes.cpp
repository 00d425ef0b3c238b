#include "find_bytes.hpp"

#include <algorithm>
#include <cstring>

namespace cudeploy {

namespace {
constexpr std::size_t kBlock = 256 << 10;
}

void find_bytes(const Bytes& bytes, const std::vector<Extent>& where, std::string_view needle, std::size_t rare,
                const std::function<void(std::uint64_t)>& found) {
  std::vector<std::byte> block(kBlock);
  for (const Extent& extent : where) {
    for (std::uint64_t at = extent.offset; at + needle.size() <= extent.end();) {
      std::size_t want = std::min<std::uint64_t>(block.size(), extent.end() - at);
      std::size_t got = bytes.read(at, std::span(block).first(want));
      if (got < needle.size()) break;
      const char* begin = reinterpret_cast<const char*>(block.data());
      const char* last = begin + (got - needle.size()) + rare;
      for (const char* hit = begin + rare; hit <= last; ++hit) {
        hit = static_cast<const char*>(std::memchr(hit, needle[rare], static_cast<std::size_t>(last - hit) + 1));
        if (hit == nullptr) break;
        if (std::memcmp(hit - rare, needle.data(), needle.size()) == 0) {
          found(at + static_cast<std::uint64_t>(hit - rare - begin));
        }
      }
      at += got - needle.size() + 1;  // a needle may lie across two blocks
    }
  }
}

}  // namespace cudeploy
