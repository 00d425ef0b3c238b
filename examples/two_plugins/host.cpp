// Opens two plugins as hosts do, each for itself (RTLD_LOCAL), and asks whether they share one CUDA runtime: what one
// half of a kernel call notes through the left plugin, does the other half find it through the right one?
#include <dlfcn.h>

#include <cstdio>
#include <vector>

#include "plugin.h"

namespace {

const plugin* open_plugin(const char* file) {
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::printf("%s\n", dlerror());
    return nullptr;
  }
  auto get = reinterpret_cast<const plugin* (*)()>(dlsym(handle, "two_plugins_plugin"));
  return get == nullptr ? nullptr : get();
}

}  // namespace

int main() {
  const plugin* left = open_plugin("libleft.so");
  const plugin* right = open_plugin("libright.so");
  if (left == nullptr || right == nullptr) return 2;

  bool one = true;
  unsigned blocks = 0, threads = 0;
  left->configure_launch(3, 128);
  const int taken = right->take_launch(&blocks, &threads);
  if (taken == 0 && blocks == 3 && threads == 128) {
    std::printf("launch: configured through left, taken through right\n");
  } else {
    std::printf("launch: configured through left, not there for right (error %d): the kernel would never run\n", taken);
    one = false;
  }

  const int gpus = left->gpus();
  if (gpus == 0) {
    std::printf("no GPU here, so no kernel is run\n");
  } else {
    const int failed = left->fail();
    const int seen = right->last_error();
    std::printf("last error: %d was left behind through left, right sees %d\n", failed, seen);
    one = one && failed == seen;
    std::vector<float> numbers(1000, 1.0f);
    const int error_left = left->add(numbers.data(), 1000, 2.0f);
    const int error_right = right->add(numbers.data(), 1000, 4.0f);
    if (error_left != 0 || error_right != 0 || numbers.front() != 7.0f || numbers.back() != 7.0f) {
      std::printf("kernels: errors %d and %d, sum %g, expected 7\n", error_left, error_right, numbers.front());
      return 1;
    }
    std::printf("kernels: of both plugins, on the same numbers, checked\n");
  }
  std::printf(one ? "one CUDA runtime state\n" : "two CUDA runtime states\n");
  return one ? 0 : 1;
}
