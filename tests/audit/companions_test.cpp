// What is opened by name is told by the file's own data, never by the table alone, and a sentence is no name.
#include "companions.hpp"

#include <gtest/gtest.h>

#include "fixture.hpp"

namespace cudeploy {
namespace {

std::string opened(const std::string& soname, std::string_view stem, const std::vector<std::string>& texts,
                   std::vector<std::string> needed = {}) {
  FileRecord record;
  record.soname = soname;
  record.needed = std::move(needed);
  std::string all;
  for (const Companion& one : companions_of(record, stem, [&](std::span<const std::string_view> begins) {
         std::vector<std::string> found;
         for (const std::string& text : texts)
           for (const std::string_view begin : begins)
             if (text.starts_with(begin)) found.push_back(text);
         return found;
       }))
    all += one.name + (one.always ? "! " : " ");
  return all;
}

TEST(Companions, TakeTheVersionFromTheFile) {
  const std::vector<std::string> texts = {"libnvrtc-builtins.so.13.0", "libnvrtc-builtins.so.13.0.\n  Make sure that",
                                          "libnvrtc-builtins.so.13.0.", "libnvrtc-builtins.so.",
                                          "libnvrtc-builtins.so.13.x"};
  EXPECT_EQ(opened("libnvrtc.so.13", "libnvrtc", texts), "libnvrtc-builtins.so.13.0! ");
  EXPECT_EQ(opened("libnvrtc.so.13", "libnvrtc", {}), "");
  EXPECT_EQ(opened("libcublas.so.13", "libcublas", texts), "");
  EXPECT_EQ(opened("nvrtc64_120_0.alt.dll", "nvrtc", {"nvrtc-builtins.alt64_129.dll", "nvrtc-builtins.alt64_129.dll."}),
            "nvrtc-builtins.alt64_129.dll! ");
}

TEST(Companions, GiveThePartsOfCudnnItsMajor) {
  EXPECT_EQ(opened("libcudnn.so.9", "libcudnn", {"libcudnn_ops.so", "libcudnn_adv.so", "libcudnn_", "libcudnn_x.so.9"}),
            "libcudnn_adv.so.9! libcudnn_ops.so.9! ");
  EXPECT_EQ(opened("cudnn64_9.dll", "cudnn", {"cudnn_ops64_9.dll", "cudnn_graph64_9.dll", "cudnn_OpsVersion.dll"}),
            "cudnn_graph64_9.dll! cudnn_ops64_9.dll! ");
  // A part that is newer than the table, and the library itself.
  EXPECT_EQ(opened("cudnn_graph64_9.dll", "cudnn_graph",
                   {"cudnn_heuristic64_9.dll", "cudnn_graph64_9.dll", "cudnn_engines_precompiled64_9.dll"}),
            "cudnn_engines_precompiled64_9.dll! cudnn_heuristic64_9.dll! ");
  EXPECT_EQ(opened("libcudnn_graph.so.9.30.1", "libcudnn_graph",
                   {"libcudnn_graph.so", "libcudnn_engines_tensor_ir.so", "libcudnn_engines_tensor_ir.so"}),
            "libcudnn_engines_tensor_ir.so.9! ");
}

TEST(Companions, LeaveOutWhatIsNeededAnyway) {
  EXPECT_EQ(opened("libcusparse.so.12", "libcusparse", {"libnvJitLink.so.13"}), "libnvJitLink.so.13 ");
  EXPECT_EQ(opened("libcusparse.so.12", "libcusparse", {"libnvJitLink.so.13"}, {"libnvJitLink.so.13"}), "");
}

class CompanionsOfFile : public Fixture {};

TEST_F(CompanionsOfFile, AreReadFromTheData) {
  write("x.c", R"(
    const char *const name = "libnvrtc-builtins.so.13.9";
    const char *const text = "failed to open libnvrtc-builtins.so.13.8.";
    int nvrtcVersion(int *a, int *b) { return *a + *b; })");
  write("map", "libnvrtc.so.13 { global: *; };");
  run("gcc -shared -fPIC x.c -o libnvrtc.so.13 -Wl,-soname,libnvrtc.so.13,--version-script,map");
  const FileRecord record = read("libnvrtc.so.13");
  ASSERT_TRUE(record.vendor);
  ASSERT_EQ(record.vendor->opens.size(), 1u);
  EXPECT_EQ(record.vendor->opens[0].name, "libnvrtc-builtins.so.13.9");
}

}  // namespace
}  // namespace cudeploy
