#include "find_bytes.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cudeploy {

namespace {

constexpr std::size_t kBlock = 256 << 10;
constexpr std::size_t kMostOffsets = 4096;

/// The index of the byte with which a needle's pair begins.
std::size_t pair_of(const Needle& needle) { return std::min(needle.rare, needle.text.size() - 2); }

#if defined(__x86_64__)
/// The tables of one byte of a pair in registers, twice each, as the instruction looks up in halves of 16 bytes.
class Halves {
 public:
  using Table = std::array<std::uint8_t, 16>;

  [[gnu::target("avx2")]] Halves(const Table& lower, const Table& upper)
      : lower_(_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lower.data())))),
        upper_(_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(upper.data())))) {}

  /// The bits of each of the 32 bytes at `at`.
  [[gnu::target("avx2"), gnu::always_inline]] __m256i bits_of(const std::byte* at) const {
    const __m256i nibble = _mm256_set1_epi8(0x0f);
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    return _mm256_and_si256(_mm256_shuffle_epi8(lower_, _mm256_and_si256(bytes, nibble)),
                            _mm256_shuffle_epi8(upper_, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble)));
  }

 private:
  __m256i lower_, upper_;
};
#endif

}  // namespace

void PairFilter::add(char first, char second) {
  const auto bit = static_cast<std::uint8_t>(1u << (count_++ % 8));
  for (const auto& [place, letter] : {std::pair{0, first}, std::pair{1, second}}) {
    const auto byte = static_cast<unsigned char>(letter);
    bits_[place][byte] |= bit;
    lower_[place][byte % 16] |= bit;
    upper_[place][byte / 16] |= bit;
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] std::size_t PairFilter::skip_by_avx2(std::span<const std::byte> data) const {
  const Halves first(lower_[0], upper_[0]), second(lower_[1], upper_[1]);
  std::size_t at = 0;
  for (; at + stride < data.size(); at += stride) {
    const std::byte* here = data.data() + at;
    const __m256i any = _mm256_or_si256(_mm256_and_si256(first.bits_of(here), second.bits_of(here + 1)),
                                        _mm256_and_si256(first.bits_of(here + 32), second.bits_of(here + 33)));
    if (_mm256_testz_si256(any, any) == 0) break;
  }
  return at;
}
#endif

std::size_t PairFilter::skip(std::span<const std::byte> data) const {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return skip_by_avx2(data);
#endif
  return 0;
}

void NeedleSearch::add_pairs(PairFilter& filter) const {
  for (const Needle& needle : needles_) {
    const std::size_t pair = pair_of(needle);
    filter.add(needle.text[pair], needle.text[pair + 1]);
  }
}

void NeedleSearch::look(std::span<const std::byte> block, std::size_t pair, std::uint64_t offset) {
  for (std::size_t i = 0; i < needles_.size(); ++i) {
    const std::string_view text = needles_[i].text;
    const std::size_t before = pair_of(needles_[i]);
    if (pair < before || block.size() - (pair - before) < text.size()) continue;
    const std::size_t start = pair - before;
    if (offset + start < next_[i] || std::memcmp(block.data() + start, text.data(), text.size()) != 0) continue;
    next_[i] = offset + start + 1;
    ++found_[i].count;
    if (found_[i].first.size() < kMostOffsets) found_[i].first.push_back(offset + start);
  }
}

std::vector<Found> find_bytes(const Bytes& bytes, const std::vector<Extent>& where, std::span<const Needle> needles) {
  NeedleSearch search(needles);
  PairFilter filter;
  search.add_pairs(filter);
  std::vector<std::byte> buffer(kBlock);
  for (const Extent& extent : where) {
    for (std::uint64_t at = extent.offset; at < extent.end();) {
      const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), extent.end() - at);
      const auto block = std::span<const std::byte>(buffer).first(bytes.read(at, std::span(buffer).first(wanted)));
      filter.find(block, [&](std::size_t pair) {
        search.look(block, pair, at);
        return false;
      });
      if (block.size() < wanted || at + block.size() == extent.end()) break;
      at += block.size() - longest_needle;
    }
  }
  return search.found();
}

}  // namespace cudeploy
