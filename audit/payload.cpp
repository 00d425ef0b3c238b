#include "payload.hpp"

#include <fmt/format.h>
#include <lz4.h>
#include <lz4frame.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

namespace cudeploy {
namespace {

constexpr std::size_t chunk = 128u << 10;

/// LZ4 cannot do better than 255 bytes for one.
constexpr std::uint64_t lz4_best_ratio = 255;

/// Takes the decompressed stream piece by piece and cuts the parts out of it.
class PartCutter {
 public:
  PartCutter(std::span<const Extent> parts, const std::function<void(std::size_t, std::vector<std::byte>)>& take)
      : parts_(parts), take_(take) {
    finish_parts();
  }

  bool done() const { return next_ == parts_.size(); }
  std::uint64_t position() const { return position_; }

  void put(std::span<const std::byte> piece) {
    const std::uint64_t piece_end = position_ + piece.size();
    while (!done()) {
      const Extent& part = parts_[next_];
      const std::uint64_t from = part.offset + image_.size();
      if (from >= piece_end) break;
      const std::uint64_t count = std::min(part.end(), piece_end) - from;
      if (image_.empty()) image_.reserve(part.size);  // address space only, bounded by largest_image
      const auto begin = piece.begin() + static_cast<std::ptrdiff_t>(from - position_);
      image_.insert(image_.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
      if (image_.size() < part.size) break;
      finish_parts();
    }
    position_ = piece_end;
  }

 private:
  void finish_parts() {
    while (!done() && image_.size() == parts_[next_].size) {
      take_(next_, std::move(image_));
      image_ = {};
      ++next_;
    }
  }

  std::span<const Extent> parts_;
  const std::function<void(std::size_t, std::vector<std::byte>)>& take_;
  std::size_t next_ = 0;
  std::uint64_t position_ = 0;
  std::vector<std::byte> image_;
};

/// Reads the stored bytes in chunks. An empty chunk: the end, or a file that was cut.
class Source {
 public:
  Source(const Bytes& bytes, Extent where)
      : bytes_(bytes), where_(where), buffer_(std::min<std::uint64_t>(chunk, where.size)) {}

  std::span<const std::byte> next() {
    const std::uint64_t count = std::min<std::uint64_t>(buffer_.size(), where_.size - position_);
    const std::size_t got = bytes_.read(where_.offset + position_, std::span(buffer_).first(count));
    position_ += got;
    return std::span(buffer_).first(got);
  }
  bool at_end() const { return position_ == where_.size; }

 private:
  const Bytes& bytes_;
  Extent where_;
  std::vector<std::byte> buffer_;
  std::uint64_t position_ = 0;
};

std::string cut_text(const PartCutter& cutter, std::uint64_t size) {
  return fmt::format("expected {} bytes, the data ends after {}", size, cutter.position());
}

bool unpack_none(const Bytes& bytes, const Stored& stored, std::span<const Extent> parts, PartCutter& cutter,
                 std::string& fault) {
  // No stream has to be walked: only the parts are read.
  if (parts.empty()) return true;
  Source source(bytes, {stored.where.offset, std::min(stored.where.size, parts.back().end())});
  while (!cutter.done()) {
    const auto piece = source.next();
    if (piece.empty()) {
      fault = cut_text(cutter, parts.back().end());
      return false;
    }
    cutter.put(piece);
  }
  return true;
}

bool unpack_zstd(const Bytes& bytes, const Stored& stored, bool whole, PartCutter& cutter, std::string& fault) {
  Source source(bytes, stored.where);
  auto piece = source.next();
  const unsigned long long claimed = ZSTD_getFrameContentSize(piece.data(), piece.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR) {
    fault = "expected a zstd frame, found none";
    return false;
  }
  if (claimed == ZSTD_CONTENTSIZE_UNKNOWN || claimed != stored.size) {
    fault = claimed == ZSTD_CONTENTSIZE_UNKNOWN
                ? fmt::format("uncompressed size: the entry says {}, the zstd frame does not say", stored.size)
                : fmt::format("uncompressed size: the entry says {}, the zstd frame {}", stored.size, claimed);
    return false;
  }
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) throw std::bad_alloc();
  std::vector<std::byte> out(chunk);
  std::size_t left = 1;  // 0 once the frame is complete
  while (left != 0 && (whole || !cutter.done())) {
    if (piece.empty()) {
      fault = cut_text(cutter, stored.size);
      return false;
    }
    ZSTD_inBuffer input{piece.data(), piece.size(), 0};
    bool more = true;
    while (left != 0 && more && (whole || !cutter.done())) {
      ZSTD_outBuffer output{out.data(), out.size(), 0};
      left = ZSTD_decompressStream(context.get(), &output, &input);
      if (ZSTD_isError(left)) {
        fault = fmt::format("zstd: {}", ZSTD_getErrorName(left));
        return false;
      }
      if (output.pos > stored.size - cutter.position()) {
        fault = fmt::format("zstd: more than the {} bytes that the entry says", stored.size);
        return false;
      }
      cutter.put(std::span(out).first(output.pos));
      more = input.pos < input.size || output.pos == out.size();
    }
    if (left == 0 && (input.pos < input.size || !source.at_end())) {
      fault = "zstd: bytes follow the end of the frame";
      return false;
    }
    if (left != 0) piece = source.next();
  }
  if (whole && cutter.position() != stored.size) {
    fault = cut_text(cutter, stored.size);
    return false;
  }
  return true;
}

bool unpack_lz4_frame(const Bytes& bytes, const Stored& stored, bool whole, PartCutter& cutter, std::string& fault) {
  LZ4F_dctx* raw = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&raw, LZ4F_VERSION))) throw std::bad_alloc();
  std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> context(raw, LZ4F_freeDecompressionContext);
  Source source(bytes, stored.where);
  std::vector<std::byte> out(chunk);
  std::size_t left = 1;
  while (left != 0 && (whole || !cutter.done())) {
    auto piece = source.next();
    if (piece.empty()) {
      fault = cut_text(cutter, stored.size);
      return false;
    }
    bool more = true;
    while (left != 0 && more && (whole || !cutter.done())) {
      std::size_t produced = out.size(), consumed = piece.size();
      left = LZ4F_decompress(context.get(), out.data(), &produced, piece.data(), &consumed, nullptr);
      if (LZ4F_isError(left)) {
        fault = fmt::format("lz4: {}", LZ4F_getErrorName(left));
        return false;
      }
      if (produced > stored.size - cutter.position()) {
        fault = fmt::format("lz4: more than the {} bytes that the entry says", stored.size);
        return false;
      }
      cutter.put(std::span(out).first(produced));
      piece = piece.subspan(consumed);
      more = !piece.empty() || produced == out.size();
      if (produced == 0 && consumed == 0) more = false;
    }
    if (left == 0 && (!piece.empty() || !source.at_end())) {
      fault = "lz4: bytes follow the end of the frame";
      return false;
    }
  }
  if (whole && cutter.position() != stored.size) {
    fault = cut_text(cutter, stored.size);
    return false;
  }
  return true;
}

bool unpack_lz4_block(const Bytes& bytes, const Stored& stored, PartCutter& cutter, std::string& fault) {
  // A raw block has no pieces: it is decompressed whole, so it is bounded whole.
  if (stored.size > largest_image) {
    fault = fmt::format("lz4: a block of {} bytes is over the limit of {}", stored.size, largest_image);
    return false;
  }
  if (stored.where.size > static_cast<std::uint64_t>(LZ4_compressBound(static_cast<int>(stored.size)))) {
    fault = fmt::format("lz4: {} stored bytes are more than {} bytes can become", stored.where.size, stored.size);
    return false;
  }
  const auto input = bytes.copy(stored.where);
  if (input.size() != stored.where.size) {
    fault = fmt::format("expected {} stored bytes, the data ends after {}", stored.where.size, input.size());
    return false;
  }
  const auto out = std::make_unique_for_overwrite<std::byte[]>(stored.size);
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(input.data()), reinterpret_cast<char*>(out.get()),
                                      static_cast<int>(input.size()), static_cast<int>(stored.size));
  if (got < 0) {
    fault = "lz4: the block is damaged";
    return false;
  }
  if (static_cast<std::uint64_t>(got) != stored.size) {
    fault = fmt::format("uncompressed size: the entry says {}, the lz4 block holds {}", stored.size, got);
    return false;
  }
  cutter.put(std::span(out.get(), stored.size));
  return true;
}

bool unpack_stream(const Bytes& bytes, const Stored& stored, std::span<const Extent> parts, bool whole,
                   const std::function<void(std::size_t, std::vector<std::byte>)>& take, std::string& fault) {
  if (!bytes.holds(stored.where)) {
    fault = fmt::format("expected {} stored bytes, the file ends before", stored.where.size);
    return false;
  }
  if ((stored.codec == Codec::lz4_block || stored.codec == Codec::lz4_frame) &&
      stored.size / lz4_best_ratio > stored.where.size) {
    fault =
        fmt::format("uncompressed size: {} bytes cannot come out of {} bytes of lz4", stored.size, stored.where.size);
    return false;
  }
  for (const Extent& part : parts) {
    if (part.size > largest_image) {
      fault =
          fmt::format("uncompressed size: {} bytes are over the limit of {} for one image", part.size, largest_image);
      return false;
    }
    if (part.offset > stored.size || part.size > stored.size - part.offset) {
      fault = fmt::format("{} bytes at {} lie outside the {} uncompressed bytes", part.size, part.offset, stored.size);
      return false;
    }
  }
  PartCutter cutter(parts, take);
  const auto walk = [&] {
    switch (stored.codec) {
      case Codec::none:
        return unpack_none(bytes, stored, parts, cutter, fault);
      case Codec::zstd:
        return unpack_zstd(bytes, stored, whole, cutter, fault);
      case Codec::lz4_frame:
        return unpack_lz4_frame(bytes, stored, whole, cutter, fault);
      case Codec::lz4_block:
        return unpack_lz4_block(bytes, stored, cutter, fault);
    }
    return false;
  };
  if (!walk()) return false;
  // A stream may be whole, and shorter than its entry says.
  if (!cutter.done()) fault = cut_text(cutter, parts.back().end());
  return cutter.done();
}

}  // namespace

bool unpack_parts(const Bytes& bytes, const Stored& stored, std::span<const Extent> parts,
                  const std::function<void(std::size_t, std::vector<std::byte>)>& take, std::string& fault) {
  return unpack_stream(bytes, stored, parts, false, take, fault);
}

std::optional<std::vector<std::byte>> unpack(const Bytes& bytes, const Stored& stored, std::string& fault) {
  std::optional<std::vector<std::byte>> out;
  const Extent all{0, stored.size};
  const auto take = [&](std::size_t, std::vector<std::byte> image) { out = std::move(image); };
  if (!unpack_stream(bytes, stored, std::span(&all, 1), true, take, fault)) return std::nullopt;
  return out;
}

}  // namespace cudeploy
