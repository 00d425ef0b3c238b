// Mixes of shared objects that must end in one CUDA runtime. Each runs in processes of its own; the probe is a
// launch configuration that one object pushes and another one pops, which needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "workshop.hpp"

namespace cudeploy::test {
namespace {

/// Plain copies answer the pop with 52, cudaErrorMissingConfiguration.
constexpr const char* missing = "-52\n";

TEST(OneState, PlainCopiesDoNotShare) {
  Workshop shop;
  shop.plugin("a", nullptr);
  shop.plugin("b", nullptr);
  shop.host();
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop a.pop").out, std::string("0\n") + missing + "7\n");
}

TEST(OneState, TwoLocalPlugins) {
  Workshop shop;
  shop.plugin("a", &kit());
  shop.plugin("b", &kit());
  shop.host();
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop b.push 8 a.pop a.pop").out, std::string("0\n7\n0\n8\n") + missing);
  EXPECT_EQ(shop.tell("open-global a open-global b a.push 7 b.pop").out, "0\n7\n");
  // The second one comes after the first one was used.
  EXPECT_EQ(shop.tell("open a a.push 7 open b b.pop a.server b.server").out, "0\n7\na.so\na.so\n");
}

TEST(OneState, ProgramAndPlugin) {
  Workshop shop;
  shop.plugin("a", &kit());
  shop.host(&kit());
  EXPECT_EQ(shop.tell("self.push 5 open a a.pop a.push 6 self.pop").out, "0\n5\n0\n6\n");
  EXPECT_EQ(shop.tell("open a a.push 5 self.pop").out, "0\n5\n");
}

TEST(OneState, UnifyCanBeTurnedOff) {
  Workshop shop;
  shop.plugin("a", &kit());
  shop.plugin("b", &kit());
  shop.host();
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop a.pop", {"CUDEPLOY_UNIFY=0"}).out,
            std::string("0\n") + missing + "7\n");
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop", {"CUDEPLOY_UNIFY=1"}).out, "0\n7\n");
}

// Ways to link a plugin that hide, drop, move or bind symbols.
struct Way {
  const char* name;
  const char* compiler;
  Words compile, link;
  bool hidden_anchor = false;
  const char* needs = "";  ///< program that may be missing
  const char* shows = "";  ///< what readelf finds in the dynamic section then
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class LinkedInto : public ::testing::TestWithParam<Way> {};

TEST_P(LinkedInto, OneState) {
  const Way& way = GetParam();
  if (*way.needs && !has_program(way.needs)) GTEST_SKIP() << way.needs << " is not installed";
  Workshop shop;
  Words link = way.link;
  std::ofstream(shop.path("local.map")) << "{ global: probe_*; local: *; };\n";
  for (auto& word : link) {
    if (word == "MAP") word = "-Wl,--version-script=" + shop.path("local.map");
  }
  const Kit& runtime = kit({.hidden_anchor = way.hidden_anchor});
  shop.plugin("a", &runtime, way.compile, link, way.compiler);
  shop.plugin("b", &runtime, way.compile, link, way.compiler);
  shop.host();
  // Two probes: what one pushes the other one pops, and both are served by one copy.
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop a.server b.server").out, "0\n7\nb.so\nb.so\n");
  // A linker may pass over an option that it does not know.
  if (*way.shows) {
    EXPECT_NE(must({"readelf", "-dW", shop.path("a.so")}).find(way.shows), std::string::npos) << way.shows;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, LinkedInto,
    ::testing::Values(
        Way{"gnu_ld", "gcc", {}, {"-fuse-ld=bfd"}}, Way{"gold", "gcc", {}, {"-fuse-ld=gold"}, false, "ld.gold"},
        Way{"lld", "gcc", {}, {"-fuse-ld=lld"}, false, "ld.lld"},
        Way{"mold", "gcc", {}, {"-fuse-ld=mold"}, false, "mold"}, Way{"clang", "clang", {}, {}, false, "clang"},
        Way{"gcc_lto", "gcc", {"-flto"}, {"-flto", "-O2"}},
        Way{"thin_lto", "clang", {"-flto=thin"}, {"-flto=thin", "-fuse-ld=lld"}, false, "ld.lld"},
        Way{"hidden_visibility", "gcc", {"-fvisibility=hidden"}, {}},
        Way{"exclude_libs", "gcc", {}, {"-Wl,--exclude-libs,ALL"}},
        Way{"version_script_gnu_ld", "gcc", {}, {"MAP"}, true},
        Way{"version_script_gold", "gcc", {}, {"MAP", "-fuse-ld=gold"}, false, "ld.gold"},
        Way{"version_script_lld", "gcc", {}, {"MAP", "-fuse-ld=lld"}, false, "ld.lld"},
        Way{"version_script_mold", "gcc", {}, {"MAP", "-fuse-ld=mold"}, true, "mold"},
        Way{"symbolic", "gcc", {}, {"-Wl,-Bsymbolic"}},
        Way{"bind_now", "gcc", {}, {"-Wl,-z,now"}, false, "", "BIND_NOW"},
        Way{"relr", "gcc", {}, {"-Wl,-z,pack-relative-relocs"}, false, "", "(RELR)"},
        Way{"gc_sections", "gcc", {"-ffunction-sections"}, {"-Wl,--gc-sections"}},
        Way{"gc_sections_gold",
            "gcc",
            {"-ffunction-sections"},
            {"-Wl,--gc-sections", "-fuse-ld=gold"},
            false,
            "ld.gold"},
        Way{"gc_sections_lld", "gcc", {"-ffunction-sections"}, {"-Wl,--gc-sections", "-fuse-ld=lld"}, false, "ld.lld"},
        Way{"gc_sections_mold", "gcc", {"-ffunction-sections"}, {"-Wl,--gc-sections", "-fuse-ld=mold"}, false, "mold"},
        Way{"icf_lld", "gcc", {"-ffunction-sections"}, {"-Wl,--icf=all", "-fuse-ld=lld"}, false, "ld.lld"},
        Way{"stripped", "gcc", {}, {"-s"}}, Way{"static_libstdcxx", "g++", {}, {"-static-libstdc++", "-static-libgcc"}},
        Way{"no_relro", "gcc", {}, {"-Wl,-z,norelro"}},
        Way{"all_at_once",
            "gcc",
            {"-flto", "-fvisibility=hidden"},
            {"-flto", "-O2", "MAP", "-Wl,--gc-sections", "-Wl,-Bsymbolic", "-Wl,-z,now", "-Wl,--exclude-libs,ALL",
             "-s"},
            true}),
    [](const auto& info) { return std::string(info.param.name); });

// How the program itself is linked.
class ProgramLinkedInto : public ::testing::TestWithParam<Way> {};

TEST_P(ProgramLinkedInto, OneStateWithAPlugin) {
  const Way& way = GetParam();
  if (*way.needs && !has_program(way.needs)) GTEST_SKIP() << way.needs << " is not installed";
  Workshop shop;
  shop.plugin("a", &kit());
  shop.host(&kit(), way.compile, way.link, way.compiler);
  EXPECT_EQ(shop.tell("self.push 5 open a a.pop a.push 6 self.pop self.server a.server").out,
            "0\n5\n0\n6\nhost\nhost\n");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ProgramLinkedInto,
    ::testing::Values(Way{"pie", "gcc", {"-fPIE"}, {"-pie"}}, Way{"no_pie", "gcc", {"-fno-pie"}, {"-no-pie"}},
                      Way{"no_pie_lld", "gcc", {"-fno-pie"}, {"-no-pie", "-fuse-ld=lld"}, false, "ld.lld"},
                      Way{"gold", "gcc", {}, {"-fuse-ld=gold"}, false, "ld.gold"},
                      Way{"mold", "gcc", {}, {"-fuse-ld=mold"}, false, "mold"},
                      Way{"stripped_gc", "gcc", {"-ffunction-sections"}, {"-Wl,--gc-sections", "-s"}},
                      Way{"export_dynamic", "gcc", {}, {"-rdynamic"}},
                      Way{"gcc_lto", "gcc", {"-flto"}, {"-flto", "-O2"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Anchor, IsShownUnderItsGenerationWhenExported) {
  Workshop shop;
  shop.plugin("a", &kit());
  shop.host(&kit());
  const std::string expected = "cudeploy_anchor@@CUDEPLOY_" + std::to_string(kit().cuda_major) + "_1";
  EXPECT_NE(must({"nm", "-D", "--with-symbol-versions", shop.path("a.so")}).find(expected), std::string::npos);
  EXPECT_NE(must({"nm", "-D", shop.path("host")}).find("cudeploy_anchor"), std::string::npos);
}

TEST(Anchor, NothingElseIsVisibleFromOutside) {
  Workshop shop;
  const auto exported = [&](const std::string& name) {
    return must({"nm", "-D", "--defined-only", "--format=posix", shop.path(name)});
  };
  const auto names = [](const std::string& text) {
    Words found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) found.push_back(line.substr(0, line.find(' ')));
    std::sort(found.begin(), found.end());
    return found;
  };
  const Kit& hidden = kit({.hidden_anchor = true});
  shop.plugin("plain", nullptr);
  shop.plugin("hidden", &hidden);
  shop.plugin("shown", &kit());
  EXPECT_EQ(names(exported("plain.so")), names(exported("hidden.so")));
  Words with_anchor = names(exported("plain.so"));
  const std::string node = "CUDEPLOY_" + std::to_string(kit().cuda_major) + "_1";
  with_anchor.insert(with_anchor.end(), {node, "cudeploy_anchor@@" + node});
  std::sort(with_anchor.begin(), with_anchor.end());
  EXPECT_EQ(names(exported("shown.so")), with_anchor);
}

TEST(Loading, UnloadedAndLoadedAThousandTimes) {
  Workshop shop;
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit());
  shop.host();
  // b joins a; it can go, a cannot.
  EXPECT_EQ(shop.tell("open a a.push 3 again 1000 open b b.pop b.push 3 close b end gone b a.pop close a gone a").out,
            "0\n3\n0\n1\n3\n0\n");
  // The serving one is closed and opened again: it was never gone, and its state lives on.
  EXPECT_EQ(shop.tell("open a again 1000 a.push 3 close a open b b.pop close b open a end gone b a.server").out,
            "0\n3\n1\na.so\n");
}

TEST(Loading, ACopyThatWasNeverUsedCanBeUnloaded) {
  Workshop shop;
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit());
  shop.host();
  EXPECT_EQ(shop.tell("open a close a gone a open b b.version close b gone b").out.substr(0, 2), "1\n");
}

TEST(Loading, ForkBeforeAndAfterTheFirstUse) {
  Workshop shop;
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit());
  shop.host(&kit());
  EXPECT_EQ(shop.tell("open a open b fork a.push 7 b.pop self.server").out, "0\n7\nnobody\n");
  EXPECT_EQ(shop.tell("open a a.push 7 fork open b b.pop b.push 8 self.pop").out, "0\n7\n0\n8\n");
}

TEST(Loading, ConstructorOfAnObjectThatIsInitialisedBefore) {
  // `early` needs `a` to be linked, but through a weak reference and without a NEEDED entry, so that it is initialised
  // first: its constructor calls into a whose own constructors have not run.
  Workshop shop;
  shop.plugin("a", &kit());
  std::ofstream(shop.path("early.c")) << "#include <stdio.h>\n"
                                         "int probe_push(int) __attribute__((weak));\n"
                                         "__attribute__((constructor)) static void early(void) { printf(\"early "
                                         "%d\\n\", probe_push ? probe_push(9) : -1); }\n";
  std::ofstream(shop.path("main.c")) << "int probe_pop(int); int printf(const char *, ...);\n"
                                        "int main(void) { printf(\"%d\\n\", probe_pop(0)); return 0; }\n";
  must({"gcc", "-shared", "-fPIC", shop.path("early.c"), "-o", shop.path("early.so")});
  must({"gcc", shop.path("main.c"), "-Wl,--no-as-needed", shop.path("a.so"), shop.path("early.so"), "-o",
        shop.path("main")});
  EXPECT_EQ(run({shop.path("main")}).out, "early 0\n9\n");
}

TEST(Loading, ConstructorsOfThePluginsThemselves) {
  Workshop shop;
  shop.plugin("a", &kit(), {"-DPUSH_IN_CONSTRUCTOR=4"});
  shop.plugin("b", &kit());
  shop.host(&kit());
  EXPECT_EQ(shop.tell("open b open a b.pop").out, "4\n");
  EXPECT_EQ(shop.tell("open a self.pop").out, "4\n");
}

TEST(Loading, AmongTwoHundredUnrelatedObjects) {
  Workshop shop;
  std::ofstream(shop.path("nothing.c")) << "int nothing(void) { return 0; }\n";
  must({"gcc", "-shared", "-fPIC", "-nostdlib", shop.path("nothing.c"), "-o", shop.path("n0.so")});
  std::string commands = "open n0 ";
  for (int i = 1; i < 200; ++i) {
    const std::string name = "n" + std::to_string(i);
    std::filesystem::copy_file(shop.path("n0.so"), shop.path(name + ".so"));
    commands += "open " + name + " ";
  }
  shop.plugin("a", &kit());
  shop.plugin("b", &kit());
  shop.host();
  EXPECT_EQ(shop.tell(commands + "open a open b a.push 7 b.pop").out, "0\n7\n");
}

TEST(Loading, AWorldOfItsOwn) {
  Workshop shop;
  shop.plugin("a", &kit());
  shop.plugin("b", &kit());
  shop.host();
  const Outcome outcome = shop.tell("open a open-world b a.push 7 b.pop a.pop b.server a.server");
  EXPECT_EQ(outcome.out, std::string("0\n") + missing + "7\nb.so\na.so\n");
}

}  // namespace
}  // namespace cudeploy::test
