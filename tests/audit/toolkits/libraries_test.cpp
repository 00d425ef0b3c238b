// Every library of the toolkit: the slice tells what LIEF tells of the whole file and what readelf says, and each
// private runtime that is known to be there is found, with none beside.
#include <gtest/gtest.h>

#include <map>

#include "elf_facts.hpp"
#include "fixture.hpp"

namespace cudeploy {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> libraries() {
  std::vector<std::string> found;
  const fs::path folder = fs::path(CUDEPLOY_CUDART_STATIC).parent_path();
  std::error_code none;
  for (const fs::path& root : {folder, folder / "stubs"}) {
    for (const auto& entry : fs::directory_iterator(root, none)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && !entry.is_symlink() && name.find(".so") != std::string::npos)
        found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// API level of the folder's own libcudart.so: the toolkit's release.
int level_of_runtime() {
  std::string why;
  auto bytes = FileBytes::open((fs::path(CUDEPLOY_CUDART_STATIC).parent_path() / "libcudart.so").string(), why);
  if (!bytes) return 0;
  FileRecord record = read_binary("libcudart.so", *bytes, {}).at(0);
  return record.runtime_copies.empty() ? 0 : record.runtime_copies.front().api_level.value_or(0);
}

class ToolkitLibrary : public Fixture, public testing::WithParamInterface<std::string> {
 protected:
  std::unique_ptr<FileBytes> open() const {
    std::string why;
    auto bytes = FileBytes::open(GetParam(), why);
    EXPECT_TRUE(bytes) << GetParam() << ": " << why;
    return bytes;
  }
};

TEST_P(ToolkitLibrary, SliceTellsWhatTheWholeFileTells) {
  auto bytes = open();
  FileRecord record = read_binary(GetParam(), *bytes, {}).at(0);
  EXPECT_EQ(all_facts(record), all_facts(read_elf_with_lief_alone(GetParam(), *bytes)));
  EXPECT_EQ(problems_of(record), "");
}

TEST_P(ToolkitLibrary, AgreesWithReadelf) {
  FileRecord record = read_binary(GetParam(), *open(), {}).at(0);
  EXPECT_EQ(facts_of(record), facts_of_readelf(run("readelf -dW '" + GetParam() + "'")));
}

TEST_P(ToolkitLibrary, HasTheRuntimeThatIsKnownToBeThere) {
  // Read by an independent program, of CUDA 13.0 with cuDNN 9.19 and NCCL 2; other releases differ in the levels.
  static const std::map<std::string, int> known = {{"libcublas", 13000},
                                                   {"libcublasLt", 13000},
                                                   {"libcurand", 13000},
                                                   {"libcusolver", 13000},
                                                   {"libcusolverMg", 13000},
                                                   {"libcusparse", 13000},
                                                   {"libnccl", 13000},
                                                   {"libnvblas", 13000},
                                                   {"libcudart", 13000},
                                                   {"libcudnn_adv", 13010},
                                                   {"libcudnn_cnn", 13010},
                                                   {"libcudnn_ops", 13010},
                                                   {"libcudnn_graph", 13010},
                                                   {"libcudnn_engines_precompiled", 13010},
                                                   {"libcudnn_engines_runtime_compiled", 13010}};
  const std::string name = fs::path(GetParam()).filename();
  auto expected = known.find(name.substr(0, name.find(".so")));
  FileRecord record = read_binary(GetParam(), *open(), {}).at(0);
  std::size_t copies = 0;
  for (const RuntimeCopy& copy : record.runtime_copies) {
    if (copy.kind == RuntimeCopyKind::needs_shared) continue;
    ++copies;
    ASSERT_TRUE(copy.api_level);
    if (expected != known.end() && level_of_runtime() == 13000) EXPECT_EQ(*copy.api_level, expected->second);
  }
  EXPECT_EQ(copies, expected == known.end() ? 0u : 1u);
}

TEST_P(ToolkitLibrary, IsKnownAsNvidias) { EXPECT_TRUE(read_binary(GetParam(), *open(), {}).at(0).vendor); }

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ToolkitLibrary);
INSTANTIATE_TEST_SUITE_P(All, ToolkitLibrary, testing::ValuesIn(libraries()), [](const auto& info) {
  std::string name =
      fs::path(info.param).parent_path().filename().string() + "_" + fs::path(info.param).filename().string();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

TEST(Toolkit, HasLibrariesToRead) {
  if (!fs::exists(CUDEPLOY_CUDART_STATIC)) GTEST_SKIP() << "no libcudart_static.a in the toolkit of the tests";
  EXPECT_FALSE(libraries().empty());
}

}  // namespace
}  // namespace cudeploy
