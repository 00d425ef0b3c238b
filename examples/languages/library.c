/* A library that brings a CUDA runtime of its own. In one process with a program or another library that was linked the
 * same way, only one of the runtimes works. */
#include <cuda_runtime_api.h>

/* 13000 = 13.0; 0 = CUDA 11 without a driver, which does not answer. */
int library_runtime_version(void) {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}
