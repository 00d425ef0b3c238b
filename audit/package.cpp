// Packages are told by content, never by name, and read as a stream: libarchive gives members one by one, each is
// held in memory or in an unlinked temporary file while it is read, and nothing is ever extracted under its name.
// So `../` in a name, or a slash at its front, is only a fault to report. A package in a package (the data.tar.xz of a
// deb) is a member that is read the same way, one level deeper.
#include "package.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "binary.hpp"
#include "bytes.hpp"
#include "ptx.hpp"

namespace cudeploy {
namespace {

namespace fs = std::filesystem;

std::string lower_first(std::string text) {
  if (text.size() > 1 && text[1] >= 'a' && text[1] <= 'z') text[0] = static_cast<char>(std::tolower(text[0]));
  return text;
}

FileRecord unreadable(const std::string& path, const std::string& why) {
  FileRecord file;
  file.path = path;
  file.unreadable = true;
  file.problems.push_back({std::nullopt, "cannot be read: " + lower_first(why)});
  return file;
}

// ---- what a file is -----------------------------------------------------------------------------------------

bool starts_with(std::span<const std::byte> head, std::string_view magic, std::size_t offset = 0) {
  return head.size() >= offset + magic.size() && std::memcmp(head.data() + offset, magic.data(), magic.size()) == 0;
}

using namespace std::string_view_literals;

/// LZMA's own format has no magic, but a header of which few values are ever written: the usual properties, a size of
/// the dictionary of 2^n or 2^n + 2^(n-1), and of the content none or less than 2^38. Source: xz, lzma_alone_decoder.
bool is_lzma_alone(std::span<const std::byte> head) {
  if (head.size() < 13 || head[0] != std::byte{0x5d}) return false;
  std::uint32_t dictionary = 0;
  std::uint64_t size = 0;
  std::memcpy(&dictionary, head.data() + 1, sizeof dictionary);
  std::memcpy(&size, head.data() + 5, sizeof size);
  const std::uint32_t rest = dictionary - std::bit_floor(dictionary);
  return dictionary >= 4096 && (rest == 0 || rest == std::bit_floor(dictionary) / 2) &&
         (size == ~std::uint64_t{0} || size < std::uint64_t{1} << 38);
}

bool is_compressed(std::span<const std::byte> head) {
  return starts_with(head, "\x1f\x8b"sv) ||
         starts_with(head,
                     "\xfd"
                     "7zXZ\0"sv) ||
         starts_with(head, "\x28\xb5\x2f\xfd"sv) || starts_with(head, "BZh"sv) || is_lzma_alone(head);
}

/// What the first bytes of a file say that it is, as far as it can hold other files.
enum class Magic { none, compressed, deb, zip, rpm, tar };

Magic magic_of(std::span<const std::byte> head) {
  if (is_compressed(head)) return Magic::compressed;
  // A static archive is an `ar` too; a deb is one whose first member says so.
  if (starts_with(head, "!<arch>\ndebian-binary"sv)) return Magic::deb;
  if (starts_with(head, "PK\3\4"sv) || starts_with(head, "PK\5\6"sv)) return Magic::zip;
  if (starts_with(head, "\xed\xab\xee\xdb"sv)) return Magic::rpm;
  if (starts_with(head, "ustar"sv, 257)) return Magic::tar;
  return Magic::none;
}

/// As a sentence has it.
std::string_view name_of(Magic magic) {
  switch (magic) {
    case Magic::deb:
      return "a Debian package";
    case Magic::zip:
      return "a zip archive";
    case Magic::rpm:
      return "an RPM";
    case Magic::tar:
      return "a tar archive";
    default:
      return "a compressed file";
  }
}

/// Whether there can be something for us, told by the first bytes: most members of most packages are text.
bool is_binary(std::span<const std::byte> head) {
  if (starts_with(head,
                  "\x7f"
                  "ELF"sv) ||
      starts_with(head, "MZ"sv) || starts_with(head, "!<arch>\n"sv) || starts_with(head, "!<thin>\n"sv) ||
      starts_with(head, "\x50\xed\x55\xba"sv))
    return true;
  return looks_like_ptx(MemoryBytes(head), {0, head.size()});
}

/// Whether the member of a package that is unpacked at "/" is one that ldconfig reads.
bool names_loader_folders(std::string_view name) {
  constexpr std::string_view folder = "etc/ld.so.conf.d/";
  return name == "etc/ld.so.conf" || (name.starts_with(folder) && name.find('/', folder.size()) == name.npos &&
                                      name.ends_with(".conf") && name[folder.size()] != '.');
}

/// The folders that it names, one a line. Source: ldconfig(8); other files that it includes are not followed.
std::vector<std::string> loader_folders(std::span<const std::byte> content) {
  std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  std::vector<std::string> folders;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find_first_of("#="));  // "=TYPE" is an old way to name the C library
    const std::size_t first = line.find_first_not_of(" \t\r\f\v");
    if (first == line.npos || line[first] != '/') continue;
    folders.emplace_back(line.substr(first, line.find_last_not_of(" \t\r\f\v") + 1 - first));
  }
  return folders;
}

// ---- members ------------------------------------------------------------------------------------------------

/// A member does not fit anywhere; the message says why.
struct NoRoom : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An unlinked file: gone when closed, whatever happens to us. Throws NoRoom.
int temporary_file() {
  const char* wanted = std::getenv("TMPDIR");
  for (const std::string& folder :
       {std::string(wanted != nullptr ? wanted : ""), std::string("/var/tmp"), std::string("/tmp")}) {
    if (folder.empty()) continue;
    int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor >= 0) return descriptor;
    std::string name = folder + "/cudeploy-XXXXXX";
    descriptor = mkostemp(name.data(), O_CLOEXEC);
    if (descriptor >= 0) {
      unlink(name.c_str());
      return descriptor;
    }
  }
  throw NoRoom(fmt::format("no place for a temporary file: {}", lower_first(std::strerror(errno))));
}

/// Bytes that it owns.
class OwnedBytes final : public Bytes {
 public:
  explicit OwnedBytes(std::vector<std::byte> memory) : memory_(std::move(memory)), view_(memory_) {}
  std::uint64_t size() const override { return view_.size(); }
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const override { return view_.read(offset, out); }

 private:
  std::vector<std::byte> memory_;
  MemoryBytes view_;
};

/// The whole package is given up; the message says why.
struct GivenUp : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// libarchive over our bytes.
class Archive {
 public:
  explicit Archive(const Bytes& bytes) : bytes_(bytes), archive_(archive_read_new()), block_(1 << 17) {
    if (archive_ == nullptr) throw std::bad_alloc();
    archive_read_support_filter_gzip(archive_);
    archive_read_support_filter_bzip2(archive_);
    archive_read_support_filter_xz(archive_);
    archive_read_support_filter_lzma(archive_);  // xz' older form, in RPMs that old distributions still take
    archive_read_support_filter_zstd(archive_);
    archive_read_support_filter_rpm(archive_);
    archive_read_support_format_tar(archive_);
    archive_read_support_format_zip(archive_);
    archive_read_support_format_cpio(archive_);
    archive_read_support_format_ar(archive_);
    archive_read_set_callback_data(archive_, this);
    archive_read_set_read_callback(archive_, [](archive*, void* self, const void** data) {
      return static_cast<Archive*>(self)->next_block(data);
    });
    archive_read_set_skip_callback(
        archive_, [](archive*, void* self, la_int64_t count) { return static_cast<Archive*>(self)->skip(count); });
    archive_read_set_seek_callback(archive_, [](archive*, void* self, la_int64_t offset, int whence) {
      return static_cast<Archive*>(self)->seek(offset, whence);
    });
  }
  ~Archive() { archive_read_free(archive_); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  archive* get() const { return archive_; }

  std::string error() const {
    const char* text = archive_error_string(archive_);
    return lower_first(text != nullptr ? text : "unknown error");
  }

 private:
  la_ssize_t next_block(const void** data) {
    std::size_t got = bytes_.read(at_, block_);
    at_ += got;
    *data = block_.data();
    return static_cast<la_ssize_t>(got);
  }
  la_int64_t skip(la_int64_t wanted) {
    std::uint64_t left = at_ < bytes_.size() ? bytes_.size() - at_ : 0;
    std::uint64_t step = std::min<std::uint64_t>(left, wanted > 0 ? static_cast<std::uint64_t>(wanted) : 0);
    at_ += step;
    return static_cast<la_int64_t>(step);
  }
  la_int64_t seek(la_int64_t offset, int whence) {
    auto size = static_cast<la_int64_t>(bytes_.size());
    la_int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? static_cast<la_int64_t>(at_) : size;
    la_int64_t to = 0;
    if (__builtin_add_overflow(from, offset, &to) || to < 0 || to > size) return ARCHIVE_FATAL;
    at_ = static_cast<std::uint64_t>(to);
    return to;
  }

  const Bytes& bytes_;
  std::uint64_t at_ = 0;
  archive* archive_;
  std::vector<std::byte> block_;
};

/// The first bytes behind a compression, however often it was done; none where it does not hold any.
std::vector<std::byte> unpacked_head(const Bytes& bytes) {
  Archive reader(bytes);
  archive_read_support_format_raw(reader.get());
  archive_entry* entry = nullptr;
  if (archive_read_open1(reader.get()) < ARCHIVE_WARN || archive_read_next_header(reader.get(), &entry) < ARCHIVE_WARN)
    return {};
  std::vector<std::byte> head(512);
  const la_ssize_t size = archive_read_data(reader.get(), head.data(), head.size());
  head.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return head;
}

/// Whether a compressed file is an inspect record: it would be a plain file, and so a clean one.
bool is_compressed_record(const Bytes& bytes) {
  const std::vector<std::byte> head = unpacked_head(bytes);
  return std::string_view(reinterpret_cast<const char*>(head.data()), head.size()).find("cudeploy/inspect/") !=
         std::string_view::npos;
}

/// How many members the end of a zip archive claims that it has, modulo 2^16 where there is no more room for it.
/// libarchive reads those that are there and asks no further. Nothing where there is no such end. Source:
/// APPNOTE.TXT 6.3.10, 4.3.14 to 4.3.16.
struct ClaimedMembers {
  std::uint64_t count = 0;
  bool modulo = true;
};
std::optional<ClaimedMembers> claimed_members(const Bytes& bytes) {
  constexpr std::size_t end_size = 22, locator_size = 20;
  const std::uint64_t tail_size = std::min<std::uint64_t>(bytes.size(), 1 << 14);  // as far as libarchive looks
  const std::uint64_t tail_at = bytes.size() - tail_size;
  const std::vector<std::byte> tail = bytes.copy({tail_at, tail_size});
  const std::string_view text(reinterpret_cast<const char*>(tail.data()), tail.size());
  // Behind it is a comment, which may hold anything but reaches to the very end.
  std::size_t end = text.size() < end_size ? text.npos : text.rfind("PK\5\6", text.size() - end_size);
  while (end != text.npos && text.size() - end - end_size != bytes.value<std::uint16_t>(tail_at + end + 20))
    end = end == 0 ? text.npos : text.rfind("PK\5\6", end - 1);
  if (end == text.npos) return std::nullopt;
  const std::uint64_t at = tail_at + end;
  const ClaimedMembers claimed{bytes.value<std::uint16_t>(at + 10).value_or(0), true};
  // The larger form is behind its locator: signature, disk, offset.
  if (at < locator_size || bytes.value<std::uint32_t>(at - locator_size) != 0x07064b50) return claimed;
  const std::uint64_t larger = bytes.value<std::uint64_t>(at - locator_size + 8).value_or(0);
  if (bytes.value<std::uint32_t>(larger) != 0x06064b50) return claimed;
  const auto count = bytes.value<std::uint64_t>(larger + 32);
  return count ? ClaimedMembers{*count, false} : claimed;
}

/// "./usr/lib/x.so" and "/usr/lib/x.so" are "usr/lib/x.so"; ".." stays, it is part of the name.
std::string clean_name(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    auto end = name.find('/');
    std::string_view part = name.substr(0, end);
    name = end == name.npos ? std::string_view() : name.substr(end + 1);
    if (part.empty() || part == ".") continue;
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

/// What is wrong with the name of a member, as it is written, for whoever unpacks it; nothing where nothing is.
/// `anywhere`: so is the package unpacked. In one for "/" a first slash says nothing more, and `ar` marks names of its
/// own with it. Tried: GNU tar refuses each name with "..", unzip and Python put a/../x into a; CMake and Python's
/// tarfile write where an absolute name says, GNU tar cuts the slash.
std::optional<std::string_view> fault_of_name(std::string_view name, bool anywhere) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool drive = name.size() > 2 && is_letter(name[0]) && name[1] == ':' && (name[2] == '/' || name[2] == '\\');
  if (anywhere && (drive || (name.starts_with('/') && !clean_name(name).empty())))
    return "an absolute name: some unpack it there, some elsewhere, some not at all";
  int depth = 0;
  bool up = false;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    if (part.empty() || part == ".") continue;
    up = up || part == "..";
    depth += part == ".." ? -1 : 1;
    if (depth < 0) return "a name that leads out of the package";
  }
  if (up) return "a name with \"..\": some unpack it in one folder, some in another, some not at all";
  return std::nullopt;
}

/// Reads one package, and the packages in it.
class PackageReader {
 public:
  PackageReader(const Task& task, std::uint64_t size, const ReadOptions& options, const PackageLimits& limits,
                Sink& sink)
      : task_(task), package_size_(size), options_(options), limits_(limits), sink_(sink) {
    package_.path = task.path;
    package_.size = size;
  }

  /// False when it is no package after all, `read_archive`.
  bool read(const FileBytes& bytes, Magic magic) {
    try {
      if (!read_archive(bytes, magic, unpacking_of(magic), task_.path, 0)) return false;
    } catch (const GivenUp& reason) {
      problem(fmt::format("{}; the members behind were not read", reason.what()));
    }
    if (std::string fault = bytes.fault(); !fault.empty()) problem(std::move(fault));
    if (unsaid_ > 0) package_.problems.push_back({std::nullopt, fmt::format("and {} more problems", unsaid_)});
    if (!package_.problems.empty() || (task_.named && !told_)) sink_.records({package_});
    return true;
  }

 private:
  void problem(std::string message) {
    constexpr std::size_t most = 20;
    if (package_.problems.size() < most)
      package_.problems.push_back({std::nullopt, std::move(message)});
    else
      ++unsaid_;
  }

  /// Where in the package: "" for the outermost, "data.tar.xz: " for one in it.
  std::string inside(const std::string& path) const {
    return path == task_.path ? "" : path.substr(task_.path.size() + 2) + ": ";
  }

  void count(std::uint64_t bytes) {
    inflated_ += bytes;
    unsaid_bytes_ += bytes;
    if (inflated_ > limits_.inflated) throw GivenUp(fmt::format("unpacks to more than {} GiB", limits_.inflated >> 30));
    if (inflated_ > limits_.ratio_from && inflated_ / limits_.ratio > package_size_)
      throw GivenUp(fmt::format("unpacks to more than {} times its size", limits_.ratio));
    if (unsaid_bytes_ >= (32u << 20)) {
      unsaid_bytes_ = 0;
      sink_.alive();
    }
  }

  /// False when it is no package after all: only its first bytes told so. Most compressed files hold no archive, and
  /// where some write "ustar" others may write it too.
  bool read_archive(const Bytes& bytes, Magic magic, Unpacking unpacking, const std::string& path, unsigned depth) {
    Archive reader(bytes);
    archive* a = reader.get();
    bool first = true;
    const auto fail = [&](const std::string& why) {
      if (first) sink_.package(path, unpacking);
      first = false;
      problem(fmt::format("{}cannot be unpacked: {}", inside(path), why));
    };
    const auto refused = [&] {
      return first && reader.error().find("nrecognized archive format") != std::string::npos;
    };
    const auto fail_refused = [&] {
      const Magic what = magic == Magic::compressed ? magic_of(unpacked_head(bytes)) : magic;
      if (what == Magic::none || what == Magic::compressed) return false;
      if (what == Magic::tar && is_binary(bytes.copy({0, head_size}))) return false;
      fail(fmt::format("begins as {} does, but holds nothing that can be read as one", name_of(what)));
      return true;
    };
    if (archive_read_open1(a) < ARCHIVE_WARN) {
      if (refused()) return fail_refused();
      fail(reader.error());
      return true;
    }
    unsigned again = 0;
    bool has_data = false, ended = false;
    std::uint64_t met = 0;
    for (;;) {
      archive_entry* entry = nullptr;
      int state = archive_read_next_header(a, &entry);
      ended = state == ARCHIVE_EOF;
      if (ended) break;
      if (state == ARCHIVE_RETRY && ++again < 100) continue;
      if (state < ARCHIVE_WARN) {
        if (refused()) return fail_refused();
        fail(reader.error());
        if (state == ARCHIVE_FATAL || ++again >= 100) break;
        continue;
      }
      if (first) sink_.package(path, unpacking);
      first = false;
      ++met;
      const std::string name = read_member(reader, entry, magic, unpacking, path, depth);
      has_data = has_data || is_data_of_deb(magic, name);
      if (fatal_) break;
    }
    if (const auto claimed = magic == Magic::zip && ended && again == 0 ? claimed_members(bytes) : std::nullopt;
        claimed && claimed->count != (claimed->modulo ? met & 0xffff : met))
      fail(fmt::format("its end claims {} members, found {}", claimed->count, met));
    if (magic == Magic::deb && ended && !has_data) fail("expected a member data.tar, found none");
    fatal_ = false;
    return true;
  }

  static Unpacking unpacking_of(Magic magic) { return magic == Magic::rpm ? Unpacking::rpm : Unpacking::anywhere; }

  /// The member of a Debian package that holds its files; deb(5).
  static bool is_data_of_deb(Magic outer, std::string_view name) {
    return outer == Magic::deb && name.starts_with("data.tar");
  }

  /// The member's name.
  std::string read_member(const Archive& reader, archive_entry* entry, Magic outer, Unpacking unpacking,
                          const std::string& path, unsigned depth) {
    if (++members_ > limits_.members) throw GivenUp(fmt::format("has more than {} members", limits_.members));
    if (members_ % 10'000 == 0) sink_.alive();
    const char* raw = archive_entry_pathname(entry);
    if (raw == nullptr) raw = archive_entry_pathname_utf8(entry);
    std::string name = clean_name(raw != nullptr ? raw : "");
    if (name.empty()) name = raw == nullptr ? fmt::format("<member {} without a name>", members_) : "";
    names_ += name.size();
    if (names_ > limits_.names) throw GivenUp(fmt::format("has more than {} MiB of names", limits_.names >> 20));
    const bool anywhere = unpacking == Unpacking::anywhere &&
                          (archive_format(reader.get()) & ARCHIVE_FORMAT_BASE_MASK) != ARCHIVE_FORMAT_AR;
    const std::string_view written = raw != nullptr ? raw : "";
    const auto fault = fault_of_name(written, anywhere);
    if (fault) problem(fmt::format("{}member {} has {}", inside(path), written, *fault));
    std::string member = path + "!/" + name;

    auto type = archive_entry_filetype(entry);
    const char* first_name = archive_entry_hardlink(entry);
    if (first_name != nullptr) {
      // One file with two names. Told as a link, or it would count as two copies of what it holds. The bytes come with
      // the first name, or with a later one, as in an RPM with the last: of whatever name, they are those of the file.
      if (const auto of_first = fault ? std::nullopt : fault_of_name(first_name, anywhere))
        problem(fmt::format("{}member {} is a hard link to {}, {}", inside(path), written, first_name, *of_first));
      const std::string first = clean_name(first_name);
      tell_link(member, fs::path("/" + first).lexically_relative(fs::path("/" + name).parent_path()));
      member = path + "!/" + first;
      if (archive_entry_size(entry) <= 0) return name;
    } else if (type == AE_IFLNK) {
      const char* target = archive_entry_symlink(entry);
      if (target == nullptr) target = archive_entry_symlink_utf8(entry);
      if (target != nullptr) tell_link(member, target);
      return name;
    }
    if (type != AE_IFREG && type != 0) return name;  // ar writes no type where it writes no owner: `ar rcD` of a deb
    if (archive_entry_is_data_encrypted(entry) > 0)
      problem(fmt::format("{}member {} is encrypted", inside(path), name));
    else
      read_content(reader, outer, path, name, member, depth);
    return name;
  }

  void tell_link(const std::string& member, const std::string& target) {
    names_ += target.size();
    sink_.link(member, target);
  }

  void read_content(const Archive& reader, Magic outer, const std::string& path, const std::string& name,
                    const std::string& member, unsigned depth) {
    std::vector<std::byte> content(head_size);
    const std::optional<std::size_t> got = fill(reader, content, path, name);
    if (!got) return;
    content.resize(*got);
    const bool is_data = is_data_of_deb(outer, name);
    const auto fail_without_data = [&] {
      if (is_data) problem(fmt::format("{}member {} holds no archive that can be read", inside(path), name));
    };
    const Magic magic = magic_of(content);
    if (names_loader_folders(name)) {
      names_ += content.size();  // a longer one is cut: none is
      sink_.loader_folders(member, loader_folders(content));
    }
    // Tar archives without "ustar" in them, and empty ones, are told by their place.
    if (magic == Magic::none && !is_data && !is_binary(content)) {
      pass_over(reader, path, name);
      return;
    }
    std::unique_ptr<Bytes> bytes = content.size() < head_size ? std::make_unique<OwnedBytes>(std::move(content))
                                                              : rest(reader, std::move(content), path, name);
    if (bytes == nullptr) return;
    if (magic != Magic::none || is_data) {
      if (depth + 1 >= limits_.depth) {
        problem(fmt::format("{}member {} is not looked into: packages in packages, {} deep", inside(path), name,
                            limits_.depth));
        return;
      }
      bool outer_fatal = fatal_;
      const Unpacking unpacking = is_data ? Unpacking::deb : unpacking_of(magic);
      const bool was_package = read_archive(*bytes, magic, unpacking, member, depth + 1);
      fatal_ = outer_fatal;
      if (was_package) return;
      fail_without_data();
      if (!is_binary(bytes->copy({0, head_size}))) return;
    }
    if (++items_ <= task_.skip) {
      told_ = true;
      return;
    }
    sink_.begin(member, bytes->size());
    std::vector<FileRecord> files = read_binary(member, *bytes, options_);
    std::erase_if(files, [](const FileRecord& file) { return file.format == Format::other && file.problems.empty(); });
    told_ = told_ || !files.empty();
    sink_.records(std::move(files));
  }

  /// Fills `out` from its front, and says how far there was something. Nothing when the member is damaged.
  std::optional<std::size_t> fill(const Archive& reader, std::span<std::byte> out, const std::string& path,
                                  const std::string& name) {
    std::size_t done = 0;
    while (done < out.size()) {
      la_ssize_t got = archive_read_data(reader.get(), out.data() + done, out.size() - done);
      if (got == ARCHIVE_RETRY) continue;
      if (got < 0) {
        damaged(reader, static_cast<int>(got), path, name);
        return std::nullopt;
      }
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
      count(static_cast<std::uint64_t>(got));
    }
    return done;
  }

  void damaged(const Archive& reader, int state, const std::string& path, const std::string& name) {
    problem(fmt::format("{}member {} cannot be unpacked: {}", inside(path), name, reader.error()));
    if (state == ARCHIVE_FATAL) fatal_ = true;
  }

  /// The head and what follows it, in memory or on disk. Null when the member is damaged, too large, or finds no room.
  std::unique_ptr<Bytes> rest(const Archive& reader, std::vector<std::byte> content, const std::string& path,
                              const std::string& name) {
    try {
      return all_of(reader, std::move(content), path, name);
    } catch (const NoRoom& why) {
      problem(fmt::format("{}member {} cannot be kept: {}", inside(path), name, why.what()));
      pass_over(reader, path, name);
      return nullptr;
    }
  }

  std::unique_ptr<Bytes> all_of(const Archive& reader, std::vector<std::byte> content, const std::string& path,
                                const std::string& name) {
    block_.resize(1 << 20);
    std::unique_ptr<Bytes> out;
    int descriptor = -1;
    struct Closer {
      int& descriptor;
      ~Closer() {
        if (descriptor >= 0) close(descriptor);
      }
    } closer{descriptor};
    std::uint64_t size = content.size();
    for (;;) {
      const std::optional<std::size_t> got = fill(reader, block_, path, name);
      if (!got) return nullptr;
      if (*got == 0) break;
      const std::span<const std::byte> block = std::span(block_).first(*got);
      size += block.size();
      if (size > limits_.member) {
        problem(fmt::format("{}member {} is larger than {} MiB", inside(path), name, limits_.member >> 20));
        pass_over(reader, path, name);
        return nullptr;
      }
      if (descriptor < 0 && size > limits_.in_memory) {
        descriptor = temporary_file();
        write_all(descriptor, content);
        content = {};
      }
      if (descriptor >= 0)
        write_all(descriptor, block);
      else
        content.insert(content.end(), block.begin(), block.end());
    }
    if (descriptor < 0) return std::make_unique<OwnedBytes>(std::move(content));
    out = std::make_unique<FileBytes>(descriptor);
    descriptor = -1;
    return out;
  }

  static void write_all(int descriptor, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      ssize_t written = write(descriptor, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) throw NoRoom(fmt::format("temporary file: {}", lower_first(std::strerror(errno))));
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  /// A compressed stream has to be unpacked to get behind a member, and that must be counted; elsewhere it costs
  /// nothing.
  void pass_over(const Archive& reader, const std::string& path, const std::string& name) {
    if (archive_filter_count(reader.get()) <= 1) {
      int state = archive_read_data_skip(reader.get());
      if (state < ARCHIVE_WARN) damaged(reader, state, path, name);
      return;
    }
    for (;;) {
      const void* data = nullptr;
      std::size_t size = 0;
      la_int64_t offset = 0;
      int state = archive_read_data_block(reader.get(), &data, &size, &offset);
      if (state == ARCHIVE_EOF) return;
      if (state == ARCHIVE_RETRY) continue;
      if (state < ARCHIVE_WARN) return damaged(reader, state, path, name);
      count(size);
    }
  }

  static constexpr std::size_t head_size = 64 << 10;

  const Task& task_;
  const std::uint64_t package_size_;
  const ReadOptions& options_;
  const PackageLimits& limits_;
  Sink& sink_;
  FileRecord package_;        // a row of its own only where something is wrong with it
  std::uint64_t unsaid_ = 0;  // problems
  std::uint64_t members_ = 0, names_ = 0, inflated_ = 0, unsaid_bytes_ = 0;
  std::uint64_t items_ = 0;       // members that were read, over all levels
  bool told_ = false;             // some member has a row
  bool fatal_ = false;            // the archive at hand cannot be read on
  std::vector<std::byte> block_;  // of a member; one for all, for there may be 16,000
};

// ---- folders ------------------------------------------------------------------------------------------------

using Identity = std::pair<dev_t, ino_t>;

/// Walks one folder. Real files come first, so that a link to one of them is known to be inside.
class Walk {
 public:
  Walk(Inputs& inputs, BundleRecord& bundle) : inputs_(inputs), bundle_(bundle) {}

  void run(const std::string& top) {
    std::vector<std::string> folders{top};
    while (!folders.empty()) {
      std::string folder = std::move(folders.back());
      folders.pop_back();
      visit(folder, folders);
    }
    std::sort(links_.begin(), links_.end());
    for (const std::string& path : links_) resolve(path);
  }

  /// The files that it met, each with the name that it is read by.
  const std::map<Identity, std::string>& files() const { return files_; }

 private:
  void visit(const std::string& folder, std::vector<std::string>& folders) {
    std::error_code error;
    fs::directory_iterator entries(folder, error);
    if (error) {
      inputs_.unreadable.push_back(unreadable(folder, error.message()));
      return;
    }
    std::vector<std::string> names;
    for (; entries != fs::directory_iterator(); entries.increment(error)) {
      names.push_back(entries->path().filename().string());
      if (error) break;
    }
    if (error) inputs_.unreadable.push_back(unreadable(folder, error.message()));
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      std::string path = folder + (folder.ends_with('/') ? "" : "/") + name;
      struct stat status {};
      if (lstat(path.c_str(), &status) != 0) {
        tell_unless_gone(path, errno);
      } else if (S_ISLNK(status.st_mode)) {
        links_.push_back(path);
      } else if (S_ISDIR(status.st_mode)) {
        // The same folder can only be met again through a bind mount.
        if (seen_.insert({status.st_dev, status.st_ino}).second) folders.push_back(path);
      } else if (S_ISREG(status.st_mode)) {
        add(path, status);
      }
    }
  }

  /// What went away between two looks is no part of the folder any more; of all else nobody knows what it holds.
  void tell_unless_gone(const std::string& path, int error) {
    if (error != ENOENT && error != ENOTDIR) inputs_.unreadable.push_back(unreadable(path, std::strerror(error)));
  }

  void add(const std::string& path, const struct stat& status) {
    auto [it, fresh] = files_.emplace(Identity{status.st_dev, status.st_ino}, path);
    if (fresh) {
      inputs_.tasks.push_back({path, false, 0});
      bundle_.files.push_back(path);
    } else {  // one file with two names
      bundle_.links[path] = fs::path(it->second).lexically_relative(fs::path(path).parent_path());
    }
  }

  void resolve(const std::string& path) {
    std::error_code error;
    fs::path target = fs::read_symlink(path, error);
    if (error) return tell_unless_gone(path, error.value());
    struct stat status {};
    const bool there = stat(path.c_str(), &status) == 0;
    // A link that leads nowhere or in a circle does so for everybody; behind others there may be a file.
    if (!there && errno != ELOOP && errno != ENAMETOOLONG) tell_unless_gone(path, errno);
    if (there && S_ISREG(status.st_mode) && !files_.contains({status.st_dev, status.st_ino}))
      add(path, status);
    else
      bundle_.links[path] = target.string();
  }

  Inputs& inputs_;
  BundleRecord& bundle_;
  std::set<Identity> seen_;
  std::map<Identity, std::string> files_;
  std::vector<std::string> links_;
};

/// Files named one by one are one bundle. lib*.so* names a library and the links to it, and `dist dist/app` a file
/// and its folder: what is one file counts once, or it would meet itself.
void collect_single(const std::map<std::string, Identity>& single, const std::map<Identity, std::string>& in_folders,
                    Inputs& inputs) {
  std::map<Identity, std::string> read_as;
  std::error_code error;
  for (const auto& [path, identity] : single)
    if (!fs::is_symlink(path, error)) read_as.emplace(identity, path);
  for (const auto& [path, identity] : single) read_as.emplace(identity, path);
  BundleRecord bundle;
  for (const auto& [path, identity] : single) {
    const std::string& real = read_as.at(identity);
    if (auto met = in_folders.find(identity); met != in_folders.end()) {
      inputs.tasks.push_back({met->second, true, 0});
    } else if (path == real) {
      inputs.tasks.push_back({path, true, 0});
      bundle.files.push_back(path);
    } else {
      bundle.links[path] = fs::path(real).lexically_relative(fs::path(path).parent_path());
      if (bundle.links[path].empty()) bundle.links[path] = real;  // one is absolute, the other is not
    }
  }
  if (!bundle.files.empty()) inputs.bundles.push_back(std::move(bundle));
}

/// Some packages bring the bytes of a file with each of its names (cpio's old form, pax -o linkdata). Of records with
/// one path that say the same the first stays. Such that differ all stay: nobody knows which of them is unpacked last.
void drop_repeated(std::vector<FileRecord>& files) {
  const auto text = [](const FileRecord& file) {
    return to_json(file).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  std::map<std::string, std::size_t> times;
  for (const FileRecord& file : files) ++times[file.path];
  std::map<std::string, std::set<std::string>> met;
  std::erase_if(
      files, [&](const FileRecord& file) { return times[file.path] > 1 && !met[file.path].insert(text(file)).second; });
}

}  // namespace

Inputs collect(const std::vector<std::string>& paths) {
  Inputs inputs;
  std::map<std::string, Identity> single;
  std::set<Identity> folders;
  std::map<Identity, std::string> in_folders;
  for (const std::string& path : paths) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      inputs.unreadable.push_back(unreadable(path, std::strerror(errno)));
    } else if (S_ISREG(status.st_mode)) {
      single[path] = {status.st_dev, status.st_ino};
    } else if (!S_ISDIR(status.st_mode)) {
      inputs.unreadable.push_back(unreadable(path, "not a regular file or a folder"));
    } else if (folders.insert({status.st_dev, status.st_ino}).second) {
      BundleRecord bundle;
      bundle.kind = BundleRecord::Kind::folder;
      bundle.name = path;
      Walk walk(inputs, bundle);
      walk.run(path);
      in_folders.insert(walk.files().begin(), walk.files().end());
      std::sort(bundle.files.begin(), bundle.files.end());
      inputs.bundles.push_back(std::move(bundle));
    }
  }
  collect_single(single, in_folders, inputs);
  // Each file is read once, however often it was met. Named wins: it then has a row whatever it holds.
  std::sort(inputs.tasks.begin(), inputs.tasks.end(),
            [](const Task& a, const Task& b) { return a.path != b.path ? a.path < b.path : a.named > b.named; });
  inputs.tasks.erase(std::unique(inputs.tasks.begin(), inputs.tasks.end(),
                                 [](const Task& a, const Task& b) { return a.path == b.path; }),
                     inputs.tasks.end());
  std::map<std::string, FileRecord> once;
  for (FileRecord& file : inputs.unreadable) once.emplace(file.path, std::move(file));
  inputs.unreadable.clear();
  for (auto& [path, file] : once) inputs.unreadable.push_back(std::move(file));
  return inputs;
}

void read_input(const Task& task, const ReadOptions& options, const PackageLimits& limits, Sink& sink) {
  std::string why;
  std::unique_ptr<FileBytes> bytes = FileBytes::open(task.path, why);
  if (bytes == nullptr) {
    sink.records({unreadable(task.path, why)});
    return;
  }
  std::array<std::byte, 512> head;
  const Magic magic = magic_of(std::span(head).first(bytes->read(0, head)));
  if (magic != Magic::none && PackageReader(task, bytes->size(), options, limits, sink).read(*bytes, magic)) return;
  if (options.for_audit && task.named && magic == Magic::compressed && is_compressed_record(*bytes)) {
    sink.records({unreadable(task.path, "it is an inspect record, but compressed: expected it as it was written")});
    return;
  }
  sink.begin(task.path, bytes->size());
  std::vector<FileRecord> files = read_binary(task.path, *bytes, options);
  std::string fault = bytes->fault();
  // A static archive has a row for each member; one without anything for us has none.
  if ((files.empty() && task.named) || (!fault.empty() && (files.empty() || files.front().path != task.path))) {
    FileRecord file;
    file.path = task.path;
    file.size = bytes->size();
    file.format = Format::ar;
    files.insert(files.begin(), std::move(file));
  }
  if (!fault.empty()) files.front().problems.push_back({std::nullopt, std::move(fault)});
  if (!task.named)
    std::erase_if(files, [](const FileRecord& file) { return file.format == Format::other && file.problems.empty(); });
  sink.records(std::move(files));
}

InspectRecord inspect_paths(const std::vector<std::string>& paths, const ReadOptions& options,
                            const PackageLimits& package_limits, const WorkerLimits& worker_limits) {
  Inputs inputs = collect(paths);
  std::vector<Reading> readings = read_in_workers(
      inputs.tasks, [&](const Task& task, Sink& sink) { read_input(task, options, package_limits, sink); },
      worker_limits);

  InspectRecord record;
  record.files = std::move(inputs.unreadable);
  std::map<std::string, std::vector<std::string>> paths_of;  // task -> paths of its records
  std::vector<BundleRecord> packages;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    Reading& reading = readings[i];
    const std::string& path = inputs.tasks[i].path;
    // A package has at most one row of its own: what it says of itself, and what we say of its dead workers.
    FileRecord* own = nullptr;
    std::vector<FileRecord> files;
    files.reserve(reading.files.size());
    for (FileRecord& file : reading.files) {
      if (file.path == path && own != nullptr) {
        own->problems.insert(own->problems.end(), file.problems.begin(), file.problems.end());
        continue;
      }
      files.push_back(std::move(file));
      if (files.back().path == path) own = &files.back();
    }
    if (!reading.packages.empty()) drop_repeated(files);
    std::vector<std::string> names;
    for (const FileRecord& file : files) names.push_back(file.path);
    std::sort(names.begin(), names.end());
    if (!reading.packages.empty()) {
      packages.push_back({BundleRecord::Kind::package, path, std::move(names), std::move(reading.links),
                          std::move(reading.loader_folders), std::move(reading.packages)});
    } else {
      paths_of[path] = std::move(names);
    }
    std::move(files.begin(), files.end(), std::back_inserter(record.files));
  }
  std::stable_sort(record.files.begin(), record.files.end(),
                   [](const FileRecord& a, const FileRecord& b) { return a.path < b.path; });

  for (BundleRecord& bundle : inputs.bundles) {
    std::vector<std::string> names;
    for (const std::string& path : bundle.files)
      if (auto it = paths_of.find(path); it != paths_of.end())
        names.insert(names.end(), it->second.begin(), it->second.end());
    std::sort(names.begin(), names.end());
    bundle.files = std::move(names);
    if (!bundle.files.empty() || !bundle.links.empty()) record.bundles.push_back(std::move(bundle));
  }
  std::move(packages.begin(), packages.end(), std::back_inserter(record.bundles));
  std::sort(record.bundles.begin(), record.bundles.end(), [](const BundleRecord& a, const BundleRecord& b) {
    return a.name != b.name ? a.name < b.name : a.kind < b.kind;
  });
  return record;
}

}  // namespace cudeploy
