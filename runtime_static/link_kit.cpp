// The archive is read with the plain structs of <elf.h>: one relocatable object inside a small `ar` file.
// Every offset is checked before it is used; the archive may be cut, or be no archive at all.
#include "link_kit.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "anchor.hpp"
#include "bytes.hpp"

namespace cudeploy {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_archive = std::uint64_t{1} << 28;  // NVIDIA's are 1 to 2 MB
constexpr const char* archive_hint = "pass the libcudart_static.a of the toolkit that compiles the program";

[[noreturn]] void fail(const std::string& path, const std::string& message, const std::string& hint) {
  throw std::runtime_error(path + ": error: " + message + "\nhint: " + hint);
}

using View = std::span<const std::byte>;

/// `size` bytes at `offset`, or nothing when they do not lie inside.
std::optional<View> part(View whole, std::uint64_t offset, std::uint64_t size) {
  if (offset > whole.size() || size > whole.size() - offset) return std::nullopt;
  return whole.subspan(offset, size);
}

template <typename T>
std::optional<T> value_at(View whole, std::uint64_t offset) {
  const auto bytes = part(whole, offset, sizeof(T));
  if (!bytes) return std::nullopt;
  T value;
  std::memcpy(&value, bytes->data(), sizeof value);
  return value;
}

/// The zero-terminated string at `offset`; empty when it does not end inside.
std::string_view string_at(View whole, std::uint64_t offset) {
  if (offset >= whole.size()) return {};
  const char* start = reinterpret_cast<const char*>(whole.data()) + offset;
  const void* end = std::memchr(start, 0, whole.size() - offset);
  return end ? std::string_view(start, static_cast<const char*>(end) - start) : std::string_view();
}

bool is_api_name(std::string_view name) {
  if (name.starts_with("__")) name.remove_prefix(2);
  return name.size() > 4 && name.starts_with("cuda") && name[4] >= 'A' && name[4] <= 'Z' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
         });
}

/// The sections of one relocatable object of a machine that we know.
class Object {
 public:
  /// Nothing when `bytes` are no such object.
  static std::optional<Object> open(View bytes) {
    const auto header = value_at<Elf64_Ehdr>(bytes, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) return std::nullopt;
    if (header->e_type != ET_REL || header->e_shentsize != sizeof(Elf64_Shdr)) return std::nullopt;
    if (header->e_machine != EM_X86_64 && header->e_machine != EM_AARCH64) return std::nullopt;
    Object object;
    object.bytes_ = bytes;
    object.machine_ = header->e_machine;
    for (std::uint32_t i = 0; i < header->e_shnum; ++i) {
      const auto section = value_at<Elf64_Shdr>(bytes, header->e_shoff + std::uint64_t{i} * sizeof(Elf64_Shdr));
      if (!section) return std::nullopt;
      object.sections_.push_back(*section);
    }
    return object;
  }

  std::string machine() const { return machine_ == EM_X86_64 ? "x86_64" : "aarch64"; }

  /// Adds the API functions that this object defines for others to link.
  void collect_names(std::vector<std::string>& names) const {
    for (const auto& section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      const View strings = linked(section);
      for_each_of<Elf64_Sym>(section, [&](const Elf64_Sym& symbol) {
        const auto binding = ELF64_ST_BIND(symbol.st_info);
        if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return;
        if (binding != STB_GLOBAL && binding != STB_WEAK) return;
        const auto name = string_at(strings, symbol.st_name);
        if (is_api_name(name)) names.emplace_back(name);
      });
    }
  }

  /// Highest version in the runtime's callback table, 13000; 0 when there is no such table. The table is an
  /// array of 24-byte records {name, 0, u32 version, 0} in relocated read-only data.
  int api_level() const {
    for (const auto& section : sections_) {
      if (section.sh_type != SHT_RELA || section.sh_info >= sections_.size()) continue;
      const auto& target = sections_[section.sh_info];
      if (target.sh_type != SHT_PROGBITS || !(target.sh_flags & SHF_WRITE)) continue;
      if (const int level = table_level(section, target)) return level;
    }
    return 0;
  }

 private:
  View content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS) return {};
    return part(bytes_, section.sh_offset, section.sh_size).value_or(View());
  }

  View linked(const Elf64_Shdr& section) const {
    return section.sh_link < sections_.size() ? content(sections_[section.sh_link]) : View();
  }

  template <typename Entry, typename Visit>
  void for_each_of(const Elf64_Shdr& section, Visit visit) const {
    const View bytes = content(section);
    for (std::uint64_t i = 0; i + sizeof(Entry) <= bytes.size(); i += sizeof(Entry)) {
      visit(*value_at<Entry>(bytes, i));
    }
  }

  int table_level(const Elf64_Shdr& relocations, const Elf64_Shdr& target) const {
    const std::uint32_t pointer_type = machine_ == EM_X86_64 ? R_X86_64_64 : R_AARCH64_ABS64;
    const View symbols = linked(relocations);
    const View data = content(target);
    std::unordered_map<std::uint64_t, std::string_view> strings;
    std::vector<std::uint64_t> starts;
    for_each_of<Elf64_Rela>(relocations, [&](const Elf64_Rela& entry) {
      if (ELF64_R_TYPE(entry.r_info) != pointer_type) return;
      const auto symbol = value_at<Elf64_Sym>(symbols, ELF64_R_SYM(entry.r_info) * sizeof(Elf64_Sym));
      if (!symbol || symbol->st_shndx >= sections_.size()) return;
      const auto& home = sections_[symbol->st_shndx];
      if (home.sh_flags & (SHF_WRITE | SHF_EXECINSTR)) return;
      const auto text = string_at(content(home), symbol->st_value + static_cast<std::uint64_t>(entry.r_addend));
      if (!is_api_name(text)) return;
      strings.emplace(entry.r_offset, text);
      if (text == "cudaDriverGetVersion") starts.push_back(entry.r_offset);
    });
    for (const std::uint64_t start : starts) {
      int records = 0;
      std::uint32_t highest = 0;
      for (std::uint64_t at = start; strings.contains(at); at += 24) {
        const auto version = value_at<std::uint32_t>(data, at + 16);
        if (!version || *version < 3000 || *version >= 30000) break;
        highest = std::max(highest, *version);
        ++records;
      }
      if (records >= 100) return static_cast<int>(highest);
    }
    return 0;
  }

  View bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::uint16_t machine_ = 0;
};

/// Calls `visit` with the bytes of each member; the symbol index and the name table are members like others.
template <typename Visit>
void for_each_member(const std::string& path, View archive, Visit visit) {
  struct Header {
    char name[16], date[12], uid[6], gid[6], mode[8], size[10], end[2];
  };
  static_assert(sizeof(Header) == 60);
  for (std::uint64_t at = 8; at < archive.size();) {
    const auto header = value_at<Header>(archive, at);
    if (!header || std::memcmp(header->end, "`\n", 2) != 0) {
      fail(path, "no member header at offset " + std::to_string(at) + ": the archive is cut or damaged", archive_hint);
    }
    std::uint64_t size = 0;
    for (const char digit : header->size) {
      if (digit == ' ') break;
      if (digit < '0' || digit > '9') {
        fail(path, "the member size at offset " + std::to_string(at) + " is no decimal number", archive_hint);
      }
      size = size * 10 + static_cast<std::uint64_t>(digit - '0');
    }
    const auto member = part(archive, at + sizeof(Header), size);
    if (!member) {
      fail(path,
           "the member at offset " + std::to_string(at) + " has " + std::to_string(size) +
               " bytes by its header, the file ends before: the archive is cut",
           archive_hint);
    }
    visit(*member);
    at += sizeof(Header) + size + (size & 1);
  }
}

std::uint64_t fnv1a(std::uint64_t hash, View bytes) {
  for (const auto byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}
constexpr std::uint64_t fnv1a_start = 0xcbf29ce484222325u;

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016llxu", static_cast<unsigned long long>(value));
  return text;
}

std::string read_text(const fs::path& path, const std::string& hint) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in) fail(path.string(), "cannot be read", hint);
  return text;
}

void write_if_changed(const fs::path& path, const std::string& text) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    std::ifstream in(path, std::ios::binary);
    const std::string old((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (in && old == text) return;
  }
  // Two builds may write at once: each writes its own file, the last rename wins whole.
  const fs::path fresh = path.string() + ".new";
  {
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    if (!out) fail(fresh.string(), "cannot be written", "check the permissions and the free space of the folder");
  }
  std::error_code error;
  fs::rename(fresh, path, error);
  if (error) fail(path.string(), "cannot be replaced: " + error.message(), "check the permissions of the folder");
}

/// One line of a response file: linkers and GNU drivers split at spaces and take a backslash as an escape.
std::string response_line(const std::string& option) {
  std::string line;
  for (const char c : option) {
    if (c == ' ' || c == '\t' || c == '\\' || c == '"' || c == '\'') line += '\\';
    line += c;
  }
  return line + "\n";
}

/// The functions whose calls pass through an observer of report.cpp on their way to the slot.
constexpr std::string_view recorded[] = {"__cudaRegisterFatBinary", "__cudaRegisterFunction",
                                         "__cudaUnregisterFatBinary"};

std::string entries_source(const RuntimeArchive& archive, const std::string& assembly) {
  std::string text =
      "// Written by `cudeploy link-kit` from one libcudart_static.a: do not edit. One entry per API function of that\n"
      "// archive; its assembly is entry_" +
      archive.machine +
      ".S, taken in as text so that no build needs the language ASM.\n"
      "#include \"cudeploy_copy.hpp\"\n"
      "__asm__(CUDEPLOY_ENTRY_PRELUDE R\"ASM(\n" +
      assembly + ")ASM\"\nR\"ASM(\n";
  for (std::size_t i = 0; i < archive.names.size(); ++i) {
    const auto& name = archive.names[i];
    const bool observed = std::find(std::begin(recorded), std::end(recorded), name) != std::end(recorded);
    text += (observed ? "cudeploy_recorded_entry " : "cudeploy_entry ") + std::to_string(i) + ", " + name + "\n";
    // A string literal has a length limit that some compilers warn about: begin a new one from time to time.
    if (i % 64 == 63) text += ")ASM\"\nR\"ASM(\n";
  }
  text += "cudeploy_end " + std::to_string(archive.names.size()) + "\n)ASM\");\n";
  return text;
}

std::string copy_header(const RuntimeArchive& archive, AnchorVisibility anchor) {
  std::uint64_t names_id = fnv1a_start;
  for (const auto& name : archive.names) {
    names_id = fnv1a(names_id, std::as_bytes(std::span(name.c_str(), name.size() + 1)));
  }
  const auto has = [&](std::string_view name) {
    return std::binary_search(archive.names.begin(), archive.names.end(), name) ? "1" : "0";
  };
  std::string text =
      "// Written by `cudeploy link-kit` from one libcudart_static.a: do not edit.\n"
      "#pragma once\n"
      "#define CUDEPLOY_CUDA_MAJOR " +
      std::to_string(archive.api_level / 1000) + "\n" + "#define CUDEPLOY_API_LEVEL " +
      std::to_string(archive.api_level) + "\n#define CUDEPLOY_NAME_COUNT " + std::to_string(archive.names.size()) +
      "\n" + "#define CUDEPLOY_NAMES_ID " + hexadecimal(names_id) + "\n" + "#define CUDEPLOY_ARCHIVE_ID " +
      hexadecimal(archive.id) + "\n" + "#define CUDEPLOY_ANCHOR_EXPORTED " +
      (anchor == AnchorVisibility::exported ? "1" : "0") + "\n";
  for (const auto name : recorded) text += "#define CUDEPLOY_HAS" + std::string(name) + " " + has(name) + "\n";
  text +=
      "#if defined(__CET__) && (__CET__ & 1)\n"
      "#define CUDEPLOY_ENTRY_PRELUDE \".set cudeploy_branch_targets, 1\\n\"\n"
      "#elif defined(__ARM_FEATURE_BTI_DEFAULT)\n"
      "#define CUDEPLOY_ENTRY_PRELUDE \".set cudeploy_branch_targets, 1\\n\"\n"
      "#else\n"
      "#define CUDEPLOY_ENTRY_PRELUDE \".set cudeploy_branch_targets, 0\\n\"\n"
      "#endif\n";
  return text;
}

}  // namespace

RuntimeArchive read_runtime_archive(const std::string& path) {
  std::string why;
  const auto file = FileBytes::open(path, why);
  if (!file) fail(path, "cannot be opened: " + why, archive_hint);
  if (file->size() > largest_archive) {
    fail(path,
         "has " + std::to_string(file->size()) + " bytes, a runtime archive has at most " +
             std::to_string(largest_archive),
         archive_hint);
  }
  const auto bytes = file->copy({0, file->size()});
  const View view(bytes);
  if (view.size() != file->size()) fail(path, "was cut while it was read", archive_hint);
  if (view.size() < 8 || std::memcmp(view.data(), "!<arch>\n", 8) != 0) {
    const bool thin = view.size() >= 8 && std::memcmp(view.data(), "!<thin>\n", 8) == 0;
    fail(path,
         thin ? "expected an archive, found a thin archive, whose members lie elsewhere"
              : "expected a static archive (first bytes `!<arch>`), found something else",
         archive_hint);
  }
  RuntimeArchive archive;
  archive.id = fnv1a(fnv1a_start, view);
  for_each_member(path, view, [&](View member) {
    const auto object = Object::open(member);
    if (!object) return;
    const auto before = archive.names.size();
    object->collect_names(archive.names);
    if (archive.names.size() == before) return;
    if (!archive.machine.empty() && archive.machine != object->machine()) {
      fail(path, "holds objects for " + archive.machine + " and for " + object->machine(), archive_hint);
    }
    archive.machine = object->machine();
    archive.api_level = std::max(archive.api_level, object->api_level());
  });
  std::sort(archive.names.begin(), archive.names.end());
  archive.names.erase(std::unique(archive.names.begin(), archive.names.end()), archive.names.end());
  if (archive.names.empty()) {
    fail(path, "expected functions named `cuda…` in 64-bit objects for x86_64 or aarch64, found none", archive_hint);
  }
  if (!std::binary_search(archive.names.begin(), archive.names.end(), "cudaRuntimeGetVersion")) {
    fail(path,
         "expected the function cudaRuntimeGetVersion, found " + std::to_string(archive.names.size()) +
             " other API functions",
         archive_hint);
  }
  if (archive.api_level == 0) {
    fail(path, "expected the table of runtime functions and their versions, found none", archive_hint);
  }
  return archive;
}

LinkKit make_link_kit(const LinkKitOptions& options) {
  const auto archive = read_runtime_archive(options.cudart);
  const fs::path sources = fs::absolute(options.sources).lexically_normal();
  const std::string assembly =
      read_text(sources / ("entry_" + archive.machine + ".S"),
                "the runtime sources lie in share/cudeploy/runtime_static of the installation");
  std::error_code error;
  const fs::path out = fs::absolute(options.out).lexically_normal();
  fs::create_directories(out, error);
  if (error) fail(out.string(), "cannot be made: " + error.message(), "name a folder of the build tree");

  LinkKit kit;
  kit.cudart = fs::absolute(options.cudart).lexically_normal().string();
  kit.machine = archive.machine;
  kit.api_level = archive.api_level;
  kit.cuda_major = archive.api_level / 1000;
  kit.generation = std::to_string(kit.cuda_major) + "_" + std::to_string(anchor_abi);
  kit.anchor = options.anchor;
  kit.names = archive.names;
  kit.sources = {(out / "entries.cpp").string(), (sources / "join.cpp").string(), (sources / "report.cpp").string()};
  kit.include_directories = {out.string(), sources.string(), (sources / "include").string()};
  // Link-time optimisation does not see symbols that assembly defines, so these few files stay outside of it.
  // They throw nothing and let nothing pass: no unwind tables but those of the entries.
  kit.compile_options = {"-std=c++17",
                         "-Os",
                         "-fPIC",
                         "-fvisibility=hidden",
                         "-fno-exceptions",
                         "-fno-rtti",
                         "-fno-asynchronous-unwind-tables",
                         "-fno-unwind-tables",
                         "-fno-lto"};
  kit.response_file = (out / "wrap.rsp").string();
  kit.link_options = {"-Wl,@" + kit.response_file};
  kit.libraries = {kit.cudart, "pthread", "dl", "rt"};

  std::string response;
  for (const auto& name : kit.names) response += response_line("--wrap=" + name);
  if (options.anchor == AnchorVisibility::exported) {
    const fs::path map = out / "anchor.map";
    write_if_changed(map, "CUDEPLOY_" + kit.generation + " { global: cudeploy_anchor; };\n");
    response += response_line("--version-script=" + map.string());
    response += response_line("--export-dynamic-symbol=cudeploy_anchor");  // an executable exports only what is named
  } else {
    fs::remove(out / "anchor.map", error);
  }
  write_if_changed(kit.response_file, response);
  write_if_changed(out / "cudeploy_copy.hpp", copy_header(archive, options.anchor));
  write_if_changed(out / "entries.cpp", entries_source(archive, assembly));

  nlohmann::ordered_json json;
  json["schema"] = "cudeploy/link-kit/1";
  json["cudart"] = kit.cudart;
  json["machine"] = kit.machine;
  json["cuda_major"] = kit.cuda_major;
  json["api_level"] = kit.api_level;
  json["generation"] = kit.generation;
  json["anchor"] = options.anchor == AnchorVisibility::exported ? "exported" : "hidden";
  json["name_count"] = kit.names.size();
  json["sources"] = kit.sources;
  json["include_directories"] = kit.include_directories;
  json["compile_options"] = kit.compile_options;
  json["link_options"] = kit.link_options;
  json["response_file"] = kit.response_file;
  json["libraries"] = kit.libraries;
  write_if_changed(out / "link-kit.json", json.dump(2) + "\n");
  return kit;
}

}  // namespace cudeploy
