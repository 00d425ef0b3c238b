#include "short_record.hpp"

#include <sstream>
#include <stdexcept>

namespace cudeploy {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  if (result.empty()) throw std::runtime_error("an empty word list");
  return result;
}

/// "toolkit=13.0" -> "13.0"
bool value_of(const std::string& word, const std::string& key, std::string& value) {
  if (!word.starts_with(key + "=")) return false;
  value = word.substr(key.size() + 1);
  return true;
}

template <typename T>
T chosen(const std::string& word, std::initializer_list<std::pair<const char*, T>> names) {
  for (const auto& [name, value] : names)
    if (word == name) return value;
  throw std::runtime_error("unknown word in a case: " + word);
}

}  // namespace

Image short_image(const std::string& text) {
  const auto all = words(text);
  Image image;
  const std::size_t underscore = all[0].find('_');
  const std::string kind = all[0].substr(0, underscore);
  image.kind = chosen<ImageKind>(kind, {{"sm", ImageKind::cubin},
                                        {"compute", ImageKind::ptx},
                                        {"lto", ImageKind::lto_ir},
                                        {"tile", ImageKind::tile_ir},
                                        {"reloc", ImageKind::other},
                                        {"unknown", ImageKind::other}});
  image.entry_kind = chosen<std::uint16_t>(
      kind, {{"sm", 2}, {"compute", 1}, {"lto", 8}, {"tile", 0x80}, {"reloc", 0x40}, {"unknown", 0x200}});
  std::string arch = all[0].substr(underscore + 1);
  if (arch.ends_with("a") || arch.ends_with("f")) {
    image.variant = arch.back();
    arch.pop_back();
  }
  if (arch != "?") image.arch = static_cast<std::uint32_t>(std::stoul(arch));
  for (std::size_t i = 1; i < all.size(); ++i) {
    std::string value;
    if (value_of(all[i], "ptx", value))
      image.ptx_version = value;
    else if (value_of(all[i], "toolkit", value))
      image.toolkit = value;
    else if (value_of(all[i], "kernels", value))
      image.kernel_count = static_cast<std::uint32_t>(std::stoul(value));
    else if (all[i] == "group")
      image.group = 0;
    else
      image.compression = chosen<Compression>(
          all[i], {{"zstd", Compression::zstd}, {"lz4", Compression::lz4}, {"packed", Compression::unknown}});
  }
  return image;
}

FatBinary short_fat_binary(const nlohmann::json& value, bool bare) {
  FatBinary container;
  container.section = ".nv_fatbin";
  if (value.is_object()) {
    container.loadable = value.value("loadable", true);
    container.offset = value.value("offset", std::uint64_t{0});
    bare = value.value("bare", bare);
    if (!container.loadable) container.section = "__nv_relfatbin";
  }
  constexpr std::uint64_t header = 16;
  for (const auto& image : value.is_object() ? value.at("images") : value) {
    container.images.push_back(short_image(image.get<std::string>()));
    container.images.back().offset = container.offset + (bare ? 0 : header);
  }
  return container;
}

RuntimeCopy short_runtime(const std::string& text) {
  const auto all = words(text);
  RuntimeCopy copy;
  copy.kind = chosen<RuntimeCopyKind>(all[0], {{"private-static", RuntimeCopyKind::private_static},
                                               {"unified", RuntimeCopyKind::unified},
                                               {"shared-library", RuntimeCopyKind::shared_library},
                                               {"needs-shared", RuntimeCopyKind::needs_shared},
                                               {"driver-hybrid", RuntimeCopyKind::driver_hybrid},
                                               {"stand-in", RuntimeCopyKind::stand_in}});
  copy.evidence = "given by the case";
  for (std::size_t i = 1; i < all.size(); ++i) {
    std::string value;
    if (value_of(all[i], "generation", value))
      copy.generation = value;
    else if (value_of(all[i], "level", value))
      copy.api_level = std::stoi(value);
    else
      copy.version = all[i];
  }
  return copy;
}

FileRecord short_file(const std::string& path, const nlohmann::json& value) {
  // What has no short form goes through the reader of real records, so that a misspelt field is noticed.
  nlohmann::json full = {{"path", path},
                         {"size", 1000},
                         {"format", "elf"},
                         {"machine", "x86_64"},
                         {"type", "shared"},
                         {"soname", nullptr},
                         {"needed", nlohmann::json::array()},
                         {"rpath", nlohmann::json::array()},
                         {"runpath", nlohmann::json::array()},
                         {"runtime_copies", nlohmann::json::array()},
                         {"fat_binaries", nlohmann::json::array()},
                         {"problems", nlohmann::json::array()}};
  const std::string format = value.contains("format") ? value["format"].get<std::string>() : "elf";
  const bool bare = format == "cubin" || format == "ptx";
  std::vector<FatBinary> containers;
  std::vector<RuntimeCopy> copies;
  static const std::vector<std::string> further = {
      "vendor",      "exported_stubs",      "nodeflib",      "symbolic", "nodelete", "unreadable",
      "interpreter", "version_definitions", "version_needs", "delayed"};
  for (const auto& [key, field] : value.items()) {
    if (key == "fat_binaries") {
      for (const auto& container : field) containers.push_back(short_fat_binary(container, bare));
    } else if (key == "runtime_copies") {
      for (const auto& copy : field) copies.push_back(short_runtime(copy.get<std::string>()));
    } else {
      if (!full.contains(key) && std::find(further.begin(), further.end(), key) == further.end())
        throw std::runtime_error("unknown field in a case: " + key);
      full[key] = field;
    }
  }
  FileRecord file = file_record_from_json(full);
  file.fat_binaries = std::move(containers);
  file.runtime_copies = std::move(copies);
  return file;
}

}  // namespace cudeploy
