// JSON comes back from files that anybody may have written or cut. Whoever reads it must not have to trust it, so each
// field is asked for by name and type, and what is wrong is told by its place,
// `files[3].fat_binaries[0].images[2].arch`.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cudeploy {

/// A word of a document and what it stands for.
template <typename Enum>
struct Name {
  Enum value;
  std::string_view text;
};
template <typename Enum>
Name(Enum, const char*) -> Name<Enum>;  // clang before 17 does not find this out for an aggregate

/// A value and where it stands. What was read is json, not ordered_json: that looks through all members of an object
/// before it adds one, and a record may hold 100,000 links.
class Field {
 public:
  Field(const nlohmann::json& value, std::string where) : value_(value), where_(std::move(where)) {}

  [[noreturn]] void fail(std::string_view expected) const {
    std::string found = value_.is_primitive() ? value_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                                              : std::string(value_.type_name());
    if (found.size() > 60) found = found.substr(0, 57) + "...";
    throw std::runtime_error(fmt::format("field {}: expected {}, found {}", where_, expected, found));
  }

  /// The member, or nothing where it is absent.
  std::optional<Field> find(const char* key) const {
    if (!value_.is_object()) fail("an object");
    auto it = value_.find(key);
    if (it == value_.end()) return std::nullopt;
    return Field(*it, where_.empty() ? key : where_ + "." + key);
  }

  Field at(const char* key) const {
    if (auto field = find(key)) return *field;
    throw std::runtime_error(
        fmt::format("field {}: expected, but it is not there", where_.empty() ? key : where_ + "." + key));
  }

  bool null() const { return value_.is_null(); }

  /// How many there are in a list.
  std::size_t size() const { return value_.size(); }

  std::string text() const {
    if (!value_.is_string()) fail("a string");
    return value_.get<std::string>();
  }

  bool boolean() const {
    if (!value_.is_boolean()) fail("true or false");
    return value_.get<bool>();
  }

  template <typename Int>
  Int integer(Int lowest = 0, Int highest = std::numeric_limits<Int>::max()) const {
    // A number above zero is unsigned to the parser, and signed where somebody made the value.
    const bool fits = value_.is_number_unsigned()
                          ? std::in_range<Int>(value_.get<std::uint64_t>())
                          : value_.is_number_integer() && std::in_range<Int>(value_.get<std::int64_t>());
    const Int number = fits ? value_.get<Int>() : Int{0};
    if (!fits || number < lowest || number > highest) fail(fmt::format("an integer from {} to {}", lowest, highest));
    return number;
  }

  template <typename Names>
  auto one_of(const Names& names) const {
    std::string found = text();
    for (const auto& name : names)
      if (name.text == found) return name.value;
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : ", ") + std::string(name.text);
    fail("one of " + all);
  }

  template <typename Read>
  auto list(Read read) const {
    if (!value_.is_array()) fail("an array");
    std::vector<decltype(read(*this))> out;  // grows: a million zeros must not cost what a million records would
    for (std::size_t i = 0; i < value_.size(); ++i)
      out.push_back(read(Field(value_[i], fmt::format("{}[{}]", where_, i))));
    return out;
  }

  template <typename Read>
  void members(Read read) const {
    if (!value_.is_object()) fail("an object");
    for (auto it = value_.begin(); it != value_.end(); ++it) read(it.key(), Field(it.value(), where_ + "." + it.key()));
  }

 private:
  const nlohmann::json& value_;
  std::string where_;
};

}  // namespace cudeploy
