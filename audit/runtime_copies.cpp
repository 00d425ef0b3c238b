#include "runtime_copies.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "parallel.hpp"

namespace cudeploy {

namespace {

using namespace std::string_view_literals;

// Layout and numbers: CUPTI's public cupti_runtime_cbid.h (the ids count the records, _vNNNNN is the version),
// checked in the archives of 11.2, 11.8, 12.4 and 13.0.
constexpr std::string_view kFirstName = "cudaDriverGetVersion\0"sv;
constexpr std::string_view kSecondName = "cudaRuntimeGetVersion"sv;
constexpr std::uint32_t kFirstVersion = 3020;
constexpr std::uint32_t kMinVersion = 3000;
constexpr std::uint32_t kMaxVersion = 30000;
constexpr std::size_t kMinRecords = 100;  // the oldest table seen has 404
constexpr std::size_t kMaxRecords = 4096;
constexpr std::size_t kMaxName = 96;

// More places than this for one name are a hostile file.
constexpr std::size_t kMaxHits = 256;

struct CallbackRecord {
  std::uint64_t name;
  std::uint64_t zero;
  std::uint32_t version;
  std::uint32_t padding;
};
static_assert(sizeof(CallbackRecord) == 24);

// Export-table ids of the runtime: in .rodata, never merged, no relocation; one of each per copy. The second came
// with 11.2: the 11.1 copy in NVIDIA's libcufile 1.14 has the other two only.
struct TableId {
  std::string_view bytes;
  int since;  ///< API level
};
constexpr std::array<TableId, 3> kIds = {{
    {"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9"sv, 0},
    {"\x10\xcd\xde\x21\xb3\xaa\x31\x4c\xb4\xe3\xd5\xb5\x87\xcd\x36\x79"sv, 11020},
    {"\xff\x55\x30\xa2\x83\xde\x5b\x45\xa4\x4d\x92\x76\xca\xef\xbb\xbd"sv, 0},
}};

// The loader of the driver's own runtime. The name alone is in programs that look for the DLL themselves; the id of
// the export table that is asked of the driver lies beside it in each copy of the loader: cudart64_13.dll of 13.0 and
// 13.5, and published wheels.
constexpr std::string_view kHybridId = "\xdd\x9e\x98\xa4\xf4\x10\x48\x44\x99\xb0\xe2\xae\xb7\xb4\x32\xb5"sv;
constexpr std::string_view kHybridX64 = "nvcudart_hybrid64.dll\0"sv, kHybridArm64 = "nvcudart_hybrida64.dll\0"sv;

// All that is looked for among constants; the last three in Windows files only.
enum Mark : std::size_t { kNameMark, kIdMarks, kHybridIdMark = kIdMarks + kIds.size(), kX64Mark, kArm64Mark, kMarks };
constexpr std::array<Needle, kMarks> kNeedles = {{
    {kFirstName, kFirstName.find('V')},
    {kIds[0].bytes, 1},
    {kIds[1].bytes, 1},
    {kIds[2].bytes, 3},
    {kHybridId, 0},
    {kHybridX64, kHybridX64.find('_')},
    {kHybridArm64, kHybridArm64.find('_')},
}};
static_assert(std::all_of(kNeedles.begin(), kNeedles.end(),
                          [](const Needle& needle) { return needle.text.size() <= longest_needle; }));

constexpr std::size_t kBlock = 256 << 10;
constexpr std::uint64_t kRelaPiece = 16384 * sizeof(Elf64_Rela);
// Pieces that are read side by side before what was found in them is told: all of their entries may be asked for.
constexpr std::size_t kPiecesAtOnce = 32;

/// The file offset of `address`, with the bytes that follow in the same part.
Extent at_address(const MemoryView& view, std::uint64_t address) {
  for (const MappedPart& part : view.parts) {
    if (address >= part.address && address - part.address < part.where.size) {
      std::uint64_t inside = address - part.address;
      return {part.where.offset + inside, part.where.size - inside};
    }
  }
  return {};
}

std::string name_at(const Bytes& bytes, const MemoryView& view, std::uint64_t address) {
  Extent where = at_address(view, address);
  std::array<char, kMaxName> buffer;
  std::size_t got = bytes.read(
      where.offset, std::as_writable_bytes(std::span(buffer)).first(std::min<std::uint64_t>(kMaxName, where.size)));
  return {buffer.data(), strnlen(buffer.data(), got)};
}

/// `_{0,2}cuda\w+`, ended by a zero.
bool is_api_name(std::string_view name) {
  if (name.size() == kMaxName) return false;
  std::size_t start = std::min(name.find_first_not_of('_'), name.size());
  std::string_view rest = name.substr(start);
  return start <= 2 && rest.starts_with("cuda") && rest.size() > 4 &&
         std::all_of(rest.begin(), rest.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

/// Relocated slots with where they point, in ascending order; of a slot that is relocated twice the last one counts.
using Pointers = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

std::optional<std::uint64_t> pointer_at(const Pointers& pointers, std::uint64_t slot) {
  const auto behind = std::upper_bound(pointers.begin(), pointers.end(), slot,
                                       [](std::uint64_t value, const auto& pointer) { return value < pointer.first; });
  if (behind == pointers.begin() || std::prev(behind)->first != slot) return std::nullopt;
  return std::prev(behind)->second;
}

/// Follows the records from `slot` on, and says where the table ends; nothing where it is none. `pointers` holds the
/// relocated slots around.
std::optional<CallbackTable> read_table(const Bytes& bytes, const MemoryView& view, std::uint64_t slot,
                                        const Pointers& pointers) {
  Extent where = at_address(view, slot);
  std::vector<CallbackRecord> records(std::min<std::uint64_t>(where.size / sizeof(CallbackRecord), kMaxRecords));
  records.resize(bytes.read(where.offset, std::as_writable_bytes(std::span(records))) / sizeof(CallbackRecord));
  CallbackTable table{slot, 0, 0};
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::uint64_t at = slot + i * sizeof(CallbackRecord);
    const std::uint64_t name_address = pointer_at(pointers, at).value_or(records[i].name);
    if (records[i].zero != 0 || records[i].padding != 0 || pointer_at(pointers, at + 8) ||
        pointer_at(pointers, at + 16))
      break;
    if (records[i].version < kMinVersion || records[i].version >= kMaxVersion || name_address == 0) break;
    std::string name = name_at(bytes, view, name_address);
    if (!is_api_name(name)) break;
    if (i == 0 && (name != kFirstName.substr(0, kFirstName.size() - 1) || records[i].version != kFirstVersion)) break;
    if (i == 1 && name != kSecondName) break;
    table.api_level = std::max(table.api_level, static_cast<int>(records[i].version));
    ++table.records;
  }
  if (table.records < kMinRecords) return std::nullopt;
  return table;
}

/// Tables among the slots that point at one of `names`.
std::vector<CallbackTable> tables_at(const Bytes& bytes, const MemoryView& view, const std::set<std::uint64_t>& slots) {
  // Pointers of all windows in one more pass over the relocations, so that an unsorted table costs nothing.
  Pointers pointers;
  constexpr std::uint64_t window = kMaxRecords * sizeof(CallbackRecord);
  if (view.relocations && !slots.empty()) {
    view.relocations({*slots.begin(), *slots.rbegin() + window}, {}, [&](std::uint64_t slot, std::uint64_t target) {
      auto before = slots.upper_bound(slot);
      if (before == slots.begin() || slot - *std::prev(before) >= window) return;
      if (pointers.size() < kMaxHits * kMaxRecords) pointers.emplace_back(slot, target);
    });
    const auto by_slot = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::is_sorted(pointers.begin(), pointers.end(), by_slot))
      std::stable_sort(pointers.begin(), pointers.end(), by_slot);
  }
  std::vector<CallbackTable> tables;
  for (std::uint64_t slot : slots) {
    if (auto table = read_table(bytes, view, slot, pointers)) tables.push_back(*table);
  }
  return tables;
}

/// Aligned 8-byte words that hold one of `names`, where pointers can be.
std::set<std::uint64_t> slots_in_place(const Bytes& bytes, const MemoryView& view,
                                       const std::set<std::uint64_t>& names) {
  std::set<std::uint64_t> slots;
  std::uint64_t low = *names.begin(), high = *names.rbegin();
  std::uint64_t left = bytes.size();  // parts that lie over each other are a lie, and not read again and again
  std::vector<std::uint64_t> block(kBlock / 8);
  for (const MappedPart& part : view.parts) {
    if (!part.holds_pointers) continue;
    std::uint64_t skip = (8 - part.address % 8) % 8;
    for (std::uint64_t at = skip; at + 8 <= part.where.size && slots.size() < kMaxHits && left > 0;) {
      std::size_t want = std::min<std::uint64_t>(kBlock, part.where.size - at) & ~std::uint64_t{7};
      std::size_t got = bytes.read(part.where.offset + at, std::as_writable_bytes(std::span(block)).first(want)) / 8;
      for (std::size_t i = 0; i < got; ++i) {
        if (block[i] >= low && block[i] <= high && names.contains(block[i])) slots.insert(part.address + at + i * 8);
      }
      if (got == 0) break;
      at += got * 8;
      left -= std::min<std::uint64_t>(left, got * 8);
    }
  }
  return slots;
}

/// Reads relocations with addends in blocks: a large library has nine megabytes of them.
template <typename Each>
void for_each_rela(const Bytes& bytes, Extent where, Each each) {
  std::vector<Elf64_Rela> block(4096);
  for (std::uint64_t at = where.offset; at + sizeof(Elf64_Rela) <= where.end();) {
    std::size_t want = std::min<std::uint64_t>(block.size(), (where.end() - at) / sizeof(Elf64_Rela));
    std::size_t got = bytes.read(at, std::as_writable_bytes(std::span(block).first(want))) / sizeof(Elf64_Rela);
    for (std::size_t i = 0; i < got; ++i) each(block[i]);
    if (got == 0) break;
    at += got * sizeof(Elf64_Rela);
  }
}

/// In an object nothing has an address yet: section i gets i << 40.
constexpr int kSectionShift = 40;

MemoryView object_view(const Bytes& bytes, const ElfLayout& layout) {
  MemoryView view;
  for (std::size_t i = 0; i < layout.sections.size(); ++i) {
    const ElfSection& section = layout.sections[i];
    if (section.is_data())
      view.parts.push_back({std::uint64_t{i} << kSectionShift, section.where, section.is_writable()});
  }
  std::uint32_t absolute = layout.machine == EM_AARCH64 ? R_AARCH64_ABS64 : R_X86_64_64;
  view.relocations = [&bytes, &layout, absolute](AddressRange slots, AddressRange targets, const auto& each) {
    for (const ElfSection& section : layout.sections) {
      if (section.type != SHT_RELA || section.info >= layout.sections.size() || section.link >= layout.sections.size())
        continue;
      if (!layout.sections[section.info].is_data() || !layout.sections[section.info].is_writable()) continue;
      Extent symbols = layout.sections[section.link].where;
      for_each_rela(bytes, section.where, [&](const Elf64_Rela& rela) {
        if (ELF64_R_TYPE(rela.r_info) != absolute) return;
        std::uint64_t index = ELF64_R_SYM(rela.r_info);
        if (index >= symbols.size / sizeof(Elf64_Sym)) return;
        auto symbol = bytes.value<Elf64_Sym>(symbols.offset + index * sizeof(Elf64_Sym));
        if (!symbol || symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE) return;
        const std::uint64_t slot = (std::uint64_t{section.info} << kSectionShift) + rela.r_offset;
        const std::uint64_t target = (std::uint64_t{symbol->st_shndx} << kSectionShift) + symbol->st_value +
                                     static_cast<std::uint64_t>(rela.r_addend);
        if (slots.holds(slot) && targets.holds(target)) each(slot, target);
      });
    }
  };
  return view;
}

MemoryView linked_view(const Bytes& bytes, const ElfLayout& layout) {
  MemoryView view;
  for (const ElfSegment& segment : layout.segments) {
    if (segment.is_load()) view.parts.push_back({segment.address, segment.where, (segment.flags & PF_W) != 0});
  }
  view.pointers_in_place = true;
  auto table = layout.dynamic_value(DT_RELA);
  auto size = layout.dynamic_value(DT_RELASZ);
  if (table && size) {
    Extent where = layout.at_address(*table, *size);
    std::uint32_t relative = layout.machine == EM_AARCH64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
    // Once a piece of the table was read, it is known which slots it has: who asks for few reads few pieces.
    struct Piece {
      Extent where;
      AddressRange slots;
    };
    auto pieces = std::make_shared<std::vector<Piece>>();
    for (std::uint64_t at = 0; at < where.size; at += kRelaPiece)
      pieces->push_back({{where.offset + at, std::min(kRelaPiece, where.size - at)}, {}});
    view.relocations = [&bytes, pieces, relative](AddressRange slots, AddressRange targets, const auto& each) {
      std::vector<Piece*> asked;
      for (Piece& piece : *pieces)
        if (piece.slots.meets(slots)) asked.push_back(&piece);
      for (std::span<Piece*> left = asked; !left.empty();) {
        const std::span<Piece*> now = left.first(std::min(left.size(), kPiecesAtOnce));
        left = left.subspan(now.size());
        std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> found(now.size());
        for_each_index(now.size(), [&](std::size_t i) {
          AddressRange seen{std::numeric_limits<std::uint64_t>::max(), 0};
          for_each_rela(bytes, now[i]->where, [&](const Elf64_Rela& rela) {
            seen = {std::min(seen.first, rela.r_offset), std::max(seen.last, rela.r_offset)};
            const auto target = static_cast<std::uint64_t>(rela.r_addend);
            if (slots.holds(rela.r_offset) && targets.holds(target) && ELF64_R_TYPE(rela.r_info) == relative)
              found[i].emplace_back(rela.r_offset, target);
          });
          now[i]->slots = seen;
        });
        for (const auto& of_piece : found)
          for (const auto& [slot, target] : of_piece) each(slot, target);
      }
    };
  }
  return view;
}

/// "12" of cudart64_12.dll, and of cudart64_12-1f2e3d4c.dll as wheel tools rename it; empty for other names.
std::string dll_version(std::string_view given) {
  const std::string name = windows_name(given);
  constexpr std::string_view stem = "cudart64_", end = ".dll";
  if (!name.starts_with(stem) || !name.ends_with(end)) return {};
  const std::string version = name.substr(stem.size(), name.size() - stem.size() - end.size());
  const std::size_t digits = std::min(version.find_first_not_of("0123456789"), version.size());
  if (digits < version.size() &&
      (version[digits] != '-' || version.find_first_not_of("0123456789abcdef", digits + 1) != std::string::npos))
    return {};
  return version.substr(0, digits);
}

/// libcudart.so.13, and libcudart-1f2e3d4c.so.13.0.96 as wheel tools rename it; on Windows cudart64_13.dll.
bool is_runtime_soname(std::string_view name) {
  if (!dll_version(name).empty()) return true;
  if (!name.starts_with("libcudart")) return false;
  name.remove_prefix("libcudart"sv.size());
  if (name.starts_with('-')) name.remove_prefix(std::min(name.find_first_not_of("0123456789abcdef", 1), name.size()));
  return name == ".so" || name.starts_with(".so.");
}

/// Up to CUDA 10 the soname said the release, on Windows without the dot; since then it says the major (11: always
/// "11.0", on Windows "110").
std::optional<std::string> version_of_soname(const std::string& soname) {
  std::string version = dll_version(soname);
  if (version.size() >= 2) version.insert(version.size() - 1, ".");
  if (std::size_t at = soname.find(".so."); at != std::string::npos) version = soname.substr(at + 4);
  int major = 0, minor = 0;
  char rest = 0;
  if (std::sscanf(version.c_str(), "%d.%d%c", &major, &minor, &rest) != 2 || major < 4 || major > 10)
    return std::nullopt;
  return version;
}

}  // namespace

MemoryView memory_view(const Bytes& bytes, const ElfLayout& layout) {
  return layout.type == ET_REL ? object_view(bytes, layout) : linked_view(bytes, layout);
}

MemoryView memory_view(const PeLayout& layout) {
  MemoryView view;
  view.pointers_in_place = true;  // constants too: the loader writes where the relocations say, whatever the section
  for (const PeSection& section : layout.sections)
    view.parts.push_back({layout.image_base + section.address, section.where, section.is_data()});
  return view;
}

std::span<const Needle> runtime_marks(Format format) {
  return std::span(kNeedles).first(format == Format::pe ? kMarks : kHybridIdMark);
}

std::vector<CallbackTable> find_callback_tables(const Bytes& bytes, const MemoryView& view,
                                                std::span<const Found> marks, std::vector<Problem>& problems) {
  // Linkers merge the tails of strings, so nothing is asked of the byte before the name.
  std::set<std::uint64_t> names;
  for (const std::uint64_t offset : marks[kNameMark].first) {
    for (const MappedPart& part : view.parts) {
      if (offset >= part.where.offset && offset < part.where.end() && names.size() < kMaxHits) {
        names.insert(part.address + (offset - part.where.offset));
      }
    }
  }
  if (names.empty()) return {};

  std::set<std::uint64_t> slots;
  if (view.relocations) {
    view.relocations({}, {*names.begin(), *names.rbegin()}, [&](std::uint64_t slot, std::uint64_t target) {
      if (names.contains(target) && slots.size() < kMaxHits) slots.insert(slot);
    });
  }
  std::vector<CallbackTable> tables = tables_at(bytes, view, slots);
  if (tables.empty() && view.pointers_in_place) tables = tables_at(bytes, view, slots_in_place(bytes, view, names));
  if (tables.empty()) return {};

  for (std::size_t i = 0; i < kIds.size(); ++i) {
    const std::uint64_t found = marks[kIdMarks + i].count;
    auto expected = static_cast<std::uint64_t>(std::count_if(
        tables.begin(), tables.end(), [&](const CallbackTable& table) { return table.api_level >= kIds[i].since; }));
    if (found == expected) continue;
    problems.push_back(
        {std::nullopt, fmt::format("CUDA runtime: expected {} of id {:02x}… beside {} callback tables, found {}",
                                   expected, static_cast<unsigned char>(kIds[i].bytes.front()), tables.size(), found)});
  }
  return tables;
}

std::optional<std::string> find_hybrid_loader(std::span<const Found> marks) {
  if (marks[kHybridIdMark].count == 0) return std::nullopt;
  for (const Mark mark : {kX64Mark, kArm64Mark}) {
    const std::string_view name = kNeedles[mark].text;
    if (marks[mark].count != 0) return std::string(name.substr(0, name.size() - 1));
  }
  return std::nullopt;
}

LevelReleases releases_of_level(int api_level) {
  // A release that brings no new instrumented function has the level of the one before. Levels: the table of
  // the 13.0 archive; 13010 in the archives of 13.1 to 13.5.
  static const std::map<int, LevelReleases> known = {
      {10200, {{"10.2"}, false}}, {11000, {{"11.0"}, false}},
      {11010, {{"11.1"}, false}}, {11020, {{"11.2"}, false}},
      {11030, {{"11.3"}, false}}, {11040, {{"11.4", "11.5"}, false}},
      {11060, {{"11.6"}, false}}, {11070, {{"11.7"}, false}},
      {11080, {{"11.8"}, false}}, {12000, {{"12.0", "12.1"}, false}},
      {12020, {{"12.2"}, false}}, {12030, {{"12.3"}, false}},
      {12040, {{"12.4"}, false}}, {12050, {{"12.5"}, false}},
      {12060, {{"12.6"}, false}}, {12080, {{"12.8", "12.9"}, false}},
      {13000, {{"13.0"}, false}}, {13010, {{"13.1", "13.2", "13.3", "13.4", "13.5"}, true}},
  };
  auto found = known.find(api_level);
  return found == known.end() ? LevelReleases{{}, true} : found->second;
}

std::vector<RuntimeCopy> runtime_copies(const std::vector<CallbackTable>& tables, const FileRecord& record,
                                        const RuntimeClues& clues) {
  std::vector<RuntimeCopy> copies;
  for (const CallbackTable& table : tables) {
    RuntimeCopy copy;
    copy.api_level = table.api_level;
    LevelReleases releases = releases_of_level(table.api_level);
    copy.candidates = releases.releases;
    if (releases.releases.size() == 1 && !releases.open_ended) copy.version = releases.releases.front();
    copy.evidence = fmt::format("callback table of {} records, newest {}{}", table.records, table.api_level,
                                releases.open_ended ? ", or a later release without new entries" : "");
    copies.push_back(std::move(copy));
  }

  std::optional<std::string> runtime_node;  // wheel tools rename the file and its soname, never its version node
  for (const std::string& version : record.version_definitions) {
    if (is_runtime_soname(version)) runtime_node = version;
  }
  std::string file_name = record.path.substr(record.path.find_last_of('/') + 1);
  bool named_runtime = (record.soname && is_runtime_soname(*record.soname)) || runtime_node ||
                       (record.type == "shared" && is_runtime_soname(file_name));

  if (named_runtime && record.type == "shared") {
    if (!copies.empty()) {
      copies.front().kind = RuntimeCopyKind::shared_library;
      copies.front().evidence += fmt::format(", {} {}", runtime_node ? "version node" : "name",
                                             runtime_node ? *runtime_node : record.soname.value_or(file_name));
    } else {
      // The table is known from 10.2 on. Before, a library that offers the API is the runtime; a few functions are not.
      RuntimeCopy copy;
      std::size_t exported = clues.exported_api ? clues.exported_api() : 0;
      copy.kind = exported >= kMinRecords ? RuntimeCopyKind::shared_library : RuntimeCopyKind::stand_in;
      if (copy.kind == RuntimeCopyKind::shared_library && record.soname)
        copy.version = version_of_soname(*record.soname);
      copy.evidence = fmt::format("named {}, no callback table, {} exported functions of the API",
                                  record.soname.value_or(file_name), exported);
      if (clues.hybrid_loader) copy.evidence += ", loader of " + *clues.hybrid_loader;
      copies.push_back(std::move(copy));
    }
  } else if (clues.hybrid_loader) {
    RuntimeCopy copy;
    copy.kind = RuntimeCopyKind::driver_hybrid;
    copy.evidence = "loader of " + *clues.hybrid_loader;
    copies.push_back(std::move(copy));
  }

  // An object that is still to be linked carries the note, but the copy comes from the archive beside it.
  if (clues.generation && (!copies.empty() || record.type != "relocatable")) {
    if (copies.empty()) {
      copies.emplace_back();
      copies.front().evidence = "no callback table";
    }
    copies.front().kind = RuntimeCopyKind::unified;
    copies.front().generation = clues.generation;
    copies.front().evidence = fmt::format("note of generation {}, {}", *clues.generation, copies.front().evidence);
  }

  std::set<std::string> needed;
  for (const std::string& library : record.needed) {
    if (is_runtime_soname(library)) needed.insert(library);
  }
  for (const VersionNeed& need : record.version_needs) {
    bool listed = std::find(record.needed.begin(), record.needed.end(), need.library) != record.needed.end();
    if (is_runtime_soname(need.version) && listed) needed.insert(need.library);
  }
  for (const std::string& library : needed) {
    RuntimeCopy copy;
    copy.kind = RuntimeCopyKind::needs_shared;
    copy.version = version_of_soname(library);
    copy.evidence = (record.format == Format::pe ? "imports " : "NEEDED ") + library;
    copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace cudeploy
