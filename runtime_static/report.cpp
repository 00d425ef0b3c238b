// When two runtimes are in one process, every symptom looks like something else: an invalid device function, a
// symbol that is not found, an error that was lost. This file says what is there. It is linked always, since the
// question comes up on machines where nobody can rebuild, and it stays silent until it is asked.
//
// A snapshot is taken while dl_iterate_phdr keeps the loader's list still, so it reads memory only, calls nothing
// in other objects, and copies every text that it keeps.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "cudeploy/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "anchor.hpp"
#include "cudeploy_copy.hpp"
#include "loaded_object.hpp"

using namespace cudeploy;

extern "C" {
#pragma GCC visibility push(hidden)
extern Anchor cudeploy_anchor_here;
#pragma GCC visibility pop
}

namespace {

// ---- What this copy saw being registered ---------------------------------------------------------------------

Record first_records[16];
RecordBlock first_block = {nullptr, 16, first_records};

bool claim(Record& record, uint64_t from) {
  return __atomic_compare_exchange_n(&record.kind, &from, Record::claimed, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

Record* claim_in(RecordBlock* block, uint64_t from) {
  for (; block; block = block->next) {
    for (uint64_t i = 0; i < block->capacity; ++i) {
      if (claim(block->entries[i], from)) return &block->entries[i];
    }
  }
  return nullptr;
}

void remember(Record::Kind kind, const void* what, const void* detail) {
  RecordBlock* head = nullptr;
  if (__atomic_compare_exchange_n(&cudeploy_anchor_here.records, &head, &first_block, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    head = &first_block;
  }
  Record* record = claim_in(head, Record::empty);
  if (!record) record = claim_in(head, Record::past_fat_binary);
  if (!record) {
    const uint64_t capacity = head->capacity * 2;
    auto* block = static_cast<RecordBlock*>(calloc(1, sizeof(RecordBlock) + capacity * sizeof(Record)));
    if (!block) return;  // the report will lack an entry; the program lacks nothing
    block->capacity = capacity;
    block->entries = reinterpret_cast<Record*>(block + 1);
    record = block->entries;
    record->kind = Record::claimed;
    do {
      block->next = head;
    } while (!__atomic_compare_exchange_n(&cudeploy_anchor_here.records, &head, block, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
  }
  __atomic_store_n(&record->what, what, __ATOMIC_RELAXED);
  __atomic_store_n(&record->detail, detail, __ATOMIC_RELAXED);
  __atomic_store_n(&record->kind, static_cast<uint64_t>(kind), __ATOMIC_RELEASE);
}

/// Whether an address lies in the object that holds this copy. The range is looked up once: a program may register
/// tens of thousands of kernels.
bool lies_here(const void* pointer) {
  static uintptr_t start, end;
  uintptr_t known_end = __atomic_load_n(&end, __ATOMIC_ACQUIRE);
  if (!known_end) {
    for_each_object([&](const LoadedObject& object, const dl_phdr_info&) {
      if (!object.holds(reinterpret_cast<uintptr_t>(&cudeploy_anchor_here), sizeof(Anchor), PF_R)) return false;
      uintptr_t low = UINTPTR_MAX, high = 0;
      for (const auto& segment : object) {
        if (segment.p_type != PT_LOAD) continue;
        const uintptr_t at = object.base() + segment.p_vaddr;
        if (at < low) low = at;
        if (at + segment.p_memsz > high) high = at + segment.p_memsz;
      }
      __atomic_store_n(&start, low, __ATOMIC_RELAXED);
      __atomic_store_n(&end, high, __ATOMIC_RELEASE);
      known_end = high;
      return true;
    });
  }
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address >= __atomic_load_n(&start, __ATOMIC_RELAXED) && address < known_end;
}

}  // namespace

// The observers: entries.cpp lets these calls pass through here. They hand on what they got and return what the
// runtime returned.
extern "C" {
#pragma GCC visibility push(hidden)
#if CUDEPLOY_HAS__cudaRegisterFatBinary
void** cudeploy_next___cudaRegisterFatBinary(const void* wrapper);
void** cudeploy_recorded___cudaRegisterFatBinary(const void* wrapper) {
  void** handle = cudeploy_next___cudaRegisterFatBinary(wrapper);
  remember(Record::fat_binary, wrapper, handle);
  return handle;
}
#endif

#if CUDEPLOY_HAS__cudaUnregisterFatBinary
void cudeploy_next___cudaUnregisterFatBinary(void** handle);
void cudeploy_recorded___cudaUnregisterFatBinary(void** handle) {
  for (auto* block = __atomic_load_n(&cudeploy_anchor_here.records, __ATOMIC_ACQUIRE); block; block = block->next) {
    for (uint64_t i = 0; i < block->capacity; ++i) {
      Record& record = block->entries[i];
      if (__atomic_load_n(&record.kind, __ATOMIC_ACQUIRE) == Record::fat_binary && record.detail == handle) {
        __atomic_store_n(&record.kind, static_cast<uint64_t>(Record::past_fat_binary), __ATOMIC_RELEASE);
      }
    }
  }
  cudeploy_next___cudaUnregisterFatBinary(handle);
}
#endif

#if CUDEPLOY_HAS__cudaRegisterFunction
void cudeploy_next___cudaRegisterFunction(void** handle, const char* stub, char* device_function, const char* name,
                                          int thread_limit, void* thread, void* block, void* block_size,
                                          void* grid_size, int* warp_size);
void cudeploy_recorded___cudaRegisterFunction(void** handle, const char* stub, char* device_function, const char* name,
                                              int thread_limit, void* thread, void* block, void* block_size,
                                              void* grid_size, int* warp_size) {
  if (!lies_here(stub)) remember(Record::foreign_stub, stub, name);
  cudeploy_next___cudaRegisterFunction(handle, stub, device_function, name, thread_limit, thread, block, block_size,
                                       grid_size, warp_size);
}
#endif
#pragma GCC visibility pop
}

namespace {

// ---- A snapshot of the process -------------------------------------------------------------------------------

/// Texts and arrays of one report: all freed together.
struct Snapshot {
  cudeploy_report report;  // first: the caller holds its address
  struct Piece {
    Piece* next;
  } * pieces;
  bool failed;
  // While it is taken: one entry per copy, beside report.copies.
  Server* bound;
  const void** identity;

  void* allocate(size_t size) {
    auto* piece = static_cast<Piece*>(malloc(sizeof(Piece) + size));
    if (!piece) {
      failed = true;
      return nullptr;
    }
    piece->next = pieces;
    pieces = piece;
    return piece + 1;
  }

  const char* text(const char* from) {
    const size_t size = strlen(from) + 1;
    void* copy = allocate(size);
    return copy ? static_cast<const char*>(memcpy(copy, from, size)) : "";
  }

  /// `array` with room for one entry more than `count`. It doubles, and leaves the old one to be freed at the end.
  template <typename T>
  bool make_room(T*& array, int32_t count) {
    if (count == 0 || (count & (count - 1)) == 0) {
      void* larger = allocate(sizeof(T) * (count ? static_cast<size_t>(count) * 2 : 1));
      if (!larger) return false;
      if (count) memcpy(larger, array, sizeof(T) * static_cast<size_t>(count));
      array = static_cast<T*>(larger);
    }
    return true;
  }

  template <typename T>
  bool append(const T*& array, int32_t& count, const T& value) {
    T* entries = const_cast<T*>(array);
    if (!make_room(entries, count)) return false;
    entries[count++] = value;
    array = entries;
    return true;
  }

  __attribute__((format(printf, 2, 3))) void note(const char* format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const char* kept = text(line);
    auto* notes = const_cast<const char**>(report.notes);
    if (!make_room(notes, report.note_count)) return;
    notes[report.note_count++] = kept;
    report.notes = notes;
  }

  cudeploy_copy& copy(int32_t index) { return const_cast<cudeploy_copy*>(report.copies)[index]; }

  bool add_copy(const cudeploy_copy& value, Server its_bound, const void* its_identity) {
    const int32_t count = report.copy_count;
    if (!make_room(bound, count) || !make_room(identity, count)) return false;
    bound[count] = its_bound;
    identity[count] = its_identity;
    return append(report.copies, report.copy_count, value);
  }
};

/// Entries of the fat binary container at `address`; -1 where it does not lie whole in one readable segment.
int32_t count_images(const LoadedObject& object, uintptr_t address) {
  struct Header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
  } header;
  if (!object.holds(address, sizeof header, PF_R)) return -1;
  memcpy(&header, reinterpret_cast<const void*>(address), sizeof header);
  if (header.magic != 0xBA55ED50 || header.header_size < sizeof header) return -1;
  uintptr_t at = address + header.header_size;
  if (!object.holds(at, header.size, PF_R)) return -1;
  int32_t images = 0;
  for (uint64_t left = header.size; left >= 64;) {
    uint32_t entry_header;
    uint64_t payload;
    memcpy(&entry_header, reinterpret_cast<const void*>(at + 4), sizeof entry_header);
    memcpy(&payload, reinterpret_cast<const void*>(at + 8), sizeof payload);
    if (entry_header < 64 || entry_header > left || payload > left - entry_header) break;
    ++images;
    at += entry_header + payload;
    left -= entry_header + payload;
  }
  return images;
}

/// The runtime's own table of functions and versions, an array of {name, 0, u32 version, 0} in writable or
/// relocated read-only data. Returns how many tables the object holds, and the highest version of the last one.
/// Reads over the bounds of single variables, which a sanitizer would object to.
__attribute__((no_sanitize("address", "thread"))) int count_runtime_tables(const LoadedObject& object,
                                                                           int32_t& api_level) {
  struct Row {
    uintptr_t name;
    uint64_t zero;
    uint64_t version;
  };
  const auto is_named = [&](uintptr_t name, const char* wanted) {
    const size_t size = strlen(wanted) + 1;
    return object.holds(name, size, PF_R) && strncmp(reinterpret_cast<const char*>(name), wanted, size) == 0;
  };
  int tables = 0;
  for (const auto& segment : object) {
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W) || !(segment.p_flags & PF_R)) continue;
    const uintptr_t start = (object.base() + segment.p_vaddr + 7) & ~uintptr_t{7};
    const uintptr_t end = object.base() + segment.p_vaddr + segment.p_filesz;
    for (uintptr_t at = start; at + 2 * sizeof(Row) <= end; at += 8) {
      const auto* row = reinterpret_cast<const Row*>(at);
      if (row->version != 3020 || row->zero != 0 || row[1].version != 3020 || row[1].zero != 0) continue;
      if (!is_named(row[0].name, "cudaDriverGetVersion") || !is_named(row[1].name, "cudaRuntimeGetVersion")) continue;
      int rows = 0;
      int32_t highest = 0;
      for (; at + sizeof(Row) <= end && row->version >= 3000 && row->version < 30000 && row->zero == 0 &&
             object.holds(row->name, 5, PF_R);
           at += sizeof(Row), ++row, ++rows) {
        if (static_cast<int32_t>(row->version) > highest) highest = static_cast<int32_t>(row->version);
      }
      if (rows >= 100) {
        ++tables;
        api_level = highest;
      }
      at -= 8;
    }
  }
  return tables;
}

/// The loader gives no name for the program itself.
void copy_path(const LoadedObject& object, bool is_first, char (&path)[4096]) {
  if (*object.path() || !is_first) {
    copy_text(object.path(), path, sizeof path);
    return;
  }
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
}

int32_t count_kept_names(const Anchor& copy) {
  int32_t kept = 0;
  for (uint32_t i = 0; i < copy.name_count; ++i) {
    const char* function = reinterpret_cast<const char*>(&copy.functions[i]) + copy.functions[i];
    if (__atomic_load_n(&copy.slots[i], __ATOMIC_ACQUIRE) == function) ++kept;
  }
  return kept;
}

void add_records(Snapshot& snapshot, const Anchor& anchor, const LoadedObject& object, const char* path, int32_t copy,
                 bool also_past) {
  for (auto* block = __atomic_load_n(&anchor.records, __ATOMIC_ACQUIRE); block; block = block->next) {
    for (uint64_t i = 0; i < block->capacity; ++i) {
      const Record& record = block->entries[i];
      const uint64_t kind = __atomic_load_n(&record.kind, __ATOMIC_ACQUIRE);
      const auto what = reinterpret_cast<uintptr_t>(__atomic_load_n(&record.what, __ATOMIC_RELAXED));
      if (kind == Record::fat_binary || (also_past && kind == Record::past_fat_binary)) {
        // {u32 magic, u32 version, pointer to the container, pointer}: nvcc puts it into the object itself.
        uintptr_t container = 0;
        if (object.holds(what, 24, PF_R)) memcpy(&container, reinterpret_cast<const void*>(what + 8), sizeof container);
        snapshot.append(snapshot.report.fat_binaries, snapshot.report.fat_binary_count,
                        {snapshot.text(path), container, container ? count_images(object, container) : -1, copy});
      } else if (kind == Record::foreign_stub) {
        const auto name = reinterpret_cast<uintptr_t>(__atomic_load_n(&record.detail, __ATOMIC_RELAXED));
        // `defined_in` holds the address until the walk is over.
        snapshot.append(snapshot.report.shared_stubs, snapshot.report.shared_stub_count,
                        {object.holds(name, 1, PF_R) ? snapshot.text(reinterpret_cast<const char*>(name)) : "",
                         reinterpret_cast<const char*>(what), snapshot.text(path)});
      }
    }
  }
}

void visit_object(Snapshot& snapshot, const LoadedObject& object, bool is_first, bool also_past) {
  char path[4096];
  copy_path(object, is_first, path);
  int ours = 0;
  object.for_each_note([&](const NoteDescription& note, const Anchor* anchor) {
    cudeploy_copy copy = {};
    copy.object = snapshot.text(path);
    copy.address = object.base();
    copy.cuda_major = static_cast<int32_t>(note.cuda_major);
    copy.anchor_abi = static_cast<int32_t>(note.abi);
    copy.server = -1;
    copy.role = CUDEPLOY_ROLE_OTHER_ABI;
    Server server = 0;
    ++ours;
    const Anchor* readable = relocated(note, anchor, note.cuda_major);
    if (note.abi == anchor_abi) {
      copy.role = CUDEPLOY_ROLE_IDLE;
      if (readable) {
        copy.runtime_version = static_cast<int32_t>(__atomic_load_n(&readable->version, __ATOMIC_ACQUIRE));
        copy.pinned = __atomic_load_n(&readable->state, __ATOMIC_ACQUIRE) & (pinned | pin_wanted) ? 1 : 0;
        server = __atomic_load_n(&readable->bound, __ATOMIC_ACQUIRE);
        if (server && server != reinterpret_cast<Server>(readable)) copy.kept_names = count_kept_names(*readable);
        if (__atomic_load_n(&readable->state, __ATOMIC_ACQUIRE) & alone) {
          snapshot.note("%s keeps a state of its own, as CUDEPLOY_UNIFY=0 asks", path);
        }
      }
    } else {
      snapshot.note(
          "%s was made by a cudeploy with anchor ABI %u, which this one (%u) does not read: "
          "rebuild both with one version to share a runtime",
          path, note.abi, anchor_abi);
    }
    const int32_t index = snapshot.report.copy_count;
    if (snapshot.add_copy(copy, server, readable) && readable) {
      add_records(snapshot, *readable, object, path, index, also_past);
    }
  });
  const uint32_t shared_major = object.shared_runtime_major();
  int32_t api_level = 0;
  const int tables = count_runtime_tables(object, api_level);
  if (shared_major) {
    cudeploy_copy copy = {};
    copy.object = snapshot.text(path);
    copy.address = object.base();
    copy.role = CUDEPLOY_ROLE_FOREIGN_SHARED;
    copy.api_level = api_level;
    copy.cuda_major = static_cast<int32_t>(shared_major);
    copy.server = snapshot.report.copy_count;
    snapshot.add_copy(copy, 0, reinterpret_cast<const void*>(object.base()));
    return;
  }
  for (int i = ours; i < tables; ++i) {
    cudeploy_copy copy = {};
    copy.object = snapshot.text(path);
    copy.address = object.base();
    copy.role = CUDEPLOY_ROLE_FOREIGN_STATIC;
    copy.api_level = api_level;
    copy.cuda_major = api_level / 1000;
    copy.server = snapshot.report.copy_count;
    snapshot.add_copy(copy, 0, nullptr);
  }
}

/// Who answers for each copy, now that all are known.
void resolve_servers(Snapshot& snapshot) {
  auto& report = snapshot.report;
  for (int32_t i = 0; i < report.copy_count; ++i) {
    const Server server = snapshot.bound[i];
    if (!server) continue;
    const void* wanted = reinterpret_cast<const void*>(server);
    if (server & shared_runtime_bit) {
      // A handle of dlopen is the loader's link_map, whose first field is the address of the object.
      wanted = reinterpret_cast<const void*>(reinterpret_cast<const link_map*>(server & ~shared_runtime_bit)->l_addr);
    }
    for (int32_t k = 0; k < report.copy_count; ++k) {
      if (snapshot.identity[k] == wanted) snapshot.copy(i).server = k;
    }
    const int32_t k = snapshot.copy(i).server;
    snapshot.copy(i).role = k == i ? CUDEPLOY_ROLE_SERVING : CUDEPLOY_ROLE_JOINED;
    if (k >= 0 && snapshot.copy(k).role == CUDEPLOY_ROLE_IDLE) {
      // Chosen by others before anything in its own object called.
      snapshot.copy(k).role = CUDEPLOY_ROLE_SERVING;
      snapshot.copy(k).server = k;
    }
  }
}

const char* version_text(int32_t version, char (&text)[32]) {
  snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
  return text;
}

void count_states_and_explain(Snapshot& snapshot) {
  auto& report = snapshot.report;
  char one[32], other[32];
  for (int32_t i = 0; i < report.copy_count; ++i) {
    const auto& copy = report.copies[i];
    const bool has_state = copy.role == CUDEPLOY_ROLE_SERVING || copy.role == CUDEPLOY_ROLE_FOREIGN_STATIC ||
                           copy.role == CUDEPLOY_ROLE_FOREIGN_SHARED;
    if (has_state) ++report.states;
    if (copy.role == CUDEPLOY_ROLE_JOINED && copy.kept_names && copy.server >= 0) {
      snapshot.note("%d functions that %s may call are unknown to the runtime of %s and stay with its own copy",
                    copy.kept_names, copy.object, report.copies[copy.server].object);
    }
    if (copy.role != CUDEPLOY_ROLE_SERVING) continue;
    for (int32_t k = 0; k < report.copy_count; ++k) {
      const auto& second = report.copies[k];
      if (k == i || second.cuda_major != copy.cuda_major) continue;
      if (second.role == CUDEPLOY_ROLE_SERVING && k > i) {
        snapshot.note(
            "two runtimes of CUDA %d serve: %s (%s) and %s (%s), since the newer one came after the older "
            "one was used: link or load the newest first to have one",
            copy.cuda_major, copy.object, version_text(copy.runtime_version, one), second.object,
            version_text(second.runtime_version, other));
      }
      if (second.role == CUDEPLOY_ROLE_FOREIGN_SHARED) {
        snapshot.note(
            "%s is a shared runtime of CUDA %d beside the one that %s serves (%s): load it before the first "
            "call, in a version at least as new, to have one",
            second.object, copy.cuda_major, copy.object, version_text(copy.runtime_version, one));
      }
    }
  }
  for (int32_t i = 0; i < report.shared_stub_count; ++i) {
    const auto& stub = report.shared_stubs[i];
    snapshot.note(
        "the kernel %s of %s was registered by %s too: its host stub is exported, the last registration "
        "wins: compile kernels with hidden visibility",
        stub.name, stub.defined_in, stub.registered_by);
  }
}

void ask_driver(Snapshot& snapshot, bool load) {
  auto& report = snapshot.report;
  report.driver_error = -1;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | (load ? 0 : RTLD_NOLOAD));
  if (!driver) {
    if (load)
      snapshot.note(
          "no NVIDIA driver library (libcuda.so.1) was found: calls that need a GPU answer 35, "
          "cudaErrorInsufficientDriver; install the driver of the GPU");
    return;
  }
  int version = 0;
  auto* get_version = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  if (get_version && get_version(&version) == 0) report.driver_version = version;
  auto* initialise = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  if (load && initialise) report.driver_error = initialise(0);
  dlclose(driver);
  char one[32], other[32];
  for (int32_t i = 0; i < report.copy_count; ++i) {
    const auto& copy = report.copies[i];
    if (copy.role != CUDEPLOY_ROLE_SERVING || !version || copy.runtime_version / 1000 <= version / 1000) continue;
    snapshot.note(
        "the driver supports CUDA %s, the runtime of %s is %s: its calls answer 35, "
        "cudaErrorInsufficientDriver; install a driver for CUDA %d or newer",
        version_text(version, one), copy.object, version_text(copy.runtime_version, other),
        copy.runtime_version / 1000);
  }
  if (report.driver_error == 100) {
    snapshot.note(
        "the driver sees no GPU: calls that need one answer 100, cudaErrorNoDevice; look whether this "
        "machine or container is given one");
  }
}

void discard(Snapshot* snapshot) {
  for (auto* piece = snapshot->pieces; piece;) {
    auto* next = piece->next;
    free(piece);
    piece = next;
  }
  free(snapshot);
}

/// The loader namespace that this copy lives in: 0 is the program's, others are opened with dlmopen.
int32_t loader_namespace() {
  Dl_info ignored;
  link_map* own = nullptr;
  Lmid_t number = LM_ID_BASE;
  // A link map is what dlopen gives as a handle.
  if (!dladdr1(&cudeploy_anchor_here, &ignored, reinterpret_cast<void**>(&own), RTLD_DL_LINKMAP) || !own ||
      dlinfo(own, RTLD_DI_LMID, &number) != 0) {
    return 0;
  }
  return static_cast<int32_t>(number);
}

Snapshot* take(bool load_driver, bool also_past) {
  auto* snapshot = static_cast<Snapshot*>(calloc(1, sizeof(Snapshot)));
  if (!snapshot) return nullptr;
  bool is_first = true;
  for_each_object([&](const LoadedObject& object, const dl_phdr_info&) {
    visit_object(*snapshot, object, is_first, also_past);
    is_first = false;
    return snapshot->failed;
  });
  // Shared runtimes say their version themselves; asked outside of the walk.
  for (int32_t i = 0; i < snapshot->report.copy_count; ++i) {
    auto& copy = snapshot->copy(i);
    if (copy.role != CUDEPLOY_ROLE_FOREIGN_SHARED) continue;
    if (void* handle = dlopen(copy.object, RTLD_LAZY | RTLD_NOLOAD)) {
      auto* get_version = reinterpret_cast<int (*)(int*)>(dlsym(handle, "cudaRuntimeGetVersion"));
      if (get_version) get_version(&copy.runtime_version);
      dlclose(handle);
    }
  }
  for (int32_t i = 0; i < snapshot->report.shared_stub_count; ++i) {
    auto& stub = const_cast<cudeploy_shared_stub*>(snapshot->report.shared_stubs)[i];
    const auto address = reinterpret_cast<uintptr_t>(stub.defined_in);
    stub.defined_in = "";
    bool first = true;
    for_each_object([&](const LoadedObject& object, const dl_phdr_info&) {
      const bool is_first = first;
      first = false;
      if (!object.holds(address, 1, PF_R)) return false;
      char path[4096];
      copy_path(object, is_first, path);
      stub.defined_in = snapshot->text(path);
      return true;
    });
  }
  snapshot->report.loader_namespace = loader_namespace();
  if (snapshot->report.loader_namespace != 0) {
    snapshot->note(
        "this is loader namespace %d, opened with dlmopen: a world of its own, whose runtimes and the program's "
        "neither "
        "see nor join each other",
        snapshot->report.loader_namespace);
  }
  resolve_servers(*snapshot);
  count_states_and_explain(*snapshot);
  ask_driver(*snapshot, load_driver);
  if (snapshot->failed) {
    discard(snapshot);
    return nullptr;
  }
  return snapshot;
}

// ---- JSON ----------------------------------------------------------------------------------------------------

/// Bytes of the UTF-8 letter at the start of a text that ends with a zero; 0 where there is none to be printed.
size_t letter_size(const char* text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f;
  size_t size = 2;
  if (first >= 0xe0) ++size;
  if (first >= 0xf0) ++size;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Too long for its letter, half of a pair, or past the last letter.
  const unsigned second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second >= 0x90)) {
    return 0;
  }
  return size;
}

/// Writes as much as fits and counts all.
struct Text {
  char* buffer;
  size_t size;
  size_t length = 0;

  void put(char c) {
    if (length + 1 < size) buffer[length] = c;
    ++length;
  }
  void put(const char* text) {
    while (*text) put(*text++);
  }
  void number(long long value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", value);
    put(digits);
  }
  void address(uint64_t value) {
    char digits[32];
    snprintf(digits, sizeof digits, "\"0x%llx\"", static_cast<unsigned long long>(value));
    put(digits);
  }
  /// A path is bytes, and a note may be cut in a letter: what is not UTF-8 is escaped too, so the text stays JSON.
  void string(const char* text) {
    put('"');
    while (*text) {
      const auto c = static_cast<unsigned char>(*text);
      size_t left = letter_size(text);
      if (!left) {
        char escape[8];
        snprintf(escape, sizeof escape, "\\u%04x", c);
        put(escape);
        ++text;
      }
      if (c == '"' || c == '\\') put('\\');
      for (; left; --left) put(*text++);
    }
    put('"');
  }
  void key(const char* name) {
    string(name);
    put(": ");
  }
};

const char* role_name(int32_t role) {
  switch (role) {
    case CUDEPLOY_ROLE_SERVING:
      return "serving";
    case CUDEPLOY_ROLE_JOINED:
      return "joined";
    case CUDEPLOY_ROLE_IDLE:
      return "idle";
    case CUDEPLOY_ROLE_OTHER_ABI:
      return "other-abi";
    case CUDEPLOY_ROLE_FOREIGN_STATIC:
      return "foreign-static";
    default:
      return "foreign-shared";
  }
}

void write_json(const cudeploy_report& report, Text& out) {
  const auto number = [&](const char* name, long long value) {
    out.put(", ");
    out.key(name);
    out.number(value);
  };
  out.put("{\n  \"schema\": \"cudeploy/runtime-report/1\",\n  \"driver_version\": ");
  out.number(report.driver_version);
  out.put(",\n  \"driver_error\": ");
  out.number(report.driver_error);
  out.put(",\n  \"loader_namespace\": ");
  out.number(report.loader_namespace);
  out.put(",\n  \"states\": ");
  out.number(report.states);
  out.put(",\n  \"copies\": [");
  for (int32_t i = 0; i < report.copy_count; ++i) {
    const auto& copy = report.copies[i];
    out.put(i ? ",\n    {" : "\n    {");
    out.key("object");
    out.string(copy.object);
    out.put(", \"address\": ");
    out.address(copy.address);
    out.put(", \"role\": ");
    out.string(role_name(copy.role));
    number("runtime_version", copy.runtime_version);
    number("api_level", copy.api_level);
    number("cuda_major", copy.cuda_major);
    number("anchor_abi", copy.anchor_abi);
    number("server", copy.server);
    number("kept_names", copy.kept_names);
    out.put(copy.pinned ? ", \"pinned\": true}" : ", \"pinned\": false}");
  }
  out.put("],\n  \"fat_binaries\": [");
  for (int32_t i = 0; i < report.fat_binary_count; ++i) {
    const auto& binary = report.fat_binaries[i];
    out.put(i ? ",\n    {" : "\n    {");
    out.key("object");
    out.string(binary.object);
    out.put(", \"address\": ");
    out.address(binary.address);
    number("images", binary.images);
    number("copy", binary.copy);
    out.put('}');
  }
  out.put("],\n  \"shared_stubs\": [");
  for (int32_t i = 0; i < report.shared_stub_count; ++i) {
    const auto& stub = report.shared_stubs[i];
    out.put(i ? ",\n    {" : "\n    {");
    out.key("name");
    out.string(stub.name);
    out.put(", \"defined_in\": ");
    out.string(stub.defined_in);
    out.put(", \"registered_by\": ");
    out.string(stub.registered_by);
    out.put('}');
  }
  out.put("],\n  \"notes\": [");
  for (int32_t i = 0; i < report.note_count; ++i) {
    out.put(i ? ",\n    " : "\n    ");
    out.string(report.notes[i]);
  }
  out.put("]\n}\n");
  if (out.size) out.buffer[out.length < out.size ? out.length : out.size - 1] = 0;
}

// ---- At the end of the process -------------------------------------------------------------------------------

/// Exactly one copy of a namespace writes: the first in link-map order, where its object stays until the end.
bool is_the_writer() {
  bool first = true, writes = false;
  for_each_object([&](const LoadedObject& object, const dl_phdr_info&) {
    const bool is_main = first && !*object.path();
    first = false;
    bool found = false;
    object.for_each_note([&](const NoteDescription& note, const Anchor* anchor) {
      const Anchor* copy = relocated(note, anchor, note.cuda_major);
      if (!copy || found) return;
      found = true;
      writes = copy == &cudeploy_anchor_here && (is_main || (__atomic_load_n(&copy->state, __ATOMIC_ACQUIRE) & pinned));
    });
    return found;
  });
  return writes;
}

void write_report_file(const char* path) {
  Snapshot* snapshot = take(false, true);
  if (!snapshot) return;
  Text measure = {nullptr, 0};
  write_json(snapshot->report, measure);
  if (auto* text = static_cast<char*>(malloc(measure.length + 1))) {
    Text out = {text, measure.length + 1};
    write_json(snapshot->report, out);
    const bool to_stderr = strcmp(path, "stderr") == 0;
    char numbered[PATH_MAX];
    if (!to_stderr && snapshot->report.loader_namespace != 0) {
      snprintf(numbered, sizeof numbered, "%s.%d", path, snapshot->report.loader_namespace);
      path = numbered;
    }
    const int file = to_stderr ? 2 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    size_t done = 0;
    while (file >= 0 && done < out.length) {
      const ssize_t written = write(file, text + done, out.length - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;
      done += static_cast<size_t>(written);
    }
    if (done < out.length) dprintf(2, "CUDEPLOY_REPORT=%s: %m\n", path);  // nobody else tells why there is none
    if (!to_stderr && file >= 0) close(file);
    free(text);
  }
  discard(snapshot);
}

__attribute__((destructor(151))) void leave() {
  const char* path = secure_getenv("CUDEPLOY_REPORT");
  if (path && *path && is_the_writer()) write_report_file(path);
  auto* block = __atomic_exchange_n(&cudeploy_anchor_here.records, nullptr, __ATOMIC_ACQ_REL);
  while (block && block != &first_block) {
    auto* next = block->next;
    free(block);
    block = next;
  }
}

}  // namespace

extern "C" {

__attribute__((visibility("hidden"))) cudeploy_report* cudeploy_report_new(void) {
  Snapshot* snapshot = take(true, false);
  return snapshot ? &snapshot->report : nullptr;
}

__attribute__((visibility("hidden"))) void cudeploy_report_free(cudeploy_report* report) {
  if (report) discard(reinterpret_cast<Snapshot*>(report));
}

__attribute__((visibility("hidden"))) size_t cudeploy_report_json(char* buffer, size_t size) {
  Snapshot* snapshot = take(true, false);
  if (!snapshot) return 0;
  Text out = {buffer, size};
  write_json(snapshot->report, out);
  discard(snapshot);
  return out.length;
}
}
