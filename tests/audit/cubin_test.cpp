// Cubins of both header layouts, from the samples, and what happens to them when a field lies.
#include "cubin.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "fatbin.hpp"
#include "payload.hpp"

namespace cudeploy {
namespace {

std::string file(const std::string& name) {
  std::ifstream in(std::string(CUDEPLOY_SAMPLES) + "/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The bytes of image `index` of a sample, unpacked.
std::string image_of(const std::string& name, std::size_t index) {
  const std::string bytes = file(name);
  const MemoryBytes memory(std::as_bytes(std::span(bytes)));
  std::vector<Problem> problems;
  const auto found =
      read_fat_binaries(memory, {0, bytes.size()}, FatbinPlace::named_section, std::nullopt, {}, problems);
  const Image& image = found.at(0).images.at(index);
  const auto packed = memory.value<std::uint32_t>(image.offset + 0x10).value();
  const bool plain = image.compression == Compression::none;
  std::string fault;
  const auto out = unpack(memory,
                          {{image.offset + image.header_size, plain ? *image.stored_size : packed},
                           plain ? Codec::none : Codec::zstd,
                           *image.size},
                          fault);
  EXPECT_TRUE(out) << fault;
  return {reinterpret_cast<const char*>(out->data()), out->size()};
}

std::optional<CubinFacts> facts(const std::string& bytes, std::string& fault,
                                CubinDetail detail = CubinDetail::kernels) {
  return read_cubin_facts(MemoryBytes(std::as_bytes(std::span(bytes))), {0, bytes.size()}, detail, fault);
}

CubinFacts facts(const std::string& bytes) {
  std::string fault;
  const auto out = facts(bytes, fault);
  EXPECT_TRUE(out) << fault;
  return out.value_or(CubinFacts{});
}

template <typename T>
void put(std::string& out, std::size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

TEST(Cubin, OfAbi8TellsArchitectureToolkitAndKernels) {
  const std::string bytes = image_of("add_sm90.fatbin", 0);
  const auto out = facts(bytes);
  EXPECT_EQ(out.abi, 8);
  EXPECT_EQ(out.arch, 90u);
  EXPECT_EQ(out.variant, "");
  EXPECT_FALSE(out.arch_specific);
  EXPECT_FALSE(out.relocatable);
  EXPECT_EQ(out.toolkit, "13.0.88");
  EXPECT_EQ(out.kernel_count, 1u);
  ASSERT_EQ(out.kernels.size(), 1u);
  EXPECT_EQ(out.kernels[0].name, "addk");
  EXPECT_EQ(out.kernels[0].registers, 10u);
  EXPECT_EQ(out.kernels[0].shared_bytes, 0u);
  EXPECT_EQ(out.size, bytes.size());
}

TEST(Cubin, OfAbi7TellsItsToolkitInTheElfVersion) {
  for (const std::string version : {"11.2", "11.8", "12.4"}) {
    const auto out = facts(image_of("old_" + version + ".fatbin", 1));
    EXPECT_EQ(out.abi, 7);
    EXPECT_EQ(out.arch, 80u);
    EXPECT_EQ(out.variant, "");
    EXPECT_EQ(out.toolkit, version);
    EXPECT_EQ(out.kernel_count, 1u);
    EXPECT_TRUE(out.kernels.at(0).registers);
  }
}

TEST(Cubin, VariantComesFromItsOwnNotes) {
  EXPECT_EQ(facts(image_of("add_sm90a.fatbin", 1)).variant, "a");
  EXPECT_TRUE(facts(image_of("add_sm90a.fatbin", 1)).arch_specific);
  EXPECT_EQ(facts(image_of("add_family.fatbin", 0)).variant, "f");
  EXPECT_FALSE(facts(image_of("add_family.fatbin", 0)).arch_specific);
  EXPECT_EQ(facts(image_of("add_family.fatbin", 1)).arch, 103u);
  EXPECT_EQ(facts(image_of("tile.fatbin", 0)).variant, "a");
}

TEST(Cubin, OfOldFlagsTellsItsVariant) {
  std::string bytes = image_of("old_12.4.fatbin", 1);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  put(bytes, offsetof(Elf64_Ehdr, e_flags), header.e_flags | 0x800);
  EXPECT_EQ(facts(bytes).variant, "");  // sm_80 has no variant, whatever the bit meant then
  put(bytes, offsetof(Elf64_Ehdr, e_flags), (header.e_flags & ~0xffu) | 0x800 | 90);
  EXPECT_EQ(facts(bytes).variant, "a");
  bytes = image_of("add_sm90.fatbin", 0);
  std::memcpy(&header, bytes.data(), sizeof header);
  put(bytes, offsetof(Elf64_Ehdr, e_flags), header.e_flags | 0x8);  // as 12.8 and 12.9 do
  EXPECT_EQ(facts(bytes).variant, "a");
}

TEST(Cubin, BareFileIsAFatBinaryWithOneImage) {
  const std::string bytes = image_of("add_sm90a.fatbin", 1) + std::string(100, 'x');
  const MemoryBytes memory(std::as_bytes(std::span(bytes)));
  std::vector<Problem> problems;
  EXPECT_TRUE(looks_like_cubin(memory, {0, bytes.size()}));
  const auto out = read_cubin(memory, {0, bytes.size()}, ".data", {}, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(out.size, bytes.size() - 100);
  EXPECT_EQ(out.section, ".data");
  EXPECT_TRUE(out.loadable);
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_EQ(out.images[0].kind, ImageKind::cubin);
  EXPECT_EQ(out.images[0].variant, "a");
  EXPECT_EQ(out.images[0].toolkit, "13.0.88");
  EXPECT_EQ(out.images[0].kernel_count, 1u);
  EXPECT_EQ(out.images[0].stored_size, out.size);
}

TEST(Cubin, HostProgramsAreNone) {
  const std::string bytes = file("lib_none.so");
  EXPECT_FALSE(looks_like_cubin(MemoryBytes(std::as_bytes(std::span(bytes))), {0, bytes.size()}));
}

TEST(Cubin, FieldThatLiesIsNamed) {
  const std::string good = image_of("add_sm90.fatbin", 0);
  Elf64_Ehdr header;
  std::memcpy(&header, good.data(), sizeof header);
  auto fault_with = [&](const std::function<void(std::string&)>& change) {
    std::string bytes = good, fault;
    change(bytes);
    EXPECT_FALSE(facts(bytes, fault)) << fault;
    return fault;
  };
  auto section_field = [&](unsigned index, std::size_t field) {
    return header.e_shoff + index * sizeof(Elf64_Shdr) + field;
  };
  EXPECT_NE(fault_with([](std::string& s) { s[EI_OSABI] = 0; }).find("OS/ABI"), std::string::npos);
  EXPECT_NE(fault_with([](std::string& s) { put(s, offsetof(Elf64_Ehdr, e_type), std::uint16_t{3}); }).find("type: "),
            std::string::npos);
  EXPECT_NE(
      fault_with([](std::string& s) { put(s, offsetof(Elf64_Ehdr, e_ehsize), std::uint16_t{0}); }).find("e_ehsize"),
      std::string::npos);
  EXPECT_NE(fault_with([](std::string& s) {
              put(s, offsetof(Elf64_Ehdr, e_shentsize), std::uint16_t{0});
            }).find("e_shentsize"),
            std::string::npos);
  EXPECT_NE(fault_with([](std::string& s) {
              put(s, offsetof(Elf64_Ehdr, e_shoff), ~std::uint64_t{0});
            }).find("section headers: "),
            std::string::npos);
  EXPECT_NE(fault_with([](std::string& s) {
              put(s, offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{0xffff});
            }).find("section headers: "),
            std::string::npos);
  EXPECT_NE(fault_with([](std::string& s) {
              put(s, offsetof(Elf64_Ehdr, e_phoff), ~std::uint64_t{0});
            }).find("program headers: "),
            std::string::npos);
  EXPECT_NE(fault_with([&](std::string& s) {
              put(s, section_field(3, offsetof(Elf64_Shdr, sh_size)), ~std::uint64_t{0});
            }).find("section 3: "),
            std::string::npos);
  EXPECT_NE(fault_with([&](std::string& s) {
              put(s, section_field(3, offsetof(Elf64_Shdr, sh_entsize)), std::uint64_t{0});
            }).find("symbol table: "),
            std::string::npos);
  // The number of sections may stand in the first of them: as large as it likes, it must fit.
  EXPECT_NE(fault_with([&](std::string& s) {
              put(s, offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{0});
              put(s, section_field(0, offsetof(Elf64_Shdr, sh_size)), ~std::uint64_t{0});
            }).find("section headers: "),
            std::string::npos);
}

TEST(Cubin, NamesCannotOutgrowTheirTable) {
  // 100,000 kernels that share one long name.
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_OSABI] = 0x41;
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_type = ET_EXEC;
  header.e_machine = 190;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shoff = sizeof header;
  header.e_flags = 90 << 8;
  constexpr std::size_t count = 100000, length = 60000;
  Elf64_Shdr sections[3]{};
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof header + sizeof sections;
  sections[1].sh_size = length;
  sections[2].sh_type = SHT_SYMTAB;
  sections[2].sh_link = 1;
  sections[2].sh_entsize = sizeof(Elf64_Sym);
  sections[2].sh_offset = sections[1].sh_offset + length;
  sections[2].sh_size = count * sizeof(Elf64_Sym);
  Elf64_Sym symbol{};
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol.st_other = 0x10;
  symbol.st_shndx = 1;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(sections), sizeof sections);
  bytes += std::string(length - 1, 'n') + std::string(1, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
  std::string fault;
  EXPECT_FALSE(facts(bytes, fault));
  EXPECT_NE(fault.find("names are longer"), std::string::npos) << fault;
  const auto counted = facts(bytes, fault, CubinDetail::kernel_count);
  ASSERT_TRUE(counted) << fault;
  EXPECT_EQ(counted->kernel_count, count);
}

TEST(Cubin, MutatedOrCutNeverHarms) {
  std::mt19937 random(11);
  const std::vector<std::string> seeds = {image_of("add_sm90.fatbin", 0), image_of("old_11.2.fatbin", 1),
                                          image_of("tile.fatbin", 0)};
  for (int round = 0; round < 6000; ++round) {
    std::string bytes = seeds[static_cast<std::size_t>(round) % seeds.size()], fault;
    for (int flips = 1 + round % 8; flips > 0; --flips) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 5 == 0) bytes.resize(random() % bytes.size());
    if (const auto out = facts(bytes, fault)) {
      EXPECT_LE(out->size, bytes.size());
    } else {
      EXPECT_FALSE(fault.empty());
    }
  }
}

}  // namespace
}  // namespace cudeploy
