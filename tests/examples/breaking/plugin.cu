__global__ void half(float* value) { *value /= 2; }

extern "C" __attribute__((visibility("default"))) int halve(float* value) {
  half<<<1, 1>>>(value);
  return cudaGetLastError() != cudaSuccess;
}
