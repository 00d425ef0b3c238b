// A misspelt word is answered with the nearest right one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cudeploy {

/// The candidate with the fewest edits (insert, delete, replace, swap of neighbours), where that is at most a third
/// of the longer word, rounded up; the first of equals.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace cudeploy
