#include <cuda_runtime_api.h>
int main(void) { return cudaGetLastError() < 0; }
