// A static library is a file of files. Its members are read where they lie, so the walk gives extents, which is
// what libarchive, made for streams, does not.
#pragma once

#include <string>
#include <vector>

#include "bytes.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// One member of a static library.
struct ArchiveMember {
  std::string name;
  Extent where;  ///< its bytes, inside the archive
};

/// True when `bytes` starts as an archive of ar does, thin ones included.
bool looks_like_archive(const Bytes& bytes);

/// Members in file order, symbol and name tables left out. Knows the GNU and the BSD way to write long names.
std::vector<ArchiveMember> read_archive(const Bytes& bytes, std::vector<Problem>& problems);

}  // namespace cudeploy
