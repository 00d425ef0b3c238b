// The entries and the binder for aarch64, cross-compiled against NVIDIA's aarch64 runtime and run under qemu-user. More
// of what is asked of each machine: names_test.cpp, ending_test.cpp, report_test.cpp.
#include <gtest/gtest.h>

#include "workshop.hpp"

namespace cudeploy::test {
namespace {

TEST(Aarch64, OneStateUnderAnEmulator) {
  if (const std::string missing = missing_for(Machine::aarch64); !missing.empty()) GTEST_SKIP() << missing;
  const Kit& runtime = kit({.machine = Machine::aarch64});
  Workshop shop(Machine::aarch64);
  for (const char* name : {"a", "b"}) shop.plugin(name, &runtime);
  shop.plugin("plain", nullptr);
  shop.host(&runtime);
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop a.version self.push 9 a.pop").out, "0\n7\n13000\n0\n9\n");
  EXPECT_EQ(shop.tell("open a open plain a.push 7 plain.pop b.x").out.substr(0, 6), "0\n-52\n");
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop", {"CUDEPLOY_UNIFY=0"}).out, "0\n-52\n");
  const std::string shown = must({tool(Machine::aarch64, "nm"), "-D", "--with-symbol-versions", shop.path("a.so")});
  EXPECT_NE(shown.find("cudeploy_anchor@@CUDEPLOY_13_1"), std::string::npos);
  // Forward control-flow protection asks for landing pads at each entry.
  const Kit& guarded = kit({.flags = {"-mbranch-protection=standard"}, .machine = Machine::aarch64});
  for (const char* name : {"a", "b"}) shop.plugin(name, &guarded, {"-mbranch-protection=standard"});
  EXPECT_EQ(shop.tell("open a open b a.push 7 b.pop").out, "0\n7\n");
}

}  // namespace
}  // namespace cudeploy::test
