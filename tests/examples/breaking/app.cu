__global__ void twice(float* value) { *value *= 2; }

int main() {
  float* value = nullptr;
  if (cudaMalloc(&value, sizeof *value) != cudaSuccess) return 0;
  twice<<<1, 1>>>(value);
  return cudaDeviceSynchronize() != cudaSuccess;
}
