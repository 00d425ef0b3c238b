// Packages as a worker reads them: libarchive's formats, packages in packages, and what they claim. What a member
// holds is the other fuzzers' business, so a member is only read to its end here. The first half of the last byte of
// the input chooses how much a package may cost.
// The seeds hold a PTX file, a link, a name that leads out and a text, packed by bsdtar (--format ustar, pax, newc,
// zip; gzip, bzip2, xz, zstd), a deb (ar of two of them, `ar rc deb debian-binary control.tar.gz data.tar.xz`), and a
// package in a package.
#include "package.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "binary.hpp"
#include "hostile_input.hpp"

using cudeploy::require;

namespace {

using namespace cudeploy;

std::uint64_t bytes_given = 0;

/// What one reading told, and that it was told in order.
class Told final : public Sink {
 public:
  explicit Told(const std::string& task) : task_(task) {}
  void package(const std::string& path, Unpacking /*unpacking*/) override {
    require(begun_.empty() && (packages++ == 0 ? path == task_ : path.starts_with(task_ + "!/")));
  }
  void begin(const std::string& path, std::uint64_t) override {
    require(begun_.empty() && (path == task_ || path.starts_with(task_ + "!/")));
    begun_ = path;
    items.push_back(path);
  }
  void records(std::vector<FileRecord> files) override {
    for (const FileRecord& file : files) {
      if (begun_.empty()) {
        require(file.path == task_ && file.problems.size() <= 21);
        for (const Problem& problem : file.problems) require(!problem.message.empty());
      } else {
        require(file.path == begun_);
      }
    }
    begun_.clear();
  }
  void link(const std::string& path, const std::string& target) override {
    require(packages > 0 && begun_.empty() && path.starts_with(task_ + "!/"));
    links.emplace_back(path, target);
  }
  void loader_folders(const std::string& path, const std::vector<std::string>& folders) override {
    require(packages > 0 && begun_.empty() && path.starts_with(task_ + "!/"));
    for (const std::string& folder : folders) require(folder.starts_with('/') && folder.size() < 65536);
  }
  void answer(const std::vector<std::uint8_t>&) override { require(false); }
  void alive() override {}

  int packages = 0;
  std::vector<std::string> items;
  std::vector<std::pair<std::string, std::string>> links;

 private:
  const std::string task_;
  std::string begun_;
};

}  // namespace

/// In the place of binary.cpp.
std::vector<FileRecord> cudeploy::read_binary(const std::string& path, const Bytes& bytes, const ReadOptions&) {
  std::vector<std::byte> block(1 << 16);
  std::uint64_t at = 0;
  while (const std::size_t got = bytes.read(at, block)) at += got;
  require(at == bytes.size());
  bytes_given += at;
  FileRecord record;
  record.path = path;
  record.size = at;
  record.format = Format::ptx;
  return {record};
}

/// libarchive believes some sizes and takes no for an answer: as in a worker, that is 1 GiB.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=1024"; }

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static std::vector<char*> more(*arguments, *arguments + *count);
  static char limit[] = "-malloc_limit_mb=2048";  // libFuzzer has its own, of what may be resident
  more.insert(more.begin() + 1, limit);
  more.push_back(nullptr);
  *count = static_cast<int>(more.size()) - 1;
  *arguments = more.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("package", MFD_CLOEXEC);
  require(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  PackageLimits limits;
  limits.ratio_from = 1 << 20;
  limits.inflated = 16 << 20;
  limits.member = 4 << 20;
  limits.in_memory = 1 << 18;
  limits.names = 1 << 20;
  if (const unsigned choice = size == 0 ? 0 : data[size - 1] >> 4; choice & 8) {
    limits.members = choice & 3;
    limits.inflated = 1 << (10 + (choice & 7));
    limits.depth = 1 + (choice & 1);
    limits.in_memory = 100;
  }

  Told told(path);
  bytes_given = 0;
  read_input({path, false, 0}, {}, limits, told);
  // A member that is read counts before it is given away; a file that is no package is as large as it is.
  require(bytes_given <= std::max<std::uint64_t>(limits.inflated, size));
  require(told.items.size() <= std::max<std::uint64_t>(limits.members, 1));
  // Behind a member that killed its reader, a fresh one goes on as if nothing had been.
  for (const std::size_t skip : {std::size_t{1}, told.items.size() / 2, told.items.size()}) {
    if (told.packages == 0 || skip > told.items.size()) continue;
    Told rest(path);
    read_input({path, false, skip}, {}, limits, rest);
    require(rest.packages == told.packages && rest.links == told.links &&
            std::equal(rest.items.begin(), rest.items.end(), told.items.begin() + static_cast<std::ptrdiff_t>(skip),
                       told.items.end()));
  }
  close(file);
  return 0;
}
