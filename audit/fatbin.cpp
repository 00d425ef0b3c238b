#include "fatbin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "cubin.hpp"
#include "payload.hpp"
#include "ptx.hpp"

namespace cudeploy {
namespace {

constexpr std::uint32_t container_magic = 0xBA55ED50;
constexpr std::uint32_t wrapper_magic = 0x466243B1;
constexpr std::uint16_t container_version = 1;
constexpr std::uint16_t container_header_size = 16;
constexpr std::uint16_t entry_version = 0x0101;
constexpr std::uint64_t wrapper_size = 24;

// entry kinds
constexpr std::uint16_t kind_ptx = 0x01, kind_cubin = 0x02, kind_old_cubin = 0x04, kind_lto = 0x08,
                        kind_reloc_ptx = 0x40, kind_tile = 0x80, kind_group = 0x100;

// entry flags
constexpr std::uint64_t flag_debug = 0x2, flag_before_lz4 = 0x1000, flag_lz4_block = 0x2000, flag_lz4_frame = 0x4000,
                        flag_zstd = 0x8000, flag_obfuscated = 0x10000, flag_arch_specific = 0x100000,
                        flag_family = 0x200000, flag_compat_copy = 0x1000000;
constexpr std::uint64_t any_compression = flag_before_lz4 | flag_lz4_block | flag_lz4_frame | flag_zstd;

// What a hostile file can cost. The largest file seen has 23,983 containers; the most images in one file are 5,737.
constexpr std::size_t most_problems = 1000;
constexpr std::size_t most_containers = 1u << 20;
constexpr std::size_t most_images = 1u << 20;
constexpr std::uint64_t most_wasted_steps = 1u << 20;
constexpr std::uint64_t longest_string = 4096;

constexpr std::size_t block_size = 256u << 10;
constexpr std::size_t near_size = 4096;
/// Bytes that must be seen at once to tell a magic: those of the longer ones, a cubin's and a PTX text's.
constexpr std::size_t magic_size = 8;
static_assert(ptx_begin.size() == magic_size);
/// What a search needs to see at once, the end of the data aside, to go on from block to block.
constexpr std::size_t least_block = 2 * longest_needle;
static_assert(magic_size <= longest_needle);

struct ContainerHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_size;
  std::uint64_t size;
};
static_assert(sizeof(ContainerHeader) == container_header_size);

/// Also the layout of a member header in a concatenated entry, where `header_size` is the image's offset in the
/// decompressed stream.
struct EntryHeader {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_size;
  std::uint64_t payload_size;
  std::uint32_t compressed_size;
  std::uint32_t extension_offset;
  std::uint16_t minor;
  std::uint16_t major;
  std::uint32_t arch;
  std::uint32_t name_offset;
  std::uint32_t name_length;
  std::uint64_t flags;
  std::uint64_t lto_word;
  std::uint64_t uncompressed_size;
};
static_assert(sizeof(EntryHeader) == 64 && offsetof(EntryHeader, flags) == 0x28);

struct StringRef {
  std::uint32_t offset;
  std::uint32_t length;
};

constexpr std::uint64_t pad8(std::uint64_t size) { return (size + 7) & ~std::uint64_t{7}; }

/// Reads through a small window, so that header after header costs one system call, and through the block that
/// is being searched while it covers what is asked.
class Window final : public Bytes {
 public:
  explicit Window(const Bytes& source) : source_(source), near_(near_size) {}

  std::uint64_t size() const override { return source_.size(); }

  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (out.empty()) return 0;
    if (covers(block_at_, block_filled_, offset, out.size())) {
      std::memcpy(out.data(), block_.data() + (offset - block_at_), out.size());
      return out.size();
    }
    if (!covers(near_at_, near_filled_, offset, out.size())) {
      if (out.size() > near_.size() / 2) return source_.read(offset, out);
      near_at_ = offset;
      near_filled_ = source_.read(offset, near_);
    }
    const std::size_t count = std::min(out.size(), near_filled_ - static_cast<std::size_t>(offset - near_at_));
    std::memcpy(out.data(), near_.data() + (offset - near_at_), count);
    return count;
  }

  /// The bytes from `offset` to `end`, as many as a block holds.
  std::span<const std::byte> block(std::uint64_t offset, std::uint64_t end) {
    if (!covers(block_at_, block_filled_, offset, std::min<std::uint64_t>(least_block, end - offset))) {
      // Behind a container the next one mostly begins at once: only a search that goes on takes large blocks.
      const bool goes_on = offset >= block_at_ && offset - block_at_ <= block_filled_;
      block_wanted_ = goes_on ? std::min(4 * block_wanted_, block_size) : near_size;
      if (block_.size() < block_wanted_) block_.resize(block_wanted_);
      block_at_ = offset;
      block_filled_ = source_.read(offset, std::span(block_).first(block_wanted_));
    }
    const auto rest = std::span(block_).first(block_filled_).subspan(offset - block_at_);
    return rest.first(std::min<std::uint64_t>(rest.size(), end - offset));
  }

 private:
  static bool covers(std::uint64_t at, std::size_t filled, std::uint64_t offset, std::uint64_t count) {
    return offset >= at && offset - at <= filled && count <= filled - (offset - at);
  }

  const Bytes& source_;
  std::vector<std::byte> block_;
  std::uint64_t block_at_ = 0;
  std::size_t block_filled_ = 0;
  std::size_t block_wanted_ = near_size;
  mutable std::vector<std::byte> near_;
  mutable std::uint64_t near_at_ = 0;
  mutable std::size_t near_filled_ = 0;
};

bool is_container_magic(const std::byte* at) {
  std::uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value == container_magic;
}

/// 64-bit little-endian ELF of an OS/ABI that only cubins have.
bool is_cubin_magic(const std::byte* at) {
  constexpr std::array<unsigned char, 7> ident{0x7f, 'E', 'L', 'F', 2, 1, 1};
  return std::memcmp(at, ident.data(), ident.size()) == 0 && (at[7] == std::byte{0x33} || at[7] == std::byte{0x41});
}

bool is_ptx_begin(const std::byte* at) { return std::memcmp(at, ptx_begin.data(), ptx_begin.size()) == 0; }

/// Whether `data` begins with a whole magic; `bare`: also with one of what is in no container.
bool is_magic(std::span<const std::byte> data, bool bare) {
  if (data.size() < magic_size) return false;
  return is_container_magic(data.data()) || (bare && (is_cubin_magic(data.data()) || is_ptx_begin(data.data())));
}

/// Where an image's bytes lie and what its entry says of them; kept while its container is read.
struct Payload {
  Stored stored;
  Extent part;  ///< of the decompressed stream
  bool readable = false;
  std::uint16_t minor = 0, major = 0;
};

class Reader {
 public:
  Reader(const Bytes& bytes, const std::optional<std::string>& section, const ReadOptions& options,
         std::vector<Problem>& problems, NeedleSearch* outside)
      : window_(bytes),
        section_(section),
        options_(options),
        problems_(problems),
        outside_(outside),
        first_problem_(problems.size()) {
    magics_.add('\x50', '\xed');
    magics_.add('\x7f', 'E');
    magics_.add(ptx_begin[0], ptx_begin[1]);
    if (outside_ != nullptr) outside_->add_pairs(magics_);
  }

  std::vector<FatBinary> read_section(Extent where) {
    std::uint64_t at = where.offset;
    while (at < where.end() && !full()) {
      at = skip_zeros(at, where.end());
      if (at == where.end()) break;
      const auto magic = window_.value<std::uint32_t>(at);
      if (where.end() - at >= sizeof container_magic && magic == container_magic) {
        at = read_container(at, where.end());
      } else {
        const std::uint64_t next = find_container(at + 1, where.end());
        report(at, fmt::format("container magic: expected 0x{:08x}, found {}; {} bytes are in no fat binary",
                               container_magic, magic ? fmt::format("0x{:08x}", *magic) : "the end of the file",
                               next - at));
        at = next;
      }
    }
    return std::move(out_);
  }

  std::vector<FatBinary> search(Extent where) {
    std::uint64_t at = where.offset, floor = at;  // what is below belongs to something
    for (bool more = true; at < where.end();) {
      at = next_magic(at, where.end(), true);
      if (at >= where.end()) break;
      more = more && !full() && may_try(at);
      if (!more) {  // what is left is no device code, but others search it
        ++at;
        continue;
      }
      std::uint64_t end = 0;
      if (window_.value<std::uint32_t>(at) == container_magic) {
        end = accept_container(at, where.end());
        if (end != 0) at = read_container(at, where.end());
      } else {
        end = window_.value<char>(at) == ptx_begin[0] ? accept_ptx(at, {floor, where.end() - floor})
                                                      : accept_cubin(at, where.end());
        if (end != 0) at = end;
      }
      if (end == 0)
        ++at;
      else
        floor = at;
    }
    return std::move(out_);
  }

 private:
  void report(std::uint64_t offset, std::string message) {
    const std::size_t count = problems_.size() - first_problem_;
    if (count < most_problems) problems_.push_back({offset, std::move(message)});
    if (count == most_problems)
      problems_.push_back({offset, fmt::format("more than {} problems; the rest is not listed", most_problems)});
  }

  /// True, with a problem, when the file holds more than anybody would ship.
  bool full() {
    if (out_.size() < most_containers && images_ < most_images) return false;
    report(out_.empty() ? 0 : out_.back().offset,
           fmt::format("more than {} fat binaries or {} images; the rest is not read", most_containers, most_images));
    return true;
  }

  /// False, with a problem, when too many false starts make the search endless.
  bool may_try(std::uint64_t at) {
    if (wasted_ < most_wasted_steps) return true;
    report(at, "too much that begins as device code and is none; the search ends here");
    return false;
  }

  std::uint64_t skip_zeros(std::uint64_t at, std::uint64_t end) {
    std::array<std::byte, 1024> piece;
    while (at < end) {
      const auto wanted = std::span(piece).first(std::min<std::uint64_t>(piece.size(), end - at));
      const std::size_t got = window_.read(at, wanted);
      if (got == 0) return end;
      const auto first = std::find_if(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got),
                                      [](std::byte b) { return b != std::byte{0}; });
      at += static_cast<std::uint64_t>(first - piece.begin());
      if (first != piece.begin() + static_cast<std::ptrdiff_t>(got)) return at;
    }
    return at;
  }

  /// The next place at or after `at` where a magic stands, or `end`. What is passed over lies outside.
  std::uint64_t next_magic(std::uint64_t at, std::uint64_t end, bool bare) {
    while (at < end) {
      const auto block = window_.block(at, end);
      const std::size_t found = magics_.find(block, [&](std::size_t pair) {
        if (is_magic(block.subspan(pair), bare)) return true;
        if (outside_ != nullptr) outside_->look(block, pair, at);
        return false;
      });
      if (found != block.size()) return at + found;
      if (block.size() < least_block || at + block.size() == end) return end;
      at += block.size() - longest_needle;
    }
    return end;
  }

  /// The next whole container at or after `at`, or `end`.
  std::uint64_t find_container(std::uint64_t at, std::uint64_t end) {
    for (at = next_magic(at, end, false); at < end; at = next_magic(at + 1, end, false)) {
      if (!may_try(at)) return end;
      if (accept_container(at, end) != 0) return at;
    }
    return end;
  }

  /// The end of the container at `at` when its whole chain of entries parses and ends exactly; else 0.
  std::uint64_t accept_container(std::uint64_t at, std::uint64_t limit) {
    const auto header = window_.value<ContainerHeader>(at);
    ++wasted_;
    if (!header || header->version != container_version || header->header_size != container_header_size) return 0;
    if (limit - at < container_header_size || header->size % 8 != 0) return 0;
    std::uint64_t left = limit - at - container_header_size;
    if (header->size > left) return 0;
    std::uint64_t entry = at + container_header_size;
    const std::uint64_t end = entry + header->size;
    std::uint64_t steps = 0;
    for (left = header->size; left != 0; left = end - entry) {
      const auto fields = left >= sizeof(EntryHeader) ? window_.value<EntryHeader>(entry) : std::nullopt;
      ++steps;
      if (!fields || fields->version != entry_version || !sizes_fit(*fields, left) || fields->payload_size % 8 != 0) {
        wasted_ += steps;
        return 0;
      }
      entry += fields->header_size + fields->payload_size;
    }
    --wasted_;
    return end;
  }

  static bool header_fits(const EntryHeader& entry, std::uint64_t left) {
    return entry.header_size >= sizeof(EntryHeader) && entry.header_size % 8 == 0 && entry.header_size <= left;
  }
  static bool sizes_fit(const EntryHeader& entry, std::uint64_t left) {
    return header_fits(entry, left) && entry.payload_size <= left - entry.header_size;
  }

  /// Adds the cubin at `at`, which is in no container; its end, or 0 when it is none.
  std::uint64_t accept_cubin(std::uint64_t at, std::uint64_t limit) {
    constexpr std::uint64_t section_count_offset = 60;
    const Extent where{at, limit - at};
    ++wasted_;
    if (!looks_like_cubin(window_, where)) return 0;
    std::string fault;
    if (!read_cubin_facts(window_, where, CubinDetail::headers, fault)) {
      const std::uint64_t sections = window_.value<std::uint16_t>(at + section_count_offset).value_or(0);
      wasted_ += sections == 0 ? 0x10000 : sections;
      return 0;
    }
    out_.push_back(read_cubin(window_, where, section_, options_, problems_));
    ++images_;
    --wasted_;
    return at + out_.back().size;
  }

  /// Adds the PTX text whose first directive is at `at`; its end, or 0 when it is none.
  std::uint64_t accept_ptx(std::uint64_t at, Extent where) {
    constexpr std::uint64_t step = 256;  // bytes
    std::uint64_t looked_at = 0;
    const auto text = ptx_text_around(window_, at, where, looked_at);
    if (!text) {
      wasted_ += 1 + looked_at / step;
      return 0;
    }
    out_.push_back(read_ptx(window_, *text, section_, options_, problems_));
    ++images_;
    return text->end();
  }

  /// Adds the container at `at`, whatever its state; where to go on.
  std::uint64_t read_container(std::uint64_t at, std::uint64_t limit) {
    const std::uint64_t left = limit - at;
    FatBinary container;
    container.offset = at;
    container.section = section_;
    const auto header = left >= container_header_size ? window_.value<ContainerHeader>(at) : std::nullopt;
    if (!header) {
      report(at, fmt::format("container header: expected {} bytes, found {}", container_header_size, left));
      container.size = left;
      out_.push_back(std::move(container));
      return limit;
    }
    if (header->version != container_version || header->header_size != container_header_size) {
      if (header->version != container_version) {
        report(at, fmt::format("container version: expected {}, found {}", container_version, header->version));
      } else {
        report(at,
               fmt::format("container header size: expected {}, found {}", container_header_size, header->header_size));
      }
      // Its size may mean something else, so the next one is looked for.
      const std::uint64_t next = find_container(at + 1, limit);
      container.size = next - at;
      out_.push_back(std::move(container));
      return next;
    }
    std::uint64_t size = header->size;
    if (size > left - container_header_size) {
      report(at, fmt::format("container size: expected at most the {} bytes that are left, found {}",
                             left - container_header_size, size));
      size = left - container_header_size;
    } else if (size % 8 != 0) {
      report(at, fmt::format("container size: expected a multiple of 8, found {}", size));
    }
    container.size = container_header_size + size;
    payloads_.clear();
    relocatable_ = false;
    read_entries(at + container_header_size, at + container.size, container);
    // A file of its own that holds nothing went wrong; among others it is common: one DLL of cuDNN 9.28 has 440.
    if (header->size == 0 && !section_) report(at, "container size: expected entries, found an empty container");
    read_payloads(container);
    container.loadable = !needs_link(container);
    images_ += container.images.size();
    out_.push_back(std::move(container));
    return at + out_.back().size;
  }

  void read_entries(std::uint64_t at, std::uint64_t end, FatBinary& container) {
    while (at < end && images_ + container.images.size() < most_images) {
      const std::uint64_t left = end - at;
      const auto entry = left >= sizeof(EntryHeader) ? window_.value<EntryHeader>(at) : std::nullopt;
      if (!entry) {
        Image image;
        image.offset = at;
        image.compression = Compression::unknown;
        add(container, std::move(image), {});
        report(at, fmt::format("entry header: expected {} bytes, found {}", sizeof(EntryHeader), left));
        return;
      }
      if (entry->version != entry_version) {
        report(at, fmt::format("entry version: expected 0x{:04x}, found 0x{:04x}", entry_version, entry->version));
      }
      const bool header_ok = header_fits(*entry, left), fits = sizes_fit(*entry, left);
      if (!header_ok) {
        report(at, fmt::format("entry header size: expected a multiple of 8 from {} to {}, found {}",
                               sizeof(EntryHeader), left, entry->header_size));
      } else if (!fits) {
        report(at,
               fmt::format("entry payload size: expected at most the {} bytes that are left in the container, found {}",
                           left - entry->header_size, entry->payload_size));
      } else if (entry->payload_size == 0) {
        report(at, "entry payload size: expected more than 0, found 0");
      }
      Payload payload = describe_payload(*entry, at, fits);
      const std::uint64_t header_end = at + (header_ok ? entry->header_size : sizeof(EntryHeader));
      if (entry->kind == kind_group && header_ok) {
        read_group(*entry, at, payload, container);
      } else {
        Image image = describe_image(*entry, at, header_end);
        image.header_size = entry->header_size;
        image.compression = compression_of(entry->flags);
        image.stored_size = entry->payload_size;
        image.size = image.compression == Compression::none ? entry->payload_size : entry->uncompressed_size;
        add(container, std::move(image), payload);
      }
      if (!fits) return;
      at += entry->header_size + entry->payload_size;
    }
  }

  void add(FatBinary& container, Image image, Payload payload) {
    container.images.push_back(std::move(image));
    payloads_.push_back(payload);
  }

  static Compression compression_of(std::uint64_t flags) {
    switch (flags & any_compression) {
      case 0:
        return Compression::none;
      case flag_lz4_block:
      case flag_lz4_frame:
        return Compression::lz4;
      case flag_zstd:
        return Compression::zstd;
      default:
        return Compression::unknown;
    }
  }

  /// Where the stored bytes lie and how to unpack them; reports what is wrong with flags and sizes.
  Payload describe_payload(const EntryHeader& entry, std::uint64_t at, bool fits) {
    Payload payload;
    payload.minor = entry.minor;
    payload.major = entry.major;
    payload.readable = fits && entry.payload_size != 0;
    payload.stored.where = {at + entry.header_size, entry.payload_size};
    payload.stored.size = entry.payload_size;
    const std::uint64_t compression = entry.flags & any_compression;
    if (compression != 0) {
      payload.stored.where.size = entry.compressed_size;
      payload.stored.size = entry.uncompressed_size;
      if (fits && entry.payload_size != 0 &&
          (entry.compressed_size == 0 || pad8(entry.compressed_size) != entry.payload_size)) {
        report(at, fmt::format("entry compressed size: expected {} to {} as the payload size says, found {}",
                               entry.payload_size < 8 ? 1 : entry.payload_size - 7, entry.payload_size,
                               entry.compressed_size));
        payload.readable = false;
      }
    }
    switch (compression) {
      case 0:
        payload.stored.codec = Codec::none;
        break;
      case flag_lz4_block:
        payload.stored.codec = Codec::lz4_block;
        break;
      case flag_lz4_frame:
        payload.stored.codec = Codec::lz4_frame;
        break;
      case flag_zstd:
        payload.stored.codec = Codec::zstd;
        break;
      case flag_before_lz4:
        report(at, "entry flags: compression 0x1000 is older than LZ4 and cannot be decompressed");
        payload.readable = false;
        break;
      default:
        report(at, fmt::format("entry flags: expected one compression, found several (0x{:04x})", compression));
        payload.readable = false;
    }
    if ((entry.flags & flag_obfuscated) != 0) payload.readable = false;
    payload.part = {0, payload.stored.size};
    return payload;
  }

  /// What entry and member headers have in common; `header_end` bounds names and options.
  Image describe_image(const EntryHeader& entry, std::uint64_t at, std::uint64_t header_end) {
    Image image;
    image.offset = at;
    image.entry_kind = entry.kind;
    image.flags = entry.flags;
    image.debug = (entry.flags & flag_debug) != 0;
    image.obfuscated = (entry.flags & flag_obfuscated) != 0;
    switch (entry.kind) {
      case kind_ptx:
        image.kind = ImageKind::ptx;
        break;
      case kind_cubin:
        image.kind = ImageKind::cubin;
        break;
      case kind_lto:
        image.kind = ImageKind::lto_ir;
        break;
      case kind_tile:
        image.kind = ImageKind::tile_ir;
        break;
      case kind_old_cubin:
      case kind_reloc_ptx:
      case kind_group:
        break;
      default:
        report(at, fmt::format("entry kind: 0x{:x} is not known", entry.kind));
    }
    if (entry.arch != 0) {
      image.arch = entry.arch;
    } else if (entry.kind != kind_group) {
      report(at, "entry architecture: expected the number of an SM, found 0");
    }
    const bool specific = (entry.flags & flag_arch_specific) != 0, family = (entry.flags & flag_family) != 0;
    if (specific && family) {
      report(at, "entry flags: both architecture-specific (a) and family-specific (f)");
    } else if (specific || family) {
      image.variant = specific ? "a" : "f";
    }
    if (image.kind == ImageKind::ptx) image.ptx_version = fmt::format("{}.{}", entry.major, entry.minor);

    if (entry.name_offset != 0) image.name = string("name", at, {entry.name_offset, entry.name_length}, header_end);
    if (entry.extension_offset != 0 && entry.kind != kind_group) {
      const auto extension = extension_of(entry, at, header_end);
      if (!extension) {
        report(at,
               fmt::format("entry extension offset: expected to lie in the header, found {}", entry.extension_offset));
      } else if ((entry.flags & flag_compat_copy) != 0) {
        image.arch_specific = compat_copy_says_specific(at, *extension, header_end);
      } else {
        if (extension->length != 0) image.options = string("options", at, *extension, header_end);
      }
    }
    return image;
  }

  std::optional<StringRef> extension_of(const EntryHeader& entry, std::uint64_t at, std::uint64_t header_end) const {
    if (entry.extension_offset > header_end - at || header_end - at - entry.extension_offset < sizeof(StringRef)) {
      return std::nullopt;
    }
    return window_.value<StringRef>(at + entry.extension_offset);
  }

  /// The copy of a cubin's .nv.compat: one byte 00, then the section as it is (12.8.0 had another form).
  bool compat_copy_says_specific(std::uint64_t at, StringRef where, std::uint64_t header_end) const {
    if (where.offset > header_end - at || where.length > header_end - at - where.offset) return false;
    const auto copy = window_.copy({at + where.offset, std::min<std::uint64_t>(where.length, longest_string)});
    return !copy.empty() && copy[0] == std::byte{0} && compat_says_arch_specific(std::span(copy).subspan(1));
  }

  std::string string(std::string_view what, std::uint64_t at, StringRef where, std::uint64_t header_end) {
    const std::uint64_t room = header_end - at;
    if (where.offset > room || where.length > room - where.offset) {
      report(at, fmt::format("entry {}: expected to lie in the {} bytes of the header, found {} bytes at {}", what,
                             room, where.length, where.offset));
      return {};
    }
    const auto bytes = window_.copy({at + where.offset, std::min<std::uint64_t>(where.length, longest_string)});
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return std::string(text.substr(0, text.find('\0')));
  }

  /// The members of a concatenated entry: their headers stand in clear in the entry's own header.
  void read_group(const EntryHeader& entry, std::uint64_t at, const Payload& payload, FatBinary& container) {
    const std::uint64_t list = at + sizeof(EntryHeader), header_end = at + entry.header_size;
    const auto area =
        entry.header_size - sizeof(EntryHeader) >= sizeof(StringRef) ? window_.value<StringRef>(list) : std::nullopt;
    const std::uint64_t count = area ? area->offset : 0, length = area ? area->length : 0;
    std::string fault;
    if (!area) {
      fault = "concatenated entry: expected a list of images after the header, found none";
    } else if (length != entry.header_size - sizeof(EntryHeader)) {
      fault = fmt::format("concatenated entry: expected a list of {} bytes, found {}",
                          entry.header_size - sizeof(EntryHeader), length);
    } else if (count == 0 || count > (length - sizeof(StringRef)) / sizeof(EntryHeader)) {
      fault = fmt::format("concatenated entry: expected 1 to {} images in a list of {} bytes, found {}",
                          (length - sizeof(StringRef)) / sizeof(EntryHeader), length, count);
    }
    std::uint64_t member_at = list + sizeof(StringRef);
    const Compression compression = compression_of(entry.flags);
    for (std::uint64_t index = 0; fault.empty() && index < count; ++index) {
      const auto member =
          header_end - member_at >= sizeof(EntryHeader) ? window_.value<EntryHeader>(member_at) : std::nullopt;
      const auto member_length = member ? length_of_member(*member, member_at, header_end) : std::nullopt;
      if (!member_length) {
        fault =
            fmt::format("concatenated entry: the header of image {} of {} does not fit in the list", index + 1, count);
        break;
      }
      if (member->version != entry_version) {
        report(member_at,
               fmt::format("entry version: expected 0x{:04x}, found 0x{:04x}", entry_version, member->version));
      }
      Image image = describe_image(*member, member_at, member_at + *member_length);
      image.group = at;
      image.header_size = static_cast<std::uint32_t>(*member_length);
      image.compression = compression;
      image.size = member->payload_size;
      Payload part = payload;
      part.minor = member->minor;
      part.major = member->major;
      part.part = {member->header_size, member->payload_size};
      if ((member->flags & flag_obfuscated) != 0) part.readable = false;
      if (part.part.offset > payload.stored.size || part.part.size > payload.stored.size - part.part.offset) {
        report(member_at,
               fmt::format("concatenated entry: image {}: {} bytes at {} do not fit in the {} uncompressed bytes",
                           index + 1, part.part.size, part.part.offset, payload.stored.size));
        part.readable = false;
      } else if (part.part.size == 0) {
        report(member_at, "entry payload size: expected more than 0, found 0");
        part.readable = false;
      }
      add(container, std::move(image), part);
      member_at += *member_length;
      if (images_ + container.images.size() >= most_images) return;
    }
    if (fault.empty() && member_at != header_end) {
      fault = fmt::format("concatenated entry: {} bytes follow the last of {} images", header_end - member_at, count);
    }
    if (!fault.empty()) {
      report(at, fault);
      Image image = describe_image(entry, at, header_end);
      image.header_size = entry.header_size;
      image.compression = compression;
      image.stored_size = entry.payload_size;
      image.size = payload.stored.size;
      add(container, std::move(image), {});
    }
  }

  /// A member header does not say its length: it is as long as the last thing in it reaches.
  std::optional<std::uint64_t> length_of_member(const EntryHeader& member, std::uint64_t at, std::uint64_t end) const {
    std::uint64_t length = sizeof(EntryHeader);
    if (member.name_offset != 0)
      length = std::max(length, member.name_offset + pad8(std::uint64_t{member.name_length} + 1));
    if (member.extension_offset != 0) {
      const auto extension = extension_of(member, at, end);
      if (!extension) return std::nullopt;
      length = std::max<std::uint64_t>(length, std::uint64_t{member.extension_offset} + sizeof(StringRef));
      if (extension->offset != 0)
        length = std::max(length, extension->offset + pad8(std::uint64_t{extension->length} + 1));
    }
    return length <= end - at ? std::optional(length) : std::nullopt;
  }

  // --- payloads ---

  void read_payloads(FatBinary& container) {
    for (std::size_t i = 0; i < container.images.size(); ++i) {
      // An uncompressed cubin tells its toolkit and counts its kernels for a few small reads.
      if (container.images[i].kind == ImageKind::cubin && payloads_[i].readable &&
          payloads_[i].stored.codec == Codec::none) {
        read_cubin_image(window_, absolute(payloads_[i]), container.images[i], payloads_[i],
                         options_.kernels || options_.for_audit);
      }
    }
    if (options_.payloads || options_.kernels) {
      std::vector<std::size_t> wanted;
      for (std::size_t i = 0; i < container.images.size(); ++i) {
        if (worth_unpacking(container.images[i], payloads_[i], options_.payloads)) wanted.push_back(i);
      }
      unpack_images(container, wanted);
    } else if (options_.for_audit) {
      find_kernels(container);
    }
  }

  static Extent absolute(const Payload& payload) {
    return {payload.stored.where.offset + payload.part.offset, payload.part.size};
  }

  bool worth_unpacking(const Image& image, const Payload& payload, bool all) const {
    if (!payload.readable) return false;
    if (image.kind == ImageKind::cubin) return payload.stored.codec != Codec::none;
    if (image.kind == ImageKind::ptx || image.entry_kind == kind_reloc_ptx) return true;
    return all;
  }

  /// One image with a kernel proves that the fat binary has kernels: the cheapest is asked first. None in any
  /// image proves that it has none.
  void find_kernels(FatBinary& container) {
    if (needs_link(container)) return;  // what has kernels is the image that comes of the link
    for (const Image& image : container.images) {
      if (image.kernel_count.value_or(0) > 0) return;
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < container.images.size(); ++i) {
      if (worth_unpacking(container.images[i], payloads_[i], false) && payloads_[i].part.size <= largest_image)
        order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
      return payloads_[left].part.end() < payloads_[right].part.end();
    });
    for (const std::size_t index : order) {
      unpack_images(container, {&index, 1});
      if (container.images[index].kernel_count.value_or(0) > 0) return;
    }
  }

  /// Unpacks the images at the positions `wanted` one by one; those of one concatenated entry in one pass.
  void unpack_images(FatBinary& container, std::span<const std::size_t> wanted) {
    for (std::size_t first = 0; first < wanted.size();) {
      std::size_t last = first + 1;
      const auto& group = container.images[wanted[first]].group;
      while (group && last < wanted.size() && container.images[wanted[last]].group == group) ++last;
      if (group) {
        unpack_group(container, wanted.subspan(first, last - first), *group);
      } else {
        unpack_single(container.images[wanted[first]], payloads_[wanted[first]]);
      }
      first = last;
    }
  }

  void unpack_single(Image& image, const Payload& payload) {
    std::string fault;
    if (const auto bytes = unpack(window_, payload.stored, fault)) {
      read_image(*bytes, image, payload);
    } else {
      report(image.offset, "payload does not decompress: " + fault);
    }
  }

  void unpack_group(FatBinary& container, std::span<const std::size_t> wanted, std::uint64_t group) {
    std::vector<std::size_t> order(wanted.begin(), wanted.end());
    std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
      return payloads_[left].part.offset < payloads_[right].part.offset;
    });
    std::vector<Extent> parts;
    for (const std::size_t index : order) {
      const Extent& part = payloads_[index].part;
      if (!parts.empty() && part.offset < parts.back().end()) {
        report(container.images[index].offset, "concatenated entry: two images overlap");
        return;
      }
      parts.push_back(part);
    }
    std::string fault;
    const auto take = [&](std::size_t part, std::vector<std::byte> bytes) {
      read_image(bytes, container.images[order[part]], payloads_[order[part]]);
    };
    if (!unpack_parts(window_, payloads_[order.front()].stored, parts, take, fault)) {
      report(group, "payload does not decompress: " + fault);
    }
  }

  void read_image(std::span<const std::byte> bytes, Image& image, const Payload& payload) {
    const bool names = options_.kernels || options_.for_audit;
    if (image.kind == ImageKind::cubin) {
      read_cubin_image(MemoryBytes(bytes), {0, bytes.size()}, image, payload, names);
    } else if (image.kind == ImageKind::ptx || image.entry_kind == kind_reloc_ptx) {
      read_ptx_image(bytes, image, names);
    } else if (image.kind == ImageKind::tile_ir) {
      constexpr std::string_view magic("\x7FTileIR\0", 8);
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!text.starts_with(magic)) report(image.offset, "tile ir: expected the magic 7F TileIR, found something else");
    }
  }

  void read_cubin_image(const Bytes& bytes, Extent where, Image& image, const Payload& payload, bool names) {
    std::string fault;
    auto facts = read_cubin_facts(bytes, where, names ? CubinDetail::kernels : CubinDetail::kernel_count, fault);
    if (!facts) {
      report(image.offset, "cubin: " + fault);
      return;
    }
    image.toolkit = std::move(facts->toolkit);
    image.kernel_count = facts->kernel_count;
    image.kernels = std::move(facts->kernels);
    image.arch_specific |= facts->arch_specific;
    relocatable_ |= facts->relocatable;
    // Cubins of tile kernels are labelled without the suffix by NVIDIA's own tools. A verdict goes by the cubin; that
    // the two differ is told to whoever asks for payloads.
    const bool as_tile_cubins_are = image.variant.empty() && facts->arch_specific && !options_.payloads;
    if (image.arch && facts->arch != *image.arch) {
      report(image.offset,
             fmt::format("architecture: the entry says sm_{}, the cubin inside sm_{}", *image.arch, facts->arch));
    } else if ((image.variant == "a") != facts->arch_specific && !as_tile_cubins_are) {
      report(image.offset, fmt::format("variant: the entry says sm_{}{}, the cubin inside sm_{}{}", facts->arch,
                                       image.variant, facts->arch, facts->variant.value_or("")));
    }
    if (facts->abi != payload.minor) {
      report(image.offset, fmt::format("cubin ABI: the entry says {}, the cubin inside {}", payload.minor, facts->abi));
    }
  }

  void read_ptx_image(std::span<const std::byte> bytes, Image& image, bool names) {
    std::string fault;
    auto facts = read_ptx_facts({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, fault);
    if (!facts) {
      report(image.offset, "ptx: " + fault);
      return;
    }
    image.kernel_count = static_cast<std::uint32_t>(facts->kernels.size());
    if (names) {
      for (auto& name : facts->kernels) image.kernels.push_back({std::move(name), std::nullopt, std::nullopt});
    }
    if (image.arch && (facts->arch != *image.arch || facts->variant != image.variant)) {
      report(image.offset, fmt::format("architecture: the entry says compute_{}{}, .target says sm_{}{}", *image.arch,
                                       image.variant, facts->arch, facts->variant));
    }
    if (image.ptx_version && facts->version != *image.ptx_version) {
      report(image.offset,
             fmt::format("ptx version: the entry says {}, .version says {}", *image.ptx_version, facts->version));
    }
  }

  /// Relocatable code: in its own section, or seen inside a cubin, or said by the options that are kept, or
  /// nothing but LTO-IR.
  bool needs_link(const FatBinary& container) const {
    if (relocatable_ || (section_ && section_->starts_with("__nv_rel"))) return true;
    bool only_unlinked = !container.images.empty();
    for (const Image& image : container.images) {
      if (image.entry_kind == kind_reloc_ptx || compiled_only(image.options)) return true;
      only_unlinked &= image.kind == ImageKind::lto_ir;
    }
    return only_unlinked;
  }

  static bool compiled_only(std::string_view options) {
    while (!options.empty()) {
      const auto word = options.substr(0, options.find(' '));
      if (word == "--compile-only" || word == "-c") return true;
      options.remove_prefix(std::min(options.size(), word.size() + 1));
    }
    return false;
  }

  Window window_;
  const std::optional<std::string>& section_;
  const ReadOptions& options_;
  std::vector<Problem>& problems_;
  NeedleSearch* outside_;
  PairFilter magics_;  ///< and the needles of `outside_`
  const std::size_t first_problem_;
  std::vector<FatBinary> out_;
  std::vector<Payload> payloads_;  ///< of the images of the container being read
  std::size_t images_ = 0;
  std::uint64_t wasted_ = 0;  ///< steps of parsing that led to nothing
  bool relocatable_ = false;  ///< a cubin of the container being read is
};

}  // namespace

bool looks_like_fatbin(const Bytes& bytes, Extent where) {
  return where.size >= sizeof container_magic && bytes.value<std::uint32_t>(where.offset) == container_magic;
}

std::vector<FatBinary> read_fat_binaries(const Bytes& bytes, Extent where, FatbinPlace place,
                                         const std::optional<std::string>& section, const ReadOptions& options,
                                         std::vector<Problem>& problems, NeedleSearch* outside) {
  const std::uint64_t offset = std::min(where.offset, bytes.size());
  const Extent inside{offset, std::min(where.size, bytes.size() - offset)};
  Reader reader(bytes, section, options, problems, outside);
  return place == FatbinPlace::named_section ? reader.read_section(inside) : reader.search(inside);
}

void check_wrappers(const Bytes& source, Extent where, std::vector<Problem>& problems) {
  const Window bytes(source);
  std::size_t reported = 0;
  for (std::uint64_t at = 0; where.size - at >= wrapper_size && reported < most_problems; at += wrapper_size) {
    const auto head = bytes.value<std::array<std::uint32_t, 2>>(where.offset + at);
    if (!head) {
      problems.push_back({where.offset + at, "fat binary wrapper: the file ends before it"});
      return;
    }
    const auto& [magic, version] = *head;
    if (magic != wrapper_magic) {
      problems.push_back({where.offset + at, fmt::format("fat binary wrapper magic: expected 0x{:08x}, found 0x{:08x}",
                                                         wrapper_magic, magic)});
      ++reported;
    } else if (version != 1 && version != 2) {
      problems.push_back(
          {where.offset + at, fmt::format("fat binary wrapper version: expected 1 or 2, found {}", version)});
      ++reported;
    }
  }
  if (where.size % wrapper_size != 0) {
    problems.push_back({where.offset, fmt::format("fat binary wrappers: expected a multiple of {} bytes, found {}",
                                                  wrapper_size, where.size)});
  }
}

}  // namespace cudeploy
