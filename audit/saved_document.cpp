#include "saved_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "bytes.hpp"
#include "find_bytes.hpp"
#include "record_codec.hpp"
#include "report.hpp"
#include "runtime_report.hpp"

namespace cudeploy {
namespace {

using Json = nlohmann::json;
using namespace std::string_view_literals;

struct DocumentKind {
  std::string_view schema, escaped, what, how;
};
constexpr DocumentKind saved_inspect_record{"cudeploy/inspect/", "cudeploy\\/inspect\\/", "an inspect record",
                                            "cudeploy inspect --format json PATH > FILE"};
constexpr DocumentKind runtime_report{"cudeploy/runtime-report/", "cudeploy\\/runtime-report\\/",
                                      "the report of a process", "CUDEPLOY_REPORT=FILE PROGRAM"};
// Never read, in whatever state it is: there is nothing to judge or to show in it.
constexpr DocumentKind audit_report{"cudeploy/audit/", "cudeploy\\/audit\\/", {}, {}};

/// The document is not as it should be; the message is whole.
struct Damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How a text begins that an editor or a shell has turned into other letters. As it stands it would be a plain file,
/// and a plain file is clean.
struct OtherLetters {
  std::string_view mark, what;
};
constexpr std::array other_letters = {
    OtherLetters{"\xef\xbb\xbf{"sv, "begins with a byte order mark"},
    OtherLetters{"\xff\xfe"sv, "begins with a byte order mark"},
    OtherLetters{"\xfe\xff"sv, "begins with a byte order mark"},
    OtherLetters{"\0\0\xfe\xff"sv, "begins with a byte order mark"},
    OtherLetters{"{\0"sv, "has letters of 16 or 32 bits"},
    OtherLetters{"\0{"sv, "has letters of 16 or 32 bits"},
    OtherLetters{"\0\0\0{"sv, "has letters of 16 or 32 bits"},
};

const OtherLetters* in_other_letters(std::string_view head) {
  const auto found = std::find_if(other_letters.begin(), other_letters.end(),
                                  [&](const OtherLetters& letters) { return head.starts_with(letters.mark); });
  return found == other_letters.end() ? nullptr : found;
}

constexpr std::uint64_t head_size = 4096;

/// Whether a file with this beginning can be a document at all: of most files nobody has to ask further. Editors and
/// scripts leave any number of empty lines in front.
bool may_be_document(const std::string& path) {
  std::string why;
  const auto bytes = FileBytes::open(path, why);
  if (bytes == nullptr) return false;  // reading it will tell
  const std::vector<std::byte> content = bytes->copy({0, head_size});
  const std::string_view head(reinterpret_cast<const char*>(content.data()), content.size());
  const std::size_t first = head.find_first_not_of(" \t\n\v\f\r");
  return first == head.npos ? bytes->size() > head_size : head[first] == '{' || in_other_letters(head) != nullptr;
}

// ---- in the worker ------------------------------------------------------------------------------------------

/// Looks for the schema of a document, and keeps nothing else of it: it may be somebody else's, and of any size. Says
/// no to the parser as soon as it knows.
class SchemaSeeker : public nlohmann::json_sax<Json> {
 public:
  std::optional<std::string> schema;
  bool broken = false;

  bool null() override { return value(); }
  bool boolean(bool /*value*/) override { return value(); }
  bool number_integer(number_integer_t /*value*/) override { return value(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return value(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return value(); }
  bool binary(binary_t& /*value*/) override { return value(); }
  bool string(string_t& text) override {
    if (depth_ != 1 || !at_schema_) return true;
    schema = std::move(text);
    return false;
  }
  bool key(string_t& text) override {
    at_schema_ = depth_ == 1 && text == "schema";
    return true;
  }
  bool start_object(std::size_t /*size*/) override { return enter(); }
  bool start_array(std::size_t /*size*/) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*why*/) override {
    broken = true;
    return false;
  }

 private:
  bool value() const { return depth_ != 1 || !at_schema_; }
  bool enter() {
    if (!value()) return false;
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  std::uint64_t depth_ = 0;
  bool at_schema_ = false;
};

/// What kind of document it is, null for none. One that breaks off is taken by its words.
const DocumentKind* kind_of(const std::string& path, const Bytes& bytes, bool records) {
  std::vector<const DocumentKind*> kinds;
  if (records) kinds.push_back(&saved_inspect_record);
  kinds.insert(kinds.end(), {&runtime_report, &audit_report});
  const auto first_of = [&](auto fits) -> const DocumentKind* {
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const DocumentKind* each) { return fits(*each); });
    return kind == kinds.end() ? nullptr : *kind;
  };

  const std::vector<std::byte> content = bytes.copy({0, head_size});
  const std::string_view head(reinterpret_cast<const char*>(content.data()), content.size());
  if (const OtherLetters* letters = in_other_letters(head)) {
    std::string words;
    std::copy_if(head.begin(), head.end(), std::back_inserter(words), [](char letter) { return letter != '\0'; });
    const auto* kind = first_of([&](const DocumentKind& each) { return words.find(each.schema) != words.npos; });
    if (kind == nullptr || kind == &audit_report) return kind;
    throw Damaged(
        fmt::format("{}: error: is meant to be {}, but {}: expected UTF-8 without a byte order mark\n"
                    "hint: let cudeploy write the file: {}",
                    printable(path), kind->what, letters->what, kind->how));
  }
  SchemaSeeker seeker;
  std::ifstream stream(path, std::ios::binary);
  stream >> std::ws;
  if (stream.peek() != '{') return nullptr;
  Json::sax_parse(stream, &seeker);
  if (!seeker.broken)
    return first_of([&](const DocumentKind& each) { return seeker.schema && seeker.schema->starts_with(each.schema); });
  return first_of([&](const DocumentKind& each) {
    const std::array needles{Needle{each.schema, 0}, Needle{each.escaped, 0}};
    const std::vector<Found> found = find_bytes(bytes, {{0, bytes.size()}}, needles);
    return std::any_of(found.begin(), found.end(), [](const Found& where) { return where.count > 0; });
  });
}

SavedDocument read_document(const std::string& path, const Bytes& bytes, bool records) {
  SavedDocument document;
  const DocumentKind* kind = kind_of(path, bytes, records);
  if (kind == nullptr) return document;
  if (kind == &audit_report) {
    document.kind = SavedDocument::Kind::audit_report;
    return document;
  }
  std::ifstream stream(path, std::ios::binary);
  const Json value = Json::parse(stream, nullptr, false);
  if (value.is_discarded())
    throw Damaged(fmt::format("{}: error: is meant to be {}, but is no whole JSON document\nhint: write it again: {}",
                              printable(path), kind->what, kind->how));
  try {
    if (kind == &runtime_report) {
      document.kind = SavedDocument::Kind::report;
      document.text = runtime_report_text(path, value);
    } else {
      document.kind = SavedDocument::Kind::record;
      document.record = inspect_record_from_json(value);
    }
  } catch (const std::runtime_error& error) {  // the field is named
    throw Damaged(fmt::format("{}: error: {}\nhint: write it again with this version of cudeploy: {}", printable(path),
                              printable(error.what()), kind->how));
  }
  return document;
}

// ---- from worker to parent ----------------------------------------------------------------------------------

std::vector<std::uint8_t> to_answer(const SavedDocument& document) {
  std::vector<std::uint8_t> answer;
  if (document.kind == SavedDocument::Kind::record)
    answer = encode(document.record);
  else
    answer.assign(document.text.begin(), document.text.end());
  answer.push_back(static_cast<std::uint8_t>(document.kind));
  return answer;
}

/// Throws std::runtime_error where a worker told what no worker would tell.
SavedDocument from_answer(std::span<const std::uint8_t> answer) {
  if (answer.empty() || answer.back() > static_cast<std::uint8_t>(SavedDocument::Kind::damaged))
    throw std::runtime_error("no kind of document");
  SavedDocument document;
  document.kind = static_cast<SavedDocument::Kind>(answer.back());
  answer = answer.first(answer.size() - 1);
  if (document.kind == SavedDocument::Kind::record)
    document.record = decode_inspect_record(answer);
  else
    document.text.assign(answer.begin(), answer.end());
  return document;
}

SavedDocument damaged(const std::string& path, const std::string& why) {
  SavedDocument document;
  document.kind = SavedDocument::Kind::damaged;
  document.text =
      fmt::format("{}: error: cannot be read: {}\nhint: name the files themselves, or fewer of them in one record",
                  printable(path), printable(why));
  return document;
}

}  // namespace

std::vector<SavedDocument> read_saved_documents(const std::vector<std::string>& paths, bool records,
                                                WorkerLimits limits) {
  std::vector<SavedDocument> documents(paths.size());
  std::vector<Task> tasks;
  std::vector<std::size_t> place;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!may_be_document(paths[i])) continue;
    tasks.push_back({paths[i], true, 0});
    place.push_back(i);
  }
  limits.per_mebibyte = std::chrono::milliseconds(1000);
  const std::vector<Reading> readings = read_in_workers(
      tasks,
      [&](const Task& task, Sink& sink) {
        std::string why;
        const auto bytes = FileBytes::open(task.path, why);
        SavedDocument document;
        if (bytes != nullptr) {
          sink.begin(task.path, bytes->size());
          try {
            document = read_document(task.path, *bytes, records);
            if (const std::string fault = bytes->fault(); !fault.empty() && document.kind != SavedDocument::Kind::none)
              throw Damaged(fmt::format("{}: error: {}\nhint: wait until it is written", printable(task.path), fault));
          } catch (const Damaged& error) {
            document.kind = SavedDocument::Kind::damaged;
            document.text = error.what();
          }
        }
        sink.answer(to_answer(document));
      },
      limits);
  for (std::size_t i = 0; i < readings.size(); ++i) {
    const std::string& path = tasks[i].path;
    SavedDocument& document = documents[place[i]];
    try {
      if (readings[i].files.empty())
        document = from_answer(readings[i].answer);
      else  // the worker died of it
        document = damaged(path, readings[i].files.front().problems.front().message);
    } catch (const std::runtime_error& error) {
      document = damaged(path, fmt::format("reader told nonsense: {}", error.what()));
    }
  }
  return documents;
}

}  // namespace cudeploy
