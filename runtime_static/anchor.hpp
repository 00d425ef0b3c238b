// Copies of the CUDA runtime that were compiled in different years, by different companies, into different
// shared objects meet in one process and must agree on one state. What they agree by is written here and
// never changes: an ELF note that is found without a symbol, and the block that it leads to. Another layout
// is another anchor ABI, a generation of its own, whose anchors this one never reads.
//
// Included by the copies themselves (no C++ library, no exceptions) and by the audit (the note alone).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace cudeploy {

/// The layout of everything in this file. A copy joins copies of the same number only.
inline constexpr uint32_t anchor_abi = 1;

/// The note: section `.note.cudeploy` (SHT_NOTE, SHF_ALLOC), so it survives `strip`, and a PT_NOTE leads to
/// it where the section headers are gone. Name with its terminating zero, in a field padded to 4 bytes.
inline constexpr char note_section[] = ".note.cudeploy";
inline constexpr char note_owner[] = "cudeploy";
inline constexpr uint32_t note_type = 1;

/// What the note holds. The first two fields stay in every future ABI: they are the generation.
struct NoteDescription {
  uint32_t abi;           ///< anchor ABI
  uint32_t cuda_major;    ///< major of the runtime archive that was linked, 13
  int64_t anchor_offset;  ///< bytes from the address of this field to the anchor
};
static_assert(sizeof(NoteDescription) == 16);
static_assert(offsetof(NoteDescription, abi) == 0);
static_assert(offsetof(NoteDescription, cuda_major) == 4);
static_assert(offsetof(NoteDescription, anchor_offset) == 8);

/// One thing that a copy saw being registered. `kind` is written last, and changed before the rest is.
struct Record {
  enum Kind : uint64_t {
    empty = 0,
    claimed = 1,          ///< being filled
    fat_binary = 2,       ///< what: the 24-byte wrapper; detail: the handle that the runtime gave
    foreign_stub = 3,     ///< what: a kernel stub that lies in another object; detail: its device name
    past_fat_binary = 4,  ///< as fat_binary, unregistered since; free to be claimed
  };
  uint64_t kind;
  const void* what;
  const void* detail;
};
static_assert(sizeof(Record) == 24);

struct RecordBlock {
  RecordBlock* next;  ///< older block, or null
  uint64_t capacity;  ///< entries that follow
  Record* entries;
};
static_assert(sizeof(RecordBlock) == 24);

/// Who serves: 0 = not chosen yet; the address of an Anchor; or, with bit 0 set, a handle of the loader
/// (as dlopen gives it) of a shared runtime, which is pinned and never closed.
using Server = uintptr_t;
inline constexpr Server shared_runtime_bit = 1;

/// The block that each copy carries, in writable memory. Fields marked "atomic" change after loading.
struct Anchor {
  const Anchor* self;            ///< its own address once its object is relocated; anything else before
  uint32_t abi;                  ///< anchor_abi
  uint32_t cuda_major;           ///< as in the note
  uint32_t size;                 ///< bytes of this block
  uint32_t name_count;           ///< API names of the copy's archive
  uint64_t names_id;             ///< FNV-1a of the names with their zeros: equal ids, equal lists
  uint64_t archive_id;           ///< FNV-1a of the archive's bytes: equal ids, equal runtimes
  const char* names;             ///< name_count zero-terminated names, ascending by byte value
  const int32_t* functions;      ///< function i lies at `(char*)&functions[i] + functions[i]`: never a routed name
  void** slots;                  ///< atomic: where calls of name i go now
  int (*runtime_version)(int*);  ///< as cudaRuntimeGetVersion, of the copy itself; answers without a driver too
  size_t (*report_json)(char* buffer, size_t size);  ///< cudeploy_report_json of this copy
  uint32_t version;      ///< atomic: what runtime_version answered, 13000; 0 = not asked yet
  uint32_t state;        ///< atomic: bits of AnchorState
  Server serving;        ///< atomic: on the meeting point: the newest server chosen so far
  Server bound;          ///< atomic: who serves this copy; set once
  RecordBlock* records;  ///< atomic: newest block first
  uint64_t reserved[2];  ///< zero
};

enum AnchorState : uint32_t {
  constructed = 1,  ///< the constructor of the copy ran: its object is loaded for good
  pin_wanted = 2,   ///< to be pinned by its own constructor
  pinned = 4,       ///< never unloaded
  alone = 8,        ///< bound to itself because CUDEPLOY_UNIFY=0 asked for it
};

static_assert(sizeof(void*) == 8, "the CUDA runtime exists for 64-bit processes only");
static_assert(sizeof(Anchor) == 128);
static_assert(offsetof(Anchor, self) == 0);
static_assert(offsetof(Anchor, abi) == 8);
static_assert(offsetof(Anchor, cuda_major) == 12);
static_assert(offsetof(Anchor, size) == 16);
static_assert(offsetof(Anchor, name_count) == 20);
static_assert(offsetof(Anchor, names_id) == 24);
static_assert(offsetof(Anchor, archive_id) == 32);
static_assert(offsetof(Anchor, names) == 40);
static_assert(offsetof(Anchor, functions) == 48);
static_assert(offsetof(Anchor, slots) == 56);
static_assert(offsetof(Anchor, runtime_version) == 64);
static_assert(offsetof(Anchor, report_json) == 72);
static_assert(offsetof(Anchor, version) == 80);
static_assert(offsetof(Anchor, state) == 84);
static_assert(offsetof(Anchor, serving) == 88);
static_assert(offsetof(Anchor, bound) == 96);
static_assert(offsetof(Anchor, records) == 104);
static_assert(offsetof(Anchor, reserved) == 112);

}  // namespace cudeploy
