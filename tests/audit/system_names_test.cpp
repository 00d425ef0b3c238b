#include "system_names.hpp"

#include <gtest/gtest.h>

namespace cudeploy {
namespace {

TEST(Names, OfTheDriver) {
  for (const char* name :
       {"libcuda.so.1", "libcuda.so", "libcuda.so.570.133.07", "libcuda-984fdb42.so.570.133.07", "libnvidia-ml.so.1",
        "libnvidia-nvvm70.so.4", "libnvidia-gpucomp.so.615.71.08", "libnvcuvid.so.1", "nvcuda.dll", "NvCuda.DLL",
        "nvcudart_hybrid64.dll", "nvcudart_hybrida64.dll"})
    EXPECT_TRUE(is_driver_name(name)) << name;
  for (const char* name : {"libcudart.so.13", "libcudadevrt.a", "libcuda", "libcudaq.so", "libcuda.sox",
                           "libcuda-old.so", "cudart64_13.dll", "libnvidia", "nvcuda.dll.txt", ""})
    EXPECT_FALSE(is_driver_name(name)) << name;
}

TEST(Names, OfTheBaseSystem) {
  for (const char* name :
       {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libstdc++.so.6", "libgcc_s.so.1", "KERNEL32.dll",
        "api-ms-win-core-synch-l1-2-0.dll", "VCRUNTIME140_1.dll", "ws2_32.dll"})
    EXPECT_TRUE(is_base_system_name(name)) << name;
  for (const char* name :
       {"libz.so.1", "libgomp.so.1", "libcudart.so.13", "libc.so.7", "cublas64_13.dll", "python311.dll"})
    EXPECT_FALSE(is_base_system_name(name)) << name;
}

}  // namespace
}  // namespace cudeploy
