/* Which CUDA runtimes are in this process, and which of them answers? With statically linked runtimes nobody can
 * see that from outside. A program that links cudeploy's runtime can ask here, or set CUDEPLOY_REPORT=stderr.
 *
 * C99, callable from any language. Raw facts: nothing here judges, nothing prints, nothing fails because of a
 * duplicate. The functions exist once in each linked object, hidden there, and all of them see the same: the whole
 * process, or where the object was opened with dlmopen, the loader namespace that it lives in. From outside of an
 * object they are reached through its anchor, see examples/languages.
 *
 * Environment, ignored in set-user-id programs:
 *   CUDEPLOY_UNIFY=0               each copy keeps a state of its own, for comparison
 *   CUDEPLOY_REPORT=FILE|stderr    the report as JSON when the process ends; of loader namespace 1 in FILE.1 and so on
 */
#ifndef CUDEPLOY_RUNTIME_H
#define CUDEPLOY_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a copy of the CUDA runtime does in this process. Values never change their meaning. */
enum {
  CUDEPLOY_ROLE_SERVING = 1,        /* one of ours: answers, for itself and for those that joined it */
  CUDEPLOY_ROLE_JOINED = 2,         /* one of ours: its calls go to the copy `server` */
  CUDEPLOY_ROLE_IDLE = 3,           /* one of ours: not called so far */
  CUDEPLOY_ROLE_OTHER_ABI = 4,      /* one of ours, made by a cudeploy with another anchor ABI: not read */
  CUDEPLOY_ROLE_FOREIGN_STATIC = 5, /* statically linked without cudeploy: a state of its own */
  CUDEPLOY_ROLE_FOREIGN_SHARED = 6  /* a shared libcudart: a state of its own, unless it is a `server` */
};

/* One copy of the CUDA runtime. */
typedef struct cudeploy_copy {
  const char* object;      /* path of the object that holds it; of the program itself where the loader names none */
  uint64_t address;        /* where that object lies */
  int32_t role;            /* CUDEPLOY_ROLE_... */
  int32_t runtime_version; /* what the copy says of itself, 13000 = 13.0; 0 = unknown. CUDA 11 without a driver says
                            * nothing: then the highest version in its function table, a lower bound */
  int32_t api_level;       /* foreign static: highest version in its function table, a lower bound; else 0 */
  int32_t cuda_major;      /* generation: 13 */
  int32_t anchor_abi;      /* generation: ours only, else 0 */
  int32_t server;          /* index of the copy that answers its calls, of itself when it serves; -1 = nobody yet */
  int32_t kept_names;      /* joined: functions that the server lacks and that stay with the copy */
  int32_t pinned;          /* 1 = its object stays loaded until the process ends */
} cudeploy_copy;

/* One registered fat binary: what nvcc's code hands to the runtime when an object is loaded. */
typedef struct cudeploy_fat_binary {
  const char* object; /* path of the object that registered it */
  uint64_t address;   /* of its first container */
  int32_t images;     /* entries in all its containers; -1 = not readable */
  int32_t copy;       /* index of the copy through which it was registered */
} cudeploy_fat_binary;

/* A kernel stub of one object that another object registered as its own: the loader gave both the same exported
 * symbol, and in one runtime the last registration wins. */
typedef struct cudeploy_shared_stub {
  const char* name;       /* device name of the kernel, mangled */
  const char* defined_in; /* object that holds the stub */
  const char* registered_by;
} cudeploy_shared_stub;

typedef struct cudeploy_report {
  int32_t driver_version; /* 12020 = the driver supports CUDA 12.2; 0 = no driver library found */
  int32_t driver_error;   /* what cuInit answered: 0, 100 no device, 35 or another CUresult; -1 = not asked */
  int32_t states;         /* runtimes with a state of their own: those that serve, and foreign ones */
  int32_t copy_count;
  int32_t fat_binary_count;
  int32_t shared_stub_count;
  int32_t note_count;
  int32_t loader_namespace;                /* 0 = the program's; another = opened with dlmopen: sees itself alone */
  const cudeploy_copy* copies;             /* in the loader's order */
  const cudeploy_fat_binary* fat_binaries; /* in the order of their objects, newest registration first */
  const cudeploy_shared_stub* shared_stubs;
  const char* const* notes; /* sentences: what is unusual here, and what to do about it */
} cudeploy_report;

/* A snapshot, or NULL when there is no memory for it. It stays valid until it is freed, whatever is unloaded
 * meanwhile. Loads the driver library when it is not loaded; touches no device and no error state of the runtime. */
cudeploy_report* cudeploy_report_new(void);
void cudeploy_report_free(cudeploy_report* report);

/* The same as JSON (schema cudeploy/runtime-report/1), terminated with a zero, cut to `size` bytes. Returns the
 * bytes of the whole text without the zero, as snprintf does; 0 when there is no memory for it. */
size_t cudeploy_report_json(char* buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
