// A kernel and a variable of the program, used from a plugin: with a runtime of its own the plugin knows neither.
// Says "launch ERROR VALUE", "variable ERROR VALUE" and "cost NANOSECONDS"; exit code 77 and the reason without a GPU.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

__global__ void write_seven(int* out) { *out = 7; }
__device__ int program_variable;
__global__ void read_variable(int* out) { *out = program_variable; }
__global__ void nothing() {}

int main(int count, char** arguments) {
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("no GPU: %s\n", cudaGetErrorString(found));
    return 77;
  }
  int* out = nullptr;
  if (count != 2 || cudaMalloc(&out, sizeof *out) != cudaSuccess) return 1;
  cudaMemset(out, 0, sizeof *out);
  void* plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!plugin) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  auto* launch = reinterpret_cast<int (*)(const void*, int*)>(dlsym(plugin, "plugin_launch"));
  auto* write = reinterpret_cast<int (*)(const void*, int)>(dlsym(plugin, "plugin_write"));

  int value = 0;
  int error = launch(reinterpret_cast<const void*>(write_seven), out);
  cudaMemcpy(&value, out, sizeof value, cudaMemcpyDefault);
  std::printf("launch %d %d\n", error, value);

  error = write(&program_variable, 41);
  read_variable<<<1, 1>>>(out);
  cudaMemcpy(&value, out, sizeof value, cudaMemcpyDefault);
  std::printf("variable %d %d\n", error, value);

  // What one launch costs the caller: the median of rounds, so that the GPU's queue is never what is measured.
  constexpr int rounds = 31, launches = 500;
  double cost[rounds];
  for (double& round : cost) {
    cudaDeviceSynchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) nothing<<<1, 1>>>();
    round = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / launches;
  }
  std::nth_element(cost, cost + rounds / 2, cost + rounds);
  std::printf("cost %.0f\n", cost[rounds / 2]);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
