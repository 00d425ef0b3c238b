// A policy is written by hand: what it says is read exactly, and each mistake is answered with its line and a cure.
#include "policy.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "rule.hpp"

namespace cudeploy {
namespace {

namespace fs = std::filesystem;

class PolicyTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("cudeploy_policy_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path() const { return (folder_ / "p.toml").string(); }
  Policy load(const std::string& text) const {
    std::ofstream(path(), std::ios::binary) << text;
    return load_policy(path());
  }
  /// The message, with the folder left out.
  std::string error(const std::string& text) const {
    try {
      load(text);
    } catch (const std::runtime_error& failure) {
      std::string message = failure.what();
      if (const std::size_t at = message.find(folder_.string()); at != std::string::npos)
        message.erase(at, folder_.string().size() + 1);
      return message;
    }
    return "no error";
  }

  fs::path folder_;
};

std::string thrown(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::runtime_error& failure) {
    return failure.what();
  }
  return "no error";
}

TEST_F(PolicyTest, DefaultWantsNothing) {
  const Policy policy = load_policy("default");
  EXPECT_EQ(policy.name, "default");
  EXPECT_TRUE(policy.gpus.empty());
  EXPECT_FALSE(policy.driver);
  EXPECT_TRUE(policy.severity.empty());
  EXPECT_TRUE(policy.provided.empty());
}

TEST_F(PolicyTest, ReadsEveryForm) {
  const Policy policy = load(
      "gpus = [120, \"9.0\", \"90\", 8.6, \"101\"]\n"
      "driver = \"535.54.03\"\n"
      "provided = [\"libz.so.1\", \"libpython3.11.so.1.0\"]\n"
      "severity.missing-ptx = \"off\"\n"
      "severity.CD201 = \"warning\"\n");
  EXPECT_EQ(policy.gpus, (std::vector<GpuTarget>{{8, 6}, {9, 0}, {11, 0}, {12, 0}}));
  EXPECT_EQ(policy.driver, "535.54.03");
  EXPECT_EQ(policy.provided, (std::vector<std::string>{"libpython3.11.so.1.0", "libz.so.1"}));
  EXPECT_EQ(policy.severity,
            (std::map<std::string, Severity>{{"absolute-rpath", Severity::warning}, {"missing-ptx", Severity::off}}));
}

TEST_F(PolicyTest, NamesFileLineAndTheNearestRightWord) {
  EXPECT_EQ(error("\ngpu = [90]\n"), "p.toml:2: error: unknown key 'gpu'\nhint: did you mean 'gpus'?");
  EXPECT_EQ(error("colour = 1\n"),
            "p.toml:1: error: unknown key 'colour'\nhint: one of driver, gpus, provided, severity");
  EXPECT_EQ(error("severity.missing-pxt = \"off\"\n"),
            "p.toml:1: error: severity: no rule is called 'missing-pxt'\nhint: did you mean 'missing-ptx'?");
  EXPECT_EQ(
      error("[severity]\nmissing-ptx = \"warn\"\n"),
      "p.toml:2: error: severity.missing-ptx: expected error, warning, info or off, found 'warn'\nhint: did you mean "
      "'warning'?");
  EXPECT_EQ(error("severity.missing-ptx = \"off\"\nseverity.CD401 = \"off\"\n").substr(0, 9), "p.toml:1:");
  EXPECT_TRUE(
      error("gpus = [\"sm_90a\"]\n")
          .starts_with("p.toml:1: error: gpus: expected a compute capability such as 90 or 9.0, found 'sm_90a'\nhint: "
                       "a GPU is named by its "
                       "number alone: 90"));
  EXPECT_TRUE(error("gpus = [\n  80,\n  99,\n]\n")
                  .starts_with("p.toml:3: error: gpus: no known GPU has the compute capability '99'\nhint: did you "
                               "mean 100? known are 35,"));
}

TEST_F(PolicyTest, NamesTheTypeThatIsWrong) {
  EXPECT_EQ(error("gpus = \"90\"\n"), "p.toml:1: error: gpus: expected an array, found string");
  EXPECT_EQ(error("gpus = [true]\n"),
            "p.toml:1: error: gpus: expected a number such as 90 or a string such as \"9.0\", found boolean");
  EXPECT_EQ(error("driver = 535.54\n"), "p.toml:1: error: driver: expected a string, found floating-point");
  EXPECT_EQ(
      error("driver = \"535\"\n"),
      "p.toml:1: error: driver: expected a driver version of two or three numbers, found '535'\nhint: write it as "
      "nvidia-smi prints it, for example 580.65 or 580.65.06");
  EXPECT_EQ(error("severity = 1\n"),
            "p.toml:1: error: severity: expected a table, severity.<rule> = \"off\", found integer");
  EXPECT_EQ(error("severity.missing-ptx = 1\n"),
            "p.toml:1: error: severity.missing-ptx: expected a string, found integer");
  EXPECT_EQ(
      error("provided = [\"/usr/lib/libz.so.1\"]\n"),
      "p.toml:1: error: provided: expected a soname such as libcublas.so.12, found '/usr/lib/libz.so.1'\nhint: the "
      "loader asks for a name, not for a path");
  for (const std::string pattern : {"lib*.so", "libz.so.?", "libcu[bd]nn.so"})
    EXPECT_EQ(error("gpus = [90]\nprovided = [\"libz.so.1\", \"" + pattern + "\"]\n"),
              "p.toml:2: error: provided: expected a soname such as libcublas.so.12, found '" + pattern +
                  "'\nhint: a name stands for itself, there are no patterns: give each library");
}

TEST_F(PolicyTest, BrokenTomlAndMissingFiles) {
  EXPECT_TRUE(error("gpus = [\n").starts_with("p.toml:")) << error("gpus = [\n");
  EXPECT_EQ(
      thrown([&] { load_policy((folder_ / "none.toml").string()); }),
      (folder_ / "none.toml").string() +
          ": error: cannot be opened, and no policy has this name\nhint: a policy is 'default' or the path of a TOML "
          "file");
  EXPECT_EQ(thrown([] { load_policy("defualt"); }),
            "defualt: error: cannot be opened, and no policy has this name\nhint: did you mean 'default'?");
  EXPECT_EQ(thrown([&] { load_policy(folder_.string()); }), folder_.string() + ": error: cannot be read as a file");
  EXPECT_EQ(error(std::string(2 << 20, ' ')),
            "p.toml: error: expected a policy file of at most 1 MiB, found a larger one");
}

TEST(PolicyWords, GpusOfTheCommandLine) {
  EXPECT_EQ(parse_gpus("120,80, 9.0,80"), (std::vector<GpuTarget>{{8, 0}, {9, 0}, {12, 0}}));
  EXPECT_EQ(thrown([] { parse_gpus("80,,90"); }),
            "--gpus: error: expected compute capabilities such as 80,90,120, found '80,,90'");
  EXPECT_EQ(thrown([] { parse_gpus(""); }), "--gpus: error: expected compute capabilities such as 80,90,120, found ''");
  EXPECT_TRUE(thrown([] {
                parse_gpus("8O");
              }).starts_with("--gpus: error: no known GPU has the compute capability '8O'\nhint: did you mean 80?"));
  // A number is near to numbers, however it is spelt: 35 is one letter away from 85.
  for (const std::pair<const char*, const char*>& word : {std::pair("85", "86"),
                                                          {"8.5", "86"},
                                                          {"sm_85", "86"},
                                                          {"91", "90"},
                                                          {"99", "100"},
                                                          {"119", "120"},
                                                          {"125", "121"},
                                                          {"900", "90"}}) {
    const std::string told = thrown([&] { parse_gpus(word.first); });
    EXPECT_NE(told.find(std::string("did you mean ") + word.second + "?"), std::string::npos) << told;
  }
  EXPECT_TRUE(thrown([] { parse_gpus("90-real"); }).ends_with("a GPU is named by its number alone: 90"));
  for (const char* bad : {"9", "9.00", "1000", "-90", "9.0.0", "90 80", "all", "100000000000000000000"})
    EXPECT_NE(thrown([&] { parse_gpus(bad); }), "no error") << bad;
}

TEST(PolicyWords, DriverOfTheCommandLine) {
  EXPECT_EQ(parse_driver("535.54"), "535.54");
  EXPECT_EQ(parse_driver("580.65.06"), "580.65.06");
  for (const char* bad : {"535", "12.4", "", "535.54.3.1", "v535.54", "535.54 "})
    EXPECT_NE(thrown([&] { parse_driver(bad); }), "no error") << bad;
}

TEST(PolicyTemplates, AreAllReadable) {
  std::size_t seen = 0;
  for (const auto& entry : fs::directory_iterator(CUDEPLOY_POLICIES)) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_NO_THROW(load_policy(entry.path().string())) << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 3u);
}

}  // namespace
}  // namespace cudeploy
