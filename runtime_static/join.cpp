// Every shared object that links libcudart_static.a gets a runtime of its own: its own kernels, its own launch
// configuration, its own last error. Nothing merges these copies, since all their symbols are hidden. So each
// copy carries an anchor, and at its first call it meets the others, agrees with them on one that serves, fills
// its jump table with that one's functions, and stays out of the way from then on.
//
// There is no lock here. Binding calls the loader, and the caller may itself be inside of dlopen (a constructor)
// while another thread waits for the loader in its own first call: a lock of ours and the loader's would be taken
// in both orders. All decisions are single compare-and-swaps; what is done twice gives the same twice.
//
// Runs before constructors, in any thread, in a forked child: no C++ library, no allocation, no exceptions.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "anchor.hpp"
#include "cudeploy_copy.hpp"
#include "loaded_object.hpp"

#define CUDEPLOY_TEXT_(x) #x
#define CUDEPLOY_TEXT(x) CUDEPLOY_TEXT_(x)
#define CUDEPLOY_ANCHOR_ABI 1
static_assert(CUDEPLOY_ANCHOR_ABI == cudeploy::anchor_abi);

using cudeploy::Anchor;

extern "C" {
#pragma GCC visibility push(hidden)
// entries.cpp
extern void* cudeploy_slots[CUDEPLOY_NAME_COUNT];
extern const int32_t cudeploy_functions[CUDEPLOY_NAME_COUNT];
extern const char cudeploy_names[];
// report.cpp
size_t cudeploy_report_json(char* buffer, size_t size);
// The archive's own, whatever the linker makes of cudaRuntimeGetVersion.
int __real_cudaRuntimeGetVersion(int* version);

extern Anchor cudeploy_anchor_here;
void* cudeploy_bind(uint32_t index);
#pragma GCC visibility pop
}

/// What this copy says of itself. Without a driver a runtime of CUDA 11 answers 35 and leaves the version alone. Its
/// table of functions speaks then, as the link kit read it from the same archive: a lower bound, and enough to order
/// 11.4 and 11.8.
static int own_version(int* version) {
  *version = 0;
  __real_cudaRuntimeGetVersion(version);
  if (*version <= 0) *version = CUDEPLOY_API_LEVEL;
  return 0;
}

__attribute__((used)) Anchor cudeploy_anchor_here = {&cudeploy_anchor_here,
                                                     cudeploy::anchor_abi,
                                                     CUDEPLOY_CUDA_MAJOR,
                                                     sizeof(Anchor),
                                                     CUDEPLOY_NAME_COUNT,
                                                     CUDEPLOY_NAMES_ID,
                                                     CUDEPLOY_ARCHIVE_ID,
                                                     cudeploy_names,
                                                     cudeploy_functions,
                                                     cudeploy_slots,
                                                     own_version,
                                                     cudeploy_report_json,
                                                     0,
                                                     0,
                                                     0,
                                                     0,
                                                     nullptr,
                                                     {0, 0}};

#if CUDEPLOY_ANCHOR_EXPORTED
// For nm, gdb and the audit. The copies never look for it: another object's would be found in its place.
extern "C" __attribute__((visibility("default"), alias("cudeploy_anchor_here"))) Anchor cudeploy_anchor;
#endif

__asm__(
    ".pushsection .note.cudeploy, \"a\", %note\n"
    ".balign 4\n"
    ".long 9, 16, 1\n"
    ".asciz \"cudeploy\"\n"
    ".balign 4\n"
    ".long " CUDEPLOY_TEXT(CUDEPLOY_ANCHOR_ABI) ", " CUDEPLOY_TEXT(CUDEPLOY_CUDA_MAJOR) "\n"
    "1: .8byte cudeploy_anchor_here - 1b\n"
    ".popsection\n");

namespace cudeploy {
namespace {

Anchor& own = cudeploy_anchor_here;

uint32_t state_of(const Anchor& copy) { return __atomic_load_n(&copy.state, __ATOMIC_SEQ_CST); }
uint32_t version_of(const Anchor& copy) { return __atomic_load_n(&copy.version, __ATOMIC_ACQUIRE); }

Anchor* writable(const Anchor* anchor) { return const_cast<Anchor*>(anchor); }

void mark(const Anchor& copy, uint32_t bits) {
  __atomic_fetch_or(&const_cast<Anchor&>(copy).state, bits, __ATOMIC_SEQ_CST);
}

/// Asks a copy what it is; only where its code cannot be unmapped meanwhile.
uint32_t ask_version(const Anchor& copy) {
  if (const uint32_t known = version_of(copy)) return known;
  int version = 0;
  copy.runtime_version(&version);
  // Who does not answer is older than any other: it joins everybody, nobody joins it.
  const uint32_t answer = version > 0 ? static_cast<uint32_t>(version) : 1;
  __atomic_store_n(&const_cast<Anchor&>(copy).version, answer, __ATOMIC_RELEASE);
  return answer;
}

/// What one walk over the loaded objects shows.
struct Present {
  const Anchor* meeting = nullptr;  ///< first copy of our generation in link-map order
  bool meeting_pinned = false;
  const Anchor* best = nullptr;     ///< the one that should serve
  const Anchor* strange = nullptr;  ///< of unknown version, neither constructed nor of our archive
  bool unconstructed = false;       ///< some copy beside us has not run its constructor
  unsigned long long added = 0;     ///< objects loaded so far in this process
};

/// Version as far as it is known without a call: copies of one archive are equal.
uint32_t known_version(const Anchor& copy) {
  const uint32_t version = version_of(copy);
  return !version && copy.archive_id == own.archive_id ? version_of(own) : version;
}

Present look_around() {
  Present seen;
  bool main_program = true;  // the first object of the list, in the namespace that has one
  bool best_is_main = false;
  uint32_t best_version = 0;
  char best_soname[256] = "";
  for_each_object([&](const LoadedObject& object, const dl_phdr_info& info) {
    seen.added = info.dlpi_adds;
    const bool is_main = main_program && !*object.path();
    main_program = false;
    object.for_each_note([&](const NoteDescription& note, const Anchor* anchor) {
      const Anchor* copy = relocated(note, anchor, CUDEPLOY_CUDA_MAJOR);
      if (!copy) return;
      if (!seen.meeting) {
        seen.meeting = copy;
        seen.meeting_pinned = state_of(*copy) & pinned;
      }
      if (copy != &own && !(state_of(*copy) & constructed)) seen.unconstructed = true;
      const uint32_t version = known_version(*copy);
      if (!version) {
        seen.strange = copy;
        return;
      }
      // Newest first. Among equals the object that is finalised last, so that static destructors of the others
      // still find a runtime: libraries outlive the program, what is needed outlives what needs it, and what was
      // loaded later outlives what was there.
      const bool better =
          !seen.best || version > best_version ||
          (version == best_version && !is_main && (best_is_main || !*best_soname || !object.needs(best_soname)));
      if (!better) return;
      seen.best = copy;
      best_version = version;
      best_is_main = is_main;
      const char* soname = object.soname();
      copy_text(*soname ? soname : object.file_name(), best_soname, sizeof best_soname);
    });
    return false;
  });
  return seen;
}

/// Where a copy lies, as the loader knows it.
struct Home {
  char path[PATH_MAX];
  bool is_main = false;
  uint32_t state = 0;  ///< of the copy, read while it could not go away
};

/// False when the copy is gone, or its path is too long to name it to the loader.
bool find_home(const Anchor* target, Home& home) {
  bool found = false, first = true;
  for_each_object([&](const LoadedObject& object, const dl_phdr_info&) {
    const bool main_program = first && !*object.path();
    first = false;
    object.for_each_note([&](const NoteDescription& note, const Anchor* anchor) {
      if (relocated(note, anchor, CUDEPLOY_CUDA_MAJOR) != target) return;
      if (!copy_text(object.path(), home.path, sizeof home.path)) return;
      home.is_main = main_program;
      home.state = state_of(*target);
      found = true;
    });
    return found;
  });
  return found;
}

/// Keeps the object of `copy` loaded for ever. False when it is gone: look again.
bool pin(const Anchor* copy) {
  Home home;
  if (!find_home(copy, home)) return false;
  if (home.state & pinned) return true;
  if (home.is_main) {
    mark(*copy, pinned);
    return true;
  }
  if (!(home.state & constructed)) {
    // dlopen would run the constructors of an object whose turn has not come. It cannot be unloaded before
    // they ran, so it pins itself then, unless that moment has just passed.
    mark(*copy, pin_wanted);
    if (!(state_of(*copy) & constructed)) return true;
  }
  if (!dlopen(home.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) return false;
  // The object of that path stays now. Is it still the one with this anchor?
  if (!find_home(copy, home)) return false;
  mark(*copy, pinned);
  return true;
}

/// A shared runtime of our major that is loaded and at least as new as `version`, pinned; 0 when there is none.
Server find_shared_runtime(uint32_t version) {
  for (int skip = 0;; ++skip) {
    char path[PATH_MAX];
    int found = 0;
    for_each_object([&](const LoadedObject& object, const dl_phdr_info&) {
      if (object.shared_runtime_major() != CUDEPLOY_CUDA_MAJOR || found++ != skip) return false;
      return copy_text(object.path(), path, sizeof path);
    });
    if (found <= skip) return 0;
    // dlopen waits for a dlopen of another thread, so the library is relocated when it returns.
    void* handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) continue;
    auto* get_version = reinterpret_cast<int (*)(int*)>(dlsym(handle, "cudaRuntimeGetVersion"));
    int its_version = 0;
    if (get_version) get_version(&its_version);
    if (its_version > 0 && static_cast<uint32_t>(its_version) >= version &&
        dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == handle) {
      return reinterpret_cast<Server>(handle) | shared_runtime_bit;
    }
    dlclose(handle);
  }
}

uint32_t server_version(Server server) {
  if (!(server & shared_runtime_bit)) return version_of(*reinterpret_cast<const Anchor*>(server));
  void* handle = reinterpret_cast<void*>(server & ~shared_runtime_bit);
  auto* get_version = reinterpret_cast<int (*)(int*)>(dlsym(handle, "cudaRuntimeGetVersion"));
  int version = 0;
  if (get_version) get_version(&version);
  return version > 0 ? static_cast<uint32_t>(version) : 0;
}

/// Meets the other copies and names the one that serves this one.
Server choose_server() {
  const Server alone_server = reinterpret_cast<Server>(&own);
  const char* unify = secure_getenv("CUDEPLOY_UNIFY");
  if (unify && strcmp(unify, "0") == 0) {
    mark(own, alone);
    return alone_server;
  }
  // Ends at the first round in all but contrived races; the bound is there to serve rather than to hang.
  for (int round = 0; round < 1000; ++round) {
    Present seen = look_around();
    if (seen.unconstructed) {
      // Is it relocated, but in a dlopen of another thread that may still fail and unmap it? dladdr waits for the
      // loader: whoever is not constructed afterwards and was there before belongs to this thread's own dlopen,
      // or to the start of the program, and stays.
      const unsigned long long added = seen.added;
      Dl_info ignored;
      dladdr(&own, &ignored);
      seen = look_around();
      if (seen.added != added) continue;
      if (seen.strange) {
        ask_version(*seen.strange);
        continue;
      }
    } else if (seen.strange) {
      continue;  // constructed between two looks
    }
    if (!seen.meeting || !seen.best) return alone_server;  // not in the loader's list: nobody can meet us
    if (!seen.meeting_pinned && !pin(seen.meeting)) continue;
    Server* serving = &writable(seen.meeting)->serving;
    Server current = __atomic_load_n(serving, __ATOMIC_ACQUIRE);
    if (current && server_version(current) >= version_of(own)) return current;
    const uint32_t best_version = known_version(*seen.best);
    Server candidate = find_shared_runtime(best_version);
    if (!candidate) {
      if (!version_of(*seen.best)) __atomic_store_n(&writable(seen.best)->version, best_version, __ATOMIC_RELEASE);
      if (!pin(seen.best)) continue;
      candidate = reinterpret_cast<Server>(seen.best);
    }
    if (__atomic_compare_exchange_n(serving, &current, candidate, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      return candidate;
    }
  }
  return alone_server;
}

void* function_of(const Anchor& copy, uint32_t index) {
  const int32_t* offset = &copy.functions[index];
  return const_cast<char*>(reinterpret_cast<const char*>(offset)) + *offset;
}

void fill(uint32_t index, void* function) { __atomic_store_n(&cudeploy_slots[index], function, __ATOMIC_RELEASE); }

/// Finds functions of a library that stays loaded by its own hash table. dlsym takes 900 instructions for a name, and
/// hundreds are asked for. What is not found here (another kind of table, a function that is chosen at run time, an
/// older version of a symbol) is left to dlsym.
class Exports {
 public:
  explicit Exports(const link_map& library) : base_(library.l_addr) {
    for (const auto* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
      const uintptr_t value = entry->d_un.d_ptr < base_ ? base_ + entry->d_un.d_ptr : entry->d_un.d_ptr;
      if (entry->d_tag == DT_GNU_HASH) table_ = reinterpret_cast<const uint32_t*>(value);
      if (entry->d_tag == DT_SYMTAB) symbols_ = reinterpret_cast<const ElfW(Sym)*>(value);
      if (entry->d_tag == DT_STRTAB) strings_ = reinterpret_cast<const char*>(value);
      if (entry->d_tag == DT_VERSYM) versions_ = reinterpret_cast<const uint16_t*>(value);
    }
  }

  void* find(const char* name) const {
    if (!table_ || !table_[0]) return nullptr;
    uint32_t hash = 5381;
    for (const char* c = name; *c; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
    // {buckets, first symbol, words of the filter, shift}, the filter in words of 64 bits, the buckets, the chains.
    const uint32_t* buckets = table_ + 4 + 2 * table_[2];
    const uint32_t* chains = buckets + table_[0] - table_[1];
    uint32_t i = buckets[hash % table_[0]];
    if (i < table_[1]) return nullptr;
    for (;; ++i) {
      const ElfW(Sym)& symbol = symbols_[i];
      if ((chains[i] | 1) == (hash | 1) && !(versions_ && versions_[i] & 0x8000) &&
          ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && strcmp(strings_ + symbol.st_name, name) == 0) {
        return reinterpret_cast<void*>(base_ + symbol.st_value);
      }
      if (chains[i] & 1) return nullptr;
    }
  }

 private:
  uintptr_t base_;
  const uint32_t* table_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const uint16_t* versions_ = nullptr;
};

/// Fills all slots, by name. A name that the server lacks stays with our own copy. (Not inlined: its cost is measured.)
__attribute__((noinline)) void fill_slots(Server server) {
  if (server & shared_runtime_bit) {
    void* handle = reinterpret_cast<void*>(server & ~shared_runtime_bit);
    const Exports exports(*static_cast<const link_map*>(handle));  // what dlopen gives, in glibc
    const char* name = cudeploy_names;
    for (uint32_t i = 0; i < CUDEPLOY_NAME_COUNT; ++i, name += strlen(name) + 1) {
      void* function = exports.find(name);
      if (!function) function = dlsym(handle, name);
      fill(i, function ? function : function_of(own, i));
    }
    return;
  }
  const Anchor& copy = *reinterpret_cast<const Anchor*>(server);
  if (copy.names_id == own.names_id && copy.name_count == CUDEPLOY_NAME_COUNT) {
    void** slot = cudeploy_slots;
    const auto* const end = copy.functions + CUDEPLOY_NAME_COUNT;
    for (const int32_t* offset = copy.functions; offset != end; ++offset, ++slot) {
      void* function = const_cast<char*>(reinterpret_cast<const char*>(offset)) + *offset;
      __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    }
    return;
  }
  const char* name = cudeploy_names;
  const char* its_name = copy.names;
  uint32_t its_index = 0;
  for (uint32_t i = 0; i < CUDEPLOY_NAME_COUNT; ++i, name += strlen(name) + 1) {
    int order = 1;
    while (its_index < copy.name_count && (order = strcmp(its_name, name)) < 0) {
      its_name += strlen(its_name) + 1;
      ++its_index;
    }
    fill(i, its_index < copy.name_count && order == 0 ? function_of(copy, its_index) : function_of(own, i));
  }
}

/// From here on the object is loaded for good: nobody has to fear that its dlopen fails.
__attribute__((constructor(151))) void note_construction() {
  ask_version(own);
  const uint32_t before = __atomic_fetch_or(&own.state, constructed, __ATOMIC_SEQ_CST);
  if (before & pin_wanted) pin(&own);
}

}  // namespace
}  // namespace cudeploy

/// Called by the entry of function `index` when this copy is not bound yet. Returns where that call goes.
void* cudeploy_bind(uint32_t index) {
  using namespace cudeploy;
  const int saved_errno = errno;
  ask_version(own);
  Server server = __atomic_load_n(&own.bound, __ATOMIC_ACQUIRE);
  if (!server) {
    // Two threads may have chosen differently, when a newer copy came between: the first one decides for the copy.
    const Server choice = choose_server();
    if (__atomic_compare_exchange_n(&own.bound, &server, choice, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      server = choice;
    }
  }
  fill_slots(server);
  errno = saved_errno;
  return __atomic_load_n(&cudeploy_slots[index], __ATOMIC_ACQUIRE);
}
