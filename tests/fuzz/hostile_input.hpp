// What the fuzzers share: a fault is told to libFuzzer by ending, and what is read may be shorter than it was when it
// was opened.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>

#include "bytes.hpp"

namespace cudeploy {

inline void require(bool holds) {
  if (!holds) std::abort();
}

/// A file that lost `lost` bytes after its size was asked.
class Shrunk final : public Bytes {
 public:
  Shrunk(const Bytes& bytes, std::uint64_t lost) : bytes_(bytes), lost_(lost) {}
  std::uint64_t size() const override { return bytes_.size() + lost_; }
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const override { return bytes_.read(offset, out); }

 private:
  const Bytes& bytes_;
  std::uint64_t lost_;
};

}  // namespace cudeploy
