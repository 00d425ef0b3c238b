// What reading a library costs with LIEF alone, as its users call it, in a process of its own so that its memory can
// be measured.
#include <LIEF/ELF.hpp>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: lief_whole_parse LIBRARY\n");
    return 2;
  }
  const auto elf = LIEF::ELF::Parser::parse(argv[1]);
  if (!elf) return 1;
  std::printf("%zu needed\n", elf->imported_libraries().size());
  return 0;
}
