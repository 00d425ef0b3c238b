// The command line: what the user asks becomes a run, and the run becomes one of three exit codes that a build
// can rely on. 0 clean; 1 something is wrong with what was read; 2 the work could not be done (wrong usage, a file
// that could not be read). The highest wins, and all other files are always done.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "closure.hpp"
#include "nearest.hpp"
#include "new_project.hpp"
#include "package.hpp"
#include "report.hpp"
#include "rule.hpp"
#include "runtime_static/link_kit.hpp"
#include "saved_document.hpp"

namespace cudeploy {
namespace {

namespace fs = std::filesystem;

constexpr int clean = 0, found = 1, failed = 2;

/// What the user asked cannot be done; the message is whole: `path: error: message`, perhaps a hint line.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct InspectArguments {
  std::vector<std::string> paths;
  std::string format = "text";
  bool payloads = false, kernels = false;
};

struct AuditArguments {
  std::vector<std::string> paths;
  std::string format = "text", policy = "default", fail_on = "error", stage = "package";
  std::string default_gpus, default_driver;
  std::optional<std::string> gpus, driver, install_rpath, output;
};

struct LinkKitArguments {
  std::string cudart, out, sources, anchor = "exported";
};

/// What goes to standard output must arrive: a full disk is no clean run.
void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Failure(fmt::format("standard output: error: cannot be written: {}", std::strerror(errno)));
}

/// CLI11's sentences begin with a capital; ours do not. Names and options stay as they are.
std::string lower_first(std::string text) {
  if (text.size() > 1 && (text[1] == ' ' || (text[1] >= 'a' && text[1] <= 'z')))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

bool is_terminal(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) != 0 && (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

bool colour(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  return (no_colour == nullptr || *no_colour == '\0') && is_terminal(descriptor);
}

/// A report that somebody else waits for is whole or not there.
void write_whole(const std::string& path, const std::string& text) {
  auto fail = [&](const char* what) {
    throw Failure(fmt::format("{}: error: {}: {}", printable(path), what, std::strerror(errno)));
  };
  struct stat status {};
  bool special = stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);  // a pipe, /dev/stderr
  std::string written = special ? path : fmt::format("{}.{}.part", path, getpid());
  int descriptor = open(written.c_str(), O_WRONLY | O_CLOEXEC | (special ? 0 : O_CREAT | O_TRUNC), 0666);
  if (descriptor < 0) fail("cannot be written");
  for (std::size_t done = 0; done < text.size();) {
    ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      int error = errno;
      close(descriptor);
      if (!special) unlink(written.c_str());
      errno = error;
      fail("cannot be written");
    }
    done += static_cast<std::size_t>(count);
  }
  bool closed = close(descriptor) == 0;
  if (!special && (!closed || rename(written.c_str(), path.c_str()) != 0)) {
    int error = errno;
    unlink(written.c_str());
    errno = error;
    fail("cannot be written");
  }
}

/// One line on a terminal while work goes on for more than a second; never in a pipe or a log. Gone when the work ends.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }

  void show(std::size_t done, std::size_t all, const std::string& path) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(200);
    winsize window{};
    const std::size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
    std::string text = fmt::format("{} of {} files read, now ", done, all);
    const std::string name = printable(path);
    const std::size_t room = width > text.size() + 2 ? width - text.size() - 2 : 0;
    if (name.size() <= room) {
      text += name;
    } else {  // the end of a path says most; not in the middle of a letter
      std::size_t from = name.size() - room;
      while (from < name.size() && (static_cast<unsigned char>(name[from]) & 0xc0) == 0x80) ++from;
      text += name.substr(from);
    }
    fmt::print(stderr, "\r{}\x1b[K", text);
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  bool shown_ = false;
};

// ---- inspect ------------------------------------------------------------------------------------------------

WorkerLimits worker_limits(const ReadOptions& options, ProgressLine& line) {
  WorkerLimits limits;
  if (is_terminal(STDERR_FILENO))
    limits.progress = [&line](std::size_t done, std::size_t all, const std::string& path) {
      line.show(done, all, path);
    };
  // Headers are read in milliseconds, whatever the size; payloads take time with their size.
  if (options.payloads || options.kernels || options.for_audit) limits.per_mebibyte = std::chrono::milliseconds(1000);
  return limits;
}

InspectRecord read_paths(const std::vector<std::string>& paths, const ReadOptions& options) {
  ProgressLine line;
  return inspect_paths(paths, options, PackageLimits(), worker_limits(options, line));
}

/// 2 when a file could not be read, and says so where standard output is not in the way.
int tell_unreadable(const InspectRecord& record) {
  int code = clean;
  for (const FileRecord& file : record.files) {
    if (!file.unreadable) continue;
    code = failed;
    for (const Problem& problem : file.problems)
      fmt::print(stderr, "{}: error: {}\n", path_text(file.path), printable(problem.message));
  }
  return code;
}

/// Documents in place of files, in the order of the paths.
std::vector<SavedDocument> saved_documents(const std::vector<std::string>& paths, bool records) {
  ProgressLine line;
  return read_saved_documents(paths, records, worker_limits(ReadOptions(), line));
}

/// What is said of a document that the command cannot take: `path: error: …` with its hint line.
std::string refusal(const std::string& path, const SavedDocument& document, std::string_view of_a_report,
                    std::string_view of_an_audit) {
  if (document.kind == SavedDocument::Kind::damaged) return document.text;
  const bool of_audit = document.kind == SavedDocument::Kind::audit_report;
  return fmt::format("{}: error: {}", printable(path), of_audit ? of_an_audit : of_a_report);
}

/// Reports of an audit lie beside the programs, so `*` gives them too: among other paths they are passed over. True
/// when it was one of these; those that are all that was given are refused like any other document.
bool passes_over(const std::string& path, const SavedDocument& document, const std::vector<SavedDocument>& all) {
  const auto of_audit = [](const SavedDocument& each) { return each.kind == SavedDocument::Kind::audit_report; };
  if (!of_audit(document) || std::ranges::all_of(all, of_audit)) return false;
  fmt::print(stderr, "{}: note: is the report of an audit, passed over\n", printable(path));
  return true;
}

int inspect(const InspectArguments& arguments) {
  ReadOptions options;
  options.payloads = arguments.payloads;
  options.kernels = arguments.kernels;
  int code = clean;
  std::string text;
  std::vector<std::string> to_read;
  const std::vector<SavedDocument> documents = saved_documents(arguments.paths, false);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::string& path = arguments.paths[i];
    if (documents[i].kind == SavedDocument::Kind::none) {
      to_read.push_back(path);
    } else if (documents[i].kind == SavedDocument::Kind::report && arguments.format != "json") {
      text += documents[i].text;
    } else if (!passes_over(path, documents[i], documents)) {
      fmt::print(stderr, "{}\n",
                 refusal(path, documents[i],
                         "is the report of a process, and JSON already\n"
                         "hint: take the file as it is; inspect shows it as text",
                         "is the report of an audit, with no files in it to inspect\n"
                         "hint: inspect takes the files that were judged; the report is read as it is"));
      code = failed;
    }
  }
  if (!to_read.empty()) {
    InspectRecord record = read_paths(to_read, options);
    code = std::max(code, tell_unreadable(record));
    for (const FileRecord& file : record.files)
      if (!file.problems.empty()) code = std::max(code, found);
    text += arguments.format == "json" ? inspect_json(record) : inspect_text(record, options, colour(STDOUT_FILENO));
  }
  print(text);
  return code;
}

// ---- audit --------------------------------------------------------------------------------------------------

/// A record of headers alone cannot tell which kernels are exported; the user hears that a rule was left out.
void tell_unnamed_kernels(const std::string& path, const InspectRecord& record) {
  bool unnamed = std::any_of(record.files.begin(), record.files.end(), [](const FileRecord& file) {
    return !file.fat_binaries.empty() && !file.vendor && !file.exported_stubs && is_loadable(file);
  });
  if (unnamed)
    fmt::print(stderr,
               "{}: warning: does not say which kernels there are, so exported-kernel-stub is not judged and fat "
               "binaries without kernels may be\n"
               "hint: write it again with cudeploy inspect --format json --kernels\n",
               printable(path));
}

bool before_by_path(const FileRecord& a, const FileRecord& b) { return a.path < b.path; }

/// Of a document that is refused, what the report of the audit keeps. `told` is what the user hears.
FileRecord unread(const std::string& path, std::string told) {
  if (const std::string prefix = printable(path) + ": error: "; told.starts_with(prefix)) told.erase(0, prefix.size());
  FileRecord file;
  file.path = path;
  file.unreadable = true;
  file.problems.push_back({std::nullopt, told.substr(0, told.find('\n'))});
  return file;
}

/// Puts the second record behind the first. What both say is there once; where they say different things of one path,
/// nobody knows which of them ships: it is told and kept, and the first is judged with all the others.
void merge(InspectRecord& into, InspectRecord&& record, std::vector<std::string>& contradicted) {
  const auto content = [](const FileRecord& file) {
    return to_json(file).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  std::map<std::string, std::vector<std::string>> known, added;
  for (const FileRecord& file : into.files) known[file.path].push_back(content(file));
  for (const FileRecord& file : record.files)
    if (known.contains(file.path)) added[file.path].push_back(content(file));
  for (const auto& [path, said] : added) {
    if (known[path] == said) continue;
    contradicted.push_back(path);
    fmt::print(stderr,
               "{}: error: is in two of the inputs, with different content\nhint: judge them one by one, or write each "
               "record with cudeploy inspect --format json --kernels\n",
               printable(path));
  }
  std::erase_if(record.files, [&](const FileRecord& file) { return added.contains(file.path); });
  std::erase_if(record.bundles, [&](const BundleRecord& bundle) {
    return std::any_of(into.bundles.begin(), into.bundles.end(), [&](const BundleRecord& other) {
      return other.kind == bundle.kind && other.name == bundle.name && other.files == bundle.files &&
             other.links == bundle.links && other.loader_folders == bundle.loader_folders &&
             other.packages == bundle.packages;
    });
  });
  std::move(record.files.begin(), record.files.end(), std::back_inserter(into.files));
  std::stable_sort(into.files.begin(), into.files.end(), before_by_path);
  std::move(record.bundles.begin(), record.bundles.end(), std::back_inserter(into.bundles));
  std::stable_sort(into.bundles.begin(), into.bundles.end(),
                   [](const BundleRecord& a, const BundleRecord& b) { return a.name < b.name; });
}

std::vector<Bundle> bundles_of(const InspectRecord& record) {
  std::map<std::string_view, std::vector<const FileRecord*>> by_path;
  for (const FileRecord& file : record.files)
    if (!file.unreadable) by_path[file.path].push_back(&file);
  std::vector<Bundle> bundles;
  for (const BundleRecord& from : record.bundles) {
    Bundle bundle;
    bundle.name = from.name;
    bundle.links = from.links;
    bundle.loader_folders = from.loader_folders;
    bundle.packages = from.packages;
    std::vector<std::string> paths = from.files;
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());  // a name twice in a package: two records
    for (const std::string& path : paths)
      if (auto it = by_path.find(path); it != by_path.end())
        bundle.files.insert(bundle.files.end(), it->second.begin(), it->second.end());
    bundles.push_back(std::move(bundle));
  }
  return bundles;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    std::size_t end = std::min(text.find(at, from), text.size());
    if (end > from) parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

/// Runs what reads a wish of the user, and says where a wrong one stands: `--gpus: error: …`, `policy.toml:3: error:
/// …`.
template <typename Read>
auto wish(const std::string& where, Read read) {
  try {
    return read();
  } catch (const std::runtime_error& error) {
    std::string message = error.what();
    std::string place = where;
    if (message.starts_with(where)) {  // it names file and line itself
      std::size_t end = std::min(message.find(": ", where.size()), message.size());
      place = message.substr(0, end);
      message.erase(0, std::min(end + 2, message.size()));
    }
    if (message.starts_with("error: ")) message.erase(0, std::string_view("error: ").size());
    throw Failure(place + ": error: " + message);
  }
}

int audit(const AuditArguments& arguments) {
  if (arguments.policy.empty()) throw Failure("--policy: error: expected default or a TOML file, found an empty name");
  if (arguments.output && arguments.output->empty())
    throw Failure("--output: error: expected a file to write, found an empty name");
  Policy policy = wish(arguments.policy, [&] { return load_policy(arguments.policy); });
  // An empty value is answered, not passed over: a script's empty variable must not switch a rule off.
  if (arguments.gpus) policy.gpus = wish("--gpus", [&] { return parse_gpus(*arguments.gpus); });
  if (arguments.driver) policy.driver = wish("--driver", [&] { return parse_driver(*arguments.driver); });
  if (!arguments.default_gpus.empty()) {
    const std::vector<GpuTarget> gpus = wish("--default-gpus", [&] { return parse_gpus(arguments.default_gpus); });
    if (policy.gpus.empty()) policy.gpus = gpus;
  }
  if (!arguments.default_driver.empty()) {
    const auto driver = wish("--default-driver", [&] { return parse_driver(arguments.default_driver); });
    if (!policy.driver) policy.driver = driver;
  }
  Stage stage = arguments.stage == "link" ? Stage::link : Stage::package;
  std::optional<std::vector<std::string>> install_rpath;
  if (arguments.install_rpath) install_rpath = split(*arguments.install_rpath, ':');

  int code = clean;
  InspectRecord record;
  std::vector<std::string> to_read, contradicted;
  std::vector<FileRecord> refused;
  std::vector<SavedDocument> documents = saved_documents(arguments.paths, true);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::string& path = arguments.paths[i];
    if (documents[i].kind == SavedDocument::Kind::none) {
      to_read.push_back(path);
    } else if (documents[i].kind == SavedDocument::Kind::record) {
      tell_unnamed_kernels(path, documents[i].record);
      merge(record, std::move(documents[i].record), contradicted);
    } else if (!passes_over(path, documents[i], documents)) {
      const std::string told = refusal(path, documents[i],
                                       "expected files to judge or a saved inspect record, found the report of a "
                                       "process\nhint: cudeploy inspect shows it; audit judges the program and its "
                                       "libraries themselves",
                                       "expected files to judge or a saved inspect record, found the report of an "
                                       "audit\nhint: give the files that were judged, or a record of them: cudeploy "
                                       "inspect --format json --kernels PATH > FILE");
      fmt::print(stderr, "{}\n", told);
      refused.push_back(unread(path, told));
      code = failed;
    }
  }
  ReadOptions options;
  options.for_audit = true;
  if (!to_read.empty()) merge(record, read_paths(to_read, options), contradicted);
  if (!contradicted.empty()) code = failed;
  code = std::max(code, tell_unreadable(record));
  std::move(refused.begin(), refused.end(), std::back_inserter(record.files));  // what they are was told above
  std::stable_sort(record.files.begin(), record.files.end(), before_by_path);

  std::vector<Bundle> bundles = bundles_of(record);
  Judgement judgement = judge(bundles, policy, stage, install_rpath);
  Severity threshold = arguments.fail_on == "warning" ? Severity::warning : Severity::error;
  for (const Finding& finding : judgement.findings)
    if (arguments.fail_on != "never" && finding.severity >= threshold) code = std::max(code, found);

  Audit report{record, policy, stage, judgement, contradicted};
  if (arguments.output)
    write_whole(*arguments.output, arguments.format == "json" ? audit_json(report) : audit_text(report, false));
  bool json = arguments.format == "json" && !arguments.output;
  print(json ? audit_json(report) : audit_text(report, colour(STDOUT_FILENO)));
  return code;
}

// ---- explain, link-kit, new ---------------------------------------------------------------------------------

int explain(const std::string& word, const std::string& format) {
  if (word.empty()) {
    print(format == "markdown" ? rules_markdown() : rule_list());
    return clean;
  }
  const Rule* rule = find_rule(word);
  if (rule == nullptr) {
    std::vector<std::string_view> words;
    for (const Rule& each : all_rules()) words.push_back(each.id), words.push_back(each.name);
    auto right = nearest(word, words);
    throw Failure(fmt::format("{}: error: no such rule\nhint: {}", printable(word),
                              right ? fmt::format("did you mean {}?", *right) : "cudeploy explain lists all"));
  }
  print(rule_text(*rule, colour(STDOUT_FILENO)));
  return clean;
}

/// The sources that a link compiles: beside the installed command, or in the tree that it was built in.
std::string runtime_sources() {
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> places{folder.parent_path() / "share/cudeploy/runtime_static"};
  for (fs::path up = folder; up.has_relative_path(); up = up.parent_path()) places.push_back(up / "runtime_static");
  for (const fs::path& place : places)
    if (fs::exists(place / "join.cpp", error) && fs::exists(place / "anchor.hpp", error)) return place.string();
  throw Failure(
      fmt::format("{}: error: no runtime sources (join.cpp, anchor.hpp) there or above\nhint: name them with --sources",
                  places.front().string()));
}

int link_kit(const LinkKitArguments& arguments) {
  if (arguments.cudart.empty()) throw Failure("--cudart: error: expected an archive, found an empty name");
  if (arguments.out.empty()) throw Failure("--out: error: expected a folder, found an empty name");
  LinkKitOptions options;
  options.cudart = arguments.cudart;
  options.out = arguments.out;
  options.sources = arguments.sources.empty() ? runtime_sources() : arguments.sources;
  options.anchor = arguments.anchor == "hidden" ? AnchorVisibility::hidden : AnchorVisibility::exported;
  LinkKit kit = make_link_kit(options);
  std::string text = fmt::format("{}: CUDA {} runtime for {}, generation {}, {} names routed\n", printable(kit.cudart),
                                 kit.cuda_major, kit.machine, kit.generation, kit.names.size());
  auto list = [&](const char* label, const std::vector<std::string>& words) {
    for (const std::string& word : words) text += fmt::format("  {:10}{}\n", label, printable(word)), label = "";
  };
  list("compile", kit.sources);
  list("include", kit.include_directories);
  list("flags", kit.compile_options);
  list("link", kit.link_options);
  list("libraries", kit.libraries);
  list("written", {(fs::path(arguments.out) / "link-kit.json").string()});
  print(text);
  return clean;
}

int new_project(const std::string& path, const std::string& kind) {
  const std::vector<std::string> written = make_project(path, kind);
  print(fmt::format("{}: a {} of {} files: {}\nnext: {}\n", printable(path), kind, written.size(),
                    fmt::join(written, ", "), printable((fs::path(path) / "README.md").string())));
  return clean;
}

// ---- the command line ---------------------------------------------------------------------------------------

/// The words after the program's name, last first, as CLI11 wants them. It takes `--option=` for an option whose value
/// is the next word; a build system that fills in an empty value means the empty value.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words;
  bool options = true;
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    if (text == "--") options = false;
    if (options && text.size() > 3 && text.starts_with("--") && text.find('=') == text.size() - 1) {
      text.pop_back();
      words.push_back(text);
      text.clear();
    }
    words.push_back(text);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

/// What was probably meant by a command line that CLI11 refused: the subcommand or the option that is nearest to the
/// first word of it that `app` does not know. Nothing where each is known.
std::optional<std::string> probably_meant(const CLI::App& app, bool wants_subcommand,
                                          const std::vector<std::string>& words) {
  std::vector<std::string> known;
  if (wants_subcommand)
    for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  else
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (wants_subcommand ? name.starts_with("-") : !name.starts_with("--") || name == "--") continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) return nearest(name, candidates);
  }
  return std::nullopt;
}

int run(int argc, char** argv) {
  CLI::App app("What is inside a CUDA binary or package, and would it run elsewhere?", "cudeploy");
  app.require_subcommand(1);
  app.set_version_flag("--version", "cudeploy " CUDEPLOY_VERSION, "print the version");
  app.set_help_flag("-h,--help", "print this help");
  app.get_formatter()->column_width(30);
  app.footer(
      "PATH is a file, a folder, a package (tar.*, zip, whl, deb, rpm, conda).\n"
      "exit code: 0 clean, 1 something is wrong with what was read, 2 the work could not be done");

  InspectArguments inspected;
  CLI::App* inspect_command = app.add_subcommand("inspect", "show device code, CUDA runtimes, needs and search paths");
  inspect_command->add_option("paths", inspected.paths, "files, folders, packages, reports of a process")
      ->required()
      ->type_name("PATH");
  inspect_command->add_option("--format", inspected.format, "text (default) or json")
      ->check(CLI::IsMember({"text", "json"}).description(""))
      ->type_name("FORMAT");
  inspect_command->add_flag("--payloads", inspected.payloads, "decompress and check each image");
  inspect_command->add_flag("--kernels", inspected.kernels, "list the kernels of each image");

  AuditArguments audited;
  CLI::App* audit_command = app.add_subcommand("audit", "judge by the rules of a policy");
  audit_command->add_option("paths", audited.paths, "files, folders, packages, saved inspect records")
      ->required()
      ->type_name("PATH");
  audit_command->add_option("--format", audited.format, "text (default) or json")
      ->check(CLI::IsMember({"text", "json"}).description(""))
      ->type_name("FORMAT");
  audit_command->add_option("--policy", audited.policy, "what is wanted: default, or a TOML file")
      ->type_name("NAME|FILE");
  audit_command->add_option("--gpus", audited.gpus, "wanted GPUs: 80,90,120")->type_name("LIST");
  audit_command->add_option("--driver", audited.driver, "oldest driver to run on: 580.65.06")->type_name("VERSION");
  // What a build knows of a target must not silence what its policy wants.
  audit_command->add_option("--default-gpus", audited.default_gpus, "wanted GPUs, unless the policy names some")
      ->type_name("LIST");
  audit_command->add_option("--default-driver", audited.default_driver, "oldest driver, unless the policy names one")
      ->type_name("VERSION");
  audit_command->add_option("--fail-on", audited.fail_on, "exit 1 on: error (default), warning, never")
      ->check(CLI::IsMember({"error", "warning", "never"}).description(""))
      ->type_name("SEVERITY");
  audit_command->add_option("--stage", audited.stage, "judge a package (default) or a link")
      ->check(CLI::IsMember({"link", "package"}).description(""))
      ->type_name("STAGE");
  audit_command->add_option("--install-rpath", audited.install_rpath, "search path after install (stage link)")
      ->type_name("A:B");
  audit_command->add_option("--output", audited.output, "also write the report there, in --format")->type_name("FILE");

  std::string word;
  CLI::App* explain_command = app.add_subcommand("explain", "say what a rule finds, why, and what to do");
  explain_command->add_option("rule", word, "id or name; none: list all")->type_name("RULE");
  std::string page_format = "text";
  explain_command->add_option("--format", page_format, "of the list: text (default), or markdown with all pages")
      ->check(CLI::IsMember({"text", "markdown"}).description(""))
      ->type_name("FORMAT");

  LinkKitArguments linked;
  CLI::App* link_kit_command = app.add_subcommand("link-kit", "write what a link needs to join the one runtime state");
  link_kit_command->add_option("--cudart", linked.cudart, "libcudart_static.a that is linked")
      ->required()
      ->type_name("ARCHIVE");
  link_kit_command->add_option("-o,--out", linked.out, "folder to write into")->required()->type_name("DIR");
  link_kit_command->add_option("--anchor", linked.anchor, "exported (default) or hidden")
      ->check(CLI::IsMember({"exported", "hidden"}).description(""))
      ->type_name("VISIBILITY");
  link_kit_command->add_option("--sources", linked.sources, "runtime sources, where not installed beside cudeploy")
      ->type_name("DIR");

  std::string new_path, new_kind = "program";
  CLI::App* new_command = app.add_subcommand("new", "start a project that builds, audits and packages itself");
  new_command->add_option("name", new_path, "folder to make; its last part names the project")
      ->required()
      ->type_name("NAME");
  new_command->add_option("--kind", new_kind, fmt::format("{} (default: program)", fmt::join(project_kinds(), ", ")))
      ->check(CLI::IsMember(project_kinds()).description(""))
      ->type_name("KIND");

  try {
    app.parse(words_of(argc, argv));
    if (*audit_command && audited.install_rpath && audited.stage != "link")
      throw CLI::ValidationError("--install-rpath", "is only for --stage link");
    if (*explain_command && !word.empty() && page_format != "text")
      throw CLI::ValidationError("--format", "markdown is for all rules, without RULE");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // help or version
      std::string text = error.get_name() == "CallForVersion" ? std::string(error.what()) + "\n" : "";
      if (text.empty()) text = app.help();  // of the subcommand, where one was asked
      print(text);
      return clean;
    }
    CLI::App* asked = &app;
    for (CLI::App* command : app.get_subcommands()) asked = command;
    std::string name = asked == &app ? "cudeploy" : "cudeploy " + asked->get_name();
    std::vector<std::string> words(argv + 1, argv + argc);
    const std::optional<std::string> meant = probably_meant(*asked, asked == &app, words);
    std::string what = lower_first(error.what());
    if (asked == &app && !words.empty())  // CLI11 misses the command only
      what = fmt::format("no such {}: {}", words.front().starts_with('-') ? "option" : "command", words.front());
    fmt::print(stderr, "{}: error: {}\nhint: {}\n", name, printable(what),
               meant ? "did you mean " + *meant + "?" : name + " --help");
    return failed;
  }

  if (*inspect_command) return inspect(inspected);
  if (*audit_command) return audit(audited);
  if (*explain_command) return explain(word, page_format);
  if (*new_command) return new_project(new_path, new_kind);
  return link_kit(linked);
}

}  // namespace
}  // namespace cudeploy

int main(int argc, char** argv) {
  // A caller may have closed the standard streams; what is opened later must not take their numbers.
  for (int descriptor = open("/dev/null", O_RDWR | O_CLOEXEC); descriptor >= 0;
       descriptor = open("/dev/null", O_RDWR | O_CLOEXEC))
    if (descriptor > STDERR_FILENO) {
      close(descriptor);
      break;
    }
  try {
    return cudeploy::run(argc, argv);
  } catch (const std::exception& error) {
    // Ours are whole sentences that begin with what they are about.
    fmt::print(stderr, "{}\n", error.what());
    return cudeploy::failed;
  }
}
