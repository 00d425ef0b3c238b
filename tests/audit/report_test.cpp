// What people and programs read: the lines that others search for, nothing that a terminal would obey.
#include "report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cudeploy {
namespace {

Image image(ImageKind kind, std::uint32_t arch) {
  Image out;
  out.kind = kind;
  out.arch = arch;
  if (kind == ImageKind::ptx) out.ptx_version = "8.0";
  out.kernel_count = 1;
  return out;
}

FileRecord library() {
  FileRecord file;
  file.path = "lib/libadd.so";
  file.size = 1536;
  file.format = Format::elf;
  file.machine = "x86_64";
  file.type = "shared";
  file.soname = "libadd.so.1";
  file.needed = {"libc.so.6"};
  file.runpath = {"$ORIGIN", "/opt/x"};
  file.runtime_copies = {{RuntimeCopyKind::private_static, "13.0", 13000, {}, "callback table", std::nullopt}};
  for (int i = 0; i < 3; ++i)
    file.fat_binaries.push_back({0, 100, ".nv_fatbin", true, {image(ImageKind::cubin, 80), image(ImageKind::ptx, 80)}});
  return file;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(InspectText, OneFactPerLine) {
  InspectRecord record;
  record.files = {library()};
  std::string text = inspect_text(record, ReadOptions(), false);
  EXPECT_TRUE(has_line(text, "lib/libadd.so: ELF shared x86_64, 1.5 KiB")) << text;
  EXPECT_TRUE(has_line(text, "  soname        libadd.so.1"));
  EXPECT_TRUE(has_line(text, "  runpath       $ORIGIN:/opt/x"));
  EXPECT_TRUE(has_line(text, "  runtime       private-static 13.0 (callback table)"));
  EXPECT_TRUE(has_line(text, "  device code   .nv_fatbin: 3 fat binaries, 6 images, 300 B"));
  EXPECT_TRUE(has_line(text, "                  sm_80 ×3  PTX 8.0 compute_80 ×3"));
  EXPECT_NE(text.find("native 8.0 8.6"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(inspect_text(record, ReadOptions(), true).find('\x1b'), std::string::npos);
}

TEST(InspectText, SaysWhatEachArchitectureCosts) {
  InspectRecord record;
  FileRecord file = library();
  file.size = 10000;
  file.fat_binaries.resize(1);
  file.fat_binaries[0].size = 4000;
  file.fat_binaries[0].images = {image(ImageKind::cubin, 80), image(ImageKind::cubin, 90), image(ImageKind::cubin, 90)};
  for (std::size_t i = 0; i < 3; ++i) {
    Image& each = file.fat_binaries[0].images[i];
    each.offset = 16 + 1100 * i;
    each.header_size = 64;
    each.stored_size = 1024;
  }
  record.files = {file};
  EXPECT_TRUE(has_line(inspect_text(record, ReadOptions(), false),
                       "  sizes         sm_80: 1.0 KiB, 10 % · sm_90: 2.0 KiB, 20 %"));
  // Compressed together: shares of what the container takes, by plain size.
  for (Image& each : record.files[0].fat_binaries[0].images) {
    each.stored_size.reset();
    each.group = 16;
    each.size = each.arch == 80u ? 6000 : 1000;
  }
  EXPECT_TRUE(has_line(inspect_text(record, ReadOptions(), false),
                       "  sizes         sm_80: about 2.9 KiB, 30 % · sm_90: about 1000 B, 10 %"));
  // What an entry or a container claims of the next one's bytes, or beyond the file, does not count.
  FileRecord liar = file;
  liar.fat_binaries[0].images[0].stored_size = ~std::uint64_t{0};
  EXPECT_TRUE(has_line(inspect_text({{liar}, {}}, ReadOptions(), false),
                       "  sizes         sm_80: 1.0 KiB, 10 % · sm_90: 2.0 KiB, 20 %"))
      << inspect_text({{liar}, {}}, ReadOptions(), false);
  liar.fat_binaries[0].size = ~std::uint64_t{0};
  for (Image& each : liar.fat_binaries[0].images) each.stored_size = ~std::uint64_t{0};
  liar.fat_binaries.push_back(liar.fat_binaries[0]);
  liar.fat_binaries[1].offset = 4000;
  liar.fat_binaries[1].images = {image(ImageKind::cubin, 90)};
  liar.fat_binaries[1].images[0].offset = 4016;
  liar.fat_binaries[1].images[0].header_size = 64;
  liar.fat_binaries[1].images[0].stored_size = ~std::uint64_t{0};
  EXPECT_TRUE(has_line(inspect_text({{liar}, {}}, ReadOptions(), false),
                       "  sizes         sm_80: 1.0 KiB, 10 % · sm_90: 8.5 KiB, 87 %"))
      << inspect_text({{liar}, {}}, ReadOptions(), false);
  // One architecture costs what the device code costs.
  record.files[0].fat_binaries[0].images.resize(1);
  EXPECT_EQ(inspect_text(record, ReadOptions(), false).find("  sizes"), std::string::npos);
}

TEST(InspectText, SaysTheOldestGpuBesideTheDriver) {
  InspectRecord record;
  record.files = {library()};
  EXPECT_TRUE(has_line(inspect_text(record, ReadOptions(), false), "  oldest gpu    8.0 (Ampere), driver 580.65.06"))
      << inspect_text(record, ReadOptions(), false);
  record.files[0].format = Format::pe;
  EXPECT_TRUE(has_line(inspect_text(record, ReadOptions(), false), "  oldest gpu    8.0 (Ampere), driver 580"))
      << "Windows has numbers of its own";
}

TEST(InspectText, SaysWhyThatDriver) {
  InspectRecord record;
  record.files = {library()};
  const std::string text = inspect_text(record, ReadOptions(), false);
  EXPECT_TRUE(has_line(text, "                       the runtime was made by CUDA 13 (minor-version compatibility)"))
      << text;
}

TEST(InspectText, SaysWhatIsOpenedByNameAndWhetherItShips) {
  InspectRecord record;
  record.files = {library()};
  record.files[0].vendor = Vendor{Vendor::Role::toolkit, "NVRTC", "version node", {{"libb.so.1", true, "all"}}};
  record.bundles = {{BundleRecord::Kind::files, "", {record.files[0].path}, {}}};
  EXPECT_TRUE(
      has_line(inspect_text(record, ReadOptions(), false), "  opens by name libb.so.1 for all (not among these files)"))
      << inspect_text(record, ReadOptions(), false);
  record.bundles[0].links = {{"x/libb.so.1", "libb.so.1.2"}};
  EXPECT_TRUE(has_line(inspect_text(record, ReadOptions(), false), "  opens by name libb.so.1 for all (there)"));
}

TEST(InspectText, ListsKernelsWithWhatIsKnownOfThem) {
  InspectRecord record;
  record.files = {library()};
  std::vector<Image>& images = record.files[0].fat_binaries[1].images;
  images[0].offset = 0x40;
  images[0].kernels = {{"_Z3addPf", 32, 1024}, {"none\n", 4, 0}};
  images[1].offset = 0x80;
  images[1].kernels = {{"_Z3addPf", {}, {}}};
  EXPECT_EQ(inspect_text(record, ReadOptions(), false).find("_Z3addPf"), std::string::npos) << "not asked for";
  ReadOptions with_kernels;
  with_kernels.kernels = true;
  const std::string text = inspect_text(record, with_kernels, false);
  EXPECT_NE(text.find("\n  kernels       sm_80 at 0x40\n"
                      "                  _Z3addPf  32 registers  1024 B shared\n"
                      "                  none\\x0a  4 registers  0 B shared\n"
                      "  kernels       PTX 8.0 compute_80 at 0x80\n"
                      "                  _Z3addPf\n"),
            std::string::npos)
      << text;
}

TEST(InspectText, SaysWhichKernelStubsOthersSee) {
  InspectRecord record;
  record.files = {library()};
  ReadOptions with_kernels;
  with_kernels.kernels = true;
  EXPECT_EQ(inspect_text(record, with_kernels, false).find("kernel stubs"), std::string::npos) << "not looked for";
  record.files[0].exported_stubs.emplace();
  EXPECT_EQ(inspect_text(record, with_kernels, false).find("kernel stubs"), std::string::npos) << "none";
  record.files[0].exported_stubs = {{"plain", false}};
  EXPECT_TRUE(has_line(inspect_text(record, ReadOptions(), false), "  kernel stubs  1 stub visible to other objects"));
  record.files[0].exported_stubs = {{"plain", false}, {"scale\n", true}};
  const std::string counted = inspect_text(record, ReadOptions(), false);
  EXPECT_TRUE(has_line(counted, "  kernel stubs  2 stubs visible to other objects")) << counted;
  EXPECT_EQ(counted.find("scale"), std::string::npos) << "names are for --kernels";
  const std::string named = inspect_text(record, with_kernels, false);
  EXPECT_TRUE(has_line(named, "                  plain")) << named;
  EXPECT_TRUE(has_line(named, "                  scale\\x0a (weak)")) << named;
}

TEST(InspectText, AHostileNameIsShownNotObeyed) {
  InspectRecord record;
  record.files = {library()};
  record.files[0].path = "a\x1b[2J\n\xff\xc2\x9b.so";
  record.files[0].problems = {{std::uint64_t{16}, "name \x07"}};
  std::string text = inspect_text(record, ReadOptions(), false);
  EXPECT_TRUE(has_line(text, "a\\x1b[2J\\x0a\\xff\\xc2\\x9b.so: ELF shared x86_64, 1.5 KiB")) << text;
  EXPECT_TRUE(has_line(text, "  problem       at 0x10: name \\x07"));
}

TEST(Printable, KeepsWhatIsText) {
  EXPECT_EQ(printable("größe × 漢字 😀"), "größe × 漢字 😀");
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82"),
            "\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xe2\\x82");
  EXPECT_EQ(printable(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
}

TEST(InspectJson, IsAsciiSafeAndTheSchemaComesFirst) {
  InspectRecord record;
  record.files = {library()};
  record.files[0].path = "caf\xe9.so";
  std::string text = inspect_json(record);
  auto json = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(json.begin().key(), "schema");
  EXPECT_EQ(json.at("files").at(0).at("path"), "caf\xef\xbf\xbd.so");
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(text, inspect_json(record));
}

TEST(InspectJson, SaysWhatEachImageCostsAndWhichGpusAreServed) {
  InspectRecord record;
  record.files = {library()};
  record.files[0].fat_binaries = {{16, 1000, ".nv_fatbin", true, {image(ImageKind::cubin, 80)}}};
  Image& only = record.files[0].fat_binaries[0].images[0];
  only.offset = 32;
  only.header_size = 64;
  only.stored_size = 900;
  record.bundles = {{BundleRecord::Kind::files, "", {record.files[0].path}, {}}};
  const auto file = nlohmann::json::parse(inspect_json(record)).at("files").at(0);
  EXPECT_EQ(file.at("sizes").dump(), R"([{"bytes":900,"image":"sm_80","shared":false}])");
  const auto& first = file.at("gpus").at(0);
  EXPECT_EQ(first.at("gpu"), "8.0");
  EXPECT_EQ(first.at("code"), "native");
  EXPECT_EQ(first.at("driver"), "580.65.06");
  EXPECT_EQ(first.at("driver_complete"), true);
  EXPECT_EQ(first.at("driver_reasons").at(0), "device code made by CUDA 13 (minor-version compatibility)");
  // A summary is no fact: who reads the record computes it again.
  EXPECT_EQ(inspect_json(inspect_record_from_json(nlohmann::ordered_json::parse(inspect_json(record)))),
            inspect_json(record));
}

class AuditReport : public testing::Test {
 protected:
  AuditReport() {
    record.files = {library()};
    FileRecord gone;
    gone.path = "gone";
    gone.unreadable = true;
    gone.problems = {{std::nullopt, "cannot be read: no such file or directory"}};
    record.files.push_back(gone);
    policy.gpus = {{7, 5}, {8, 0}, {9, 0}};
    bundle.files = {&record.files[0]};
    judgement = judge(std::span(&bundle, 1), policy, Stage::package, std::nullopt);
  }
  InspectRecord record;
  Policy policy;
  Bundle bundle;
  Judgement judgement;
};

TEST_F(AuditReport, AFindingIsALineAndAHint) {
  std::string text = audit_text({record, policy, Stage::package, judgement}, false);
  const Rule* rule = find_rule("gpu-not-covered");
  ASSERT_NE(rule, nullptr);
  EXPECT_NE(text.find("lib/libadd.so: error: "), std::string::npos) << text;
  EXPECT_NE(text.find("[" + std::string(rule->id) + " gpu-not-covered]\n  hint: "), std::string::npos) << text;
}

TEST_F(AuditReport, TheTableShowsEachWantedGpu) {
  std::string text = audit_text({record, policy, Stage::package, judgement}, false);
  EXPECT_TRUE(has_line(text, "  GPU            7.5     8.0        9.0")) << text;
  EXPECT_TRUE(has_line(text, "  lib/libadd.so  none    native     JIT")) << text;
  EXPECT_TRUE(has_line(text, "  driver         -       580.65.06  580.65.06")) << text;
}

TEST_F(AuditReport, ACleanLinkDoesNotExplainItsWords) {
  const std::string legend = "coverage (native: runs as it is";
  EXPECT_NE(audit_text({record, policy, Stage::package, judgement}, false).find(legend), std::string::npos);
  EXPECT_NE(audit_text({record, policy, Stage::link, judgement}, false).find(legend), std::string::npos);
  judgement.findings.clear();
  EXPECT_NE(audit_text({record, policy, Stage::package, judgement}, false).find(legend), std::string::npos);
  const std::string text = audit_text({record, policy, Stage::link, judgement}, false);
  EXPECT_TRUE(text.starts_with("coverage\n")) << text;
  EXPECT_TRUE(has_line(text, "  GPU            7.5     8.0        9.0")) << text;
}

TEST_F(AuditReport, ALongPathHasALineOfItsOwn) {
  record.files[0].path = std::string(60, 'x');
  std::string text = audit_text({record, policy, Stage::package, judgement}, false);
  EXPECT_TRUE(has_line(text, "  " + std::string(60, 'x') + "\n" + std::string(44, ' ') + "none    native     JIT"))
      << text;
}

TEST_F(AuditReport, PartOfTheCodeIsNotNothing) {
  record.files[0].fat_binaries[1].images = {image(ImageKind::cubin, 90)};
  std::string text = audit_text({record, policy, Stage::package, judgement}, false);
  EXPECT_NE(text.find("  lib/libadd.so  none    part"), std::string::npos) << text;
}

TEST_F(AuditReport, CountsAddUp) {
  auto json = nlohmann::json::parse(audit_json({record, policy, Stage::package, judgement}));
  const auto& counts = json.at("counts");
  EXPECT_EQ(counts.at("files"), 1);
  EXPECT_EQ(counts.at("rules"), all_rules().size());
  EXPECT_EQ(counts.at("clean").get<int>() + counts.at("flagged").get<int>() + counts.at("not_applicable").get<int>(),
            static_cast<int>(json.at("verdicts").size()));
  EXPECT_EQ(json.at("verdicts").size(), all_rules().size());
  EXPECT_EQ(json.at("unreadable").at(0).at("path"), "gone");
  EXPECT_EQ(json.at("coverage").size(), 3u);
  EXPECT_EQ(json.at("coverage").at(0).at("code"), "none");
  EXPECT_EQ(json.at("coverage").at(2).at("code"), "jit");
}

/// Words alone: where a line breaks is the page's matter.
std::string words(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c != ' ' && c != '\n') {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

TEST(RuleText, ShowsTheWholeRule) {
  ASSERT_FALSE(all_rules().empty());
  for (const Rule& rule : all_rules()) {
    const std::string text = words(rule_text(rule, false));
    for (std::string_view part : {rule.id, rule.name, rule.summary, rule.why, rule.fix, rule.source})
      EXPECT_NE(text.find(words(part)), std::string::npos) << rule.id << ": " << part;
    EXPECT_NE(rule_list().find(rule.name), std::string::npos);
  }
}

}  // namespace
}  // namespace cudeploy
