// A library that is present is not yet a library that is found. Whether a bundle starts on a machine that nobody
// prepared depends on what the loader does: which search path counts for whom, what is inherited, and that it looks
// for file names, not for sonames. This walks a bundle as glibc's loader would on a bare machine: only the bundle,
// the driver, the base system and what the policy says is there. Windows' rule is simpler: names, in any folder.
// Sources: ld.so(8); glibc elf/dl-load.c (order and inheritance) and elf/dl-deps.c (breadth first).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bundle.hpp"
#include "inspect_record.hpp"
#include "policy.hpp"

namespace cudeploy {

/// Who brings a needed library.
enum class Provider {
  bundle,          ///< found by the search path of the one who needs it
  already_loaded,  ///< not found by that path: it works only since another object loaded it before
  driver,
  base_system,
  policy,      ///< named in the policy's `provided`
  nobody_yet,  ///< Windows: nobody brings it, and it is asked for at the first call into it only
  missing,
};

/// A file of the bundle under one of its names.
struct Named {
  const FileRecord* file = nullptr;
  std::string path;  ///< of the file, or of a link to it
};

/// One needed library of one object.
struct Need {
  std::string name;
  Provider provider = Provider::missing;
  const FileRecord* file = nullptr;  ///< bundle, already_loaded
  std::string via;                   ///< bundle: the search path entry; already_loaded: path of who loaded it
  std::vector<std::string> tried;    ///< missing, already_loaded: each place in order, and what was there
  /// missing: what would do in the bundle, where no search path leads: one that is called so, else one that has the
  /// name as its soname only.
  Named elsewhere;
};

/// An object in one process, in the order in which the loader takes them.
struct Loaded {
  const FileRecord* file = nullptr;
  std::string folder;  ///< where it was found, links not followed: what $ORIGIN means for it
  std::size_t by = 0;  ///< index of the object that loaded it; its own for the first
  std::vector<Need> needs;
};

/// What one program, or one library opened by a stranger, brings into a process.
struct Process {
  std::vector<Loaded> objects;  ///< the first is the root
  std::string lib, platform;    ///< what $LIB and $PLATFORM are on its machine; "" where nothing in the bundle asks

  const FileRecord* root() const { return objects.front().file; }
};

/// Where an object occurs: process and place in its load order.
struct Occurrence {
  std::size_t process = 0, object = 0;
};

struct Closure {
  /// One for each executable, then one for each shared object that none of the others before loads; more than one where
  /// machines with better CPUs (glibc-hwcaps), of another distribution ($LIB) or with another processor ($PLATFORM)
  /// load other files of the bundle.
  std::vector<Process> processes;
  std::map<const FileRecord*, std::vector<Occurrence>> occurrences;
  std::map<const FileRecord*, std::string> driver_links;  ///< path of a link that gives a file a name of the driver's
  /// What $LIB and $PLATFORM stand for on one machine or another, the longest first; empty where no search path or
  /// needed path of the bundle has the token in it.
  std::vector<std::string> lib_words, platform_words;
};

/// Executables and shared objects only; everything else never meets the loader.
Closure close_over(const Bundle& bundle, const Policy& policy);

/// What follows $ORIGIN or ${ORIGIN} in a search path entry that starts at the file's own folder; nothing for other
/// entries. Slashes before it change nothing, as the folder's own path begins with one.
std::optional<std::string_view> below_origin(std::string_view entry);

/// Whether a search path is there and empty: no folder is searched, not even the current one, as an empty entry among
/// others would have it.
bool names_no_folder(const std::vector<std::string>& search_path);

}  // namespace cudeploy
