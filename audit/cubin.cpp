#include "cubin.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace cudeploy {
namespace {

constexpr std::uint16_t machine_cuda = 190;  // EM_CUDA
constexpr unsigned char os_abi_7 = 0x33;     // up to 12.9 below sm_100
constexpr unsigned char os_abi_8 = 0x41;
constexpr std::uint32_t section_info = 0x70000000;    // .nv.info, .nv.info.<kernel>
constexpr std::uint32_t section_compat = 0x70000086;  // .nv.compat
constexpr std::uint32_t section_shared = 0x7000000a;  // .nv_debug.shared of relocatable cubins: no bytes in the file
constexpr std::uint32_t note_tool_info = 2000;        // in .note.nv.tkinfo
constexpr unsigned char symbol_entry = 0x10;          // STO_CUDA_ENTRY: a kernel, not a device function
constexpr unsigned char info_registers = 0x2f;        // EIATTR_REGCOUNT {symbol, registers}
constexpr std::uint64_t longest_name = 64u << 10;
constexpr std::uint64_t longest_note = 64u << 10;
constexpr std::uint64_t largest_info = 16u << 20;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The part of `text` up to its first NUL.
std::string_view up_to_nul(std::string_view text) { return text.substr(0, text.find('\0')); }

/// The NUL-terminated string at `offset` of the string table, "" where there is none.
std::string string_at(const Bytes& bytes, Extent table, std::uint64_t offset) {
  std::string out;
  while (offset < table.size && out.size() < longest_name) {
    std::array<std::byte, 256> piece;
    const std::uint64_t count = std::min<std::uint64_t>(piece.size(), table.size - offset);
    const std::size_t got = bytes.read(table.offset + offset, std::span(piece).first(count));
    const auto text = as_text(std::span(piece).first(got));
    const auto part = up_to_nul(text);
    out += part;
    if (part.size() < text.size() || got == 0) return out;
    offset += got;
  }
  return {};  // no end: not a name
}

/// Walks an array of fixed-size records without holding it: `each(index, record)` until it returns false.
template <typename Record, typename Each>
bool walk(const Bytes& bytes, std::uint64_t offset, std::uint64_t count, Each each) {
  std::array<Record, 4096 / sizeof(Record)> records;
  for (std::uint64_t done = 0; done < count;) {
    const auto wanted = std::span(records).first(std::min<std::uint64_t>(records.size(), count - done));
    const std::size_t got = bytes.read(offset + done * sizeof(Record), std::as_writable_bytes(wanted)) / sizeof(Record);
    if (got == 0) return false;
    for (std::size_t i = 0; i < got; ++i) {
      if (!each(done + i, wanted[i])) return true;
    }
    done += got;
  }
  return true;
}

/// "Cuda compilation tools, release 13.0, V13.0.88" -> "13.0.88"; the release where there is no V.
std::optional<std::string> toolkit_of(std::string_view text) {
  for (const std::string_view before : {", V", "release "}) {
    const auto at = text.find(before);
    if (at == std::string_view::npos) continue;
    const auto rest = text.substr(at + before.size());
    auto version = rest.substr(0, std::min(rest.size(), rest.find_first_not_of("0123456789.")));
    while (version.ends_with('.')) version.remove_suffix(1);
    if (version.find('.') != std::string_view::npos) return std::string(version);
  }
  return std::nullopt;
}

/// What follows sm_<arch> after "-arch" in ptxas' arguments: "", "a", "f"; null where it is not named so.
std::optional<std::string> variant_of(std::string_view arguments, std::uint32_t arch) {
  const auto option = arguments.find("-arch");
  if (option == std::string_view::npos) return std::nullopt;
  auto word = arguments.substr(option + 5);
  word.remove_prefix(std::min(word.size(), word.find_first_not_of(" =")));
  word = word.substr(0, word.find(' '));
  const std::string plain = fmt::format("sm_{}", arch);
  if (word == plain) return "";
  if (word == plain + "a") return "a";
  if (word == plain + "f") return "f";
  return std::nullopt;
}

struct ToolNote {
  std::optional<std::string> toolkit;
  std::string arguments;
};

/// The tool note inside a note section: u32 version, five string offsets, strings.
void read_tool_note(std::span<const std::byte> section, ToolNote& out) {
  auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, section.data() + at, sizeof value);
    return value;
  };
  std::size_t at = 0;
  while (section.size() - at >= 12) {
    const std::uint64_t name_size = word(at), text_size = word(at + 4);
    const std::uint32_t type = word(at + 8);
    const std::uint64_t text_at = at + 12 + (name_size + 3) / 4 * 4;
    if (text_at > section.size() || text_size > section.size() - text_at) return;
    const auto owner =
        up_to_nul(as_text(section.subspan(at + 12, std::min<std::uint64_t>(name_size, section.size() - at - 12))));
    if (type == note_tool_info && owner == "NVIDIA Corp" && text_size > 24) {
      const auto strings = as_text(section.subspan(text_at + 24, text_size - 24));
      auto string = [&](int index) -> std::string_view {
        const std::uint32_t offset = word(text_at + 4 + std::size_t{4} * index);
        return offset < strings.size() ? up_to_nul(strings.substr(offset)) : std::string_view{};
      };
      out.toolkit = toolkit_of(string(2));
      out.arguments = string(4);
      return;
    }
    at = std::min<std::uint64_t>(section.size(), text_at + (text_size + 3) / 4 * 4);
  }
}

/// Calls `each(attribute, data)` for the records {u8 format, u8 attribute, 2 bytes}; format 4 = {u16 length, data}.
template <typename Each>
void walk_attributes(std::span<const std::byte> section, Each each) {
  std::size_t at = 0;
  while (section.size() - at >= 4) {
    const auto format = std::to_integer<unsigned>(section[at]);
    const auto attribute = std::to_integer<unsigned>(section[at + 1]);
    std::uint16_t length = 0;
    if (format == 4) std::memcpy(&length, section.data() + at + 2, sizeof length);
    if (length > section.size() - at - 4) return;
    each(attribute, format == 4 ? section.subspan(at + 4, length) : section.subspan(at + 2, 2));
    at = std::min<std::size_t>(section.size(), at + 4 + std::size_t{(length + 3u) / 4} * 4);
  }
}

struct SharedSection {
  std::uint32_t name = 0;
  std::uint64_t size = 0;
};

/// What the walk over the section headers keeps.
struct Sections {
  std::uint64_t count = 0;
  std::uint64_t end = 0;
  std::optional<Elf64_Shdr> symbols;
  std::vector<Extent> notes;
  std::optional<Extent> compat;
  std::optional<Extent> info;         ///< the file's .nv.info, not a kernel's
  std::vector<SharedSection> shared;  ///< .nv.shared.<kernel> has no bytes in the file
};

bool read_sections(const Bytes& cubin, const Elf64_Ehdr& header, CubinDetail detail, Sections& out,
                   std::string& fault) {
  out.count = header.e_shnum;
  if (header.e_shoff == 0) return true;
  if (out.count == 0) {  // 65,280 sections and more: the number stands in the first section header
    const auto first = cubin.value<Elf64_Shdr>(header.e_shoff);
    if (first) out.count = first->sh_size;
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr)) {
    fault = fmt::format("e_shentsize: expected {}, found {}", sizeof(Elf64_Shdr), header.e_shentsize);
    return false;
  }
  if (header.e_shoff > cubin.size() || out.count > (cubin.size() - header.e_shoff) / sizeof(Elf64_Shdr)) {
    fault = fmt::format("section headers: {} at {} do not fit in {} bytes", out.count, header.e_shoff, cubin.size());
    return false;
  }
  out.end = header.e_shoff + out.count * sizeof(Elf64_Shdr);
  const bool whole =
      walk<Elf64_Shdr>(cubin, header.e_shoff, out.count, [&](std::uint64_t index, const Elf64_Shdr& section) {
        if (section.sh_type == SHT_NULL) return true;
        const Extent extent{section.sh_offset, section.sh_size};
        if (section.sh_type == SHT_NOBITS || section.sh_type == section_shared) {
          if (detail == CubinDetail::kernels && section.sh_size != 0)
            out.shared.push_back({section.sh_name, section.sh_size});
          return true;
        }
        if (!cubin.holds(extent)) {
          fault = fmt::format("section {}: {} bytes at {} do not fit in {} bytes", index, extent.size, extent.offset,
                              cubin.size());
          return false;
        }
        out.end = std::max(out.end, extent.end());
        if (section.sh_type == SHT_SYMTAB && !out.symbols) out.symbols = section;
        if (section.sh_type == SHT_NOTE && out.notes.size() < 16) out.notes.push_back(extent);
        if (section.sh_type == section_compat) out.compat = extent;
        if (section.sh_type == section_info && section.sh_info == 0) out.info = extent;
        return true;
      });
  if (!whole) fault = "section headers: the data ends before their end";
  return whole && fault.empty();
}

bool read_kernels(const Bytes& cubin, const Elf64_Ehdr& header, const Sections& sections, CubinDetail detail,
                  CubinFacts& facts, std::string& fault) {
  facts.kernel_count = 0;
  if (!sections.symbols) return true;
  const Elf64_Shdr& table = *sections.symbols;
  if (table.sh_entsize != sizeof(Elf64_Sym)) {
    fault = fmt::format("symbol table: expected entries of {} bytes, found {}", sizeof(Elf64_Sym), table.sh_entsize);
    return false;
  }
  Extent strings;
  auto extent_of = [&](std::uint64_t index) -> Extent {
    if (index >= sections.count) return {};
    const auto section = cubin.value<Elf64_Shdr>(header.e_shoff + index * sizeof(Elf64_Shdr));
    return section && section->sh_type == SHT_STRTAB ? Extent{section->sh_offset, section->sh_size} : Extent{};
  };
  std::map<std::uint64_t, Kernel> by_symbol;
  // Names may share their tails, but many long names out of a small table are an attack on memory.
  std::uint64_t budget = 0;
  if (detail == CubinDetail::kernels) {
    strings = extent_of(table.sh_link);
    budget = 4 * strings.size + longest_name;
  }
  const bool whole = walk<Elf64_Sym>(
      cubin, table.sh_offset, table.sh_size / sizeof(Elf64_Sym), [&](std::uint64_t index, const Elf64_Sym& symbol) {
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || (symbol.st_other & symbol_entry) == 0) return true;
        if (symbol.st_shndx == SHN_UNDEF) return true;
        ++*facts.kernel_count;
        if (detail != CubinDetail::kernels) return true;
        Kernel kernel;
        kernel.name = string_at(cubin, strings, symbol.st_name);
        const std::uint64_t cost = kernel.name.size() + 1;
        if (cost > budget) {
          fault = "symbol table: the names are longer than their string table allows";
          return false;
        }
        budget -= cost;
        by_symbol.emplace(index, std::move(kernel));
        return true;
      });
  if (!whole) fault = "symbol table: the data ends before its end";
  if (!fault.empty()) return false;
  if (detail != CubinDetail::kernels) return true;

  if (sections.info && sections.info->size <= largest_info) {
    walk_attributes(cubin.copy(*sections.info), [&](unsigned attribute, std::span<const std::byte> data) {
      if (attribute != info_registers || data.size() != 8) return;
      std::uint32_t pair[2];
      std::memcpy(pair, data.data(), sizeof pair);
      if (const auto found = by_symbol.find(pair[0]); found != by_symbol.end()) found->second.registers = pair[1];
    });
  }
  std::map<std::string, std::uint64_t> shared;
  if (!sections.shared.empty()) {
    std::uint64_t names_index = header.e_shstrndx;
    if (names_index == SHN_XINDEX) {
      const auto first = cubin.value<Elf64_Shdr>(header.e_shoff);
      names_index = first ? first->sh_link : 0;
    }
    const Extent names = extent_of(names_index);
    for (const SharedSection& section : sections.shared) {
      constexpr std::string_view prefix = ".nv.shared.";
      const std::string name = string_at(cubin, names, section.name);
      if (name.starts_with(prefix)) shared[name.substr(prefix.size())] = section.size;
    }
  }
  for (auto& [index, kernel] : by_symbol) {
    const auto found = shared.find(kernel.name);
    kernel.shared_bytes = found == shared.end() ? 0 : found->second;
    facts.kernels.push_back(std::move(kernel));
  }
  std::stable_sort(facts.kernels.begin(), facts.kernels.end(),
                   [](const Kernel& left, const Kernel& right) { return left.name < right.name; });
  return true;
}

std::optional<Elf64_Ehdr> cubin_header(const Bytes& bytes) {
  const auto header = bytes.value<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) return std::nullopt;
  if (header->e_machine != machine_cuda) return std::nullopt;
  return header;
}

Extent inside(const Bytes& bytes, Extent where) {
  const std::uint64_t offset = std::min(where.offset, bytes.size());
  return {offset, std::min(where.size, bytes.size() - offset)};
}

}  // namespace

bool looks_like_cubin(const Bytes& bytes, Extent where) {
  return cubin_header(PartBytes(bytes, inside(bytes, where))).has_value();
}

std::optional<CubinFacts> read_cubin_facts(const Bytes& bytes, Extent where, CubinDetail detail, std::string& fault) {
  const PartBytes cubin(bytes, inside(bytes, where));
  fault.clear();
  const auto header = cubin_header(cubin);
  if (!header) {
    fault = "expected the header of a 64-bit ELF file for CUDA, found none";
    return std::nullopt;
  }
  const unsigned char os_abi = header->e_ident[EI_OSABI];
  if (os_abi != os_abi_7 && os_abi != os_abi_8) {
    fault = fmt::format("OS/ABI: expected 0x33 or 0x41, found 0x{:02x}", os_abi);
    return std::nullopt;
  }
  if (header->e_type != ET_REL && header->e_type != ET_EXEC) {
    fault = fmt::format("type: expected 1 (relocatable) or 2 (executable), found {}", header->e_type);
    return std::nullopt;
  }
  if (header->e_ehsize != sizeof(Elf64_Ehdr)) {
    fault = fmt::format("e_ehsize: expected {}, found {}", sizeof(Elf64_Ehdr), header->e_ehsize);
    return std::nullopt;
  }

  CubinFacts facts;
  facts.abi = header->e_ident[EI_ABIVERSION];
  facts.relocatable = header->e_type == ET_REL;
  Sections sections;
  if (!read_sections(cubin, *header, detail, sections, fault)) return std::nullopt;
  facts.size = std::max<std::uint64_t>(sizeof(Elf64_Ehdr), sections.end);
  if (header->e_phnum != 0) {
    const Extent table{header->e_phoff, std::uint64_t{header->e_phnum} * header->e_phentsize};
    if (header->e_phentsize != sizeof(Elf64_Phdr) || !cubin.holds(table)) {
      fault =
          fmt::format("program headers: {} at {} do not fit in {} bytes", header->e_phnum, table.offset, cubin.size());
      return std::nullopt;
    }
    facts.size = std::max(facts.size, table.end());
  }

  ToolNote note;
  if (os_abi == os_abi_8) {
    facts.arch = header->e_flags >> 8 & 0xff;
    facts.arch_specific = (header->e_flags & 0x8) != 0;  // 12.8 and 12.9; later ones say it in .nv.compat
    for (const Extent& section : sections.notes) {
      if (section.size > longest_note || note.toolkit) continue;
      read_tool_note(cubin.copy(section), note);
    }
    facts.toolkit = note.toolkit;
    if (sections.compat && sections.compat->size <= longest_note) {
      facts.arch_specific |= compat_says_arch_specific(cubin.copy(*sections.compat));
    }
  } else {
    facts.arch = header->e_flags & 0xff;
    // Below sm_90 there is no such variant: CUDA 9.0 set the bit for sm_60, and meant something else.
    facts.arch_specific = facts.arch >= 90 && (header->e_flags & 0x800) != 0;
    if (header->e_version >= 20) facts.toolkit = fmt::format("{}.{}", header->e_version / 10, header->e_version % 10);
  }
  if (facts.arch_specific) {
    facts.variant = "a";
  } else if (os_abi == os_abi_7 || facts.arch < 100) {
    facts.variant = "";  // families begin with sm_100
  } else {
    facts.variant = variant_of(note.arguments, facts.arch);
  }

  if (detail != CubinDetail::headers && !read_kernels(cubin, *header, sections, detail, facts, fault))
    return std::nullopt;
  return facts;
}

bool compat_says_arch_specific(std::span<const std::byte> compat) {
  bool specific = false;
  walk_attributes(compat, [&](unsigned attribute, std::span<const std::byte> data) {
    if (attribute == 9 && data.size() == 2) specific |= data[0] == std::byte{1};
  });
  return specific;
}

FatBinary read_cubin(const Bytes& bytes, Extent where, const std::optional<std::string>& section,
                     const ReadOptions& options, std::vector<Problem>& problems) {
  where = inside(bytes, where);
  FatBinary out;
  out.offset = where.offset;
  out.size = where.size;
  out.section = section;
  Image image;
  image.offset = where.offset;
  image.kind = ImageKind::cubin;
  const bool names = options.kernels || options.for_audit;
  std::string fault;
  if (auto facts = read_cubin_facts(bytes, where, names ? CubinDetail::kernels : CubinDetail::kernel_count, fault)) {
    out.size = facts->size;
    out.loadable = !facts->relocatable;
    image.arch = facts->arch;
    image.variant = facts->variant.value_or("");
    image.arch_specific = facts->arch_specific;
    image.toolkit = std::move(facts->toolkit);
    image.kernel_count = facts->kernel_count;
    image.kernels = std::move(facts->kernels);
  } else {
    problems.push_back({where.offset, "cubin: " + fault});
  }
  image.stored_size = image.size = out.size;
  out.images.push_back(std::move(image));
  return out;
}

}  // namespace cudeploy
