// Binding has no lock. Whether it is right all the same is asked of many threads that load, call first and unload
// at once, with the sanitizers looking on. The runtime archive itself is not instrumented, so only reports with one
// of our frames count.
#include <gtest/gtest.h>

#include "workshop.hpp"

namespace cudeploy::test {
namespace {

struct Watch {
  const char* name;
  Words flags;
  int threads, rounds, processes;
};

void PrintTo(const Watch& watch, std::ostream* out) { *out << watch.name; }

class Stress : public ::testing::TestWithParam<Watch> {};

TEST_P(Stress, ThreadsThatLoadCallFirstAndUnload) {
  const Watch& watch = GetParam();
  Workshop shop;
  Words flags = watch.flags;
  flags.push_back("-g");
  const Kit& runtime = kit({.flags = watch.flags});
  constexpr int plugins = 8;
  for (int i = 0; i < plugins; ++i) {
    shop.plugin("p" + std::string(i, '0') + std::to_string(i), &runtime, flags, watch.flags);
  }
  Words command = {"gcc", shop.object("stress", "stress.c", flags), "-o", shop.path("stress"), "-lpthread", "-ldl"};
  command.insert(command.end(), watch.flags.begin(), watch.flags.end());
  must(command);
  constexpr const char* ours[] = {"join.cpp", "report.cpp", "loaded_object.hpp", "entries.cpp", "cudeploy_"};
  for (int i = 0; i < watch.processes; ++i) {
    const Outcome outcome =
        run({shop.path("stress"), std::to_string(watch.threads), std::to_string(watch.rounds), std::to_string(plugins)},
            {"TSAN_OPTIONS=exitcode=0 report_thread_leaks=0", "ASAN_OPTIONS=detect_leaks=0"});
    ASSERT_EQ(outcome.status, 0) << outcome.out.substr(0, 4000);
    EXPECT_NE(outcome.out.find("one state\n"), std::string::npos) << outcome.out.substr(0, 4000);
    for (const char* frame : ours)
      EXPECT_EQ(outcome.out.find(frame), std::string::npos) << frame << " in " << outcome.out.substr(0, 4000);
  }
}

INSTANTIATE_TEST_SUITE_P(Watched, Stress,
                         ::testing::Values(Watch{"plain", {}, 64, 20, 5},
                                           Watch{"thread_sanitizer", {"-fsanitize=thread"}, 64, 4, 1},
                                           Watch{"address_sanitizer", {"-fsanitize=address"}, 64, 4, 1},
                                           Watch{"undefined_behaviour", {"-fsanitize=undefined"}, 16, 4, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cudeploy::test
