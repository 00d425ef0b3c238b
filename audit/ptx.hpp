// PTX is text, and the one form of device code that a later driver can compile for a later GPU. Its first
// lines say for whom; its entry directives name the kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// What one PTX text says of itself.
struct PtxFacts {
  std::string version;                      ///< ISA, "9.0"
  std::uint32_t arch = 0;                   ///< 90 is compute_90
  std::string variant;                      ///< "", "a" or "f"
  std::vector<std::string> target_options;  ///< words after the architecture in .target: "debug"
  std::optional<std::uint32_t> address_size;
  std::optional<std::string> toolkit;  ///< from nvcc's comment; fat binaries hold PTX without comments
  std::vector<std::string> kernels;    ///< names of the .entry directives, sorted
};

/// Reads a PTX text (a NUL ends it). On failure nothing, and `fault` says field, expected, found.
std::optional<PtxFacts> read_ptx_facts(std::string_view text, std::string& fault);

/// True when the first directive of `where`, after comments, is `.version`. Looks at 64 KiB at most.
bool looks_like_ptx(const Bytes& bytes, Extent where);

/// With which each PTX text begins, after comments.
inline constexpr std::string_view ptx_begin = ".version";

/// The whole PTX text whose `ptx_begin` stands at `at`, inside `where`: from the comment above it to the NUL or the
/// end. Nothing where it is a piece or a form to fill in, as compilers hold them: what has no kernel, is cut inside a
/// body or is no text. `looked_at` is raised by the bytes that this took.
std::optional<Extent> ptx_text_around(const Bytes& bytes, std::uint64_t at, Extent where, std::uint64_t& looked_at);

/// A bare PTX text as a fat binary with one image. Reads 128 MiB at most.
FatBinary read_ptx(const Bytes& bytes, Extent where, const std::optional<std::string>& section,
                   const ReadOptions& options, std::vector<Problem>& problems);

}  // namespace cudeploy
