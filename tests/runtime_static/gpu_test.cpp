// What one state is for: a kernel of the program launched by a plugin, a variable of one written by the other. Only a
// GPU can show it; without one these tests build everything, then say why they stop there.
#include <gtest/gtest.h>

#include <cstdio>

#include "workshop.hpp"

namespace cudeploy::test {
namespace {

enum class Linkage { plain, unified, shared };

Outcome run_on_gpu(Linkage linkage) {
  const std::string nvcc = CUDEPLOY_TEST_NVCC_PATH;
  Workshop shop;
  const std::string programs = std::string(CUDEPLOY_TREE) + "/tests/runtime_static/programs/";
  // The oldest generation that CUDA 13 makes code for, with PTX for all newer ones.
  for (const char* name : {"gpu_program", "gpu_plugin"})
    must({nvcc, "-c", "-std=c++17", "-Xcompiler", "-fPIC", "-arch=sm_75", programs + name + ".cu", "-o",
          shop.path(std::string(name) + ".o")});
  Words runtime;
  switch (linkage) {
    case Linkage::plain:
      runtime = {toolkit_archive(), "-lpthread", "-ldl", "-lrt"};
      break;
    case Linkage::unified:
      runtime = kit().link;
      break;
    case Linkage::shared:
      runtime = {toolkit_shared_library(),
                 "-Wl,-rpath," + std::filesystem::path(toolkit_shared_library()).parent_path().string()};
      break;
  }
  Words plugin = {"g++", "-shared", shop.path("gpu_plugin.o"), "-o", shop.path("gpu_plugin.so")};
  Words program = {"g++", shop.path("gpu_program.o"), "-o", shop.path("gpu_program"), "-ldl"};
  for (Words* command : {&plugin, &program}) {
    command->insert(command->end(), runtime.begin(), runtime.end());
    must(*command);
  }
  return run({shop.path("gpu_program"), shop.path("gpu_plugin.so")});
}

#define SKIP_WITHOUT_GPU(outcome) \
  if ((outcome).status == 77) GTEST_SKIP() << (outcome).out

/// The number behind a word at the start of a line.
int number_after(const std::string& text, const std::string& word, int which) {
  for (const std::string& line : lines_of(text)) {
    int first = 0, second = 0;
    if (std::sscanf(line.c_str(), (word + " %d %d").c_str(), &first, &second) >= 1) return which == 0 ? first : second;
  }
  ADD_FAILURE() << "no line '" << word << " …' in: " << text;
  return -1;
}

TEST(Gpu, PlainCopiesKnowNeitherKernelNorVariableOfEachOther) {
  const Outcome outcome = run_on_gpu(Linkage::plain);
  SKIP_WITHOUT_GPU(outcome);
  EXPECT_NE(number_after(outcome.out, "launch", 0), 0) << outcome.out;
  EXPECT_NE(number_after(outcome.out, "launch", 1), 7) << outcome.out;
  EXPECT_NE(number_after(outcome.out, "variable", 0), 0) << outcome.out;
  EXPECT_NE(number_after(outcome.out, "variable", 1), 41) << outcome.out;
}

TEST(Gpu, UnifiedCopiesShareKernelsAndVariables) {
  const Outcome outcome = run_on_gpu(Linkage::unified);
  SKIP_WITHOUT_GPU(outcome);
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("launch 0 7\nvariable 0 41\n"), std::string::npos) << outcome.out;
}

/// Shown, not judged: what a machine's clock says is no verdict.
TEST(Gpu, LaunchCost) {
  const Outcome plain = run_on_gpu(Linkage::plain);
  const Outcome unified = run_on_gpu(Linkage::unified);
  const Outcome shared = run_on_gpu(Linkage::shared);
  SKIP_WITHOUT_GPU(shared);
  const int cost[] = {number_after(plain.out, "cost", 0), number_after(unified.out, "cost", 0),
                      number_after(shared.out, "cost", 0)};
  for (const int nanoseconds : cost) EXPECT_GT(nanoseconds, 0);
  std::printf("launch, median: static %d ns, unified %d ns, shared %d ns\n", cost[0], cost[1], cost[2]);
}

}  // namespace
}  // namespace cudeploy::test
