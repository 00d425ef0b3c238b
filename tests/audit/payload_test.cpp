// Compressed payloads: what comes out is exact, what lies costs nothing, and only what is asked for is held.
#include "payload.hpp"

#include <gtest/gtest.h>
#include <lz4.h>
#include <lz4frame.h>
#include <sys/resource.h>
#include <zstd.h>

#include <cstring>

namespace cudeploy {
namespace {

std::string image(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>("cubin"[i % 5] + i / 1000 % 50);
  return out;
}

std::string pack(Codec codec, const std::string& plain) {
  std::string out;
  if (codec == Codec::none) return plain;
  if (codec == Codec::zstd) {
    out.resize(ZSTD_compressBound(plain.size()));
    out.resize(ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 1));
  } else if (codec == Codec::lz4_block) {
    out.resize(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(plain.size()))));
    out.resize(static_cast<std::size_t>(
        LZ4_compress_default(plain.data(), out.data(), static_cast<int>(plain.size()), static_cast<int>(out.size()))));
  } else {
    out.resize(LZ4F_compressFrameBound(plain.size(), nullptr));
    out.resize(LZ4F_compressFrame(out.data(), out.size(), plain.data(), plain.size(), nullptr));
  }
  return out;
}

MemoryBytes memory(const std::string& text) { return MemoryBytes(std::as_bytes(std::span(text))); }

std::string as_string(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string codec_name(Codec codec) {
  constexpr const char* names[] = {"none", "lz4_block", "lz4_frame", "zstd"};
  return names[static_cast<int>(codec)];
}

class Codecs : public testing::TestWithParam<Codec> {};
INSTANTIATE_TEST_SUITE_P(All, Codecs, testing::Values(Codec::none, Codec::lz4_block, Codec::lz4_frame, Codec::zstd),
                         [](const auto& info) { return codec_name(info.param); });

/// Those that have an end and a size of their own.
class Compressions : public testing::TestWithParam<Codec> {};
INSTANTIATE_TEST_SUITE_P(All, Compressions, testing::Values(Codec::lz4_block, Codec::lz4_frame, Codec::zstd),
                         [](const auto& info) { return codec_name(info.param); });

TEST_P(Codecs, GiveBackTheImage) {
  for (const std::size_t size : {1u, 100u, 131072u, 131073u, 5000000u}) {
    const std::string plain = image(size), stored = "before" + pack(GetParam(), plain) + "after";
    std::string fault;
    const auto out = unpack(memory(stored), {{6, stored.size() - 11}, GetParam(), size}, fault);
    ASSERT_TRUE(out) << fault;
    EXPECT_TRUE(as_string(*out) == plain);
  }
}

TEST_P(Codecs, HandOverPartsOneByOne) {
  const std::string plain = image(700000), stored = pack(GetParam(), plain);
  const std::vector<Extent> parts = {{0, 10}, {10, 200000}, {200100, 1}, {200101, 0}, {262144, 400000}};
  std::vector<std::size_t> seen;
  std::string fault;
  EXPECT_TRUE(unpack_parts(
      memory(stored), {{0, stored.size()}, GetParam(), plain.size()}, parts,
      [&](std::size_t part, const std::vector<std::byte>& bytes) {
        seen.push_back(part);
        EXPECT_TRUE(as_string(bytes) == plain.substr(parts[part].offset, parts[part].size)) << part;
      },
      fault))
      << fault;
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

TEST_P(Codecs, SayWhenTheStreamIsCut) {
  const std::string plain = image(300000), stored = pack(GetParam(), plain);
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, stored.size() / 2, stored.size() - 1}) {
    std::string fault;
    EXPECT_FALSE(unpack(memory(stored), {{0, size}, GetParam(), plain.size()}, fault));
    EXPECT_FALSE(fault.empty());
    fault.clear();
    EXPECT_FALSE(unpack(memory(stored.substr(0, size)), {{0, stored.size()}, GetParam(), plain.size()}, fault));
    EXPECT_FALSE(fault.empty());
  }
}

TEST_P(Compressions, RefuseAWrongSize) {
  const std::string plain = image(300000), stored = pack(GetParam(), plain);
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{299999}, std::uint64_t{300001}, std::uint64_t{1} << 27,
        (std::uint64_t{1} << 27) + 1, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::string fault;
    EXPECT_FALSE(unpack(memory(stored), {{0, stored.size()}, GetParam(), size}, fault)) << size;
    EXPECT_FALSE(fault.empty());
  }
}

TEST_P(Compressions, RefuseBytesAfterTheStream) {
  const std::string plain = image(300000), stored = pack(GetParam(), plain) + std::string(9, '\0');
  std::string fault;
  EXPECT_FALSE(unpack(memory(stored), {{0, stored.size()}, GetParam(), plain.size()}, fault));
  EXPECT_FALSE(fault.empty());
}

TEST_P(Compressions, TellWhereAWholeStreamEndsBeforeAPart) {
  const std::string stored = pack(GetParam(), image(100));
  const std::vector<Extent> parts = {{0, 50}, {150, 50}};
  std::string fault;
  EXPECT_FALSE(unpack_parts(
      memory(stored), {{0, stored.size()}, GetParam(), 200}, parts,
      [](std::size_t part, const std::vector<std::byte>&) { EXPECT_EQ(part, 0U); }, fault));
  EXPECT_NE(fault, "");
}

TEST(Payload, PartOutsideTheStreamIsRefused) {
  const std::string plain = image(1000);
  for (const Extent part : {Extent{1000, 1}, Extent{~std::uint64_t{0}, 2}, Extent{0, 1001}, Extent{999, 2}}) {
    std::string fault;
    EXPECT_FALSE(unpack_parts(
        memory(plain), {{0, 1000}, Codec::none, 1000}, std::span(&part, 1),
        [](std::size_t, const std::vector<std::byte>&) { FAIL(); }, fault));
    EXPECT_NE(fault.find("lie outside"), std::string::npos) << fault;
  }
}

TEST(Payload, AClaimAllocatesNothing) {
  const std::string plain = image(1000);
  for (const Codec codec : {Codec::lz4_block, Codec::lz4_frame, Codec::zstd}) {
    std::string stored = pack(codec, plain);
    if (codec == Codec::zstd) {
      // A frame that claims 100 MB itself: 4-byte content size, single segment.
      stored = std::string("\x28\xB5\x2F\xFD\xA0\x00\xE1\xF5\x05", 9) + stored.substr(8);
    }
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    std::string fault;
    EXPECT_FALSE(unpack(memory(stored), {{0, stored.size()}, codec, 100000000}, fault));
    getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 << 10) << "KiB, codec " << static_cast<int>(codec);
  }
}

TEST(Payload, WhatFollowsTheLastPartIsNotUnpacked) {
  std::string plain = image(2000000), stored = pack(Codec::zstd, plain);
  stored.replace(stored.size() - 200, 100, std::string(100, 'x'));
  const Extent part{5, 20};
  int parts = 0;
  std::string fault;
  EXPECT_TRUE(unpack_parts(
      memory(stored), {{0, stored.size()}, Codec::zstd, plain.size()}, std::span(&part, 1),
      [&](std::size_t, const std::vector<std::byte>& bytes) { parts += as_string(bytes) == plain.substr(5, 20); },
      fault))
      << fault;
  EXPECT_EQ(parts, 1);
}

}  // namespace
}  // namespace cudeploy
