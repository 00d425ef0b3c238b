// Occurrences count once each, also where they lie across two blocks or end with the data.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "find_bytes.hpp"

namespace cudeploy {
namespace {

using Hits = std::vector<std::pair<std::size_t, std::uint64_t>>;

Hits search(const std::string& text, const std::vector<Extent>& where, std::vector<Needle> needles) {
  MemoryBytes bytes(std::as_bytes(std::span(text)));
  Hits hits;
  const std::vector<Found> found = find_bytes(bytes, where, needles);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].count, found[i].first.size());
    for (std::uint64_t at : found[i].first) hits.emplace_back(i, at);
  }
  return hits;
}

TEST(FindBytes, FindsEachOccurrenceOnceWhereverBlocksEnd) {
  constexpr std::size_t block = 256 << 10;
  for (std::size_t at : {block - 9, block - 8, block - 4, block - 1, block, 2 * block - 11, 3 * block - 8}) {
    std::string text(3 * block, '.');
    text.replace(at, 8, "needle!!");
    EXPECT_EQ(search(text, {{0, text.size()}}, {{"needle!!", 3}, {"dle!", 3}}), (Hits{{0, at}, {1, at + 3}})) << at;
  }
}

TEST(FindBytes, StaysInsideItsExtents) {
  const std::string text = "needle..needle..needle";
  EXPECT_EQ(search(text, {{0, 6}, {8, 5}, {16, 6}}, {{"needle", 0}}), (Hits{{0, 0}, {0, 16}}));
  EXPECT_EQ(search(text, {{0, 1000}}, {{"needle", 5}}), (Hits{{0, 0}, {0, 8}, {0, 16}}));
  EXPECT_TRUE(search(text, {{500, 6}, {0, 0}}, {{"needle", 0}}).empty());
}

TEST(FindBytes, FindsOverlappingOnes) {
  EXPECT_EQ(search("aaaa", {{0, 4}}, {{"aa", 0}}), (Hits{{0, 0}, {0, 1}, {0, 2}}));
}

TEST(FindBytes, FindsWhatAPlainSearchFinds) {
  // More texts than bits, of few letters, so that pairs share bits and stand everywhere; with bytes above 127.
  std::mt19937_64 random(7);
  const std::string letters = "aAqQ\xe1\xc1";
  const auto text_of = [&](std::size_t size) {
    std::string text(size, '\0');
    for (char& letter : text) letter = letters[random() % letters.size()];
    return text;
  };
  const std::string text = text_of(600000);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 20; ++i) texts.push_back(text_of(5 + i % 3));
  std::vector<Needle> needles;
  Hits expected;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    needles.push_back({texts[i], i % texts[i].size()});
    for (auto at = text.find(texts[i]); at != std::string::npos; at = text.find(texts[i], at + 1))
      expected.emplace_back(i, at);
  }
  ASSERT_GT(expected.size(), texts.size());
  EXPECT_EQ(search(text, {{0, text.size()}}, needles), expected);
}

TEST(FindBytes, CountsMoreThanItKeeps) {
  const std::string text(5000, 'a');
  MemoryBytes bytes(std::as_bytes(std::span(text)));
  const Needle needle{"aa", 0};
  const Found found = find_bytes(bytes, {{0, text.size()}}, std::span(&needle, 1)).front();
  EXPECT_EQ(found.count, 4999u);
  ASSERT_EQ(found.first.size(), 4096u);
  EXPECT_EQ(found.first.back(), 4095u);
}

}  // namespace
}  // namespace cudeploy
