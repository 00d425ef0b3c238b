// Says which file its CUDA runtime comes from: the one in the bundle, wherever the bundle lies.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <vector>

#include "scale.hpp"

int main() {
  Dl_info file{};
  dladdr(reinterpret_cast<void*>(&cudaRuntimeGetVersion), &file);
  int runtime = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) return 1;
  std::printf("CUDA runtime %d.%d from %s\n", runtime / 1000, runtime % 1000 / 10, file.dli_fname);

  int gpus = 0;
  if (const cudaError_t none = cudaGetDeviceCount(&gpus); none != cudaSuccess || gpus == 0) {
    std::printf("no GPU to compute on: %s\n", cudaGetErrorString(none));
    return 0;
  }
  std::vector<float> numbers(1000, 3.0f);
  const int error = scale(numbers.data(), 1000, 2.0f);
  if (error != 0 || numbers.front() != 6.0f || numbers.back() != 6.0f) {
    std::printf("error %d, result %g, expected 6\n", error, numbers.front());
    return 1;
  }
  std::printf("1000 products computed and checked\n");
  return 0;
}
