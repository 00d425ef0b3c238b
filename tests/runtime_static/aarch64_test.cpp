// The entries and the binder for aarch64, cross-compiled against NVIDIA's aarch64 runtime and run under qemu-user.
#include <gtest/gtest.h>

#include "workshop.hpp"

namespace cudeploy::test {
namespace {

TEST(Aarch64, OneStateUnderAnEmulator) {
  for (const char* program : {"aarch64-linux-gnu-g++", "qemu-aarch64"}) {
    if (!has_program(program)) GTEST_SKIP() << program << " is not installed";
  }
  const std::string part = real_part("cudart-aarch64-13.0");
  if (part.empty()) GTEST_SKIP() << "the part cudart-aarch64-13.0 is not available";
  const std::string compiler = "aarch64-linux-gnu-g++";
  const Kit& runtime = kit({.archive = part + "/nvidia/cu13/lib/libcudart_static.a", .compiler = compiler});
  Workshop shop;
  shop.launcher = {"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"};
  for (const char* name : {"a", "b"}) shop.plugin(name, &runtime, {}, {}, compiler);
  shop.plugin("plain", nullptr, {}, {}, compiler, runtime.archive);
  shop.host(&runtime, {}, {}, compiler);
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop a.version self.push 9 a.pop").out, "0\n7\n13000\n0\n9\n");
  EXPECT_EQ(shop.tell("open a open plain a.push 7 plain.pop b.x").out.substr(0, 6), "0\n-52\n");
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop", {"CUDEPLOY_UNIFY=0"}).out, "0\n-52\n");
  const std::string shown = must({"aarch64-linux-gnu-nm", "-D", "--with-symbol-versions", shop.path("a.so")});
  EXPECT_NE(shown.find("cudeploy_anchor@@CUDEPLOY_13_1"), std::string::npos);
  // Forward control-flow protection asks for landing pads at each entry.
  const Kit& guarded =
      kit({.archive = runtime.archive, .compiler = compiler, .flags = {"-mbranch-protection=standard"}});
  for (const char* name : {"a", "b"}) shop.plugin(name, &guarded, {"-mbranch-protection=standard"}, {}, compiler);
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop").out, "0\n7\n");
}

}  // namespace
}  // namespace cudeploy::test
