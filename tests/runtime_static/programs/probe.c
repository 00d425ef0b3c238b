/* What a shared object that uses the CUDA runtime can notice of the others, without a GPU: a launch configuration
 * that one pushes and another pops, and the last error. Linked into objects in many ways; `cudeploy/runtime.h`
 * where the object is linked with cudeploy (-DUNIFIED). */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef UNIFIED
#include "cudeploy/runtime.h"
#endif

#define SHOWN __attribute__((visibility("default")))

struct dim {
  unsigned x, y, z;
};
unsigned __cudaPushCallConfiguration(struct dim grid, struct dim block, size_t shared, void* stream);
int __cudaPopCallConfiguration(struct dim* grid, struct dim* block, size_t* shared, void* stream);
int cudaRuntimeGetVersion(int* version);
int cudaGetDeviceCount(int* count);
int cudaGetLastError(void);

/* Six arguments of three kinds: all must arrive, also through the binder. */
SHOWN int probe_push(int value) {
  struct dim grid = {(unsigned)value, 2, 3}, block = {4, 5, 6};
  return (int)__cudaPushCallConfiguration(grid, block, 77, (void*)0x1234);
}

/* The value pushed last, or minus the error. */
SHOWN int probe_pop(int unused) {
  struct dim grid = {0, 0, 0}, block = {0, 0, 0};
  size_t shared = 0;
  void* stream = NULL;
  int error = __cudaPopCallConfiguration(&grid, &block, &shared, &stream);
  (void)unused;
  if (error) return -error;
  if (grid.y != 2 || grid.z != 3 || block.x != 4 || block.y != 5 || block.z != 6) return -1001;
  if (shared != 77 || stream != (void*)0x1234) return -1002;
  return (int)grid.x;
}

SHOWN int probe_version(int unused) {
  int version = 0, error = cudaRuntimeGetVersion(&version);
  (void)unused;
  return error ? -error : version;
}

/* Fails where there is no driver, and leaves that as the last error. */
SHOWN int probe_fail(int unused) {
  int count = 0;
  (void)unused;
  return cudaGetDeviceCount(&count);
}

SHOWN int probe_last_error(int unused) {
  (void)unused;
  return cudaGetLastError();
}

SHOWN int probe_gone(int unused) { return unused; }

/* File name of the object whose runtime answers for this one. */
SHOWN const char* probe_server(void) {
  static char name[256];
  strcpy(name, "?");
#ifdef UNIFIED
  Dl_info info;
  struct link_map* map = NULL;
  cudeploy_report* report = cudeploy_report_new();
  if (!report) return name;
  if (dladdr1((void*)probe_server, &info, (void**)&map, RTLD_DL_LINKMAP)) {
    for (int i = 0; i < report->copy_count; ++i) {
      const cudeploy_copy* copy = &report->copies[i];
      if (copy->address != map->l_addr || copy->role >= CUDEPLOY_ROLE_OTHER_ABI) continue;
      if (copy->server < 0) {
        strcpy(name, "nobody");
      } else {
        const char *path = report->copies[copy->server].object, *slash = strrchr(path, '/');
        snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
      }
    }
  }
  cudeploy_report_free(report);
#endif
  return name;
}

SHOWN const char* probe_report(void) {
  static char text[65536];
  strcpy(text, "?");
#ifdef UNIFIED
  if (cudeploy_report_json(text, sizeof text) >= sizeof text) strcpy(text, "too long");
#endif
  return text;
}

#ifdef PUSH_IN_CONSTRUCTOR
__attribute__((constructor)) static void early(void) { probe_push(PUSH_IN_CONSTRUCTOR); }
#endif

/* Calls while the process ends, in each of the ways that code of an object can run then. */
#ifdef CALL_AT_END
#define PROBE_TEXT_(x) #x
#define PROBE_TEXT(x) PROBE_TEXT_(x)
static void say(const char* when) {
  int version = 0, error = cudaRuntimeGetVersion(&version);
  int pushed = probe_push(1), popped = probe_pop(0);
  fprintf(stderr, "end %s %s: version %d push %d pop %d count %d\n", PROBE_TEXT(CALL_AT_END), when,
          error ? -error : version, pushed, popped, probe_fail(0));
}
static void at_exit(void) { say("atexit"); }
__attribute__((constructor)) static void register_end(void) { atexit(at_exit); }
__attribute__((destructor)) static void at_destructor(void) { say("destructor"); }
#endif
