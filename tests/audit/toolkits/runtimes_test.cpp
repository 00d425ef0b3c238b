// Runtimes of other toolkits, linked and as they come: found, with the right level, never a guess at the version. And
// the real driver, which must never be taken for anything else.
#include <gtest/gtest.h>

#include "fixture.hpp"

namespace cudeploy {
namespace {

namespace fs = std::filesystem;

struct Part {
  const char* name;  ///< of tests/real_parts.sh
  int level;
  const char* version;  ///< "" where the level does not tell it
  const char* compiler;
};
void PrintTo(const Part& part, std::ostream* out) { *out << part.name; }

class RealPart : public Fixture {
 protected:
  /// The folder of the part; empty, and the reason told, where it cannot be had.
  std::string folder_of(const std::string& part) {
    auto [status, output] = try_run("sh '" CUDEPLOY_REAL_PARTS "' " + part + " 2> why");
    if (status == 77) {
      why_ = content("why");
      return {};
    }
    EXPECT_EQ(status, 0) << output << content("why");
    return output.substr(0, output.find('\n'));
  }

  static std::string find_below(const std::string& folder, const std::string& name) {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with(name) && fs::is_regular_file(entry.path()))
        found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found.empty() ? std::string{} : found.front();
  }

  FileRecord read_real(const std::string& file) const {
    std::string why;
    auto bytes = FileBytes::open(file, why);
    EXPECT_TRUE(bytes) << file << ": " << why;
    return read_binary(file, *bytes, {}).at(0);
  }

  std::string why_;
};

class OtherRuntime : public RealPart, public testing::WithParamInterface<Part> {};

TEST_P(OtherRuntime, IsFoundInTheArchiveInALinkedFileAndAsALibrary) {
  const Part& part = GetParam();
  const std::string folder = folder_of(part.name);
  if (folder.empty()) GTEST_SKIP() << why_;
  const std::string archive = find_below(folder, "libcudart_static.a");
  const std::string shared = find_below(folder, "libcudart.so.1");
  ASSERT_NE(archive, "");
  ASSERT_NE(shared, "");
  write("caller.c", "extern int cudaRuntimeGetVersion(int *); int f(int *v) { return cudaRuntimeGetVersion(v); }");
  run(std::string(part.compiler) + " -s -shared -fPIC caller.c '" + archive + "' -o lib.so -ldl -lpthread -lrt");

  auto expect_copy = [&](const FileRecord& record, RuntimeCopyKind kind) {
    ASSERT_EQ(record.runtime_copies.size(), 1u) << record.path;
    const RuntimeCopy& copy = record.runtime_copies.front();
    EXPECT_EQ(copy.kind, kind) << record.path;
    EXPECT_EQ(copy.api_level, part.level) << record.path;
    EXPECT_EQ(copy.version.value_or(""), part.version) << record.path;
    EXPECT_EQ(problems_of(record), "") << record.path;
  };
  expect_copy(read("lib.so"), RuntimeCopyKind::private_static);
  expect_copy(read_real(archive), RuntimeCopyKind::private_static);
  expect_copy(read_real(shared), RuntimeCopyKind::shared_library);
}

INSTANTIATE_TEST_SUITE_P(Parts, OtherRuntime,
                         testing::Values(Part{"cuda-11.8", 11080, "11.8", "gcc"},
                                         Part{"cuda-12.4", 12040, "12.4", "gcc"}, Part{"cudart-12.9", 12080, "", "gcc"},
                                         Part{"cudart-13.5", 13010, "", "gcc"},
                                         Part{"cudart-aarch64-13.0", 13000, "13.0", "aarch64-linux-gnu-gcc"}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

TEST_F(RealPart, DriverIsTheDriverUnderAnyName) {
  const std::string folder = folder_of("libcuda-535");
  if (folder.empty()) GTEST_SKIP() << why_;
  const std::string driver = find_below(folder, "libcuda.so.535");
  ASSERT_NE(driver, "");
  fs::copy_file(driver, path("libcuda-984fdb42.so.570.133.07"));
  for (const FileRecord& record : {read_real(driver), read("libcuda-984fdb42.so.570.133.07")}) {
    ASSERT_TRUE(record.vendor) << record.path;
    EXPECT_EQ(record.vendor->role, Vendor::Role::driver);
    EXPECT_TRUE(record.runtime_copies.empty()) << "the driver knows the runtime's ids, but holds no runtime";
    EXPECT_EQ(problems_of(record), "");
  }
  FileRecord compiler = read_real(find_below(folder, "libnvidia-ptxjitcompiler.so.535"));
  ASSERT_TRUE(compiler.vendor);
  EXPECT_EQ(compiler.vendor->role, Vendor::Role::driver);
}

TEST_F(RealPart, StubsOfOlderToolkitsAreStubs) {
  for (const char* part : {"cuda-11.8", "cuda-12.4"}) {
    const std::string folder = folder_of(part);
    if (folder.empty()) GTEST_SKIP() << why_;
    for (const char* name : {"libcuda.so", "libnvidia-ml.so"}) {
      FileRecord record = read_real(find_below(folder + "/usr/lib/x86_64-linux-gnu/stubs", name));
      ASSERT_TRUE(record.vendor) << record.path;
      EXPECT_EQ(record.vendor->role, Vendor::Role::driver_stub) << record.path;
    }
  }
}

}  // namespace
}  // namespace cudeploy
