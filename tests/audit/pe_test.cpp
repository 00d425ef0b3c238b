// Windows programs, made here by clang and lld as its own linker would: what they need, what they hold, and what is
// left of the reader when the tables lie.
#include "pe.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "fixture.hpp"

namespace cudeploy {
namespace {

class Pe : public Fixture {
 protected:
  /// Compiles C for Windows: x.c -> x.obj.
  void compile(const std::string& name, const std::string& source, const std::string& machine = "x86_64") const {
    write(name + ".c", source);
    run("clang --target=" + machine + "-pc-windows-msvc -O1 -c " + name + ".c -o " + name + ".obj");
  }

  void assemble(const std::string& name, const std::string& source) const {
    write(name + ".s", source);
    run("clang --target=x86_64-pc-windows-msvc -c " + name + ".s -o " + name + ".obj");
  }

  void link(const std::string& arguments) const {
    run("lld-link /nologo /nodefaultlib " + std::string(arguments.starts_with("/dll") ? "/noentry " : "") + arguments);
  }

  /// A DLL of one function that is called like itself.
  void make_dll(const std::string& name) const {
    compile(name, "__declspec(dllexport) int " + name + "(void) { return 1; }");
    link("/dll " + name + ".obj /out:" + name + ".dll");
  }

  /// main.dll needs dep.dll, late.dll at its first call, and holds a fat binary.
  void make_main() const {
    make_dll("dep");
    make_dll("late");
    compile("main", R"(
      __declspec(dllimport) int dep(void);
      __declspec(dllimport) int late(void);
      void *__delayLoadHelper2(void *descriptor, void *slot) { return slot; }
      __declspec(dllexport) int both(void) { return dep() + late(); }
    )");
    std::filesystem::copy(CUDEPLOY_SAMPLES "/add_sm90_none.fatbin", path("add.fatbin"));
    assemble("fat", R"(
      .section .nv_fatb,"dr"
      .p2align 4
      .incbin "add.fatbin"
      .section .nvFatBi,"dr"
      .p2align 3
      .long 0x466243b1, 1
      .quad 0, 0
    )");
    link("/dll main.obj fat.obj dep.lib late.lib /delayload:late.dll /out:main.dll");
  }
};

using Names = std::vector<std::string>;

TEST_F(Pe, SaysWhatItIsAndNeeds) {
  make_main();
  FileRecord record = read("main.dll");
  EXPECT_EQ(record.format, Format::pe);
  EXPECT_EQ(record.machine, "x86_64");
  EXPECT_EQ(record.type, "shared");
  EXPECT_EQ(record.soname, "main.dll");
  EXPECT_EQ(record.needed, (Names{"dep.dll", "late.dll"}));
  EXPECT_EQ(record.delayed, Names{"late.dll"});
  EXPECT_EQ(problems_of(record), "");
  // A judge that is not ours.
  std::string imports = run("llvm-readobj --coff-imports main.dll | sed -n 's/^  Name: //p' | tr '\\n' ' '");
  EXPECT_EQ(imports, "dep.dll late.dll ");
  EXPECT_EQ(read("dep.dll").needed, Names{});

  link("main.obj fat.obj dep.lib late.lib /delayload:late.dll /entry:both /subsystem:console /out:main.exe");
  EXPECT_EQ(read("main.exe").type, "executable");
}

TEST_F(Pe, NeedsALibraryOnceHoweverItIsSpelt) {
  make_main();
  std::string bytes = content("main.dll");
  // The loader's own table comes before the delayed one, so dep.dll is there when late.dll would be loaded.
  for (std::size_t at = bytes.find("late.dll"); at != std::string::npos; at = bytes.find("late.dll", at))
    bytes.replace(at, 9, std::string("DEP.dll\0\0", 9));
  write("twice.dll", bytes);
  FileRecord record = read("twice.dll");
  EXPECT_EQ(record.needed, Names{"dep.dll"});
  EXPECT_EQ(record.delayed, Names{});
}

TEST_F(Pe, MayHaveASectionThatIsNotInTheFile) {
  make_main();
  std::string bytes = content("main.dll");
  const std::size_t at = bytes.find(".data\0\0\0", 0, 8);
  ASSERT_NE(at, std::string::npos);
  const std::uint32_t honest[] = {1 << 20, 0};  // SizeOfRawData as some linkers fill it in, PointerToRawData
  std::memcpy(bytes.data() + at + 16, honest, sizeof honest);
  write("bss.dll", bytes);
  FileRecord record = read("bss.dll");
  EXPECT_EQ(problems_of(record), "");
  EXPECT_EQ(record.needed, (Names{"dep.dll", "late.dll"}));
}

TEST_F(Pe, WithDebugInformationAloneHasNoTables) {
  // All headers and directories of the program, and no content: one objcopy says so by the offset, the other by the
  // size.
  make_main();
  for (const std::string objcopy : {"objcopy", "llvm-objcopy"}) {
    if (objcopy == "objcopy" && run("objcopy --info").find("pei-x86-64") == std::string::npos) continue;
    run(objcopy + " --only-keep-debug main.dll main.debug");
    const FileRecord record = read("main.debug");
    EXPECT_EQ(record.format, Format::pe);
    EXPECT_EQ(problems_of(record), "") << objcopy;
    EXPECT_TRUE(record.needed.empty());
  }
}

TEST_F(Pe, HasTablesWhateverOtherSectionsClaim) {
  make_main();
  const std::string bytes = content("main.dll");
  const std::size_t text = bytes.find(".text\0\0\0", 0, 8), rdata = bytes.find(".rdata\0\0", 0, 8);
  ASSERT_NE(text, std::string::npos);
  ASSERT_NE(rdata, std::string::npos);
  constexpr std::size_t virtual_size = 8, raw_size = 16, header = 40;
  const auto put = [](std::string& where, std::size_t at, std::uint32_t value) {
    std::memcpy(where.data() + at, &value, sizeof value);
  };

  std::string wide = bytes;  // over the section that holds them
  put(wide, text + virtual_size, 1 << 20);
  write("wide.dll", wide);
  EXPECT_EQ(read("wide.dll").needed, (Names{"dep.dll", "late.dll"}));

  std::string more = bytes;  // one without content that lies over all others, and comes first
  const std::size_t signature = more.find("PE\0\0", 0, 4);
  std::uint16_t count = 0;
  std::memcpy(&count, more.data() + signature + 6, sizeof count);
  std::memmove(more.data() + text + header, bytes.data() + text, count * header);
  ++count;
  std::memcpy(more.data() + signature + 6, &count, sizeof count);
  put(more, text + virtual_size, 1 << 20);
  put(more, text + raw_size, 0);
  put(more, text + raw_size + 4, 0);
  write("more.dll", more);
  EXPECT_EQ(read("more.dll").needed, (Names{"dep.dll", "late.dll"}));

  std::string cut = bytes;  // the file has a part of it, and the tables lie behind that
  put(cut, rdata + raw_size, 16);
  write("cut.dll", cut);
  EXPECT_NE(problems_of(read("cut.dll")), "");
}

TEST_F(Pe, IsTheSameUnderOtherMachinesAndWidths) {
  for (auto [target, flag, machine] : {std::tuple("aarch64", "arm64", "aarch64"), std::tuple("i686", "x86", "x86")}) {
    compile("other", "__declspec(dllexport) int __cdecl other(void) { return 1; }", target);
    link("/dll /machine:" + std::string(flag) + " /safeseh:no other.obj /out:other.dll");
    compile("user", "__declspec(dllimport) int other(void); __declspec(dllexport) int user(void) { return other(); }",
            target);
    link("/dll /machine:" + std::string(flag) + " /safeseh:no user.obj other.lib /out:user.dll");
    FileRecord record = read("user.dll");
    EXPECT_EQ(record.machine, machine);
    EXPECT_EQ(record.needed, Names{"other.dll"}) << machine;
    EXPECT_EQ(problems_of(record), "") << machine;
  }
}

TEST_F(Pe, HoldsDeviceCodeWhereverItLies) {
  make_main();
  FileRecord record = read("main.dll");
  ASSERT_EQ(record.fat_binaries.size(), 1u);
  EXPECT_EQ(record.fat_binaries[0].section, ".nv_fatb");
  EXPECT_TRUE(record.fat_binaries[0].loadable);
  EXPECT_EQ(record.fat_binaries[0].images.size(), 2u);
  EXPECT_EQ(content("main.dll").substr(record.fat_binaries[0].offset, record.fat_binaries[0].size),
            content("add.fatbin"));
  for (auto [section, loadable] :
       {std::pair(R"(__nv_rel,"dr")", false), {R"(.rdata,"dr")", true}, {R"(.data,"dw")", true}}) {
    assemble("fat", ".section " + std::string(section) + "\n.p2align 4\n.incbin \"add.fatbin\"\n");
    link("/dll fat.obj /out:other.dll");
    record = read("other.dll");
    ASSERT_EQ(record.fat_binaries.size(), 1u) << section;
    EXPECT_EQ(record.fat_binaries[0].loadable, loadable) << section;
    EXPECT_EQ(record.fat_binaries[0].images.size(), 2u) << section;
  }
  // What another linker gave a long name is found by it.
  assemble("fat", ".section .nv_fatbin,\"dr\"\n.p2align 4\n.incbin \"add.fatbin\"\n");
  link("/dll fat.obj /out:long.dll /debug:dwarf /lldmingw");
  EXPECT_EQ(read("long.dll").fat_binaries.at(0).section,
            run("llvm-readobj --sections long.dll | sed -n 's/.*Name: \\(.nv_fat[a-z]*\\).*/\\1/p' | tr -d '\\n'"));
}

TEST_F(Pe, KeepsItsConstantsAlsoAmongItsCode) {
  make_main();
  assemble("fat", ".section .rdata,\"dr\"\n.p2align 4\n.incbin \"add.fatbin\"\n");
  link("/dll main.obj fat.obj dep.lib late.lib /delayload:late.dll /merge:.rdata=.text /out:merged.dll");
  FileRecord record = read("merged.dll");
  EXPECT_EQ(record.needed, (Names{"dep.dll", "late.dll"}));
  ASSERT_EQ(record.fat_binaries.size(), 1u);
  EXPECT_EQ(record.fat_binaries[0].section, ".text");
}

/// The runtime as data shows it: ids and a callback table of as many records as count.
std::string runtime_source(int newest) {
  std::string source = "static const struct { const char *name; void *zero; unsigned version, padding; } table[] = {\n";
  source += "{\"cudaDriverGetVersion\", 0, 3020, 0}, {\"cudaRuntimeGetVersion\", 0, 3020, 0},\n";
  for (int i = 0; i < 120; ++i)
    source += "{\"cudaNumber" + std::to_string(i) + "\", 0, " + std::to_string(i == 100 ? newest : 3020) + ", 0},\n";
  source += R"(};
    static const unsigned char ids[] =
      "\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9"
      "\x10\xcd\xde\x21\xb3\xaa\x31\x4c\xb4\xe3\xd5\xb5\x87\xcd\x36\x79"
      "\xff\x55\x30\xa2\x83\xde\x5b\x45\xa4\x4d\x92\x76\xca\xef\xbb\xbd";
    __declspec(dllexport) const void *part(int i) { return i ? (const void *)&table[i] : (const void *)&ids[0]; }
  )";
  return source;
}

TEST_F(Pe, BringsAPrivateRuntime) {
  compile("runtime", runtime_source(12040));
  link("/dll runtime.obj /out:mine.dll");
  FileRecord record = read("mine.dll");
  ASSERT_EQ(record.runtime_copies.size(), 1u) << problems_of(record);
  EXPECT_EQ(record.runtime_copies[0].kind, RuntimeCopyKind::private_static);
  EXPECT_EQ(record.runtime_copies[0].version, "12.4");
  EXPECT_EQ(problems_of(record), "");
}

TEST_F(Pe, IsOrNeedsTheSharedRuntime) {
  compile("runtime", runtime_source(12040) + "__declspec(dllexport) int cudaRuntimeGetVersion(int *v) { return *v; }");
  for (const char* name : {"cudart64_12.dll", "cudart64_110.dll", "cudart64_101.dll", "CUDART64_12.DLL"}) {
    link("/dll runtime.obj /implib:runtime.lib /out:" + std::string(name));
    ASSERT_EQ(read(name).runtime_copies.size(), 1u) << name;
    EXPECT_EQ(read(name).runtime_copies[0].kind, RuntimeCopyKind::shared_library) << name;
    compile("user",
            "int cudaRuntimeGetVersion(int *); __declspec(dllexport) int user(int *v) { return "
            "cudaRuntimeGetVersion(v); }");
    link("/dll user.obj runtime.lib /out:user.dll");
    FileRecord user = read("user.dll");
    ASSERT_EQ(user.runtime_copies.size(), 1u) << name;
    EXPECT_EQ(user.runtime_copies[0].kind, RuntimeCopyKind::needs_shared) << name;
    EXPECT_EQ(user.runtime_copies[0].version.value_or("?"), std::string(name) == "cudart64_101.dll" ? "10.1" : "?");
  }
  // Renamed by a wheel tool, it still calls itself by its name.
  std::filesystem::rename(path("cudart64_12.dll"), path("x-0123456789abcdef.dll"));
  EXPECT_EQ(read("x-0123456789abcdef.dll").runtime_copies.at(0).kind, RuntimeCopyKind::shared_library);
  make_dll("cudart64_12");
  EXPECT_EQ(read("cudart64_12.dll").runtime_copies.at(0).kind, RuntimeCopyKind::stand_in);
}

TEST_F(Pe, HandsOnToTheRuntimeOfTheDriver) {
  const std::string id = R"("\xdd\x9e\x98\xa4\xf4\x10\x48\x44\x99\xb0\xe2\xae\xb7\xb4\x32\xb5")";
  auto source = [](const std::string& text, const std::string& name) {
    return "__declspec(dllexport) const char *loader(int i) { return i ? " + text + " : \"" + name + "\"; }";
  };
  for (const char* name : {"nvcudart_hybrid64.dll", "nvcudart_hybrida64.dll"}) {
    compile("loader", source(id, name));
    link("/dll loader.obj /out:loader.dll");
    FileRecord record = read("loader.dll");
    ASSERT_EQ(record.runtime_copies.size(), 1u) << name;
    EXPECT_EQ(record.runtime_copies[0].kind, RuntimeCopyKind::driver_hybrid);
    EXPECT_NE(record.runtime_copies[0].evidence.find(name), std::string::npos);
  }
  compile("loader", source("\"no id\"", "nvcudart_hybrid64.dll"));
  link("/dll loader.obj /out:loader.dll");
  EXPECT_EQ(read("loader.dll").runtime_copies.size(), 0u) << "a name alone proves nothing";
}

TEST_F(Pe, OfNvidiaIsToldByNameAndExport) {
  compile("blas", "__declspec(dllexport) int cublasCreate_v2(void) { return 0; }");
  link("/dll blas.obj /out:cublas64_12.dll");
  ASSERT_TRUE(read("cublas64_12.dll").vendor);
  EXPECT_EQ(read("cublas64_12.dll").vendor->name, "cuBLAS");
  link("/dll blas.obj /out:mine.dll");
  EXPECT_FALSE(read("mine.dll").vendor);
  make_dll("cublas64_13");
  EXPECT_FALSE(read("cublas64_13.dll").vendor);
}

TEST_F(Pe, IsToldFromWhatOnlyBeginsLikeIt) {
  for (const std::string& text : {std::string("MZ"), std::string("MZ") + std::string(100, '\0'),
                                  std::string("MZ") + std::string(58, 'x') + "\xff\xff\xff\xff"}) {
    write("file", text);
    EXPECT_EQ(read("file").format, Format::other);
  }
  write("file", "MZ" + std::string(58, '\0') + std::string("\x40\0\0\0PE\0\0", 8));
  FileRecord record = read("file");
  EXPECT_EQ(record.format, Format::pe);
  EXPECT_NE(problems_of(record).find("PE header: the file ends inside it"), std::string::npos);
}

TEST_F(Pe, CutAnywhereTellsWhatIsMissing) {
  make_main();
  const std::string whole = content("main.dll");
  for (std::size_t length = 0; length < whole.size(); length += length < 1024 ? 1 : 61) {
    const std::string part = whole.substr(0, length);
    const MemoryBytes bytes(std::as_bytes(std::span(part)));
    const auto records = read_binary("cut", bytes, {});
    ASSERT_EQ(records.size(), 1u);
    if (records[0].format == Format::pe)
      EXPECT_FALSE(records[0].problems.empty()) << length;
    else
      EXPECT_LT(length, 0x100u);
  }
}

/// main.dll with one value written over.
class LyingPe : public Pe {
 protected:
  void SetUp() override {
    make_main();
    bytes_ = content("main.dll");
    header_ = number(0x3c) + 4;
  }
  std::uint32_t number(std::size_t at) const {
    std::uint32_t value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  void put(std::size_t at, std::uint32_t value, std::size_t size = 4) { std::memcpy(bytes_.data() + at, &value, size); }
  std::size_t directory(std::size_t index) const { return header_ + 20 + 112 + 8 * index; }
  /// Where in the file an address is, by the section headers.
  std::size_t place(std::uint32_t address) const {
    for (std::size_t section = header_ + 20 + 240;; section += 40)
      if (address - number(section + 12) < number(section + 16))
        return number(section + 20) + (address - number(section + 12));
  }
  FileRecord read_it() const {
    write("lies.dll", bytes_);
    FileRecord record = read("lies.dll");
    EXPECT_EQ(record.format, Format::pe);
    return record;
  }

  std::string bytes_;
  std::size_t header_ = 0;
};

TEST_F(LyingPe, AboutItsSections) {
  put(header_ + 2, 0xffff, 2);
  EXPECT_NE(problems_of(read_it()).find("PE NumberOfSections: expected at most"), std::string::npos);
}

TEST_F(LyingPe, AboutWhereASectionLies) {
  put(header_ + 20 + 240 + 20, 0xfffffff0);
  EXPECT_NE(problems_of(read_it()).find("PE section 0 '.text': expected"), std::string::npos);
}

TEST_F(LyingPe, AboutItsHeaders) {
  put(header_ + 16, 100, 2);
  EXPECT_NE(problems_of(read_it()).find("PE SizeOfOptionalHeader"), std::string::npos);
  put(header_ + 20, 0x107, 2);
  EXPECT_NE(problems_of(read_it()).find("PE optional header magic"), std::string::npos);
}

TEST_F(LyingPe, AboutItsTables) {
  for (std::size_t index : {0, 1, 13}) {
    const std::uint32_t honest = number(directory(index));
    ASSERT_NE(honest, 0u);
    put(directory(index), 0x70000000);
    EXPECT_EQ(read_it().problems.size(), 1u) << index;
    put(directory(index), honest);
  }
}

TEST_F(LyingPe, AboutATableThatIsCutOff) {
  // Where the file ends too early, what is missing is no zeros.
  bytes_.resize(place(number(directory(1))));
  const std::string problems = problems_of(read_it());
  EXPECT_NE(problems.find("PE section 1 '.rdata': expected"), std::string::npos) << problems;
  EXPECT_NE(problems.find("PE import table: expected an end"), std::string::npos) << problems;
}

TEST_F(LyingPe, AboutANameThatIsNowhere) {
  put(place(number(directory(1))) + 12, 0x7fffffff);
  EXPECT_NE(problems_of(read_it()).find("expected the address of a name, found 0x7fffffff"), std::string::npos);
}

TEST_F(LyingPe, NotAboutAnEndThatIsInMemoryOnly) {
  const std::string one = bytes_.substr(place(number(directory(1))), 20);
  const std::size_t section = header_ + 20 + 240 + 40;  // .rdata grows up to one descriptor behind the file's end
  const auto table = static_cast<std::uint32_t>(bytes_.size());
  bytes_ += one;
  const std::uint32_t size = table + 20 - number(section + 20);
  put(section + 8, size);
  put(section + 16, size);
  put(directory(1), number(section + 12) + table - number(section + 20));
  EXPECT_NE(problems_of(read_it()).find("PE import table: expected an end"), std::string::npos);
  put(section + 8, size + 20);
  EXPECT_EQ(problems_of(read_it()), "");
  EXPECT_EQ(read_it().needed, (Names{"dep.dll", "late.dll"}));
}

TEST_F(LyingPe, AboutHowMuchItNeeds) {
  // One descriptor over and over, up to the end of what could be a billion: each points to the same name.
  const std::string one = bytes_.substr(place(number(directory(1))), 20);
  const std::size_t section = header_ + 20 + 240 + 40;  // .rdata grows to the end of a larger file
  const std::size_t table = bytes_.size();
  for (int i = 0; i < 100000; ++i) bytes_ += one;
  put(section + 8, 0x7fffffff);
  put(section + 16, 0x7fffffff);
  put(directory(1), number(section + 12) + static_cast<std::uint32_t>(table - number(section + 20)));
  put(directory(1) + 4, 0xffffffff);
  FileRecord record = read_it();
  EXPECT_NE(problems_of(record).find("PE import table: expected at most"), std::string::npos) << problems_of(record);
  EXPECT_EQ(record.needed, (Names{"dep.dll", "late.dll"}));
}

TEST_F(LyingPe, AnyhowIsReadToAnEnd) {
  std::mt19937 random(1);
  const std::string honest = bytes_;
  for (int round = 0; round < 3000; ++round) {
    bytes_ = honest;
    for (int i = 0; i < 4; ++i) {
      // Headers and tables are hit more often than the rest.
      std::size_t end = random() % 2 ? 0x400 : bytes_.size();
      bytes_[random() % end] = static_cast<char>(random());
    }
    const MemoryBytes bytes(std::as_bytes(std::span(bytes_)));
    ReadOptions options;
    options.for_audit = options.payloads = true;
    const auto records = read_binary("mutated", bytes, options);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_LE(records[0].problems.size(), 64u) << round;
    EXPECT_LE(records[0].needed.size(), 2048u) << round;
  }
}

}  // namespace
}  // namespace cudeploy
