// Copies from different toolkits, the shared runtime and copies without cudeploy in one process: each mix has a
// defined end, one state or several, and the report says which. Needs other toolkits (tests/real_parts.sh).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime_static/link_kit.hpp"
#include "workshop.hpp"

namespace cudeploy::test {
namespace {

constexpr const char* missing = "-52\n";

/// A file of a real part, or the end of the test with the reason.
#define PART_FILE(variable, part, file)                                          \
  const std::string variable##_part = real_part(part);                           \
  if (variable##_part.empty()) GTEST_SKIP() << "real part not available: " part; \
  const std::string variable = variable##_part + "/" file

#define ARCHIVE_13_0(variable) PART_FILE(variable, "nvcc-13.0", "nvidia/cu13/lib/libcudart_static.a")
#define ARCHIVE_13_5(variable) PART_FILE(variable, "cudart-13.5", "nvidia/cu13/lib/libcudart_static.a")
#define ARCHIVE_12_9(variable) PART_FILE(variable, "cudart-12.9", "nvidia/cuda_runtime/lib/libcudart_static.a")
#define ARCHIVE_12_4(variable) PART_FILE(variable, "cuda-12.4", "usr/lib/x86_64-linux-gnu/libcudart_static.a")
#define ARCHIVE_11_8(variable) PART_FILE(variable, "cuda-11.8", "usr/lib/x86_64-linux-gnu/libcudart_static.a")

/// The JSON report that is the last thing a host printed.
nlohmann::json report_of(const Outcome& outcome) {
  const auto start = outcome.out.find('{');
  return nlohmann::json::parse(start == std::string::npos ? "null" : outcome.out.substr(start));
}

/// The copy in a file, null when there is none.
const nlohmann::json* copy_in(const nlohmann::json& report, const std::string& file) {
  for (const auto& copy : report["copies"]) {
    const std::string path = copy["object"];
    if (path.substr(path.rfind('/') + 1) == file) return &copy;
  }
  return nullptr;
}

std::string role_in(const nlohmann::json& report, const std::string& file) {
  const auto* copy = copy_in(report, file);
  return copy ? copy->at("role").get<std::string>() : "";
}

bool notes_say(const nlohmann::json& report, const std::string& words) {
  for (const auto& note : report["notes"]) {
    if (note.get<std::string>().find(words) != std::string::npos) return true;
  }
  return false;
}

class OtherToolkit : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(OtherToolkit, AllApiNamesOfTheArchiveAreRouted) {
  const std::string part = real_part(GetParam().first);
  if (part.empty()) GTEST_SKIP() << "real part not available: " << GetParam().first;
  const std::string archive = part + "/" + GetParam().second;
  const Words expected = names_by_nm(archive);
  EXPECT_GT(expected.size(), 300u);
  EXPECT_EQ(read_runtime_archive(archive).names, expected);
}

INSTANTIATE_TEST_SUITE_P(Toolkits, OtherToolkit,
                         ::testing::Values(std::pair("cuda-11.8", "usr/lib/x86_64-linux-gnu/libcudart_static.a"),
                                           std::pair("cuda-12.4", "usr/lib/x86_64-linux-gnu/libcudart_static.a"),
                                           std::pair("cudart-12.9", "nvidia/cuda_runtime/lib/libcudart_static.a"),
                                           std::pair("cudart-13.5", "nvidia/cu13/lib/libcudart_static.a"),
                                           std::pair("cudart-aarch64-13.0", "nvidia/cu13/lib/libcudart_static.a")),
                         [](const auto& info) {
                           std::string name = info.param.first;
                           for (char& c : name) {
                             if (c == '-' || c == '.') c = '_';
                           }
                           return name;
                         });

TEST(MinorVersions, NewerFirstIsOneState) {
  ARCHIVE_13_0(older);
  ARCHIVE_13_5(newer);
  Workshop shop;
  shop.plugin("old", &kit({.archive = older}));
  shop.plugin("new", &kit({.archive = newer}));
  shop.host();
  const Outcome outcome = shop.tell("open new new.push 1 open old old.pop old.version old.server old.report");
  EXPECT_TRUE(outcome.out.starts_with("0\n1\n13050\nnew.so\n")) << outcome.out;
  EXPECT_EQ(report_of(outcome)["states"], 1);
}

TEST(MinorVersions, BothPresentAtTheFirstUseIsOneState) {
  ARCHIVE_13_0(older);
  ARCHIVE_13_5(newer);
  Workshop shop;
  shop.plugin("old", &kit({.archive = older}));
  shop.plugin("new", &kit({.archive = newer}));
  shop.host();
  EXPECT_EQ(shop.tell("open old open new old.push 1 new.pop old.server").out, "0\n1\nnew.so\n");
  // In the program's own start, before any constructor of the newer one.
  shop.plugin("early", &kit({.archive = older}), {"-DPUSH_IN_CONSTRUCTOR=4"});
  std::ofstream(shop.path("main.c")) << "#include <stdio.h>\n#include <dlfcn.h>\n"
                                        "int probe_pop(int);\n"
                                        "int main(void) { printf(\"%d\\n\", probe_pop(0)); return 0; }\n";
  must({"gcc", shop.path("main.c"), "-Wl,--no-as-needed", shop.path("new.so"), shop.path("early.so"), "-o",
        shop.path("main"), "-ldl"});
  EXPECT_EQ(run({shop.path("main")}).out, "4\n");
}

TEST(MinorVersions, OlderUsedFirstIsTwoStatesAndTheNewestServesWhoComesLater) {
  ARCHIVE_13_0(older);
  ARCHIVE_13_5(newer);
  Workshop shop;
  for (const char* name : {"old", "later"}) shop.plugin(name, &kit({.archive = older}));
  shop.plugin("new", &kit({.archive = newer}));
  shop.host();
  const Outcome outcome = shop.tell(
      "open old old.push 1 open new new.pop old.pop new.push 2 open later later.pop later.server old.server "
      "later.report");
  EXPECT_TRUE(outcome.out.starts_with(std::string("0\n") + missing + "1\n0\n2\nnew.so\nold.so\n")) << outcome.out;
  const auto report = report_of(outcome);
  EXPECT_EQ(report["states"], 2);
  EXPECT_TRUE(notes_say(report, "two runtimes of CUDA 13 serve")) << report.dump(2);
  EXPECT_TRUE(notes_say(report, "link or load the newest first"));
}

TEST(MinorVersions, TheCopySaysItsVersionNotTheHeaders) {
  ARCHIVE_13_0(older);
  ARCHIVE_13_5(newer);
  Workshop shop;
  std::ofstream(shop.path("version.c"))
      << "#include <cuda_runtime_api.h>\nint header_version(void) { return CUDART_VERSION; }\n";
  const Kit& runtime =
      kit({.archive = older, .flags = {"-DCUDART_VERSION=13050", "-I" + newer_part + "/nvidia/cu13/include"}});
  const std::string header =
      shop.object("version", shop.path("version.c"), {"-I" + newer_part + "/nvidia/cu13/include"});
  shop.plugin("old", &runtime, {}, {header});
  shop.plugin("new", &kit({.archive = newer}));
  shop.host();
  // Loaded later, it would serve if it took itself for as new as the other one.
  const Outcome outcome = shop.tell("open new open old old.version old.server new.server old.report");
  EXPECT_TRUE(outcome.out.starts_with("13050\nnew.so\nnew.so\n")) << outcome.out;
  const auto report = report_of(outcome);
  const auto version_in = [&](const std::string& file) {
    const auto* copy = copy_in(report, file);
    return copy ? copy->at("runtime_version").get<int>() : -1;
  };
  EXPECT_EQ(version_in("old.so"), 13000) << report.dump(2);
  EXPECT_EQ(version_in("new.so"), 13050) << report.dump(2);
  EXPECT_EQ(shop.tell("open old old.version").out, "13000\n");
}

TEST(MinorVersions, TwelveNeedsNoNameOfItsOwn) {
  ARCHIVE_12_4(older);
  ARCHIVE_12_9(newer);
  Workshop shop;
  shop.plugin("old", &kit({.archive = older}));
  shop.plugin("new", &kit({.archive = newer}));
  shop.host();
  const Outcome outcome = shop.tell("open new open old old.push 1 new.pop old.server old.report");
  EXPECT_TRUE(outcome.out.starts_with("0\n1\nnew.so\n")) << outcome.out;
  int lacking = 0;
  for (const auto& name : kit({.archive = older}).names) {
    const auto& names = kit({.archive = newer}).names;
    if (!std::binary_search(names.begin(), names.end(), name)) ++lacking;
  }
  for (const auto& copy : report_of(outcome)["copies"]) {
    if (copy["role"] == "joined") EXPECT_EQ(copy["kept_names"], lacking);
  }
}

TEST(Majors, ElevenTwelveAndThirteenDoNotDisturbEachOther) {
  ARCHIVE_11_8(eleven);
  ARCHIVE_12_9(twelve);
  Workshop shop;
  shop.plugin("a11", &kit({.archive = eleven}));
  shop.plugin("b11", &kit({.archive = eleven}));
  shop.plugin("a12", &kit({.archive = twelve}));
  shop.plugin("b12", &kit({.archive = twelve}));
  shop.plugin("a13", &kit());
  shop.plugin("b13", &kit());
  shop.host();
  const Outcome outcome = shop.tell(
      "open a11 open a12 open a13 a11.push 11 a12.push 12 a13.push 13 open b11 open b12 open b13 b12.pop b13.pop "
      "b11.pop "
      "b13.report");
  EXPECT_TRUE(outcome.out.starts_with("0\n0\n0\n12\n13\n11\n")) << outcome.out;
  EXPECT_EQ(report_of(outcome)["states"], 3);
}

TEST(Majors, MinorsOfElevenAreOrderedWithoutADriver) {
  // Its cudaRuntimeGetVersion answers 35 then. The older one is 11.8, whose table of functions is set back.
  if (access("/proc/driver/nvidia/version", F_OK) == 0) GTEST_SKIP() << "not applicable: this machine has a driver";
  ARCHIVE_11_8(newer);
  Workshop shop;
  std::ifstream in(newer, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto row = [](const char(&version)[3]) {
    return std::string(16, 0) + std::string(version, 2) + std::string(6, 0);
  };
  int changed = 0;
  for (auto at = bytes.find(row("\x48\x2b")); at != std::string::npos; at = bytes.find(row("\x48\x2b"), at + 24)) {
    bytes.replace(at, 24, row("\x3e\x2b"));
    ++changed;
  }
  ASSERT_GT(changed, 0);
  const std::string older = shop.path("libcudart_static.a");
  std::ofstream(older, std::ios::binary) << bytes;
  ASSERT_EQ(read_runtime_archive(newer).api_level, 11080);
  ASSERT_EQ(read_runtime_archive(older).api_level, 11070);
  shop.plugin("old", &kit({.archive = older}));
  shop.plugin("new", &kit({.archive = newer}));
  shop.host();
  EXPECT_EQ(shop.tell("open old open new old.push 1 new.pop old.server").out, "0\n1\nnew.so\n");
  EXPECT_EQ(shop.tell("open new open old old.push 1 new.pop old.server").out, "0\n1\nnew.so\n");
  const Outcome outcome = shop.tell("open old old.push 1 open new new.pop new.server new.report");
  EXPECT_TRUE(outcome.out.starts_with(std::string("0\n") + missing + "new.so\n")) << outcome.out;
  const auto report = report_of(outcome);
  EXPECT_EQ(report["states"], 2);
  EXPECT_TRUE(notes_say(report, "old.so (11.7) and ")) << report.dump(2);
}

TEST(SharedRuntime, LoadedBeforeItServesWhenAtLeastAsNew) {
  ARCHIVE_13_0(older);
  ARCHIVE_13_5(newer);
  Workshop shop;
  const auto shared = [](const std::string& part) { return part + "/nvidia/cu13/lib/libcudart.so.13"; };
  std::filesystem::copy_file(shared(newer_part), shop.path("shared_new.so"));
  std::filesystem::copy_file(shared(older_part), shop.path("shared_old.so"));
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit({.archive = older}));
  shop.plugin("new", &kit({.archive = newer}));
  shop.host();
  // The same version is new enough; the file's name is not what it is known by.
  for (const char* name : {"shared_new", "shared_old"}) {
    const Outcome outcome = shop.tell(std::string("open ") + name + " open a open b a.push 7 b.pop a.server b.report");
    EXPECT_TRUE(outcome.out.starts_with(std::string("0\n7\n") + name + ".so\n")) << outcome.out;
    EXPECT_EQ(report_of(outcome)["states"], 1) << outcome.out;
  }
  // An older one does not serve.
  const Outcome outcome = shop.tell("open shared_old open new new.push 7 new.pop new.server new.report");
  EXPECT_TRUE(outcome.out.starts_with("0\n7\nnew.so\n")) << outcome.out;
  EXPECT_EQ(report_of(outcome)["states"], 2);
  EXPECT_EQ(role_in(report_of(outcome), "shared_old.so"), "foreign-shared");
  // It stays as long as it serves.
  EXPECT_EQ(shop.tell("open shared_new open a a.push 7 close shared_new gone shared_new open b b.pop").out,
            "0\n0\n7\n");
}

TEST(SharedRuntime, LoadedAfterIsASecondStateAndReported) {
  ARCHIVE_13_5(newer);
  Workshop shop;
  std::filesystem::copy_file(newer_part + "/nvidia/cu13/lib/libcudart.so.13", shop.path("shared.so"));
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit());
  shop.host();
  const Outcome outcome = shop.tell("open a a.push 7 open shared open b b.pop b.server b.report");
  EXPECT_TRUE(outcome.out.starts_with("0\n7\na.so\n")) << outcome.out;
  const auto report = report_of(outcome);
  EXPECT_EQ(report["states"], 2);
  EXPECT_EQ(role_in(report, "shared.so"), "foreign-shared");
  EXPECT_TRUE(notes_say(report, "load it before the first call")) << report.dump(2);
}

TEST(SharedRuntime, OfAnotherMajorDoesNotServe) {
  ARCHIVE_12_9(twelve);
  Workshop shop;
  std::filesystem::copy_file(twelve_part + "/nvidia/cuda_runtime/lib/libcudart.so.12", shop.path("shared.so"));
  shop.plugin("a", &kit());
  shop.host();
  EXPECT_EQ(shop.tell("open shared open a a.push 7 a.pop a.server").out, "0\n7\na.so\n");
}

TEST(SharedRuntime, RenamedByWheelRepair) {
  if (!has_program("patchelf")) GTEST_SKIP() << "patchelf is not installed";
  ARCHIVE_13_5(newer);
  Workshop shop;
  std::filesystem::copy_file(newer_part + "/nvidia/cu13/lib/libcudart.so.13", shop.path("libcudart-1a2b3c4d.so"));
  must({"patchelf", "--set-soname", "libcudart-1a2b3c4d.so.13.5", shop.path("libcudart-1a2b3c4d.so")});
  shop.plugin("a", &kit());
  shop.host();
  EXPECT_EQ(shop.tell("open libcudart-1a2b3c4d open a a.push 7 a.pop a.server").out, "0\n7\nlibcudart-1a2b3c4d.so\n");
}

TEST(RealDriver, OlderThanTheRuntimeOrWithoutADevice) {
  PART_FILE(driver, "libcuda-535", "usr/lib/x86_64-linux-gnu/nvidia/current");
  ARCHIVE_11_8(eleven);
  Workshop shop;
  shop.plugin("a13", &kit());
  shop.plugin("a11", &kit({.archive = eleven}));
  shop.host();
  // The driver library itself makes the device nodes when root asks, so they say nothing.
  if (access("/proc/driver/nvidia/version", F_OK) == 0)
    GTEST_SKIP() << "not applicable: this machine has a driver of its own";
  struct Nodes {  // what the driver library leaves behind
    bool before = std::filesystem::exists("/dev/nvidiactl");
    ~Nodes() {
      std::error_code ignored;
      if (!before) std::filesystem::remove("/dev/nvidiactl", ignored);
    }
  } nodes;
  const Words environment = {"LD_LIBRARY_PATH=" + driver};
  const Outcome insufficient = shop.tell("open a13 a13.fail a13.report", environment);
  EXPECT_TRUE(insufficient.out.starts_with("35\n")) << insufficient.out;
  auto report = report_of(insufficient);
  EXPECT_EQ(report["driver_version"], 12020);
  EXPECT_TRUE(notes_say(report, "the driver supports CUDA 12.2, the runtime of")) << report.dump(2);
  EXPECT_TRUE(notes_say(report, "install a driver for CUDA 13"));
  const Outcome no_device = shop.tell("open a11 a11.fail a11.report", environment);
  EXPECT_TRUE(no_device.out.starts_with("100\n")) << no_device.out;
  report = report_of(no_device);
  EXPECT_EQ(report["driver_error"], 100);
  EXPECT_TRUE(notes_say(report, "sees no GPU")) << report.dump(2);
}

}  // namespace
}  // namespace cudeploy::test
