// Files are hostile, large, and may be cut while they are read. A mapping would raise SIGBUS then, and
// every page touched through it counts as resident memory. So all readers take bytes through this one
// door: positioned reads that can come back short, over a file, a block of memory, or a part of either.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cudeploy {

/// A part of a file or of memory: `offset` and `size` in bytes.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  std::uint64_t end() const { return offset + size; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Read-only random access. Implementations never throw on a short read.
class Bytes {
 public:
  virtual ~Bytes() = default;

  /// Size in bytes when the source was opened; a file may have shrunk since.
  virtual std::uint64_t size() const = 0;

  /// Copies up to `out.size()` bytes from `offset`; returns how many came. Fewer only past the end, after
  /// the file was cut, or on an I/O error.
  virtual std::size_t read(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// One trivially copyable little-endian value (the host is little-endian, asserted in bytes.cpp), or
  /// nothing when it does not lie wholly inside.
  template <typename T>
  std::optional<T> value(std::uint64_t offset) const {
    T out;
    if (read(offset, std::as_writable_bytes(std::span(&out, 1))) != sizeof(T)) return std::nullopt;
    return out;
  }

  /// The bytes of `where`, as many as there are. The caller bounds `where.size` before.
  std::vector<std::byte> copy(Extent where) const;

  /// True when `where` lies inside, with no overflow.
  bool holds(Extent where) const { return where.offset <= size() && where.size <= size() - where.offset; }
};

/// A file by descriptor (pread). Owns the descriptor.
class FileBytes final : public Bytes {
 public:
  explicit FileBytes(int descriptor);
  ~FileBytes() override;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  /// Opens a regular file, following symlinks, never blocking on a FIFO or device. On failure: nullptr and
  /// `why` ("permission denied", "not a regular file").
  static std::unique_ptr<FileBytes> open(const std::string& path, std::string& why);

  std::uint64_t size() const override { return size_; }
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const override;

  /// Empty, or why what was read does not tell all that the file held: bytes that were read for did not come, or the
  /// file has changed since it was opened (its size or its time of change; one that is only looked at, linked or given
  /// other rights has not).
  std::string fault() const;

 private:
  int descriptor_;
  std::uint64_t size_ = 0;
  std::timespec changed_{};  ///< when the content last was, as the system had it when the file was opened
  // Sections are read by several threads; any one failure of theirs will do.
  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};
  mutable std::atomic<std::uint64_t> missing_ = nowhere;  ///< the offset from which on nothing came
  mutable std::atomic<int> error_ = 0;                    ///< of errno; 0: the file ended there
};

/// Memory that somebody else keeps alive.
class MemoryBytes final : public Bytes {
 public:
  explicit MemoryBytes(std::span<const std::byte> memory) : memory_(memory) {}
  std::uint64_t size() const override { return memory_.size(); }
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::span<const std::byte> memory_;
};

/// A part of another source, seen as a whole: the member of an archive.
class PartBytes final : public Bytes {
 public:
  PartBytes(const Bytes& whole, Extent part) : whole_(whole), part_(part) {}
  std::uint64_t size() const override { return part_.size; }
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  const Bytes& whole_;
  Extent part_;
};

}  // namespace cudeploy
