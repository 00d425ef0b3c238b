// What is written must come back the same, and what somebody else wrote must not be believed unread.
#include "inspect_record.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace cudeploy {
namespace {

using Json = nlohmann::ordered_json;

/// Every field differs from its default, so that one that is not carried is seen.
FileRecord full_record() {
  FileRecord file;
  file.path = "a.deb!/data.tar.xz!/usr/lib/x.so";
  file.size = 0xffffffffffffffff;
  file.format = Format::elf;
  file.machine = "x86_64";
  file.type = "shared";
  file.soname = "x.so";
  file.needed = {"libcudart.so.13", "libc.so.6"};
  file.delayed = {"libc.so.6"};
  file.rpath = {"$ORIGIN"};
  file.runpath = {"$ORIGIN/../lib", "/opt"};
  file.nodeflib = file.nodelete = file.symbolic = true;
  file.interpreter = "/lib64/ld-linux-x86-64.so.2";
  file.version_definitions = {"X_1"};
  file.version_needs = {{"libc.so.6", "GLIBC_2.34", {"dlopen"}}};
  file.vendor = Vendor{Vendor::Role::driver_stub, "CUDA driver", "exports", {{"libx.so.1", true, "all"}}};
  file.runtime_copies = {
      {RuntimeCopyKind::unified, "13.0", 13000, {"13.0", "13.1"}, "note at 0x10", "13_1"},
      {RuntimeCopyKind::stand_in, std::nullopt, std::nullopt, {}, "few exports", std::nullopt},
  };
  Image image;
  image.offset = 96;
  image.group = 64;
  image.kind = ImageKind::tile_ir;
  image.entry_kind = 0x80;
  image.arch = 120;
  image.variant = "f";
  image.ptx_version = "9.0";
  image.compression = Compression::zstd;
  image.stored_size = 1000;
  image.size = 4000;
  image.toolkit = "13.0.88";
  image.flags = 0x8000000000000001;
  image.header_size = 80;
  image.name = "add.cu";
  image.options = "-g";
  image.arch_specific = image.debug = image.obfuscated = true;
  image.kernel_count = 1;
  image.kernels = {{"_Z3addPfS_", 32, 48}};
  file.fat_binaries = {{80, 5000, ".nv_fatbin", false, {image, Image()}}};
  file.exported_stubs = {{{"_Z3addPfS_", true}}};
  file.problems = {{16, "flags: expected 0, found 1"}, {std::nullopt, "truncated"}};
  file.unreadable = true;
  return file;
}

TEST(InspectRecord, EachFieldComesBack) {
  Json written = to_json(full_record());
  Json again = to_json(file_record_from_json(Json::parse(written.dump())));
  EXPECT_EQ(again, written);
  FileRecord file = file_record_from_json(written);
  EXPECT_EQ(file.size, 0xffffffffffffffff);
  EXPECT_EQ(file.fat_binaries.at(0).images.at(0).flags, 0x8000000000000001);
  EXPECT_EQ(file.fat_binaries.at(0).images.at(0).kernels.at(0).registers, 32);
  EXPECT_EQ(file.runtime_copies.at(0).generation, "13_1");
  EXPECT_EQ(file.exported_stubs->at(0).weak, true);
  EXPECT_EQ(file.vendor->role, Vendor::Role::driver_stub);
  EXPECT_TRUE(file.unreadable);
}

TEST(InspectRecord, NoFieldIsLeftAtItsDefault) {
  // A field that to_json forgets would not be missed by a comparison of JSON with JSON.
  Json full = to_json(full_record());
  Json empty = to_json(FileRecord());
  for (const auto& [key, value] : empty.items()) EXPECT_NE(value, full.at(key)) << key;
  const Json& images = full.at("fat_binaries").at(0).at("images");
  for (const auto& [key, value] : images.at(1).items()) EXPECT_NE(value, images.at(0).at(key)) << key;
}

TEST(InspectRecord, ThePathComesFirst) { EXPECT_EQ(to_json(FileRecord()).begin().key(), "path"); }

TEST(InspectRecord, BundlesAndLinksComeBack) {
  InspectRecord record;
  record.files = {full_record()};
  record.bundles = {{BundleRecord::Kind::package,
                     "a.deb",
                     {record.files[0].path},
                     {{"a.deb!/x.so", "x.so.1"}},
                     {{"a.deb!/etc/ld.so.conf", {"/opt/x", "/opt/y"}}},
                     {{"a.deb", Unpacking::anywhere}, {"a.deb!/data.tar", Unpacking::deb}}}};
  InspectRecord again = inspect_record_from_json(to_json(record));
  ASSERT_EQ(again.bundles.size(), 1u);
  EXPECT_EQ(again.bundles[0].kind, BundleRecord::Kind::package);
  EXPECT_EQ(again.bundles[0].name, "a.deb");
  EXPECT_EQ(again.bundles[0].files, record.bundles[0].files);
  EXPECT_EQ(again.bundles[0].links, record.bundles[0].links);
  EXPECT_EQ(again.bundles[0].loader_folders, record.bundles[0].loader_folders);
  EXPECT_EQ(again.bundles[0].packages, record.bundles[0].packages);
  // Where it does not say so, the names do.
  Json older = to_json(record);
  older["bundles"][0].erase("packages");
  EXPECT_EQ(inspect_record_from_json(older).bundles[0].packages,
            (std::map<std::string, Unpacking>{{"a.deb", Unpacking::anywhere}, {"a.deb!/data.tar.xz", Unpacking::deb}}));
}

TEST(InspectRecord, WithoutBundlesThePathsTell) {
  InspectRecord record;
  for (const char* path : {"a.whl!/x.so", "a.whl!/y.so", "b.so", "lib.a!/x.o"}) {
    record.files.emplace_back();
    record.files.back().path = path;
  }
  Json json = to_json(record);
  json.erase("bundles");
  InspectRecord again = inspect_record_from_json(json);
  ASSERT_EQ(again.bundles.size(), 2u);
  EXPECT_EQ(again.bundles[0].name, "");
  EXPECT_EQ(again.bundles[0].files, (std::vector<std::string>{"b.so", "lib.a!/x.o"}));
  EXPECT_EQ(again.bundles[1].name, "a.whl");
  EXPECT_EQ(again.bundles[1].files, (std::vector<std::string>{"a.whl!/x.so", "a.whl!/y.so"}));
}

/// What reading `change(record)` says.
template <typename Change>
std::string complaint(Change change) {
  InspectRecord record;
  record.files = {full_record()};
  Json json = to_json(record);
  change(json);
  try {
    inspect_record_from_json(json);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(InspectRecord, AWrongFieldIsNamedWithWhatWasExpectedAndFound) {
  auto image = [](Json& json) -> Json& { return json["files"][0]["fat_binaries"][0]["images"][0]; };
  EXPECT_EQ(complaint([](Json&) {}), "");
  EXPECT_EQ(complaint([&](Json& json) { image(json)["arch"] = "90"; }),
            "field files[0].fat_binaries[0].images[0].arch: expected an integer from 0 to 4294967295, found \"90\"");
  EXPECT_EQ(complaint([&](Json& json) { image(json)["arch"] = -1; }),
            "field files[0].fat_binaries[0].images[0].arch: expected an integer from 0 to 4294967295, found -1");
  EXPECT_EQ(
      complaint([&](Json& json) { image(json)["arch"] = 4294967296; }),
      "field files[0].fat_binaries[0].images[0].arch: expected an integer from 0 to 4294967295, found 4294967296");
  EXPECT_EQ(complaint([&](Json& json) { image(json)["variant"] = "x"; }),
            "field files[0].fat_binaries[0].images[0].variant: expected \"\", \"a\" or \"f\", found \"x\"");
  EXPECT_EQ(complaint([&](Json& json) { image(json)["kind"] = "sass"; }),
            "field files[0].fat_binaries[0].images[0].kind: expected one of cubin, ptx, lto-ir, tile-ir, other, found "
            "\"sass\"");
  EXPECT_EQ(complaint([](Json& json) { json["files"][0].erase("needed"); }),
            "field files[0].needed: expected, but it is not there");
  EXPECT_EQ(complaint([](Json& json) { json["files"][0]["needed"] = Json::object(); }),
            "field files[0].needed: expected an array, found object");
  EXPECT_EQ(complaint([](Json& json) { json["files"] = Json::array({nullptr}); }),
            "field files[0]: expected an object, found null");
  EXPECT_EQ(complaint([](Json& json) { json["schema"] = "cudeploy/inspect/2"; }),
            "field schema: expected \"cudeploy/inspect/1\", found \"cudeploy/inspect/2\"");
  EXPECT_EQ(complaint([](Json& json) {
              json["bundles"][0] = {{"kind", "files"}, {"name", ""}, {"files", {"nowhere"}}};
            }),
            "field bundles[0].files[0]: expected the path of a file of this record, found \"nowhere\"");
}

}  // namespace
}  // namespace cudeploy
