// What a plugin does with a kernel and a variable that it was handed: both belong to the program.
#include <cuda_runtime.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int plugin_launch(const void* kernel, int* out) {
  void* arguments[] = {&out};
  return cudaLaunchKernel(kernel, 1, 1, arguments, 0, nullptr);
}

EXPORTED int plugin_write(const void* symbol, int value) {
  const int error = cudaMemcpyToSymbol(symbol, &value, sizeof value);
  cudaGetLastError();
  return error;
}
