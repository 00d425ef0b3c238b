#include "new_project.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "report.hpp"

namespace cudeploy {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view placeholder = "starter";

/// Targets that CMake makes itself, and the package that the project looks for.
constexpr std::array<std::string_view, 12> taken = {"all",     "clean",         "cudeploy",     "edit_cache",
                                                    "help",    "install",       "load",         "nanobind",
                                                    "package", "rebuild_cache", "starter_test", "test"};

/// Words of C++20 and Python 3, and what GNU compilers define: no namespace, no module can have their name. Each stands
/// between blanks.
constexpr std::string_view keywords =
    " "
    "False None True alignas alignof and and_eq as asm assert async auto await bitand bitor bool break case catch "
    "char char16_t char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval "
    "constexpr constinit continue decltype def default del delete do double dynamic_cast elif else enum except "
    "explicit export extern false finally float for friend from global goto if import in inline int is lambda "
    "linux long mutable namespace new noexcept nonlocal not not_eq nullptr operator or or_eq pass private "
    "protected public raise register reinterpret_cast requires return short signed sizeof static static_assert "
    "static_cast struct switch template this thread_local throw true try typedef typeid typename typeof union "
    "unix unsigned using virtual void volatile wchar_t while with xor xor_eq yield ";

std::string replaced(std::string_view text, const std::string& name) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = std::min(text.find(placeholder, at), text.size());
    out += text.substr(at, next - at);
    if (next < text.size()) out += name;
    at = next + (next < text.size() ? placeholder.size() : 0);
  }
  return out;
}

/// The name becomes a target, a C identifier, a Python module and a file name.
void check_name(const std::string& path, const std::string& name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.empty() || !letter(name.front()) ||
      !std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c) || c == '_'; })) {
    std::string suggestion;
    for (char c : name)
      if (letter(c) || (digit(c) && !suggestion.empty()))
        suggestion += c;
      else if (!suggestion.empty() && suggestion.back() != '_')
        suggestion += '_';
    while (suggestion.ends_with('_')) suggestion.pop_back();
    throw std::runtime_error(fmt::format(
        "{}: error: expected a name of letters, digits and _ that begins with a letter, found \"{}\"\nhint: {}",
        printable(path), printable(name),
        suggestion.empty() ? "cudeploy new my_app" : "did you mean " + suggestion + "?"));
  }
  if (std::find(taken.begin(), taken.end(), name) != taken.end())
    throw std::runtime_error(
        fmt::format("{}: error: the build has something of the name {} already\nhint: cudeploy new my_{}",
                    printable(path), name, name));
  if (keywords.find(" " + name + " ") != keywords.npos)
    throw std::runtime_error(
        fmt::format("{}: error: expected a name for code, found {}, a word of C++ or Python\nhint: cudeploy new my_{}",
                    printable(path), name, name));
}

}  // namespace

std::vector<std::string> project_kinds() {
  std::vector<std::string> kinds;
  for (const ProjectFile& file : project_files())
    if (kinds.empty() || kinds.back() != file.kind) kinds.emplace_back(file.kind);
  return kinds;
}

std::vector<std::string> make_project(const std::string& path, const std::string& kind) {
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // a slash at the end
  const std::string name = folder.filename().string();
  check_name(path, name);
  auto fail = [&](const fs::path& where, const char* what, std::error_code error) {
    throw std::runtime_error(fmt::format("{}: error: {}: {}", printable(where.string()), what, error.message()));
  };
  // Whoever makes the folder has it: what is there already is never written into.
  std::error_code error;
  if (fs::symlink_status(folder).type() != fs::file_type::not_found || !fs::create_directory(folder, error)) {
    if (error) fail(folder, "cannot be made", error);
    throw std::runtime_error(fmt::format("{}: error: exists already\nhint: another name; nothing is ever written over",
                                         printable(folder.string())));
  }
  // What was made here, and nothing else, is taken away again where the rest cannot be made.
  std::vector<fs::path> made{folder};
  std::vector<std::string> written;
  try {
    for (const ProjectFile& file : project_files()) {
      if (file.kind != kind) continue;
      const fs::path below = replaced(file.path, name);
      fs::path target = folder;
      for (const fs::path& part : below) {
        target /= part;
        if (target == folder / below) break;
        if (fs::create_directory(target, error)) made.push_back(target);
        if (error) fail(target, "cannot be made", error);
      }
      std::ofstream out(target, std::ios::binary);
      if (out) made.push_back(target);
      const std::string text = replaced(file.text, name);
      out.write(text.data(), static_cast<std::streamsize>(text.size()));
      out.close();
      if (!out) fail(target, "cannot be written", std::error_code(errno, std::generic_category()));
      written.push_back(below.string());
    }
  } catch (...) {
    for (auto path_made = made.rbegin(); path_made != made.rend(); ++path_made) fs::remove(*path_made, error);
    throw;
  }
  return written;
}

}  // namespace cudeploy
