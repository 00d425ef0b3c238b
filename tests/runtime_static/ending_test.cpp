// While a process ends, objects are finalised one after the other, and the serving copy ends with its object. Calls
// that come later answer 4 (cudaErrorCudartUnloading) or what they always answer; they never crash. Which it is
// depends on where the serving copy lies: the table in runtime_static/README.md, held here.
#include <gtest/gtest.h>

#include <sstream>

#include "workshop.hpp"

namespace cudeploy::test {
namespace {

/// "self atexit", "a destructor", … in the order in which they called, each with " 4" behind it when it was told
/// that the runtime had ended.
Words calls_at_the_end(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  Words calls;
  for (const auto& line : lines_of(outcome.out)) {
    if (!line.starts_with("end ")) continue;
    std::istringstream words(line.substr(4));
    std::string who, when, word;
    int version = 0, push = 0, pop = 0, count = 0;
    words >> who >> when >> word >> version >> word >> push >> word >> pop >> word >> count;
    EXPECT_TRUE(version > 0 || version == -4) << line;
    EXPECT_TRUE(push == 0 || push == 4) << line;
    EXPECT_TRUE(pop == 1 || pop == -4) << line;
    when.pop_back();  // the colon
    calls.push_back(who + " " + when + (count == 4 ? " 4" : ""));
  }
  return calls;
}

class Ending : public OnEachMachine {
 protected:
  Workshop shop{GetParam()};
  const Kit* runtime = nullptr;

  void SetUp() override {
    OnEachMachine::SetUp();
    if (!IsSkipped()) runtime = &kit({.machine = GetParam()});
  }
};

TEST_P(Ending, ServingCopyInTheProgram) {
  shop.plugin("a", runtime, {"-DCALL_AT_END=a"});
  shop.host(runtime, {"-DCALL_AT_END=self"});
  EXPECT_EQ(calls_at_the_end(shop.tell("self.push 1 open a a.pop")),
            (Words{"a atexit", "self atexit", "self destructor 4", "a destructor 4"}));
}

TEST_P(Ending, ServingCopyInALibraryOfTheProgram) {
  shop.plugin("a", runtime, {"-DCALL_AT_END=a"});
  shop.host(runtime, {"-DCALL_AT_END=self"}, {"-Wl,--no-as-needed", shop.path("a.so")});
  const Outcome outcome = shop.tell("self.push 1 self.server");
  EXPECT_EQ(outcome.out.substr(0, 7), "0\na.so\n") << "a library serves rather than the program";
  EXPECT_EQ(calls_at_the_end(outcome), (Words{"self atexit", "self destructor", "a destructor", "a atexit"}));
}

TEST_P(Ending, ServingCopyInAPlugin) {
  for (const std::string name : {"a", "b"}) shop.plugin(name, runtime, {"-DCALL_AT_END=" + name});
  shop.host(runtime, {"-DCALL_AT_END=self"});
  EXPECT_EQ(calls_at_the_end(shop.tell("open a a.push 1 self.pop")),
            (Words{"a atexit", "self atexit 4", "self destructor 4", "a destructor 4"}));
  EXPECT_EQ(calls_at_the_end(shop.tell("open a a.push 1 open b b.pop")),
            (Words{"b atexit", "a atexit", "self atexit 4", "self destructor 4", "a destructor 4", "b destructor 4"}));
}

TEST_P(Ending, PlainCopiesForComparison) {
  shop.plugin("p", nullptr, {"-DCALL_AT_END=p"});
  shop.host(nullptr, {"-DSELF"},
            {shop.object("self", "probe.c", {"-DCALL_AT_END=self"}), toolkit_archive(GetParam()), "-lpthread", "-ldl",
             "-lrt"});
  const Outcome outcome = shop.tell("self.push 1 open p p.pop");
  EXPECT_TRUE(outcome.out.starts_with("0\n-52\n")) << "each has a state of its own: " << outcome.out;
  EXPECT_EQ(calls_at_the_end(outcome), (Words{"p atexit", "self atexit", "self destructor 4", "p destructor 4"}));
}

CUDEPLOY_ON_EACH_MACHINE(Ending);

}  // namespace
}  // namespace cudeploy::test
