/* Threads that load plugins, make what may be the first call of a copy, and unload them, all at once. What one
 * plugin pushes in a thread another one must pop in that thread. Arguments: THREADS ROUNDS PLUGINS. The plugins are
 * p0.so, p01.so, p002.so and so on: paths of all lengths, since ThreadSanitizer looks at words of eight bytes. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[4096];
static int rounds, plugins, wrong;
static pthread_barrier_t start;

static void* load(int which) {
  char path[8192];
  snprintf(path, sizeof path, "%s/p%0*d.so", folder, which + 1, which);
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  return handle;
}

static void* work(void* argument) {
  unsigned seed = (unsigned)(size_t)argument * 2654435761u + 1;
  pthread_barrier_wait(&start);
  for (int i = 0; i < rounds; ++i) {
    seed = seed * 1103515245u + 12345u;
    int from = (int)(seed >> 16) % plugins;
    seed = seed * 1103515245u + 12345u;
    int to = (int)(seed >> 16) % plugins;
    void *a = load(from), *b = load(to);
    int pushed = ((int (*)(int))dlsym(a, "probe_push"))(i + 1);
    int popped = ((int (*)(int))dlsym(b, "probe_pop"))(0);
    if (pushed != 0 || popped != i + 1) {
      fprintf(stderr, "p%d pushed %d (%d), p%d popped %d\n", from, i + 1, pushed, to, popped);
      __atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
    }
    dlclose(a);
    dlclose(b);
  }
  return NULL;
}

int main(int count, char** words) {
  if (count != 4) return 3;
  int threads = atoi(words[1]);
  rounds = atoi(words[2]);
  plugins = atoi(words[3]);
  ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
  if (length < 0) return 3;
  folder[length] = 0;
  *strrchr(folder, '/') = 0;
  pthread_t ids[256];
  pthread_barrier_init(&start, NULL, (unsigned)threads);
  for (int i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, work, (void*)(size_t)i);
  for (int i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  puts(wrong ? "wrong" : "one state");
  fflush(stdout);
  /* ThreadSanitizer runs what an unloaded object gave to atexit, and dies of it; also with plain copies. */
  _exit(wrong);
}
