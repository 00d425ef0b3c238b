#include "runtime_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "json_field.hpp"
#include "report.hpp"

namespace cudeploy {
namespace {

constexpr std::string_view schema_id = "cudeploy/runtime-report/1";

enum class Role { serving, joined, idle, other_abi, foreign_static, foreign_shared };
constexpr std::array roles{
    Name{Role::serving, "serving"},
    Name{Role::joined, "joined"},
    Name{Role::idle, "idle"},
    Name{Role::other_abi, "other-abi"},
    Name{Role::foreign_static, "foreign-static"},
    Name{Role::foreign_shared, "foreign-shared"},
};

struct Copy {
  std::string object;
  Role role;
  std::int32_t runtime_version, api_level, cuda_major, anchor_abi, kept_names;
  std::int32_t server;  ///< index of the copy that answers; -1 = nobody
  bool pinned;
  std::size_t others = 0;  ///< copies that joined it
};

struct Registered {
  std::string object;
  std::int32_t images;  ///< -1 = not readable
};

std::int32_t number(const Field& field, std::int32_t lowest = 0) { return field.integer<std::int32_t>(lowest); }

std::string object_of(const Field& field, const char* key) {
  std::string path = printable(field.at(key).text());
  return path.empty() ? "an object without a name" : path;
}

/// -1 only where nobody may be meant.
std::int32_t copy_index(const Field& field, std::size_t copies, std::int32_t lowest) {
  return field.integer<std::int32_t>(lowest, std::max(lowest, static_cast<std::int32_t>(copies) - 1));
}

std::string version(std::int32_t number) { return fmt::format("CUDA {}.{}", number / 1000, number % 1000 / 10); }

std::string count(std::size_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

void line(std::string& out, std::string_view label, std::string_view text) {
  out += fmt::format("  {:<14}{}\n", label, text);
}

std::string driver_words(std::int32_t version_number, std::int32_t error) {
  if (version_number == 0 && error == -1) return "not found, or not loaded when the process ended";
  std::string words = version_number == 0 ? "of unknown version" : "supports " + version(version_number);
  if (error == 0) return words + ", works";
  return words + (error == -1 ? ", not asked for a GPU" : fmt::format(", cuInit answered {}", error));
}

/// What the copy says of itself, or the least that is known of it.
std::string version_words(const Copy& copy) {
  if (copy.runtime_version != 0) return version(copy.runtime_version);
  if (copy.api_level != 0) return version(copy.api_level) + " or newer";
  return fmt::format("CUDA {}", copy.cuda_major);
}

std::string role_words(const std::vector<Copy>& copies, const Copy& copy) {
  const std::string for_others = copy.others == 0 ? "" : " and " + count(copy.others, "other", "others");
  switch (copy.role) {
    case Role::serving:
      return "answers for itself" + for_others;
    case Role::joined:
      return copy.server < 0 ? std::string("joined a copy that is gone")
                             : "joined " + copies[static_cast<std::size_t>(copy.server)].object;
    case Role::idle:
      return "not called so far";
    case Role::other_abi:
      return fmt::format("made by a cudeploy with anchor ABI {}, not read", copy.anchor_abi);
    case Role::foreign_static:
      return "linked without cudeploy, a state of its own";
    case Role::foreign_shared:
      break;
  }
  return copy.others == 0 ? "shared library, a state of its own" : "shared library, answers for itself" + for_others;
}

}  // namespace

std::string runtime_report_text(const std::string& name, const nlohmann::json& document) {
  const Field root(document, "");
  if (root.at("schema").text() != schema_id) root.at("schema").fail(fmt::format("\"{}\"", schema_id));

  const std::int32_t driver = number(root.at("driver_version"));
  const std::int32_t driver_error = number(root.at("driver_error"), -1);
  const std::int32_t loader_namespace = number(root.at("loader_namespace"));
  const std::int32_t states = number(root.at("states"));
  const std::size_t copy_count = root.at("copies").size();
  auto copies = root.at("copies").list([&](const Field& field) {
    Copy copy;
    copy.object = object_of(field, "object");
    field.at("address").text();
    copy.role = field.at("role").one_of(roles);
    copy.runtime_version = number(field.at("runtime_version"));
    copy.api_level = number(field.at("api_level"));
    copy.cuda_major = number(field.at("cuda_major"));
    copy.anchor_abi = number(field.at("anchor_abi"));
    copy.server = copy_index(field.at("server"), copy_count, -1);
    copy.kept_names = number(field.at("kept_names"));
    copy.pinned = field.at("pinned").boolean();
    return copy;
  });
  for (const Copy& copy : copies)
    if (copy.role == Role::joined && copy.server >= 0) ++copies[static_cast<std::size_t>(copy.server)].others;
  const auto fat_binaries = root.at("fat_binaries").list([&](const Field& field) {
    field.at("address").text();
    copy_index(field.at("copy"), copy_count, 0);
    return Registered{object_of(field, "object"), number(field.at("images"), -1)};
  });
  const auto stubs = root.at("shared_stubs").list([](const Field& field) {
    const std::string kernel = printable(field.at("name").text());
    return fmt::format("{} of {}, registered by {} too", kernel.empty() ? "a kernel" : kernel,
                       object_of(field, "defined_in"), object_of(field, "registered_by"));
  });
  const auto notes = root.at("notes").list([](const Field& field) { return printable(field.text()); });

  std::string out = fmt::format(
      "{}: report of {}, {} of the CUDA runtime, {}\n", printable(name),
      loader_namespace == 0 ? std::string("a process") : fmt::format("loader namespace {}", loader_namespace),
      count(copies.size(), "copy", "copies"), count(static_cast<std::size_t>(states), "state", "states"));
  line(out, "driver", driver_words(driver, driver_error));
  for (const Copy& copy : copies) {
    std::string words = fmt::format("{}: {}, {}", copy.object, version_words(copy), role_words(copies, copy));
    if (copy.kept_names != 0)
      words += fmt::format(", {} with its own copy",
                           count(static_cast<std::size_t>(copy.kept_names), "function stays", "functions stay"));
    if (copy.pinned) words += ", stays loaded";
    line(out, "runtime", words);
  }
  // The writer goes object by object.
  for (std::size_t i = 0; i < fat_binaries.size();) {
    std::size_t first = i, images = 0, unreadable = 0;
    for (; i < fat_binaries.size() && fat_binaries[i].object == fat_binaries[first].object; ++i)
      if (fat_binaries[i].images < 0)
        ++unreadable;
      else
        images += static_cast<std::size_t>(fat_binaries[i].images);
    line(out, "device code",
         fmt::format("{}: {}, {}{}", fat_binaries[first].object, count(i - first, "fat binary", "fat binaries"),
                     count(images, "image", "images"),
                     unreadable == 0 ? "" : fmt::format(", {} not readable", unreadable)));
  }
  for (const std::string& stub : stubs) line(out, "stub twice", stub);
  for (const std::string& note : notes) line(out, "note", note);
  return out;
}

}  // namespace cudeploy
