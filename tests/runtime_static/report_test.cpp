// The report is read when everything else is unclear, so what it says must be right: who is there, what each copy
// does, what was registered, and nothing at all unless it is asked.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "workshop.hpp"

namespace cudeploy::test {
namespace {

using Json = nlohmann::json;

Json report_of(const std::string& text) {
  const auto start = text.find('{');
  return Json::parse(start == std::string::npos ? "null" : text.substr(start));
}

const Json* copy_in(const Json& report, const std::string& file) {
  for (const auto& copy : report["copies"]) {
    const std::string path = copy["object"];
    if (path.substr(path.rfind('/') + 1) == file) return &copy;
  }
  return nullptr;
}

std::string content(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ReportOn : public OnEachMachine {};

TEST_P(ReportOn, NamesEachCopyAndItsRole) {
  Workshop shop(GetParam());
  const Kit& runtime = kit({.machine = GetParam()});
  for (const char* name : {"a", "b", "idle"}) shop.plugin(name, &runtime);
  shop.plugin("foreign", nullptr);
  shop.host(&runtime);
  const Json report = report_of(
      shop.tell("open a a.push 1 open b b.pop open idle open foreign foreign.version b.report").out.substr(2));
  ASSERT_EQ(report["schema"], "cudeploy/runtime-report/1");
  ASSERT_EQ(report["copies"].size(), 5u) << report.dump(2);
  const auto role = [&](const char* file) { return copy_in(report, file)->at("role").get<std::string>(); };
  EXPECT_EQ(role("host"), "idle");
  EXPECT_EQ(role("a.so"), "serving");
  EXPECT_EQ(role("b.so"), "joined");
  EXPECT_EQ(role("idle.so"), "idle");
  EXPECT_EQ(role("foreign.so"), "foreign-static");
  EXPECT_EQ(report["states"], 2);
  const int server = copy_in(report, "b.so")->at("server");
  EXPECT_EQ(report["copies"][server]["object"], copy_in(report, "a.so")->at("object"));
  EXPECT_EQ(copy_in(report, "a.so")->at("pinned"), true);
  EXPECT_EQ(copy_in(report, "b.so")->at("pinned"), false);
  EXPECT_GE(copy_in(report, "a.so")->at("runtime_version").get<int>(), runtime.cuda_major * 1000);
  EXPECT_GE(copy_in(report, "foreign.so")->at("api_level").get<int>(), runtime.cuda_major * 1000);
  // A program that was linked against cudeploy does not need its own file's path from the loader.
  EXPECT_EQ(copy_in(report, "host")->at("object"), shop.path("host"));
}

/// Whether a report has the shape that the repository promises.
void expect_shape(const Json& report) {
  const Json schema = Json::parse(content(std::string(CUDEPLOY_TREE) + "/runtime_static/report.schema.json"));
  // Closed objects: what the schema lists and what is written are the same names, with the types it states.
  const auto check = [&](const Json& value, const Json& shape, auto& self) -> void {
    if (shape["type"] == "object") {
      ASSERT_TRUE(value.is_object());
      EXPECT_EQ(shape["additionalProperties"], false);
      EXPECT_EQ(value.size(), shape["properties"].size()) << value.dump();
      for (const auto& [key, part] : shape["properties"].items()) {
        ASSERT_TRUE(value.contains(key)) << key;
        self(value[key], part, self);
      }
    } else if (shape["type"] == "array") {
      ASSERT_TRUE(value.is_array());
      for (const auto& item : value) self(item, shape["items"], self);
    } else if (shape["type"] == "integer") {
      EXPECT_TRUE(value.is_number_integer()) << value.dump();
    } else if (shape["type"] == "boolean") {
      EXPECT_TRUE(value.is_boolean()) << value.dump();
    } else {
      EXPECT_TRUE(value.is_string()) << value.dump();
      if (shape.contains("enum"))
        EXPECT_NE(std::find(shape["enum"].begin(), shape["enum"].end(), value), shape["enum"].end());
    }
  };
  check(report, schema, check);
}

TEST(Report, HasTheShapeOfItsSchema) {
  Workshop shop;
  shop.plugin("a", &kit());
  shop.host();
  const Json report = report_of(shop.tell("open a a.push 1 a.report").out.substr(2));
  EXPECT_FALSE(report["copies"].empty());
  expect_shape(report);
}

TEST_P(ReportOn, IsWrittenOnceWhenTheProcessEndsAndOnlyThen) {
  Workshop shop(GetParam());
  const Kit& runtime = kit({.machine = GetParam()});
  for (const char* name : {"a", "b"}) shop.plugin(name, &runtime);
  shop.host(&runtime);
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop").out, "0\n7\n");
  const std::string file = shop.path("report.json");
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop", {"CUDEPLOY_REPORT=" + file}).out, "0\n7\n");
  const Json report = Json::parse(content(file));
  EXPECT_EQ(report["copies"].size(), 3u);
  EXPECT_EQ(report["states"], 1);
  const std::string out = shop.tell("open a open b a.push 7 b.pop", {"CUDEPLOY_REPORT=stderr"}).out;
  EXPECT_EQ(out.find("cudeploy/runtime-report/1"), out.rfind("cudeploy/runtime-report/1")) << out;
  EXPECT_NE(out.find("cudeploy/runtime-report/1"), std::string::npos);
  // What cannot be written is told, and changes nothing else.
  const Outcome refused =
      shop.tell("open a open b a.push 7 b.pop", {"CUDEPLOY_REPORT=" + shop.path("none/report.json")});
  EXPECT_EQ(refused.status, 0);
  EXPECT_EQ(refused.out, "0\n7\nCUDEPLOY_REPORT=" + shop.path("none/report.json") + ": No such file or directory\n");
  // Plugins alone, the program has no copy: still one report.
  Workshop again(GetParam());
  for (const char* name : {"a", "b"}) again.plugin(name, &runtime);
  again.host();
  const Json plugins = report_of(again.tell("open a open b a.push 7 b.pop", {"CUDEPLOY_REPORT=stderr"}).out);
  EXPECT_EQ(plugins["copies"].size(), 2u);
}

CUDEPLOY_ON_EACH_MACHINE(ReportOn);

TEST(Report, IsJsonWhateverBytesAPathHas) {
  // The letters of Latin-1, and what looks like UTF-8 but is none: too long, half of a pair, past the last letter.
  // The parser, which is not ours, refuses a text that holds any of them as they are.
  struct Case {
    const char *bytes, *read;
  };
  std::string file, read;
  for (const Case& each : std::initializer_list<Case>{{"\xe4", "\u00e4"},
                                                      {"\xc3\xa4", "\u00e4"},
                                                      {"\xe2\x82\xac", "\u20ac"},
                                                      {"\xf0\x9f\x98\x80", "\U0001f600"},
                                                      {"\xc0\xaf", "\u00c0\u00af"},
                                                      {"\xe0\x80\xaf", "\u00e0\u0080\u00af"},
                                                      {"\xed\xa0\x80", "\u00ed\u00a0\u0080"},
                                                      {"\xf0\x80\x80\xaf", "\u00f0\u0080\u0080\u00af"},
                                                      {"\xf4\x90\x80\x80", "\u00f4\u0090\u0080\u0080"},
                                                      {"\xf5\x80", "\u00f5\u0080"},
                                                      {"\x80", "\u0080"},
                                                      {"\"\\\n\x7f", "\"\\\n\x7f"}}) {
    file += std::string(each.bytes) + "-";
    read += std::string(each.read) + "-";
  }
  Workshop shop;
  shop.plugin("a", &kit());
  shop.host();
  std::filesystem::rename(shop.path("a.so"), shop.path(file + ".so"));
  const Json report =
      report_of(run({shop.path("host"), "open", file, file + ".push", "1", file + ".report"}).out.substr(2));
  ASSERT_EQ(report["copies"].size(), 1u) << report.dump(2);
  EXPECT_EQ(report["copies"][0]["object"], shop.path(read + ".so"));
}

TEST(Report, IsJsonWhereANoteIsCutInALetter) {
  Workshop shop;
  shop.plugin("a", &kit());
  shop.host();
  for (const char* start : {"", "x"}) {  // in one of the two the cut is not between letters
    std::filesystem::path deep = shop.path(std::string("deep") + start);
    for (int i = 0; i < 5; ++i) {
      std::string name;
      for (int k = 0; k < 120; ++k) name += "\u00e4";
      deep /= name;
    }
    std::filesystem::create_directories(deep);
    for (const char* file : {"host", "a.so"}) std::filesystem::copy_file(shop.path(file), deep / file);
    const Outcome outcome = run({deep / "host", "open", "a", "a.push", "1", "a.report"}, {"CUDEPLOY_UNIFY=0"});
    const Json report = report_of(outcome.out.substr(2));
    ASSERT_GE(report["notes"].size(), 1u);
    EXPECT_EQ(report["notes"][0].get<std::string>().find("keeps a state"), std::string::npos) << "it was not cut";
    EXPECT_EQ(report["copies"][0]["object"], (deep / "a.so").string());
  }
}

TEST(Report, SaysWhenSharingIsTurnedOff) {
  Workshop shop;
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit());
  shop.host();
  const Json report = report_of(shop.tell("open a open b a.push 1 b.push 2 a.report", {"CUDEPLOY_UNIFY=0"}).out);
  EXPECT_EQ(report["states"], 2);
  EXPECT_NE(report["notes"].dump().find("CUDEPLOY_UNIFY=0"), std::string::npos);
}

TEST(Report, SaysWhichLoaderNamespaceItSees) {
  Workshop shop;
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit());
  shop.host();
  const std::string both = "open a open-world b a.push 1 b.push 2 ";
  const Json base = report_of(shop.tell(both + "a.report").out);
  EXPECT_EQ(base["loader_namespace"], 0);
  EXPECT_EQ(base["copies"].size(), 1u) << base.dump(2);
  EXPECT_EQ(base["notes"].dump().find("dlmopen"), std::string::npos);
  const Json world = report_of(shop.tell(both + "b.report").out);
  EXPECT_EQ(world["loader_namespace"], 1);
  ASSERT_EQ(world["copies"].size(), 1u) << world.dump(2);
  EXPECT_EQ(copy_in(world, "b.so")->at("role"), "serving");
  EXPECT_NE(world["notes"].dump().find("this is loader namespace 1, opened with dlmopen"), std::string::npos);
  // When the process ends, neither overwrites what the other one wrote.
  const std::string file = shop.path("report.json");
  shop.tell(both, {"CUDEPLOY_REPORT=" + file});
  EXPECT_NE(copy_in(Json::parse(content(file)), "a.so"), nullptr);
  EXPECT_NE(copy_in(Json::parse(content(file + ".1")), "b.so"), nullptr);
}

TEST(Report, OtherAnchorAbiIsNamed) {
  // A cudeploy of the future: another number and a block of another shape behind the same note.
  Workshop shop;
  const std::filesystem::path sources = std::string(CUDEPLOY_TREE) + "/runtime_static";
  std::filesystem::copy(sources, shop.path("future"), std::filesystem::copy_options::recursive);
  const auto edit = [&](const std::string& file, const std::string& from, const std::string& to) {
    std::string text = content(shop.path(file));
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::ofstream(shop.path(file)) << text.replace(at, from.size(), to);
  };
  edit("future/anchor.hpp", "anchor_abi = 1;", "anchor_abi = 2;");
  edit("future/join.cpp", "#define CUDEPLOY_ANCHOR_ABI 1", "#define CUDEPLOY_ANCHOR_ABI 2");
  const Kit& future = kit({.hidden_anchor = true, .sources = shop.path("future")});
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit());
  for (const char* name : {"f", "g"}) shop.plugin(name, &future);
  shop.host();
  const Outcome outcome = shop.tell("open f f.push 5 open a a.push 7 open b open g g.pop b.pop a.pop f.pop b.report");
  ASSERT_TRUE(outcome.out.starts_with("0\n0\n5\n7\n-52\n-52\n")) << outcome.out;
  const Json report = report_of(outcome.out);
  EXPECT_EQ(copy_in(report, "f.so")->at("role"), "other-abi");
  EXPECT_EQ(copy_in(report, "f.so")->at("anchor_abi"), 2);
  EXPECT_EQ(copy_in(report, "b.so")->at("role"), "joined");
  EXPECT_NE(report["notes"].dump().find("anchor ABI 2"), std::string::npos);
}

TEST(Report, AnchorOfAnotherAbiIsNeverRead) {
  // A note that leads to memory which nobody can read: whoever looks behind it dies.
  Workshop shop;
  std::ofstream(shop.path("future.c")) << R"(#include <sys/mman.h>
char block[4096] __attribute__((aligned(4096), visibility("hidden")));
__asm__(".pushsection .note.cudeploy, \"a\", %note\n .balign 4\n .long 9, 16, 1\n .asciz \"cudeploy\"\n .balign 4\n"
        ".long ABI, MAJOR\n 1: .8byte block - 1b\n .popsection\n");
__attribute__((constructor)) static void close_block(void) { mprotect(block, sizeof block, PROT_NONE); }
)";
  const auto make = [&](const std::string& name, int abi) {
    std::string source = content(shop.path("future.c"));
    source.replace(source.find("ABI"), 3, std::to_string(abi));
    source.replace(source.find("MAJOR"), 5, std::to_string(kit().cuda_major));
    std::ofstream(shop.path(name + ".c")) << source;
    must({"gcc", "-shared", "-fPIC", shop.path(name + ".c"), "-o", shop.path(name + ".so")});
  };
  make("f", 2);
  make("present", 1);
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit());
  shop.host();
  const Outcome outcome = shop.tell("open f open a open b a.push 7 b.pop b.report", {"CUDEPLOY_REPORT=stderr"});
  EXPECT_EQ(outcome.status, 0);
  ASSERT_TRUE(outcome.out.starts_with("0\n7\n")) << outcome.out;
  const Json report = report_of(outcome.out.substr(0, outcome.out.find("\n}\n") + 3));
  ASSERT_NE(copy_in(report, "f.so"), nullptr) << report.dump(2);
  EXPECT_EQ(copy_in(report, "f.so")->at("role"), "other-abi");
  EXPECT_NE(report["notes"].dump().find("anchor ABI 2"), std::string::npos);
  // The same block behind a note of this ABI is looked at, so the trap is one.
  EXPECT_EQ(shop.tell("open present open a a.push 7").status, 128 + SIGSEGV);
}

TEST(Report, EnvironmentIsIgnoredInSetUserIdPrograms) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root: to be another user";
  if (!has_program("setpriv")) GTEST_SKIP() << "setpriv is not installed";
  Workshop shop;
  shop.plugin("a", &kit());
  shop.plugin("b", &kit());
  shop.host();
  // A folder that an ordinary user can reach.
  const std::filesystem::path open =
      std::filesystem::temp_directory_path() / ("cudeploy-setuid-" + std::to_string(getpid()));
  std::filesystem::create_directories(open);
  std::filesystem::permissions(open, std::filesystem::perms(0755));
  for (const char* file : {"a.so", "b.so", "host"}) {
    std::filesystem::copy_file(shop.path(file), open / file, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::permissions(open / file, std::filesystem::perms(0755));
  }
  const auto as_user = [&]() {
    return run({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", (open / "host").string(), "open", "a",
                "open", "b", "a.push", "7", "b.pop"},
               {"CUDEPLOY_UNIFY=0", "CUDEPLOY_REPORT=stderr"});
  };
  const Outcome ordinary = as_user();
  std::filesystem::permissions(open / "host", std::filesystem::perms(04755));
  const Outcome privileged = as_user();
  std::filesystem::remove_all(open);
  EXPECT_NE(ordinary.out.find("-52\n"), std::string::npos) << ordinary.out;
  EXPECT_EQ(privileged.out, "0\n7\n");
}

const char* const kernel_source =
    "#include <cuda_runtime.h>\n"
    "__global__ void NAME(int *out) { *out = 1; }\n"
    "extern \"C\" __attribute__((visibility(\"default\"))) void probe_launch() { NAME<<<1, 1>>>(nullptr); }\n";

TEST(Report, ListsRegisteredFatBinariesAndStubsRegisteredTwice) {
  const std::string nvcc = CUDEPLOY_TEST_NVCC_PATH;
  Workshop shop;
  std::ofstream(shop.path("kernel.cu")) << kernel_source;
  const Kit& runtime = kit();
  for (const char* name : {"k1", "k2"}) {
    // Exported stubs, as older toolkits make them by default: the loader gives both objects the first one's.
    must({nvcc, "-c", "-DNAME=same_name", "-Xcompiler", "-fPIC", "-arch=sm_80", "-static-global-template-stub=false",
          "-device-entity-has-hidden-visibility=false", shop.path("kernel.cu"), "-o",
          shop.path(std::string(name) + ".o")});
    Words command = {"g++",
                     "-shared",
                     shop.path(std::string(name) + ".o"),
                     shop.object(name + std::string("p"), "probe.c", {"-DUNIFIED"}),
                     "-o",
                     shop.path(std::string(name) + ".so")};
    command.insert(command.end(), runtime.link.begin(), runtime.link.end());
    must(command);
  }
  shop.host();
  const Json report = report_of(shop.tell("open-global k1 open-global k2 k1.report").out);
  ASSERT_EQ(report["fat_binaries"].size(), 2u) << report.dump(2);
  for (const auto& binary : report["fat_binaries"]) EXPECT_EQ(binary["images"], 2) << "sm_80 and its PTX";
  ASSERT_EQ(report["shared_stubs"].size(), 1u) << report.dump(2);
  EXPECT_EQ(report["shared_stubs"][0]["name"], "_Z9same_namePi");
  EXPECT_TRUE(report["shared_stubs"][0]["defined_in"].get<std::string>().ends_with("/k1.so"));
  EXPECT_TRUE(report["shared_stubs"][0]["registered_by"].get<std::string>().ends_with("/k2.so"));
  EXPECT_NE(report["notes"].dump().find("was registered by"), std::string::npos);
  expect_shape(report);
  // Apart from each other the two do not collide.
  EXPECT_EQ(report_of(shop.tell("open k1 open k2 k1.report").out)["shared_stubs"].size(), 0u);
  // At the end of the process the list is still there, though nvcc's code has unregistered by then.
  EXPECT_EQ(report_of(shop.tell("open k1 open k2", {"CUDEPLOY_REPORT=stderr"}).out)["fat_binaries"].size(), 2u);
}

}  // namespace
}  // namespace cudeploy::test
