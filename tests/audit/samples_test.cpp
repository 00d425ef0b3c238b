// Each row of the samples' manifest is a test: what a reader that knows the format must say of the file, written
// by hand from the command that made it. The manifest's words are those of its makers; here they meet ours.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "binary.hpp"
#include "payload.hpp"
#include "ptx.hpp"

namespace cudeploy {
namespace {

using nlohmann::json;

const std::filesystem::path samples = CUDEPLOY_SAMPLES;

/// Kind of problem in the manifest -> what only our text for it says.
const std::map<std::string, std::string> problem_texts = {
    {"container_header_truncated", "^container header: expected 16 bytes"},
    {"unknown_container_version", "^container version: expected 1"},
    {"bad_container_header_size", "^container header size: expected 16"},
    {"container_overruns_file", "^container size: expected at most"},
    {"bad_container_magic", "^container magic: expected 0xba55ed50"},
    {"empty_container", "^container size: expected entries"},
    {"entry_header_truncated", "^entry header: expected 64 bytes"},
    {"entry_overruns_container", "^entry payload size: expected at most"},
    {"bad_entry_header_size", "^entry header size: "},
    {"empty_payload", "^entry payload size: expected more than 0"},
    {"uncompressed_size_too_large", "uncompressed size: .* over the limit"},
    {"bad_compressed_size", "^entry compressed size: "},
    {"unknown_kind", "^entry kind: 0x7777 is not known"},
    {"unknown_compression", "^entry flags: compression 0x1000"},
    {"conflicting_arch_flags", "^entry flags: both architecture-specific"},
    {"decompress_failed", "^payload does not decompress: (zstd|expected a zstd)"},
    {"cubin_sm_differs_from_entry_arch", "^architecture: the entry says sm_80, the cubin inside sm_90"},
    {"cubin_variant_differs_from_entry", "^variant: the entry says "},
    {"bad_wrapper_magic", "^fat binary wrapper magic: "},
};

const std::set<std::string> only_in_payloads = {"uncompressed_size_too_large", "decompress_failed",
                                                "cubin_sm_differs_from_entry_arch", "cubin_variant_differs_from_entry"};

json load_manifest() { return json::parse(std::ifstream(samples / "MANIFEST.json")); }

std::vector<json> rows() {
  const auto manifest = load_manifest();
  return manifest["samples"];
}

std::vector<FileRecord> read_sample(const std::string& file, const ReadOptions& options) {
  std::string why;
  const auto bytes = FileBytes::open((samples / file).string(), why);
  if (!bytes) throw std::runtime_error(file + ": " + why);
  return read_binary(file, *bytes, options);
}

std::vector<FatBinary> fat_binaries(const std::vector<FileRecord>& records) {
  std::vector<FatBinary> out;
  for (const auto& record : records) out.insert(out.end(), record.fat_binaries.begin(), record.fat_binaries.end());
  return out;
}

std::vector<Problem> problems(const std::vector<FileRecord>& records) {
  std::vector<Problem> out;
  for (const auto& record : records) out.insert(out.end(), record.problems.begin(), record.problems.end());
  return out;
}

void expect_problems(const std::vector<FileRecord>& records, std::vector<std::string> kinds,
                     const std::set<std::string>& optional) {
  for (const auto& problem : problems(records)) {
    EXPECT_TRUE(problem.offset.has_value()) << problem.message;
    auto says = [&](const std::string& kind) {
      const auto text = problem_texts.find(kind);
      return text != problem_texts.end() && std::regex_search(problem.message, std::regex(text->second));
    };
    if (const auto found = std::find_if(kinds.begin(), kinds.end(), says); found != kinds.end()) {
      kinds.erase(found);
    } else {
      EXPECT_TRUE(std::any_of(optional.begin(), optional.end(), says)) << "not expected: " << problem.message;
    }
  }
  for (const auto& kind : kinds) ADD_FAILURE() << "no problem says " << kind;
}

/// The manifest's `cudart` and `shared_needed` together are our runtime copies. Where it names neither, there is none.
void expect_runtime_copies(const json& expect, const std::vector<FileRecord>& records) {
  std::multiset<RuntimeCopyKind> wanted, found;
  for (std::size_t i = 0; i < expect.value("cudart", json::array()).size(); ++i)
    wanted.insert(RuntimeCopyKind::private_static);
  for (std::size_t i = 0; i < expect.value("shared_needed", json::array()).size(); ++i)
    wanted.insert(RuntimeCopyKind::needs_shared);
  for (const auto& record : records)
    for (const auto& copy : record.runtime_copies) found.insert(copy.kind);
  EXPECT_EQ(found, wanted);
}

void expect_image(const json& row, const FatBinary&, const Image& image, bool payloads) {
  const std::map<std::string, ImageKind> kinds = {{"elf", ImageKind::cubin},
                                                  {"ptx", ImageKind::ptx},
                                                  {"lto", ImageKind::lto_ir},
                                                  {"tile-ir", ImageKind::tile_ir},
                                                  {"reloc-ptx", ImageKind::other}};
  const std::map<std::string, Compression> compressions = {
      {"none", Compression::none}, {"lz4", Compression::lz4}, {"zstd", Compression::zstd}};
  EXPECT_EQ(image.kind, row["kind"].is_null() ? ImageKind::other : kinds.at(row["kind"]));
  EXPECT_EQ(image.arch, row["arch"].is_null() ? std::nullopt : std::optional(row["arch"].get<std::uint32_t>()));
  EXPECT_EQ(image.variant, row["variant"].is_null() ? "" : row["variant"].get<std::string>());
  EXPECT_EQ(image.compression, row["compressed"].is_null() ? Compression::unknown : compressions.at(row["compressed"]));
  if (row.contains("ptx_version")) EXPECT_EQ(image.ptx_version, row["ptx_version"].get<std::string>());
  EXPECT_EQ(image.ptx_version.has_value(), image.kind == ImageKind::ptx);
  if (row.contains("header_size")) EXPECT_EQ(image.header_size, row["header_size"].get<std::uint32_t>());
  if (row.contains("debug")) EXPECT_EQ(image.debug, row["debug"].get<bool>());
  if (row.contains("host")) {
    ASSERT_EQ(row["host"], "linux");
    EXPECT_EQ(image.flags & 0x70, 0x10u);
  }
  if (row.contains("name")) EXPECT_EQ(image.name, row["name"].get<std::string>());
  if (row.contains("options")) EXPECT_EQ(image.options, row["options"].get<std::string>());
  if (row.contains("obfuscated")) EXPECT_EQ(image.obfuscated, row["obfuscated"].get<bool>());
  if (row.contains("kernels") && (payloads || image.compression == Compression::none)) {
    EXPECT_EQ(image.kernel_count, row["kernels"].get<std::uint32_t>());
  }
  if (row.contains("toolkit") && (payloads || image.compression == Compression::none)) {
    EXPECT_EQ(image.toolkit, row["toolkit"].get<std::string>());
  } else if (!payloads && image.compression != Compression::none) {
    EXPECT_EQ(image.toolkit, std::nullopt);
  }
  EXPECT_EQ(image.stored_size.has_value(), !image.group && image.arch.has_value());
}

class Sample : public testing::TestWithParam<json> {};

TEST_P(Sample, IsReadAsTheManifestSays) {
  const json& row = GetParam();
  const json& expect = row["expect"];
  for (const bool payloads : {false, true}) {
    SCOPED_TRACE(payloads ? "with payloads" : "headers only");
    ReadOptions options;
    options.payloads = payloads;
    const auto records = read_sample(row["file"], options);
    ASSERT_FALSE(records.empty());
    const auto found = fat_binaries(records);
    expect_runtime_copies(expect, records);

    if (expect["format"].is_null()) {
      // "errors" of the manifest is the word of a reader that was told to expect a fat binary. Nothing says that these
      // are one, and a file without anything to read is no problem.
      EXPECT_EQ(records.front().format, Format::other);
      EXPECT_TRUE(found.empty());
      EXPECT_TRUE(problems(records).empty());
      continue;
    }
    if (expect["format"] == "fatbin") EXPECT_EQ(records.front().format, Format::fatbin);
    if (expect["format"] == "elf") EXPECT_EQ(records.front().format, Format::elf);
    if (expect["format"] == "ar") {
      for (const auto& record : records) EXPECT_NE(record.path.find(".a!/"), std::string::npos) << record.path;
    }
    if (expect.contains("containers")) EXPECT_EQ(found.size(), expect["containers"].get<std::size_t>());
    if (expect.contains("sections")) {
      std::set<std::string> sections;
      for (const auto& fat_binary : found) sections.insert(fat_binary.section.value_or(""));
      EXPECT_EQ(json(sections), expect["sections"]);
    }
    if (expect.contains("group_error")) {
      const auto all = problems(records);
      EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Problem& problem) {
        return problem.offset && problem.message.starts_with("concatenated entry: ");
      }));
      EXPECT_LE(found.at(0).images.size(), 16u);
      continue;
    }

    std::vector<std::string> kinds;
    std::set<std::string> optional;
    for (const char* where : {"entry_errors", "container_errors", "wrapper_errors"}) {
      for (std::string kind : expect.value(where, json::array())) {
        const bool perhaps = kind.ends_with("|none");
        if (perhaps) kind.resize(kind.size() - 5);
        if (!payloads && only_in_payloads.count(kind)) continue;
        if (perhaps) {
          optional.insert(kind);
        } else {
          kinds.push_back(kind);
        }
      }
    }
    expect_problems(records, kinds, optional);

    ASSERT_TRUE(expect.contains("entries"));
    std::size_t index = 0;
    for (const auto& fat_binary : found) {
      for (const Image& image : fat_binary.images) {
        SCOPED_TRACE(testing::Message() << "image " << index);
        ASSERT_LT(index, expect["entries"].size());
        expect_image(expect["entries"][index++], fat_binary, image, payloads);
      }
    }
    EXPECT_EQ(index, expect["entries"].size());
  }
}

INSTANTIATE_TEST_SUITE_P(Manifest, Sample, testing::ValuesIn(rows()), [](const testing::TestParamInfo<json>& info) {
  std::string name = info.param["file"];
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

// The cubins of tile kernels run on exactly their own architecture, though the entries do not say so.
TEST(SampleTile, CubinsAreArchitectureSpecificByTheirHeadersAlone) {
  for (const bool payloads : {false, true}) {
    ReadOptions options;
    options.payloads = payloads;
    const auto found = fat_binaries(read_sample("tile.fatbin", options));
    ASSERT_EQ(found.at(0).images.size(), 3u);
    EXPECT_TRUE(found[0].images[0].arch_specific);
    EXPECT_TRUE(found[0].images[1].arch_specific);
    EXPECT_FALSE(found[0].images[2].arch_specific);
    EXPECT_FALSE(fat_binaries(read_sample("add_family.fatbin", options)).at(0).images.at(0).arch_specific);
  }
}

// The PTX of each bare sample says of itself what the manifest says.
TEST(SamplePtx, SaysTargetOptionsAndAddressSize) {
  int seen = 0;
  for (const json& row : rows()) {
    const json& expect = row["expect"];
    if (expect["format"] != "fatbin" || !expect.value("entry_errors", json::array()).empty()) continue;
    if (!expect.contains("entries") || !expect["container_errors"].empty()) continue;
    SCOPED_TRACE(row["file"].get<std::string>());
    std::string why;
    const auto bytes = FileBytes::open((samples / row["file"]).string(), why);
    ASSERT_TRUE(bytes) << why;
    const auto found = fat_binaries(read_sample(row["file"], {}));
    for (std::size_t i = 0; i < expect["entries"].size(); ++i) {
      const json& entry = expect["entries"][i];
      const Image& image = found.at(0).images.at(i);
      if (!entry.contains("ptx_target") || image.group) continue;
      const auto compressed = bytes->value<std::uint32_t>(image.offset + 0x10).value();
      Stored stored{{image.offset + image.header_size, compressed != 0 ? compressed : *image.stored_size},
                    Codec::none,
                    *image.size};
      if (image.compression == Compression::zstd) stored.codec = Codec::zstd;
      if (image.compression == Compression::lz4) stored.codec = Codec::lz4_block;
      std::string fault;
      const auto text = unpack(*bytes, stored, fault);
      ASSERT_TRUE(text) << fault;
      const auto facts = read_ptx_facts({reinterpret_cast<const char*>(text->data()), text->size()}, fault);
      ASSERT_TRUE(facts) << fault;
      EXPECT_EQ("sm_" + std::to_string(facts->arch) + facts->variant, entry["ptx_target"]);
      if (entry.contains("ptx_options")) EXPECT_EQ(json(facts->target_options), entry["ptx_options"]);
      if (entry.contains("address_size")) EXPECT_EQ(facts->address_size, entry["address_size"].get<std::uint32_t>());
      EXPECT_EQ(facts->kernels, std::vector<std::string>{"addk"});
      ++seen;
    }
  }
  EXPECT_GE(seen, 8);
}

}  // namespace
}  // namespace cudeploy
