#include "pe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <set>

namespace cudeploy {

namespace {

// Layout and numbers: PE Format, learn.microsoft.com/windows/win32/debug/pe-format.
constexpr std::uint16_t kDosMagic = 0x5a4d;       // "MZ"
constexpr std::uint32_t kSignature = 0x00004550;  // "PE\0\0"
constexpr std::uint64_t kSignatureOffset = 0x3c;  // e_lfanew
constexpr std::uint16_t kPe32 = 0x10b, kPe32Plus = 0x20b;
constexpr std::uint16_t kIsDll = 0x2000;
constexpr std::uint32_t kCode = 0x00000020, kDiscardable = 0x02000000, kExecute = 0x20000000, kWrite = 0x80000000;
constexpr std::size_t kExportDirectory = 0, kImportDirectory = 1, kDelayImportDirectory = 13;
constexpr std::uint32_t kDelayByAddress = 1;  // attribute of a delayed import: relative addresses, not pointers

// Bounds on what hostile headers may claim. Published files have up to 20 sections and 40 imported DLLs; Windows
// itself reads no more than 96 sections.
constexpr std::size_t kMaxSections = 1024;
constexpr std::size_t kMaxImports = 1024;
constexpr std::size_t kMaxLibraryName = 260;  // MAX_PATH
constexpr std::size_t kMaxSymbolName = 4096;  // of the Visual C++ linker
constexpr std::size_t kMaxSectionName = 128;
constexpr std::size_t kMaxCutSections = 16;  // told one by one

struct FileHeader {
  std::uint16_t machine;
  std::uint16_t sections;
  std::uint32_t time;
  std::uint32_t symbols;
  std::uint32_t symbol_count;
  std::uint16_t optional_size;
  std::uint16_t characteristics;
};
static_assert(sizeof(FileHeader) == 20);

struct Directory {
  std::uint32_t address;
  std::uint32_t size;
};

struct SectionHeader {
  std::array<char, 8> name;
  std::uint32_t memory_size;
  std::uint32_t address;
  std::uint32_t file_size;
  std::uint32_t file_offset;
  std::array<std::uint32_t, 3> unused;
  std::uint32_t flags;
};
static_assert(sizeof(SectionHeader) == 40);

struct ImportDescriptor {
  std::uint32_t lookup;
  std::uint32_t time;
  std::uint32_t forwarder;
  std::uint32_t name;
  std::uint32_t slots;
};
static_assert(sizeof(ImportDescriptor) == 20);

struct DelayImportDescriptor {
  std::uint32_t attributes;
  std::uint32_t name;
  std::array<std::uint32_t, 6> unused;
};
static_assert(sizeof(DelayImportDescriptor) == 32);

struct ExportDirectory {
  std::array<std::uint32_t, 3> unused;
  std::uint32_t name;
  std::uint32_t base;
  std::uint32_t functions;
  std::uint32_t names;
  std::uint32_t function_table;
  std::uint32_t name_table;
  std::uint32_t ordinal_table;
};
static_assert(sizeof(ExportDirectory) == 40);

/// The text that ends with a zero inside `where`; nothing where it does not, is empty, or is longer than `limit`.
std::optional<std::string> text_in(const Bytes& bytes, Extent where, std::size_t limit) {
  std::string text;
  for (std::size_t length = 64; text.size() < std::min<std::uint64_t>(where.size, limit + 1); length *= 2) {
    const std::size_t want = std::min<std::uint64_t>({length, where.size, limit + 1});
    text.resize(want);
    text.resize(bytes.read(where.offset, std::as_writable_bytes(std::span(text))));
    if (const std::size_t end = text.find('\0'); end != std::string::npos) {
      text.resize(end);
      return text.empty() ? std::nullopt : std::optional(text);
    }
    if (text.size() < want) break;
  }
  return std::nullopt;
}

/// A name of more than eight bytes lies in the string table behind the symbols: "/<offset>".
std::string section_name(const Bytes& bytes, const FileHeader& header, const SectionHeader& section) {
  std::string name(section.name.data(), strnlen(section.name.data(), section.name.size()));
  constexpr std::uint64_t symbol_size = 18;
  std::uint32_t offset = 0;
  if (!name.starts_with('/') || header.symbols == 0) return name;
  auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), offset);
  if (error != std::errc{} || end != name.data() + name.size()) return name;
  const std::uint64_t at = header.symbols + header.symbol_count * symbol_size + offset;
  if (at >= bytes.size()) return name;
  return text_in(bytes, {at, bytes.size() - at}, kMaxSectionName).value_or(name);
}

void read_sections(const Bytes& bytes, const FileHeader& header, std::uint64_t table, PeLayout& layout,
                   std::vector<Problem>& problems) {
  const std::uint64_t fitting = table < bytes.size() ? (bytes.size() - table) / sizeof(SectionHeader) : 0;
  const std::uint64_t most = std::min<std::uint64_t>(fitting, kMaxSections);
  if (header.sections > most)
    problems.push_back({table, fmt::format("PE NumberOfSections: expected at most {} section headers, found {}", most,
                                           header.sections)});
  std::vector<SectionHeader> headers(std::min<std::uint64_t>(header.sections, most));
  headers.resize(bytes.read(table, std::as_writable_bytes(std::span(headers))) / sizeof(SectionHeader));
  std::size_t cut = 0;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const SectionHeader& raw = headers[i];
    PeSection section{section_name(bytes, header, raw), raw.flags, raw.address, {}, 0, false};
    std::uint64_t there = 0;
    if (raw.file_offset == 0) {  // nothing of it lies in the file, whatever its size says
      section.memory = raw.memory_size;
      layout.sections.push_back(std::move(section));
      continue;
    }
    if (raw.file_offset < bytes.size()) there = std::min<std::uint64_t>(raw.file_size, bytes.size() - raw.file_offset);
    // What lies in the file is padded; what lies in memory may go on with zeros.
    const std::uint64_t loaded = std::min<std::uint64_t>(there, raw.memory_size == 0 ? there : raw.memory_size);
    if (loaded > 0) section.where = {raw.file_offset, loaded};
    section.memory = there < raw.file_size ? loaded : std::max<std::uint64_t>(raw.memory_size, loaded);
    if (there < raw.file_size && cut++ < kMaxCutSections)
      problems.push_back({table + i * sizeof(SectionHeader),
                          fmt::format("PE section {} '{}': expected {} bytes at offset {}, found {}", i, section.name,
                                      raw.file_size, raw.file_offset, there)});
    layout.sections.push_back(std::move(section));
  }
}

/// Follows a table of descriptors up to the one that names nothing. Its size in the directory is no limit: Windows
/// does not look at it.
template <typename Descriptor, typename NameOf>
std::vector<std::string> read_imports(const Bytes& bytes, const PeLayout& layout, std::uint32_t address,
                                      std::string_view table, NameOf name_of, std::vector<Problem>& problems) {
  std::vector<std::string> names;
  std::set<std::string> known;
  if (address == 0 || layout.is_zeros(address)) return names;
  const Extent where = layout.at_address(address);
  const bool zeros_follow = std::any_of(layout.sections.begin(), layout.sections.end(), [&](const PeSection& section) {
    return where.size > 0 && section.memory > section.where.size && section.where.end() == where.end();
  });
  for (std::size_t i = 0;; ++i) {
    const std::uint64_t at = where.offset + i * sizeof(Descriptor);
    if (zeros_follow && at + sizeof(Descriptor) > where.end()) return names;  // the last one need not be in the file
    if (where.size / sizeof(Descriptor) <= i || i == kMaxImports) {
      problems.push_back(
          {std::min(at, bytes.size()),
           i == kMaxImports
               ? fmt::format("PE {} table: expected at most {} libraries, found more", table, kMaxImports)
               : fmt::format("PE {} table: expected an end inside the file, found none after {} libraries", table, i)});
      return names;
    }
    const auto descriptor = bytes.value<Descriptor>(at);
    if (!descriptor) {
      problems.push_back({at, fmt::format("PE {} table: the file ends inside it", table)});
      return names;
    }
    const std::optional<std::uint32_t> name_address = name_of(*descriptor);
    if (!name_address) return names;
    const auto name = text_in(bytes, layout.at_address(*name_address), kMaxLibraryName);
    if (!name) {
      problems.push_back({at, fmt::format("PE {} table, library {}: expected the address of a name, found {:#x}", table,
                                          i, *name_address)});
      return names;
    }
    if (known.insert(windows_name(*name)).second) names.push_back(*name);
  }
}

}  // namespace

bool PeSection::is_writable() const { return flags & kWrite; }

bool PeSection::is_data() const {
  // /MERGE:.rdata=.text puts constants among the code; the import table goes with them.
  if (flags & kDiscardable) return false;
  return !(flags & (kCode | kExecute)) || holds_imports;
}

Extent PeLayout::at_address(std::uint32_t address) const {
  for (const PeSection& section : sections) {
    if (address >= section.address && address - section.address < section.where.size) {
      const std::uint32_t inside = address - section.address;
      return {section.where.offset + inside, section.where.size - inside};
    }
  }
  return {};
}

bool PeLayout::is_zeros(std::uint32_t address) const {
  if (at_address(address).size != 0) return false;
  return std::any_of(sections.begin(), sections.end(), [&](const PeSection& section) {
    return section.where.size == 0 && address >= section.address && address - section.address < section.memory;
  });
}

bool looks_like_pe(const Bytes& bytes) {
  if (bytes.value<std::uint16_t>(0) != kDosMagic) return false;
  const auto at = bytes.value<std::uint32_t>(kSignatureOffset);
  return at && bytes.value<std::uint32_t>(*at) == kSignature;
}

std::optional<PeLayout> read_pe_layout(const Bytes& bytes, std::vector<Problem>& problems) {
  const std::uint64_t header_at = bytes.value<std::uint32_t>(kSignatureOffset).value_or(0) + sizeof kSignature;
  const auto header = bytes.value<FileHeader>(header_at);
  if (!header) {
    problems.push_back({header_at, "PE header: the file ends inside it"});
    return std::nullopt;
  }
  const std::uint64_t optional_at = header_at + sizeof(FileHeader);
  const auto magic = bytes.value<std::uint16_t>(optional_at);
  const bool wide = magic == kPe32Plus;
  if (!wide && magic != kPe32) {
    problems.push_back(
        {optional_at,
         magic ? fmt::format("PE optional header magic: expected {:#x} or {:#x}, found {:#x}", kPe32Plus, kPe32, *magic)
               : "PE optional header: the file ends before it"});
    return std::nullopt;
  }
  PeLayout layout;
  layout.machine = header->machine;
  layout.is_dll = header->characteristics & kIsDll;
  layout.image_base = wide ? bytes.value<std::uint64_t>(optional_at + 24).value_or(0)
                           : bytes.value<std::uint32_t>(optional_at + 28).value_or(0);
  const std::uint64_t count_at = wide ? 108 : 92;
  const std::uint64_t directories_at = count_at + 4;
  const auto count = bytes.value<std::uint32_t>(optional_at + count_at);
  if (!count || header->optional_size < directories_at) {
    problems.push_back(
        {optional_at, fmt::format("PE SizeOfOptionalHeader: expected at least {} bytes in the file, found {}",
                                  directories_at, header->optional_size)});
    return std::nullopt;
  }
  const std::uint64_t fitting = (header->optional_size - directories_at) / sizeof(Directory);
  const auto directory = [&](std::size_t index) -> std::uint32_t {
    if (index >= std::min<std::uint64_t>(*count, fitting)) return 0;
    const auto entry = bytes.value<Directory>(optional_at + directories_at + index * sizeof(Directory));
    return entry ? entry->address : 0;
  };

  read_sections(bytes, *header, optional_at + header->optional_size, layout, problems);
  layout.imports = read_imports<ImportDescriptor>(
      bytes, layout, directory(kImportDirectory), "import",
      [](const ImportDescriptor& one) {
        return one.name == 0 || one.slots == 0 ? std::nullopt : std::optional(one.name);
      },
      problems);
  layout.delayed_imports = read_imports<DelayImportDescriptor>(
      bytes, layout, directory(kDelayImportDirectory), "delayed import",
      [&](const DelayImportDescriptor& one) {
        if (one.name == 0) return std::optional<std::uint32_t>();
        // Linkers before 2002 wrote pointers, which 32-bit files may still have.
        return std::optional(
            one.attributes & kDelayByAddress ? one.name : static_cast<std::uint32_t>(one.name - layout.image_base));
      },
      problems);
  const Extent imports = layout.at_address(directory(kImportDirectory));
  for (PeSection& section : layout.sections)
    section.holds_imports = imports.size != 0 && section.where.end() == imports.end();

  if (const std::uint32_t address = directory(kExportDirectory); address != 0 && !layout.is_zeros(address)) {
    layout.export_directory = layout.at_address(address);
    const auto exports = bytes.value<ExportDirectory>(layout.export_directory.offset);
    if (layout.export_directory.size < sizeof(ExportDirectory) || !exports) {
      problems.push_back(
          {optional_at + directories_at,
           fmt::format("PE export directory: expected an address inside the file, found {:#x}", address)});
      layout.export_directory = {};
    } else {
      layout.export_name = text_in(bytes, layout.at_address(exports->name), kMaxLibraryName);
    }
  }
  return layout;
}

std::vector<std::string> pe_exports(const Bytes& bytes, const PeLayout& layout) {
  std::vector<std::string> names;
  if (layout.export_directory.size == 0) return names;
  const auto exports = bytes.value<ExportDirectory>(layout.export_directory.offset);
  if (!exports) return names;
  const Extent table = layout.at_address(exports->name_table);
  // Ordinals have 16 bits, so there cannot be more names that anybody can bind to.
  const std::uint64_t count = std::min<std::uint64_t>({exports->names, table.size / 4, 1 << 16});
  std::vector<std::uint32_t> addresses(count);
  addresses.resize(bytes.read(table.offset, std::as_writable_bytes(std::span(addresses))) / 4);
  for (std::uint32_t address : addresses)
    if (auto name = text_in(bytes, layout.at_address(address), kMaxSymbolName)) names.push_back(std::move(*name));
  return names;
}

}  // namespace cudeploy
