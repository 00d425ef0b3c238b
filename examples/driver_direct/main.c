/* What the CUDA runtime does for a program, done by hand: find the driver, make a context, load the device code, look
 * the kernel up, launch it. Nothing of CUDA is linked; the program starts on every machine and needs only the driver.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

#include "square_fatbin.h"

/* The driver's functions by name, through the one function that is looked up in the library itself. The version says
 * which form of a function is meant; the driver gives that form, however new it is. */
typedef CUresult (*get_proc_address_t)(const char*, void**, int, cuuint64_t);
static get_proc_address_t get_proc_address;
static const int wanted_version = 11030;

static void* driver_function(const char* name) {
  void* address = NULL;
  if (get_proc_address(name, &address, wanted_version, 0) != CUDA_SUCCESS) return NULL;
  return address;
}

static CUresult (*get_error_string)(CUresult, const char**);

static int failed(const char* step, CUresult error) {
  const char* text = "unknown error";
  if (error == CUDA_SUCCESS) return 0;
  get_error_string(error, &text);
  printf("%s: error %d: %s\n", step, (int)error, text);
  return 1;
}

int main(void) {
  enum { count = 1000, threads = 256 };
  float numbers[count];
  int i, version = 0, gpus = 0;
  CUresult error;
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction kernel;
  CUdeviceptr memory;

  /* 1. The driver. By its soname: libcuda.so, without a number, is a file for linkers and often absent. */
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  printf("device code in this program: %lu bytes\n", (unsigned long)square_fatbin_size);
  if (driver == NULL) {
    printf("no GPU to compute on: this machine has no NVIDIA driver\n");
    return 0;
  }
  *(void**)&get_proc_address = dlsym(driver, "cuGetProcAddress");
  if (get_proc_address == NULL) {
    printf("no GPU to compute on: the driver is older than CUDA 11.3\n");
    return 0;
  }
  CUresult (*initialize)(unsigned) = driver_function("cuInit");
  CUresult (*get_version)(int*) = driver_function("cuDriverGetVersion");
  CUresult (*get_count)(int*) = driver_function("cuDeviceGetCount");
  CUresult (*get_device)(CUdevice*, int) = driver_function("cuDeviceGet");
  CUresult (*retain_context)(CUcontext*, CUdevice) = driver_function("cuDevicePrimaryCtxRetain");
  CUresult (*release_context)(CUdevice) = driver_function("cuDevicePrimaryCtxRelease");
  CUresult (*set_context)(CUcontext) = driver_function("cuCtxSetCurrent");
  CUresult (*load_module)(CUmodule*, const void*) = driver_function("cuModuleLoadData");
  CUresult (*unload_module)(CUmodule) = driver_function("cuModuleUnload");
  CUresult (*get_function)(CUfunction*, CUmodule, const char*) = driver_function("cuModuleGetFunction");
  CUresult (*allocate)(CUdeviceptr*, size_t) = driver_function("cuMemAlloc");
  CUresult (*release)(CUdeviceptr) = driver_function("cuMemFree");
  CUresult (*copy_in)(CUdeviceptr, const void*, size_t) = driver_function("cuMemcpyHtoD");
  CUresult (*copy_out)(void*, CUdeviceptr, size_t) = driver_function("cuMemcpyDtoH");
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**,
                     void**) = driver_function("cuLaunchKernel");
  get_error_string = driver_function("cuGetErrorString");
  if (!initialize || !get_version || !get_count || !get_device || !retain_context || !release_context || !set_context ||
      !load_module || !unload_module || !get_function || !allocate || !release || !copy_in || !copy_out || !launch ||
      !get_error_string) {
    printf("the driver lacks a function of CUDA %d.%d\n", wanted_version / 1000, wanted_version % 1000 / 10);
    return 1;
  }

  /* 2. Start it. The runtime does this with the first call that needs a GPU. */
  get_version(&version);
  printf("CUDA version of the driver: %d.%d\n", version / 1000, version % 1000 / 10);
  error = initialize(0);
  if (error == CUDA_ERROR_NO_DEVICE || (error == CUDA_SUCCESS && get_count(&gpus) == CUDA_SUCCESS && gpus == 0)) {
    printf("no GPU to compute on: the driver finds none\n");
    return 0;
  }
  if (failed("cuInit", error)) return 1;

  /* 3. A context: the process on the GPU. The primary one is that of the runtime, so libraries that use the runtime
   * share it. */
  if (failed("cuDeviceGet", get_device(&device, 0))) return 1;
  if (failed("cuDevicePrimaryCtxRetain", retain_context(&context, device))) return 1;
  if (failed("cuCtxSetCurrent", set_context(context))) return 1;

  /* 4. The device code. The driver takes the image that fits this GPU, or compiles the PTX. nvcc's host code registers
   * its fat binaries in the same way before main. */
  if (failed("cuModuleLoadData", load_module(&module, square_fatbin))) return 1;
  if (failed("cuModuleGetFunction", get_function(&kernel, module, "square"))) return 1;

  /* 5. Memory, and the launch: what kernel<<<blocks, threads>>>(memory, count) becomes. */
  for (i = 0; i < count; ++i) numbers[i] = (float)i;
  if (failed("cuMemAlloc", allocate(&memory, sizeof numbers))) return 1;
  if (failed("cuMemcpyHtoD", copy_in(memory, numbers, sizeof numbers))) return 1;
  int length = count;
  void* arguments[] = {&memory, &length};
  if (failed("cuLaunchKernel",
             launch(kernel, (count + threads - 1) / threads, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL)))
    return 1;
  if (failed("cuMemcpyDtoH", copy_out(numbers, memory, sizeof numbers))) return 1;

  for (i = 0; i < count; ++i) {
    if (numbers[i] != (float)i * (float)i) {
      printf("wrong square of %d: %g\n", i, numbers[i]);
      return 1;
    }
  }
  printf("%d squares computed and checked\n", count);
  release(memory);
  unload_module(module);
  release_context(device);
  return 0;
}
