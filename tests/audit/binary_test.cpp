// From a file to its record: formats told apart by content, device code wherever it lies, stubs that others can bind
// to.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "fixture.hpp"

namespace cudeploy {
namespace {

class Binary : public Fixture {
 protected:
  void SetUp() override { std::filesystem::copy(CUDEPLOY_SAMPLES "/add_sm90.fatbin", path("add.fatbin")); }
};

TEST_F(Binary, FormatIsToldByContent) {
  write("empty", "");
  write("text", "#!/bin/sh\nexit 0\n");
  write("short",
        "\x7f"
        "EL");
  write("add.ptx", ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n");
  EXPECT_EQ(read("empty").format, Format::other);
  EXPECT_EQ(read("text").format, Format::other);
  EXPECT_EQ(read("short").format, Format::other);
  EXPECT_EQ(read("add.ptx").format, Format::ptx);
  EXPECT_EQ(read("add.fatbin").format, Format::fatbin);
  for (const char* name : {"empty", "text", "short"}) EXPECT_EQ(problems_of(read(name)), "") << name;
}

TEST_F(Binary, ReadsDeviceCodeWhereverItLies) {
  const std::pair<const char*, bool> sections[] = {
      {".nv_fatbin", true}, {"__nv_relfatbin", false}, {".rodata", true}, {".ldata", true}, {".cask_resource", true}};
  for (auto [section, loadable] : sections) {
    write("data.s", ".section " + std::string(section) +
                        ", \"a\", @progbits\n.balign 8\n.incbin \"add.fatbin\"\n"
                        ".section .note.GNU-stack, \"\", @progbits\n");
    run("gcc -shared -nostdlib data.s -o lib.so && gcc -c data.s -o data.o");
    for (const char* file : {"lib.so", "data.o"}) {
      FileRecord record = read(file);
      ASSERT_EQ(record.fat_binaries.size(), 1u) << section << " " << file;
      EXPECT_EQ(record.fat_binaries[0].section, section);
      EXPECT_EQ(record.fat_binaries[0].loadable, loadable) << section;
      EXPECT_EQ(record.fat_binaries[0].images.size(), 2u);
      EXPECT_EQ(content(file).substr(record.fat_binaries[0].offset, record.fat_binaries[0].size),
                content("add.fatbin"));
      EXPECT_EQ(problems_of(record), "");
    }
  }
  // Code is not searched: magic numbers occur in it as immediates.
  write("code.s", ".text\n.balign 8\n.incbin \"add.fatbin\"\n.section .note.GNU-stack, \"\", @progbits\n");
  run("gcc -shared -nostdlib code.s -o lib.so");
  EXPECT_TRUE(read("lib.so").fat_binaries.empty());
}

// The loader needs no section headers, so neither does device code: all gone, all but the first, one not loaded, one
// too short, all at another place.
TEST_F(Binary, ReadsDeviceCodeThatNoSectionHeaderCovers) {
  write("data.s",
        ".section .nv_fatbin, \"a\", @progbits\n.balign 8\n.incbin \"add.fatbin\"\n"
        ".section .ldata, \"aw\", @progbits\n.balign 8\n.incbin \"add.fatbin\"\n"
        ".section .note.GNU-stack, \"\", @progbits\n");
  run("gcc -shared -nostdlib data.s -o lib.so");
  const FileRecord before = read("lib.so");
  ASSERT_EQ(before.fat_binaries.size(), 2u);
  const std::string whole = content("lib.so");
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), whole.data() + header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
  const auto device_code = std::find_if(sections.begin(), sections.end(), [&](const Elf64_Shdr& section) {
    return section.sh_offset == before.fat_binaries[0].offset;
  });
  ASSERT_NE(device_code, sections.end());

  const auto expect_both = [&](const char* what, Elf64_Ehdr head, const Elf64_Shdr& changed) {
    std::string bytes = whole;
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + header.e_shoff + (device_code - sections.begin()) * sizeof changed, &changed,
                sizeof changed);
    write("lib.so", bytes);
    const FileRecord after = read("lib.so");
    ASSERT_EQ(after.fat_binaries.size(), 2u) << what;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(after.fat_binaries[i].offset, before.fat_binaries[i].offset) << what;
      EXPECT_EQ(after.fat_binaries[i].size, before.fat_binaries[i].size) << what;
    }
    EXPECT_EQ(after.fat_binaries[0].section, std::nullopt) << what;
  };
  Elf64_Ehdr head = header;
  head.e_shoff = head.e_shnum = head.e_shstrndx = 0;
  expect_both("no header", head, *device_code);
  head = header;
  head.e_shnum = 1;
  expect_both("the first header", head, *device_code);
  Elf64_Shdr changed = *device_code;
  changed.sh_flags = 0;
  expect_both("not loaded", header, changed);
  changed = *device_code;
  changed.sh_offset += 64;
  changed.sh_size = 0;
  expect_both("empty", header, changed);
  changed = *device_code;
  changed.sh_type = SHT_NOBITS;
  expect_both("without bytes", header, changed);
}

// Programs that load their kernels by the driver's API keep PTX as text.
TEST_F(Binary, ReadsPtxTextInData) {
  const std::string head = ".version 9.0\n.target sm_90a\n.address_size 64\n";
  const std::string kernel = ".visible .entry add(\n.param .u64 x\n)\n{\n\tret;\n}\n";
  const std::string comment =
      "//\n// Generated by NVIDIA NVVM Compiler\n// Cuda compilation tools, release 13.0, V13.0.88\n//\n\n";
  const std::pair<const char*, std::string> texts[] = {
      {"plain", head + kernel},
      {"as nvcc writes it", comment + head + "\n" + kernel},
      {"as Windows writes it", ".version 9.0\r\n.target sm_90a\r\n" + kernel},
      {"on one line", ".version 9.0 .target sm_90a .entry k { ret; } .entry add { ret; }"},
      {"longer than a block", head + kernel + std::string(300'000, ' ') + ".entry more() { ret; }"}};
  for (const char* section : {".rodata", ".data"})
    for (const auto& [name, text] : texts) {
      write("add.ptx", text);
      write("data.s", ".section " + std::string(section) +
                          "\n.ascii \"\\1a.version\\0\"\n.incbin \"add.ptx\"\n.byte 0"
                          "\n.section .note.GNU-stack, \"\", @progbits\n");
      run("gcc -shared -nostdlib data.s -o lib.so");
      ReadOptions options;
      options.kernels = true;
      const FileRecord record = read("lib.so", options);
      EXPECT_EQ(problems_of(record), "");
      ASSERT_EQ(record.fat_binaries.size(), 1u) << name << " in " << section;
      const FatBinary& found = record.fat_binaries[0];
      EXPECT_EQ(content("lib.so").substr(found.offset, found.size), text) << name;
      EXPECT_EQ(found.section, section);
      ASSERT_EQ(found.images.size(), 1u);
      EXPECT_EQ(found.images[0].kind, ImageKind::ptx);
      EXPECT_EQ(found.images[0].arch, 90u);
      EXPECT_EQ(found.images[0].variant, "a");
      EXPECT_EQ(found.images[0].ptx_version, "9.0");
      EXPECT_EQ(found.images[0].toolkit, text.starts_with("//") ? std::optional<std::string>("13.0.88") : std::nullopt);
      EXPECT_EQ(found.images[0].kernels.at(0).name, "add");
    }
}

// Rust and Go end no text with a NUL: another one stands directly before it.
TEST_F(Binary, ReadsPtxTextBehindAnotherText) {
  const std::string ptx = ".version 9.0\n.target sm_90\n.address_size 64\n.entry add()\n{\nret;\n}\n";
  for (const auto& [before, comment] : {std::pair<std::string, std::string>{"no such kernel\n", ""},
                                        {"no such kernel", "\n//\n// Generated by NVIDIA NVVM Compiler\n\n//\n"},
                                        {"a // b\n", "  // c\r\n"}}) {
    write("data.ptx", before + comment + ptx);
    write("data.s",
          ".section .rodata\n.byte 0\n.incbin \"data.ptx\"\n.byte 0\n.section .note.GNU-stack, \"\", @progbits\n");
    run("gcc -shared -nostdlib data.s -o lib.so");
    const FileRecord record = read("lib.so");
    EXPECT_EQ(problems_of(record), "");
    ASSERT_EQ(record.fat_binaries.size(), 1u) << before;
    const std::string found = content("lib.so").substr(record.fat_binaries[0].offset, record.fat_binaries[0].size);
    EXPECT_EQ(found, comment.substr(comment.starts_with('\n') ? 1 : 0) + ptx) << before;
  }
}

// Compilers hold PTX too: beginnings, pieces, and forms to fill in.
TEST_F(Binary, PiecesOfPtxAreNoDeviceCode) {
  const std::string head = ".version 9.0\n.target sm_90\n.address_size 64\n", kernel = ".entry add()\n{\nret;\n}\n";
  for (const std::string& text :
       {head, head + ".func add() { ret; }", head + ".entry add() {", head + ".entry add_%d() { ret; }",
        ".version %d.%d\n.target sm_90\n" + kernel, ".version 9.0\n.target %s\n" + kernel, ".version 9.0\n" + kernel,
        "usage" + head + kernel, "--" + head + kernel, head + kernel + "\x01}",
        ".versions" + head.substr(8) + kernel}) {
    write("add.ptx", text);
    write("data.s",
          ".section .rodata\n.byte 0\n.incbin \"add.ptx\"\n.byte 0\n.section .note.GNU-stack, \"\", @progbits\n");
    run("gcc -shared -nostdlib data.s -o lib.so");
    const FileRecord record = read("lib.so");
    EXPECT_TRUE(record.fat_binaries.empty()) << text;
    EXPECT_EQ(problems_of(record), "");
  }
}

TEST_F(Binary, ReadsNoByteTwice) {
  // A thousand section headers that all point at the same container.
  const std::string fatbin = content("add.fatbin");
  const std::size_t count = 1000;
  std::string bytes(sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Shdr), '\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = count;
  std::memcpy(bytes.data(), &header, sizeof header);
  for (std::size_t i = 1; i < count; ++i) {
    Elf64_Shdr section{};
    section.sh_type = SHT_PROGBITS;
    section.sh_flags = SHF_ALLOC;
    section.sh_offset = bytes.size();
    section.sh_size = fatbin.size();
    std::memcpy(bytes.data() + sizeof header + i * sizeof section, &section, sizeof section);
  }
  write("many.o", bytes + fatbin);
  EXPECT_EQ(read("many.o").fat_binaries.size(), 1u);
}

class Stubs : public Fixture {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(CUDEPLOY_NVCC)) GTEST_SKIP() << "no nvcc";
    write("lib.cu", R"(
template <typename T> __global__ void scale(T *x) { *x *= 2; }
__global__ void plain(float *x) { *x = 1; }
static __global__ void hidden(float *x) { *x = 3; }
extern "C" int run(float *x) { scale<<<1, 1>>>(x); plain<<<1, 1>>>(x); hidden<<<1, 1>>>(x); return 0; }
)");
  }
  std::vector<std::string> stubs(const std::string& options) const {
    run("'" CUDEPLOY_NVCC "' -arch=sm_90 -Xcompiler -fPIC -shared -cudart none " + options + " lib.cu -o lib.so");
    ReadOptions audit;
    audit.for_audit = true;
    FileRecord record = read("lib.so", audit);
    std::vector<std::string> found;
    EXPECT_TRUE(record.exported_stubs);
    if (record.exported_stubs) {
      for (const ExportedStub& stub : *record.exported_stubs) found.push_back(stub.name + (stub.weak ? " weak" : ""));
    }
    return found;
  }
};

TEST_F(Stubs, AreFoundWhereTheyAreExported) {
  EXPECT_EQ(stubs("-static-global-template-stub=false -device-entity-has-hidden-visibility=false"),
            (std::vector<std::string>{"_Z5plainPf", "_Z5scaleIfEvPT_ weak"}));
}

TEST_F(Stubs, AreNoneWhereTheyAreHidden) {
  EXPECT_TRUE(stubs("-static-global-template-stub=true -device-entity-has-hidden-visibility=true").empty());
}

TEST_F(Stubs, AreNotLookedForUnlessAVerdictNeedsThem) {
  run("'" CUDEPLOY_NVCC "' -arch=sm_90 -Xcompiler -fPIC -shared -cudart none lib.cu -o lib.so");
  EXPECT_FALSE(read("lib.so").exported_stubs);
}

// nvcc's stub bears the kernel's name; a function of that name in a program of the driver's API is its own.
TEST_F(Binary, KernelsInNoContainerHaveNoStubs) {
  write("lib.c", R"(
const char ptx[] = "\n.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry scale()\n{\n ret;\n}\n";
int scale(float *x) { return x != 0 && ptx[0]; }
)");
  run("gcc -shared -fPIC lib.c -o lib.so");
  ReadOptions audit;
  audit.for_audit = audit.kernels = true;
  const FileRecord record = read("lib.so", audit);
  ASSERT_EQ(record.fat_binaries.size(), 1u);
  EXPECT_EQ(record.fat_binaries[0].images.at(0).kernels.at(0).name, "scale");
  ASSERT_TRUE(record.exported_stubs);
  EXPECT_TRUE(record.exported_stubs->empty()) << record.exported_stubs->front().name;
}

TEST_F(Stubs, OfClangHaveANameOfTheirOwn) {
  run("'" CUDEPLOY_NVCC "' -arch=sm_90 -fatbin lib.cu -o lib.fatbin");
  write("host.s", R"(
    .section .nv_fatbin, "a", @progbits
    .balign 8
    .incbin "lib.fatbin"
    .text
    .globl _Z20__device_stub__plainPf
    .type _Z20__device_stub__plainPf, @function
_Z20__device_stub__plainPf:
    .weak _Z20__device_stub__scaleIfEvPT_
    .type _Z20__device_stub__scaleIfEvPT_, @function
_Z20__device_stub__scaleIfEvPT_:
    .globl _Z20__device_stub__otherPf
    .type _Z20__device_stub__otherPf, @function
_Z20__device_stub__otherPf:
    ret
    .section .note.GNU-stack, "", @progbits
)");
  run("gcc -shared -nostdlib host.s -o lib.so");
  ReadOptions audit;
  audit.for_audit = true;
  FileRecord record = read("lib.so", audit);
  ASSERT_TRUE(record.exported_stubs);
  ASSERT_EQ(record.exported_stubs->size(), 2u);
  EXPECT_EQ(record.exported_stubs->at(0).name, "_Z20__device_stub__plainPf");
  EXPECT_EQ(record.exported_stubs->at(1).name, "_Z20__device_stub__scaleIfEvPT_");
  EXPECT_TRUE(record.exported_stubs->at(1).weak);
}

}  // namespace
}  // namespace cudeploy
