#include "closure.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>

#include "bundle_tree.hpp"
#include "system_names.hpp"

namespace cudeploy {
namespace {

/// Bytes of paths that are tried for one object. A real one needs some thousands; a hostile one may need a million
/// names and search a million places for each.
constexpr std::size_t search_limit = 8 << 20;

/// Folders below each folder of a search path for CPUs that can more than every x86-64 can, the least first. A machine
/// of one level looks into the lower ones too. Source: ld.so(8), glibc-hwcaps.
constexpr std::array<std::string_view, 3> hwcaps_folders = {"glibc-hwcaps/x86-64-v2", "glibc-hwcaps/x86-64-v3",
                                                            "glibc-hwcaps/x86-64-v4"};

/// Distributions put 64-bit libraries into different folders, which their loaders search and have for $LIB.
struct Distribution {
  std::string lib;
  std::vector<std::string> system_folders;  ///< in the loader's order; what ldconfig adds comes last
};

/// Debian's way, that of Red Hat and SUSE, and Arch's.
std::vector<Distribution> distributions(const std::optional<std::string>& machine) {
  const std::string debian = fmt::format("lib/{}-linux-gnu", machine.value_or("x86_64"));
  return {{debian, {debian, "usr/" + debian, "lib", "usr/lib"}},
          {"lib64", {"lib64", "usr/lib64", "lib", "usr/lib"}},
          {"lib", {"lib", "usr/lib"}}};
}

/// What $PLATFORM is: on x86-64 the loader has words of its own for some of Intel's processors. Tried: glibc 2.36
/// and 2.41, ld.so --list-diagnostics.
std::vector<std::string> platforms(const std::optional<std::string>& machine) {
  if (machine.value_or("x86_64") == "x86_64") return {"x86_64", "haswell", "xeon_phi"};
  return {*machine};
}

/// Those for which something of this machine is meant: a package is for its own.
std::vector<Distribution> distributions_of(Unpacking unpacking, const std::optional<std::string>& machine) {
  std::vector<Distribution> all = distributions(machine);
  if (unpacking == Unpacking::deb) return {all[0]};
  if (unpacking == Unpacking::rpm) return {all[1]};
  return all;
}

std::vector<std::string> longest_first(const std::set<std::string>& words) {
  std::vector<std::string> result(words.begin(), words.end());
  std::ranges::stable_sort(result, std::ranges::greater(), &std::string::size);
  return result;
}

/// The bytes that the token takes at the start of `text`, "$LIB" or "${LIB}"; 0 where it is none: $LIBRARY is a name.
std::size_t token_length(std::string_view text, std::string_view name) {
  if (!text.starts_with('$')) return 0;
  text.remove_prefix(1);
  if (text.starts_with('{'))
    return text.substr(1).starts_with(name) && text.substr(1 + name.size()).starts_with('}') ? name.size() + 3 : 0;
  if (!text.starts_with(name)) return 0;
  const unsigned char next = text.size() > name.size() ? text[name.size()] : '/';
  return std::isalnum(next) || next == '_' ? 0 : name.size() + 1;
}

bool holds_token(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1))
    if (token_length(text.substr(at), name) != 0) return true;
  return false;
}

struct Token {
  std::string_view name;
  std::optional<std::string> value;  ///< nothing where nobody knows it
};

/// The text with its tokens replaced, wherever they stand; nothing where a value is not known. What is too long for a
/// path is left so.
std::optional<std::string> expand(std::string_view text, const std::array<Token, 3>& tokens) {
  std::string expanded;
  while (expanded.size() < path_limit) {
    const std::size_t plain = std::min(text.find('$'), text.size());
    expanded += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    std::size_t length = 0;
    for (const auto& [name, value] : tokens) {
      length = token_length(text, name);
      if (length == 0) continue;
      if (!value) return {};
      expanded += *value;
      break;
    }
    if (length == 0) expanded += text[0];
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return expanded;
}

class Walk {
 public:
  Walk(const Bundle& bundle, const Policy& policy) : bundle_(bundle), policy_(policy), tree_(bundle) {
    for (const FileRecord* file : bundle.files) {
      if (!is_loadable(*file)) continue;
      by_name_.emplace(name_for(file->format, file_name(file->path)), file);
      if (file->soname) by_soname_.emplace(*file->soname, file);
    }
    const bool windows = std::ranges::any_of(bundle.files, [](auto* file) { return file->format == Format::pe; });
    for (const auto& link : bundle.links) {
      const std::string& path = link.first;
      links_by_name_.emplace(file_name(path), path);
      if (windows) links_by_dll_name_.emplace(windows_name(file_name(path)), path);
      if (!is_driver_name(file_name(path))) continue;
      if (const FileRecord* file = open_link(path)) closure_.driver_links.emplace(file, path);
    }
    for (const std::string_view folder : hwcaps_folders)
      if (std::any_of(bundle.files.begin(), bundle.files.end(), [&](const FileRecord* file) {
            return file->path.find(fmt::format("/{}/", folder)) != std::string::npos;
          }))
        levels_.emplace_back(folder);
    const auto uses = [&](std::string_view token) {
      const auto with_token = [&](const std::string& entry) { return holds_token(entry, token); };
      return std::ranges::any_of(bundle.files, [&](const FileRecord* file) {
        return std::ranges::any_of(file->rpath, with_token) || std::ranges::any_of(file->runpath, with_token) ||
               std::ranges::any_of(file->needed, with_token);
      });
    };
    std::set<std::string> libs, words;
    for (const char* machine : {"x86_64", "aarch64"}) {
      for (const Distribution& each : distributions(machine)) libs.insert(each.lib);
      for (const std::string& platform : platforms(machine)) words.insert(platform);
    }
    if (uses("LIB")) closure_.lib_words = longest_first(libs);
    if (uses("PLATFORM")) closure_.platform_words = longest_first(words);
  }

  Closure run() {
    for (const FileRecord* file : bundle_.files)
      if (is_executable(*file)) start(*file);
    // Of the libraries that no executable loads, those that no other one loads stand for what a stranger opens.
    std::set<const FileRecord*> needed;
    for (const FileRecord* file : bundle_.files) {
      if (!is_loadable(*file) || reached_.contains(file)) continue;
      for (const Process& process : load_everywhere(*file))
        for (std::size_t i = 1; i < process.objects.size(); ++i) needed.insert(process.objects[i].file);
    }
    for (const FileRecord* file : bundle_.files)
      if (is_loadable(*file) && !reached_.contains(file) && !needed.contains(file)) start(*file);
    for (const FileRecord* file : bundle_.files)  // what is left needs itself, in a circle
      if (is_loadable(*file) && !reached_.contains(file)) start(*file);
    return std::move(closure_);
  }

 private:
  void start(const FileRecord& root) {
    for (Process& process : load_everywhere(root)) {
      for (std::size_t i = 0; i < process.objects.size(); ++i) {
        reached_.insert(process.objects[i].file);
        closure_.occurrences[process.objects[i].file].push_back({closure_.processes.size(), i});
      }
      closure_.processes.push_back(std::move(process));
    }
  }

  /// Where the bundle has libraries for better CPUs, the same root can load others on each kind of machine. One that
  /// lies in such a folder itself is never met on a lesser one. The same holds for distributions, where $LIB is used,
  /// and for processors where $PLATFORM is.
  std::vector<Process> load_everywhere(const FileRecord& root) {
    std::vector<Process> processes;
    std::size_t lowest = levels_.size() - 1;
    while (lowest > 0 && root.path.find("/" + levels_[lowest] + "/") == std::string::npos) --lowest;
    const auto same_needs = [](const Need& a, const Need& b) { return a.provider == b.provider && a.file == b.file; };
    const auto same = [&](const Loaded& a, const Loaded& b) {
      return a.file == b.file && std::ranges::equal(a.needs, b.needs, same_needs);
    };
    std::vector<std::string> libs = {""}, words = {""};
    if (!closure_.lib_words.empty()) {
      libs.clear();
      for (const Distribution& each :
           distributions_of(unpacking_of(bundle_, tree_.place(root.path).root), root.machine))
        libs.push_back(each.lib);
    }
    if (!closure_.platform_words.empty()) words = platforms(root.machine);
    for (const std::string& lib : libs)
      for (const std::string& platform : words)
        for (level_ = lowest; level_ < levels_.size(); ++level_) {
          Process process = load(root, lib, platform);
          if (processes.empty() || !std::ranges::equal(process.objects, processes.back().objects, same))
            processes.push_back(std::move(process));
        }
    return processes;
  }

  Process load(const FileRecord& root, const std::string& lib, const std::string& platform) {
    Process process;
    process.lib = lib;
    process.platform = platform;
    const Place place = tree_.place(root.path);
    process.objects.push_back({&root, BundleTree::folder_of(place.inner), 0, {}});
    names_.clear();
    outside_names_.clear();
    add_names(root, "", 0);
    for (std::size_t i = 0; i < process.objects.size(); ++i) {
      searched_ = 0;
      real_folders_.clear();
      for (const std::string& name : process.objects[i].file->needed) {
        Need need = root.format == Format::pe ? look_up_dll(process, i, name) : look_up(process, i, name);
        process.objects[i].needs.push_back(std::move(need));
      }
    }
    return process;
  }

  void add_names(const FileRecord& file, const std::string& asked, std::size_t object) {
    if (!asked.empty()) names_.emplace(asked, object);
    if (file.soname) names_.emplace(*file.soname, object);
  }

  /// Takes the file into the process where it is not there yet.
  void take(Process& process, const FileRecord& file, const std::string& asked, std::string folder, std::size_t by) {
    for (std::size_t i = 0; i < process.objects.size(); ++i)
      if (process.objects[i].file == &file) {
        add_names(file, asked, i);
        return;
      }
    add_names(file, asked, process.objects.size());
    process.objects.push_back({&file, std::move(folder), by, {}});
  }

  struct Hit {
    const FileRecord* file = nullptr;
    std::string folder;
    std::string via;
  };

  /// Where a folder of `root` really lies. One object looks into the same ones for each name.
  const std::optional<std::string>& real_folder(const std::string& root, const std::string& folder) {
    const auto [known, fresh] = real_folders_.try_emplace(root + '\n' + folder);
    if (fresh) known->second = tree_.resolve(root, folder);
    return known->second;
  }

  const FileRecord* open_in(const std::string& root, const std::string& folder, const std::string& name) {
    if (folder.size() + 1 + name.size() >= path_limit) return nullptr;
    const auto& real = real_folder(root, folder);
    return real ? tree_.open(root, name, *real) : nullptr;
  }

  /// One folder, those of the machine's own level in it first.
  bool try_folder(const std::string& root, const std::string& folder, const std::string& label,
                  const FileRecord& requester, const std::string& name, Hit& hit, std::string& why) {
    for (std::size_t level = level_; level != std::string::npos; --level) {
      const std::string& below = levels_[level];
      const std::string place = below.empty() ? folder : folder + "/" + below;
      const FileRecord* found = open_in(root, place, name);
      if (!found) continue;
      if (found->machine != requester.machine || found->format != requester.format) {
        why = fmt::format("there, but made for {}", found->machine.value_or("another machine"));
        continue;
      }
      hit = {found, place, label};
      return true;
    }
    if (level_ + 1 < levels_.size())
      for (const std::string& below : levels_)
        if (open_in(root, folder + "/" + below, name)) why = "only in " + below + ", which not every CPU has";
    return false;
  }

  /// Where in `root` an entry of the owner leads; on failure nothing, and `why` says what is in the way.
  std::optional<std::string> place_of(std::string_view entry, const Process& process, const Loaded& owner,
                                      const std::string& root, std::string& why) const {
    const bool at_root = is_unpacked_at_root(bundle_, root);
    std::optional<std::string> origin;  // known as a whole only where it is known where the bundle lies
    if (at_root) origin = "/" + owner.folder;
    const auto below = at_root ? std::nullopt : below_origin(entry);
    auto path =
        expand(below.value_or(entry), {{{"ORIGIN", origin}, {"PLATFORM", process.platform}, {"LIB", process.lib}}});
    if (!path) {
      why = "depends on where the bundle lies";
    } else if (below) {
      if (!owner.folder.empty() || path->empty() || path->starts_with('/'))
        return (owner.folder.empty() ? "." : owner.folder) + *path;
      why = "leads out of the bundle";
    } else if (!path->starts_with('/')) {
      why = "relative to the current directory, which nobody knows";
    } else if (root.empty()) {
      return path;
    } else if (at_root) {
      return path->erase(0, path->find_first_not_of('/'));
    } else {
      why = "outside the bundle";
    }
    return {};
  }

  /// Counts a try, whatever comes of it: its names, and what it costs besides them.
  void charge(std::size_t names) { searched_ += one_try + names; }

  /// Whether it is enough, which `tried` then says.
  bool gives_up(std::vector<std::string>& tried) const {
    constexpr std::string_view text = "not looked for any further: no loader searches so many places";
    if (searched_ <= search_limit) return false;
    if (tried.empty() || tried.back() != text) tried.emplace_back(text);
    return true;
  }

  /// For which machines it is said, where that is a matter of the machine.
  static std::string on_which(std::string_view entry, const Process& process) {
    std::string text;
    for (const auto& [token, value] : {std::pair("LIB", &process.lib), std::pair("PLATFORM", &process.platform)})
      if (holds_token(entry, token))
        text += fmt::format("{} ${} is {}", text.empty() ? " where" : " and", token, *value);
    return text;
  }

  /// One entry of a search path, for a file with this name.
  bool try_entry(const Process& process, const Loaded& owner, const std::string& root, const std::string& entry,
                 std::string_view kind, const FileRecord& requester, const std::string& name, Hit& hit,
                 std::vector<std::string>& tried) {
    charge(owner.file->path.size() + entry.size() + name.size());
    if (entry.size() >= path_limit) {
      tried.push_back(fmt::format("{} entry of {} bytes: longer than any path", kind, entry.size()));
      return false;
    }
    const std::string label = owner.file == &requester ? fmt::format("{} {}", kind, entry)
                                                       : fmt::format("{} {} of {}", kind, entry, owner.file->path);
    std::string why = "not there";
    if (const auto place = place_of(entry, process, owner, root, why)) {
      searched_ += place->size();
      if (place->size() + 1 + name.size() >= path_limit) {
        why = "longer than any path";
      } else if (!real_folder(root, *place)) {
        why = "leads out of the bundle";
      } else if (try_folder(root, *place, label, requester, name, hit, why)) {
        return true;
      }
    }
    tried.push_back(fmt::format("{}: {}{}", label, why, on_which(entry, process)));
    return false;
  }

  /// The entries of one search path, for a file with this name.
  bool try_entries(const Process& process, const Loaded& owner, const std::vector<std::string>& entries,
                   std::string_view kind, const std::string& root, const FileRecord& requester, const std::string& name,
                   Hit& hit, std::vector<std::string>& tried) {
    if (names_no_folder(entries)) return false;
    for (const std::string& entry : entries) {
      if (gives_up(tried)) return false;
      if (try_entry(process, owner, root, entry, kind, requester, name, hit, tried)) return true;
    }
    return false;
  }

  /// A needed path is opened as it is, its tokens replaced.
  bool open_path(const Process& process, std::size_t requester, const std::string& name, Hit& hit,
                 std::vector<std::string>& tried) {
    if (gives_up(tried)) return false;
    charge(name.size());
    const Loaded& object = process.objects[requester];
    const std::string root = tree_.place(object.file->path).root;
    std::string why = "not there";
    if (const auto place = place_of(name, process, object, root, why)) {
      searched_ += place->size();
      const FileRecord* found = tree_.open(root, *place);
      if (found && found->machine == object.file->machine && found->format == object.file->format) {
        hit = {found, BundleTree::folder_of(*place), "path"};
        return true;
      }
    }
    tried.push_back("a path, not a name, opened as it is, without any search: " + why + on_which(name, process));
    return false;
  }

  /// The search for a name without a slash, in the loader's order.
  bool search(const Process& process, std::size_t requester, const std::string& name, Hit& hit,
              std::vector<std::string>& tried) {
    const FileRecord& file = *process.objects[requester].file;
    const std::string root = tree_.place(file.path).root;
    if (file.runpath.empty()) {
      // DT_RPATH counts for whatever is loaded below its owner; an owner with a RUNPATH has none.
      for (std::size_t i = requester;; i = process.objects[i].by) {
        const Loaded& owner = process.objects[i];
        if (owner.file->runpath.empty() &&
            try_entries(process, owner, owner.file->rpath, "RPATH", root, file, name, hit, tried))
          return true;
        if (i == owner.by) break;
      }
    } else if (try_entries(process, process.objects[requester], file.runpath, "RUNPATH", root, file, name, hit,
                           tried)) {
      return true;
    }
    if (!is_unpacked_at_root(bundle_, root)) return false;
    if (try_cache(root, file, name, hit)) return true;
    if (file.nodeflib) return false;
    const Distribution here = distributions_of(unpacking_of(bundle_, root), file.machine).front();
    for (const std::string& folder : here.system_folders) {
      std::string why;
      if (try_folder(root, folder, fmt::format("system folder /{}", folder), file, name, hit, why)) return true;
    }
    return false;
  }

  /// The loader's cache as ldconfig makes it when the package is installed, as far as the package itself names folders.
  bool try_cache(const std::string& root, const FileRecord& requester, const std::string& name, Hit& hit) {
    const auto system_folders = distributions_of(unpacking_of(bundle_, root), requester.machine).front().system_folders;
    for (const auto& [path, folders] : bundle_.loader_folders) {
      if (tree_.place(path).root != root) continue;
      for (const std::string& named : folders) {
        const auto folder = tree_.resolve(root, named.substr(std::min(named.find_first_not_of('/'), named.size())));
        if (!folder) continue;
        // Of what is cached, -z nodefaultlib keeps a file from the loader's own folders only.
        if (requester.nodeflib && std::ranges::find(system_folders, *folder) != system_folders.end()) continue;
        const std::string label = fmt::format("folder {} of {}", named, path);
        std::string why;
        // ldconfig notes links by their name and libraries by their soname, to which it makes the link.
        if (try_folder(root, *folder, label, requester, name, hit, why) &&
            (file_name(hit.file->path) != name || hit.file->soname.value_or(name) == name))
          return true;
        const auto [first, last] = by_soname_.equal_range(name);
        for (auto it = first; it != last; ++it) {
          const Place place = tree_.place(it->second->path);
          if (place.root != root || BundleTree::folder_of(place.inner) != *folder ||
              it->second->machine != requester.machine)
            continue;
          hit = {it->second, *folder, label};
          return true;
        }
      }
    }
    return false;
  }

  Provider outside(const std::string& name) const {
    const bool windows = is_dll_name(name);  // where names are the same in any case
    if (std::any_of(policy_.provided.begin(), policy_.provided.end(), [&](const std::string& provided) {
          return windows ? windows_name(provided) == windows_name(name) : provided == name;
        }))
      return Provider::policy;
    // The driver's own names are versioned: an unversioned libcuda.so comes with development packages only.
    if (is_driver_name(name) && (windows || !name.ends_with(".so"))) return Provider::driver;
    if (is_base_system_name(name)) return Provider::base_system;
    return Provider::missing;
  }

  Need look_up(Process& process, std::size_t requester, const std::string& name) {
    Need need;
    need.name = name;
    const FileRecord& file = *process.objects[requester].file;
    Hit hit;
    const auto loaded = names_.find(name);
    if (name.find('/') != std::string::npos ? open_path(process, requester, name, hit, need.tried)
                                            : search(process, requester, name, hit, need.tried)) {
      need.provider = Provider::bundle;
      // A name that is loaded already is never searched for again.
      need.file = loaded != names_.end() ? process.objects[loaded->second].file : hit.file;
      need.via = hit.via;
      if (loaded == names_.end()) take(process, *hit.file, name, hit.folder, requester);
      need.tried.clear();
      return need;
    }
    if (loaded != names_.end()) {
      const Loaded& object = process.objects[loaded->second];
      need.provider = Provider::already_loaded;
      need.file = object.file;
      need.via = process.objects[object.by].file->path;
      return need;
    }
    need.provider = outside(name);
    // The loader itself is always there; of the rest, what another object has loaded.
    if (need.provider == Provider::base_system && file.nodeflib && is_executable(*process.root()) &&
        !outside_names_.contains(name) && !name.starts_with("ld-linux")) {
      need.provider = Provider::missing;
      need.tried.push_back("the system's folders: not for a file that is linked with -z nodefaultlib");
    }
    if (need.provider != Provider::missing) {
      outside_names_.insert(name);
      need.tried.clear();
      return need;
    }
    need.elsewhere = elsewhere(file, name);
    return need;
  }

  /// A name as the loader of this format compares it.
  static std::string name_for(Format format, std::string_view name) {
    return format == Format::pe ? windows_name(name) : std::string(name);
  }

  /// The file that a link leads to; null too where all links together lead too far.
  const FileRecord* open_link(const std::string& path) {
    if (links_walked_ > search_limit) return nullptr;
    const std::size_t before = tree_.walked();
    const FileRecord* file = tree_.open_link(path);
    links_walked_ += one_try + path.size() + tree_.walked() - before;
    return file;
  }

  /// A file of the bundle with this name in any folder, be it by a link.
  Named named(const FileRecord& requester, const std::string& name) {
    const auto fits = [&](const FileRecord* file) {
      return file->format == requester.format && file->machine == requester.machine;
    };
    const std::string key = name_for(requester.format, name);
    const auto [first, last] = by_name_.equal_range(key);
    for (auto it = first; it != last; ++it)
      if (fits(it->second)) return {it->second, it->second->path};
    auto& links = requester.format == Format::pe ? links_by_dll_name_ : links_by_name_;
    const auto [first_link, last_link] = links.equal_range(key);
    for (auto it = first_link; it != last_link && searched_ <= search_limit;) {
      charge(it->second.size());
      const FileRecord* file = open_link(it->second);
      if (file && fits(file)) return {file, it->second};
      it = file ? std::next(it) : links.erase(it);  // what leads nowhere is followed once
    }
    return {};
  }

  /// What is called so in the bundle, or means to be.
  Named elsewhere(const FileRecord& requester, const std::string& name) {
    if (Named found = named(requester, std::string(file_name(name))); found.file) return found;
    const auto [first, last] = by_soname_.equal_range(name);
    for (auto it = first; it != last; ++it)
      if (it->second->machine == requester.machine) return {it->second, it->second->path};
    return {};
  }

  /// Windows: folders are chosen by the program (application folder, add_dll_directory), so any will do.
  Need look_up_dll(Process& process, std::size_t requester, const std::string& name) {
    Need need;
    need.name = name;
    const FileRecord& file = *process.objects[requester].file;
    if (const Named found = named(file, name); found.file) {
      need.provider = Provider::bundle;
      need.file = found.file;
      need.via = "the folder of " + found.path;
      take(process, *found.file, name, "", requester);
      return need;
    }
    need.provider = outside(name);
    if (need.provider == Provider::missing && windows_name(process.root()->path).ends_with(".pyd") &&
        windows_name(name).starts_with("python3"))
      need.provider = Provider::base_system;  // the interpreter that loads an extension has loaded this before
    if (need.provider != Provider::missing) return need;
    if (std::find(file.delayed.begin(), file.delayed.end(), name) != file.delayed.end())
      need.provider = Provider::nobody_yet;
    else
      need.tried.push_back("no file of the bundle has this name");
    return need;
  }

  const Bundle& bundle_;
  const Policy& policy_;
  BundleTree tree_;
  Closure closure_;
  std::multimap<std::string, const FileRecord*> by_name_, by_soname_;
  std::multimap<std::string, std::string> links_by_name_, links_by_dll_name_;  ///< paths of the links
  std::size_t links_walked_ = 0;  ///< bytes of paths that were followed from links, of the whole bundle
  std::set<const FileRecord*> reached_;
  std::vector<std::string> levels_ = {""};  ///< subfolders for better CPUs that the bundle has, the plain one first
  // Of the process that is being filled:
  std::size_t level_ = 0;                     ///< what its machine can do: this one of `levels_` and those before
  std::map<std::string, std::size_t> names_;  ///< name -> object
  std::set<std::string> outside_names_;       ///< that the system brought
  std::unordered_map<std::string, std::optional<std::string>> real_folders_;  ///< of the object at hand
  std::size_t searched_ = 0;  ///< bytes of paths that were tried for the object at hand
};

}  // namespace

Closure close_over(const Bundle& bundle, const Policy& policy) { return Walk(bundle, policy).run(); }

std::optional<std::string_view> below_origin(std::string_view entry) {
  entry.remove_prefix(std::min(entry.find_first_not_of('/'), entry.size()));
  const std::size_t length = token_length(entry, "ORIGIN");
  return length == 0 ? std::nullopt : std::optional(entry.substr(length));
}

bool names_no_folder(const std::vector<std::string>& search_path) {
  return search_path.size() == 1 && search_path[0].empty();
}

}  // namespace cudeploy
