#include "gpu.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>

namespace cudeploy {
namespace {

// Each edition's table goes back to CUDA 7.0, with a column for Windows; read was that of 13.1.
constexpr std::string_view release_notes =
    "CUDA Toolkit Release Notes, table 'CUDA Toolkit and corresponding driver versions'";
constexpr std::string_view nvcc_list = "nvcc documentation, GPU feature list; CUDA Toolkit Release Notes";
constexpr std::string_view llvm_list = "nvcc documentation, GPU feature list; LLVM NVPTX.td (families)";

// First drivers are those that came with the first toolkit; before CUDA 11 every driver that can run a
// supported runtime knows the GPU, so there is nothing to say.
constexpr std::array gpus = {
    Gpu{{3, 5}, "Kepler", "K40", false, 0, "5.0", "", false, nvcc_list},
    Gpu{{3, 7}, "Kepler", "K80", false, 0, "6.5", "", false, nvcc_list},
    Gpu{{5, 0}, "Maxwell", "GTX 750", false, 0, "6.5", "", false, nvcc_list},
    Gpu{{5, 2}, "Maxwell", "GTX 980, M40", false, 0, "7.0", "", false, nvcc_list},
    Gpu{{5, 3}, "Maxwell", "Tegra X1", true, 0, "7.0", "", false, nvcc_list},
    Gpu{{6, 0}, "Pascal", "P100", false, 0, "8.0", "", false, nvcc_list},
    Gpu{{6, 1}, "Pascal", "GTX 1080, P4", false, 0, "8.0", "", false, nvcc_list},
    Gpu{{6, 2}, "Pascal", "Tegra X2", true, 0, "8.0", "", false, nvcc_list},
    Gpu{{7, 0}, "Volta", "V100", false, 0, "9.0", "", false, nvcc_list},
    Gpu{{7, 2}, "Volta", "Xavier", true, 0, "9.2", "", false, nvcc_list},
    Gpu{{7, 5}, "Turing", "T4, RTX 2080", false, 0, "10.0", "", true, nvcc_list},
    Gpu{{8, 0}, "Ampere", "A100", false, 0, "11.0", "450.51.05", true, nvcc_list},
    Gpu{{8, 6}, "Ampere", "A10, RTX 3090", false, 0, "11.1", "455.23", true, nvcc_list},
    Gpu{{8, 7}, "Ampere", "Orin", true, 0, "11.4", "470.42.01", true, nvcc_list},
    Gpu{{8, 8}, "Ampere", "an embedded part", true, 0, "13.0", "580.65.06", true, nvcc_list},
    Gpu{{8, 9}, "Ada", "L4, L40, RTX 4090", false, 0, "11.8", "520.61.05", true, nvcc_list},
    Gpu{{9, 0}, "Hopper", "H100, H200", false, 0, "11.8", "520.61.05", true, nvcc_list},
    Gpu{{10, 0}, "Blackwell", "B200, GB200", false, 100, "12.8", "570.26", true, llvm_list},
    Gpu{{10, 3}, "Blackwell", "B300, GB300", false, 100, "12.9", "575.51.03", true, llvm_list},
    Gpu{{10, 7}, "Rubin", "R200", false, 100, "13.4", "615", true, llvm_list},
    Gpu{{11, 0}, "Blackwell", "Thor", true, 110, "12.8 (as sm_101)", "570.26", true, llvm_list},
    Gpu{{12, 0}, "Blackwell", "RTX 50, RTX PRO", false, 120, "12.8", "570.26", true, llvm_list},
    Gpu{{12, 1}, "Blackwell", "GB10, DGX Spark", false, 120, "12.9", "575.51.03", true, llvm_list},
};

/// A toolkit release: the PTX ISA that its compiler writes, and the driver that came with it.
struct Toolkit {
  int major, minor;
  int ptx_major, ptx_minor;
  std::string_view driver;   ///< of the first release of this version; empty where not known
  std::string_view windows;  ///< the same for Windows; empty where none came with it: 13.0 and newer bring none
  std::string_view source;
};

// 12.7 never was a public toolkit: PTX 8.6 is what the driver branch R565 accepts. Of 13.4 the branch is known,
// of 13.5 not even that.
constexpr std::array toolkits = {
    Toolkit{8, 0, 5, 0, "367.48", "369.30", release_notes},
    Toolkit{9, 0, 6, 0, "384.81", "385.54", release_notes},
    Toolkit{9, 1, 6, 1, "390.46", "391.29", release_notes},
    Toolkit{9, 2, 6, 2, "396.26", "397.44", release_notes},
    Toolkit{10, 0, 6, 3, "410.48", "411.31", release_notes},
    Toolkit{10, 1, 6, 4, "418.39", "418.96", release_notes},
    Toolkit{10, 2, 6, 5, "440.33", "441.22", release_notes},
    Toolkit{11, 0, 7, 0, "450.51.05", "451.48", release_notes},
    Toolkit{11, 1, 7, 1, "455.23", "456.38", release_notes},
    Toolkit{11, 2, 7, 2, "460.27.03", "460.82", release_notes},
    Toolkit{11, 3, 7, 3, "465.19.01", "465.89", release_notes},
    Toolkit{11, 4, 7, 4, "470.42.01", "471.11", release_notes},
    Toolkit{11, 5, 7, 5, "495.29.05", "496.04", release_notes},
    Toolkit{11, 6, 7, 6, "510.39.01", "511.23", release_notes},
    Toolkit{11, 7, 7, 7, "515.43.04", "516.01", release_notes},
    Toolkit{11, 8, 7, 8, "520.61.05", "520.06", release_notes},
    Toolkit{12, 0, 8, 0, "525.60.13", "527.41", release_notes},
    Toolkit{12, 1, 8, 1, "530.30.02", "531.14", release_notes},
    Toolkit{12, 2, 8, 2, "535.54.03", "536.25", release_notes},
    Toolkit{12, 3, 8, 3, "545.23.06", "545.84", release_notes},
    Toolkit{12, 4, 8, 4, "550.54.14", "551.61", release_notes},
    Toolkit{12, 5, 8, 5, "555.42.02", "555.85", release_notes},
    Toolkit{12, 6, 8, 5, "560.28.03", "560.76", release_notes},
    Toolkit{12, 7, 8, 6, "565", "", "driver branch R565 accepts PTX 8.6"},
    Toolkit{12, 8, 8, 7, "570.26", "570.65", release_notes},
    Toolkit{12, 9, 8, 8, "575.51.03", "576.02", release_notes},
    Toolkit{13, 0, 9, 0, "580.65.06", "", release_notes},
    Toolkit{13, 1, 9, 1, "590.44.01", "", release_notes},
    Toolkit{13, 2, 9, 2, "595.45.04", "", release_notes},
    Toolkit{13, 3, 9, 3, "610.43.02", "", release_notes},
    Toolkit{13, 4, 9, 4, "615", "", "driver branch R615 reports CUDA 13.4"},
    Toolkit{13, 5, 9, 5, "", "", "nvcc 13.5.37 writes PTX 9.5; its driver was not found"},
};
constexpr std::string_view newest_known_driver = "615";

/// Minor-version compatibility: the oldest driver for any minor release of a major.
struct MinorVersionFloor {
  int major;
  std::string_view driver;
  std::string_view windows;
  std::string_view source;
};
constexpr std::string_view compatibility =
    "CUDA Compatibility, 'Minor Version Compatibility' (452.39; 13: 580 for both systems); CUDA Toolkit Release Notes "
    "12.x, minimum required driver for minor version compatibility (528.33)";
constexpr std::array minor_version_floors = {
    MinorVersionFloor{11, "450.80.02", "452.39", compatibility},
    MinorVersionFloor{12, "525.60.13", "528.33", compatibility},
    MinorVersionFloor{13, "580.65.06", "580", compatibility},
};

// nvcc documentation, --compress-mode: "not compatible with drivers released before CUDA Toolkit's 12.4 Release";
// zstd is what those modes write, LZ4 is read by every driver.
constexpr std::string_view zstd_driver = "550.54.14";
// The format came with the toolkit 13.4; no document names a driver.
constexpr std::string_view concatenated_driver = "615";
// NVIDIA's README of CUDA Tile asks for R580 or newer; the bytecode version decides how much newer.
constexpr std::string_view tile_driver = "580";
// Targets of the tile compiler, CUDA 13.2; a GPU newer than all of them is taken to be one.
constexpr std::array tile_targets = {GpuTarget{8, 0},  GpuTarget{8, 6},  GpuTarget{8, 7},  GpuTarget{8, 8},
                                     GpuTarget{8, 9},  GpuTarget{10, 0}, GpuTarget{10, 3}, GpuTarget{11, 0},
                                     GpuTarget{12, 0}, GpuTarget{12, 1}};

bool is_tegra(GpuTarget target) {
  const Gpu* gpu = find_gpu(target);
  return gpu && gpu->tegra;
}

/// Of `f` images. A family that is not in the table is the compute capability's major alone.
int family_of(GpuTarget target) {
  const Gpu* gpu = find_gpu(target);
  return gpu ? gpu->family : 0;
}

bool holds_tile_ir(const FatBinary& container) {
  return std::any_of(container.images.begin(), container.images.end(),
                     [](const Image& image) { return image.kind == ImageKind::tile_ir; });
}

Fit fit_cubin(const FatBinary& container, const Image& image, GpuTarget made_for, GpuTarget gpu) {
  if (made_for == gpu) return Fit::native;
  if (image.variant == "a" || image.arch_specific) return Fit::none;
  if (holds_tile_ir(container)) return Fit::none;  // labelled without the "a" that tile kernels have
  if (gpu < made_for) return Fit::none;
  if (image.variant == "f") {
    return family_of(made_for) != 0 && family_of(made_for) == family_of(gpu) ? Fit::native : Fit::none;
  }
  if (made_for.major != gpu.major) return Fit::none;
  return is_tegra(made_for) || is_tegra(gpu) ? Fit::none : Fit::native;  // Tegra has no binary compatibility
}

Fit fit_ptx(const Image& image, GpuTarget made_for, GpuTarget gpu) {
  if (image.variant == "a") return made_for == gpu ? Fit::jit : Fit::none;
  if (image.variant == "f" && (family_of(made_for) == 0 || family_of(made_for) != family_of(gpu))) return Fit::none;
  return gpu < made_for ? Fit::none : Fit::jit;
}

Fit fit_tile_ir(GpuTarget made_for, GpuTarget gpu) {
  if (gpu < made_for) return Fit::none;
  const bool target = std::find(tile_targets.begin(), tile_targets.end(), gpu) != tile_targets.end();
  return gpu <= tile_targets.back() && !target ? Fit::none : Fit::jit;
}

int variant_rank(const std::string& variant) { return variant == "a" ? 2 : variant == "f" ? 1 : 0; }

/// The driver takes a cubin before PTX, and among equals the one closest to the GPU.
bool better(Fit fit, const Image& image, const ContainerFit& best) {
  if (!best.image) return true;
  if (fit != best.fit) return fit == Fit::native;
  if (*image.arch != *best.image->arch) return *image.arch > *best.image->arch;
  return variant_rank(image.variant) > variant_rank(best.image->variant);
}

struct MajorMinor {
  int major = 0, minor = 0;
  friend auto operator<=>(const MajorMinor&, const MajorMinor&) = default;
};

std::optional<MajorMinor> major_minor(std::string_view text) {
  const auto version = driver_version(text);
  if (!version) return {};
  return MajorMinor{version->branch, version->minor};
}

const Toolkit* first_toolkit_of_ptx(std::string_view ptx_version) {
  const auto wanted = major_minor(ptx_version);
  if (!wanted) return nullptr;
  const auto row = std::find_if(toolkits.begin(), toolkits.end(), [&](const Toolkit& toolkit) {
    return MajorMinor{toolkit.ptx_major, toolkit.ptx_minor} == *wanted;
  });
  return row == toolkits.end() ? nullptr : row;
}

void add_minor_version_part(std::vector<FloorPart>& parts, std::optional<int> major, const std::string& what,
                            std::optional<std::string> at_least) {
  if (!major) {
    parts.push_back({{}, std::move(at_least), what + " by a toolkit that nothing in it names"});
    return;
  }
  if (auto driver = driver_of_major(*major)) {
    parts.push_back({std::move(driver), {}, fmt::format("{} by CUDA {} (minor-version compatibility)", what, *major)});
    return;
  }
  // Before 11 there was no minor-version compatibility: the first driver of that major is a lower bound.
  std::optional<std::string> bound;
  for (const Toolkit& toolkit : toolkits)
    if (toolkit.major == *major && !bound && !toolkit.driver.empty()) bound = std::string(toolkit.driver);
  if (!bound && *major > toolkits.back().major) bound = std::string(newest_known_driver);
  parts.push_back({{}, bound, fmt::format("{} by CUDA {}", what, *major)});
}

/// Windows' number of the release that Linux counts so; null where there is none. For 525.60.13 it is the floor of all
/// CUDA 12, not the 527.41 of 12.0 alone.
std::optional<std::string_view> windows_number(std::string_view linux_number) {
  for (const MinorVersionFloor& row : minor_version_floors)
    if (row.driver == linux_number) return row.windows;
  if (linux_number == tile_driver) return tile_driver;  // "R580 or newer", of both systems
  for (const Toolkit& row : toolkits)
    if (row.driver == linux_number && !row.windows.empty()) return row.windows;
  return {};
}

/// Which driver at least, when all that is known is that the image is for this GPU.
std::optional<std::string> bound_of_first_toolkit(GpuTarget made_for) {
  const Gpu* gpu = find_gpu(made_for);
  if (!gpu) return {};
  const auto first = major_minor(gpu->first_toolkit.substr(0, gpu->first_toolkit.find(' ')));
  for (const MinorVersionFloor& row : minor_version_floors)
    if (first && row.major == std::max(first->major, minor_version_floors.front().major))
      return std::string(row.driver);
  return {};
}

/// The same parts in the numbers of the file's system. Where Windows' number is not known, the branch is a bound: its
/// drivers carry the branch of Linux' or a little more.
std::vector<FloorPart> as_counted_for(const FileRecord& file, std::vector<FloorPart> parts) {
  if (file.format != Format::pe) return parts;
  for (FloorPart& part : parts) {
    if (part.at_least) part.at_least = driver_number_for(file, *part.at_least);
    if (!part.driver) continue;
    std::string number = driver_number_for(file, *part.driver);
    if (windows_number(*part.driver)) {
      part.driver = std::move(number);
    } else {
      part.driver.reset();
      part.at_least = std::move(number);
    }
  }
  return parts;
}

DriverFloor assemble(std::vector<FloorPart> parts) {
  DriverFloor floor;
  const auto number = [](const FloorPart& part) {
    return driver_version(part.driver ? *part.driver : part.at_least.value_or("")).value_or(DriverVersion{});
  };
  std::stable_sort(parts.begin(), parts.end(), [&](const FloorPart& a, const FloorPart& b) {
    if (a.driver.has_value() != b.driver.has_value()) return a.driver.has_value();
    if (number(a) != number(b)) return number(a) > number(b);
    return a.reason < b.reason;
  });
  parts.erase(std::unique(parts.begin(), parts.end(),
                          [](const FloorPart& a, const FloorPart& b) {
                            return a.driver == b.driver && a.at_least == b.at_least && a.reason == b.reason;
                          }),
              parts.end());
  DriverVersion largest;
  for (const FloorPart& part : parts) {
    if (number(part) > largest) {
      largest = number(part);
      floor.driver = part.driver ? part.driver : part.at_least;
    }
    if (!part.driver) floor.complete = false;
  }
  floor.parts = std::move(parts);
  return floor;
}

}  // namespace

std::span<const Gpu> known_gpus() { return gpus; }

const Gpu* find_gpu(GpuTarget target) {
  const auto row = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.target == target; });
  return row == gpus.end() ? nullptr : row;
}

GpuTarget gpu_of_arch(std::uint32_t arch) {
  if (arch == 101) return {11, 0};
  return {static_cast<int>(arch / 10), static_cast<int>(arch % 10)};
}

std::string to_string(GpuTarget target) { return fmt::format("{}.{}", target.major, target.minor); }

std::string describe(GpuTarget target) {
  const Gpu* gpu = find_gpu(target);
  if (!gpu) return to_string(target);
  return fmt::format("{} ({}{})", to_string(target), gpu->name, gpu->tegra ? ", Tegra" : "");
}

std::string image_name(const Image& image) {
  const std::string arch = image.arch ? std::to_string(*image.arch) + image.variant : "?";
  switch (image.kind) {
    case ImageKind::cubin:
      return "sm_" + arch;
    case ImageKind::ptx:
      return "compute_" + arch;
    case ImageKind::lto_ir:
      return "lto_" + arch;
    case ImageKind::tile_ir:
      return "tile IR " + arch;
    case ImageKind::other:
      break;
  }
  if (image.entry_kind == 0x40) return "relocatable PTX " + arch;
  return fmt::format("image of kind {:#x} {}", image.entry_kind, arch);
}

std::string_view to_string(Fit fit) {
  switch (fit) {
    case Fit::native:
      return "native";
    case Fit::jit:
      return "jit";
    case Fit::none:
      break;
  }
  return "none";
}

Fit fit(const FatBinary& container, const Image& image, GpuTarget gpu) {
  if (!container.loadable || !image.arch) return Fit::none;
  const GpuTarget made_for = gpu_of_arch(*image.arch);
  switch (image.kind) {
    case ImageKind::cubin:
      return fit_cubin(container, image, made_for, gpu);
    case ImageKind::ptx:
      return fit_ptx(image, made_for, gpu);
    case ImageKind::tile_ir:
      return fit_tile_ir(made_for, gpu);
    case ImageKind::lto_ir:  // no driver loads it from a fat binary
    case ImageKind::other:
      break;
  }
  return Fit::none;
}

bool is_judged(const FatBinary& container) {
  if (!container.loadable) return false;
  // An entry too damaged to tell its architecture is a problem of the file, no code that somebody could launch.
  const auto may_have_kernels = [](const Image& image) {
    return image.kernel_count.value_or(1) > 0 && (image.kind != ImageKind::other || image.arch);
  };
  return std::any_of(container.images.begin(), container.images.end(), may_have_kernels);
}

ContainerFit fit(const FatBinary& container, GpuTarget gpu) {
  ContainerFit best;
  for (const Image& image : container.images) {
    const Fit found = fit(container, image, gpu);
    if (found != Fit::none && better(found, image, best)) best = {found, &image};
  }
  return best;
}

JudgedCode::JudgedCode(const std::vector<const FileRecord*>& files) {
  for (const FileRecord* file : files)
    for (const FatBinary& row : file->fat_binaries) {
      if (!is_judged(row)) continue;
      if (!is_bare(row)) {
        fat_binaries.push_back(&row);
      } else if (!bare_) {
        bare_ = std::make_unique<FatBinary>(row);
        fat_binaries.push_back(bare_.get());
      } else {
        bare_->images.push_back(row.images[0]);
      }
    }
}

Coverage coverage(const JudgedCode& code, GpuTarget gpu) {
  Coverage result;
  for (const FatBinary* container : code.fat_binaries) {
    switch (fit(*container, gpu).fit) {
      case Fit::native:
        ++result.native;
        break;
      case Fit::jit:
        ++result.jit;
        break;
      case Fit::none:
        ++result.none;
        result.uncovered.push_back(container);
        break;
    }
  }
  if (result.judged() > 0) result.worst = result.none ? Fit::none : result.jit ? Fit::jit : Fit::native;
  return result;
}

FileRecord one_of_each_kind(const FileRecord& file) {
  FileRecord few;
  few.path = file.path;
  few.format = file.format;
  few.runtime_copies = file.runtime_copies;
  std::unordered_set<std::string> seen;
  std::string kind;
  const auto add = [&](std::string_view text) { kind.append(text).push_back('\0'); };
  for (const FatBinary& container : file.fat_binaries) {
    kind.assign(1, container.loadable ? 'l' : 'r');
    kind.push_back(is_bare(container) ? 'b' : '-');
    for (const Image& image : container.images) {
      kind += fmt::format_int(static_cast<int>(image.kind)).str();
      add(fmt::format_int(image.entry_kind).str());
      add(image.arch ? std::string_view(fmt::format_int(*image.arch).c_str()) : "-");
      add(image.variant);
      add(image.ptx_version.value_or("-"));
      add(image.toolkit.value_or("-"));
      add(fmt::format_int(static_cast<int>(image.compression)).str());
      kind.push_back(image.group ? 'g' : '-');
      kind.push_back(image.arch_specific ? 's' : '-');
      kind.push_back(image.kernel_count.value_or(1) > 0 ? 'k' : '-');
    }
    if (seen.insert(kind).second) few.fat_binaries.push_back(container);
  }
  return few;
}

std::optional<DriverVersion> driver_version(std::string_view text) {
  int parts[3] = {0, 0, 0};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, parts[i]);
    if (error != std::errc() || parts[i] < 0 || *at == '-') return {};
    at = next;
    if (at == end) return DriverVersion{parts[0], parts[1], parts[2]};
    if (*at != '.' || ++at == end) return {};
  }
  return {};
}

std::string driver_number_for(const FileRecord& file, std::string_view linux_number) {
  if (file.format != Format::pe) return std::string(linux_number);
  if (const auto number = windows_number(linux_number)) return std::string(*number);
  return std::string(linux_number.substr(0, linux_number.find('.')));
}

std::string DriverFloor::text() const {
  if (!driver) return "unknown";
  return complete ? *driver : "unknown, at least " + *driver;
}

std::optional<std::string> driver_of_major(int cuda_major) {
  for (const MinorVersionFloor& row : minor_version_floors)
    if (row.major == cuda_major) return std::string(row.driver);
  return {};
}

// Each CUDA major has PTX majors of its own, so a PTX version tells it as well.
std::optional<int> toolkit_major_of(const FatBinary& container) {
  std::optional<int> found;
  for (const Image& image : container.images) {
    std::optional<int> major;
    if (image.toolkit)
      if (const auto version = major_minor(*image.toolkit)) major = version->major;
    if (!major && image.ptx_version)
      if (const Toolkit* toolkit = first_toolkit_of_ptx(*image.ptx_version)) major = toolkit->major;
    if (major) found = std::max(found.value_or(0), *major);
  }
  return found;
}

std::optional<std::string> driver_of_ptx(std::string_view ptx_version) {
  const Toolkit* toolkit = first_toolkit_of_ptx(ptx_version);
  if (!toolkit || toolkit->driver.empty()) return {};
  return std::string(toolkit->driver);
}

std::optional<DriverFloor> driver_floor(const FatBinary& container, GpuTarget gpu, std::optional<int> toolkit_major) {
  const ContainerFit serving = fit(container, gpu);
  if (serving.fit == Fit::none) return {};
  const Image& image = *serving.image;
  const std::string name = image_name(image);
  std::vector<FloorPart> parts;

  const auto made_by = toolkit_major_of(container);
  add_minor_version_part(parts, made_by ? made_by : toolkit_major, "device code made",
                         bound_of_first_toolkit(gpu_of_arch(*image.arch)));

  if (image.compression == Compression::zstd)
    parts.push_back({std::string(zstd_driver), {}, name + " is compressed with zstd"});
  if (image.compression == Compression::unknown)
    parts.push_back({{}, {}, name + " is compressed in a way that is not known"});

  if (serving.fit == Fit::jit && image.kind == ImageKind::ptx) {
    const std::string reason =
        fmt::format("{} is PTX {} and has to be compiled", name, image.ptx_version.value_or("of unknown version"));
    const auto isa = image.ptx_version ? major_minor(*image.ptx_version) : std::nullopt;
    const auto driver = image.ptx_version ? driver_of_ptx(*image.ptx_version) : std::nullopt;
    const MajorMinor oldest{toolkits.front().ptx_major, toolkits.front().ptx_minor};
    const MajorMinor newest{toolkits.back().ptx_major, toolkits.back().ptx_minor};
    if (driver)
      parts.push_back({driver, {}, reason});
    else if (isa && *isa >= newest)
      parts.push_back({{}, std::string(newest_known_driver), reason});
    else if (!isa || *isa >= oldest)
      parts.push_back({{}, {}, reason});
  }

  if (const Gpu* row = find_gpu(gpu)) {
    if (!row->first_driver.empty())
      parts.push_back(
          {std::string(row->first_driver), {}, fmt::format("{} came with CUDA {}", describe(gpu), row->first_toolkit)});
  } else {
    parts.push_back({{}, {}, fmt::format("the GPU {} is not known", to_string(gpu))});
  }

  if (image.group)
    parts.push_back({std::string(concatenated_driver),
                     {},
                     name + " lies in a concatenated entry, a format of CUDA 13.4 (inferred, not documented)"});
  if (image.kind == ImageKind::tile_ir)
    parts.push_back({{}, std::string(tile_driver), name + " has to be compiled, and its bytecode version decides"});
  return assemble(std::move(parts));
}

std::optional<DriverFloor> driver_floor(const FileRecord& file, GpuTarget gpu) {
  std::vector<FloorPart> parts;
  std::optional<int> toolkit_major;
  for (const RuntimeCopy& copy : file.runtime_copies) {
    if (copy.kind == RuntimeCopyKind::stand_in) continue;
    std::optional<int> major;
    if (copy.version)
      if (const auto version = major_minor(*copy.version)) major = version->major;
    if (!major && copy.api_level) major = *copy.api_level / 1000;
    if (!major && copy.kind == RuntimeCopyKind::driver_hybrid) major = 13;
    if (!major) continue;
    if (copy.kind == RuntimeCopyKind::driver_hybrid)
      parts.push_back({std::string("580.65.06"), {}, "the CUDA 13 runtime comes with the driver"});
    else
      add_minor_version_part(parts, major, "the runtime was made", {});
    toolkit_major = std::max(toolkit_major.value_or(0), *major);
  }
  bool any = !parts.empty();
  const JudgedCode code(file);
  for (const FatBinary* container : code.fat_binaries) {
    // Alternatives can come from several toolkits: only the one that is loaded tells its own.
    FatBinary loaded;
    if (const Image* image = fit(*container, gpu).image; image && container == code.alternatives()) {
      loaded.images = {*image};
      container = &loaded;
    }
    if (const auto floor = driver_floor(*container, gpu, toolkit_major)) {
      parts.insert(parts.end(), floor->parts.begin(), floor->parts.end());
      any = true;
    }
  }
  if (!any) return {};
  return assemble(as_counted_for(file, std::move(parts)));
}

}  // namespace cudeploy
