// What reading a library costs with LIEF alone, in a process of its own so that its memory can be measured.
#include <cstdio>

#include "binary.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: lief_whole_parse LIBRARY\n");
    return 2;
  }
  std::string why;
  auto bytes = cudeploy::FileBytes::open(argv[1], why);
  if (!bytes) {
    std::fprintf(stderr, "%s: error: %s\n", argv[1], why.c_str());
    return 2;
  }
  const cudeploy::FileRecord record = cudeploy::read_elf_with_lief_alone(argv[1], *bytes);
  std::printf("%s %zu\n", record.soname.value_or("-").c_str(), record.needed.size());
  return record.problems.empty() ? 0 : 1;
}
