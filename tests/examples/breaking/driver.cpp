// What makes a file the driver: its soname and its exports.
extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuCtxCreate_v2(void**, unsigned, int) { return 0; }
int cuModuleLoadData(void**, const void*) { return 0; }
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) {
  return 0;
}
int cuGetProcAddress_v2(const char*, void**, int, unsigned long long, void*) { return 0; }
int cuGetExportTable(const void**, const void*) { return 0; }
}
