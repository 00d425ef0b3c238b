// Programs and libraries linked with the real runtime in every way that linkers offer: the copy must be found in each,
// with its version, and in nothing else.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "fixture.hpp"
#include "runtime_copies.hpp"

namespace cudeploy {
namespace {

constexpr const char* kCaller = R"(
extern int cudaRuntimeGetVersion(int *);
int version(void) { int v = 0; cudaRuntimeGetVersion(&v); return v; }
)";
constexpr const char* kMain = R"(
#include <stdio.h>
extern int version(void);
int main(void) { printf("%d", version()); return 0; }
)";

/// More pointers than are read at once, before those of the runtime.
constexpr const char* kMany = R"(
static int it;
int *const many[600000] = {[0 ... 599999] = &it};
)";

struct Link {
  const char* name;
  const char* command;  ///< makes "out"; $RT is the runtime archive and what it needs
};
void PrintTo(const Link& link, std::ostream* out) { *out << link.name; }

class RuntimeCopies : public Fixture {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(CUDEPLOY_CUDART_STATIC))
      GTEST_SKIP() << "no libcudart_static.a in the toolkit of the tests";
    write("caller.c", kCaller);
    write("main.c", kMain);
    write("many.c", kMany);
  }

  std::string link(std::string command) const {
    const std::string runtime = "'" CUDEPLOY_CUDART_STATIC "' -ldl -lpthread -lrt";
    for (std::size_t at; (at = command.find("$RT")) != std::string::npos;) command.replace(at, 3, runtime);
    return run(command);
  }

  /// What the runtime itself says, by asking it: 13000.
  int real_version() const {
    link("gcc -O1 caller.c main.c $RT -o ask");
    return std::stoi(run("./ask"));
  }
};

class LinkedRuntime : public RuntimeCopies, public testing::WithParamInterface<Link> {};

TEST_P(LinkedRuntime, IsFoundOnceWithItsVersion) {
  const int real = real_version();
  link(GetParam().command);
  FileRecord record = read("out");
  ASSERT_EQ(record.runtime_copies.size(), 1u);
  const RuntimeCopy& copy = record.runtime_copies.front();
  EXPECT_EQ(copy.kind, RuntimeCopyKind::private_static);
  ASSERT_TRUE(copy.api_level);
  // A release without new entries in the table has the level of the one before.
  LevelReleases releases = releases_of_level(*copy.api_level);
  const std::string release = std::to_string(real / 1000) + "." + std::to_string(real % 1000 / 10);
  EXPECT_TRUE(releases.open_ended || std::count(releases.releases.begin(), releases.releases.end(), release))
      << release;
  if (copy.version) EXPECT_EQ(*copy.version, release);
  EXPECT_EQ(problems_of(record), "");
}

INSTANTIATE_TEST_SUITE_P(
    Links, LinkedRuntime,
    testing::Values(
        Link{"Pie", "gcc -pie -fPIE caller.c main.c $RT -o out"},
        Link{"NoPie", "gcc -no-pie caller.c main.c $RT -o out"},
        Link{"Static", "gcc -static caller.c main.c $RT -o out"},
        Link{"Library", "gcc -shared -fPIC caller.c $RT -o out"},
        Link{"LibraryStripped",
             "gcc -s -shared -fPIC caller.c $RT -o out -Wl,--gc-sections,--exclude-libs,ALL && strip -R .comment out"},
        Link{"Gold", "gcc -s -fuse-ld=gold -shared -fPIC caller.c $RT -o out"},
        Link{"Lld", "gcc -s -fuse-ld=lld -shared -fPIC caller.c $RT -o out"},
        Link{"LldIcf", "gcc -s -fuse-ld=lld -pie -fPIE caller.c main.c $RT -o out -Wl,--icf=all,--gc-sections"},
        Link{"LldNoPie", "gcc -fuse-ld=lld -no-pie caller.c main.c $RT -o out"},
        Link{"Relr", "gcc -s -fuse-ld=lld -shared -fPIC caller.c $RT -o out -Wl,--pack-dyn-relocs=relr"},
        Link{"AmongManyPointers", "gcc -shared -fPIC many.c caller.c $RT -o out"},
        Link{"PartialLink", "gcc -c -fPIC caller.c && ld -r caller.o '" CUDEPLOY_CUDART_STATIC "' -o out"}),
    [](const auto& info) { return info.param.name; });

TEST_F(RuntimeCopies, AreFoundWithoutSectionHeaders) {
  link("gcc -s -shared -fPIC caller.c $RT -o lib.so");
  std::string bytes = content("lib.so");
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes.resize(header.e_shoff);
  header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
  std::memcpy(bytes.data(), &header, sizeof header);
  write("bare.so", bytes);
  FileRecord record = read("bare.so");
  ASSERT_EQ(record.runtime_copies.size(), 1u);
  EXPECT_EQ(record.runtime_copies[0].api_level, read("lib.so").runtime_copies.at(0).api_level);
  EXPECT_EQ(problems_of(record), "");
}

TEST_F(RuntimeCopies, AreCountedNotMerged) {
  // Two objects, each with a copy of its own, in one library: one set of strings, two tables.
  for (const char* name : {"one", "two"}) {
    const std::string n = name;
    write(n + ".c",
          "extern int cudaRuntimeGetVersion(int *); int " + n + "(int *v) { return cudaRuntimeGetVersion(v); }");
    run("gcc -c -fPIC " + n + ".c && ld -r --force-group-allocation " + n + ".o '" CUDEPLOY_CUDART_STATIC "' -o " + n +
        "-all.o && objcopy --localize-hidden " + n + "-all.o");
  }
  for (const char* linker : {"bfd", "lld"}) {
    run("gcc -s -shared -fuse-ld=" + std::string(linker) + " one-all.o two-all.o -o both.so -ldl -lpthread -lrt");
    FileRecord record = read("both.so");
    ASSERT_EQ(record.runtime_copies.size(), 2u) << linker;
    EXPECT_EQ(record.runtime_copies[0].api_level, record.runtime_copies[1].api_level) << linker;
    EXPECT_EQ(problems_of(record), "") << linker;
  }
}

TEST_F(RuntimeCopies, OfTheArchiveItselfAreItsMembers) {
  std::filesystem::copy(CUDEPLOY_CUDART_STATIC, path("libcudart_static.a"));
  auto records = read_all("libcudart_static.a");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].path, "libcudart_static.a!/cudart_static.o");
  EXPECT_EQ(records[0].type, "relocatable");
  ASSERT_EQ(records[0].runtime_copies.size(), 1u);
  EXPECT_EQ(records[0].runtime_copies[0].kind, RuntimeCopyKind::private_static);
}

TEST_F(RuntimeCopies, ThatContradictTheirIdsAreAProblem) {
  link("gcc -s -shared -fPIC caller.c $RT -o lib.so");
  std::string bytes = content("lib.so");
  const std::string id("\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9", 16);
  std::size_t at = bytes.find(id);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 0;
  write("lib.so", bytes);
  FileRecord record = read("lib.so");
  EXPECT_EQ(record.runtime_copies.size(), 1u);
  EXPECT_NE(problems_of(record).find("CUDA runtime: expected 1 of id 6b"), std::string::npos) << problems_of(record);
}

TEST_F(RuntimeCopies, WithOurNoteAreUnified) {
  write("note.s", R"(
    .section .note.cudeploy, "a", @note
    .balign 4
    .long 9, 16, 1
    .asciz "cudeploy"
    .balign 4
    .long 1, 13
    .quad 0
    .section .note.GNU-stack, "", @progbits
)");
  link("gcc -s -shared -fPIC caller.c note.s $RT -o lib.so");
  FileRecord record = read("lib.so");
  ASSERT_EQ(record.runtime_copies.size(), 1u);
  EXPECT_EQ(record.runtime_copies[0].kind, RuntimeCopyKind::unified);
  EXPECT_EQ(record.runtime_copies[0].generation, "13_1");
  EXPECT_TRUE(record.runtime_copies[0].api_level);

  // An object with the note is not linked yet: the runtime's archive is a file of its own.
  run("gcc -c note.s -o note.o");
  EXPECT_TRUE(read("note.o").runtime_copies.empty());
}

class Clues : public Fixture {};

TEST_F(Clues, OfADecoyAreNoCopy) {
  run("gcc -O1 '" CUDEPLOY_SAMPLES "/src/decoy.c' -o decoy && gcc -O1 -no-pie '" CUDEPLOY_SAMPLES
      "/src/decoy.c' -o fixed");
  for (const char* name : {"decoy", "fixed"}) {
    FileRecord record = read(name);
    EXPECT_TRUE(record.runtime_copies.empty()) << name;
    EXPECT_TRUE(record.fat_binaries.empty()) << name;
    EXPECT_EQ(problems_of(record), "") << name;
  }
}

TEST_F(Clues, OfASharedRuntimeAreItsNeed) {
  write("empty.c", "int cudaRuntimeGetVersion(int *v) { return *v; }");
  write("caller.c", kCaller);
  for (const char* soname :
       {"libcudart.so.13", "libcudart.so.11.0", "libcudart-1f2e3d4c.so.12.4.127", "libcudart.so.10.2"}) {
    const std::string name = soname;
    run("gcc -shared -fPIC empty.c -o rt.so -Wl,-soname," + name + " && gcc -shared -fPIC caller.c rt.so -o lib.so");
    FileRecord record = read("lib.so");
    ASSERT_EQ(record.runtime_copies.size(), 1u) << name;
    EXPECT_EQ(record.runtime_copies[0].kind, RuntimeCopyKind::needs_shared);
    EXPECT_EQ(record.runtime_copies[0].evidence, "NEEDED " + name);
    // Up to 10 the soname is the release; later ones say the major only.
    EXPECT_EQ(record.runtime_copies[0].version.value_or("unknown"), name == "libcudart.so.10.2" ? "10.2" : "unknown");
  }
  for (const char* other : {"libcudart_static.so.1", "libcudartx.so", "libmycudart.so.13"}) {
    run("gcc -shared -fPIC empty.c -o rt.so -Wl,-soname," + std::string(other) +
        " && gcc -shared -fPIC caller.c rt.so -o lib.so");
    EXPECT_TRUE(read("lib.so").runtime_copies.empty()) << other;
  }
}

TEST_F(Clues, OfABorrowedNameAreAStandIn) {
  write("empty.c", "int cudaRuntimeGetVersion(int *v) { return *v; }");
  run("gcc -shared -fPIC empty.c -o libcudart.so.12 -Wl,-soname,libcudart.so.12");
  FileRecord record = read("libcudart.so.12");
  ASSERT_EQ(record.runtime_copies.size(), 1u);
  EXPECT_EQ(record.runtime_copies[0].kind, RuntimeCopyKind::stand_in);
  EXPECT_FALSE(record.runtime_copies[0].version);
  EXPECT_FALSE(record.vendor);

  run("gcc -shared -fPIC empty.c -o libcudart.so.11.0");  // the loader goes by the file's name too
  record = read("libcudart.so.11.0");
  ASSERT_EQ(record.runtime_copies.size(), 1u);
  EXPECT_EQ(record.runtime_copies[0].kind, RuntimeCopyKind::stand_in);
}

TEST(LevelOfRuntime, NamesReleasesWhereDataTellsThem) {
  EXPECT_EQ(releases_of_level(13000).releases, std::vector<std::string>{"13.0"});
  EXPECT_EQ(releases_of_level(12080).releases, (std::vector<std::string>{"12.8", "12.9"}));
  EXPECT_FALSE(releases_of_level(12080).open_ended);
  EXPECT_TRUE(releases_of_level(13010).open_ended);
  EXPECT_TRUE(releases_of_level(14000).releases.empty());
}

}  // namespace
}  // namespace cudeploy
