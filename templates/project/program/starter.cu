// Doubles numbers on the GPU and checks them. A machine without a GPU is no fault of the program: it says so and ends
// well.
#include <cstdio>
#include <vector>

namespace {

__global__ void twice(float* numbers, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] *= 2;
}

cudaError_t twice_on_gpu(std::vector<float>& numbers) {
  const size_t bytes = numbers.size() * sizeof(float);
  const int count = static_cast<int>(numbers.size());
  float* device = nullptr;
  cudaError_t error = cudaMalloc(&device, bytes);
  if (error == cudaSuccess) error = cudaMemcpy(device, numbers.data(), bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    twice<<<(count + 255) / 256, 256>>>(device, count);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(numbers.data(), device, bytes, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return error;
}

}  // namespace

int main() {
  int driver = 0, gpus = 0;
  cudaDriverGetVersion(&driver);
  std::printf("CUDA version of the driver: %d.%d\n", driver / 1000, driver % 1000 / 10);
  if (const cudaError_t error = cudaGetDeviceCount(&gpus); error != cudaSuccess || gpus == 0) {
    std::printf("no GPU to compute on: %s\n", cudaGetErrorString(error));
    return 0;
  }
  std::vector<float> numbers(1000, 21.0f);
  const cudaError_t error = twice_on_gpu(numbers);
  if (error != cudaSuccess || numbers.front() != 42 || numbers.back() != 42) {
    std::printf("error: %s, result %g, expected 42\n", cudaGetErrorString(error), numbers.front());
    return 1;
  }
  std::printf("1000 products computed and checked\n");
  return 0;
}
