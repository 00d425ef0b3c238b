// Any byte of a container can be hostile. Each test builds one from a few fields, breaks one of them, and holds
// the reader to the rule: say what is wrong and where, read what is whole, and cost nothing.
#include "fatbin.hpp"

#include <gtest/gtest.h>
#include <lz4.h>
#include <lz4frame.h>
#include <zstd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "find_bytes.hpp"

namespace cudeploy {
namespace {

constexpr std::uint64_t debug = 0x2, linux_host = 0x11, lz4_block = 0x2000, lz4_frame = 0x4000, zstd = 0x8000,
                        obfuscated = 0x10000, specific = 0x100000, family = 0x200000;

std::string file(const std::string& name) {
  std::ifstream in(std::string(CUDEPLOY_SAMPLES) + "/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

template <typename T>
void put(std::string& out, std::size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

std::string padded(std::string text) {
  text.resize((text.size() + 7) / 8 * 8);
  return text;
}

struct Entry {
  std::uint16_t kind = 2;
  std::uint16_t version = 0x0101;
  std::uint32_t header_size = 64;
  std::uint64_t payload_size = 0;
  std::uint32_t compressed_size = 0;
  std::uint32_t extension_offset = 0;
  std::uint16_t minor = 8;
  std::uint16_t major = 1;
  std::uint32_t arch = 90;
  std::uint32_t name_offset = 0;
  std::uint32_t name_length = 0;
  std::uint64_t flags = linux_host;
  std::uint64_t lto_word = 0;
  std::uint64_t uncompressed_size = 0;
  std::string rest;  ///< header bytes after the first 64, then the payload

  std::string bytes() const {
    std::string out(64, '\0');
    put(out, 0x00, kind);
    put(out, 0x02, version);
    put(out, 0x04, header_size);
    put(out, 0x08, payload_size);
    put(out, 0x10, compressed_size);
    put(out, 0x14, extension_offset);
    put(out, 0x18, minor);
    put(out, 0x1a, major);
    put(out, 0x1c, arch);
    put(out, 0x20, name_offset);
    put(out, 0x24, name_length);
    put(out, 0x28, flags);
    put(out, 0x30, lto_word);
    put(out, 0x38, uncompressed_size);
    return out + rest;
  }
};

Entry plain(std::uint16_t kind, const std::string& payload) {
  Entry entry;
  entry.kind = kind;
  entry.rest = padded(payload);
  entry.payload_size = entry.rest.size();
  return entry;
}

Entry compressed(std::uint16_t kind, std::uint64_t codec, const std::string& image) {
  std::string packed;
  if (codec == zstd) {
    packed.resize(ZSTD_compressBound(image.size()));
    packed.resize(ZSTD_compress(packed.data(), packed.size(), image.data(), image.size(), 3));
  } else if (codec == lz4_block) {
    packed.resize(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(image.size()))));
    packed.resize(static_cast<std::size_t>(LZ4_compress_default(
        image.data(), packed.data(), static_cast<int>(image.size()), static_cast<int>(packed.size()))));
  } else {
    packed.resize(LZ4F_compressFrameBound(image.size(), nullptr));
    packed.resize(LZ4F_compressFrame(packed.data(), packed.size(), image.data(), image.size(), nullptr));
  }
  Entry entry = plain(kind, packed);
  entry.flags |= codec;
  entry.compressed_size = static_cast<std::uint32_t>(packed.size());
  entry.uncompressed_size = image.size();
  return entry;
}

std::string container(const std::vector<Entry>& entries) {
  std::string body;
  for (const Entry& entry : entries) body += entry.bytes();
  std::string out(16, '\0');
  put(out, 0, std::uint32_t{0xBA55ED50});
  put(out, 4, std::uint16_t{1});
  put(out, 6, std::uint16_t{16});
  put(out, 8, std::uint64_t{body.size()});
  return out + body;
}

/// The plain cubin of the sample: sm_90, ABI 8, one kernel "addk".
std::string cubin() { return file("add_sm90.fatbin").substr(16 + 64, 0xf00); }

std::string ptx(const std::string& target = "sm_90") {
  return ".version 9.0\n.target " + target +
         "\n.address_size 64\n.visible .entry addk(\n.param .u64 p\n)\n{\nret;\n}\n";
}

Entry ptx_entry() {
  Entry entry = plain(1, ptx());
  entry.major = 9;
  entry.minor = 0;
  return entry;
}

struct Result {
  std::vector<FatBinary> found;
  std::vector<Problem> problems;

  std::string text() const {
    std::string out;
    for (const Problem& problem : problems) out += problem.message + "\n";
    return out;
  }
  const Image& image(std::size_t index) const { return found.at(0).images.at(index); }
};

Result read(const std::string& bytes, FatbinPlace place = FatbinPlace::named_section, const ReadOptions& options = {},
            const std::optional<std::string>& section = std::nullopt) {
  Result result;
  const MemoryBytes memory(std::as_bytes(std::span(bytes)));
  result.found = read_fat_binaries(memory, {0, bytes.size()}, place, section, options, result.problems);
  return result;
}

Result search(const std::string& bytes) { return read(bytes, FatbinPlace::any_data); }

constexpr ReadOptions with_payloads{true, false, false};
constexpr ReadOptions with_kernels{false, true, false};
constexpr ReadOptions for_audit{false, false, true};

void expect_problem(const Result& result, const std::string& text, std::uint64_t offset) {
  ASSERT_EQ(result.problems.size(), 1u) << result.text();
  EXPECT_NE(result.problems[0].message.find(text), std::string::npos) << result.problems[0].message;
  EXPECT_EQ(result.problems[0].offset, offset);
}

TEST(FatbinSection, AccountsForContainersAndZeroPadding) {
  const std::string one = container({ptx_entry()}), two = container({plain(2, cubin()), ptx_entry()});
  const std::string zeros(4096 * 3 + 5, '\0');
  const auto with_gap = read(std::string(8, '\0') + one + zeros + two + std::string(1, '\0'));
  EXPECT_TRUE(with_gap.problems.empty()) << with_gap.text();
  ASSERT_EQ(with_gap.found.size(), 2u);
  EXPECT_EQ(with_gap.found[0].offset, 8u);
  EXPECT_EQ(with_gap.found[0].size, one.size());
  EXPECT_EQ(with_gap.found[1].offset, 8 + one.size() + zeros.size());
  EXPECT_EQ(with_gap.found[1].size, two.size());
  EXPECT_EQ(with_gap.found[1].images.size(), 2u);
}

TEST(FatbinSection, OfZerosOnlyHoldsNothing) {
  for (const std::size_t size : {0u, 1u, 8u, 10000u}) {
    const auto result = read(std::string(size, '\0'));
    EXPECT_TRUE(result.found.empty());
    EXPECT_TRUE(result.problems.empty());
  }
}

TEST(FatbinSection, NamesStrayBytesAndReadsOn) {
  const std::string one = container({ptx_entry()});
  const auto result = read(one + "stray!!!" + one);
  expect_problem(result, "container magic: expected 0xba55ed50, found 0x61727473; 8 bytes are in no fat binary",
                 one.size());
  EXPECT_EQ(result.found.size(), 2u);
}

TEST(FatbinSection, ReadsOnAfterADamagedEntryChain) {
  Entry broken = ptx_entry();
  broken.header_size = 0;
  const std::string one = container({ptx_entry(), broken}), two = container({ptx_entry()});
  const auto result = read(one + two);
  expect_problem(result, "entry header size: expected a multiple of 8 from 64", one.size() - broken.bytes().size());
  ASSERT_EQ(result.found.size(), 2u);
  EXPECT_EQ(result.found[0].images.size(), 2u);
  EXPECT_EQ(result.found[1].images.size(), 1u);
}

/// A search that takes the bytes for no container sees the PTX text in them all the same.
void expect_bare_ptx(const std::string& bytes) {
  const auto result = search(bytes);
  ASSERT_EQ(result.found.size(), 1u);
  EXPECT_EQ(result.found[0].images.at(0).entry_kind, 0u);
  EXPECT_EQ(result.found[0].images.at(0).kind, ImageKind::ptx);
}

TEST(FatbinContainer, SizeMayNotOverflow) {
  for (const std::uint64_t size :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 7, ~std::uint64_t{0} - 15, std::uint64_t{1} << 63}) {
    std::string bytes = container({ptx_entry()});
    put(bytes, 8, size);
    const auto result = read(bytes);
    expect_problem(result, "container size: expected at most", 0);
    EXPECT_EQ(result.found.at(0).images.size(), 1u);
    EXPECT_EQ(result.found.at(0).size, bytes.size());
    expect_bare_ptx(bytes);
  }
}

TEST(FatbinContainer, SizeIsAMultipleOf8) {
  std::string bytes = container({ptx_entry()}) + std::string(4, 'x');
  put(bytes, 8, std::uint64_t{bytes.size() - 16});
  const auto result = read(bytes);
  EXPECT_NE(result.text().find("container size: expected a multiple of 8"), std::string::npos);
  EXPECT_EQ(result.image(0).kind, ImageKind::ptx);
  expect_bare_ptx(bytes);
}

TEST(FatbinContainer, OfAnotherVersionIsNotReadButTheNextOneIs) {
  std::string one = container({ptx_entry()});
  put(one, 4, std::uint16_t{2});
  const auto result = read(one + container({ptx_entry()}));
  expect_problem(result, "container version: expected 1, found 2", 0);
  ASSERT_EQ(result.found.size(), 2u);
  EXPECT_TRUE(result.found[0].images.empty());
  EXPECT_EQ(result.found[1].images.size(), 1u);
}

TEST(FatbinEntry, PayloadSizeMayNotOverflow) {
  for (const std::uint64_t size :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 63, std::uint64_t{1} << 63, std::uint64_t{1} << 32}) {
    Entry entry = ptx_entry();
    entry.payload_size = size;
    const auto result = read(container({entry}), FatbinPlace::named_section, with_payloads);
    expect_problem(result, "entry payload size: expected at most", 16);
    EXPECT_EQ(result.image(0).stored_size, size);
  }
}

TEST(FatbinEntry, HeaderSizeIsBounded) {
  for (const std::uint32_t size : {0u, 8u, 56u, 63u, 68u, 0xfffffff8u, 0xffffffffu}) {
    Entry entry = ptx_entry();
    entry.header_size = size;
    const auto result = read(container({entry, ptx_entry()}), FatbinPlace::named_section, with_payloads);
    expect_problem(result, "entry header size: ", 16);
    EXPECT_EQ(result.found.at(0).images.size(), 1u);
    EXPECT_EQ(result.image(0).arch, 90u);
  }
}

TEST(FatbinEntry, VersionIsNamedAndTheEntryRead) {
  Entry entry = ptx_entry();
  entry.version = 0x0102;
  const auto result = read(container({entry, ptx_entry()}));
  expect_problem(result, "entry version: expected 0x0101, found 0x0102", 16);
  EXPECT_EQ(result.found.at(0).images.size(), 2u);
}

TEST(FatbinEntry, NameAndOptionsComeByTheirOffsets) {
  Entry entry = ptx_entry();  // as 11.x: extension first
  const std::string payload = entry.rest;
  entry.rest = std::string("\x48\0\0\0\6\0\0\0-O2 -v\0\0foo.cu\0\0", 24) + payload;
  entry.header_size = 88;
  entry.extension_offset = 64;
  entry.name_offset = 80;
  entry.name_length = 6;
  auto result = read(container({entry}));
  EXPECT_TRUE(result.problems.empty()) << result.text();
  EXPECT_EQ(result.image(0).name, "foo.cu");
  EXPECT_EQ(result.image(0).options, "-O2 -v");
  EXPECT_EQ(result.image(0).header_size, 88u);

  // as 12.4: name first
  entry.rest = std::string("foo.cu\0\0\x50\0\0\0\6\0\0\0-O2 -v\0\0", 24) + payload;
  entry.extension_offset = 72;
  entry.name_offset = 64;
  result = read(container({entry}));
  EXPECT_TRUE(result.problems.empty()) << result.text();
  EXPECT_EQ(result.image(0).name, "foo.cu");
  EXPECT_EQ(result.image(0).options, "-O2 -v");
}

TEST(FatbinEntry, NameOutsideTheHeaderIsAProblem) {
  for (const auto& [offset, length] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {64, 1}, {72, 0}, {60, 8}, {0xffffffff, 1}, {8, 0xffffffff}, {0xfffffff8, 0xfffffff8}}) {
    Entry entry = ptx_entry();
    entry.name_offset = offset;
    entry.name_length = length;
    const auto result = read(container({entry, ptx_entry()}));
    expect_problem(result, "entry name: expected to lie in the 64 bytes of the header", 16);
    EXPECT_EQ(result.image(0).name, "");
    EXPECT_EQ(result.found.at(0).images.size(), 2u);
  }
}

TEST(FatbinEntry, OptionsOutsideTheHeaderAreAProblem) {
  for (const std::uint32_t offset : {58u, 64u, 0xfffffff9u}) {
    Entry entry = ptx_entry();
    entry.extension_offset = offset;
    expect_problem(read(container({entry})), "entry extension offset: expected to lie in the header", 16);
  }
  Entry entry = ptx_entry();
  entry.rest = std::string("\x48\0\0\0\xff\xff\xff\xff", 8) + entry.rest;
  entry.header_size = 72;
  entry.extension_offset = 64;
  expect_problem(read(container({entry})), "entry options: expected to lie in the 72 bytes of the header", 16);
}

TEST(FatbinEntry, CannotHaveTwoCompressions) {
  Entry entry = compressed(1, zstd, ptx());
  entry.major = 9;
  entry.minor = 0;
  entry.flags |= lz4_block;
  const auto result = read(container({entry, ptx_entry()}), FatbinPlace::named_section, with_payloads);
  expect_problem(result, "entry flags: expected one compression, found several (0xa000)", 16);
  EXPECT_EQ(result.image(0).compression, Compression::unknown);
  EXPECT_EQ(result.image(1).kernel_count, 1u);
}

TEST(FatbinEntry, CannotHaveBothVariants) {
  Entry entry = ptx_entry();
  entry.flags |= specific | family;
  const auto result = read(container({entry}));
  expect_problem(result, "entry flags: both architecture-specific (a) and family-specific (f)", 16);
  EXPECT_EQ(result.image(0).variant, "");
}

TEST(FatbinEntry, VariantsComeFromTheFlags) {
  Entry a = ptx_entry(), f = ptx_entry();
  a.flags |= specific;
  f.flags |= family;
  const auto result = read(container({a, f}));
  EXPECT_EQ(result.image(0).variant, "a");
  EXPECT_EQ(result.image(1).variant, "f");
}

TEST(FatbinEntry, KindsAreToldApart) {
  Entry lto = plain(8, "ir"), tile = plain(0x80, std::string("\x7FTileIR\0\x0d\x01", 10)), old = plain(4, "x"),
        reloc = plain(0x40, ptx());
  lto.flags |= obfuscated | zstd;
  lto.compressed_size = 2;
  lto.uncompressed_size = 50;
  const auto result =
      read(container({lto, tile, old, reloc, plain(0x10, "x")}), FatbinPlace::named_section, with_payloads);
  ASSERT_EQ(result.found.at(0).images.size(), 5u);
  EXPECT_EQ(result.image(0).kind, ImageKind::lto_ir);
  EXPECT_TRUE(result.image(0).obfuscated);
  EXPECT_EQ(result.image(0).size, 50u);
  EXPECT_EQ(result.image(1).kind, ImageKind::tile_ir);
  EXPECT_EQ(result.image(2).kind, ImageKind::other);
  EXPECT_EQ(result.image(2).entry_kind, 4);
  EXPECT_EQ(result.image(3).kind, ImageKind::other);
  EXPECT_EQ(result.image(3).kernel_count, 1u);
  EXPECT_FALSE(result.image(3).ptx_version);
  EXPECT_FALSE(result.found[0].loadable);
  expect_problem(result, "entry kind: 0x10 is not known", result.image(4).offset);
}

TEST(FatbinEntry, UnpacksEveryScheme) {
  for (const std::uint64_t codec : {lz4_block, lz4_frame, zstd}) {
    const auto result = read(container({compressed(2, codec, cubin())}), FatbinPlace::named_section, with_payloads);
    EXPECT_TRUE(result.problems.empty()) << result.text();
    EXPECT_EQ(result.image(0).compression, codec == zstd ? Compression::zstd : Compression::lz4);
    EXPECT_EQ(result.image(0).toolkit, "13.0.88");
    EXPECT_EQ(result.image(0).kernel_count, 1u);
    EXPECT_EQ(result.image(0).size, cubin().size());
    const auto headers = read(container({compressed(2, codec, cubin())}));
    EXPECT_EQ(headers.image(0).toolkit, std::nullopt);
    EXPECT_EQ(headers.image(0).kernel_count, std::nullopt);
  }
}

TEST(FatbinEntry, UncompressedSizeIsNotTrusted) {
  for (const std::uint64_t codec : {lz4_block, lz4_frame, zstd}) {
    for (const std::uint64_t claim :
         {std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{100} << 20, std::uint64_t{cubin().size() + 1},
          std::uint64_t{cubin().size() - 1}, std::uint64_t{0}}) {
      Entry entry = compressed(2, codec, cubin());
      entry.uncompressed_size = claim;
      const auto result = read(container({entry, ptx_entry()}), FatbinPlace::named_section, with_payloads);
      ASSERT_EQ(result.problems.size(), 1u) << result.text();
      EXPECT_EQ(result.problems[0].offset, 16u);
      EXPECT_NE(result.problems[0].message.find("payload does not decompress: "), std::string::npos) << result.text();
      EXPECT_EQ(result.image(1).kernel_count, 1u);
      EXPECT_TRUE(read(container({entry})).problems.empty());  // only the payload shows it
    }
  }
}

TEST(FatbinEntry, CompressedSizeAgreesWithThePayloadSize) {
  for (const int change : {-8, 8, 1000}) {
    Entry entry = compressed(2, zstd, cubin());
    entry.compressed_size += static_cast<std::uint32_t>(change);
    const auto result = read(container({entry, ptx_entry()}), FatbinPlace::named_section, with_payloads);
    expect_problem(result, "entry compressed size: expected ", 16);
    EXPECT_EQ(result.found[0].images.size(), 2u);
  }
}

TEST(FatbinEntry, DamagedLz4ShowsInTheImage) {
  Entry entry = compressed(2, lz4_block, cubin());
  for (std::size_t at = 0; at < entry.rest.size(); at += 16) {
    Entry damaged = entry;
    damaged.rest[at] = static_cast<char>(damaged.rest[at] ^ 0x55);
    const auto result = read(container({damaged}), FatbinPlace::named_section, with_payloads);
    if (at < 64) EXPECT_FALSE(result.problems.empty()) << at;  // the ELF header lies there
  }
}

TEST(FatbinEntry, DamagedZstdIsAProblem) {
  Entry entry = compressed(2, zstd, cubin());
  entry.rest.replace(entry.rest.size() / 2, 40, std::string(40, '\xee'));
  const auto result = read(container({entry}), FatbinPlace::named_section, with_payloads);
  ASSERT_FALSE(result.problems.empty());
  EXPECT_EQ(result.problems[0].offset, 16u);
}

TEST(FatbinEntry, DisagreeingWithItsCubinIsAProblem) {
  Entry arch = compressed(2, zstd, cubin()), variant = arch, abi = arch;
  arch.arch = 80;
  variant.flags |= specific;
  abi.minor = 7;
  expect_problem(read(container({arch}), FatbinPlace::named_section, with_payloads),
                 "architecture: the entry says sm_80, the cubin inside sm_90", 16);
  expect_problem(read(container({variant}), FatbinPlace::named_section, with_payloads),
                 "variant: the entry says sm_90a, the cubin inside sm_90", 16);
  expect_problem(read(container({abi}), FatbinPlace::named_section, with_payloads),
                 "cubin ABI: the entry says 7, the cubin inside 8", 16);
}

TEST(FatbinEntry, DisagreeingWithItsPtxIsAProblem) {
  Entry target = ptx_entry(), variant = ptx_entry(), version = ptx_entry();
  target.arch = 80;
  variant.flags |= specific;
  version.minor = 1;
  expect_problem(read(container({target}), FatbinPlace::named_section, with_payloads),
                 "architecture: the entry says compute_80, .target says sm_90", 16);
  expect_problem(read(container({variant}), FatbinPlace::named_section, with_payloads),
                 "architecture: the entry says compute_90a, .target says sm_90", 16);
  expect_problem(read(container({version}), FatbinPlace::named_section, with_payloads),
                 "ptx version: the entry says 9.1, .version says 9.0", 16);
}

TEST(FatbinEntry, DebugIsAFlag) {
  Entry entry = ptx_entry();
  entry.flags |= debug;
  EXPECT_TRUE(read(container({entry})).image(0).debug);
  EXPECT_FALSE(read(container({ptx_entry()})).image(0).debug);
}

TEST(FatbinLoadable, RelocatableCodeIsNot) {
  EXPECT_TRUE(read(container({plain(2, cubin()), ptx_entry()})).found[0].loadable);
  std::string relocatable = cubin();
  put(relocatable, 16, std::uint16_t{1});
  EXPECT_FALSE(read(container({plain(2, relocatable)})).found[0].loadable);
  EXPECT_TRUE(read(container({compressed(2, zstd, relocatable)})).found[0].loadable);
  EXPECT_FALSE(
      read(container({compressed(2, zstd, relocatable)}), FatbinPlace::named_section, with_payloads).found[0].loadable);
  EXPECT_FALSE(read(container({ptx_entry()}), FatbinPlace::named_section, {}, "__nv_relfatbin").found[0].loadable);
  EXPECT_FALSE(read(container({plain(8, "ir")})).found[0].loadable);

  Entry compile_only = ptx_entry();
  compile_only.rest = std::string("\x48\0\0\0\x10\0\0\0--compile-only  \0\0\0\0\0\0\0\0", 32) + compile_only.rest;
  compile_only.header_size = 96;
  compile_only.extension_offset = 64;
  EXPECT_FALSE(read(container({compile_only})).found[0].loadable);
}

TEST(FatbinKernels, AreNamedInEveryImageThatCanBeRead) {
  const auto result = read(container({compressed(2, zstd, cubin()), plain(2, cubin()), ptx_entry()}),
                           FatbinPlace::named_section, with_kernels);
  EXPECT_TRUE(result.problems.empty()) << result.text();
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(result.image(i).kernels.size(), 1u) << i;
    EXPECT_EQ(result.image(i).kernels[0].name, "addk");
  }
  EXPECT_EQ(result.image(0).kernels[0].registers, result.image(1).kernels[0].registers);
  EXPECT_TRUE(result.image(0).kernels[0].registers);
}

TEST(FatbinAudit, AsksTheCheapestImageForKernels) {
  Entry small = compressed(1, zstd, ptx());
  small.major = 9;
  small.minor = 0;
  const auto result = read(container({compressed(2, zstd, cubin()), small}), FatbinPlace::named_section, for_audit);
  EXPECT_EQ(result.image(0).kernel_count, std::nullopt);
  EXPECT_EQ(result.image(1).kernel_count, 1u);
  EXPECT_EQ(result.image(1).kernels.at(0).name, "addk");
}

TEST(FatbinAudit, ProvesThatThereIsNoKernelByReadingAll) {
  std::string no_kernel = ptx();
  no_kernel.replace(no_kernel.find(".entry"), 6, ".func ");
  Entry ptx_without = compressed(1, zstd, no_kernel);
  ptx_without.major = 9;
  ptx_without.minor = 0;
  auto result = read(container({ptx_without, compressed(2, zstd, cubin())}), FatbinPlace::named_section, for_audit);
  EXPECT_EQ(result.image(0).kernel_count, 0u);
  EXPECT_EQ(result.image(1).kernel_count, 1u);
  result = read(container({ptx_without, ptx_without}), FatbinPlace::named_section, for_audit);
  EXPECT_EQ(result.image(0).kernel_count, 0u);
  EXPECT_EQ(result.image(1).kernel_count, 0u);
}

TEST(FatbinAudit, TriesTheNextImageWhenOneIsDamaged) {
  Entry damaged = compressed(1, zstd, ptx());
  damaged.major = 9;
  damaged.minor = 0;
  damaged.rest[0] = 'x';
  const auto result = read(container({damaged, compressed(2, zstd, cubin())}), FatbinPlace::named_section, for_audit);
  EXPECT_EQ(result.problems.size(), 1u);
  EXPECT_EQ(result.image(1).kernel_count, 1u);
}

// --- concatenated entries ---

/// A group of PTX texts as 13.4 makes it, zstd. `change` sees the outer entry and the member list.
std::string group(const std::vector<std::string>& texts, const std::function<void(Entry&, std::string&)>& change = {}) {
  std::string stream, list(8, '\0');
  for (const std::string& text : texts) {
    Entry member = ptx_entry();
    member.rest.clear();
    member.header_size = static_cast<std::uint32_t>(stream.size());
    member.payload_size = text.size();
    member.flags |= zstd;
    member.name_offset = 64;
    member.name_length = 4;
    list += member.bytes() + padded("a.cu" + std::string(1, '\0'));
    stream += text;
  }
  put(list, 0, static_cast<std::uint32_t>(texts.size()));
  put(list, 4, static_cast<std::uint32_t>(list.size()));
  Entry outer = compressed(0x100, zstd, stream);
  outer.arch = 0;
  outer.minor = 1;
  outer.major = 0;
  outer.extension_offset = 64;
  outer.header_size = static_cast<std::uint32_t>(64 + list.size());
  if (change) change(outer, list);
  outer.rest = list + outer.rest;
  return container({outer, ptx_entry()});
}

TEST(FatbinGroup, MembersAreImagesOfTheirOwn) {
  const auto result = read(group({ptx(), ptx()}), FatbinPlace::named_section, with_kernels);
  EXPECT_TRUE(result.problems.empty()) << result.text();
  ASSERT_EQ(result.found.at(0).images.size(), 3u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(result.image(i).group, 16u);
    EXPECT_EQ(result.image(i).offset, 16 + 64 + 8 + i * 72);
    EXPECT_EQ(result.image(i).name, "a.cu");
    EXPECT_EQ(result.image(i).stored_size, std::nullopt);
    EXPECT_EQ(result.image(i).size, ptx().size());
    EXPECT_EQ(result.image(i).kernels.at(0).name, "addk");
  }
  EXPECT_EQ(result.image(2).group, std::nullopt);
}

TEST(FatbinGroup, MembersMayLieInAnyOrder) {
  const auto result = read(group({ptx(), ptx()},
                                 [](Entry&, std::string& list) {
                                   put(list, 8 + 4, static_cast<std::uint32_t>(ptx().size()));
                                   put(list, 8 + 72 + 4, std::uint32_t{0});
                                 }),
                           FatbinPlace::named_section, with_payloads);
  EXPECT_TRUE(result.problems.empty()) << result.text();
  EXPECT_EQ(result.image(0).kernel_count, 1u);
  EXPECT_EQ(result.image(1).kernel_count, 1u);
}

void expect_group_problem(const std::function<void(Entry&, std::string&)>& change, const std::string& text) {
  const auto result = read(group({ptx(), ptx()}, change), FatbinPlace::named_section, with_payloads);
  ASSERT_EQ(result.problems.size(), 1u) << result.text();
  EXPECT_NE(result.problems[0].message.find("concatenated entry: "), std::string::npos) << result.text();
  EXPECT_NE(result.problems[0].message.find(text), std::string::npos) << result.text();
  EXPECT_EQ(result.found.at(0).images.back().kernel_count, 1u) << "the entry after the group is read";
}

TEST(FatbinGroup, DamageIsNamed) {
  for (const std::uint32_t count : {0u, 3u, 16777217u, 0xffffffffu}) {
    expect_group_problem([&](Entry&, std::string& list) { put(list, 0, count); }, "found " + std::to_string(count));
  }
  expect_group_problem([](Entry&, std::string& list) { put(list, 0, std::uint32_t{1}); },
                       "72 bytes follow the last of 1 images");
  for (const std::uint32_t length : {0u, 8u, 160u, 0xffffffffu}) {
    expect_group_problem([&](Entry&, std::string& list) { put(list, 4, length); }, "expected a list of 152 bytes");
  }
  expect_group_problem([](Entry&, std::string& list) { put(list, 8 + 0x24, std::uint32_t{0xffffffff}); },
                       "image 1 of 2 does not fit");
  expect_group_problem([](Entry&, std::string& list) { put(list, 8 + 0x14, std::uint32_t{0xfffffff0}); },
                       "image 1 of 2 does not fit");
  expect_group_problem([](Entry&, std::string& list) { put(list, 8 + 72 + 8, ~std::uint64_t{0}); }, "image 2: ");
  expect_group_problem([](Entry&, std::string& list) { put(list, 8 + 72 + 4, std::uint32_t{0xffffffff}); },
                       "image 2: ");
  expect_group_problem([](Entry&, std::string& list) { put(list, 8 + 72 + 4, std::uint32_t{8}); },
                       "two images overlap");
}

TEST(FatbinGroup, WithoutAListIsNamed) {
  Entry outer = compressed(0x100, zstd, ptx());
  const auto result = read(container({outer, ptx_entry()}));
  expect_problem(result, "concatenated entry: expected a list of images after the header, found none", 16);
  EXPECT_EQ(result.found.at(0).images.size(), 2u);
}

// --- elsewhere than in the named sections ---

TEST(FatbinSearch, FindsContainersAnywhere) {
  const std::string one = container({plain(2, cubin()), ptx_entry()});
  for (const std::size_t before : {0u, 1u, 3u, 17u, 4095u, 262139u, 262144u, 262141u, 700001u}) {
    const auto result = search(std::string(before, 'x') + one + std::string(5, 'y') + one + "z");
    ASSERT_EQ(result.found.size(), 2u) << before;
    EXPECT_TRUE(result.problems.empty()) << result.text();
    EXPECT_EQ(result.found[0].offset, before);
    EXPECT_EQ(result.found[1].offset, before + one.size() + 5);
    EXPECT_EQ(result.found[1].images.size(), 2u);
  }
}

TEST(FatbinSearch, WalksPastWhatItAccepts) {
  // A magic inside a payload is part of that payload.
  const std::string inner = container({ptx_entry()});
  const auto result = search("xx" + container({plain(8, inner + cubin())}) + inner);
  EXPECT_EQ(result.found.size(), 2u);
}

TEST(FatbinSearch, RefusesDecoys) {
  const std::string good = container({plain(8, std::string(64, 'x'))});
  auto with = [&](const std::function<void(std::string&)>& change) {
    std::string bytes = good;
    change(bytes);
    return search("data" + bytes + "data").found.size();
  };
  EXPECT_EQ(with([](std::string&) {}), 1u);
  EXPECT_EQ(with([](std::string& s) { put(s, 4, std::uint16_t{2}); }), 0u);
  EXPECT_EQ(with([](std::string& s) { put(s, 6, std::uint16_t{24}); }), 0u);
  EXPECT_EQ(with([](std::string& s) { put(s, 8, std::uint64_t{s.size()}); }), 0u);
  EXPECT_EQ(with([](std::string& s) { put(s, 8, std::uint64_t{s.size() - 16 + 8}); }), 0u);
  EXPECT_EQ(with([](std::string& s) { put(s, 8, std::uint64_t{s.size() - 16 - 8}); }), 0u);
  EXPECT_EQ(with([](std::string& s) { put(s, 8, ~std::uint64_t{7}); }), 0u);
  EXPECT_EQ(with([](std::string& s) { put(s, 16 + 2, std::uint16_t{0}); }), 0u);
  EXPECT_EQ(with([](std::string& s) { put(s, 16 + 4, std::uint32_t{0}); }), 0u);
  EXPECT_EQ(with([](std::string& s) { put(s, 16 + 8, std::uint64_t{16}); }), 0u);
}

TEST(FatbinSearch, FindsLooseCubins) {
  const auto result = search("text" + cubin() + "more");
  ASSERT_EQ(result.found.size(), 1u);
  EXPECT_TRUE(result.problems.empty()) << result.text();
  EXPECT_EQ(result.found[0].offset, 4u);
  EXPECT_EQ(result.found[0].size, cubin().size());
  EXPECT_EQ(result.image(0).kind, ImageKind::cubin);
  EXPECT_EQ(result.image(0).arch, 90u);
  EXPECT_EQ(result.image(0).toolkit, "13.0.88");
  EXPECT_TRUE(search("text" + cubin().substr(0, 0xe00)).found.empty());  // cut: not a whole cubin
}

TEST(FatbinSearch, EndsOnManyFalseStarts) {
  // Containers that each claim the long chain of entries after them, and break at its far end.
  constexpr std::uint64_t count = 20000;
  std::string bytes;
  for (std::uint64_t left = count; left > 0; --left) {
    std::string fake = container({});
    put(fake, 8, 80 * left - 16);
    Entry entry;
    entry.payload_size = 16;  // the header of the next one
    bytes += fake + entry.bytes();
  }
  const auto result = search(bytes);
  EXPECT_TRUE(result.found.empty());
  ASSERT_EQ(result.problems.size(), 1u) << result.text();
  EXPECT_NE(result.problems[0].message.find("the search ends here"), std::string::npos);
}

/// How often a text is seen in what lies outside of fat binaries.
std::uint64_t count_outside(const std::string& bytes, const std::string& text) {
  const MemoryBytes memory(std::as_bytes(std::span(bytes)));
  const Needle needle{text, 0};
  NeedleSearch search(std::span(&needle, 1));
  std::vector<Problem> problems;
  read_fat_binaries(memory, {0, bytes.size()}, FatbinPlace::any_data, std::nullopt, {}, problems, &search);
  return search.found().front().count;
}

TEST(FatbinSearch, HandsOnOnceWhatLiesOutside) {
  // The text at every place of a block, between fat binaries that hold it too and beginnings of what is none.
  const std::string text = "a name that is 32 bytes long ...", magic = container({}).substr(0, 4);
  ASSERT_EQ(text.size(), longest_needle);
  const std::string whole = container({plain(2, text + text)});
  std::string bytes;
  std::uint64_t count = 0;
  for (; bytes.size() < 3000000; ++count) {
    if (count % 30000 == 100) bytes += whole;
    if (count % 700 == 50) bytes += magic;
    bytes += text + std::string(5, '.');
  }
  EXPECT_EQ(count_outside(bytes, text), count);
}

TEST(FatbinSearch, HandsOnWhatLiesBehindItsEnd) {
  std::string bytes;
  for (int i = 0; i < 2000000; ++i) bytes += container({}).substr(0, 4);
  EXPECT_EQ(count_outside(bytes + "name", "name"), 1u);
}

TEST(FatbinSearch, FindsNothingInNoise) {
  std::mt19937_64 random(13);
  std::string noise(8 << 20, '\0');
  for (std::size_t at = 0; at < noise.size(); at += 8) put(noise, at, random());
  for (std::size_t at = 0; at + 64 < noise.size(); at += 4096) put(noise, at, std::uint32_t{0xBA55ED50});
  const auto result = search(noise);
  EXPECT_TRUE(result.found.empty());
  EXPECT_TRUE(result.problems.empty()) << result.text();
}

// --- damage in general ---

TEST(FatbinDamage, ACutFileGivesWhatIsWhole) {
  const std::string whole = file("add_all_major.fatbin");
  const auto all = read(whole);
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    const auto cut = read(whole.substr(0, size), FatbinPlace::named_section, with_payloads);
    if (size > 0) EXPECT_FALSE(cut.problems.empty()) << size;
    if (cut.found.empty()) continue;
    const auto& images = cut.found[0].images;
    for (std::size_t i = 0; i + 1 < images.size(); ++i) {
      EXPECT_EQ(images[i].offset, all.image(i).offset);
      EXPECT_EQ(images[i].arch, all.image(i).arch);
      EXPECT_EQ(images[i].toolkit.has_value(), images[i].kind == ImageKind::cubin);
    }
  }
}

TEST(FatbinDamage, SourceThatShrinksIsAProblemNotACrash) {
  // The file was longer when it was opened.
  class Shrunk final : public Bytes {
   public:
    explicit Shrunk(std::string bytes) : bytes_(std::move(bytes)) {}
    std::uint64_t size() const override { return bytes_.size() + 100000; }
    std::size_t read(std::uint64_t offset, std::span<std::byte> out) const override {
      return MemoryBytes(std::as_bytes(std::span(bytes_))).read(offset, out);
    }

   private:
    std::string bytes_;
  };
  const std::string whole = file("add_all_major.fatbin");
  for (std::size_t size = 0; size < whole.size(); size += 64) {
    const Shrunk bytes(whole.substr(0, size));
    for (const auto place : {FatbinPlace::named_section, FatbinPlace::any_data}) {
      std::vector<Problem> problems;
      read_fat_binaries(bytes, {0, bytes.size()}, place, std::nullopt, with_payloads, problems);
      if (place == FatbinPlace::named_section && size >= 16) EXPECT_FALSE(problems.empty()) << size;
    }
  }
}

TEST(FatbinDamage, ProblemsAreBounded) {
  std::vector<Entry> entries(20000);
  for (Entry& entry : entries) {
    entry.kind = 0x7777;
    entry.rest = std::string(8, 'x');
    entry.payload_size = 8;
  }
  const auto result = read(container(entries));
  EXPECT_EQ(result.found.at(0).images.size(), entries.size());
  EXPECT_LE(result.problems.size(), 1001u);
  EXPECT_NE(result.problems.back().message.find("the rest is not listed"), std::string::npos);
}

TEST(FatbinDamage, MutatedContainersNeverHarm) {
  std::mt19937 random(7);
  std::vector<std::string> seeds = {file("add_all_major.fatbin"), file("concat.fatbin"), file("tile.fatbin"),
                                    file("add_sm90.fatbin")};
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = seeds[static_cast<std::size_t>(round) % seeds.size()];
    for (int flips = 1 + round % 8; flips > 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    for (const auto place : {FatbinPlace::named_section, FatbinPlace::any_data}) {
      const auto result = read(bytes, place, {true, true, false});
      for (const auto& fat_binary : result.found) EXPECT_LE(fat_binary.offset + fat_binary.size, bytes.size());
    }
  }
}

TEST(Wrappers, AreCheckedByMagicAndVersion) {
  std::string bytes(72, '\0');
  for (const std::size_t at : {0u, 24u, 48u}) put(bytes, at, std::uint32_t{0x466243B1});
  put(bytes, 4, std::uint32_t{1});
  put(bytes, 28, std::uint32_t{2});
  put(bytes, 52, std::uint32_t{3});
  auto check = [](const std::string& text, std::size_t size) {
    std::vector<Problem> problems;
    check_wrappers(MemoryBytes(std::as_bytes(std::span(text))), {0, size}, problems);
    return problems;
  };
  auto problems = check(bytes, 72);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].offset, 48u);
  EXPECT_EQ(problems[0].message, "fat binary wrapper version: expected 1 or 2, found 3");
  EXPECT_TRUE(check(bytes, 48).empty());
  problems = check(bytes, 44);
  ASSERT_EQ(problems.size(), 1u);
  put(bytes, 0, std::uint32_t{0x466243B2});
  EXPECT_EQ(check(bytes, 24).at(0).message, "fat binary wrapper magic: expected 0x466243b1, found 0x466243b2");
}

}  // namespace
}  // namespace cudeploy
