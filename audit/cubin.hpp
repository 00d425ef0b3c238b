// A cubin is an ELF file for a GPU. Fat binaries hold most of them; some lie bare: as files, or loose in the
// data of a library. What a verdict needs from one (architecture, toolkit, kernels) stands in a few headers,
// so a few small reads answer, whatever its size. LIEF is not asked: it would copy the whole image.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// How much of a cubin to read.
enum class CubinDetail {
  headers,       ///< architecture, toolkit, type
  kernel_count,  ///< the same, and how many kernels
  kernels,       ///< the same, and their names, registers and static shared memory
};

/// What one cubin says of itself.
struct CubinFacts {
  std::uint64_t size = 0;              ///< bytes up to the end of its last header table or section
  std::uint8_t abi = 0;                ///< EI_ABIVERSION: 7 up to CUDA 12.9 below sm_100, else 8
  std::uint32_t arch = 0;              ///< 90 is sm_90
  std::optional<std::string> variant;  ///< "", "a", "f"; null where the cubin does not tell "" from "f"
  bool arch_specific = false;          ///< it runs on exactly its own architecture
  bool relocatable = false;            ///< still has to be device-linked
  std::optional<std::string> toolkit;  ///< "13.0.88", or "12.4" where only that is kept
  std::optional<std::uint32_t> kernel_count;
  std::vector<Kernel> kernels;  ///< with CubinDetail::kernels, sorted by name
};

/// Reads the cubin at the start of `where`. On failure nothing, and `fault` says field, expected, found.
std::optional<CubinFacts> read_cubin_facts(const Bytes& bytes, Extent where, CubinDetail detail, std::string& fault);

/// True when the records of a .nv.compat section, or of its copy in an entry header, say that the code runs on
/// exactly its own architecture.
bool compat_says_arch_specific(std::span<const std::byte> compat);

/// True when `where` starts with the ELF header of a cubin (64 bits, EM_CUDA).
bool looks_like_cubin(const Bytes& bytes, Extent where);

/// A bare cubin as a fat binary with one image. `where.size` may reach past the cubin's end.
FatBinary read_cubin(const Bytes& bytes, Extent where, const std::optional<std::string>& section,
                     const ReadOptions& options, std::vector<Problem>& problems);

}  // namespace cudeploy
