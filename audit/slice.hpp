// A CUDA library is a few kilobytes of tables around hundreds of megabytes of code and data. LIEF copies what it
// is given up to twice (0.9.0: 5 s and 1.1 GB for a 541 MB library), so it is given a slice: a small ELF image
// with the same dynamic table, names, versions, notes and symbols at the same addresses, and nothing else. Where
// things lie in the real file is known here, from its headers alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// One section header; `where` is empty for SHT_NOBITS.
struct ElfSection {
  std::string name;        ///< cut at 128 bytes
  std::uint32_t type = 0;  ///< SHT_…
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  Extent where;  ///< in the file; cut where the file ends
  std::uint32_t link = 0;
  std::uint32_t info = 0;

  bool is_writable() const;
  bool is_data() const;  ///< loaded bytes that are neither code nor one of the linker's tables
};

/// One program header; `where` is the part that lies in the file.
struct ElfSegment {
  std::uint32_t type = 0;  ///< PT_…
  std::uint32_t flags = 0;
  std::uint64_t address = 0;
  Extent where;

  bool is_load() const;
  bool holds_constants() const;  ///< read-only, or all in one as old and unusual linkers do
};

/// One entry of the dynamic table.
struct ElfDynamic {
  std::int64_t tag = 0;
  std::uint64_t value = 0;
};

/// Where things lie in a 64-bit little-endian ELF file. Every extent lies inside the file.
struct ElfLayout {
  std::uint16_t type = 0;            ///< ET_…
  std::uint16_t machine = 0;         ///< EM_…
  std::vector<ElfSection> sections;  ///< index = ELF section index; empty where there are none
  std::vector<ElfSegment> segments;
  std::vector<ElfDynamic> dynamic;  ///< up to DT_NULL

  /// Value of the first entry with this tag.
  std::optional<std::uint64_t> dynamic_value(std::int64_t tag) const;

  /// The file extent that is mapped at `address`: from there to the end of its PT_LOAD's file part, at most
  /// `limit` bytes. Empty where nothing of the file is mapped.
  Extent at_address(std::uint64_t address, std::uint64_t limit) const;
};

/// Reads headers and the dynamic table of a 64-bit little-endian ELF file. Nothing for other classes and byte
/// orders, or when the ELF header itself is damaged; what is wrong goes to `problems`.
std::optional<ElfLayout> read_elf_layout(const Bytes& bytes, std::vector<Problem>& problems);

/// Names of dynamic symbols by the index of their version, the hidden bit left out.
using SymbolsByVersion = std::map<std::uint16_t, std::vector<std::string>>;

/// The dynamic symbols that have one of these versions, in the order of the symbol table. Read here, since of some
/// 100,000 symbols of a large library these are few, and LIEF makes an object of each.
SymbolsByVersion symbols_by_version(const Bytes& bytes, const ElfLayout& layout,
                                    const std::set<std::uint16_t>& versions, std::vector<Problem>& problems);

/// The slice of `bytes`: an ELF image that LIEF reads like the whole file. `with_symbols` keeps the dynamic
/// symbols (24 bytes each, plus what a parser makes of them).
std::vector<std::uint8_t> make_slice(const Bytes& bytes, const ElfLayout& layout, bool with_symbols,
                                     std::vector<Problem>& problems);

}  // namespace cudeploy
