// Device code travels in a format that NVIDIA calls internal: containers of entries, each entry an image for
// one architecture. A deployment fault is visible in the entry headers alone, without decompressing; what
// is hostile or damaged must cost nothing but a problem line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// Where containers are looked for.
enum class FatbinPlace {
  named_section,  ///< .nv_fatbin, __nv_relfatbin, a .fatbin file: containers back to back, all bytes accounted for
  any_data,       ///< elsewhere: chance magic occurs; only a container whose whole entry chain parses is accepted
};

/// Reads every container inside `where`, in file order. Offsets in the result count from the start of `bytes`.
std::vector<FatBinary> read_fat_binaries(const Bytes& bytes, Extent where, FatbinPlace place,
                                         const std::optional<std::string>& section, const ReadOptions& options,
                                         std::vector<Problem>& problems);

}  // namespace cudeploy
