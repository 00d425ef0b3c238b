#include "scale.hpp"

namespace {

__global__ void scale_kernel(float* numbers, int count, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] *= factor;
}

}  // namespace

int runtime_version() {
  int version = CUDART_VERSION;
  cudaRuntimeGetVersion(&version);
  return version;
}

const char* scale(float* numbers, int count, float factor) {
  const size_t bytes = sizeof(float) * count;
  float* device = nullptr;
  cudaError_t error = cudaMalloc(&device, bytes);
  if (error == cudaSuccess) error = cudaMemcpy(device, numbers, bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    scale_kernel<<<(count + 255) / 256, 256>>>(device, count, factor);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(numbers, device, bytes, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
