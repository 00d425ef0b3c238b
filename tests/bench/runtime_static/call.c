/* Calls one function of the runtime as often as it is told. */
#include <stdlib.h>

int cudaRuntimeGetVersion(int* version);

int main(int count, char** words) {
  int version = 0, wrong = 0;
  long times = count > 1 ? atol(words[1]) : 1;
  for (long i = 0; i < times; ++i) wrong |= cudaRuntimeGetVersion(&version);
  return wrong;
}
