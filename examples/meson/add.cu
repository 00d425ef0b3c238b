#include <cstdio>

static __global__ void add(const int* a, const int* b, int* sum) { *sum = *a + *b; }

int main() {
  int version = CUDART_VERSION, gpus = 0;
  cudaRuntimeGetVersion(&version);  // before CUDA 12 it answers only where there is a driver
  std::printf("CUDA runtime of this program: %d.%d\n", version / 1000, version % 1000 / 10);
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("no GPU to compute on\n");
    return 0;
  }
  int* numbers = nullptr;
  if (cudaMallocManaged(&numbers, 3 * sizeof(int)) != cudaSuccess) return 1;
  numbers[0] = 2;
  numbers[1] = 3;
  add<<<1, 1>>>(numbers, numbers + 1, numbers + 2);
  if (cudaDeviceSynchronize() != cudaSuccess || numbers[2] != 5) return 1;
  std::printf("2 + 3 = %d\n", numbers[2]);
  return 0;
}
