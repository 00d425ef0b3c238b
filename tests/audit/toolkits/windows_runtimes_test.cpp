// NVIDIA's runtimes for Windows: the DLLs themselves, and DLLs that lld links with each of their libraries. What the
// libraries want of the C runtime stays unresolved, which changes nothing in the tables that are read.
#include "fixture.hpp"

namespace cudeploy {
namespace {

struct Runtime {
  std::string release;
  RuntimeCopyKind shared, linked_static;  ///< what a DLL brings that is linked with cudart.lib, with cudart_static.lib
  std::optional<int> api_level;           ///< of the static copy
};
void PrintTo(const Runtime& runtime, std::ostream* out) { *out << runtime.release; }

class WindowsRuntime : public Fixture, public testing::WithParamInterface<Runtime> {
 protected:
  void SetUp() override {
    auto [status, folder] = try_run("sh '" CUDEPLOY_REAL_PARTS "' cudart-windows-" + GetParam().release + " 2>&1");
    if (status == 77) GTEST_SKIP() << folder;
    ASSERT_EQ(status, 0) << folder;
    folder.resize(folder.find_last_not_of('\n') + 1);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      std::string name = entry.path().filename().string();
      if (name.starts_with("cudart")) std::filesystem::copy(entry.path(), path(name));
    }
    write("user.c",
          "int cudaRuntimeGetVersion(int *); __declspec(dllexport) int user(int *v) { return cudaRuntimeGetVersion(v); "
          "}");
    run("clang --target=x86_64-pc-windows-msvc -c user.c -o user.obj");
  }

  RuntimeCopy linked_with(const std::string& library) const {
    run("lld-link /nologo /dll /noentry /nodefaultlib /force:unresolved user.obj " + library + " /out:user.dll");
    FileRecord record = read("user.dll");
    EXPECT_EQ(problems_of(record), "");
    EXPECT_EQ(record.runtime_copies.size(), 1u) << library;
    return record.runtime_copies.empty() ? RuntimeCopy{} : record.runtime_copies.front();
  }
};

TEST_P(WindowsRuntime, IsWhatItsLibrariesBring) {
  EXPECT_EQ(linked_with("cudart.lib").kind, GetParam().shared);
  RuntimeCopy copy = linked_with("cudart_static.lib");
  EXPECT_EQ(copy.kind, GetParam().linked_static);
  EXPECT_EQ(copy.api_level, GetParam().api_level);
}

TEST_P(WindowsRuntime, IsTheDllItself) {
  const std::string major = GetParam().release.substr(0, 2);
  FileRecord record = read("cudart64_" + major + ".dll");
  ASSERT_EQ(record.runtime_copies.size(), 1u);
  EXPECT_EQ(record.runtime_copies[0].kind, RuntimeCopyKind::shared_library);
  ASSERT_TRUE(record.vendor);
  EXPECT_EQ(record.vendor->name, "CUDA runtime");
  EXPECT_EQ(problems_of(record), "");
}

INSTANTIATE_TEST_SUITE_P(
    Releases, WindowsRuntime,
    testing::Values(Runtime{"12.9", RuntimeCopyKind::needs_shared, RuntimeCopyKind::private_static, 12080},
                    Runtime{"13.0", RuntimeCopyKind::driver_hybrid, RuntimeCopyKind::private_static, 13000},
                    Runtime{"13.5", RuntimeCopyKind::driver_hybrid, RuntimeCopyKind::driver_hybrid, std::nullopt}),
    [](const auto& info) { return "Cuda" + info.param.release.substr(0, 2) + "_" + info.param.release.substr(3); });

}  // namespace
}  // namespace cudeploy
