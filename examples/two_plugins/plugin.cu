// A plugin that is self-contained: it brings its CUDA runtime along, as libcudart_static.a. Compiled twice, as left and
// as right; neither knows of the other.
#include "plugin.h"

// The two halves that nvcc makes of kernel<<<blocks, threads>>>(): the caller's side notes the configuration in its
// runtime, the kernel's side takes it from its own. They are the same runtime, or the launch is lost.
extern "C" unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, size_t shared_bytes,
                                                struct CUstream_st* stream);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, size_t* shared_bytes, void* stream);

namespace {

__global__ void add_kernel(float* numbers, int count, float value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] += value;
}

int configure_launch(unsigned blocks, unsigned threads) {
  return static_cast<int>(__cudaPushCallConfiguration(blocks, threads, 0, nullptr));
}

int take_launch(unsigned* blocks, unsigned* threads) {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  const cudaError_t error = __cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream);
  if (error == cudaSuccess) {
    *blocks = grid.x;
    *threads = block.x;
  }
  return error;
}

int fail() { return cudaSetDevice(-1); }

int last_error() { return cudaGetLastError(); }

int add(float* numbers, int count, float value) {
  const size_t bytes = sizeof(float) * count;
  float* device = nullptr;
  cudaError_t error = cudaMalloc(&device, bytes);
  if (error == cudaSuccess) error = cudaMemcpy(device, numbers, bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    add_kernel<<<(count + 255) / 256, 256>>>(device, count, value);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(numbers, device, bytes, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return error;
}

int gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();  // a machine without a GPU leaves an error behind, which is nobody's fault
  return count;
}

const struct plugin functions = {configure_launch, take_launch, fail, last_error, add, gpus};

}  // namespace

__attribute__((visibility("default"))) const struct plugin* two_plugins_plugin(void) { return &functions; }
