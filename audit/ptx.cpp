#include "ptx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace cudeploy {
namespace {

constexpr std::uint64_t longest_preamble = 64u << 10;
/// Of a text in the data of a program: up to where its architecture must be told.
constexpr std::uint64_t longest_head = 1024;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

/// Walks PTX text directive by directive, past comments and strings.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// The next word that starts with a dot at the place where a directive can be (not inside `ld.global`), its
  /// dot included; "" at the end. What else stands between is passed over.
  std::string_view next_directive() {
    bool after_word = at_ > 0 && is_word(text_[at_ - 1]);
    while (at_ < text_.size()) {
      if (skip_blank()) {
        after_word = false;
        continue;
      }
      const char c = text_[at_];
      if (c == '.' && !after_word && at_ + 1 < text_.size() && is_word(text_[at_ + 1])) return take_dotted();
      after_word = is_word(c) || c == '.';
      if (c == '"') {
        skip_string();
      } else {
        ++at_;
      }
    }
    return {};
  }

  /// The first thing that is neither blank nor comment, if it is a directive; else "".
  std::string_view first_directive() {
    while (skip_blank()) {
    }
    return at_ < text_.size() && text_[at_] == '.' ? take_dotted() : std::string_view{};
  }

  /// What belongs to a directive: up to the end of its line, a comment or the next directive.
  std::string_view operands() {
    const auto begin = at_;
    while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '/') {
      if (text_[at_] == '.' && at_ > begin && is_space(text_[at_ - 1])) break;
      ++at_;
    }
    auto line = text_.substr(begin, at_ - begin);
    while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
    while (!line.empty() && is_space(line.back())) line.remove_suffix(1);
    return line;
  }

  /// Whether nothing but blanks and comments is left.
  bool at_end() {
    while (skip_blank()) {
    }
    return at_ == text_.size();
  }

  /// The next name after blanks and comments; "" where something else stands.
  std::string_view name() {
    while (skip_blank()) {
    }
    const auto begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

 private:
  /// Passes over white space or one comment. False when there is neither.
  bool skip_blank() {
    const auto begin = at_;
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    const auto rest = text_.substr(at_);
    if (rest.starts_with("//")) {
      at_ = std::min(text_.size(), text_.find('\n', at_));
    } else if (rest.starts_with("/*")) {
      const auto end = text_.find("*/", at_ + 2);
      at_ = end == std::string_view::npos ? text_.size() : end + 2;
    }
    return at_ != begin;
  }

  void skip_string() {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(text_.size(), at_ + 1);
  }

  std::string_view take_dotted() {
    const auto begin = at_++;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// "9.0": digits, a dot, digits.
bool is_isa_version(std::string_view text) {
  const auto dot = text.find('.');
  auto digits = [](std::string_view part) {
    return !part.empty() && part.size() <= 4 && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dot != std::string_view::npos && digits(text.substr(0, dot)) && digits(text.substr(dot + 1));
}

/// Splits "sm_90a, debug" and takes the architecture apart.
bool read_target(std::string_view line, PtxFacts& facts, std::string& fault) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const auto comma = line.find(',');
    auto word = line.substr(0, comma);
    while (!word.empty() && is_space(word.front())) word.remove_prefix(1);
    while (!word.empty() && is_space(word.back())) word.remove_suffix(1);
    words.push_back(word);
    line = comma == std::string_view::npos ? std::string_view{} : line.substr(comma + 1);
  }
  for (const std::string_view word : words) {
    if (!word.starts_with("sm_") || facts.arch != 0) {
      facts.target_options.emplace_back(word);
      continue;
    }
    const auto number = word.substr(3);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), facts.arch);
    facts.variant = std::string(end, number.data() + number.size());
    if (error != std::errc{} || (facts.variant != "" && facts.variant != "a" && facts.variant != "f")) {
      fault = fmt::format(".target: expected sm_<number>, found {}", word.substr(0, 40));
      return false;
    }
  }
  if (facts.arch == 0) fault = ".target: expected sm_<number>, found none";
  return facts.arch != 0;
}

/// nvcc's comment "// Cuda compilation tools, release 13.0, V13.0.88", before the first directive.
std::optional<std::string> toolkit_in_comment(std::string_view text) {
  text = text.substr(0, text.find("\n.version"));
  const auto at = text.find("Cuda compilation tools, release ");
  if (at == std::string_view::npos) return std::nullopt;
  const auto line = text.substr(at, text.find('\n', at) - at);
  const auto mark = line.find(", V");
  if (mark == std::string_view::npos) return std::nullopt;
  const auto rest = line.substr(mark + 3);
  const auto version = rest.substr(0, rest.find_first_not_of("0123456789."));
  return version.empty() ? std::nullopt : std::optional(std::string(version));
}

/// The bytes at the end of `text` that are whole lines with nothing but blanks or a comment; nothing where what follows
/// it does not begin a line.
std::optional<std::size_t> lines_of_comment(std::string_view text) {
  if (!text.ends_with('\n')) return {};
  std::size_t begin = text.size();
  while (begin != 0 && text[begin - 1] == '\n') {
    const std::size_t before = text.substr(0, begin - 1).rfind('\n');
    const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
    std::string_view line = text.substr(start, begin - 1 - start);
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (!line.empty() && !line.starts_with("//")) return text.size() - begin;
    begin = start;
  }
  return text.size() - begin;
}

/// Tells whether a place lies in a comment that ends with its line, or in a string. Asked with rising places, so
/// that no byte is looked at twice, however long a line is.
class LineState {
 public:
  explicit LineState(std::string_view text) : text_(text) {}

  bool hides(std::size_t at) {
    const auto newline = text_.substr(seen_, at - seen_).rfind('\n');
    if (newline != std::string_view::npos) {
      seen_ += newline + 1;
      comment_ = quoted_ = false;
    }
    for (; seen_ < at; ++seen_) {
      comment_ |= !quoted_ && text_.substr(seen_, 2) == "//";
      quoted_ ^= text_[seen_] == '"';
    }
    return comment_ || quoted_;
  }

 private:
  std::string_view text_;
  std::size_t seen_ = 0;
  bool comment_ = false, quoted_ = false;
};

/// Names of the .entry directives. PTX can be megabytes of instructions, so the word is searched for; only text
/// with comments over several lines (none in a fat binary) has to be walked.
std::vector<std::string> entry_names(std::string_view text) {
  constexpr std::string_view entry = ".entry";
  std::vector<std::string> names;
  auto take = [&](Scanner scanner) {
    if (const auto name = scanner.name(); !name.empty()) names.emplace_back(name);
  };
  if (text.find("/*") != std::string_view::npos) {
    Scanner scanner(text);
    for (auto directive = scanner.next_directive(); !directive.empty(); directive = scanner.next_directive()) {
      if (directive == entry) take(scanner);
    }
    return names;
  }
  LineState line(text);
  for (std::size_t at = 0; at < text.size();) {
    const void* found = memmem(text.data() + at, text.size() - at, entry.data(), entry.size());
    if (found == nullptr) break;
    const auto hit = static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
    at = hit + entry.size();
    if (at < text.size() && is_word(text[at])) continue;
    if (hit > 0 && (is_word(text[hit - 1]) || text[hit - 1] == '.')) continue;
    if (!line.hides(hit)) take(Scanner(text.substr(at)));
  }
  return names;
}

}  // namespace

std::optional<PtxFacts> read_ptx_facts(std::string_view text, std::string& fault) {
  text = text.substr(0, text.find('\0'));
  fault.clear();
  PtxFacts facts;
  Scanner scanner(text);
  if (scanner.first_directive() != ".version") {
    fault = "expected .version as the first directive";
    return std::nullopt;
  }
  facts.version = scanner.operands();
  if (!is_isa_version(facts.version)) {
    fault = fmt::format(".version: expected <major>.<minor>, found {}", facts.version.substr(0, 40));
    return std::nullopt;
  }
  bool target = false;
  for (auto directive = scanner.next_directive(); !directive.empty(); directive = scanner.next_directive()) {
    if (directive == ".target" && !target) {
      if (!read_target(scanner.operands(), facts, fault)) return std::nullopt;
      target = true;
    } else if (directive == ".address_size" && !facts.address_size) {
      std::uint32_t bits = 0;
      const auto line = scanner.operands();
      if (std::from_chars(line.data(), line.data() + line.size(), bits).ec == std::errc{}) facts.address_size = bits;
    } else {
      break;  // these come before anything else
    }
  }
  if (!target) {
    fault = "expected a .target directive after .version, found none";
    return std::nullopt;
  }
  facts.kernels = entry_names(text);
  facts.toolkit = toolkit_in_comment(text.substr(0, longest_preamble));
  std::sort(facts.kernels.begin(), facts.kernels.end());
  facts.kernels.erase(std::unique(facts.kernels.begin(), facts.kernels.end()), facts.kernels.end());
  return facts;
}

bool looks_like_ptx(const Bytes& bytes, Extent where) {
  const auto start = bytes.copy({where.offset, std::min(where.size, longest_preamble)});
  std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  return Scanner(text.substr(0, text.find('\0'))).first_directive() == ".version";
}

std::optional<Extent> ptx_text_around(const Bytes& bytes, std::uint64_t at, Extent where, std::uint64_t& looked_at) {
  const auto text_of = [](const std::vector<std::byte>& data) {
    return std::string_view(reinterpret_cast<const char*>(data.data()), data.size());
  };
  const auto is_text = [](char c) { return is_space(c) || (static_cast<unsigned char>(c) >= ' ' && c != 0x7f); };
  const auto head = bytes.copy({at, std::min(where.end() - at, longest_head)});
  looked_at += head.size();
  std::string fault;
  if (!read_ptx_facts(text_of(head), fault)) return {};

  std::uint64_t end = at, opened = 0, closed = 0;
  for (bool ends = false; !ends && end < where.end() && end - at <= largest_image;) {
    const auto block = bytes.copy({end, std::min(where.end() - end, longest_preamble)});
    if (block.empty()) break;
    const std::string_view text = text_of(block).substr(0, text_of(block).find('\0'));
    ends = text.size() != block.size();
    end += text.size();
    looked_at += text.size();
    if (!std::ranges::all_of(text, is_text)) return {};
    opened += static_cast<std::uint64_t>(std::ranges::count(text, '{'));
    closed += static_cast<std::uint64_t>(std::ranges::count(text, '}'));
  }
  if (opened != closed || end - at > largest_image) return {};
  const auto whole = bytes.copy({at, end - at});
  const auto facts = read_ptx_facts(text_of(whole), fault);
  const auto to_fill_in = [](const std::string& name) { return name.find('%') != std::string::npos; };
  if (!facts || facts->kernels.empty() || std::ranges::any_of(facts->kernels, to_fill_in)) return {};

  const std::uint64_t room = std::min(at - where.offset, longest_preamble);
  const auto before = bytes.copy({at - room, room});
  std::string_view comment = text_of(before);
  const auto last = std::find_if_not(comment.rbegin(), comment.rend(), is_text);
  comment.remove_prefix(static_cast<std::size_t>(comment.rend() - last));
  if (!Scanner(comment).at_end()) {
    // Compilers that count their texts end none with a NUL, so another one may stand before it.
    const auto lines = lines_of_comment(comment);
    if (!lines) return {};
    comment.remove_prefix(comment.size() - *lines);
  }
  return Extent{at - comment.size(), end - at + comment.size()};
}

FatBinary read_ptx(const Bytes& bytes, Extent where, const std::optional<std::string>& section,
                   const ReadOptions& options, std::vector<Problem>& problems) {
  FatBinary out;
  out.offset = where.offset;
  out.size = where.size;
  out.section = section;
  Image image;
  image.offset = where.offset;
  image.kind = ImageKind::ptx;
  image.stored_size = image.size = where.size;
  if (where.size > largest_image) {
    problems.push_back(
        {where.offset, fmt::format("ptx: {} bytes are over the limit of {} for one image", where.size, largest_image)});
  } else {
    const auto text = bytes.copy(where);
    std::string fault;
    if (auto facts = read_ptx_facts({reinterpret_cast<const char*>(text.data()), text.size()}, fault)) {
      image.arch = facts->arch;
      image.variant = facts->variant;
      image.ptx_version = facts->version;
      image.toolkit = facts->toolkit;
      image.debug =
          std::find(facts->target_options.begin(), facts->target_options.end(), "debug") != facts->target_options.end();
      image.kernel_count = static_cast<std::uint32_t>(facts->kernels.size());
      if (options.kernels || options.for_audit) {
        for (auto& name : facts->kernels) image.kernels.push_back({std::move(name), std::nullopt, std::nullopt});
      }
    } else {
      problems.push_back({where.offset, "ptx: " + fault});
    }
  }
  out.images.push_back(std::move(image));
  return out;
}

}  // namespace cudeploy
