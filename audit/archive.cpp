#include "archive.hpp"

#include <ar.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace cudeploy {

namespace {

constexpr std::string_view kThinMagic = "!<thin>\n";
constexpr std::uint64_t kMaxNameTable = 16 << 20;
constexpr std::uint64_t kMaxNameLength = 4096;

std::string_view trimmed(std::string_view field) {
  std::size_t end = field.find_last_not_of(' ');
  return end == std::string_view::npos ? std::string_view{} : field.substr(0, end + 1);
}

/// A decimal field. Nothing when there is anything but digits: "-1" included.
std::optional<std::uint64_t> decimal(std::string_view field) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc{} || end != field.data() + field.size()) return std::nullopt;
  return value;
}

std::string text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool looks_like_archive(const Bytes& bytes) {
  auto magic = bytes.value<std::array<char, SARMAG>>(0);
  if (!magic) return false;
  std::string_view found(magic->data(), magic->size());
  return found == ARMAG || found == kThinMagic;
}

std::vector<ArchiveMember> read_archive(const Bytes& bytes, std::vector<Problem>& problems) {
  std::vector<ArchiveMember> members;
  auto magic = bytes.value<std::array<char, SARMAG>>(0);
  if (magic && std::string_view(magic->data(), magic->size()) == kThinMagic) {
    problems.push_back({0, "thin archive: expected members inside the file, found only their paths"});
    return members;
  }
  std::string long_names;  // GNU: "name/\n" after each other, referred to as "/offset"
  std::uint64_t at = SARMAG;
  while (at < bytes.size()) {
    auto header = bytes.value<ar_hdr>(at);
    if (!header) {
      problems.push_back(
          {at, fmt::format("archive member header: expected {} bytes, found {}", sizeof(ar_hdr), bytes.size() - at)});
      break;
    }
    if (std::string_view(header->ar_fmag, sizeof header->ar_fmag) != ARFMAG) {
      problems.push_back(
          {at + offsetof(ar_hdr, ar_fmag), "archive member header: expected the end mark '`\\n', found other bytes"});
      break;
    }
    std::string_view size_field = trimmed({header->ar_size, sizeof header->ar_size});
    auto size = decimal(size_field);
    std::uint64_t data = at + sizeof(ar_hdr);
    std::uint64_t left = bytes.size() - data;
    if (!size) {
      problems.push_back({at + offsetof(ar_hdr, ar_size),
                          fmt::format("archive member size: expected a decimal number, found '{}'", size_field)});
      break;
    }
    if (*size > left) {
      problems.push_back({at + offsetof(ar_hdr, ar_size),
                          fmt::format("archive member size: expected at most {} bytes, found {}", left, *size)});
    }
    Extent where{data, std::min(*size, left)};
    at = where.end() + (where.end() & 1);

    std::string name(trimmed({header->ar_name, sizeof header->ar_name}));
    if (name == "/" || name == "/SYM64/") continue;
    if (name == "//") {
      long_names = text(bytes.copy({where.offset, std::min(where.size, kMaxNameTable)}));
      continue;
    }
    if (name.starts_with("#1/")) {  // BSD: the name precedes the member's bytes
      auto length = decimal(std::string_view(name).substr(3));
      if (!length || *length > where.size || *length > kMaxNameLength) {
        problems.push_back({data - sizeof(ar_hdr),
                            fmt::format("archive member name: expected a length inside the member, found '{}'", name)});
        continue;
      }
      name = text(bytes.copy({where.offset, *length}));
      name.resize(std::min(name.find('\0'), name.size()));
      where = {where.offset + *length, where.size - *length};
      if (name.starts_with("__.SYMDEF")) continue;
    } else if (name.starts_with('/')) {
      auto offset = decimal(std::string_view(name).substr(1));
      if (!offset || *offset >= long_names.size()) {
        problems.push_back(
            {data - sizeof(ar_hdr),
             fmt::format("archive member name: expected an offset inside the name table of {} bytes, found '{}'",
                         long_names.size(), name)});
      } else {
        // A table without an end of line must not be searched to its end for each member.
        name = long_names.substr(*offset, kMaxNameLength);
        name.resize(std::min(name.find('\n'), name.size()));
      }
    }
    if (name.size() > 1 && name.ends_with('/')) name.pop_back();
    members.push_back({name, where});
  }
  return members;
}

}  // namespace cudeploy
