// What the loader would find is worth nothing if the loader finds something else. Trees are built here, their programs
// are started by glibc's loader, which tells what it searched and why (LD_DEBUG), and the closure must say the same
// file for the same reason, need by need. libtree, another program that guesses the loader, is held to it too; where
// it guesses otherwise, the case says so.
#include <gnu/libc-version.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "closure.hpp"
#include "fixture.hpp"
#include "package.hpp"

namespace cudeploy {
namespace {

namespace fs = std::filesystem;

/// object FILE "NEEDS" FLAG...: a library, or a program where the file is called app, that needs these names.
constexpr const char* kObject = R"sh(
object() {
  file=$1 needs=$2
  shift 2
  mkdir -p "$(dirname "$file")" stubs
  : > empty.c
  echo 'int main(void) { return 0; }' > main.c
  words=
  for need in $needs;
do
    case $need in
      lib[mc].so.6) words="$words -l:$need" ;;
      *) stub=stubs/$(echo "$need" | tr / _)
         [ -f "$stub" ] || gcc -shared -nostdlib empty.c -o "$stub" "-Wl,-soname,$need"
         words="$words $stub" ;;
    esac
  done
  case $file in
    */app) gcc main.c -o "$file" -Wl,--no-as-needed $words "$@" ;;
    *) gcc -shared -fPIC -nostdlib empty.c -o "$file" -Wl,-soname,"$(basename "$file")" -Wl,--no-as-needed $words "$@" ;;
  esac
}
# What $LIB and $PLATFORM mean here.
machine_lib() {
  (cd / && LD_DEBUG=libs LD_LIBRARY_PATH='/x/$LIB' /bin/true 2>&1) |
    sed -n 's|.*[=:]/x/\([^ \t]*\)[ \t]*(LD_LIB.*|\1|p' | head -n 1
}
machine_platform() {
  (cd / && LD_DEBUG=libs LD_LIBRARY_PATH='/x/$PLATFORM' /bin/true 2>&1) |
    sed -n 's|.*[=:]/x/\([^ \t]*\)[ \t]*(LD_LIB.*|\1|p' | head -n 1
}
# no_path FILE: an empty search path in the place of NONE, which linkers do not write
no_path() { LC_ALL=C sed -i 's/NONE/\x00\x00\x00\x00/g' "$1"; }
old() { echo "-Wl,--disable-new-dtags,-rpath,$1"; }
new() { echo "-Wl,--enable-new-dtags,-rpath,$1"; }
)sh";

/// What became of one name that one object needs.
struct Step {
  std::string file;    ///< canonical; "" where nothing was found
  std::string reason;  ///< "RPATH of FILE", "RUNPATH of FILE", "system", "environment", "loaded"
  /// The loader keeps one entry for each folder, with the reason of whoever named it first.
  bool shared_folder = false;
  bool same_as(const Step& other) const {
    const auto kind = [](const Step& step) { return step.reason.substr(0, step.reason.find(' ')); };
    return file == other.file && (other.shared_folder ? kind(*this) == kind(other) : reason == other.reason);
  }
};
std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << (step.file.empty() ? "nothing" : step.file) << " (" << step.reason << ")";
}

/// What the closure does not know.
enum class Unknown { nothing, environment, glibc_before_2_37 };

struct Case {
  const char* name;
  const char* tree;              ///< shell, makes the folder d
  const char* environment = "";  ///< of the loader
  Unknown unknown = Unknown::nothing;
  std::map<std::string, Step> loader_takes = {};  ///< what the loader takes for a need because of that, by its own word
  std::set<std::string> libtree_differs = {};
  std::vector<const char*> machines = {"any"};  ///< by glibc-hwcaps; one process of the closure for each
};
void PrintTo(const Case& given, std::ostream* out) { *out << given.name; }

std::string canonical(const std::string& path) {
  std::error_code none;
  const fs::path found = fs::canonical(path, none);
  return none ? "" : found.string();
}

struct Loader {
  std::map<std::pair<std::string, std::string>, Step> steps;  ///< (who needs, name); searched ones only
  std::map<std::string, std::string> by_name;                 ///< name -> canonical file
  std::vector<std::string> order;                             ///< canonical
};

/// Reads what LD_DEBUG=libs,files tells.
Loader read_loader(const std::string& output) {
  Loader loader;
  const std::regex needed(R"(file=(\S+) \[0\];  needed by (.*) \[0\])"), path(R"(search path=(\S*)\s+\((.*)\))"),
      origin(R"((RPATH|RUNPATH) from file (.*))");
  std::string owner, name, reason, last;
  bool mapped = false;
  std::map<std::string, std::string> folders;  // -> the object that was the first to name it
  const auto finish = [&] {
    if (name.empty()) return;
    std::string found = last.empty() ? "" : canonical(last);
    // What is tried and not mapped is refused, or a file that is there already.
    if (!mapped && std::find(loader.order.begin(), loader.order.end(), found) == loader.order.end()) found.clear();
    const auto folder = folders.find(fs::path(last).parent_path());
    const bool shared = folder != folders.end() && folder->second != owner;
    loader.steps[{owner, name}] = found.empty() ? Step{"", "nowhere"} : Step{found, reason, shared};
    if (!found.empty()) {
      loader.by_name[name] = found;
      if (std::find(loader.order.begin(), loader.order.end(), found) == loader.order.end())
        loader.order.push_back(found);
    }
    name.clear();
  };
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, needed)) {
      finish();
      name = match[1];
      owner = canonical(match[2]);
      const bool is_path = name.find('/') != std::string::npos;
      last = is_path ? name : "";
      mapped = false;
      reason = is_path ? "path of " + owner : "system";
    } else if (std::regex_search(line, match, path)) {
      const std::string from = match[2];
      std::istringstream all(match[1]);
      for (std::string folder; std::getline(all, folder, ':');) folders.emplace(folder, owner);
      reason = from == "system search path" ? "system" : "environment";
      if (std::smatch file; std::regex_match(from, file, origin)) reason = file.str(1) + " of " + canonical(file[2]);
    } else if (line.find("generating link map") != std::string::npos) {
      mapped = true;
    } else if (line.find("search cache=") != std::string::npos) {
      reason = "system";
    } else if (const auto at = line.find("trying file="); at != std::string::npos) {
      last = line.substr(at + 12);
    }
  }
  finish();
  return loader;
}

class LoaderDecides : public Fixture, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    if (!fs::exists("/lib64/ld-linux-x86-64.so.2")) GTEST_SKIP() << "not applicable: not glibc on x86-64";
    run(std::string("set -e\n") + kObject + GetParam().tree);
    before_ = fs::current_path();
    fs::current_path(path("."));
  }
  void TearDown() override {
    if (!before_.empty()) fs::current_path(before_);
  }

  /// The closure's answer for one need, in the loader's words.
  static Step step_of(const Process& process, std::size_t object, const Need& need) {
    const std::string self = canonical(process.objects[object].file->path);
    switch (need.provider) {
      case Provider::bundle: {
        const std::string kind = need.via.substr(0, need.via.find(' '));
        const std::size_t of = need.via.find(" of ");
        return {canonical(need.file->path),
                kind + " of " + (of == std::string::npos ? self : canonical(need.via.substr(of + 4)))};
      }
      case Provider::already_loaded:
        return {canonical(need.file->path), "loaded"};
      case Provider::base_system:
        return {"system", "system"};
      default:
        return {"", "nowhere"};
    }
  }

  fs::path before_;
};

TEST_P(LoaderDecides, TheSameFileForTheSameReason) {
  const Case& given = GetParam();
  const InspectRecord record = inspect_paths({"d"}, {}, {}, {});
  Bundle bundle;
  bundle.name = "d";
  for (const FileRecord& file : record.files) bundle.files.push_back(&file);
  for (const BundleRecord& from : record.bundles) bundle.links.insert(from.links.begin(), from.links.end());
  const Closure closure = close_over(bundle, {});
  const std::string program = canonical("d/bin/app");
  const auto word_of_machine = [this](const char* function) {
    std::string word = run(std::string(kObject) + function);
    word.erase(word.find_last_not_of('\n') + 1);
    return word;
  };
  const std::string lib = word_of_machine("machine_lib"), platform = word_of_machine("machine_platform");
  std::vector<const Process*> processes;
  for (const Process& process : closure.processes)
    if (canonical(process.root()->path) == program && (process.lib.empty() || process.lib == lib) &&
        (process.platform.empty() || process.platform == platform))
      processes.push_back(&process);
  ASSERT_EQ(processes.size(), given.machines.size());

  for (std::size_t machine = 0; machine < processes.size(); ++machine) {
    const Process& process = *processes[machine];
    std::string program_words = "d/bin/app";
    if (processes.size() > 1) {
      const std::string has = given.machines[machine];
      const std::string interpreter = "/lib64/ld-linux-x86-64.so.2";
      if (has != "none" && run(interpreter + " --help").find(has + " (supported") == std::string::npos) {
        std::cout << "not applicable: this processor is no " << has << "\n";
        continue;
      }
      program_words = interpreter + " --glibc-hwcaps-mask " + has + " --list d/bin/app";
    }
    const std::string start = std::string("env -i ") + given.environment + " LD_DEBUG=libs,files ";
    const Loader loader = read_loader(try_run(start + "LD_TRACE_LOADED_OBJECTS=1 " + program_words).second);
    ASSERT_FALSE(loader.steps.empty());
    std::vector<std::string> order;
    std::map<std::string, Step> differs;
    for (std::size_t i = 0; i < process.objects.size(); ++i) {
      const Loaded& object = process.objects[i];
      if (i > 0) order.push_back(canonical(object.file->path));
      for (const Need& need : object.needs) {
        Step ours = step_of(process, i, need);
        const auto searched = std::find_if(loader.steps.begin(), loader.steps.end(), [&](const auto& step) {
          const auto& [owner, name] = step.first;
          // A path is told with $ORIGIN replaced; no object here needs two.
          return owner == canonical(object.file->path) &&
                 (name == need.name || (name.starts_with('/') && need.name.find('/') != std::string::npos));
        });
        Step theirs;
        if (searched != loader.steps.end()) {
          theirs = searched->second;
          if (theirs.reason == "system") theirs.file = "system";
        } else if (const auto name = loader.by_name.find(need.name); name != loader.by_name.end()) {
          theirs = {name->second, "loaded"};
          if (ours.reason == "system") theirs = ours;
          // That a search would have found the same is more than the loader tells.
          if (ours.file == theirs.file) ours.reason = theirs.reason;
        } else {  // known by its soname alone
          for (const Loaded& other : process.objects)
            if (other.file->soname == need.name) theirs = {canonical(other.file->path), "loaded"};
          if (ours.file == theirs.file) ours.reason = theirs.reason;
        }
        if (ours.same_as(theirs)) continue;
        differs.emplace(need.name, theirs);
        if (!given.loader_takes.contains(need.name))
          ADD_FAILURE() << object.file->path << " needs " << need.name << ": closure " << ours << ", loader " << theirs;
      }
    }
    const bool unknown = given.unknown == Unknown::environment || (given.unknown == Unknown::glibc_before_2_37 &&
                                                                   strverscmp(gnu_get_libc_version(), "2.37") < 0);
    for (const auto& [name, step] : given.loader_takes) {
      if (!unknown) continue;
      const std::size_t of = step.reason.find(" of ");
      const std::string reason =
          of == std::string::npos ? step.reason : step.reason.substr(0, of + 4) + canonical(step.reason.substr(of + 4));
      ASSERT_TRUE(differs.contains(name)) << name;
      EXPECT_EQ(differs[name].file, canonical(step.file)) << name;
      EXPECT_EQ(differs[name].reason, reason) << name;
    }
    EXPECT_EQ(differs.size(), unknown ? given.loader_takes.size() : 0);
    if (!differs.empty()) continue;
    std::vector<std::string> of_the_tree;
    for (const std::string& file : loader.order)
      if (file.starts_with(canonical("d"))) of_the_tree.push_back(file);
    EXPECT_EQ(order, of_the_tree) << "the order of loading";

    if (machine + 1 < processes.size()) continue;
    if (try_run("command -v libtree").first != 0) {
      std::cout << "not tried: libtree is not installed\n";
      continue;
    }
    if (std::string_view(given.tree).find("PLATFORM}") != std::string_view::npos && platform != "x86_64") {
      std::cout << "not applicable: libtree has x86_64 for $PLATFORM, which is " << platform << " here\n";
      continue;
    }
    const std::string tree =
        try_run(std::string("env -i PATH=\"$PATH\" ") + given.environment + " libtree -p -v d/bin/app").second;
    std::set<std::string> libtree_differs;
    for (const auto& [name, file] : loader.by_name) {
      if (!file.starts_with(canonical("d"))) continue;
      std::istringstream lines(tree);
      bool same = false;
      for (std::string line; std::getline(lines, line);) {
        const std::size_t at = line.find_first_of("/d");
        const std::size_t end = line.rfind(" [");
        if (at != std::string::npos && end != std::string::npos && end > at)
          same |= canonical(line.substr(at, end - at)) == file;
      }
      if (!same) libtree_differs.insert(fs::path(name).filename());
    }
    EXPECT_EQ(libtree_differs, given.libtree_differs) << tree;
  }
}

INSTANTIATE_TEST_SUITE_P(Trees, LoaderDecides,
                         testing::Values(Case{"BreadthFirst", R"sh(
          object d/lib/libe.so ""; object d/lib/libd.so ""; object d/lib/libc1.so libe.so
          object d/lib/libb.so "libd.so libc1.so"; object d/lib/liba.so libc1.so
          object d/bin/app "liba.so libb.so" "$(old '$ORIGIN/../lib')")sh"},
                                         Case{"RpathIsInherited", R"sh(
          object d/lib/libb.so ""; object d/lib/liba.so libb.so
          object d/bin/app liba.so "$(old '$ORIGIN/../lib')")sh"},
                                         Case{"RunpathIsNot", R"sh(
          object d/lib/libb.so ""; object d/lib/liba.so libb.so
          object d/bin/app liba.so "$(new '$ORIGIN/../lib')")sh"},
                                         Case{"RpathPassesAnOwnerOfARunpath", R"sh(
          object d/lib/libc1.so ""; object d/other/libb.so libc1.so
          object d/lib/liba.so libb.so "$(new '$ORIGIN/../other')"
          object d/bin/app liba.so "$(old '$ORIGIN/../lib')")sh"},
                                         Case{"NearestRpathFirst", R"sh(
          object d/lib/libb.so ""; object d/near/libb.so ""
          object d/lib/liba.so libb.so "$(old '$ORIGIN/../near')"
          object d/bin/app liba.so "$(old '$ORIGIN/../lib')")sh"},
                                         Case{"OriginIsWhereTheLinkLies", R"sh(
          object d/real/liba.so libb.so "$(new '$ORIGIN')"; object d/lib/libb.so ""
          ln -s ../real/liba.so d/lib/liba.so
          object d/bin/app liba.so "$(new '$ORIGIN/../lib')")sh"},
                                         Case{"OriginOfAProgramIsWhereItReallyLies",
                                              R"sh(
          object d/real/lib/liba.so ""; object d/lib/liba.so ""
          object d/real/bin/app liba.so "$(new '$ORIGIN/../lib')"
          mkdir d/bin; ln -s ../real/bin/app d/bin/app)sh",
                                              "",
                                              Unknown::nothing,
                                              {},
                                              {"liba.so"}},
                                         Case{"BehindALinkedFolder", R"sh(
          object d/store/plugins/libb.so ""; object d/plugins/libb.so ""
          object d/store/deep/liba.so libb.so "$(new '$ORIGIN/../plugins')"; ln -s store/deep d/lib
          object d/bin/app liba.so "$(new '$ORIGIN/../lib')")sh"},
                                         Case{"LibAndPlatform",
                                              R"sh(
          for lib in lib/x86_64-linux-gnu lib64 lib; do object "d/$lib/liba.so" ""; done
          for word in x86_64 haswell xeon_phi; do object "d/p/$word/libb.so" ""; done
          object d/bin/app "liba.so libb.so" "$(new '$ORIGIN/../$LIB:$ORIGIN/../p/${PLATFORM}')")sh",
                                              "",
                                              Unknown::nothing,
                                              {},
                                              {"liba.so"}},
                                         Case{"PlatformOfOtherProcessors", R"sh(
          for word in x86_64 haswell xeon_phi; do
            [ $word = "$(machine_platform)" ] || object "d/p/$word/liba.so" ""
          done
          object d/bin/app liba.so "$(new '$ORIGIN/../p/$PLATFORM')")sh"},
                                         Case{"LibOfOtherDistributions", R"sh(
          for lib in lib/x86_64-linux-gnu lib64 lib; do [ $lib = "$(machine_lib)" ] || object "d/$lib/liba.so" ""; done
          object d/bin/app liba.so "$(new '$ORIGIN/../$LIB')")sh"},
                                         Case{"LibraryIsNotLib",
                                              R"sh(
          for lib in lib/x86_64-linux-gnu lib64 lib; do object "d/${lib}RARY/liba.so" ""; object "d/$lib.x/libb.so" ""; done
          object d/bin/app "liba.so libb.so" "$(new '$ORIGIN/../$LIBRARY:$ORIGIN/../$LIB.x')")sh",
                                              "",
                                              Unknown::nothing,
                                              {},
                                              {"libb.so"}},
                                         Case{"OriginBehindASlash",
                                              R"sh(
          object d/lib/liba.so libb.so "$(new '///${ORIGIN}/../more')"; object d/more/libb.so libc1.so "$(new '$ORIGIN')"
          object d/more/libc1.so ""; object d/bin/app liba.so "$(new '/$ORIGIN/../lib')")sh",
                                              "",
                                              Unknown::nothing,
                                              {},
                                              {"liba.so", "libb.so", "libc1.so"}},
                                         Case{"OriginInTheMiddle", R"sh(
          object d/bin/x/liba.so ""; object d/x/libb.so ""; object d/lib/libc1.so ""
          object d/bin/app "liba.so libb.so libc1.so" "$(new 'x/$ORIGIN/x:/x/$ORIGIN/../x:$ORIGIN/$ORIGIN/../x:$ORIGINAL/../lib:$ORIGIN_/../lib')")sh"},
                                         Case{"OriginWithAnEnd", R"sh(
          object d/bin.d/liba.so ""; object d/bin/app "liba.so" "$(new '$ORIGIN.d')")sh"},
                                         Case{"ANeedThatIsAPath",
                                              R"sh(
          object d/more/libb.so ""; object d/more/liba.so '$ORIGIN/./libb.so'
          object d/bin/app '$ORIGIN/../more/liba.so')sh",
                                              "",
                                              Unknown::nothing,
                                              {},
                                              {"liba.so", "libb.so"}},
                                         Case{"ANeedThatIsAPathWithLib",
                                              R"sh(
          for lib in lib/x86_64-linux-gnu lib64 lib; do object "d/$lib/liba.so" ""; done
          object d/bin/app '$ORIGIN/../$LIB/liba.so')sh",
                                              "",
                                              Unknown::nothing,
                                              {},
                                              {"liba.so"}},
                                         Case{"ANeedThatIsAPathAndNotThere", R"sh(
          object d/lib/liba.so ""; object d/bin/app '/$ORIGIN/../more/liba.so' "$(new '$ORIGIN/../lib')")sh"},
                                         Case{"AnEmptyRunpathHidesRpaths", R"sh(
          object d/lib/libb.so ""; object d/lib/liba.so libb.so "$(new NONE)"; no_path d/lib/liba.so
          object d/bin/app liba.so "$(old '$ORIGIN/../lib')")sh"},
                                         Case{"AnEmptyRpathIsNone", R"sh(
          object d/lib/libb.so ""; object d/lib/liba.so libb.so "$(old NONE)"; no_path d/lib/liba.so
          object d/bin/app liba.so "$(old '$ORIGIN/../lib')")sh"},
                                         Case{"AnEmptyRunpathIsNotTheCurrentFolder", R"sh(
          object liba.so ""; object d/bin/app liba.so "$(new NONE)"; no_path d/bin/app)sh"},
                                         Case{"FoldersOfOldLoaders",
                                              R"sh(
          object d/lib/liba.so ""; object d/lib/x86_64/liba.so ""; object d/lib/libb.so ""; object d/lib/tls/libb.so ""
          object d/lib/x86_64/libc1.so ""
          object d/bin/app "liba.so libb.so libc1.so" "$(new '$ORIGIN/../lib')")sh",
                                              "",
                                              Unknown::glibc_before_2_37,
                                              {{"liba.so", {"d/lib/x86_64/liba.so", "RUNPATH of d/bin/app"}},
                                               {"libb.so", {"d/lib/tls/libb.so", "RUNPATH of d/bin/app"}},
                                               {"libc1.so", {"d/lib/x86_64/libc1.so", "RUNPATH of d/bin/app"}}}},
                                         Case{"BetterCpus",
                                              R"sh(
          object d/lib/libb.so ""; object d/lib/liba.so libb.so; object d/lib/libx.so ""
          object d/lib/glibc-hwcaps/x86-64-v2/libb.so ""
          object d/lib/glibc-hwcaps/x86-64-v3/liba.so "libb.so libx.so"
          object d/bin/app liba.so "$(old '$ORIGIN/../lib')")sh",
                                              "",
                                              Unknown::nothing,
                                              {},
                                              {"liba.so", "libb.so", "libx.so"},
                                              {"none", "x86-64-v2", "x86-64-v2:x86-64-v3"}},
                                         Case{"NoSystemFolders", R"sh(
          object d/lib/liba.so "libc.so.6 libm.so.6" -Wl,-z,nodefaultlib
          object d/bin/app liba.so "$(new '$ORIGIN/../lib')")sh"},
                                         Case{"FoundOnlySinceItWasLoadedBefore", R"sh(
          object d/lib/libb.so ""; object d/lib/liba.so libb.so
          object d/bin/app "libb.so liba.so" "$(new '$ORIGIN/../lib')")sh"},
                                         Case{"LoadedTooLate", R"sh(
          object d/lib/libb.so ""; object d/lib/liba.so libb.so
          object d/lib/libc1.so libb.so "$(new '$ORIGIN')"
          object d/bin/app "liba.so libc1.so" "$(new '$ORIGIN/../lib')")sh"},
                                         Case{"KnownByItsSoname", R"sh(
          object d/lib/libb.so.1 ""; mv d/lib/libb.so.1 d/lib/libb.so; object d/lib/liba.so libb.so.1
          object d/bin/app "libb.so liba.so" "$(new '$ORIGIN/../lib')")sh"},
                                         Case{"SonameIsNoFileName", R"sh(
          object d/lib/libb.so.1 ""; mv d/lib/libb.so.1 d/lib/libb.so.1.2
          object d/bin/app libb.so.1 "$(new '$ORIGIN/../lib')")sh"},
                                         Case{"OneFileUnderTwoNames", R"sh(
          object d/lib/libb.so ""; ln -s libb.so d/lib/libbb.so; object d/lib/liba.so libb.so
          object d/bin/app "libbb.so liba.so libb.so" "$(old '$ORIGIN/../lib')")sh"},
                                         Case{"OtherMachinesArePassedOver", R"sh(
          object d/lib/liba.so ""; mkdir d/lib32
          gcc -m32 -nostdlib -shared -fPIC empty.c -o d/lib32/liba.so -Wl,-soname,liba.so
          object d/bin/app liba.so "$(new '$ORIGIN/../lib32:$ORIGIN/../lib')")sh"},
                                         Case{"EmptyAndRelativeEntries", R"sh(
          object d/lib/liba.so ""; object d/bin/app "liba.so libb.so" "$(new ':lib:$ORIGIN/../lib')")sh"},
                                         Case{"CirclesEnd", R"sh(
          object d/lib/liba.so "libb.so liba.so"; object d/lib/libb.so liba.so
          object d/bin/app liba.so "$(old '$ORIGIN/../lib')")sh"},
                                         Case{"EnvironmentBeatsRunpathNotRpath",
                                              R"sh(
          object d/lib/liba.so ""; object d/lib/libb.so ""; object d/env/liba.so ""; object d/env/libb.so ""
          object d/lib/libc1.so libb.so "$(old '$ORIGIN/.')"; object d/env/libd.so ""
          object d/bin/app "libc1.so liba.so libd.so" "$(new '$ORIGIN/../lib')")sh",
                                              "LD_LIBRARY_PATH=d/env",
                                              Unknown::environment,
                                              {{"liba.so", {"d/env/liba.so", "environment"}},
                                               {"libd.so", {"d/env/libd.so", "environment"}}}}),
                         [](const auto& info) { return info.param.name; });

/// A Debian package is unpacked at "/", where the loader has folders of its own, and a cache of further ones, which the
/// package may name.
TEST_F(Fixture, LoaderDecidesInAChangedRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root: only it can change the root";
  if (!fs::exists("/lib64/ld-linux-x86-64.so.2")) GTEST_SKIP() << "not applicable: not glibc on x86-64";
  run(std::string("set -e\n") + kObject + R"sh(
    object d/usr/lib/x86_64-linux-gnu/libfirst.so ""; object d/usr/lib/libfirst.so ""
    object d/usr/lib/libsecond.so ""; object d/opt/lib/libcached.so ""; object d/lib/libthird.so libfirst.so
    object d/opt/lib/libfirst.so ""; object d/opt/lib/libsoname.so.1 ""; mv d/opt/lib/libsoname.so.1 d/opt/lib/libsoname.so.1.2
    object d/opt/lib/libother.so.2 ""; mv d/opt/lib/libother.so.2 d/opt/lib/libother.so
    object d/opt/more/liblinked.so.3 libcached.so; ln -s liblinked.so.3 d/opt/more/liblinked.so
    object d/opt/unnamed/libunnamed.so ""; object d/usr/lib64/libfedora.so ""; object d/lib64/libfedora.so ""
    object d/opt/lib64/libpath.so ""; object d/opt/lib64/liborigin.so ""; object d/usr/lib64/liblib.so ""; object d/opt/lib/x86_64-linux-gnu/liblib.so ""
    object d/usr/bin/app "libfirst.so libsecond.so libthird.so libcached.so libnone.so libsoname.so.1 libother.so liblinked.so.3 libunnamed.so"
    object d/opt/bin/app "liblinked.so"
    object d/opt/bin/tokens/app "/opt/lib64/libpath.so \$ORIGIN/../../lib64/liborigin.so libfedora.so liblib.so" "$(new '/usr/$LIB:/$ORIGIN$ORIGIN:/opt/${LIB}')"
    object d/usr/lib/libstrict.so "libthird.so libfirst.so" -Wl,-z,nodefaultlib
    object d/usr/bin/strict/app "libstrict.so"
    object d/opt/lib/libstrict.so "libcached.so" -Wl,-z,nodefaultlib; object d/opt/strict/app "libstrict.so" "$(new '$ORIGIN/../lib')"
    mkdir -p d/etc/ld.so.conf.d d/DEBIAN; printf '# ours\n\n\t/opt/lib  # and more\ninclude /etc/others/*.conf\n' > d/etc/ld.so.conf.d/ours.conf
    echo /opt/more/ > d/etc/ld.so.conf.d/more.conf; echo /opt/unnamed > d/etc/ld.so.conf.d/unnamed.conf.old
    printf 'Package: x\nVersion: 1\nArchitecture: amd64\nMaintainer: x\nDescription: x\n' > d/DEBIAN/control
    dpkg-deb --build -Znone d x.deb
    mkdir -p d/lib64 d/lib/x86_64-linux-gnu
    cp -L /lib64/ld-linux-x86-64.so.2 d/lib64/; cp -L /lib/x86_64-linux-gnu/libc.so.6 d/lib/x86_64-linux-gnu/
    echo 'include /etc/ld.so.conf.d/*.conf' > d/etc/ld.so.conf; /sbin/ldconfig -r d)sh");
  write("list.c", R"(
    #include <libgen.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    int main(int count, char** words) {
      if (count != 3 || chroot(words[1]) != 0 || chdir("/") != 0) return 1;
      setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
      setenv("LD_ORIGIN_PATH", dirname(strdup(words[2])), 1);  /* there is no /proc to tell it */
      return execl(words[2], words[2], (char*)0);
    })");
  run("gcc list.c -o list");
  if (try_run("./list / /bin/true").first != 0) GTEST_SKIP() << "needs root: one that may change the root";
  const InspectRecord record = inspect_paths({path("x.deb")}, {}, {}, {});
  Bundle bundle;
  for (const FileRecord& file : record.files) bundle.files.push_back(&file);
  ASSERT_EQ(record.bundles.size(), 1u);
  bundle.name = record.bundles[0].name;
  bundle.links = record.bundles[0].links;
  bundle.loader_folders = record.bundles[0].loader_folders;
  bundle.packages = record.bundles[0].packages;
  const Closure closure = close_over(bundle, {});
  std::size_t compared = 0;
  for (const Process& process : closure.processes) {
    const std::string program = process.root()->path.substr(process.root()->path.rfind("!/") + 1);
    if (!program.ends_with("app")) continue;
    std::map<std::string, std::string> theirs;
    std::set<std::string> paths;  // that were opened as they stand, $ORIGIN replaced
    std::istringstream lines(try_run("./list d " + program).second);
    const std::regex row(R"(^\s*(\S+) => (not found|\S+))"), path_row(R"(^\s*(/\S+) \()");
    for (std::string line; std::getline(lines, line);)
      if (std::smatch match; std::regex_search(line, match, path_row)) {
        paths.insert(canonical(path("d") + match.str(1)).substr(canonical(path("d")).size()));
      } else if (std::regex_search(line, match, row)) {
        const std::string real = canonical(path("d") + match.str(2));  // ldconfig makes links
        theirs[match[1]] = real.empty() ? match.str(2) : real.substr(canonical(path("d")).size());
      }
    for (const Loaded& object : process.objects)
      for (const Need& need : object.needs) {
        std::string ours = "not found";
        if (need.file) ours = need.file->path.substr(need.file->path.rfind("!/") + 1);
        if (need.provider == Provider::base_system) ours = "/lib/x86_64-linux-gnu/" + need.name;
        if (paths.contains(ours) && need.name.find('/') != std::string::npos) theirs[need.name] = ours;
        EXPECT_EQ(theirs[need.name], ours) << program << ": " << object.file->path << " needs " << need.name;
        ++compared;
      }
  }
  EXPECT_GE(compared, 9u);
}

}  // namespace
}  // namespace cudeploy
