#include "add.hpp"

namespace {

__global__ void add(const float* a, const float* b, float* sum, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + b[i];
}

}  // namespace

const char* add_on_gpu(const float* a, const float* b, float* sum, int count) {
  const size_t bytes = sizeof(float) * count;
  float* device = nullptr;  // a, b and the sum behind each other
  cudaError_t error = cudaMalloc(&device, 3 * bytes);
  if (error == cudaSuccess) error = cudaMemcpy(device, a, bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) error = cudaMemcpy(device + count, b, bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    const int threads = 256;
    add<<<(count + threads - 1) / threads, threads>>>(device, device + count, device + 2 * count, count);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(sum, device + 2 * count, bytes, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
