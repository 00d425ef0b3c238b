// extern "C": the kernel is found by this very name.
extern "C" __global__ void square(float* numbers, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] *= numbers[i];
}
