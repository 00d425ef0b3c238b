#include "binary.hpp"

#include <fmt/format.h>
#include <LIEF/ELF.hpp>
#include <LIEF/logging.hpp>
#if __has_include(<LIEF/ELF/ParserConfig.hpp>)  // since 0.14
#include <LIEF/ELF/ParserConfig.hpp>
#endif
// Behind LIEF's, whose enumerators bore the names of these macros.
#include <elf.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <type_traits>

#include "archive.hpp"
#include "cubin.hpp"
#include "fatbin.hpp"
#include "find_bytes.hpp"
#include "parallel.hpp"
#include "pe.hpp"
#include "ptx.hpp"
#include "runtime_copies.hpp"
#include "runtime_static/anchor.hpp"
#include "slice.hpp"
#include "vendor.hpp"

namespace cudeploy {

namespace {

// What is not a 64-bit little-endian ELF file is no CUDA program of today; its facts come from LIEF's whole
// parse, which needs twice the file's size in memory.
constexpr std::uint64_t kMaxWhole = 64 << 20;

constexpr std::uint64_t kFlags1Nodelete = 0x8;
constexpr std::uint64_t kFlags1Nodeflib = 0x800;
constexpr std::uint64_t kFlags1Pie = 0x08000000;  // newer than LIEF 0.9.0
constexpr std::uint64_t kFlagsSymbolic = 0x2;
constexpr std::uint16_t kVersionBase = 0x1;
constexpr std::uint16_t kVersionIndex = 0x7fff;  // what remains is "hidden"

/// "a::b" -> "a", "", "b": the loader takes an empty element as the current folder. An empty path, which names no
/// folder and yet switches others off, is one empty element: no other path is.
std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t end; (end = path.find(':', start)) != std::string::npos; start = end + 1) {
    parts.push_back(path.substr(start, end - start));
  }
  parts.push_back(path.substr(start));
  return parts;
}

std::string machine_name(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "x86";
    case EM_ARM:
      return "arm";
    case EM_PPC64:
      return "ppc64";
    case EM_CUDA:
      return "cuda";
    default:
      return fmt::format("ELF machine {}", machine);
  }
}

// What LIEF's releases name differently (README.md of this folder). Its enumerators are taken as the numbers that the
// file holds, since they were renamed too.

std::unique_ptr<LIEF::ELF::Binary> parse_elf(const std::vector<std::uint8_t>& image) {
#if __has_include(<LIEF/errors.hpp>)  // since 0.11
  LIEF::logging::disable();
#else
  LIEF::Logger::disable();
#endif
  // The count of dynamic symbols comes from the section header; LIEF's automatic choice would distrust it.
  constexpr int by_section = 1;
#if __has_include(<LIEF/ELF/ParserConfig.hpp>)
  LIEF::ELF::ParserConfig config;
  config.count_mtd = static_cast<decltype(config.count_mtd)>(by_section);
  return LIEF::ELF::Parser::parse(image, config);
#else
  return LIEF::ELF::Parser::parse(image, "", static_cast<LIEF::ELF::DYNSYM_COUNT_METHODS>(by_section));
#endif
}

/// Of a reference up to 0.11, of a pointer since.
template <typename Version>
std::uint16_t version_index(const Version& version) {
  if constexpr (std::is_pointer_v<Version>)
    return version ? version->value() : 0;
  else
    return version.value();
}

/// As the file says it: newer releases number the types that they know.
template <typename Note>
std::uint32_t type_of(const Note& note) {
  if constexpr (requires { note.original_type(); })
    return note.original_type();
  else
    return static_cast<std::uint32_t>(note.type());
}

/// Functions that `image` defines for others: global or weak, default visibility.
std::vector<ExportedFunction> exported_functions(const std::vector<std::uint8_t>& image) {
  std::vector<ExportedFunction> exports;
  auto elf = parse_elf(image);
  if (!elf) return exports;
  for (const LIEF::ELF::Symbol& symbol : elf->dynamic_symbols()) {
    const auto binding = static_cast<unsigned>(symbol.binding());
    const bool weak = binding == STB_WEAK;
    if ((weak || binding == STB_GLOBAL) && static_cast<unsigned>(symbol.type()) == STT_FUNC && symbol.shndx() != 0 &&
        static_cast<unsigned>(symbol.visibility()) == STV_DEFAULT) {
      exports.push_back({symbol.name(), weak});
    }
  }
  return exports;
}

/// The generation that a note of ours tells, "<CUDA major>_<anchor ABI>".
std::optional<std::string> generation_of(const LIEF::ELF::Binary& elf) {
  for (const LIEF::ELF::Note& note : elf.notes()) {
    std::string owner = note.name();
    owner.resize(std::min(owner.find('\0'), owner.size()));
    if (owner != note_owner || type_of(note) != note_type) continue;
    std::array<std::uint32_t, 2> generation;  // NoteDescription: abi, cuda_major
    if (note.description().size() < sizeof generation) continue;
    std::memcpy(generation.data(), note.description().data(), sizeof generation);
    return fmt::format("{}_{}", generation[1], generation[0]);
  }
  return std::nullopt;
}

/// The same as the slice's, from LIEF's own table.
SymbolsByVersion all_symbols_by_version(const LIEF::ELF::Binary& elf) {
  SymbolsByVersion found;
  for (const LIEF::ELF::Symbol& symbol : elf.dynamic_symbols())
    if (symbol.has_version()) found[version_index(symbol.symbol_version()) & kVersionIndex].push_back(symbol.name());
  return found;
}

using ReadSymbols = std::function<SymbolsByVersion(const std::set<std::uint16_t>& versions)>;

/// Facts that LIEF reads from `image`, a slice or a whole file. Returns the generation that our note tells. The symbols
/// behind the needed versions come from `read_symbols`, as a slice does not hold them.
std::optional<std::string> elf_facts(const std::vector<std::uint8_t>& image, FileRecord& record,
                                     ReadSymbols read_symbols = {}) {
  auto elf = parse_elf(image);
  if (!elf) {
    record.problems.push_back({0, "ELF header: expected an ELF file that can be parsed, found a damaged one"});
    return std::nullopt;
  }
  record.machine = machine_name(static_cast<unsigned>(elf->header().machine_type()));
  if (elf->has_interpreter()) {
    record.interpreter = elf->interpreter();
    record.interpreter->resize(std::min(record.interpreter->find('\0'), record.interpreter->size()));
  }
  bool pie = false;
  for (const LIEF::ELF::DynamicEntry& entry : elf->dynamic_entries()) {
    switch (static_cast<std::uint64_t>(entry.tag())) {
      case DT_NEEDED:
        record.needed.push_back(dynamic_cast<const LIEF::ELF::DynamicEntryLibrary&>(entry).name());
        break;
      case DT_SONAME:
        record.soname = dynamic_cast<const LIEF::ELF::DynamicSharedObject&>(entry).name();
        break;
      case DT_RPATH:
        record.rpath = split_path(dynamic_cast<const LIEF::ELF::DynamicEntryRpath&>(entry).rpath());
        break;
      case DT_RUNPATH:
        record.runpath = split_path(dynamic_cast<const LIEF::ELF::DynamicEntryRunPath&>(entry).runpath());
        break;
      case DT_SYMBOLIC:
        record.symbolic = true;
        break;
      case DT_FLAGS:
        if (entry.value() & kFlagsSymbolic) record.symbolic = true;
        break;
      case DT_FLAGS_1:
        if (entry.value() & kFlags1Nodelete) record.nodelete = true;
        if (entry.value() & kFlags1Nodeflib) record.nodeflib = true;
        if (entry.value() & kFlags1Pie) pie = true;
        break;
      default:
        break;
    }
  }
  switch (const auto type = static_cast<unsigned>(elf->header().file_type())) {
    case ET_EXEC:
      record.type = "executable";
      break;
    case ET_REL:
      record.type = "relocatable";
      break;
    case ET_CORE:
      record.type = "core";
      break;
    case ET_DYN:
      // Linkers mark a PIE since 2.26; before, an interpreter tells it, but the C library has one too.
      record.type = pie || (record.interpreter && !record.soname) ? "executable" : "shared";
      break;
    default:
      record.type = fmt::format("ELF type {}", type);
  }
  for (const LIEF::ELF::SymbolVersionDefinition& definition : elf->symbols_version_definition()) {
    auto names = definition.symbols_aux();
    if (!(definition.flags() & kVersionBase) && names.size() != 0) {
      record.version_definitions.push_back(names[0].name());
    }
  }
  if (!read_symbols) read_symbols = [&](const std::set<std::uint16_t>&) { return all_symbols_by_version(*elf); };
  std::vector<std::uint16_t> versions;
  for (const LIEF::ELF::SymbolVersionRequirement& need : elf->symbols_version_requirement()) {
    for (const LIEF::ELF::SymbolVersionAuxRequirement& version : need.auxiliary_symbols()) {
      record.version_needs.push_back({need.name(), version.name(), {}});
      versions.push_back(version.other() & kVersionIndex);
    }
  }
  const SymbolsByVersion symbols = read_symbols({versions.begin(), versions.end()});
  for (std::size_t i = 0; i < versions.size(); ++i)
    if (const auto found = symbols.find(versions[i]); found != symbols.end())
      record.version_needs[i].symbols = found->second;
  return generation_of(*elf);
}

/// Parts of a file that somebody has dealt with already. No byte is searched twice, however many section headers
/// point at it.
class Claims {
 public:
  /// What of `where` was free; it is taken from now on.
  std::vector<Extent> take(Extent where) {
    std::vector<Extent> free;
    if (where.size == 0) return free;
    std::uint64_t at = where.offset, begin = at;
    auto next = taken_.upper_bound(at);
    if (next != taken_.begin() && std::prev(next)->second >= at) {
      --next;
      begin = next->first;
    }
    // What it touches becomes one with it, so that the next one need not pass it again.
    for (; next != taken_.end() && next->first <= where.end(); next = taken_.erase(next)) {
      if (next->first > at) free.push_back({at, next->first - at});
      at = std::max(at, next->second);
    }
    if (at < where.end()) free.push_back({at, where.end() - at});
    taken_[begin] = std::max(at, where.end());
    return free;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> taken_;  // offset -> end, neither overlapping nor touching
};

/// Loaded bytes that are no code, in a file of any format.
struct DataPart {
  Extent where;
  std::optional<std::string> section;
  bool constant = false;
  enum class Holds { anything, fat_binaries, relocatable_fat_binaries, wrappers } holds = Holds::anything;
};

std::vector<DataPart> data_parts(const ElfLayout& layout) {
  using Holds = DataPart::Holds;
  std::vector<DataPart> parts;
  for (const ElfSection& section : layout.sections) {
    if (!section.is_data()) continue;
    Holds holds = section.name == ".nv_fatbin"                   ? Holds::fat_binaries
                  : section.name == "__nv_relfatbin"             ? Holds::relocatable_fat_binaries
                  : section.name.starts_with(".nvFatBinSegment") ? Holds::wrappers
                                                                 : Holds::anything;
    parts.push_back({section.where, section.name, !section.is_writable(), holds});
  }
  // Sections are for linkers. What is loaded is searched also where headers of sections are gone, few or wrong; what
  // linkers leave between sections is too small for device code.
  constexpr std::uint64_t least = 64;
  Claims told_of;
  for (const ElfSection& section : layout.sections)
    if (section.flags & SHF_ALLOC) told_of.take(section.where);
  for (const ElfSegment& segment : layout.segments) {
    if (!segment.is_load()) continue;
    for (const Extent& rest : told_of.take(segment.where))
      if (rest.size >= least) parts.push_back({rest, std::nullopt, segment.holds_constants(), Holds::anything});
  }
  return parts;
}

/// Names in a PE file have eight bytes, unless it keeps longer ones in a table.
std::vector<DataPart> data_parts(const PeLayout& layout) {
  using Holds = DataPart::Holds;
  std::vector<DataPart> parts;
  for (const PeSection& section : layout.sections) {
    if (!section.is_data()) continue;
    Holds holds = section.name.starts_with(".nv_fatb")   ? Holds::fat_binaries
                  : section.name.starts_with("__nv_rel") ? Holds::relocatable_fat_binaries
                  : section.name.starts_with(".nvFatBi") ? Holds::wrappers
                                                         : Holds::anything;
    parts.push_back({section.where, section.name, !section.is_writable(), holds});
  }
  return parts;
}

bool holds_device_code_by_name(const DataPart& part) {
  return part.holds == DataPart::Holds::fat_binaries || part.holds == DataPart::Holds::relocatable_fat_binaries;
}

/// Fat binaries wherever they lie: sections by name first, then every other data section. Names and ids of host code
/// lie among the constants of the latter, so the marks of a runtime are looked for as they pass; what was found comes
/// back.
std::vector<Found> device_code(const Bytes& bytes, const std::vector<DataPart>& parts, const ReadOptions& options,
                               FileRecord& record) {
  struct Job {
    DataPart part;
    std::vector<FatBinary> found;
    std::vector<Problem> problems;
    NeedleSearch marks;
  };
  const std::span<const Needle> needles = runtime_marks(record.format);
  std::vector<Job> jobs;
  Claims claims;
  auto plan = [&](DataPart part) {
    for (Extent free : claims.take(part.where)) {
      part.where = free;
      jobs.push_back({part, {}, {}, NeedleSearch(needles)});
    }
  };
  for (const DataPart& part : parts) {
    if (holds_device_code_by_name(part)) plan(part);
  }
  for (const DataPart& part : parts) {
    if (part.holds != DataPart::Holds::wrappers) continue;
    for (Extent free : claims.take(part.where)) check_wrappers(bytes, free, record.problems);
  }
  for (const DataPart& part : parts) {
    if (part.holds == DataPart::Holds::anything) plan(part);
  }
  // Large ones first, so that no core waits for another's last one.
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return std::pair(b.part.where.size, a.part.where.offset) < std::pair(a.part.where.size, b.part.where.offset);
  });
  for_each_index(jobs.size(), [&](std::size_t i) {
    Job& job = jobs[i];
    const DataPart& part = job.part;
    auto place = holds_device_code_by_name(part) ? FatbinPlace::named_section : FatbinPlace::any_data;
    NeedleSearch* outside = part.constant ? &job.marks : nullptr;
    job.found = read_fat_binaries(bytes, part.where, place, part.section, options, job.problems, outside);
    for (FatBinary& fat_binary : job.found) {
      if (part.holds == DataPart::Holds::relocatable_fat_binaries) fat_binary.loadable = false;
    }
  });
  std::sort(jobs.begin(), jobs.end(),
            [](const Job& a, const Job& b) { return a.part.where.offset < b.part.where.offset; });
  std::vector<Found> marks(needles.size());
  for (Job& job : jobs) {
    std::move(job.found.begin(), job.found.end(), std::back_inserter(record.fat_binaries));
    std::move(job.problems.begin(), job.problems.end(), std::back_inserter(record.problems));
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const Found& more = job.marks.found()[i];
      marks[i].count += more.count;
      marks[i].first.insert(marks[i].first.end(), more.first.begin(), more.first.end());
    }
  }
  return marks;
}

/// Constants, without the fat binaries among them.
std::vector<Extent> host_data(const std::vector<DataPart>& parts, const std::vector<FatBinary>& fat_binaries) {
  Claims claims;
  for (const FatBinary& fat_binary : fat_binaries) claims.take({fat_binary.offset, fat_binary.size});
  std::vector<Extent> data;
  for (const DataPart& part : parts) {
    if (!part.constant || holds_device_code_by_name(part)) continue;
    for (Extent free : claims.take(part.where)) data.push_back(free);
  }
  std::sort(data.begin(), data.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  return data;
}

/// The kernel behind a stub of clang's, "_Z19__device_stub__addkPf" -> "_Z4addkPf"; empty for other names.
std::string kernel_of_stub(const std::string& symbol) {
  constexpr std::string_view prefix = "__device_stub__";
  std::size_t at = symbol.find(prefix);
  if (at == std::string::npos) return {};
  std::size_t digits = symbol.find_last_not_of("0123456789", at - (at != 0)) + 1;
  std::size_t length = 0;
  auto [end, error] = std::from_chars(symbol.data() + digits, symbol.data() + at, length);
  if (error != std::errc{} || end != symbol.data() + at || length <= prefix.size()) {
    return symbol.substr(0, at) + symbol.substr(at + prefix.size());  // extern "C": no length
  }
  return symbol.substr(0, digits) + std::to_string(length - prefix.size()) + symbol.substr(at + prefix.size());
}

/// Host stubs of this file's own kernels that other objects can bind to, sorted. nvcc gives the stub the kernel's
/// name (and a second function besides), clang a name of its own. Kernels in no container have none: a function of the
/// same name is the program's own.
std::vector<ExportedStub> exported_stubs(const FileRecord& record,
                                         const std::function<const std::vector<ExportedFunction>&()>& read_exports) {
  std::set<std::string> kernels;
  for (const FatBinary& fat_binary : record.fat_binaries) {
    if (is_bare(fat_binary)) continue;
    for (const Image& image : fat_binary.images) {
      for (const Kernel& kernel : image.kernels) kernels.insert(kernel.name);
    }
  }
  if (kernels.empty()) return {};
  std::map<std::string, ExportedStub> stubs;  // by kernel
  for (const ExportedFunction& function : read_exports()) {
    if (kernels.contains(function.name))
      stubs.insert_or_assign(function.name, ExportedStub{function.name, function.weak});
  }
  for (const ExportedFunction& function : read_exports()) {
    std::string kernel = kernel_of_stub(function.name);
    if (!kernel.empty() && kernels.contains(kernel))
      stubs.try_emplace(kernel, ExportedStub{function.name, function.weak});
  }
  std::vector<ExportedStub> found;
  for (auto& [kernel, stub] : stubs) found.push_back(std::move(stub));
  return found;
}

/// Names of kernels were read for the verdicts; the record holds them where they were asked for.
void drop_kernels(FileRecord& record) {
  for (FatBinary& fat_binary : record.fat_binaries) {
    for (Image& image : fat_binary.images) image.kernels.clear();
  }
}

std::size_t count_api(const std::vector<ExportedFunction>& functions) {
  return static_cast<std::size_t>(std::count_if(functions.begin(), functions.end(),
                                                [](const ExportedFunction& f) { return f.name.starts_with("cuda"); }));
}

bool holds_text(const Bytes& bytes, const std::vector<Extent>& data, std::string_view text) {
  const Needle needle{text, 0};
  return find_bytes(bytes, data, std::span(&needle, 1)).front().count != 0;
}

/// The texts that begin so, each once. Names of libraries are short and few; what is longer or more is none.
std::vector<std::string> texts(const Bytes& bytes, const std::vector<Extent>& data,
                               std::span<const std::string_view> begins) {
  constexpr std::size_t longest = 128, most = 64;
  std::vector<Needle> needles;
  for (const std::string_view begin : begins) needles.push_back({begin, begin.size() - 1});
  std::set<std::string> whole;
  for (const Found& found : find_bytes(bytes, data, needles)) {
    for (const std::uint64_t offset : found.first) {
      if (whole.size() >= most) break;
      const std::vector<std::byte> there = bytes.copy({offset, std::min(longest, bytes.size() - offset)});
      const auto end = std::find(there.begin(), there.end(), std::byte{0});
      if (end != there.end()) whole.emplace(reinterpret_cast<const char*>(there.data()), end - there.begin());
    }
  }
  return {whole.begin(), whole.end()};
}

/// The whole file, where it may be read: at most `limit` bytes.
std::vector<std::uint8_t> read_whole(const Bytes& bytes, std::uint64_t limit) {
  std::vector<std::uint8_t> whole(std::min(bytes.size(), limit));
  whole.resize(bytes.read(0, std::as_writable_bytes(std::span(whole))));
  return whole;
}

void read_elf(const Bytes& bytes, const ReadOptions& options, FileRecord& record) {
  auto layout = read_elf_layout(bytes, record.problems);
  if (!layout) {
    if (!record.problems.empty()) return;
    if (bytes.size() > kMaxWhole) {
      record.problems.push_back({0, fmt::format("ELF class and byte order: expected 64-bit little-endian in a file of "
                                                "more than {} bytes, found another",
                                                kMaxWhole)});
      return;
    }
    elf_facts(read_whole(bytes, kMaxWhole), record);
    return;
  }
  std::vector<std::uint8_t> slice = make_slice(bytes, *layout, false, record.problems);
  std::optional<std::string> generation = elf_facts(slice, record, [&](const std::set<std::uint16_t>& versions) {
    return symbols_by_version(bytes, *layout, versions, record.problems);
  });
  const std::vector<DataPart> parts = data_parts(*layout);
  const std::vector<Found> marks = device_code(bytes, parts, options, record);

  // Symbols are read where they decide something: a large library has some 100,000.
  std::optional<std::vector<ExportedFunction>> exports;
  auto read_exports = [&]() -> const std::vector<ExportedFunction>& {
    if (!exports) {
      std::vector<Problem> told;  // the first slice told most of them
      exports = exported_functions(make_slice(bytes, *layout, true, told));
      for (Problem& problem : told)
        if (std::none_of(record.problems.begin(), record.problems.end(),
                         [&](const Problem& known) { return known.message == problem.message; }))
          record.problems.push_back(std::move(problem));
    }
    return *exports;
  };
  RuntimeClues runtime_clues;
  runtime_clues.generation = generation;
  runtime_clues.exported_api = [&] { return count_api(read_exports()); };
  record.runtime_copies = runtime_copies(
      find_callback_tables(bytes, memory_view(bytes, *layout), marks, record.problems), record, runtime_clues);

  VendorClues vendor_clues;
  vendor_clues.exports = read_exports;
  const auto data = [&] { return host_data(parts, record.fat_binaries); };
  vendor_clues.holds_text = [&](std::string_view text) { return holds_text(bytes, data(), text); };
  vendor_clues.texts = [&](std::span<const std::string_view> begins) { return texts(bytes, data(), begins); };
  constexpr std::string_view name("\0cuInit\0", 8);
  vendor_clues.names_driver_api = memmem(slice.data(), slice.size(), name.data(), name.size()) != nullptr;
  record.vendor = recognise_vendor(record, vendor_clues);

  if ((options.for_audit || options.kernels) && !record.vendor)
    record.exported_stubs = exported_stubs(record, read_exports);
  if (!options.kernels) drop_kernels(record);
}

std::string machine_name_of_pe(std::uint16_t machine) {
  switch (machine) {
    case 0x8664:
      return "x86_64";
    case 0xaa64:
      return "aarch64";
    case 0x14c:
      return "x86";
    default:
      return fmt::format("PE machine {:#x}", machine);
  }
}

void read_pe(const Bytes& bytes, const ReadOptions& options, FileRecord& record) {
  auto layout = read_pe_layout(bytes, record.problems);
  if (!layout) return;
  record.machine = machine_name_of_pe(layout->machine);
  record.type = layout->is_dll ? "shared" : "executable";
  record.soname = layout->export_name;
  record.needed = layout->imports;
  std::set<std::string> known;
  for (const std::string& name : layout->imports) known.insert(windows_name(name));
  for (const std::string& name : layout->delayed_imports) {
    if (!known.insert(windows_name(name)).second) continue;
    record.needed.push_back(name);
    record.delayed.push_back(name);
  }
  const std::vector<DataPart> parts = data_parts(*layout);
  const std::vector<Found> marks = device_code(bytes, parts, options, record);

  std::optional<std::vector<ExportedFunction>> exports;
  auto read_exports = [&]() -> const std::vector<ExportedFunction>& {
    if (!exports) {
      exports.emplace();
      for (std::string& name : pe_exports(bytes, *layout)) exports->push_back({std::move(name), false});
    }
    return *exports;
  };
  RuntimeClues runtime_clues;
  runtime_clues.exported_api = [&] { return count_api(read_exports()); };
  runtime_clues.hybrid_loader = find_hybrid_loader(marks);
  record.runtime_copies =
      runtime_copies(find_callback_tables(bytes, memory_view(*layout), marks, record.problems), record, runtime_clues);

  VendorClues vendor_clues;
  vendor_clues.exports = read_exports;
  const auto data = [&] { return host_data(parts, record.fat_binaries); };
  vendor_clues.holds_text = [&](std::string_view text) { return holds_text(bytes, data(), text); };
  vendor_clues.texts = [&](std::span<const std::string_view> begins) { return texts(bytes, data(), begins); };
  record.vendor = recognise_vendor(record, vendor_clues);
  if (!options.kernels) drop_kernels(record);
}

/// One file or member that is no archive.
FileRecord read_one(const std::string& path, const Bytes& bytes, const ReadOptions& options) {
  FileRecord record;
  record.path = path;
  record.size = bytes.size();
  Extent all{0, bytes.size()};
  auto magic = bytes.value<std::array<unsigned char, 4>>(0);
  if (looks_like_cubin(bytes, all)) {
    record.format = Format::cubin;
    record.fat_binaries.push_back(read_cubin(bytes, all, std::nullopt, options, record.problems));
  } else if (magic == std::array<unsigned char, 4>{0x7f, 'E', 'L', 'F'}) {
    record.format = Format::elf;
    read_elf(bytes, options, record);
  } else if (looks_like_pe(bytes)) {
    record.format = Format::pe;
    read_pe(bytes, options, record);
  } else if (looks_like_fatbin(bytes, all)) {
    record.format = Format::fatbin;
    record.fat_binaries =
        read_fat_binaries(bytes, all, FatbinPlace::named_section, std::nullopt, options, record.problems);
  } else if (looks_like_ptx(bytes, all)) {
    record.format = Format::ptx;
    record.fat_binaries.push_back(read_ptx(bytes, all, std::nullopt, options, record.problems));
  }
  return record;
}

}  // namespace

FileRecord read_elf_with_lief_alone(const std::string& path, const Bytes& bytes) {
  FileRecord record;
  record.path = path;
  record.size = bytes.size();
  record.format = Format::elf;
  elf_facts(read_whole(bytes, bytes.size()), record);
  return record;
}

std::vector<FileRecord> read_binary(const std::string& path, const Bytes& bytes, const ReadOptions& options) {
  std::vector<FileRecord> records;
  if (!looks_like_archive(bytes)) {
    records.push_back(read_one(path, bytes, options));
    return records;
  }
  FileRecord archive;
  archive.path = path;
  archive.size = bytes.size();
  archive.format = Format::ar;
  for (const ArchiveMember& member : read_archive(bytes, archive.problems)) {
    PartBytes part(bytes, member.where);
    FileRecord record = read_one(path + "!/" + member.name, part, options);
    if (record.format != Format::other) records.push_back(std::move(record));
  }
  if (records.empty() || !archive.problems.empty()) records.insert(records.begin(), std::move(archive));
  return records;
}

}  // namespace cudeploy
