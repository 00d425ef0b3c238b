// Compressed payloads. The first byte chooses the scheme, the next four the claimed size, one more the parts.
// legacy_frame_shorter_than_its_entry_says was found by this.
#include "payload.hpp"

#include <cstring>

#include "hostile_input.hpp"

using cudeploy::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cudeploy;
  constexpr std::size_t head = 6;
  if (size < head) return 0;
  std::uint32_t claimed = 0;
  std::memcpy(&claimed, data + 1, sizeof claimed);
  const MemoryBytes bytes({reinterpret_cast<const std::byte*>(data), size});
  const Stored stored{{head, size - head}, static_cast<Codec>(data[0] & 3), claimed & 0xffffff};
  std::string fault;
  const auto whole = unpack(bytes, stored, fault);
  require(whole.has_value() == fault.empty());
  if (whole) require(whole->size() == stored.size);
  const std::uint64_t length = 1 + stored.size / (1 + data[5] % 8);
  std::vector<Extent> parts;
  for (std::uint64_t at = data[5]; parts.size() < 8 && at < stored.size; at += 2 * length)
    parts.push_back({at, std::min(length, stored.size - at)});
  std::size_t next = 0;
  const bool good = unpack_parts(
      bytes, stored, parts,
      [&](std::size_t part, std::vector<std::byte> image) {
        require(part == next++ && image.size() == parts[part].size);
        if (whole) require(std::memcmp(whole->data() + parts[part].offset, image.data(), image.size()) == 0);
      },
      fault);
  require(!good || next == parts.size());
  require(!whole || good);
  return 0;
}
