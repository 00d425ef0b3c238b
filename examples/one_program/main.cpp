// Says which CUDA runtime it brings and which driver the machine has, then adds two vectors on the GPU and checks
// the sum. A machine without a GPU is no fault of the program: it says so and ends well.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <vector>

#include "add.hpp"

namespace {

void print_version(const char* what, int version) {
  if (version == 0) {
    std::printf("%s: 0 (none)\n", what);
  } else {
    std::printf("%s: %d.%d\n", what, version / 1000, version % 1000 / 10);
  }
}

}  // namespace

int main() {
  int runtime = CUDART_VERSION;
  int driver = 0;
  cudaRuntimeGetVersion(&runtime);  // before CUDA 12 it answers only where there is a driver
  cudaDriverGetVersion(&driver);
  print_version("CUDA runtime of this program", runtime);
  print_version("CUDA version of the driver", driver);

  int gpus = 0;
  const cudaError_t error = cudaGetDeviceCount(&gpus);
  if (driver == 0 || error == cudaErrorNoDevice || (error == cudaSuccess && gpus == 0)) {
    std::printf("no GPU to compute on: %s\n",
                driver == 0 ? "this machine has no NVIDIA driver; install the one of its GPU"
                            : "the driver finds none; look whether this machine or container is given one");
    return 0;
  }
  if (error == cudaErrorInsufficientDriver) {
    std::printf(
        "the driver is too old for this program: it knows CUDA %d.%d, the program is of CUDA %d.%d; install a "
        "newer driver\n",
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return 1;
  }
  if (error != cudaSuccess) {
    std::printf("the GPU cannot be used: %s\n", cudaGetErrorString(error));
    return 1;
  }

  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  const int count = 1 << 20;
  std::vector<float> a(count), b(count), sum(count);
  for (int i = 0; i < count; ++i) {
    a[i] = static_cast<float>(i % 1000);
    b[i] = static_cast<float>(i % 777) / 2;
  }
  if (const char* why = add_on_gpu(a.data(), b.data(), sum.data(), count)) {
    std::printf("%s (compute capability %d.%d): %s\n", properties.name, properties.major, properties.minor, why);
    return 1;
  }
  for (int i = 0; i < count; ++i) {
    if (sum[i] != a[i] + b[i]) {
      std::printf("wrong sum at %d: %g, expected %g\n", i, sum[i], a[i] + b[i]);
      return 1;
    }
  }
  std::printf("%s (compute capability %d.%d): %d sums computed and checked\n", properties.name, properties.major,
              properties.minor, count);
  return 0;
}
