// A launch that is configured here is found there: one runtime state in program and module.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);

int main(int, char** words) {
  void* module = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  auto* pop = module ? reinterpret_cast<int (*)()>(dlsym(module, "pop")) : nullptr;
  if (!pop) return std::printf("%s\n", dlerror()), 2;
  __cudaPushCallConfiguration(dim3(1), dim3(1), 0, nullptr);
  const int error = pop();
  std::printf(error == 0 ? "one state\n" : "two states: error %d\n", error);
  return error;
}
