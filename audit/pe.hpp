// A Windows program says in a few small tables where things lie and what it needs. LIEF 0.9.0 copies the whole file
// to read them, up to 260 MB in published wheels, and knows no delayed imports; so they are read here, at their places.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// One section header; `where` is the part that lies in the file and is loaded.
struct PeSection {
  std::string name;  ///< eight bytes, or whole where the file keeps its string table
  std::uint32_t flags = 0;
  std::uint32_t address = 0;  ///< relative to the image base
  Extent where;
  std::uint64_t memory = 0;  ///< bytes in memory: what the file does not have of them is zeros
  bool holds_imports = false;

  bool is_writable() const;
  bool is_data() const;  ///< loaded bytes that are not only code
};

/// Where things lie in a PE file, and what it needs. Every extent lies inside the file.
struct PeLayout {
  std::uint16_t machine = 0;
  bool is_dll = false;
  std::uint64_t image_base = 0;
  std::vector<PeSection> sections;
  std::vector<std::string> imports;          ///< DLLs that are loaded with the file, as it spells them, each once
  std::vector<std::string> delayed_imports;  ///< DLLs that are loaded at the first call into them
  std::optional<std::string> export_name;    ///< what the file calls itself in its export directory
  Extent export_directory;

  /// The part of the file that is mapped at `address` (relative to the image base), from there to the end of its
  /// section. Empty where nothing of the file is mapped.
  Extent at_address(std::uint32_t address) const;

  /// Whether there are zeros at `address` because the file has nothing for it: of a file with debug information alone
  /// (objcopy --only-keep-debug) that holds for all tables.
  bool is_zeros(std::uint32_t address) const;
};

/// True for a DOS header that leads to a PE signature.
bool looks_like_pe(const Bytes& bytes);

/// Reads headers and tables, of 64-bit and of 32-bit files. Nothing where the headers are damaged; what is wrong goes
/// to `problems`.
std::optional<PeLayout> read_pe_layout(const Bytes& bytes, std::vector<Problem>& problems);

/// Names of the exported functions and variables.
std::vector<std::string> pe_exports(const Bytes& bytes, const PeLayout& layout);

}  // namespace cudeploy
