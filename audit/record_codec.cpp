#include "record_codec.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace cudeploy {

namespace {

template <typename T, typename Record>
concept Is = std::is_same_v<std::remove_const_t<T>, Record>;

// The fields of each record, once for both directions. A field that is added without being named here does not
// compile: the binding takes all or none.
template <typename Codec, Is<Problem> T>
void fields(Codec& codec, T& record) {
  auto& [offset, message] = record;
  codec(offset, message);
}
template <typename Codec, Is<Kernel> T>
void fields(Codec& codec, T& record) {
  auto& [name, registers, shared_bytes] = record;
  codec(name, registers, shared_bytes);
}
template <typename Codec, Is<Image> T>
void fields(Codec& codec, T& record) {
  auto& [offset, group, kind, entry_kind, arch, variant, ptx_version, compression, stored_size, size, toolkit, flags,
         header_size, name, options, arch_specific, debug, obfuscated, kernel_count, kernels] = record;
  codec(offset, group, kind, entry_kind, arch, variant, ptx_version, compression, stored_size, size, toolkit, flags,
        header_size, name, options, arch_specific, debug, obfuscated, kernel_count, kernels);
}
template <typename Codec, Is<FatBinary> T>
void fields(Codec& codec, T& record) {
  auto& [offset, size, section, loadable, images] = record;
  codec(offset, size, section, loadable, images);
}
template <typename Codec, Is<RuntimeCopy> T>
void fields(Codec& codec, T& record) {
  auto& [kind, version, api_level, candidates, evidence, generation] = record;
  codec(kind, version, api_level, candidates, evidence, generation);
}
template <typename Codec, Is<ExportedStub> T>
void fields(Codec& codec, T& record) {
  auto& [name, weak] = record;
  codec(name, weak);
}
template <typename Codec, Is<VersionNeed> T>
void fields(Codec& codec, T& record) {
  auto& [library, version, symbols] = record;
  codec(library, version, symbols);
}
template <typename Codec, Is<Companion> T>
void fields(Codec& codec, T& record) {
  auto& [name, always, wanted_for] = record;
  codec(name, always, wanted_for);
}
template <typename Codec, Is<Vendor> T>
void fields(Codec& codec, T& record) {
  auto& [role, name, evidence, opens] = record;
  codec(role, name, evidence, opens);
}
template <typename Codec, Is<FileRecord> T>
void fields(Codec& codec, T& record) {
  auto& [path, size, format, machine, type, soname, needed, delayed, rpath, runpath, nodeflib, nodelete, symbolic,
         interpreter, version_definitions, version_needs, vendor, runtime_copies, fat_binaries, exported_stubs,
         problems, unreadable] = record;
  codec(path, size, format, machine, type, soname, needed, delayed, rpath, runpath, nodeflib, nodelete, symbolic,
        interpreter, version_definitions, version_needs, vendor, runtime_copies, fat_binaries, exported_stubs, problems,
        unreadable);
}

template <typename Codec, Is<BundleRecord> T>
void fields(Codec& codec, T& record) {
  auto& [kind, name, files, links, loader_folders, packages] = record;
  codec(kind, name, files, links, loader_folders, packages);
}
template <typename Codec, Is<InspectRecord> T>
void fields(Codec& codec, T& record) {
  auto& [files, bundles] = record;
  codec(files, bundles);
}

/// The last value of each enumeration.
constexpr Format last_of(Format) { return Format::other; }
constexpr ImageKind last_of(ImageKind) { return ImageKind::other; }
constexpr Compression last_of(Compression) { return Compression::unknown; }
constexpr RuntimeCopyKind last_of(RuntimeCopyKind) { return RuntimeCopyKind::stand_in; }
constexpr Vendor::Role last_of(Vendor::Role) { return Vendor::Role::driver_stub; }
constexpr Unpacking last_of(Unpacking) { return Unpacking::rpm; }
constexpr BundleRecord::Kind last_of(BundleRecord::Kind) { return BundleRecord::Kind::package; }

class Encoder {
 public:
  /// Writes to memory that is large enough; `to` may be null, to count.
  explicit Encoder(std::uint8_t* to) : to_(to) {}

  template <typename... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }

  std::size_t used() const { return used_; }

 private:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      raw(&value, sizeof value);
    } else {
      fields(*this, value);
    }
  }
  void put(const std::string& text) {
    put(std::uint64_t{text.size()});
    raw(text.data(), text.size());
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    put(std::uint64_t{list.size()});
    for (const T& value : list) put(value);
  }
  template <typename T>
  void put(const std::map<std::string, T>& members) {
    put(std::uint64_t{members.size()});
    for (const auto& [name, value] : members) {
      put(name);
      put(value);
    }
  }
  void raw(const void* data, std::size_t size) {
    if (to_ != nullptr && size != 0) std::memcpy(to_ + used_, data, size);
    used_ += size;
  }

  std::uint8_t* to_;
  std::size_t used_ = 0;
};

class Decoder {
 public:
  explicit Decoder(std::span<const std::uint8_t> bytes) : left_(bytes) {}

  template <typename... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }
  bool at_end() const { return left_.empty(); }

 private:
  template <typename T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      raw(&byte, 1);
      if (byte > 1) throw std::runtime_error("a truth value is neither 0 nor 1");
      value = byte != 0;
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      raw(&number, sizeof number);
      if (number < 0 || number > static_cast<std::underlying_type_t<T>>(last_of(T{})))
        throw std::runtime_error("a kind has no name");
      value = static_cast<T>(number);
    } else if constexpr (std::is_arithmetic_v<T>) {
      raw(&value, sizeof value);
    } else {
      fields(*this, value);
    }
  }
  void get(std::string& text) {
    text.resize(count());
    raw(text.data(), text.size());
  }
  template <typename T>
  void get(std::optional<T>& value) {
    bool there = false;
    get(there);
    if (there) get(value.emplace());
  }
  template <typename T>
  void get(std::vector<T>& list) {
    // Nothing is set aside by a claim: at least one byte has to be there for each value.
    const std::uint64_t all = count();
    list.reserve(std::min<std::uint64_t>(all, left_.size() / sizeof(T)));
    for (std::uint64_t i = 0; i < all; ++i) get(list.emplace_back());
  }
  template <typename T>
  void get(std::map<std::string, T>& members) {
    for (std::uint64_t left = count(); left > 0; --left) {
      std::string name;
      get(name);
      get(members[std::move(name)]);
    }
  }
  std::size_t count() {
    std::uint64_t number = 0;
    raw(&number, sizeof number);
    if (number > left_.size()) throw std::runtime_error("a length reaches past the end");
    return number;
  }
  void raw(void* data, std::size_t size) {
    if (size > left_.size()) throw std::runtime_error("it ends early");
    if (size != 0) std::memcpy(data, left_.data(), size);
    left_ = left_.subspan(size);
  }

  std::span<const std::uint8_t> left_;
};

template <typename T>
std::vector<std::uint8_t> encoded(const T& value) {
  Encoder count(nullptr);
  count(value);
  std::vector<std::uint8_t> bytes(count.used());
  Encoder{bytes.data()}(value);
  return bytes;
}

template <typename T>
T decoded(std::span<const std::uint8_t> bytes) {
  Decoder decoder(bytes);
  T value;
  decoder(value);
  if (!decoder.at_end()) throw std::runtime_error("bytes are left over");
  return value;
}

}  // namespace

std::vector<std::uint8_t> encode(const std::vector<FileRecord>& files) { return encoded(files); }
std::vector<std::uint8_t> encode(const InspectRecord& record) { return encoded(record); }

std::vector<FileRecord> decode(std::span<const std::uint8_t> bytes) { return decoded<std::vector<FileRecord>>(bytes); }
InspectRecord decode_inspect_record(std::span<const std::uint8_t> bytes) { return decoded<InspectRecord>(bytes); }

}  // namespace cudeploy
