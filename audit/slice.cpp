#include "slice.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <set>
#include <type_traits>
#include <utility>

namespace cudeploy {

namespace {

// Bounds on what hostile headers may claim. The largest real values are far below: 541 MB libraries have 38
// sections and 10 segments; -ffunction-sections objects some 100,000 sections.
constexpr std::uint64_t kMaxSections = 1 << 18;
constexpr std::uint64_t kMaxSegments = 1 << 12;
constexpr std::uint64_t kMaxSectionNames = 64 << 20;
constexpr std::size_t kMaxNameLength = 128;
constexpr std::uint64_t kMaxDynamicEntries = 1000;  // LIEF 0.9.0 reads no more
constexpr std::uint64_t kMaxStrings = 256 << 20;
constexpr std::uint64_t kMaxVersionTable = 256 << 10;
constexpr std::uint64_t kMaxVersions = 1 << 15;  // as often as they are met
constexpr std::uint64_t kMaxNotes = 1 << 20;     // all together
constexpr std::uint64_t kMaxNames = 1 << 20;     // of needs and search paths, all together
constexpr std::uint64_t kMaxInterpreter = 4096;
constexpr std::uint64_t kMaxSymbolName = 4096;
constexpr std::uint64_t kMaxSymbolNames = 16 << 20;
constexpr std::uint64_t kMaxSymbols = 1'000'000;  // LIEF 0.9.0 reads no more

/// What of `where` lies inside the file.
Extent clip(Extent where, std::uint64_t file_size) {
  if (where.offset >= file_size) return {};
  return {where.offset, std::min(where.size, file_size - where.offset)};
}

void complain(std::vector<Problem>& problems, std::uint64_t offset, std::string message) {
  problems.push_back({offset, std::move(message)});
}

void read_sections(const Bytes& bytes, const Elf64_Ehdr& header, ElfLayout& layout, std::vector<Problem>& problems) {
  if (header.e_shoff == 0) return;
  if (header.e_shentsize != sizeof(Elf64_Shdr)) {
    complain(problems, offsetof(Elf64_Ehdr, e_shentsize),
             fmt::format("ELF e_shentsize: expected {}, found {}", sizeof(Elf64_Shdr), header.e_shentsize));
    return;
  }
  auto first = bytes.value<Elf64_Shdr>(header.e_shoff);
  if (!first) {
    complain(problems, offsetof(Elf64_Ehdr, e_shoff),
             fmt::format("ELF e_shoff: expected section headers inside the {} bytes of the file, found {}",
                         bytes.size(), header.e_shoff));
    return;
  }
  // Counts that do not fit the ELF header lie in section 0 (gABI, extended numbering).
  std::uint64_t count = header.e_shnum != 0 ? header.e_shnum : first->sh_size;
  std::uint64_t fitting = (bytes.size() - header.e_shoff) / sizeof(Elf64_Shdr);
  if (count > fitting || count > kMaxSections) {
    complain(problems, offsetof(Elf64_Ehdr, e_shnum),
             fmt::format("ELF e_shnum: expected at most {} section headers, found {}", std::min(fitting, kMaxSections),
                         count));
    count = std::min(fitting, kMaxSections);
  }
  std::vector<Elf64_Shdr> headers(count);
  bytes.read(header.e_shoff, std::as_writable_bytes(std::span(headers)));

  std::uint64_t names_index = header.e_shstrndx == SHN_XINDEX ? first->sh_link : header.e_shstrndx;
  std::vector<std::byte> names;
  if (names_index < count && headers[names_index].sh_type != SHT_NOBITS) {
    const Elf64_Shdr& table = headers[names_index];
    names = bytes.copy(clip({table.sh_offset, std::min<std::uint64_t>(table.sh_size, kMaxSectionNames)}, bytes.size()));
  }
  layout.sections.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Elf64_Shdr& raw = headers[i];
    ElfSection& section = layout.sections[i];
    if (raw.sh_name < names.size()) {
      const char* name = reinterpret_cast<const char*>(names.data()) + raw.sh_name;
      section.name.assign(name, strnlen(name, std::min<std::size_t>(names.size() - raw.sh_name, kMaxNameLength)));
    }
    section.type = raw.sh_type;
    section.flags = raw.sh_flags;
    section.address = raw.sh_addr;
    section.link = raw.sh_link;
    section.info = raw.sh_info;
    if (raw.sh_type == SHT_NOBITS || raw.sh_type == SHT_NULL) continue;
    section.where = clip({raw.sh_offset, raw.sh_size}, bytes.size());
    if (section.where.size < raw.sh_size) {
      complain(problems, header.e_shoff + i * sizeof(Elf64_Shdr),
               fmt::format("ELF section {} '{}': expected {} bytes at offset {}, found {}", i, section.name,
                           raw.sh_size, raw.sh_offset, section.where.size));
    }
  }
}

void read_segments(const Bytes& bytes, const Elf64_Ehdr& header, ElfLayout& layout, std::vector<Problem>& problems) {
  if (header.e_phoff == 0 || header.e_phnum == 0) return;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) {
    complain(problems, offsetof(Elf64_Ehdr, e_phentsize),
             fmt::format("ELF e_phentsize: expected {}, found {}", sizeof(Elf64_Phdr), header.e_phentsize));
    return;
  }
  std::uint64_t count = header.e_phnum;
  if (count == PN_XNUM && !layout.sections.empty()) count = layout.sections[0].info;
  std::uint64_t fitting = header.e_phoff < bytes.size() ? (bytes.size() - header.e_phoff) / sizeof(Elf64_Phdr) : 0;
  if (count > fitting || count > kMaxSegments) {
    complain(problems, offsetof(Elf64_Ehdr, e_phnum),
             fmt::format("ELF e_phnum: expected at most {} program headers, found {}", std::min(fitting, kMaxSegments),
                         count));
    count = std::min(fitting, kMaxSegments);
  }
  std::vector<Elf64_Phdr> headers(count);
  bytes.read(header.e_phoff, std::as_writable_bytes(std::span(headers)));
  for (std::size_t i = 0; i < count; ++i) {
    const Elf64_Phdr& raw = headers[i];
    ElfSegment segment{raw.p_type, raw.p_flags, raw.p_vaddr, clip({raw.p_offset, raw.p_filesz}, bytes.size())};
    if (segment.where.size < raw.p_filesz) {
      complain(problems, header.e_phoff + i * sizeof(Elf64_Phdr),
               fmt::format("ELF segment {}: expected {} bytes at offset {}, found {}", i, raw.p_filesz, raw.p_offset,
                           segment.where.size));
    }
    layout.segments.push_back(segment);
  }
}

void read_dynamic(const Bytes& bytes, ElfLayout& layout, std::vector<Problem>& problems) {
  auto found = std::find_if(layout.segments.begin(), layout.segments.end(),
                            [](const ElfSegment& segment) { return segment.type == PT_DYNAMIC; });
  if (found == layout.segments.end()) return;
  // A separate debug file keeps the program headers, but nothing is behind them.
  for (const ElfSection& section : layout.sections) {
    if (section.type == SHT_NOBITS && section.name == ".dynamic") return;
  }
  // The loader goes by the address; LIEF and others by the offset. They differ in damaged files only.
  Extent where = layout.at_address(found->address, found->where.size);
  if (where.size == 0) where = found->where;
  for (std::uint64_t at = where.offset; at + sizeof(Elf64_Dyn) <= where.end(); at += sizeof(Elf64_Dyn)) {
    auto entry = bytes.value<Elf64_Dyn>(at);
    if (!entry || entry->d_tag == DT_NULL) return;
    if (layout.dynamic.size() == kMaxDynamicEntries) {
      complain(problems, at, fmt::format("ELF dynamic table: expected at most {} entries", kMaxDynamicEntries));
      return;
    }
    layout.dynamic.push_back({entry->d_tag, entry->d_un.d_val});
  }
}

/// Number of dynamic symbols. The dynamic table does not say; the section header does, else the hash tables.
std::uint64_t count_symbols(const Bytes& bytes, const ElfLayout& layout, std::uint64_t symbols_address) {
  for (const ElfSection& section : layout.sections) {
    if (section.type == SHT_DYNSYM && section.address == symbols_address) return section.where.size / sizeof(Elf64_Sym);
  }
  if (auto address = layout.dynamic_value(DT_HASH)) {
    Extent table = layout.at_address(*address, 8);
    return table.size == 8 ? bytes.value<std::uint32_t>(table.offset + 4).value_or(0) : 0;
  }
  auto address = layout.dynamic_value(DT_GNU_HASH);
  if (!address) return 0;
  Extent table = layout.at_address(*address, ~std::uint64_t{0});
  auto header = bytes.value<std::array<std::uint32_t, 4>>(table.offset);  // buckets, first symbol, bloom words, shift
  if (table.size < sizeof(*header) || !header) return 0;
  std::uint64_t buckets_at = sizeof(*header) + std::uint64_t{(*header)[2]} * 8;
  std::uint64_t chains_at = buckets_at + std::uint64_t{(*header)[0]} * 4;
  if (chains_at > table.size || (*header)[0] > kMaxSymbols) return 0;
  std::vector<std::uint32_t> buckets((*header)[0]);
  bytes.read(table.offset + buckets_at, std::as_writable_bytes(std::span(buckets)));
  std::uint64_t last = 0;
  for (std::uint32_t bucket : buckets) last = std::max<std::uint64_t>(last, bucket);
  // Nothing is defined for others, so the table is empty and does not tell. Linkers put the names behind the symbols.
  const std::uint64_t names_address = layout.dynamic_value(DT_STRTAB).value_or(0);
  if (last < (*header)[1])
    return names_address > symbols_address ? (names_address - symbols_address) / sizeof(Elf64_Sym) : (*header)[1];
  for (std::uint64_t at = chains_at + (last - (*header)[1]) * 4; at + 4 <= table.size && last < kMaxSymbols; at += 4) {
    ++last;
    if (bytes.value<std::uint32_t>(table.offset + at).value_or(1) & 1) break;
  }
  return last;
}

/// Length of the string at `at` in the names `table`, `most` where it is longer.
std::uint64_t length_of_name(const Bytes& bytes, Extent table, std::uint64_t at, std::uint64_t most) {
  if (at >= table.size) return 0;
  const std::vector<std::byte> raw = bytes.copy({table.offset + at, std::min(table.size - at, most)});
  return strnlen(reinterpret_cast<const char*>(raw.data()), raw.size());
}

/// Whether the names of symbols are not much longer together than what they lie in. Linkers let names share an end; a
/// file where each has most of the table makes gigabytes of a megabyte.
bool names_are_few(const Bytes& bytes, Extent symbols_at, Extent names_at) {
  const std::vector<std::byte> symbols = bytes.copy(symbols_at), names = bytes.copy(names_at);
  const char* text = reinterpret_cast<const char*>(names.data());
  std::uint64_t left = 4 * names.size() + (1 << 20);
  for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, symbols.data() + at, sizeof symbol);
    if (symbol.st_name >= names.size()) continue;
    const std::uint64_t length = strnlen(text + symbol.st_name, names.size() - symbol.st_name);
    if (length > left) return false;
    left -= length;
  }
  return true;
}

/// Whether a version table, DT_VERNEED or DT_VERDEF, is met as often as its bytes tell. Its entries may lead to each
/// other, so that 256 KiB of them are a hundred million, and their names may all be one that fills the file.
template <typename Entry, typename Part>
bool versions_are_few(const std::vector<std::byte>& table, const std::function<std::uint64_t(std::uint64_t)>& length) {
  const MemoryBytes bytes(table);
  std::uint64_t met = 0, names = 0;
  for (std::uint64_t at = 0;;) {
    const auto entry = bytes.value<Entry>(at);
    if (!entry) return true;
    std::uint64_t part_at = at, next = 0;
    if constexpr (std::is_same_v<Entry, Elf64_Verneed>) {
      names += length(entry->vn_file);
      part_at += entry->vn_aux;
      next = entry->vn_next;
    } else {
      part_at += entry->vd_aux;
      next = entry->vd_next;
    }
    while (const auto part = bytes.value<Part>(part_at)) {
      std::uint64_t step = 0;
      if constexpr (std::is_same_v<Part, Elf64_Vernaux>) {
        names += length(part->vna_name);
        step = part->vna_next;
      } else {
        names += length(part->vda_name);
        step = part->vda_next;
      }
      if (++met > kMaxVersions || names > kMaxSymbolNames) return false;
      if (step == 0) break;
      part_at += step;
    }
    if (++met > kMaxVersions || names > kMaxSymbolNames) return false;
    if (next == 0) return true;
    at += next;
  }
}

/// Lays blobs one after the other behind the headers and notes where they went.
class SliceWriter {
 public:
  explicit SliceWriter(std::size_t headers) : data_(headers) {}

  /// Copies `where` in; returns the offset in the image.
  std::uint64_t add(const Bytes& bytes, Extent where) {
    std::uint64_t at = start();
    data_.resize(at + where.size);
    bytes.read(where.offset, std::as_writable_bytes(std::span(data_)).subspan(at));
    return at;
  }

  std::uint64_t add(std::span<const std::byte> blob) {
    std::uint64_t at = start();
    data_.resize(at + blob.size());
    if (!blob.empty()) std::memcpy(data_.data() + at, blob.data(), blob.size());
    return at;
  }

  template <typename T>
  void put(std::uint64_t at, const T& value) {
    std::memcpy(data_.data() + at, &value, sizeof value);
  }

  /// A string without an end must end somewhere.
  std::vector<std::uint8_t> finish() && {
    data_.resize(data_.size() + 16);
    return std::move(data_);
  }

 private:
  std::uint64_t start() {
    data_.resize((data_.size() + 15) / 16 * 16 + 16);  // zeros between blobs end strings too
    return data_.size();
  }

  std::vector<std::uint8_t> data_;
};

/// A part of the file that keeps its address in the slice.
struct Kept {
  std::uint64_t address;
  Extent where;
};

/// Joins parts that overlap or touch and are mapped by one PT_LOAD; sorted from high to low addresses, because
/// LIEF takes the first PT_LOAD that holds an address, its end included.
std::vector<Kept> merge(std::vector<Kept> parts) {
  std::sort(parts.begin(), parts.end(), [](const Kept& a, const Kept& b) { return a.address < b.address; });
  std::vector<Kept> merged;
  for (const Kept& part : parts) {
    if (!merged.empty()) {
      Kept& last = merged.back();
      bool same_load = part.address - last.address == part.where.offset - last.where.offset;
      if (same_load && part.where.offset <= last.where.end()) {
        last.where.size = std::max(last.where.end(), part.where.end()) - last.where.offset;
        continue;
      }
    }
    merged.push_back(part);
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

}  // namespace

bool ElfSection::is_data() const {
  return type == SHT_PROGBITS && (flags & SHF_ALLOC) && !(flags & (SHF_EXECINSTR | SHF_COMPRESSED));
}

bool ElfSection::is_writable() const { return (flags & SHF_WRITE) != 0; }

bool ElfSegment::is_load() const { return type == PT_LOAD; }
bool ElfSegment::holds_constants() const { return !(flags & PF_W) || (flags & PF_X); }

std::optional<std::uint64_t> ElfLayout::dynamic_value(std::int64_t tag) const {
  for (const ElfDynamic& entry : dynamic) {
    if (entry.tag == tag) return entry.value;
  }
  return std::nullopt;
}

Extent ElfLayout::at_address(std::uint64_t address, std::uint64_t limit) const {
  for (const ElfSegment& segment : segments) {
    if (!segment.is_load() || address < segment.address) continue;
    std::uint64_t inside = address - segment.address;
    if (inside >= segment.where.size) continue;
    return {segment.where.offset + inside, std::min(limit, segment.where.size - inside)};
  }
  return {};
}

std::optional<ElfLayout> read_elf_layout(const Bytes& bytes, std::vector<Problem>& problems) {
  auto header = bytes.value<Elf64_Ehdr>(0);
  if (!header) {
    complain(problems, 0, fmt::format("ELF header: expected {} bytes, found {}", sizeof(Elf64_Ehdr), bytes.size()));
    return std::nullopt;
  }
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) return std::nullopt;
  ElfLayout layout;
  layout.type = header->e_type;
  layout.machine = header->e_machine;
  read_sections(bytes, *header, layout, problems);
  read_segments(bytes, *header, layout, problems);
  read_dynamic(bytes, layout, problems);
  return layout;
}

SymbolsByVersion symbols_by_version(const Bytes& bytes, const ElfLayout& layout,
                                    const std::set<std::uint16_t>& versions, std::vector<Problem>& problems) {
  const auto symbols = layout.dynamic_value(DT_SYMTAB), names = layout.dynamic_value(DT_STRTAB),
             indices = layout.dynamic_value(DT_VERSYM);
  if (versions.empty() || !symbols || !names || !indices) return {};
  std::uint64_t count = std::min(count_symbols(bytes, layout, *symbols), kMaxSymbols);
  const Extent symbols_at = layout.at_address(*symbols, count * sizeof(Elf64_Sym));
  const Extent indices_at = layout.at_address(*indices, count * sizeof(std::uint16_t));
  const Extent names_at = layout.at_address(*names, layout.dynamic_value(DT_STRSZ).value_or(0));
  count = std::min(symbols_at.size / sizeof(Elf64_Sym), indices_at.size / sizeof(std::uint16_t));
  std::vector<std::uint16_t> index(count);
  bytes.read(indices_at.offset, std::as_writable_bytes(std::span(index)));

  SymbolsByVersion found;
  std::uint64_t left = kMaxSymbolNames;
  for (std::uint64_t i = 1; i < count; ++i) {
    const std::uint16_t version = index[i] & 0x7fff;
    if (!versions.contains(version)) continue;
    const auto symbol = bytes.value<Elf64_Sym>(symbols_at.offset + i * sizeof(Elf64_Sym));
    if (!symbol || symbol->st_name >= names_at.size) continue;
    const std::vector<std::byte> raw = bytes.copy(
        {names_at.offset + symbol->st_name, std::min<std::uint64_t>(names_at.size - symbol->st_name, kMaxSymbolName)});
    const char* text = reinterpret_cast<const char*>(raw.data());
    std::string name(text, strnlen(text, raw.size()));
    if (name.size() > left) {
      complain(problems, indices_at.offset,
               fmt::format("ELF symbol versions: expected at most {} bytes of names that other libraries define",
                           kMaxSymbolNames));
      break;
    }
    left -= name.size();
    found[version].push_back(std::move(name));
  }
  return found;
}

std::vector<std::uint8_t> make_slice(const Bytes& bytes, const ElfLayout& layout, bool with_symbols,
                                     std::vector<Problem>& problems) {
  std::vector<Kept> kept;
  std::vector<Elf64_Dyn> dynamic;
  std::uint64_t symbols_address = 0;
  std::uint64_t symbol_count = 0;

  // LIEF ends the process where a version table has no string table, so no names: nothing of the dynamic table.
  auto strings = layout.dynamic_value(DT_STRTAB);
  Extent strings_at;
  if (strings)
    strings_at = layout.at_address(*strings, std::min(layout.dynamic_value(DT_STRSZ).value_or(0), kMaxStrings));
  if (!layout.dynamic.empty() && strings_at.size == 0) {
    problems.push_back({std::nullopt, "ELF DT_STRTAB: expected names of the dynamic table, found none in the file"});
  }
  if (strings_at.size != 0) {
    kept.push_back({*strings, strings_at});
    auto keep = [&](std::int64_t address_tag, std::int64_t count_tag, std::uint64_t limit) {
      auto address = layout.dynamic_value(address_tag);
      auto count = layout.dynamic_value(count_tag);
      if (!address || !count) return;
      Extent where = layout.at_address(*address, limit);
      if (where.size == 0) {
        problems.push_back(
            {std::nullopt, fmt::format("ELF dynamic tag {:#x}: expected an address inside the file, found {:#x}",
                                       address_tag, *address)});
        return;
      }
      const auto length = [&](std::uint64_t at) { return length_of_name(bytes, strings_at, at, kMaxSymbolName); };
      const std::vector<std::byte> table = bytes.copy(where);
      if (!(address_tag == DT_VERNEED ? versions_are_few<Elf64_Verneed, Elf64_Vernaux>(table, length)
                                      : versions_are_few<Elf64_Verdef, Elf64_Verdaux>(table, length))) {
        complain(problems, where.offset,
                 fmt::format("ELF dynamic tag {:#x}: expected at most {} versions and {} bytes of their names, found "
                             "more",
                             address_tag, kMaxVersions, kMaxSymbolNames));
        return;
      }
      kept.push_back({*address, where});
      dynamic.push_back({address_tag, {*address}});
      dynamic.push_back({count_tag, {*count}});
    };
    static const std::set<std::int64_t> plain = {DT_NEEDED, DT_SONAME,   DT_RPATH, DT_RUNPATH, DT_STRTAB,
                                                 DT_STRSZ,  DT_SYMBOLIC, DT_FLAGS, DT_FLAGS_1};
    static const std::set<std::int64_t> names = {DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH};
    std::uint64_t names_left = kMaxNames;
    bool told = false;
    for (const ElfDynamic& entry : layout.dynamic) {
      if (!plain.contains(entry.tag)) continue;
      if (names.contains(entry.tag) && entry.value >= strings_at.size) {
        problems.push_back(
            {std::nullopt, fmt::format("ELF dynamic tag {}: expected a name inside the {} bytes of DT_STRTAB, found {}",
                                       entry.tag, strings_at.size, entry.value)});
        continue;
      }
      if (names.contains(entry.tag)) {
        // Every entry may name one string that fills the file.
        const std::uint64_t length = length_of_name(bytes, strings_at, entry.value, kMaxNames + 1);
        if (length > names_left) {
          if (!std::exchange(told, true))
            problems.push_back({std::nullopt, fmt::format("ELF dynamic tag {}: expected names and search paths of at "
                                                          "most {} bytes, found more",
                                                          entry.tag, kMaxNames)});
          continue;  // what comes behind is read: DT_STRTAB, without which there are no names, may be there
        }
        names_left -= length;
      }
      dynamic.push_back({entry.tag, {entry.value}});
    }
    keep(DT_VERDEF, DT_VERDEFNUM, kMaxVersionTable);
    keep(DT_VERNEED, DT_VERNEEDNUM, kMaxVersionTable);
    if (auto address = layout.dynamic_value(DT_SYMTAB); address && with_symbols) {
      symbols_address = *address;
      symbol_count = std::min(count_symbols(bytes, layout, *address), kMaxSymbols);
      symbol_count = std::min(symbol_count,
                              layout.at_address(*address, symbol_count * sizeof(Elf64_Sym)).size / sizeof(Elf64_Sym));
      if (symbol_count != 0 &&
          !names_are_few(bytes, layout.at_address(*address, symbol_count * sizeof(Elf64_Sym)), strings_at)) {
        problems.push_back({std::nullopt, fmt::format("ELF dynamic symbols: expected names of not much more than the "
                                                      "{} bytes of DT_STRTAB together, found more",
                                                      strings_at.size)});
        symbol_count = 0;
      }
      if (symbol_count != 0) {
        kept.push_back({*address, layout.at_address(*address, symbol_count * sizeof(Elf64_Sym))});
        dynamic.push_back({DT_SYMTAB, {*address}});
        dynamic.push_back({DT_SYMENT, {sizeof(Elf64_Sym)}});  // the file may leave it out
      }
    }
  }
  dynamic.push_back({DT_NULL, {0}});
  kept = merge(std::move(kept));

  // Notes: LIEF reads the first PT_NOTE only, but every SHT_NOTE section. So each becomes a section.
  std::vector<Extent> notes;
  std::uint64_t notes_left = kMaxNotes;
  auto add_note = [&](Extent where) {
    if (where.size != 0 && where.size <= notes_left && notes.size() < 64 &&
        std::find(notes.begin(), notes.end(), where) == notes.end()) {
      notes.push_back(where);
      notes_left -= where.size;
    }
  };
  Extent interpreter;
  for (const ElfSegment& segment : layout.segments) {
    if (segment.type == PT_NOTE) add_note(segment.where);
    if (segment.type == PT_INTERP && segment.where.size <= kMaxInterpreter) interpreter = segment.where;
  }
  if (layout.segments.empty()) {
    for (const ElfSection& section : layout.sections) {
      if (section.type == SHT_NOTE && (section.flags & SHF_ALLOC)) add_note(section.where);
    }
  }

  std::size_t segment_count = kept.size() + 1 + (interpreter.size != 0);
  std::size_t section_count = 1 + 1 + notes.size() + (symbol_count != 0);
  std::uint64_t segments_at = sizeof(Elf64_Ehdr);
  std::uint64_t sections_at = segments_at + segment_count * sizeof(Elf64_Phdr);
  SliceWriter image(sections_at + section_count * sizeof(Elf64_Shdr));

  std::uint64_t next_segment = segments_at;
  auto add_segment = [&](std::uint32_t type, std::uint64_t address, std::uint64_t offset, std::uint64_t size) {
    image.put(next_segment, Elf64_Phdr{type, PF_R, offset, address, address, size, size, 1});
    next_segment += sizeof(Elf64_Phdr);
  };
  std::uint64_t symbols_at = 0;
  for (const Kept& part : kept) {
    std::uint64_t at = image.add(bytes, part.where);
    add_segment(PT_LOAD, part.address, at, part.where.size);
    // From high to low: the first that holds the address is its own, whatever hostile segments lie over it.
    if (symbol_count != 0 && symbols_at == 0 && symbols_address >= part.address &&
        symbols_address - part.address < part.where.size) {
      symbols_at = at + (symbols_address - part.address);
    }
  }
  // Names may lie at address 0. The dynamic table has an address that nothing else has, or it would be read from there.
  std::uint64_t dynamic_address = 0;
  for (std::size_t i = 0; i < kept.size(); ++i)
    for (const Kept& part : kept)
      if (dynamic_address >= part.address && dynamic_address - part.address < part.where.size)
        dynamic_address = part.address + part.where.size;
  add_segment(PT_DYNAMIC, dynamic_address, image.add(std::as_bytes(std::span(dynamic))),
              dynamic.size() * sizeof(Elf64_Dyn));
  if (interpreter.size != 0) add_segment(PT_INTERP, 0, image.add(bytes, interpreter), interpreter.size);

  std::uint64_t next_section = sections_at + sizeof(Elf64_Shdr);  // section 0 stays zero
  auto add_section = [&](std::uint32_t type, std::uint64_t offset, std::uint64_t size, std::uint64_t entry) {
    image.put(next_section, Elf64_Shdr{0, type, 0, 0, offset, size, 0, 0, 4, entry});
    next_section += sizeof(Elf64_Shdr);
  };
  std::byte no_name{0};
  add_section(SHT_STRTAB, image.add(std::span(&no_name, 1)), 1, 0);  // section names, e_shstrndx 1
  if (symbol_count != 0) add_section(SHT_DYNSYM, symbols_at, symbol_count * sizeof(Elf64_Sym), sizeof(Elf64_Sym));
  for (Extent note : notes) add_section(SHT_NOTE, image.add(bytes, note), note.size, 0);

  Elf64_Ehdr header = bytes.value<Elf64_Ehdr>(0).value_or(Elf64_Ehdr{});
  header.e_phoff = segments_at;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = static_cast<std::uint16_t>(segment_count);
  header.e_shoff = sections_at;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<std::uint16_t>(section_count);
  header.e_shstrndx = 1;
  image.put(0, header);
  return std::move(image).finish();
}

}  // namespace cudeploy
