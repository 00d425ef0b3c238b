// One file, whatever it is, becomes plain facts. This is the only door to LIEF: no header of ours shows it,
// since its interface changes with each release and its parser copies what it is given.
#pragma once

#include <string>
#include <vector>

#include "bytes.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// Reads one file. `path` is only copied into the record. A static archive gives one record per member that
/// has something for us; anything else gives exactly one record (format other where there is nothing to
/// read). Damage goes into `problems`; only running out of memory throws.
std::vector<FileRecord> read_binary(const std::string& path, const Bytes& bytes, const ReadOptions& options);

/// ELF facts alone, from LIEF's parse of the whole file: what the slice is measured against. Takes seconds and
/// twice the file's size in memory.
FileRecord read_elf_with_lief_alone(const std::string& path, const Bytes& bytes);

}  // namespace cudeploy
