// Which major a library is of is told by its name, and names changed with the releases.
#include "runtime_states.hpp"

#include <gtest/gtest.h>

namespace cudeploy {
namespace {

TEST(RuntimeLibrary, SaysItsMajorByItsName) {
  using Case = std::pair<const char*, std::optional<int>>;
  for (const auto& [name, major] :
       {Case("libcudart.so.13", 13), Case("libcudart.so.11.0", 11), Case("libcudart-0a1b2c3d.so.12.4.127", 12),
        Case("libcudart.so", {}), Case("cudart64_13.dll", 13), Case("CUDART64_12.DLL", 12),
        Case("cudart64_110.dll", 11), Case("cudart64_101.dll", 10), Case("cudart64_80.dll", 8),
        Case("cudart64_12-0123456789abcdef.dll", 12), Case("cudart.dll", {}), Case("libcublas.so.12", {})})
    EXPECT_EQ(major_of_library(name), major) << name;
}

}  // namespace
}  // namespace cudeploy
