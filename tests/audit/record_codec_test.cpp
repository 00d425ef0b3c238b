// What one process tells the other arrives whole, or is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "record_codec.hpp"

namespace cudeploy {
namespace {

std::vector<FileRecord> full() {
  FileRecord file;
  file.path = "a/b.so\xff";
  file.size = ~0ull;
  file.format = Format::elf;
  file.machine = "x86_64";
  file.soname = "";
  file.needed = {"libc.so.6", ""};
  file.delayed = {""};
  file.rpath = {"$ORIGIN"};
  file.nodelete = true;
  file.version_needs = {{"libc.so.6", "GLIBC_2.17", {"puts", "exit"}}};
  file.vendor = Vendor{Vendor::Role::driver, "CUDA driver", "exports", {{"libx.so.1", true, "all"}}};
  RuntimeCopy copy;
  copy.kind = RuntimeCopyKind::unified;
  copy.api_level = 13000;
  copy.candidates = {"13.0"};
  copy.generation = "13_1";
  file.runtime_copies = {copy, {}};
  Image image;
  image.offset = 7;
  image.group = 3;
  image.kind = ImageKind::ptx;
  image.arch = 90;
  image.variant = "a";
  image.compression = Compression::zstd;
  image.arch_specific = true;
  image.kernel_count = 1;
  image.kernels = {{"k", 32, 1024}};
  FatBinary fat_binary;
  fat_binary.section = ".nv_fatbin";
  fat_binary.images = {image, {}};
  file.fat_binaries = {fat_binary, {}};
  file.exported_stubs = {{"_Z1kv", true}};
  file.problems = {{12, "x: expected 1, found 2"}, {std::nullopt, ""}};
  file.unreadable = true;
  return {file, FileRecord{}};
}

std::string text_of(const std::vector<FileRecord>& files) {
  std::string text;
  for (const FileRecord& file : files) {
    text += to_json(file).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  return text;
}

TEST(RecordCodec, BringsBackWhatWasSent) {
  EXPECT_EQ(text_of(decode(encode(full()))), text_of(full()));
  EXPECT_EQ(decode(encode(full())).at(0).path, "a/b.so\xff") << "names are bytes";
  EXPECT_TRUE(decode(encode(std::vector<FileRecord>{})).empty());
}

TEST(RecordCodec, BringsBackAWholeRecord) {
  InspectRecord record{full(),
                       {{BundleRecord::Kind::package,
                         "p\xff",
                         {"p!/a", "p!/b"},
                         {{"p!/l", "a"}, {"p!/m", ""}},
                         {{"c", {"/x", ""}}},
                         {{"p\xff", Unpacking::anywhere}, {"p\xff!/q", Unpacking::deb}}},
                        {}}};
  const auto text = [](const InspectRecord& of) {
    return to_json(of).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  const auto bytes = encode(record);
  EXPECT_EQ(text(decode_inspect_record(bytes)), text(record));
  EXPECT_EQ(decode_inspect_record(bytes).bundles.at(0).name, "p\xff");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode_inspect_record(std::span(bytes).first(size)), std::runtime_error) << size;
}

TEST(RecordCodec, RefusesWhatIsCutOrLeftOver) {
  auto bytes = encode(full());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decode(std::span(bytes).first(size)), std::runtime_error) << size;
  }
  bytes.push_back(0);
  EXPECT_THROW(decode(bytes), std::runtime_error);
}

TEST(RecordCodec, SurvivesAnyByte) {
  const auto good = encode(full());
  std::size_t refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value : {0, 1, 0x7f, 0xff}) {
      auto bytes = good;
      bytes[at] = static_cast<std::uint8_t>(value);
      try {
        text_of(decode(bytes));  // every kind that is let through has a name
      } catch (const std::runtime_error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace cudeploy
