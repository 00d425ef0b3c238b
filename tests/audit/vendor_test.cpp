// Whose file is it? The soname alone must never decide, and the file's name not at all.
#include <gtest/gtest.h>

#include "fixture.hpp"
#include "vendor.hpp"

namespace cudeploy {
namespace {

FileRecord library(const std::string& soname, std::vector<std::string> nodes = {}) {
  FileRecord record;
  record.format = Format::elf;
  record.type = "shared";
  record.soname = soname;
  record.version_definitions = std::move(nodes);
  record.needed = {"libc.so.6"};
  return record;
}

std::optional<Vendor> recognise(const FileRecord& record, const std::vector<std::string>& names = {},
                                std::string text = "") {
  std::vector<ExportedFunction> exports;
  bool driver_api = false;
  for (auto& name : names) {
    driver_api = driver_api || name == "cuInit";
    exports.push_back({name, false});
  }
  VendorClues clues;
  clues.exports = [&]() -> const std::vector<ExportedFunction>& { return exports; };
  clues.holds_text = [&](std::string_view wanted) { return text.find(wanted) != std::string::npos; };
  clues.texts = [](std::span<const std::string_view>) { return std::vector<std::string>(); };
  clues.names_driver_api = driver_api;
  return recognise_vendor(record, clues);
}

const std::vector<std::string> kDriverApi = {"cuInit", "cuDriverGetVersion", "cuCtxGetCurrent", "cuModuleLoadData",
                                             "cuLaunchKernel"};

TEST(Vendor, StripsVersionsAndHashes) {
  EXPECT_EQ(library_stem("libcublas.so.13"), "libcublas");
  EXPECT_EQ(library_stem("libcublas-1f2e3d4c.so.12.4.5.8"), "libcublas");
  EXPECT_EQ(library_stem("libnvrtc-builtins.so.13.0"), "libnvrtc-builtins");
  EXPECT_EQ(library_stem("libnvrtc-builtins.alt.so.13.0"), "libnvrtc-builtins.alt");
  EXPECT_EQ(library_stem("libx.sofa"), "");
  EXPECT_EQ(library_stem("x.dll"), "");
}

TEST(Vendor, NeedsTheVersionNodeToo) {
  auto found = recognise(library("libcublas.so.13", {"libcublas.so.13"}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "cuBLAS");
  EXPECT_EQ(found->role, Vendor::Role::toolkit);
  EXPECT_TRUE(recognise(library("libcublas-1f2e3d4c.so.12.4.5.8", {"libcublas.so.12"})));
  EXPECT_FALSE(recognise(library("libcublas.so.13")));
  EXPECT_FALSE(recognise(library("libcublas.so.13", {"MY_LIBRARY"})));
  EXPECT_FALSE(recognise(library("libmine.so.1", {"libcublas.so.13"})));
}

TEST(Vendor, TakesExportsWhereThereIsNoNode) {
  EXPECT_FALSE(recognise(library("libnccl.so.2")));
  EXPECT_FALSE(recognise(library("libnccl.so.2"), {"ncclAllReduce"}));
  EXPECT_TRUE(recognise(library("libnccl.so.2"), {"ncclCommInitRank", "ncclGetUniqueId", "ncclAllReduce"}));
}

TEST(Vendor, KnowsTheDriverByWhatItDoes) {
  auto driver = recognise(library("libcuda-984fdb42.so.570.133.07"), kDriverApi, "open /dev/nvidiactl");
  ASSERT_TRUE(driver);
  EXPECT_EQ(driver->role, Vendor::Role::driver);
  EXPECT_TRUE(recognise(library("libanything.so"), kDriverApi, "/dev/nvidia-uvm"));
  // A replacement that only offers the API is not NVIDIA's; neither is a program that only calls it.
  EXPECT_FALSE(recognise(library("libcuda.so.1"), kDriverApi, ""));
  EXPECT_FALSE(recognise(library("libcuda.so.1"), {"cuInit"}, "/dev/nvidiactl"));
}

TEST(Vendor, KnowsTheStubByWhatItLacks) {
  FileRecord record = library("libcuda.so.1");
  record.needed.clear();
  auto stub = recognise(record, kDriverApi);
  ASSERT_TRUE(stub);
  EXPECT_EQ(stub->role, Vendor::Role::driver_stub);
}

class VendorFile : public Fixture {};

TEST_F(VendorFile, RealStubIsAStub) {
  auto stub = std::filesystem::path(CUDEPLOY_CUDART_STATIC).parent_path() / "stubs/libcuda.so";
  if (!std::filesystem::exists(stub)) GTEST_SKIP() << "not applicable: this toolkit has no driver stub: " << stub;
  std::filesystem::copy(stub, path("libmine.so"));
  FileRecord record = read("libmine.so");
  ASSERT_TRUE(record.vendor);
  EXPECT_EQ(record.vendor->role, Vendor::Role::driver_stub);
}

TEST_F(VendorFile, LookAlikeIsNot) {
  write("x.c", "int cublasCreate_v2(void *h) { return h != 0; }");
  run("gcc -shared -fPIC x.c -o libcublas.so.13 -Wl,-soname,libcublas.so.13");
  EXPECT_FALSE(read("libcublas.so.13").vendor);
}

}  // namespace
}  // namespace cudeploy
