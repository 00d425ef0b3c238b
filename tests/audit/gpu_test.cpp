// The compatibility rules and driver floors, row by row, as NVIDIA's documents and experiments say.
#include "gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "short_record.hpp"

namespace cudeploy {
namespace {

FatBinary container(std::initializer_list<const char*> images) {
  FatBinary result;
  for (const char* image : images) {
    result.images.push_back(short_image(image));
    result.images.back().offset = 16;  // behind the header
  }
  return result;
}

Fit fit_of(std::initializer_list<const char*> images, GpuTarget gpu) { return fit(container(images), gpu).fit; }

/// The GPUs that an image serves natively or by JIT, "8.0 8.6 9.0*" with * for JIT.
std::string served(const char* image) {
  std::string text;
  const FatBinary one = container({image});
  for (const Gpu& gpu : known_gpus()) {
    const Fit found = fit(one, gpu.target).fit;
    if (found == Fit::none) continue;
    text += (text.empty() ? "" : " ") + to_string(gpu.target) + (found == Fit::jit ? "*" : "");
  }
  return text;
}

TEST(Gpu, TableIsInOrderAndComplete) {
  GpuTarget before{};
  for (const Gpu& gpu : known_gpus()) {
    EXPECT_LT(before, gpu.target);
    before = gpu.target;
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_FALSE(gpu.source.empty());
    EXPECT_FALSE(gpu.first_toolkit.empty());
    EXPECT_EQ(find_gpu(gpu.target), &gpu);
    if (!gpu.first_driver.empty()) {
      EXPECT_TRUE(driver_version(gpu.first_driver)) << gpu.first_driver;
    }
  }
  EXPECT_EQ(find_gpu({9, 9}), nullptr);
  EXPECT_EQ(describe({9, 0}), "9.0 (Hopper)");
  EXPECT_EQ(describe({11, 0}), "11.0 (Blackwell, Tegra)");
  EXPECT_EQ(describe({14, 0}), "14.0");
}

/// One container for each value of each field that decides, each twice.
FileRecord file_of_all_kinds() {
  FileRecord file;
  const auto add = [&](const std::function<void(FatBinary&, Image&)>& change) {
    for (int i = 0; i < 2; ++i) {
      FatBinary one = container({"sm_90"});
      change(one, one.images.front());
      one.offset = 64 * file.fat_binaries.size();
      file.fat_binaries.push_back(std::move(one));
    }
  };
  add([](FatBinary&, Image&) {});
  add([](FatBinary& one, Image&) { one.loadable = false; });
  add([](FatBinary& one, Image&) { one.images.clear(); });
  add([](FatBinary& one, Image& image) { one.images.push_back(image); });
  add([](FatBinary&, Image& image) { image.kind = ImageKind::tile_ir; });
  add([](FatBinary&, Image& image) { image.kind = ImageKind::other; });
  add([](FatBinary&, Image& image) { image.kind = ImageKind::other, image.entry_kind = 0x40; });
  add([](FatBinary&, Image& image) { image.arch.reset(); });
  add([](FatBinary&, Image& image) { image.arch = 80; });
  add([](FatBinary&, Image& image) { image.variant = "a"; });
  add([](FatBinary&, Image& image) { image.kind = ImageKind::ptx, image.ptx_version = "9.0"; });
  add([](FatBinary&, Image& image) { image.kind = ImageKind::ptx, image.ptx_version = "8.7"; });
  add([](FatBinary&, Image& image) { image.compression = Compression::zstd; });
  add([](FatBinary&, Image& image) { image.toolkit = "12.4"; });
  add([](FatBinary&, Image& image) { image.group = 64; });
  add([](FatBinary&, Image& image) { image.arch_specific = true; });
  add([](FatBinary&, Image& image) { image.kernel_count = 0; });
  return file;
}

TEST(Gpu, OneOfEachKindOfFatBinaryDecidesAsAllDo) {
  const FileRecord file = file_of_all_kinds();
  EXPECT_EQ(one_of_each_kind(file).fat_binaries.size(), file.fat_binaries.size() / 2);
  // Each kind alone, so that none hides behind a worse one.
  for (std::size_t kind = 0; kind < file.fat_binaries.size(); kind += 2) {
    FileRecord alike;
    alike.format = Format::pe;
    alike.fat_binaries.assign(3, file.fat_binaries[kind]);
    alike.fat_binaries.back().images.insert(alike.fat_binaries.back().images.end(), 2, short_image("compute_50"));
    const FileRecord few = one_of_each_kind(alike);
    ASSERT_EQ(few.fat_binaries.size(), 2U);
    for (const Gpu& gpu : known_gpus()) {
      EXPECT_EQ(coverage(JudgedCode(few), gpu.target).worst, coverage(JudgedCode(alike), gpu.target).worst) << kind;
      const auto expected = driver_floor(alike, gpu.target), found = driver_floor(few, gpu.target);
      ASSERT_EQ(found.has_value(), expected.has_value()) << kind;
      if (!found) continue;
      EXPECT_EQ(found->text(), expected->text()) << kind;
      ASSERT_EQ(found->parts.size(), expected->parts.size()) << kind;
      for (std::size_t i = 0; i < found->parts.size(); ++i)
        EXPECT_EQ(found->parts[i].reason, expected->parts[i].reason) << kind;
    }
  }
}

TEST(Gpu, ThorHasTwoNames) {
  EXPECT_EQ(gpu_of_arch(101), (GpuTarget{11, 0}));
  EXPECT_EQ(gpu_of_arch(110), (GpuTarget{11, 0}));
  EXPECT_EQ(gpu_of_arch(103), (GpuTarget{10, 3}));
  EXPECT_EQ(served("sm_101"), "11.0");
  EXPECT_EQ(served("compute_101"), "11.0* 12.0* 12.1*");
}

TEST(Gpu, CubinRunsOnItsMajorFromItsMinorOn) {
  EXPECT_EQ(served("sm_80"), "8.0 8.6 8.9");
  EXPECT_EQ(served("sm_86"), "8.6 8.9");
  EXPECT_EQ(served("sm_89"), "8.9");
  EXPECT_EQ(served("sm_75"), "7.5");
  EXPECT_EQ(served("sm_70"), "7.0 7.5");
  EXPECT_EQ(served("sm_52"), "5.2");
  EXPECT_EQ(served("sm_100"), "10.0 10.3 10.7");
  EXPECT_EQ(served("sm_120"), "12.0 12.1");
}

TEST(Gpu, TegraHasNoBinaryCompatibility) {
  EXPECT_EQ(served("sm_87"), "8.7");
  EXPECT_EQ(served("sm_72"), "7.2");
  EXPECT_EQ(served("sm_53"), "5.3");
  EXPECT_EQ(served("sm_110"), "11.0");
}

TEST(Gpu, ArchitectureSpecificCodeRunsOnItsOwnGpuOnly) {
  EXPECT_EQ(served("sm_90a"), "9.0");
  EXPECT_EQ(served("sm_100a"), "10.0");
  EXPECT_EQ(served("sm_120a"), "12.0");
  EXPECT_EQ(served("compute_90a"), "9.0*");
  EXPECT_EQ(served("compute_100a"), "10.0*");
}

TEST(Gpu, FamilyCodeRunsOnNewerMembersOfItsFamily) {
  EXPECT_EQ(served("sm_100f"), "10.0 10.3 10.7");
  EXPECT_EQ(served("sm_103f"), "10.3 10.7");
  EXPECT_EQ(served("sm_120f"), "12.0 12.1");
  EXPECT_EQ(served("sm_110f"), "11.0");
  EXPECT_EQ(served("compute_100f"), "10.0* 10.3* 10.7*");
  EXPECT_EQ(served("compute_121f"), "12.1*");
}

TEST(Gpu, PtxServesWhateverIsNewer) {
  EXPECT_EQ(served("compute_90"), "9.0* 10.0* 10.3* 10.7* 11.0* 12.0* 12.1*");
  EXPECT_EQ(served("compute_120"), "12.0* 12.1*");
  EXPECT_EQ(fit_of({"compute_52"}, {15, 0}), Fit::jit);
}

TEST(Gpu, WhatIsNotLinkedIsNeverLoaded) {
  EXPECT_EQ(served("lto_90"), "");
  EXPECT_EQ(served("reloc_90"), "");
  EXPECT_EQ(served("unknown_90"), "");
  EXPECT_EQ(served("sm_?"), "");
  FatBinary relocatable = container({"sm_90", "compute_90"});
  relocatable.loadable = false;
  EXPECT_EQ(fit(relocatable, {9, 0}).fit, Fit::none);
  EXPECT_FALSE(is_judged(relocatable));
}

TEST(Gpu, TileCubinsRunOnTheirOwnGpuAndTileIrIsCompiledForTileTargets) {
  EXPECT_EQ(fit_of({"sm_120", "tile_120"}, {12, 0}), Fit::native);
  EXPECT_EQ(fit_of({"sm_120"}, {12, 1}), Fit::native);
  EXPECT_EQ(fit_of({"sm_120", "tile_120"}, {12, 1}), Fit::jit);
  EXPECT_EQ(fit_of({"sm_100", "tile_120"}, {10, 3}), Fit::none);
  FatBinary without_ir = container({"sm_120"});  // only the cubin's own words tell it from an ordinary one
  without_ir.images[0].arch_specific = true;
  EXPECT_EQ(fit(without_ir, {12, 0}).fit, Fit::native);
  EXPECT_EQ(fit(without_ir, {12, 1}).fit, Fit::none);
  EXPECT_EQ(served("tile_80"), "8.0* 8.6* 8.7* 8.8* 8.9* 10.0* 10.3* 11.0* 12.0* 12.1*");
}

TEST(Gpu, BestImageIsTheOneThatServes) {
  const FatBinary all = container({"compute_80", "sm_80", "sm_86", "sm_90", "sm_90a", "compute_90", "compute_90a"});
  EXPECT_EQ(image_name(*fit(all, {8, 9}).image), "sm_86");
  EXPECT_EQ(image_name(*fit(all, {8, 0}).image), "sm_80");
  EXPECT_EQ(image_name(*fit(all, {9, 0}).image), "sm_90a");
  EXPECT_EQ(image_name(*fit(all, {8, 7}).image), "compute_80");
  EXPECT_EQ(image_name(*fit(all, {12, 0}).image), "compute_90");
  EXPECT_EQ(fit(all, {7, 5}).image, nullptr);
}

// Holes that common lists of architectures have, computed by hand from the documents.
TEST(Gpu, KnownHolesOfCommonLists) {
  const FatBinary rapids =
      container({"sm_75", "sm_80", "sm_86", "sm_90a", "sm_100f", "sm_120a", "sm_120", "compute_120"});
  EXPECT_EQ(fit(rapids, {11, 0}).fit, Fit::none);
  EXPECT_EQ(fit(rapids, {8, 7}).fit, Fit::none);
  EXPECT_EQ(fit(rapids, {8, 9}).fit, Fit::native);
  EXPECT_EQ(fit(rapids, {10, 3}).fit, Fit::native);
  EXPECT_EQ(fit(rapids, {12, 1}).fit, Fit::native);
  const FatBinary all_major =
      container({"sm_50", "sm_60", "sm_70", "sm_80", "sm_90", "sm_100", "sm_120", "compute_120"});
  EXPECT_EQ(fit(all_major, {11, 0}).fit, Fit::none);
}

TEST(Coverage, IsTheWorstOverFatBinariesWithKernels) {
  FileRecord file;
  file.fat_binaries = {container({"sm_90", "compute_90"}), container({"compute_80"}), container({"sm_75 kernels=0"}),
                       container({})};
  const JudgedCode code(file);
  Coverage found = coverage(code, {9, 0});
  EXPECT_EQ(found.worst, Fit::jit);
  EXPECT_EQ(found.native, 1u);
  EXPECT_EQ(found.jit, 1u);
  EXPECT_EQ(found.none, 0u);
  EXPECT_EQ(code.fat_binaries.size(), 2u);
  found = coverage(code, {8, 0});
  EXPECT_EQ(found.worst, Fit::none);
  ASSERT_EQ(found.uncovered.size(), 1u);
  EXPECT_EQ(found.uncovered[0], &file.fat_binaries[0]);
  file.fat_binaries = {container({"unknown_?"}), container({"unknown_90"})};
  EXPECT_EQ(JudgedCode(file).fat_binaries.size(), 1u) << "an entry too damaged to tell its architecture";
  EXPECT_EQ(coverage(JudgedCode(FileRecord{}), {9, 0}).judged(), 0u);
  EXPECT_EQ(coverage(JudgedCode(FileRecord{}), {9, 0}).worst, Fit::none);
}

TEST(Coverage, ImagesInNoContainerAreAlternatives) {
  FileRecord file;
  for (const char* image : {"compute_70 ptx=7.0", "sm_80", "compute_90a ptx=9.0", "sm_120 kernels=0"})
    file.fat_binaries.push_back(container({image}));
  EXPECT_EQ(JudgedCode(file).fat_binaries.size(), 3u);
  for (FatBinary& row : file.fat_binaries) row.images[0].offset = row.offset;
  file.fat_binaries.push_back(container({"sm_70", "compute_70"}));
  const JudgedCode code(file);
  ASSERT_EQ(code.fat_binaries.size(), 2u);
  EXPECT_EQ(code.fat_binaries[0]->images.size(), 3u);
  EXPECT_EQ(code.fat_binaries[1], &file.fat_binaries[4]);
  Coverage found = coverage(code, {8, 0});
  EXPECT_EQ(found.native, 1u);
  EXPECT_EQ(found.jit, 1u);
  EXPECT_EQ(found.none, 0u);
  EXPECT_EQ(coverage(code, {9, 0}).jit, 2u);
  EXPECT_EQ(coverage(code, {6, 0}).none, 2u);
  file.fat_binaries.pop_back();
  EXPECT_EQ(driver_floor(file, {7, 0})->text(), "450.80.02") << "not that of CUDA 13, which made another";
  // A container of the same kind does not hide behind a bare image.
  file.fat_binaries.push_back(container({"sm_80"}));
  EXPECT_EQ(coverage(JudgedCode(one_of_each_kind(file)), {9, 0}).worst, Fit::none);
}

TEST(Driver, VersionsCompareAsNumbers) {
  EXPECT_EQ(driver_version("535.54.03"), (DriverVersion{535, 54, 3}));
  EXPECT_EQ(driver_version("615"), (DriverVersion{615, 0, 0}));
  EXPECT_LT(*driver_version("550.54.14"), *driver_version("550.127"));
  for (const char* bad : {"", ".", "535.", "a", "535.54.03.1", "-1.2", "535.-0", "5 5", "99999999999999"})
    EXPECT_FALSE(driver_version(bad)) << bad;
}

TEST(Driver, ThatCompilesAPtxVersion) {
  EXPECT_EQ(driver_of_ptx("7.0"), "450.51.05");
  EXPECT_EQ(driver_of_ptx("8.5"), "555.42.02") << "12.5 speaks it before 12.6";
  EXPECT_EQ(driver_of_ptx("8.6"), "565");
  EXPECT_EQ(driver_of_ptx("9.0"), "580.65.06");
  EXPECT_EQ(driver_of_ptx("9.4"), "615");
  EXPECT_EQ(driver_of_ptx("9.5"), std::nullopt);
  EXPECT_EQ(driver_of_ptx("10.0"), std::nullopt);
  EXPECT_EQ(driver_of_ptx("nine"), std::nullopt);
}

std::string floor_of(std::initializer_list<const char*> images, GpuTarget gpu, std::optional<int> major = {}) {
  const auto floor = driver_floor(container(images), gpu, major);
  return floor ? floor->text() : "none";
}

TEST(DriverFloor, CubinOfAMinorReleaseNeedsTheFloorOfItsMajor) {
  EXPECT_EQ(floor_of({"sm_80 toolkit=11.8"}, {8, 0}), "450.80.02");
  EXPECT_EQ(floor_of({"sm_80 toolkit=12.4.131"}, {8, 0}), "525.60.13");
  EXPECT_EQ(floor_of({"sm_80 toolkit=13.0.88"}, {8, 0}), "580.65.06");
  EXPECT_EQ(floor_of({"sm_80", "compute_80 ptx=8.7"}, {8, 0}), "525.60.13") << "PTX tells the major, and is not used";
  EXPECT_EQ(floor_of({"sm_80"}, {8, 0}, 12), "525.60.13");
}

TEST(DriverFloor, PtxNeedsADriverThatSpeaksIt) {
  EXPECT_EQ(floor_of({"sm_80", "compute_80 ptx=8.7"}, {9, 0}), "570.26");
  EXPECT_EQ(floor_of({"compute_52 ptx=8.4"}, {8, 6}), "550.54.14");
  EXPECT_EQ(floor_of({"compute_90 ptx=9.5"}, {12, 0}), "unknown, at least 615");
  EXPECT_EQ(floor_of({"compute_90"}, {12, 0}, 12), "unknown, at least 570.26");
}

TEST(DriverFloor, ZstdNeedsTheDriverOf12_4) {
  EXPECT_EQ(floor_of({"sm_70 zstd toolkit=12.8"}, {7, 0}), "550.54.14");
  EXPECT_EQ(floor_of({"sm_70 lz4 toolkit=12.8"}, {7, 0}), "525.60.13");
  EXPECT_EQ(floor_of({"sm_70 toolkit=12.8", "compute_70 ptx=8.7 zstd"}, {7, 0}), "525.60.13") << "not selected";
}

TEST(DriverFloor, NewGpusNeedADriverThatKnowsThem) {
  EXPECT_EQ(floor_of({"sm_120 toolkit=12.8"}, {12, 0}), "570.26");
  EXPECT_EQ(floor_of({"sm_120 toolkit=12.8"}, {12, 1}), "575.51.03");
  EXPECT_EQ(floor_of({"compute_52 ptx=7.0"}, {9, 0}), "520.61.05");
}

TEST(DriverFloor, UnknownPartsMakeItUnknown) {
  EXPECT_EQ(floor_of({"sm_90"}, {9, 0}), "unknown, at least 520.61.05");
  EXPECT_EQ(floor_of({"sm_75"}, {7, 5}), "unknown, at least 450.80.02");
  EXPECT_EQ(floor_of({"sm_90 packed toolkit=12.0"}, {9, 0}), "unknown, at least 525.60.13");
  EXPECT_EQ(floor_of({"compute_90 ptx=8.0"}, {14, 0}), "unknown, at least 525.60.13");
}

TEST(DriverFloor, ConcatenatedEntriesAndTileIr) {
  EXPECT_EQ(floor_of({"sm_90 zstd group toolkit=13.5"}, {9, 0}), "615");
  EXPECT_EQ(floor_of({"sm_100 toolkit=13.5", "tile_120"}, {12, 0}), "unknown, at least 580.65.06");
  EXPECT_EQ(floor_of({"sm_120 toolkit=13.5", "tile_120"}, {12, 0}), "580.65.06");
}

TEST(DriverFloor, IsNullWhereNothingServes) { EXPECT_EQ(floor_of({"sm_90a"}, {10, 0}), "none"); }

TEST(DriverFloor, GivesEachReasonLargestFirst) {
  const auto floor = driver_floor(container({"sm_70 toolkit=12.8", "compute_70 ptx=8.7 zstd"}), {9, 0}, {});
  ASSERT_TRUE(floor);
  std::vector<std::string> reasons;
  for (const FloorPart& part : floor->parts) reasons.push_back(part.driver.value_or("?") + " " + part.reason);
  EXPECT_EQ(reasons, (std::vector<std::string>{"570.26 compute_70 is PTX 8.7 and has to be compiled",
                                               "550.54.14 compute_70 is compressed with zstd",
                                               "525.60.13 device code made by CUDA 12 (minor-version compatibility)",
                                               "520.61.05 9.0 (Hopper) came with CUDA 11.8"}));
}

TEST(DriverFloor, OfAWindowsFileIsInWindowsNumbers) {
  FileRecord file;
  file.format = Format::pe;
  const auto floor_with = [&](std::initializer_list<const char*> images, GpuTarget gpu) {
    file.fat_binaries = {container(images)};
    const auto floor = driver_floor(file, gpu);
    return floor ? floor->text() : "none";
  };
  EXPECT_EQ(floor_with({"sm_80 toolkit=11.8"}, {8, 0}), "452.39");
  EXPECT_EQ(floor_with({"sm_80 toolkit=12.4"}, {8, 0}), "528.33");
  EXPECT_EQ(floor_with({"sm_70 zstd toolkit=12.8"}, {7, 0}), "551.61");
  EXPECT_EQ(floor_with({"sm_80", "compute_80 ptx=8.7"}, {9, 0}), "570.65");
  EXPECT_EQ(floor_with({"sm_89 toolkit=11.8"}, {8, 9}), "520.06") << "smaller than that of Linux";
  EXPECT_EQ(floor_with({"sm_80 toolkit=13.0"}, {8, 0}), "580");
  EXPECT_EQ(floor_with({"compute_80 ptx=9.1"}, {9, 0}), "unknown, at least 590");
  EXPECT_EQ(floor_with({"compute_80 ptx=6.4"}, {8, 0}), "unknown, at least 451.48") << "before CUDA 11";
  file.fat_binaries.clear();
  file.runtime_copies = {short_runtime("driver-hybrid")};
  EXPECT_EQ(driver_floor(file, {8, 0})->text(), "580");
}

TEST(DriverFloor, OfAFileCountsItsRuntimeAndEachFatBinary) {
  FileRecord file;
  EXPECT_FALSE(driver_floor(file, {9, 0}));
  file.runtime_copies = {short_runtime("private-static 13.0")};
  EXPECT_EQ(driver_floor(file, {9, 0})->text(), "580.65.06");
  file.runtime_copies = {short_runtime("private-static level=12080")};
  EXPECT_EQ(driver_floor(file, {9, 0})->text(), "525.60.13");
  file.fat_binaries = {container({"sm_80", "compute_80 ptx=8.7"}), container({"sm_90"}),
                       container({"compute_90a kernels=0 ptx=9.4"})};
  EXPECT_EQ(driver_floor(file, {9, 0})->text(), "570.26") << "the runtime tells the major of the second";
  EXPECT_EQ(driver_floor(file, {8, 0})->text(), "525.60.13");
  file.runtime_copies = {short_runtime("driver-hybrid")};
  EXPECT_EQ(driver_floor(file, {8, 0})->text(), "580.65.06");
}

}  // namespace
}  // namespace cudeploy
