#include "find_bytes.hpp"

#include <algorithm>
#include <cstring>

namespace cudeploy {

namespace {

constexpr std::size_t kBlock = 256 << 10;
constexpr std::size_t kMostOffsets = 4096;

}  // namespace

void NeedleSearch::look(std::span<const std::byte> block, std::uint64_t offset) {
  const char* begin = reinterpret_cast<const char*>(block.data());
  // An occurrence counts in the block where its last byte is new.
  const std::uint64_t seen = searched_ > offset ? searched_ - offset : 0;
  for (std::size_t i = 0; i < needles_.size(); ++i) {
    const auto& [text, rare] = needles_[i];
    const std::uint64_t first = seen < text.size() ? 0 : seen - text.size() + 1;
    if (text.empty() || first + text.size() > block.size()) continue;
    const char* last = begin + (block.size() - text.size()) + rare;
    for (const char* hit = begin + first + rare; hit <= last; ++hit) {
      hit = static_cast<const char*>(std::memchr(hit, text[rare], static_cast<std::size_t>(last - hit) + 1));
      if (hit == nullptr) break;
      const char* start = hit - rare;
      if (start[0] != text[0] || std::memcmp(start, text.data(), text.size()) != 0) continue;
      ++found_[i].count;
      if (found_[i].first.size() < kMostOffsets)
        found_[i].first.push_back(offset + static_cast<std::uint64_t>(start - begin));
    }
  }
  searched_ = std::max(searched_, offset + block.size());
}

std::vector<Found> find_bytes(const Bytes& bytes, const std::vector<Extent>& where, std::span<const Needle> needles) {
  NeedleSearch search(needles);
  std::vector<std::byte> block(kBlock);
  for (const Extent& extent : where) {
    for (std::uint64_t at = extent.offset; at < extent.end();) {
      const std::size_t wanted = std::min<std::uint64_t>(block.size(), extent.end() - at);
      const std::size_t got = bytes.read(at, std::span(block).first(wanted));
      search.look(std::span(block).first(got), at);
      if (got < wanted || at + got == extent.end()) break;
      at += got - longest_needle;
    }
  }
  return search.found();
}

}  // namespace cudeploy
