#include "nearest.hpp"

#include <algorithm>
#include <vector>

namespace cudeploy {
namespace {

/// Optimal string alignment distance: three rows are enough.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t longest_word = 100;  // nobody misspells more, and the work is the product of both lengths
  if (word.size() > longest_word) return {};
  std::optional<std::string> found;
  std::size_t fewest = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edits(word, candidate);
    if (distance > (std::max(word.size(), candidate.size()) + 2) / 3) continue;
    if (!found || distance < fewest) {
      found = std::string(candidate);
      fewest = distance;
    }
  }
  return found;
}

}  // namespace cudeploy
