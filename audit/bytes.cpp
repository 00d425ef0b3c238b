#include "bytes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace cudeploy {

static_assert(std::endian::native == std::endian::little, "the formats read here are little-endian");

std::vector<std::byte> Bytes::copy(Extent where) const {
  if (where.offset >= size()) return {};
  std::vector<std::byte> out(std::min(where.size, size() - where.offset));
  out.resize(read(where.offset, out));
  return out;
}

FileBytes::FileBytes(int descriptor) : descriptor_(descriptor) {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) return;
  size_ = static_cast<std::uint64_t>(status.st_size);
  changed_ = status.st_mtim;
}

FileBytes::~FileBytes() { close(descriptor_); }

std::unique_ptr<FileBytes> FileBytes::open(const std::string& path, std::string& why) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    why = std::strerror(errno);
    return nullptr;
  }
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    why = "not a regular file";
    close(descriptor);
    return nullptr;
  }
  return std::make_unique<FileBytes>(descriptor);
}

std::size_t FileBytes::read(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size() && offset + done < size_) {
    ssize_t got = pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      error_ = got < 0 ? errno : 0;
      missing_ = offset + done;
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::string FileBytes::fault() const {
  const std::uint64_t missing = missing_;
  if (missing == nowhere) {
    struct stat now {};
    if (fstat(descriptor_, &now) == 0 && static_cast<std::uint64_t>(now.st_size) == size_ &&
        now.st_mtim.tv_sec == changed_.tv_sec && now.st_mtim.tv_nsec == changed_.tv_nsec)
      return "";
    return "was changed while it was read";
  }
  if (const int error = error_; error != 0)
    return fmt::format("cannot be read from byte {} on: {}", missing, std::strerror(error));
  return fmt::format("was cut while it was read: of {} bytes, those from {} on are gone", size_, missing);
}

std::size_t MemoryBytes::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset >= memory_.size() || out.empty()) return 0;
  std::size_t count = std::min<std::uint64_t>(out.size(), memory_.size() - offset);
  std::memcpy(out.data(), memory_.data() + offset, count);
  return count;
}

std::size_t PartBytes::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset >= part_.size) return 0;
  return whole_.read(part_.offset + offset, out.first(std::min<std::uint64_t>(out.size(), part_.size - offset)));
}

}  // namespace cudeploy
