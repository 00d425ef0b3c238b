// A kernel that calls a device function of another file, and that starts another kernel from the GPU.
#include <cstdio>
#include <vector>

#include "polynomial.cuh"

namespace {

__global__ void evaluate(float* numbers, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] = polynomial(numbers[i]);
}

__global__ void start(float* numbers, int count) { evaluate<<<(count + 255) / 256, 256>>>(numbers, count); }

}  // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("no GPU to compute on\n");
    return 0;
  }
  const int count = 1000;
  std::vector<float> numbers(count);
  for (int i = 0; i < count; ++i) numbers[i] = static_cast<float>(i);
  float* device = nullptr;
  cudaError_t error = cudaMalloc(&device, sizeof(float) * count);
  if (error == cudaSuccess) error = cudaMemcpy(device, numbers.data(), sizeof(float) * count, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    start<<<1, 1>>>(device, count);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(numbers.data(), device, sizeof(float) * count, cudaMemcpyDeviceToHost);
  cudaFree(device);
  if (error != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorString(error));
    return 1;
  }
  for (int i = 0; i < count; ++i) {
    const float x = static_cast<float>(i);
    if (numbers[i] != (2 * x + 3) * x + 5) {
      std::printf("wrong value at %d: %g\n", i, numbers[i]);
      return 1;
    }
  }
  std::printf("%d values computed and checked\n", count);
  return 0;
}
