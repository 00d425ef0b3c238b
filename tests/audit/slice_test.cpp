// A slice must tell the same as the whole file, for every kind of ELF file that compilers and linkers make, and
// nothing that a header claims may cost more than a problem.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "elf_facts.hpp"
#include "fixture.hpp"
#include "slice.hpp"

namespace cudeploy {
namespace {

struct Build {
  const char* name;
  const char* command;  ///< makes the file "out"
};
void PrintTo(const Build& build, std::ostream* out) { *out << build.name; }

constexpr const char* kLibrary = R"(
#include <math.h>
#include <stdio.h>
double f(double x) { printf("%f", x); return cos(x); }
double g(double x) { return x; }
)";
constexpr const char* kProgram = R"(
#include <stdio.h>
int main(void) { puts("here"); return 0; }
)";

class SliceOfBuild : public Fixture, public testing::WithParamInterface<Build> {
 protected:
  void SetUp() override {
    write("lib.c", kLibrary);
    write("program.c", kProgram);
    write("versions.map", "ONE { global: f; local: *; }; TWO { global: g; } ONE;");
    run(GetParam().command);
  }
  FileRecord whole() const {
    std::string why;
    auto bytes = FileBytes::open(path("out"), why);
    return read_elf_with_lief_alone("out", *bytes);
  }
};

TEST_P(SliceOfBuild, TellsWhatTheWholeFileTells) {
  FileRecord record = read("out");
  EXPECT_EQ(all_facts(record), all_facts(whole()));
  EXPECT_EQ(problems_of(record), "");
}

TEST_P(SliceOfBuild, AgreesWithReadelf) { EXPECT_EQ(facts_of(read("out")), facts_of_readelf(run("readelf -dW out"))); }

TEST_P(SliceOfBuild, NeedsNoSectionHeaders) {
  FileRecord before = read("out");
  if (before.type == "relocatable") GTEST_SKIP() << "not applicable: an object is nothing but sections";
  std::string bytes = content("out");
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes.resize(header.e_shoff);  // the section headers come last
  header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
  std::memcpy(bytes.data(), &header, sizeof header);
  write("out", bytes);
  FileRecord after = read("out");
  EXPECT_EQ(all_facts(after), all_facts(before));
  EXPECT_EQ(problems_of(after), "");
}

INSTANTIATE_TEST_SUITE_P(
    Builds, SliceOfBuild,
    testing::Values(
        Build{"Library", "gcc -shared -fPIC lib.c -o out -Wl,-soname,libx.so.1 -Wl,--no-as-needed -lm -lpthread"},
        Build{"Rpath", "gcc -shared -fPIC lib.c -o out -lm '-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib:/opt/x'"},
        Build{"Runpath", "gcc -shared -fPIC lib.c -o out -lm '-Wl,--enable-new-dtags,-rpath,$ORIGIN::/opt/x'"},
        Build{"Versions", "gcc -shared -fPIC lib.c -o out -lm -Wl,--version-script=versions.map"},
        Build{"Flags", "gcc -shared -fPIC lib.c -o out -lm -Wl,-Bsymbolic,-z,nodelete,-z,nodefaultlib"},
        Build{"SysvHash", "gcc -shared -fPIC lib.c -o out -lm -Wl,--hash-style=sysv"},
        Build{"GnuHash", "gcc -shared -fPIC lib.c -o out -lm -Wl,--hash-style=gnu"},
        Build{
            "Gold",
            "gcc -shared -fPIC lib.c -o out -lm -fuse-ld=gold -Wl,-soname,libx.so.1 -Wl,--version-script=versions.map"},
        Build{
            "Lld",
            "gcc -shared -fPIC lib.c -o out -lm -fuse-ld=lld -Wl,-soname,libx.so.1 -Wl,--version-script=versions.map"},
        Build{"Stripped", "gcc -s -shared -fPIC lib.c -o out -lm"}, Build{"Pie", "gcc -pie -fPIE program.c -o out"},
        Build{"NoPie", "gcc -no-pie program.c -o out"}, Build{"StaticPie", "gcc -static-pie -fPIE program.c -o out"},
        Build{"Static", "gcc -static program.c -o out"}, Build{"Object", "gcc -c -fPIC lib.c -o out"},
        Build{"ObjectOfManySections", "gcc -c -ffunction-sections -fdata-sections -g lib.c -o out"}),
    [](const auto& info) { return info.param.name; });

class Slice : public Fixture {
 protected:
  void SetUp() override {
    write("lib.c", kLibrary);
    write("program.c", kProgram);
  }
};

TEST_F(Slice, TellsTypesApart) {
  run("gcc -shared -fPIC lib.c -o lib.so -lm");
  run("gcc -pie -fPIE program.c -o pie");
  run("gcc -no-pie program.c -o fixed");
  run("gcc -static-pie -fPIE program.c -o static-pie");
  run("gcc -c lib.c -o lib.o");
  EXPECT_EQ(read("lib.so").type, "shared");
  EXPECT_EQ(read("pie").type, "executable");
  EXPECT_EQ(read("pie").interpreter, "/lib64/ld-linux-x86-64.so.2");
  EXPECT_EQ(read("fixed").type, "executable");
  EXPECT_EQ(read("static-pie").type, "executable");
  EXPECT_EQ(read("lib.o").type, "relocatable");
}

TEST_F(Slice, ReadsFlagsAndVersions) {
  write("versions.map", "ONE { global: f; local: *; }; TWO { global: g; } ONE;");
  run("gcc -shared -fPIC lib.c -o lib.so -lm -Wl,-soname,libx.so.1,--version-script=versions.map");
  FileRecord record = read("lib.so");
  EXPECT_EQ(record.version_definitions, (std::vector<std::string>{"ONE", "TWO"}));
  ASSERT_FALSE(record.version_needs.empty());
  const auto of_libm = std::find_if(record.version_needs.begin(), record.version_needs.end(),
                                    [](const VersionNeed& need) { return need.library == "libm.so.6"; });
  ASSERT_NE(of_libm, record.version_needs.end());
  EXPECT_EQ(of_libm->symbols, std::vector<std::string>{"cos"});
  EXPECT_FALSE(record.nodelete || record.nodeflib || record.symbolic);

  run("gcc -shared -fPIC lib.c -o flags.so -lm -Wl,-Bsymbolic,-z,nodelete,-z,nodefaultlib");
  record = read("flags.so");
  EXPECT_TRUE(record.nodelete && record.nodeflib && record.symbolic);
}

TEST_F(Slice, KeepsEmptyElementsOfASearchPath) {
  run("gcc -shared -fPIC lib.c -o lib.so -lm -Wl,--enable-new-dtags,-rpath,/a::/b:");
  EXPECT_EQ(read("lib.so").runpath, (std::vector<std::string>{"/a", "", "/b", ""}));
}

TEST_F(Slice, OfADebugFileHasNoDynamicTable) {
  run("gcc -g -shared -fPIC lib.c -o lib.so -lm && objcopy --only-keep-debug lib.so lib.debug");
  FileRecord record = read("lib.debug");
  EXPECT_EQ(record.type, "shared");
  EXPECT_TRUE(record.needed.empty());
  EXPECT_EQ(problems_of(record), "");
}

TEST_F(Slice, IsSmall) {
  run("head -c 20000000 /dev/zero > bulk && gcc -shared -fPIC lib.c -o lib.so -lm");
  run("objcopy --add-section .bulk=bulk --set-section-flags .bulk=alloc,readonly,data lib.so 2> /dev/null");
  std::string why;
  auto bytes = FileBytes::open(path("lib.so"), why);
  std::vector<Problem> problems;
  auto layout = read_elf_layout(*bytes, problems);
  ASSERT_TRUE(layout);
  EXPECT_LT(make_slice(*bytes, *layout, true, problems).size(), 64u << 10);
}

TEST_F(Slice, Reads32BitFilesWhole) {
  write("empty.s", ".globl f\nf: ret\n");
  run("gcc -m32 -nostdlib -shared empty.s -o lib32.so -Wl,-soname,lib32.so.1");
  FileRecord record = read("lib32.so");
  EXPECT_EQ(record.machine, "x86");
  EXPECT_EQ(record.soname, "lib32.so.1");
  EXPECT_EQ(problems_of(record), "");
}

TEST_F(Slice, OfAFileThatIsCutTellsWhatIsMissing) {
  run("gcc -shared -fPIC lib.c -o lib.so -lm -Wl,-soname,libx.so.1");
  const std::string whole = content("lib.so");
  for (std::size_t size = 4; size < whole.size(); size += std::max<std::size_t>(1, size / 16)) {
    write("cut.so", whole.substr(0, size));
    FileRecord record = read("cut.so");
    EXPECT_EQ(record.format, Format::elf) << size;
    EXPECT_NE(problems_of(record), "") << size;
  }
}

TEST_F(Slice, OfHugeClaimsCostsNothing) {
  run("gcc -shared -fPIC lib.c -o lib.so -lm");
  const std::string good = content("lib.so");
  Elf64_Ehdr header;
  std::memcpy(&header, good.data(), sizeof header);
  auto with_header = [&](auto change) {
    Elf64_Ehdr changed = header;
    change(changed);
    std::string bytes = good;
    std::memcpy(bytes.data(), &changed, sizeof changed);
    write("bad.so", bytes);
    return problems_of(read("bad.so"));
  };
  EXPECT_NE(with_header([](Elf64_Ehdr& h) { h.e_shoff = ~0ull; }).find("e_shoff"), std::string::npos);
  EXPECT_NE(with_header([](Elf64_Ehdr& h) { h.e_phoff = ~0ull - 8; }).find("e_phnum"), std::string::npos);
  EXPECT_NE(with_header([](Elf64_Ehdr& h) { h.e_shnum = 0xff00 - 1; }).find("e_shnum"), std::string::npos);
  EXPECT_NE(with_header([](Elf64_Ehdr& h) { h.e_phnum = 0xfff0; }).find("e_phnum"), std::string::npos);
  EXPECT_NE(with_header([](Elf64_Ehdr& h) { h.e_shentsize = 1; }).find("e_shentsize"), std::string::npos);
  EXPECT_NE(with_header([](Elf64_Ehdr& h) { h.e_phentsize = 57; }).find("e_phentsize"), std::string::npos);

  // Extended numbering: section 0 claims 2^60 sections.
  std::string bytes = good;
  Elf64_Ehdr changed = header;
  changed.e_shnum = 0;
  std::memcpy(bytes.data(), &changed, sizeof changed);
  std::uint64_t claim = 1ull << 60;
  std::memcpy(bytes.data() + header.e_shoff + offsetof(Elf64_Shdr, sh_size), &claim, sizeof claim);
  write("bad.so", bytes);
  EXPECT_NE(problems_of(read("bad.so")).find("e_shnum"), std::string::npos);
}

TEST_F(Slice, KeepsItsNamesBehindOneThatIsTooLong) {
  write("long", "-rpath /" + std::string(1100000, 'x'));  // longer than an argument may be
  run("gcc -shared -fPIC lib.c -o lib.so -lm -Wl,-soname,libx.so.1 -Wl,@long");
  const FileRecord record = read("lib.so");
  EXPECT_EQ(problems_of(record),
            "ELF dynamic tag 29: expected names and search paths of at most 1048576 bytes, found more\n");
  EXPECT_EQ(record.soname, "libx.so.1");
  EXPECT_EQ(facts_of_readelf(run("readelf -dW lib.so | grep -v RUNPATH")), facts_of(record));
}

TEST_F(Slice, SurvivesMutations) {
  run("gcc -shared -fPIC lib.c -o lib.so -lm -Wl,-soname,libx.so.1,-rpath,/x");
  const std::string good = content("lib.so");
  Elf64_Ehdr header;
  std::memcpy(&header, good.data(), sizeof header);
  std::mt19937_64 random(20240917);
  // Where structure is: headers, everything up to the text, the dynamic table, section headers.
  const std::size_t tables = std::min<std::size_t>(good.size(), 0x1000);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (unsigned i = 0, count = 1 + random() % 4; i < count; ++i) {
      std::size_t at;
      switch (random() % 3) {
        case 0:
          at = random() % tables;
          break;
        case 1:
          at = header.e_shoff + random() % (good.size() - header.e_shoff);
          break;
        default:
          at = random() % good.size();
      }
      static const unsigned char interesting[] = {0, 1, 0x7f, 0x80, 0xff};
      bytes[at] = static_cast<char>(random() % 2 ? interesting[random() % 5] : random());
    }
    MemoryBytes memory(std::as_bytes(std::span(bytes)));
    auto records = read_binary("mutated.so", memory, {});
    ASSERT_EQ(records.size(), 1u);
  }
}

}  // namespace
}  // namespace cudeploy
