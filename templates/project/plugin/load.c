/* A host program as small as it can be: opens the plugin as hosts do and asks it for work. */
#include <dlfcn.h>
#include <stdio.h>

#include "starter.h"

int main(int argc, char** argv) {
  void* plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  const char* (*scale)(float*, int, float) = NULL;
  float numbers[3] = {1, 2, 3};
  const char* why;
  if (plugin != NULL) *(void**)&scale = dlsym(plugin, "starter_scale");
  if (scale == NULL) {
    fprintf(stderr, "error: %s\n", argc == 2 ? dlerror() : "usage: load PLUGIN");
    return 1;
  }
  why = scale(numbers, 3, 2);
  if (why == NULL && (numbers[0] != 2 || numbers[2] != 6)) return 1;
  printf("%s\n", why == NULL ? "3 products computed and checked" : why); /* without a GPU the plugin says so */
  return 0;
}
