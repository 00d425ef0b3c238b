#include <cstdio>

#include "starter.hpp"

int main() {
  float numbers[] = {1, 2, 3};
  const char* why = starter::scale(numbers, 3, 2);
  if (why == nullptr && (numbers[0] != 2 || numbers[2] != 6)) return 1;
  std::printf("%s\n", why == nullptr ? "3 products computed and checked" : why);  // without a GPU the library says so
  return 0;
}
