// What can be said of one object that the loader has in its list, while dl_iterate_phdr holds that list: which
// notes of ours it carries, whether it is a shared CUDA runtime, what it needs. Such an object may be half
// loaded (mapped by another thread's dlopen, not relocated yet), so nothing here follows a pointer that the
// loader would have to relocate first, and nothing is read outside of the object's own segments.
#pragma once

#include <elf.h>
#include <link.h>
#include <string.h>

#include "anchor.hpp"

namespace cudeploy {

/// Copies a text that the loader owns; false, and an empty copy, when it takes more than `size` bytes. Letter by
/// letter, unseen by ThreadSanitizer: that does not know the lock which dl_iterate_phdr holds, forgets by itself what
/// was read of a path except its last byte, and so reports a race with the dlclose that frees it.
__attribute__((noinline, no_sanitize("thread"))) inline bool copy_text(const volatile char* from, char* to,
                                                                       size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (!(to[i] = from[i])) return true;
  }
  *to = 0;
  return false;
}

class LoadedObject {
 public:
  explicit LoadedObject(const dl_phdr_info& info) : info_(info), base_(info.dlpi_addr) {}

  /// The loader's text: to be read by copy_text.
  const char* path() const { return info_.dlpi_name ? info_.dlpi_name : ""; }
  __attribute__((no_sanitize("thread"))) const char* file_name() const {
    const char* name = path();
    for (const volatile char* letter = name; *letter; ++letter) {
      if (*letter == '/') name = const_cast<const char*>(letter) + 1;
    }
    return name;
  }
  uintptr_t base() const { return base_; }
  const ElfW(Phdr) * begin() const { return info_.dlpi_phdr; }
  const ElfW(Phdr) * end() const { return info_.dlpi_phdr + info_.dlpi_phnum; }

  /// Whether `size` bytes at `address` lie in one segment that has all of `flags` (PF_R, PF_W).
  bool holds(uintptr_t address, size_t size, unsigned flags) const {
    for (const auto& segment : *this) {
      if (segment.p_type != PT_LOAD || (segment.p_flags & flags) != flags) continue;
      const uintptr_t start = base_ + segment.p_vaddr;
      if (address >= start && address - start <= segment.p_memsz && size <= segment.p_memsz - (address - start)) {
        return true;
      }
    }
    return false;
  }

  /// Calls visit(const NoteDescription& note, const Anchor* anchor) for each note of ours, of any generation.
  /// The anchor is null where it does not lie in writable memory of this object; it is not read here.
  /// Every aligned place is looked at, rather than note after note: mold puts notes of 4 and of 8 bytes' alignment
  /// into one segment, where nobody can tell where the next one begins.
  template <typename Visit>
  void for_each_note(Visit visit) const {
    NotePlace place = {begin(), 0};
    NoteDescription description;
    const Anchor* anchor = nullptr;
    while (next_note(place, description, anchor)) visit(description, anchor);
  }

  /// Value of a dynamic tag that is an offset or a count; 0 when absent.
  ElfW(Xword) dynamic(ElfW(Sxword) tag) const {
    const ElfW(Dyn)* entry = dynamic_table();
    for (; entry && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == tag) return entry->d_un.d_val;
    }
    return 0;
  }

  const char* soname() const {
    const ElfW(Xword) offset = dynamic(DT_SONAME);
    return offset ? string(offset) : "";
  }

  /// Whether this object names `library` among the libraries that it needs.
  bool needs(const char* library) const {
    const ElfW(Dyn)* entry = dynamic_table();
    for (; entry && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_NEEDED && strcmp(string(entry->d_un.d_val), library) == 0) return true;
    }
    return false;
  }

  /// Major of the shared CUDA runtime that this object is, 0 when it is none. Known by the version that it
  /// defines for its symbols, `libcudart.so.13` (`libcudart.so.11.0`): tools that repair Python wheels rename
  /// the file and its soname, not this.
  uint32_t shared_runtime_major() const {
    uintptr_t at = pointer(dynamic(DT_VERDEF));
    if (!at) return 0;
    for (ElfW(Xword) left = dynamic(DT_VERDEFNUM); left; --left) {
      if (!holds(at, sizeof(ElfW(Verdef)), PF_R)) return 0;
      const auto& definition = *reinterpret_cast<const ElfW(Verdef)*>(at);
      const uintptr_t aux = at + definition.vd_aux;
      if (!(definition.vd_flags & VER_FLG_BASE) && holds(aux, sizeof(ElfW(Verdaux)), PF_R)) {
        static constexpr char prefix[] = "libcudart.so.";
        const char* name = string(reinterpret_cast<const ElfW(Verdaux)*>(aux)->vda_name);
        if (strncmp(name, prefix, sizeof prefix - 1) == 0) {
          uint32_t major = 0;
          for (const char* digit = name + sizeof prefix - 1; *digit >= '0' && *digit <= '9' && major < 1000; ++digit) {
            major = major * 10 + static_cast<uint32_t>(*digit - '0');
          }
          return major;
        }
      }
      if (!definition.vd_next) return 0;
      at += definition.vd_next;
    }
    return 0;
  }

 private:
  struct NotePlace {
    const ElfW(Phdr) * segment;
    size_t offset;
  };

  /// Finds a note from `place` on and moves `place` behind it. Not inlined: one for all walks keeps the copies small.
  __attribute__((noinline)) bool next_note(NotePlace& place, NoteDescription& description,
                                           const Anchor*& anchor) const {
    struct Note {
      ElfW(Nhdr) header;
      char owner[12];
      NoteDescription description;
    };
    static_assert(sizeof(Note) == 40);
    for (; place.segment != end(); ++place.segment, place.offset = 0) {
      if (place.segment->p_type != PT_NOTE) continue;
      const uintptr_t start = base_ + place.segment->p_vaddr;
      if (!holds(start, place.segment->p_filesz, PF_R)) continue;
      while (place.offset + sizeof(Note) <= place.segment->p_filesz) {
        const uintptr_t at = start + place.offset;
        place.offset += 4;
        const auto* header = reinterpret_cast<const ElfW(Nhdr)*>(at);
        if (header->n_namesz != sizeof note_owner || header->n_type != note_type) continue;
        Note note;
        memcpy(&note, reinterpret_cast<const void*>(at), sizeof note);
        if (note.header.n_descsz < sizeof(NoteDescription) || memcmp(note.owner, note_owner, sizeof note_owner) != 0) {
          continue;
        }
        const uintptr_t address = at + offsetof(Note, description) + offsetof(NoteDescription, anchor_offset) +
                                  static_cast<uintptr_t>(note.description.anchor_offset);
        const bool inside = address % alignof(Anchor) == 0 && holds(address, sizeof(Anchor), PF_R | PF_W);
        description = note.description;
        anchor = inside ? reinterpret_cast<const Anchor*>(address) : nullptr;
        return true;
      }
    }
    return false;
  }

  const ElfW(Dyn) * dynamic_table() const {
    for (const auto& segment : *this) {
      if (segment.p_type == PT_DYNAMIC && holds(base_ + segment.p_vaddr, segment.p_memsz, PF_R)) {
        return reinterpret_cast<const ElfW(Dyn)*>(base_ + segment.p_vaddr);
      }
    }
    return nullptr;
  }

  /// glibc writes the address over the offset in most tables, other loaders and read-only tables keep it.
  uintptr_t pointer(ElfW(Xword) value) const { return value && value < base_ ? base_ + value : value; }

  const char* string(ElfW(Xword) offset) const {
    const uintptr_t table = pointer(dynamic(DT_STRTAB));
    const ElfW(Xword) size = dynamic(DT_STRSZ);
    if (!table || offset >= size || !holds(table, size, PF_R)) return "";
    const auto* text = reinterpret_cast<const char*>(table + offset);
    return memchr(text, 0, size - offset) ? text : "";
  }

  const dl_phdr_info& info_;
  uintptr_t base_;
};

/// The anchor of a copy of this ABI and of `cuda_major` whose object is relocated; nothing otherwise.
inline const Anchor* relocated(const NoteDescription& note, const Anchor* anchor, uint32_t cuda_major) {
  if (!anchor || note.abi != anchor_abi || note.cuda_major != cuda_major) return nullptr;
  const auto* self = __atomic_load_n(&anchor->self, __ATOMIC_ACQUIRE);
  if (self != anchor || anchor->abi != anchor_abi || anchor->cuda_major != cuda_major) return nullptr;
  return anchor->size >= sizeof(Anchor) ? anchor : nullptr;
}

/// Calls visit(const LoadedObject&, const dl_phdr_info&) for each object of this loader namespace, in
/// link-map order, until it returns true. The loader's list is locked meanwhile: no call into the loader.
template <typename Visit>
void for_each_object(Visit visit) {
  dl_iterate_phdr([](dl_phdr_info* info, size_t,
                     void* data) { return (*static_cast<Visit*>(data))(LoadedObject(*info), *info) ? 1 : 0; },
                  &visit);
}

}  // namespace cudeploy
