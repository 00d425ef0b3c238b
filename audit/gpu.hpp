// Whether device code runs on a GPU, and which driver it asks for, is decided by a dozen rules in six documents,
// two of them known from experiments only. Here they are tables with a source per row, and pure functions over
// what a fat binary's headers say. Nothing here opens a file.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inspect_record.hpp"
#include "policy.hpp"

namespace cudeploy {

/// A GPU generation: one compute capability.
struct Gpu {
  GpuTarget target;
  std::string_view name;           ///< "Hopper"
  std::string_view examples;       ///< "H100, H200"
  bool tegra = false;              ///< system on a chip: cubins do not move to or from other compute capabilities
  int family = 0;                  ///< of `f` images: 100, 110, 120; 0 where there is none
  std::string_view first_toolkit;  ///< the first that makes code for it
  std::string_view first_driver;   ///< the one that came with that toolkit (Linux)
  bool in_newest_toolkit = true;   ///< false where the newest toolkit makes no code for it any more
  std::string_view source;
};

/// All known generations, ascending.
std::span<const Gpu> known_gpus();

/// Null where it is not known.
const Gpu* find_gpu(GpuTarget target);

/// 90 -> {9, 0}; 120 -> {12, 0}. sm_101, as 12.8 and 12.9 call it, is the chip that 13.0 calls sm_110: {11, 0}.
GpuTarget gpu_of_arch(std::uint32_t arch);

/// "9.0"
std::string to_string(GpuTarget target);

/// "9.0 (Hopper)", or the number alone where the generation is not known.
std::string describe(GpuTarget target);

/// "sm_90a", "compute_120", "lto_90", "tile IR 120": as the toolkit calls it.
std::string image_name(const Image& image);

/// What a GPU gets from device code.
enum class Fit {
  native,  ///< a cubin runs as it is
  jit,     ///< the driver compiles PTX (or tile IR) at first use
  none,    ///< nothing that this GPU can run
};

std::string_view to_string(Fit fit);

/// Decides one image. `container` tells whether it has to be linked first and whether it holds tile kernels.
Fit fit(const FatBinary& container, const Image& image, GpuTarget gpu);

/// Whether a fat binary takes part in a verdict: loadable, with images, and not known to be without kernels
/// (nvcc's link step puts a container without kernels into every file).
bool is_judged(const FatBinary& container);

/// The image that serves a GPU: the best cubin, else the best PTX. Null image where there is none.
struct ContainerFit {
  Fit fit = Fit::none;
  const Image* image = nullptr;
};
ContainerFit fit(const FatBinary& container, GpuTarget gpu);

/// What of some files takes part in a verdict. Of their images in no container the program picks the one that it loads,
/// so these are judged as one fat binary that holds them all.
struct JudgedCode {
  explicit JudgedCode(const std::vector<const FileRecord*>& files);
  explicit JudgedCode(const FileRecord& file) : JudgedCode(std::vector{&file}) {}

  std::vector<const FatBinary*> fat_binaries;  ///< in file order; the one for all bare images where the first stands

  /// The one for all bare images; null where there is none.
  const FatBinary* alternatives() const { return bare_.get(); }

 private:
  std::unique_ptr<FatBinary> bare_;
};

/// How well some code serves one GPU. It is as portable as its least portable fat binary.
struct Coverage {
  Fit worst = Fit::none;   ///< none as well where nothing is judged
  std::size_t native = 0;  ///< fat binaries
  std::size_t jit = 0;
  std::size_t none = 0;
  std::vector<const FatBinary*> uncovered;  ///< the ones counted in `none`, in file order

  std::size_t judged() const { return native + jit + none; }
};
Coverage coverage(const JudgedCode& code, GpuTarget gpu);

/// The fat binaries of a large library are thousands, and alike in all that decides here. This has the first of each
/// kind: its worst fit, whether something serves a GPU, and its driver floors are those of the file, the counts are
/// not.
FileRecord one_of_each_kind(const FileRecord& file);

/// A driver version, "550.54.14" -> {550, 54, 14}. Compares as numbers.
struct DriverVersion {
  int branch = 0, minor = 0, patch = 0;
  friend auto operator<=>(const DriverVersion&, const DriverVersion&) = default;
};
std::optional<DriverVersion> driver_version(std::string_view text);

/// One reason for a driver floor.
struct FloorPart {
  std::optional<std::string> driver;    ///< oldest that will do; null where nobody has told it
  std::optional<std::string> at_least;  ///< with a null driver: it is no older than this
  std::string reason;
};

/// The oldest driver that runs something on a GPU.
struct DriverFloor {
  std::optional<std::string> driver;  ///< largest known part; null where no part is known
  bool complete = true;               ///< false: some part is unknown, so the floor is "unknown, at least `driver`"
  std::vector<FloorPart> parts;       ///< largest first, unknown ones at the end

  /// "525.60.13", "unknown, at least 615", "unknown"
  std::string text() const;
};

/// Windows has driver numbers of its own: what the tables here say of Linux, as the file's system counts it. Where
/// NVIDIA published none for Windows (no driver comes with CUDA 13's toolkits there), Linux' branch, which is a bound.
std::string driver_number_for(const FileRecord& file, std::string_view linux_number);

/// In numbers of Linux. Largest of six: minor-version compatibility of the toolkit's major, zstd, JIT of the PTX ISA,
/// first driver that knows the GPU, concatenated entries, tile IR. `toolkit_major`, if known, helps where no image
/// tells it. Null where the fat binary has nothing for this GPU.
std::optional<DriverFloor> driver_floor(const FatBinary& container, GpuTarget gpu, std::optional<int> toolkit_major);

/// Over the judged fat binaries that have something for this GPU, and the runtimes that the file embeds, in the numbers
/// of the file's system. Null where there is neither.
std::optional<DriverFloor> driver_floor(const FileRecord& file, GpuTarget gpu);

/// Minor-version compatibility: the oldest driver for any toolkit of this CUDA major, 12 -> "525.60.13"; null where
/// none is known.
std::optional<std::string> driver_of_major(int cuda_major);

/// The CUDA major of the toolkit that made a fat binary, where an image or its PTX version tells it.
std::optional<int> toolkit_major_of(const FatBinary& container);

/// The driver that came with the first toolkit that speaks this PTX ISA ("8.7" -> "570.26"); null where unknown.
std::optional<std::string> driver_of_ptx(std::string_view ptx_version);

}  // namespace cudeploy
