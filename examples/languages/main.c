/* Which CUDA runtimes are in this process? In C99. */
#include <cuda_runtime_api.h>
#include <cudeploy/runtime.h>
#include <stdio.h>

int library_runtime_version(void);

int main(void) {
  static const char* const roles[] = {"?",         "serving",        "joined",        "idle",
                                      "other ABI", "foreign static", "foreign shared"};
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) version = 0;
  printf("version %d, of the library %d\n", version, library_runtime_version());
  cudeploy_report* report = cudeploy_report_new();
  if (!report) return 1;
  for (int i = 0; i < report->copy_count; ++i) {
    const cudeploy_copy* copy = &report->copies[i];
    printf("%s: %s\n", copy->object, roles[copy->role <= CUDEPLOY_ROLE_FOREIGN_SHARED ? copy->role : 0]);
  }
  for (int i = 0; i < report->note_count; ++i) printf("note: %s\n", report->notes[i]);
  printf("copies %d, states %d\n", report->copy_count, report->states);
  cudeploy_report_free(report);
  return 0;
}
