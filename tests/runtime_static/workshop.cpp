// See workshop.hpp. Commands are run without a shell, so no name needs quoting.
#include "workshop.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "runtime_static/link_kit.hpp"

extern char** environ;

namespace cudeploy::test {
namespace fs = std::filesystem;
namespace {

const fs::path tree = CUDEPLOY_TREE;
const fs::path programs = tree / "tests/runtime_static/programs";
const fs::path bench = CUDEPLOY_TEST_FOLDER;

std::string joined(const Words& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

/// The C compiler of the family that links: g++ would take C for C++.
std::string c_compiler(const std::string& linker) { return linker.starts_with("clang") ? "clang" : "gcc"; }

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Outcome run(const Words& command, const Words& environment, const fs::path& folder) {
  const std::string log = (bench / ("out." + std::to_string(getpid()))).string();
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    variables[text.substr(0, text.find('='))] = text;
  }
  // The stub driver of a toolkit must not decide what a test sees, nor a setting of whoever runs it.
  for (const char* name : {"LD_LIBRARY_PATH", "CUDEPLOY_UNIFY", "CUDEPLOY_REPORT"}) variables.erase(name);
  for (const auto& entry : environment) {
    const auto name = entry.substr(0, entry.find('='));
    if (entry.find('=') == std::string::npos)
      variables.erase(name);
    else
      variables[name] = entry;
  }
  std::vector<char*> arguments, settings;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  for (const auto& [name, entry] : variables) settings.push_back(const_cast<char*>(entry.c_str()));
  arguments.push_back(nullptr);
  settings.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    dup2(out, 1);
    dup2(out, 2);
    if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(126);
    execvpe(arguments[0], arguments.data(), settings.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Outcome outcome;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = content(log);
  fs::remove(log);
  return outcome;
}

std::string must(const Words& command) {
  const Outcome outcome = run(command);
  if (outcome.status != 0) {
    throw std::runtime_error(joined(command) + "\nended with " + std::to_string(outcome.status) + ":\n" + outcome.out);
  }
  return outcome.out;
}

bool has_program(const std::string& name) {
  std::istringstream path(getenv("PATH") ? getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) {
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string real_part(const std::string& name) {
  const Outcome outcome = run({"sh", (tree / "tests/real_parts.sh").string(), name});
  std::string text = outcome.out;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (outcome.status == 0) return text.substr(text.find_last_of('\n') + 1);
  std::cerr << text << "\n";
  if (outcome.status != 77) throw std::runtime_error("tests/real_parts.sh " + name + " failed otherwise");
  return {};
}

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Words names_by_nm(const std::string& archive) {
  static const std::regex api("^((__)?cuda[A-Z][A-Za-z0-9_]*) [TW] .*");
  Words names;
  for (const auto& line : lines_of(must({"nm", "--format=posix", "--defined-only", archive}))) {
    if (std::smatch match; std::regex_match(line, match, api)) names.push_back(match[1]);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void PrintTo(Machine machine, std::ostream* out) { *out << (machine == Machine::here ? "here" : "aarch64"); }

std::string tool(Machine machine, const std::string& name) {
  return machine == Machine::here ? name : "aarch64-linux-gnu-" + name;
}

std::string missing_for(Machine machine) {
  if (machine == Machine::here) return {};
  for (const auto& program : {tool(machine, "gcc"), tool(machine, "g++"), std::string("qemu-aarch64")}) {
    if (!has_program(program)) return program + " is not installed";
  }
  return toolkit_archive(machine).empty() ? "real part not available: cudart-aarch64-13.0" : "";
}

void OnEachMachine::SetUp() {
  if (const std::string missing = missing_for(GetParam()); !missing.empty()) GTEST_SKIP() << missing;
}

std::string toolkit_archive(Machine machine) {
  if (machine == Machine::here) return CUDEPLOY_CUDART_STATIC;
  static const std::string part = real_part("cudart-aarch64-13.0");
  return part.empty() ? "" : part + "/nvidia/cu13/lib/libcudart_static.a";
}

std::string toolkit_shared_library() {
  for (const auto& entry : fs::directory_iterator(fs::path(toolkit_archive()).parent_path())) {
    if (entry.path().filename().string().starts_with("libcudart.so.")) return entry.path();
  }
  return {};
}

const Kit& kit(const KitOptions& asked) {
  static std::map<std::string, Kit> made;
  KitOptions options = asked;
  if (options.archive.empty()) options.archive = toolkit_archive(options.machine);
  options.compiler = tool(options.machine, options.compiler);
  if (options.sources.empty()) options.sources = (tree / "runtime_static").string();
  std::string identity = options.archive + "|" + options.compiler + "|" + joined(options.flags) + "|" +
                         (options.hidden_anchor ? "h" : "e") + "|" + options.sources;
  if (const auto found = made.find(identity); found != made.end()) return found->second;
  const fs::path folder = bench / ("kit-" + std::to_string(std::hash<std::string>()(identity)));
  fs::create_directories(folder);
  // Test programs run at once; one of them makes the kit.
  const int lock = open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  flock(lock, LOCK_EX);
  const LinkKit link = make_link_kit({options.archive, (folder / "kit").string(), options.sources,
                                      options.hidden_anchor ? AnchorVisibility::hidden : AnchorVisibility::exported});
  Kit result;
  result.folder = (folder / "kit").string();
  result.library = (folder / "libcudeploy_runtime.a").string();
  result.archive = options.archive;
  result.cuda_major = link.cuda_major;
  result.names = link.names;
  std::string inputs = identity;
  for (const auto& source : link.sources) inputs += content(source);
  for (const char* header : {"anchor.hpp", "loaded_object.hpp", "include/cudeploy/runtime.h"}) {
    inputs += content(fs::path(options.sources) / header);
  }
  inputs += content(folder / "kit/cudeploy_copy.hpp") + joined(link.compile_options);
  const std::string stamp = std::to_string(std::hash<std::string>()(inputs));
  if (content(folder / "stamp") != stamp) {
    Words archive = {tool(options.machine, "ar"), "rcs", result.library};
    fs::remove(folder / "stamp");  // what a failing compiler leaves is no kit
    fs::remove(result.library);
    for (const auto& source : link.sources) {
      Words command = {options.compiler};
      append(command, link.compile_options);
      append(command, options.flags);
      for (const auto& include : link.include_directories) command.push_back("-I" + include);
      const std::string object = (folder / fs::path(source).stem()).string() + ".o";
      append(command, {"-Wall", "-Wextra", "-Werror", "-c", source, "-o", object});
      must(command);
      archive.push_back(object);
    }
    must(archive);
    std::ofstream(folder / "stamp") << stamp;
  }
  close(lock);
  result.link = link.link_options;
  result.link.push_back(result.library);
  for (const auto& library : link.libraries) {
    result.link.push_back(library.front() == '/' ? library : "-l" + library);
  }
  return made.emplace(identity, result).first->second;
}

Workshop::Workshop(Machine machine) : machine_(machine) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  for (auto& c : name) {
    if (c == '/') c = '-';
  }
  folder_ = bench / name;
  fs::remove_all(folder_);
  fs::create_directories(folder_);
}

std::string Workshop::object(const std::string& name, const std::string& source, const Words& flags,
                             const std::string& compiler) {
  std::string out = path(name + ".o");
  Words command = {tool(machine_, compiler), "-O1", "-fPIC"};
  append(command, flags);
  append(command, {"-I" + (tree / "runtime_static/include").string(), "-I" + (tree / "runtime_static").string(), "-c",
                   source.front() == '/' ? source : (programs / source).string(), "-o", out});
  must(command);
  return out;
}

void Workshop::plugin(const std::string& name, const Kit* with, const Words& compile_flags, const Words& link_flags,
                      const std::string& compiler, const std::string& archive) {
  Words flags = compile_flags;
  if (with) flags.push_back("-DUNIFIED");
  Words command = {tool(machine_, compiler), "-shared", object(name, "probe.c", flags, c_compiler(compiler)), "-o",
                   path(name + ".so")};
  append(command,
         with ? with->link : Words{archive.empty() ? toolkit_archive(machine_) : archive, "-lpthread", "-ldl", "-lrt"});
  append(command, link_flags);
  must(command);
}

void Workshop::host(const Kit* with, const Words& compile_flags, const Words& link_flags, const std::string& compiler) {
  Words flags = compile_flags;
  if (with) append(flags, {"-DSELF", "-DUNIFIED"});
  Words command = {tool(machine_, compiler), object("host", "host.c", flags, c_compiler(compiler))};
  if (with) {
    command.push_back(object("self", "probe.c", flags, c_compiler(compiler)));
    append(command, with->link);
  }
  append(command, {"-o", path("host"), "-lpthread", "-ldl"});
  append(command, link_flags);
  must(command);
}

Outcome Workshop::tell(const std::string& commands, const Words& environment) const {
  Words words;
  std::istringstream in(commands);
  for (std::string word; in >> word;) words.push_back(word);
  return start("host", words, environment);
}

Outcome Workshop::start(const std::string& name, const Words& arguments, const Words& environment) const {
  Words words;
  if (machine_ == Machine::aarch64) words = {"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"};
  words.push_back(path(name));
  append(words, arguments);
  return run(words, environment, folder_);
}

}  // namespace cudeploy::test
