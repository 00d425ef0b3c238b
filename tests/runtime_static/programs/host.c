/* A process that does what its arguments say, one after the other, and prints what each gave:
 *   open NAME | open-global NAME | open-world NAME     dlopen of NAME.so beside this program; world = dlmopen
 *   close NAME   gone NAME                             dlclose; is it unloaded?
 *   NAME.push N | NAME.pop | NAME.version | NAME.fail | NAME.last_error | NAME.server | NAME.report
 *   NAME.thread-pop                                    in a thread of its own
 *   fork                                               the rest runs in a child
 *   again N COMMANDS... end                            N times; prints of these are left out but for the last
 * NAME `self` is the program's own probe, where it is linked in (-DSELF). */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[4096];
static struct {
  char name[64];
  void* handle;
} opened[512];
static int opened_count, quiet;

#define SHOW(...)                    \
  do {                               \
    if (!quiet) printf(__VA_ARGS__); \
  } while (0)

#ifdef SELF
int probe_push(int), probe_pop(int), probe_version(int), probe_fail(int), probe_last_error(int);
const char* probe_server(void);
const char* probe_report(void);
static void* own(const char* what) {
  static const struct {
    const char* name;
    void* function;
  } all[] = {{"probe_push", (void*)probe_push},
             {"probe_pop", (void*)probe_pop},
             {"probe_version", (void*)probe_version},
             {"probe_fail", (void*)probe_fail},
             {"probe_last_error", (void*)probe_last_error},
             {"probe_server", (void*)probe_server},
             {"probe_report", (void*)probe_report}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    if (!strcmp(all[i].name, what)) return all[i].function;
  return NULL;
}
#else
static void* own(const char* what) {
  (void)what;
  return NULL;
}
#endif

static void* find(const char* name, const char* what) {
  char symbol[80];
  snprintf(symbol, sizeof symbol, "probe_%s", what);
  if (!strcmp(name, "self")) return own(symbol);
  for (int i = 0; i < opened_count; ++i) {
    if (!strcmp(opened[i].name, name) && opened[i].handle) return dlsym(opened[i].handle, symbol);
  }
  return NULL;
}

static void* pop_in_thread(void* function) { return (void*)(long)((int (*)(int))function)(0); }

static void run(char** words, int count) {
  for (int i = 0; i < count; ++i) {
    char* word = words[i];
    const char* mode[] = {"open", "open-global", "open-world"};
    int k = 0;
    while (k < 3 && strcmp(word, mode[k])) ++k;
    if (k < 3 && i + 1 < count) {
      char path[8192];
      const char* name = words[++i];
      snprintf(path, sizeof path, "%s/%s.so", folder, name);
      void* handle =
          k == 2 ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW | (k == 1 ? RTLD_GLOBAL : RTLD_LOCAL));
      if (!handle) {
        printf("%s\n", dlerror());
        exit(3);
      }
      int at = 0;
      while (at < opened_count && opened[at].handle) ++at;
      if (at == opened_count) ++opened_count;
      snprintf(opened[at].name, sizeof opened[at].name, "%s", name);
      opened[at].handle = handle;
    } else if (!strcmp(word, "close") && i + 1 < count) {
      const char* name = words[++i];
      for (int at = 0; at < opened_count; ++at) {
        if (opened[at].handle && !strcmp(opened[at].name, name)) {
          dlclose(opened[at].handle);
          opened[at].handle = NULL;
        }
      }
    } else if (!strcmp(word, "gone") && i + 1 < count) {
      char path[8192];
      snprintf(path, sizeof path, "%s/%s.so", folder, words[++i]);
      SHOW("%d\n", dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL);
    } else if (!strcmp(word, "fork")) {
      fflush(stdout);
      pid_t child = fork();
      if (child) {
        int status = 0;
        waitpid(child, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
      }
    } else if (!strcmp(word, "again") && i + 1 < count) {
      int times = atoi(words[++i]), first = i + 1, last = first;
      while (last < count && strcmp(words[last], "end")) ++last;
      for (int round = 0; round < times; ++round) {
        quiet = round + 1 < times;
        run(words + first, last - first);
      }
      i = last;
    } else {
      char name[64];
      char* dot = strchr(word, '.');
      if (!dot) {
        printf("what is %s?\n", word);
        exit(3);
      }
      snprintf(name, sizeof name, "%.*s", (int)(dot - word), word);
      const char* what = dot + 1;
      int in_thread = !strcmp(what, "thread-pop");
      void* function = find(name, in_thread ? "pop" : what);
      if (!function) {
        printf("no %s\n", word);
        exit(3);
      }
      if (in_thread) {
        pthread_t thread;
        void* result = NULL;
        pthread_create(&thread, NULL, pop_in_thread, function);
        pthread_join(thread, &result);
        SHOW("%ld\n", (long)result);
      } else if (!strcmp(what, "server") || !strcmp(what, "report")) {
        const char* text = ((const char* (*)(void))function)();
        SHOW("%s\n", text);
      } else {
        int argument = !strcmp(what, "push") && i + 1 < count ? atoi(words[++i]) : 0;
        int result = ((int (*)(int))function)(argument);
        SHOW("%d\n", result);
      }
    }
  }
}

int main(int count, char** words) {
  ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
  if (length < 0) return 3;
  folder[length] = 0;
  *strrchr(folder, '/') = 0;
  run(words + 1, count - 1);
  fflush(stdout);
  return 0;
}
