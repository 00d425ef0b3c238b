// A worker tells the parent what it read: for a large library some six thousand images. As JSON that costs more than
// reading the library did. Between two processes of one program, fields after each other are enough; the parent
// still believes nothing: a worker may have been taken over by what it read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inspect_record.hpp"

namespace cudeploy {

/// Every field of every record, lists with their length, in the order of their declaration.
std::vector<std::uint8_t> encode(const std::vector<FileRecord>& files);
std::vector<std::uint8_t> encode(const InspectRecord& record);

/// Throws std::runtime_error where bytes are missing, left over or no value of their type.
std::vector<FileRecord> decode(std::span<const std::uint8_t> bytes);
InspectRecord decode_inspect_record(std::span<const std::uint8_t> bytes);

}  // namespace cudeploy
