// Device code travels in a format that NVIDIA calls internal: containers of entries, each entry an image for
// one architecture. A deployment fault is visible in the entry headers alone, without decompressing; what
// is hostile or damaged must cost nothing but a problem line.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "find_bytes.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// Where containers are looked for.
enum class FatbinPlace {
  named_section,  ///< .nv_fatbin, __nv_relfatbin, a .fatbin file: containers back to back, all bytes accounted for
  any_data,       ///< elsewhere: chance magic occurs; only a container whose whole entry chain parses is accepted
};

/// True when `where` starts as a .fatbin file does (magic 0xBA55ED50), whole or cut.
bool looks_like_fatbin(const Bytes& bytes, Extent where);

/// Reads every container inside `where`, in file order. Offsets in the result count from the start of `bytes`.
/// With any_data loose cubins (in no container) are found too: one row with one image each; and `outside` is given what
/// lies in no fat binary, so that whoever else has to search the same data need not read it again.
std::vector<FatBinary> read_fat_binaries(const Bytes& bytes, Extent where, FatbinPlace place,
                                         const std::optional<std::string>& section, const ReadOptions& options,
                                         std::vector<Problem>& problems, NeedleSearch* outside = nullptr);

/// Checks the wrappers in .nvFatBinSegment or .nvFatBi (24 bytes each: magic, version, two pointers). The
/// pointers are not followed: linkers leave them zero, and every container is found without them.
void check_wrappers(const Bytes& bytes, Extent where, std::vector<Problem>& problems);

}  // namespace cudeploy
