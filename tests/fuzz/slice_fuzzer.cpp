// ELF headers, the dynamic table and what it leads to. LIEF is given the slice and nothing else, so the slice must be
// whole whatever the file is, and say what the file says. LIEF itself is not linked in: its faults are not ours to
// mend, a worker dies of them in the worker's place, and libFuzzer would stop at the first (mutated_files_test.py
// counts them). The last byte of the input chooses whether the file shrank since it was opened.
// The seeds: `int f(void) { return cos(g); }` and the like, linked with -nostdlib -Wl,-z,noseparate-code as library
// (GNU and SysV hash, versions defined and needed, each search path), program, object; and one library without
// section headers. Three were found by this: one without DT_SYMENT, one whose segments lie over each other, one whose
// names lie at address 0.
#include "slice.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "hostile_input.hpp"

using cudeploy::require;
using cudeploy::Shrunk;

namespace {

using namespace cudeploy;

/// The bytes of `where`, with zeros for what the file lost.
std::vector<std::byte> content(const Bytes& bytes, Extent where) {
  std::vector<std::byte> out(where.size);
  bytes.read(where.offset, out);
  return out;
}

std::string string_at(const Bytes& bytes, Extent table, std::uint64_t offset) {
  if (offset >= table.size) return {};
  const auto raw = content(bytes, {table.offset + offset, std::min<std::uint64_t>(table.size - offset, 4096)});
  const char* text = reinterpret_cast<const char*>(raw.data());
  return {text, strnlen(text, raw.size())};
}

void check_layout(const Bytes& bytes, const ElfLayout& layout) {
  for (const ElfSection& section : layout.sections)
    require(bytes.holds(section.where) && section.name.size() <= 128 && section.name.find('\0') == std::string::npos);
  for (const ElfSegment& segment : layout.segments) require(bytes.holds(segment.where));
  for (const ElfDynamic& entry : layout.dynamic) {
    require(entry.tag != DT_NULL);
    const Extent there = layout.at_address(entry.value, 16);
    require(bytes.holds(there) && there.size <= 16);
  }
}

/// What the slice says of the dynamic table is what the file says.
void check_slice(const Bytes& bytes, const ElfLayout& layout, bool with_symbols) {
  std::vector<Problem> problems;
  const std::vector<std::uint8_t> image = make_slice(bytes, layout, with_symbols, problems);
  const MemoryBytes slice(std::as_bytes(std::span(image)));
  problems.clear();
  const auto read = read_elf_layout(slice, problems);
  require(read && problems.empty());  // whatever the file is, its slice is whole
  check_layout(slice, *read);
  require(read->type == layout.type && read->machine == layout.machine);
  // At most five tables, 64 notes, an interpreter, 1000 dynamic entries, and what keeps them apart.
  require(image.size() <= 70 * bytes.size() + (64 << 10));

  const auto strings = read->dynamic_value(DT_STRTAB), length = read->dynamic_value(DT_STRSZ);
  require(read->dynamic.empty() || strings);
  if (!strings) return;
  require(strings == layout.dynamic_value(DT_STRTAB) && length == layout.dynamic_value(DT_STRSZ));
  // The loader's own view: an address, and how far the file goes on behind it.
  const Extent here = read->at_address(*strings, length.value_or(0)), there = layout.at_address(*strings, here.size);
  require(here.size != 0 && here.size == there.size);
  for (const std::int64_t tag : {DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH}) {
    std::vector<std::string> names, kept;
    const Extent table = layout.at_address(*strings, length.value_or(0));
    for (const ElfDynamic& entry : layout.dynamic)
      if (entry.tag == tag && entry.value < table.size) names.push_back(string_at(bytes, table, entry.value));
    for (const ElfDynamic& entry : read->dynamic)
      if (entry.tag == tag) kept.push_back(string_at(slice, here, entry.value));
    require(names == kept);
  }
  for (const std::int64_t tag : {DT_VERDEF, DT_VERNEED, DT_SYMTAB}) {
    const auto address = read->dynamic_value(tag);
    if (!address) continue;
    require(address == layout.dynamic_value(tag));
    const std::uint64_t most = tag == DT_SYMTAB ? sizeof(Elf64_Sym) : 256 << 10;
    const Extent original = layout.at_address(*address, most), kept = read->at_address(*address, original.size);
    require(original.size != 0 && kept.size == original.size && content(bytes, original) == content(slice, kept));
  }
  for (const ElfSection& section : read->sections) {
    if (section.type != SHT_DYNSYM) continue;
    require(with_symbols);
    const auto symbols = layout.at_address(*layout.dynamic_value(DT_SYMTAB), section.where.size);
    require(symbols.size == section.where.size && content(bytes, symbols) == content(slice, section.where));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryBytes memory({reinterpret_cast<const std::byte*>(data), size});
  const Shrunk bytes(memory, size != 0 && data[size - 1] & 1 ? 5000 : 0);
  std::vector<Problem> problems;
  const auto layout = read_elf_layout(bytes, problems);
  for (const Problem& problem : problems) require(problem.offset.has_value());
  if (!layout) return 0;
  check_layout(bytes, *layout);
  check_slice(bytes, *layout, false);
  check_slice(bytes, *layout, true);
  std::set<std::uint16_t> versions;
  for (std::uint16_t i = 0; i < 64; ++i) versions.insert(i);
  const SymbolsByVersion symbols = symbols_by_version(bytes, *layout, versions, problems);
  for (const auto& [version, names] : symbols) {
    require(versions.contains(version) && !names.empty());
    for (const std::string& name : names) require(name.size() <= 4096 && name.find('\0') == std::string::npos);
  }
  // Who asks for one version gets the same names.
  const auto one = symbols_by_version(bytes, *layout, {2}, problems);
  require(one.size() == symbols.count(2) && (one.empty() || *one.begin() == *symbols.find(2)));
  return 0;
}
