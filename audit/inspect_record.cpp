// The record leaves the process: to the parent of a worker, to a file, to another machine, and comes back from
// there. Whoever reads it must not have to trust it, so each field is checked on the way in, and what is wrong
// is told by the path of the field. One function per struct and direction; the two stand side by side.
#include "inspect_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "json_field.hpp"

namespace cudeploy {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::string_view schema_id = "cudeploy/inspect/1";

constexpr std::array format_names{
    Name{Format::elf, "elf"},       Name{Format::pe, "pe"},       Name{Format::ar, "ar"},
    Name{Format::fatbin, "fatbin"}, Name{Format::cubin, "cubin"}, Name{Format::ptx, "ptx"},
    Name{Format::other, "other"},
};
constexpr std::array image_kind_names{
    Name{ImageKind::cubin, "cubin"},     Name{ImageKind::ptx, "ptx"},     Name{ImageKind::lto_ir, "lto-ir"},
    Name{ImageKind::tile_ir, "tile-ir"}, Name{ImageKind::other, "other"},
};
constexpr std::array compression_names{
    Name{Compression::none, "none"},
    Name{Compression::lz4, "lz4"},
    Name{Compression::zstd, "zstd"},
    Name{Compression::unknown, "unknown"},
};
constexpr std::array runtime_kind_names{
    Name{RuntimeCopyKind::private_static, "private-static"}, Name{RuntimeCopyKind::unified, "unified"},
    Name{RuntimeCopyKind::shared_library, "shared-library"}, Name{RuntimeCopyKind::needs_shared, "needs-shared"},
    Name{RuntimeCopyKind::driver_hybrid, "driver-hybrid"},   Name{RuntimeCopyKind::stand_in, "stand-in"},
};
constexpr std::array vendor_role_names{
    Name{Vendor::Role::toolkit, "toolkit"},
    Name{Vendor::Role::driver, "driver"},
    Name{Vendor::Role::driver_stub, "driver-stub"},
};
constexpr std::array unpacking_names{
    Name{Unpacking::anywhere, "anywhere"},
    Name{Unpacking::deb, "deb"},
    Name{Unpacking::rpm, "rpm"},
};
constexpr std::array bundle_kind_names{
    Name{BundleRecord::Kind::files, "files"},
    Name{BundleRecord::Kind::folder, "folder"},
    Name{BundleRecord::Kind::package, "package"},
};

template <typename Names, typename Enum>
std::string_view name_of(const Names& names, Enum value) {
  for (const auto& name : names)
    if (name.value == value) return name.text;
  return names.back().text;
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string text(const Field& field) { return field.text(); }
std::vector<std::string> texts(const Field& field) { return field.list(text); }

/// Null and absent are the same.
template <typename Read>
auto optional(const std::optional<Field>& field, Read read) -> std::optional<decltype(read(*field))> {
  if (!field || field->null()) return std::nullopt;
  return read(*field);
}
template <typename Int>
std::optional<Int> optional_integer(const std::optional<Field>& field) {
  return optional(field, [](const Field& f) { return f.integer<Int>(); });
}
bool flag(const std::optional<Field>& field) { return field && field->boolean(); }
std::string text_or_empty(const std::optional<Field>& field) { return field ? field->text() : std::string(); }

Json write(const Problem& problem);
Json write(const Kernel& kernel);
Json write(const Image& image);
Json write(const FatBinary& container);
Json write(const RuntimeCopy& copy);
Json write(const ExportedStub& stub);
Json write(const VersionNeed& need);
Json write(const Companion& companion);
Json write(const BundleRecord& bundle);

template <typename T>
Json write_all(const std::vector<T>& values) {
  Json out = Json::array();
  for (const T& value : values) out.push_back(write(value));
  return out;
}

/// The members of an object all at once: before each that is added alone, Json looks through those that are there.
template <typename Value, typename Write>
Json write_members(const std::map<std::string, Value>& values, Write write) {
  std::vector<std::pair<std::string, Json>> members;
  for (const auto& [key, value] : values) members.emplace_back(key, write(value));
  return Json::object_t(std::make_move_iterator(members.begin()), std::make_move_iterator(members.end()));
}

Json write(const Problem& problem) { return {{"offset", or_null(problem.offset)}, {"message", problem.message}}; }
Problem read_problem(const Field& field) {
  return {optional_integer<std::uint64_t>(field.find("offset")), field.at("message").text()};
}

Json write(const Kernel& kernel) {
  return {
      {"name", kernel.name}, {"registers", or_null(kernel.registers)}, {"shared_bytes", or_null(kernel.shared_bytes)}};
}
Kernel read_kernel(const Field& field) {
  return {field.at("name").text(), optional_integer<std::uint32_t>(field.find("registers")),
          optional_integer<std::uint64_t>(field.find("shared_bytes"))};
}

Json write(const Image& image) {
  Json out = {{"offset", image.offset}};
  if (image.group) out["group"] = *image.group;
  out["kind"] = to_string(image.kind);
  out["entry_kind"] = image.entry_kind;
  out["arch"] = or_null(image.arch);
  out["variant"] = image.variant;
  out["ptx_version"] = or_null(image.ptx_version);
  out["compression"] = to_string(image.compression);
  out["stored_size"] = or_null(image.stored_size);
  out["size"] = or_null(image.size);
  out["toolkit"] = or_null(image.toolkit);
  out["flags"] = image.flags;
  out["header_size"] = image.header_size;
  out["name"] = image.name;
  out["options"] = image.options;
  out["arch_specific"] = image.arch_specific;
  out["debug"] = image.debug;
  out["obfuscated"] = image.obfuscated;
  out["kernel_count"] = or_null(image.kernel_count);
  if (!image.kernels.empty()) out["kernels"] = write_all(image.kernels);
  return out;
}
Image read_image(const Field& field) {
  Image image;
  image.offset = field.at("offset").integer<std::uint64_t>();
  image.group = optional_integer<std::uint64_t>(field.find("group"));
  image.kind = field.at("kind").one_of(image_kind_names);
  image.entry_kind = optional_integer<std::uint16_t>(field.find("entry_kind")).value_or(0);
  image.arch = optional_integer<std::uint32_t>(field.at("arch"));
  image.variant = field.at("variant").text();
  if (image.variant != "" && image.variant != "a" && image.variant != "f")
    field.at("variant").fail("\"\", \"a\" or \"f\"");
  image.ptx_version = optional(field.at("ptx_version"), text);
  image.compression = field.at("compression").one_of(compression_names);
  image.stored_size = optional_integer<std::uint64_t>(field.at("stored_size"));
  image.size = optional_integer<std::uint64_t>(field.at("size"));
  image.toolkit = optional(field.at("toolkit"), text);
  image.flags = optional_integer<std::uint64_t>(field.find("flags")).value_or(0);
  image.header_size = optional_integer<std::uint32_t>(field.find("header_size")).value_or(0);
  image.name = text_or_empty(field.find("name"));
  image.options = text_or_empty(field.find("options"));
  image.arch_specific = flag(field.find("arch_specific"));
  image.debug = flag(field.find("debug"));
  image.obfuscated = flag(field.find("obfuscated"));
  image.kernel_count = optional_integer<std::uint32_t>(field.find("kernel_count"));
  if (auto kernels = field.find("kernels")) image.kernels = kernels->list(read_kernel);
  return image;
}

Json write(const FatBinary& container) {
  return {{"offset", container.offset},
          {"size", container.size},
          {"section", or_null(container.section)},
          {"loadable", container.loadable},
          {"images", write_all(container.images)}};
}
FatBinary read_fat_binary(const Field& field) {
  FatBinary container;
  container.offset = field.at("offset").integer<std::uint64_t>();
  container.size = field.at("size").integer<std::uint64_t>();
  container.section = optional(field.at("section"), text);
  container.loadable = field.at("loadable").boolean();
  container.images = field.at("images").list(read_image);
  return container;
}

Json write(const RuntimeCopy& copy) {
  Json out = {{"kind", to_string(copy.kind)},
              {"version", or_null(copy.version)},
              {"api_level", or_null(copy.api_level)},
              {"candidates", copy.candidates},
              {"evidence", copy.evidence}};
  if (copy.generation) out["generation"] = *copy.generation;
  return out;
}
RuntimeCopy read_runtime_copy(const Field& field) {
  RuntimeCopy copy;
  copy.kind = field.at("kind").one_of(runtime_kind_names);
  copy.version = optional(field.at("version"), text);
  copy.api_level = optional_integer<int>(field.find("api_level"));
  if (auto candidates = field.find("candidates")) copy.candidates = texts(*candidates);
  copy.evidence = field.at("evidence").text();
  copy.generation = optional(field.find("generation"), text);
  return copy;
}

Json write(const ExportedStub& stub) { return {{"name", stub.name}, {"weak", stub.weak}}; }
ExportedStub read_exported_stub(const Field& field) { return {field.at("name").text(), flag(field.find("weak"))}; }

Json write(const VersionNeed& need) {
  return {{"library", need.library}, {"version", need.version}, {"symbols", need.symbols}};
}
VersionNeed read_version_need(const Field& field) {
  VersionNeed need{field.at("library").text(), field.at("version").text(), {}};
  if (auto symbols = field.find("symbols")) need.symbols = texts(*symbols);
  return need;
}

Json write(const Companion& companion) {
  return {{"name", companion.name}, {"always", companion.always}, {"wanted_for", companion.wanted_for}};
}
Companion read_companion(const Field& field) {
  return {field.at("name").text(), flag(field.find("always")), text_or_empty(field.find("wanted_for"))};
}

Json write(const Vendor& vendor) {
  return {{"role", name_of(vendor_role_names, vendor.role)},
          {"name", vendor.name},
          {"evidence", vendor.evidence},
          {"opens", write_all(vendor.opens)}};
}
Vendor read_vendor(const Field& field) {
  Vendor vendor{
      field.at("role").one_of(vendor_role_names), field.at("name").text(), text_or_empty(field.find("evidence")), {}};
  if (auto opens = field.find("opens")) vendor.opens = opens->list(read_companion);
  return vendor;
}

Json write(const BundleRecord& bundle) {
  const auto as_it_is = [](const auto& value) { return Json(value); };
  Json out = {{"kind", name_of(bundle_kind_names, bundle.kind)},
              {"name", bundle.name},
              {"files", bundle.files},
              {"links", write_members(bundle.links, as_it_is)}};
  if (!bundle.loader_folders.empty()) out["loader_folders"] = write_members(bundle.loader_folders, as_it_is);
  if (!bundle.packages.empty())
    out["packages"] = write_members(bundle.packages, [](Unpacking unpacking) { return Json(to_string(unpacking)); });
  return out;
}
BundleRecord read_bundle(const Field& field) {
  BundleRecord bundle;
  bundle.kind = field.at("kind").one_of(bundle_kind_names);
  bundle.name = field.at("name").text();
  bundle.files = texts(field.at("files"));
  if (auto links = field.find("links"))
    links->members([&](const std::string& path, const Field& target) { bundle.links[path] = target.text(); });
  if (auto all = field.find("loader_folders"))
    all->members([&](const std::string& path, const Field& folders) { bundle.loader_folders[path] = texts(folders); });
  if (auto all = field.find("packages"))
    all->members(
        [&](const std::string& path, const Field& how) { bundle.packages[path] = how.one_of(unpacking_names); });
  else if (bundle.kind == BundleRecord::Kind::package)
    bundle.packages = packages_by_name(bundle.files);
  return bundle;
}

FileRecord read_file(const Field& field) {
  FileRecord file;
  file.path = field.at("path").text();
  file.size = field.at("size").integer<std::uint64_t>();
  file.format = field.at("format").one_of(format_names);
  file.machine = optional(field.at("machine"), text);
  file.type = optional(field.at("type"), text);
  file.soname = optional(field.at("soname"), text);
  file.needed = texts(field.at("needed"));
  if (auto delayed = field.find("delayed")) file.delayed = texts(*delayed);
  file.rpath = texts(field.at("rpath"));
  file.runpath = texts(field.at("runpath"));
  file.nodeflib = flag(field.find("nodeflib"));
  file.nodelete = flag(field.find("nodelete"));
  file.symbolic = flag(field.find("symbolic"));
  file.interpreter = optional(field.find("interpreter"), text);
  if (auto names = field.find("version_definitions")) file.version_definitions = texts(*names);
  if (auto needs = field.find("version_needs")) file.version_needs = needs->list(read_version_need);
  file.vendor = optional(field.find("vendor"), read_vendor);
  file.runtime_copies = field.at("runtime_copies").list(read_runtime_copy);
  file.fat_binaries = field.at("fat_binaries").list(read_fat_binary);
  file.exported_stubs =
      optional(field.find("exported_stubs"), [](const Field& f) { return f.list(read_exported_stub); });
  file.problems = field.at("problems").list(read_problem);
  file.unreadable = flag(field.find("unreadable"));
  return file;
}

/// The package in a path, "a.deb" of "a.deb!/data.tar.xz!/x.so"; "" for a plain file or a member of a static archive.
std::string package_of(const FileRecord& file) {
  auto end = file.path.find("!/");
  if (end == std::string::npos) return "";
  std::string outer = file.path.substr(0, end);
  bool archive = outer.ends_with(".a") || outer.ends_with(".lib");
  return archive ? "" : outer;
}

std::vector<BundleRecord> bundles_by_path(const std::vector<FileRecord>& files) {
  std::map<std::string, BundleRecord> bundles;
  for (const FileRecord& file : files) {
    std::string package = package_of(file);
    BundleRecord& bundle = bundles[package];
    bundle.kind = package.empty() ? BundleRecord::Kind::files : BundleRecord::Kind::package;
    bundle.name = package;
    bundle.files.push_back(file.path);
  }
  for (auto& [name, bundle] : bundles)
    if (!name.empty()) bundle.packages = packages_by_name(bundle.files);
  std::vector<BundleRecord> out;
  for (auto& [name, bundle] : bundles) out.push_back(std::move(bundle));
  return out;
}

}  // namespace

std::string windows_name(std::string_view name) {
  std::string result(name);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::map<std::string, Unpacking> packages_by_name(const std::vector<std::string>& files) {
  std::map<std::string, Unpacking> packages;
  for (const std::string& path : files) {
    // The file's own package, and those around it: as far in as the outermost one, each "!/" may be where one ends.
    std::string_view outer;
    for (std::size_t at = path.find("!/"); at != std::string::npos; at = path.find("!/", at + 2)) {
      const std::string_view package = std::string_view(path).substr(0, at);
      const std::string_view name = package.substr(outer.empty() ? 0 : outer.size() + 2);
      if (name.ends_with(".a") || name.ends_with(".lib")) break;  // of a static archive
      packages[std::string(package)] = name.ends_with(".rpm")                                    ? Unpacking::rpm
                                       : outer.ends_with(".deb") && name.starts_with("data.tar") ? Unpacking::deb
                                                                                                 : Unpacking::anywhere;
      outer = package;
    }
  }
  return packages;
}

std::string_view to_string(Format format) { return name_of(format_names, format); }
std::string_view to_string(ImageKind kind) { return name_of(image_kind_names, kind); }
std::string_view to_string(Compression compression) { return name_of(compression_names, compression); }
std::string_view to_string(RuntimeCopyKind kind) { return name_of(runtime_kind_names, kind); }
std::string_view to_string(Unpacking unpacking) { return name_of(unpacking_names, unpacking); }
Unpacking unpacking_of(std::string_view name) {
  const Json text = name;
  return Field(text, "unpacking").one_of(unpacking_names);
}

Json to_json(const FileRecord& file) {
  Json out = {{"path", file.path},
              {"size", file.size},
              {"format", to_string(file.format)},
              {"machine", or_null(file.machine)},
              {"type", or_null(file.type)},
              {"soname", or_null(file.soname)},
              {"needed", file.needed},
              {"delayed", file.delayed},
              {"rpath", file.rpath},
              {"runpath", file.runpath},
              {"nodeflib", file.nodeflib},
              {"nodelete", file.nodelete},
              {"symbolic", file.symbolic},
              {"interpreter", or_null(file.interpreter)},
              {"version_definitions", file.version_definitions},
              {"version_needs", write_all(file.version_needs)},
              {"vendor", file.vendor ? write(*file.vendor) : Json(nullptr)},
              {"runtime_copies", write_all(file.runtime_copies)},
              {"fat_binaries", write_all(file.fat_binaries)},
              {"exported_stubs", file.exported_stubs ? write_all(*file.exported_stubs) : Json(nullptr)},
              {"problems", write_all(file.problems)}};
  if (file.unreadable) out["unreadable"] = true;
  return out;
}

Json to_json(const InspectRecord& record) {
  Json files = Json::array();
  for (const FileRecord& file : record.files) files.push_back(to_json(file));
  return {{"schema", schema_id}, {"files", std::move(files)}, {"bundles", write_all(record.bundles)}};
}

FileRecord file_record_from_json(const nlohmann::json& value) { return read_file(Field(value, "")); }

InspectRecord inspect_record_from_json(const nlohmann::json& value) {
  Field root(value, "");
  if (root.at("schema").text() != schema_id) root.at("schema").fail(fmt::format("\"{}\"", schema_id));
  InspectRecord record;
  record.files = root.at("files").list(read_file);
  std::stable_sort(record.files.begin(), record.files.end(),
                   [](const FileRecord& a, const FileRecord& b) { return a.path < b.path; });
  if (auto bundles = root.find("bundles")) {
    record.bundles = bundles->list(read_bundle);
    std::set<std::string_view> paths;
    for (const FileRecord& file : record.files) paths.insert(file.path);
    for (std::size_t i = 0; i < record.bundles.size(); ++i)
      for (std::size_t k = 0; k < record.bundles[i].files.size(); ++k)
        if (!paths.contains(record.bundles[i].files[k]))
          Field(value["bundles"][i]["files"][k], fmt::format("bundles[{}].files[{}]", i, k))
              .fail("the path of a file of this record");
  } else {
    record.bundles = bundles_by_path(record.files);
  }
  return record;
}

}  // namespace cudeploy
