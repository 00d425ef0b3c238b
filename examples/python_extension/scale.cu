// The part that knows CUDA. Numbers as the caller says: what is not asked of the GPU works without one.
static __global__ void scale_kernel(float* numbers, int count, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] *= factor;
}

/// CUDA version of the runtime that answers, 13000 = 13.0. Before CUDA 12 it answers only where there is a driver.
int runtime_version() {
  int version = CUDART_VERSION;
  cudaRuntimeGetVersion(&version);
  return version;
}

/// numbers[i] *= factor for i in [0, count), on the current GPU. Null, or why it failed.
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
