/* The embedded device code is what the compiler wrote. */
#include <stdio.h>
#include "embedded.h"
int main(int count, char** words) {
  if (count != 2) return 2;
  FILE* file = fopen(words[1], "wb");
  return file == NULL || fwrite(embedded, 1, embedded_size, file) != embedded_size || fclose(file) != 0;
}
