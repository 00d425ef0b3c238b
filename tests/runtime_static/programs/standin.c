/* Functions that a test adds to a runtime's archive: what each of their arguments was shows in what they return. All
 * kinds are there: general and whole vector registers, the stack, and the address of a result that is too large for
 * registers (x8 on aarch64). Compiled twice, as part of the runtime (-DRUNTIME) and as the program that calls it:
 * standin scalars | standin vectors prints what the first and the second call gave. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

typedef double pair __attribute__((vector_size(16)));
struct three {
  unsigned long a, b, c;
};
struct large {
  double first[8], second[8];
};

#ifdef RUNTIME
#define FUNCTION __attribute__((visibility("hidden")))
#else
#define FUNCTION
#endif

FUNCTION double cudaStandIn(int a, double b, long c, float d, struct three e, int f, double g, double h, double i,
                            double j, double k, double l, double m, int n, int o, int p, int q, int r);
FUNCTION struct large cudaStandInVectors(pair a, pair b, pair c, pair d, pair e, pair f, pair g, pair h, int last);

#ifdef RUNTIME
double cudaStandIn(int a, double b, long c, float d, struct three e, int f, double g, double h, double i, double j,
                   double k, double l, double m, int n, int o, int p, int q, int r) {
  return a + b * 2 + c * 3 + d * 4 + e.a * 5 + e.b * 6 + e.c * 7 + f * 8 + g * 9 + h * 10 + i * 11 + j * 12 + k * 13 +
         l * 14 + m * 15 + n * 16 + o * 17 + p * 18 + q * 19 + r * 20;
}

struct large cudaStandInVectors(pair a, pair b, pair c, pair d, pair e, pair f, pair g, pair h, int last) {
  const pair all[] = {a, b, c, d, e, f, g, h};
  struct large result;
  for (int i = 0; i < 8; ++i) {
    result.first[i] = all[i][0] * last;
    result.second[i] = all[i][1] * last;
  }
  return result;
}
#else
/* The binder asks the loader, and what that leaves in registers depends on the day. This one leaves nothing that the
 * caller had there. */
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info*, size_t, void*), void* data) {
  int (*loader)(int (*)(struct dl_phdr_info*, size_t, void*), void*) =
      (int (*)(int (*)(struct dl_phdr_info*, size_t, void*), void*))dlsym(RTLD_NEXT, "dl_iterate_phdr");
  int result = loader(visit, data);
#ifdef __x86_64__
  __asm__ volatile(
      "pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm1, %%xmm1\n pcmpeqd %%xmm2, %%xmm2\n pcmpeqd %%xmm3, %%xmm3\n"
      "pcmpeqd %%xmm4, %%xmm4\n pcmpeqd %%xmm5, %%xmm5\n pcmpeqd %%xmm6, %%xmm6\n pcmpeqd %%xmm7, %%xmm7\n"
      "mov $-1, %%rdi\n mov $-1, %%rsi\n mov $-1, %%rdx\n mov $-1, %%rcx\n mov $-1, %%r8\n mov $-1, %%r9\n"
      "mov $-1, %%r10\n"
      :
      :
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10");
#else
  __asm__ volatile(
      "movi v0.16b, #255\n movi v1.16b, #255\n movi v2.16b, #255\n movi v3.16b, #255\n"
      "movi v4.16b, #255\n movi v5.16b, #255\n movi v6.16b, #255\n movi v7.16b, #255\n"
      "mov x1, #-1\n mov x2, #-1\n mov x3, #-1\n mov x4, #-1\n mov x5, #-1\n mov x6, #-1\n mov x7, #-1\n mov x8, #-1\n"
      :
      :
      : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8");
#endif
  return result;
}

int main(int count, char** words) {
  const struct three e = {5, 6, 7};
  for (int i = 0; i < 2 && count == 2; ++i) {
    if (!strcmp(words[1], "scalars")) {
      printf("%.1f\n", cudaStandIn(1, 2.5, 3, 4.5f, e, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20));
    } else {
      const struct large r = cudaStandInVectors((pair){1, 2}, (pair){3, 4}, (pair){5, 6}, (pair){7, 8}, (pair){9, 10},
                                                (pair){11, 12}, (pair){13, 14}, (pair){15, 16}, 10);
      for (int k = 0; k < 8; ++k) printf("%.0f %.0f ", r.first[k], r.second[k]);
      puts("");
    }
  }
  return 0;
}
#endif
