// One line per fact, the path first, so that grep and editors find it. What is many (images, GPUs) is grouped;
// what is wrong is never shortened.
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "closure.hpp"
#include "gpu.hpp"

namespace cudeploy {

using Json = nlohmann::ordered_json;

namespace {

// ---- words --------------------------------------------------------------------------------------------------

class Ink {
 public:
  explicit Ink(bool colour) : colour_(colour) {}
  std::string bold(std::string_view text) const { return with("1", text); }
  std::string faint(std::string_view text) const { return with("2", text); }
  std::string severity(Severity severity) const {
    switch (severity) {
      case Severity::error:
        return with("1;31", "error");
      case Severity::warning:
        return with("1;33", "warning");
      default:
        return with("1;36", "info");
    }
  }
  std::string good(std::string_view text) const { return with("32", text); }
  std::string fair(std::string_view text) const { return with("33", text); }
  std::string error(std::string_view text) const { return with("1;31", text); }
  std::string hint(std::string_view text) const { return with("36", text); }

 private:
  std::string with(const char* code, std::string_view text) const {
    return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
  bool colour_;
};

/// Columns that a terminal needs: UTF-8 continuation bytes take none.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padded(std::string text, std::size_t width) {
  std::size_t now = columns(text);
  if (now < width) text.append(width - now, ' ');
  return text;
}

/// What a file gives a GPU, in one word. A file is as portable as its least portable fat binary; where only some of
/// them have nothing for the GPU, that is worth a word of its own.
enum class Support { native, jit, part, none };

Support support(const Coverage& covered) {
  if (covered.worst == Fit::none && covered.native + covered.jit > 0) return Support::part;
  return covered.worst == Fit::native ? Support::native : covered.worst == Fit::jit ? Support::jit : Support::none;
}

std::string support_word(Support support, std::size_t width, const Ink& ink) {
  switch (support) {
    case Support::native:
      return ink.good(padded("native", width));
    case Support::jit:
      return ink.fair(padded("JIT", width));
    case Support::part:
      return ink.error(padded("part", width));
    case Support::none:
      break;
  }
  return ink.error(padded("none", width));
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string plural(std::uint64_t count, std::string_view one, std::string_view many = "") {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

std::string join(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : std::string(between)) + printable(word);
  return out;
}

const char* format_words(Format format) {
  switch (format) {
    case Format::elf:
      return "ELF";
    case Format::pe:
      return "PE";
    case Format::ar:
      return "static archive";
    case Format::fatbin:
      return "fat binary";
    case Format::cubin:
      return "cubin";
    case Format::ptx:
      return "PTX";
    case Format::other:
      break;
  }
  return "nothing to read";
}

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "error";
    case Severity::warning:
      return "warning";
    case Severity::info:
      return "info";
    case Severity::off:
      break;
  }
  return "off";
}

std::string_view outcome_name(Verdict::Outcome outcome) {
  switch (outcome) {
    case Verdict::Outcome::clean:
      return "clean";
    case Verdict::Outcome::flagged:
      return "flagged";
    case Verdict::Outcome::not_applicable:
      break;
  }
  return "not-applicable";
}

std::string_view stage_name(Stage stage) { return stage == Stage::link ? "link" : "package"; }

// ---- inspect ------------------------------------------------------------------------------------------------

constexpr std::size_t label_width = 14;

void line(std::string& out, std::string_view label, std::string_view text) {
  out += "  " + padded(std::string(label), label_width) + std::string(text) + "\n";
}

std::string image_words(const Image& image) {
  std::string name = image_name(image);
  if (image.kind == ImageKind::ptx && image.ptx_version) name = "PTX " + *image.ptx_version + " " + name;
  if (image.debug) name += " (debug)";
  return printable(name);
}

/// What decides the name of an image, and the order in which names are shown. Comparing these is cheaper than making
/// thousands of equal names.
using ImageKey = std::tuple<ImageKind, std::uint32_t, bool, std::string_view, std::uint16_t>;
ImageKey key_of(const Image& image) {
  return {image.kind, image.arch.value_or(0), image.arch.has_value(), image.variant,
          image.kind == ImageKind::other ? image.entry_kind : std::uint16_t{0}};
}

/// Images by name, in the order of kind, architecture, variant, PTX version: "sm_80 ×3  sm_90 ×3  PTX 9.0 compute_90".
std::vector<std::string> image_counts(const std::vector<const FatBinary*>& containers) {
  struct Count {
    const Image* first = nullptr;
    std::size_t images = 0;
  };
  std::map<std::tuple<ImageKey, std::string_view, bool>, Count> counts;
  for (const FatBinary* container : containers)
    for (const Image& image : container->images) {
      const std::string_view ptx_version = image.ptx_version ? std::string_view(*image.ptx_version) : "";
      Count& count = counts[{key_of(image), ptx_version, image.debug}];
      if (count.images++ == 0) count.first = &image;
    }
  std::vector<std::string> out;
  for (const auto& [key, count] : counts)
    out.push_back(image_words(*count.first) + (count.images > 1 ? fmt::format(" ×{}", count.images) : ""));
  return out;
}

void device_code(std::string& out, const FileRecord& file) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const FatBinary*>> places;
  for (const FatBinary& container : file.fat_binaries) {
    std::string place = container.section.value_or("");
    if (!container.loadable) place += (place.empty() ? "" : " ") + std::string("(relocatable, not loadable as it is)");
    if (!places.contains(place)) order.push_back(place);
    places[place].push_back(&container);
  }
  for (const std::string& place : order) {
    const auto& containers = places[place];
    std::uint64_t size = 0;
    std::size_t images = 0;
    for (const FatBinary* container : containers) size += container->size, images += container->images.size();
    line(out, "device code",
         fmt::format("{}{}, {}, {}", place.empty() ? "" : printable(place) + ": ",
                     plural(containers.size(), "fat binary", "fat binaries"), plural(images, "image"),
                     bytes_text(size)));
    // As many per line as fit.
    std::string row;
    for (const std::string& count : image_counts(containers)) {
      if (!row.empty() && columns(row) + 2 + columns(count) > 80) line(out, "", "  " + row), row.clear();
      row += (row.empty() ? "" : "  ") + count;
    }
    if (!row.empty()) line(out, "", "  " + row);
  }
}

/// What the images of one name cost, in bytes as they lie.
struct Cost {
  std::string image;
  double bytes = 0;
  bool shared = false;  ///< compressed together with others: a share by plain size
};

/// Each byte of the file counts once, whatever its entries claim: a payload ends where the next entry begins, and a
/// container where the next one does.
std::vector<Cost> costs_of(const FileRecord& file) {
  const auto begin_of = [](const Image& image) { return image.group.value_or(image.offset); };
  std::vector<const FatBinary*> containers;
  for (const FatBinary& container : file.fat_binaries) containers.push_back(&container);
  std::stable_sort(containers.begin(), containers.end(),
                   [](const FatBinary* a, const FatBinary* b) { return a->offset < b->offset; });
  std::map<ImageKey, Cost> costs;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const FatBinary& container = *containers[i];
    std::uint64_t end = i + 1 < containers.size() ? std::min(containers[i + 1]->offset, file.size) : file.size;
    end = std::max(end, container.offset);
    end = container.offset + std::min(container.size, end - container.offset);
    std::vector<const Image*> images;
    for (const Image& image : container.images) images.push_back(&image);
    std::stable_sort(images.begin(), images.end(),
                     [&](const Image* a, const Image* b) { return begin_of(*a) < begin_of(*b); });
    std::uint64_t left = end - container.offset, plain = 0;
    const auto cost_of = [&](const Image& image) -> Cost& {
      Cost& cost = costs[key_of(image)];
      if (cost.image.empty()) cost.image = image_name(image);
      return cost;
    };
    for (std::size_t k = 0; k < images.size(); ++k) {
      const Image& image = *images[k];
      Cost& cost = cost_of(image);
      if (image.group) {
        plain += image.size.value_or(0);
        continue;
      }
      const std::uint64_t limit = k + 1 < images.size() ? std::min(begin_of(*images[k + 1]), end) : end;
      const std::uint64_t begin = image.offset + std::min<std::uint64_t>(image.header_size, ~image.offset);
      const std::uint64_t bytes = begin < limit ? std::min(image.stored_size.value_or(0), limit - begin) : 0;
      left -= std::min(left, bytes);
      cost.bytes += static_cast<double>(bytes);
    }
    for (const Image* image : images) {
      if (!image->group || plain == 0) continue;
      Cost& cost = cost_of(*image);
      cost.bytes +=
          static_cast<double>(left) * static_cast<double>(image->size.value_or(0)) / static_cast<double>(plain);
      cost.shared = true;
    }
  }
  std::vector<Cost> result;
  for (auto& [key, cost] : costs) result.push_back(std::move(cost));
  return result;
}

void sizes(std::string& out, const FileRecord& file) {
  const std::vector<Cost> costs = costs_of(file);
  if (costs.size() < 2 || file.size == 0) return;
  std::string row;
  bool first = true;
  const auto flush = [&] {
    if (!row.empty()) line(out, first ? "sizes" : "", row);
    first = first && row.empty();
    row.clear();
  };
  for (const Cost& cost : costs) {
    const std::string text = fmt::format("{}: {}{}, {:.0f} %", printable(cost.image), cost.shared ? "about " : "",
                                         bytes_text(static_cast<std::uint64_t>(cost.bytes)),
                                         100 * cost.bytes / static_cast<double>(file.size));
    if (!row.empty() && columns(row) + 3 + columns(text) > 80) flush();
    row += (row.empty() ? "" : " · ") + text;
  }
  flush();
}

/// What one GPU gets from a file, and which driver that takes.
struct Served {
  const Gpu* gpu = nullptr;
  Support support = Support::none;
  std::optional<DriverFloor> floor;
};

/// Of all GPUs that are known, the oldest first; nothing where no fat binary is judged.
std::vector<Served> served_by(const FileRecord& whole) {
  const FileRecord file = one_of_each_kind(whole);
  const JudgedCode code(file);
  std::vector<Served> all;
  for (const Gpu& gpu : known_gpus()) {
    const Coverage covered = coverage(code, gpu.target);
    if (covered.judged() == 0) return {};
    const Support now = support(covered);
    const bool runs = now == Support::native || now == Support::jit;
    all.push_back({&gpu, now, runs ? driver_floor(file, gpu.target) : std::nullopt});
  }
  return all;
}

/// The one reason that no smaller number will do; where a part is unknown, that one.
std::string reason_of(const DriverFloor& floor) {
  if (floor.parts.empty()) return {};
  return floor.complete ? floor.parts.front().reason : floor.parts.back().reason;
}

/// GPUs by what they get and which driver it takes.
void gpus(std::string& out, const FileRecord& file, const Ink& ink) {
  struct Group {
    Support support;
    std::string driver;
    std::string gpus;
    std::vector<std::string> reasons;
  };
  std::vector<Group> groups;
  const std::vector<Served> all = served_by(file);
  // Who picks a build by the driver alone gets one that the GPU is too old for.
  const auto oldest = std::find_if(all.begin(), all.end(), [](const Served& one) { return one.floor.has_value(); });
  if (oldest != all.end())
    line(out, "oldest gpu", fmt::format("{}, driver {}", describe(oldest->gpu->target), oldest->floor->text()));
  for (const Served& one : all) {
    if (one.support == Support::none && !one.gpu->in_newest_toolkit) continue;
    const std::string driver = one.floor ? one.floor->text() : "";
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const Group& group) { return group.support == one.support && group.driver == driver; });
    if (it == groups.end()) it = groups.insert(groups.end(), Group{one.support, driver, "", {}});
    it->gpus += (it->gpus.empty() ? "" : " ") + to_string(one.gpu->target);
    const std::string reason = one.floor ? reason_of(*one.floor) : "";
    if (!reason.empty() && std::find(it->reasons.begin(), it->reasons.end(), reason) == it->reasons.end())
      it->reasons.push_back(reason);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.support < b.support; });
  bool first = true;
  for (const Group& group : groups) {
    std::string more = group.driver.empty() ? "" : fmt::format("  (driver {})", group.driver);
    if (group.support == Support::part) more = "  (some fat binaries have nothing for these)";
    line(out, first ? "gpus" : "", support_word(group.support, 7, ink) + group.gpus + more);
    for (const std::string& reason : group.reasons) line(out, "", "       " + printable(reason));
    first = false;
  }
}

void kernels(std::string& out, const FileRecord& file) {
  for (const FatBinary& container : file.fat_binaries)
    for (const Image& image : container.images) {
      if (image.kernels.empty()) continue;
      line(out, "kernels", fmt::format("{} at 0x{:x}", image_words(image), image.offset));
      for (const Kernel& kernel : image.kernels) {
        std::string facts;
        if (kernel.registers) facts += fmt::format("  {} registers", *kernel.registers);
        if (kernel.shared_bytes) facts += fmt::format("  {} B shared", *kernel.shared_bytes);
        line(out, "", "  " + printable(kernel.name) + facts);
      }
    }
}

void runtime_copies(std::string& out, const FileRecord& file) {
  for (const RuntimeCopy& copy : file.runtime_copies) {
    std::string text(to_string(copy.kind));
    if (copy.version) {
      text += " " + printable(*copy.version);
    } else if (!copy.candidates.empty()) {
      text += " " + join(copy.candidates, " or ");
    } else if (copy.kind == RuntimeCopyKind::private_static || copy.kind == RuntimeCopyKind::unified) {
      text += " of unknown version";
    }
    if (copy.generation) text += ", generation " + printable(*copy.generation);
    if (!copy.evidence.empty()) text += " (" + printable(copy.evidence) + ")";
    line(out, "runtime", text);
  }
}

/// Whether a file or link of this name ships with the file. Where the loader would find it, the audit says.
bool ships_with(const InspectRecord& record, const FileRecord& file, const std::string& name) {
  const auto is_called_so = [&](std::string_view path) { return windows_name(file_name(path)) == windows_name(name); };
  return std::any_of(record.bundles.begin(), record.bundles.end(), [&](const BundleRecord& bundle) {
    return std::find(bundle.files.begin(), bundle.files.end(), file.path) != bundle.files.end() &&
           (std::any_of(bundle.files.begin(), bundle.files.end(), is_called_so) ||
            std::any_of(bundle.links.begin(), bundle.links.end(),
                        [&](const auto& link) { return is_called_so(link.first); }));
  });
}

void companions(std::string& out, const InspectRecord& record, const FileRecord& file) {
  if (!file.vendor) return;
  bool first = true;
  for (const Companion& companion : file.vendor->opens) {
    line(out, first ? "opens by name" : "",
         fmt::format("{} for {} ({})", printable(companion.name), printable(companion.wanted_for),
                     ships_with(record, file, companion.name) ? "there" : "not among these files"));
    first = false;
  }
}

void inspect_file(std::string& out, const InspectRecord& record, const FileRecord& file, const ReadOptions& options,
                  const Ink& ink) {
  std::string head = format_words(file.format);
  if (file.unreadable) head = "unreadable";
  if (file.format == Format::other && !file.problems.empty() && !file.unreadable) head = "damaged";
  if (file.type) head += " " + printable(*file.type);
  if (file.machine) head += " " + printable(*file.machine);
  if (!file.unreadable) head += ", " + bytes_text(file.size);
  out += ink.bold(path_text(file.path)) + ": " + head + "\n";

  if (file.soname) line(out, "soname", printable(*file.soname));
  if (file.vendor) line(out, "vendor", printable(file.vendor->name) + " (" + printable(file.vendor->evidence) + ")");
  if (!file.needed.empty()) line(out, "needs", join(file.needed, " "));
  if (!file.delayed.empty()) line(out, "delayed", join(file.delayed, " "));
  companions(out, record, file);
  if (!file.rpath.empty()) line(out, "rpath", join(file.rpath, ":"));
  if (!file.runpath.empty()) line(out, "runpath", join(file.runpath, ":"));
  runtime_copies(out, file);
  device_code(out, file);
  sizes(out, file);
  gpus(out, file, ink);
  if (file.exported_stubs && !file.exported_stubs->empty()) {
    line(out, "kernel stubs", plural(file.exported_stubs->size(), "stub") + " visible to other objects");
    if (options.kernels)
      for (const ExportedStub& stub : *file.exported_stubs)
        line(out, "", "  " + printable(stub.name) + (stub.weak ? " (weak)" : ""));
  }
  if (options.kernels) kernels(out, file);
  for (const Problem& problem : file.problems)
    line(out, "problem",
         ink.error((problem.offset ? fmt::format("at 0x{:x}: ", *problem.offset) : "") + printable(problem.message)));
}

// ---- audit --------------------------------------------------------------------------------------------------

struct Counts {
  std::size_t errors = 0, warnings = 0, infos = 0;
  std::size_t clean = 0, flagged = 0, not_applicable = 0;
  std::size_t files = 0, rules = 0;
  std::size_t judged = 0;  ///< files that hold something a rule can judge
};

Counts counts_of(const Audit& audit) {
  Counts counts;
  for (const Finding& finding : audit.judgement.findings)
    ++(finding.severity == Severity::error     ? counts.errors
       : finding.severity == Severity::warning ? counts.warnings
                                               : counts.infos);
  for (const VerdictRow& row : audit.judgement.verdicts)
    ++(row.outcome == Verdict::Outcome::clean     ? counts.clean
       : row.outcome == Verdict::Outcome::flagged ? counts.flagged
                                                  : counts.not_applicable);
  counts.rules = all_rules().size();
  counts.files = audit.judgement.verdicts.size() / counts.rules;  // a file of two bundles is judged twice
  counts.judged = static_cast<std::size_t>(
      std::count_if(audit.record.files.begin(), audit.record.files.end(), [](const FileRecord& file) {
        return !file.unreadable && (file.format != Format::other || !file.problems.empty());
      }));
  return counts;
}

bool has_judged_code(const FileRecord& file) {
  return std::any_of(file.fat_binaries.begin(), file.fat_binaries.end(), is_judged);
}

/// Files × wanted GPUs, and the driver that each GPU takes.
void coverage_table(std::string& out, const Audit& audit, const Ink& ink) {
  std::vector<const FileRecord*> files;
  for (const FileRecord& file : audit.record.files)
    if (has_judged_code(file)) files.push_back(&file);
  if (audit.policy.gpus.empty() || files.empty()) return;

  constexpr std::size_t widest = 40;  // a longer path has a line of its own
  std::size_t first = 6;
  for (const FileRecord* file : files) first = std::max(first, std::min(columns(printable(file->path)), widest));
  struct Column {
    std::string name, number, driver;
    std::size_t width = 0;
  };
  std::vector<Column> table;
  for (GpuTarget target : audit.policy.gpus) {
    Column column;
    const Gpu* gpu = find_gpu(target);
    column.name = gpu != nullptr ? std::string(gpu->name) : "unknown";
    column.number = to_string(target);
    DriverVersion highest;
    bool complete = true;
    for (const FileRecord* file : files) {
      if (support(coverage(JudgedCode(*file), target)) == Support::none) continue;
      auto floor = driver_floor(*file, target);
      if (!floor) continue;
      complete = complete && floor->complete;
      if (!floor->driver) continue;
      auto version = driver_version(*floor->driver);
      if (version && (column.driver.empty() || *version > highest)) highest = *version, column.driver = *floor->driver;
    }
    if (column.driver.empty())
      column.driver = complete ? "-" : "unknown";
    else if (!complete)
      column.driver += " or newer?";
    column.width = std::max({columns(column.name), columns(column.number), columns(column.driver), std::size_t{6}});
    table.push_back(std::move(column));
  }

  auto row = [&](std::string_view label, auto cell) {
    bool apart = columns(label) > first;
    std::string text =
        "  " + (apart ? std::string(label) + "\n  " + padded("", first) : padded(std::string(label), first));
    for (std::size_t i = 0; i < table.size(); ++i) text += "  " + cell(i);
    while (text.ends_with(' ')) text.pop_back();
    out += text + "\n";
  };
  // A build prints a table for each target: where all is well, its words are not explained each time.
  out += audit.stage == Stage::link && audit.judgement.findings.empty()
             ? "coverage\n"
             : "coverage (native: runs as it is, JIT: compiled by the driver at first use, none: does not run,\n"
               "part: some fat binaries have nothing for it)\n";
  row("", [&](std::size_t i) { return padded(table[i].name, table[i].width); });
  row("GPU", [&](std::size_t i) { return padded(table[i].number, table[i].width); });
  for (const FileRecord* file : files)
    row(printable(file->path), [&](std::size_t i) {
      return support_word(support(coverage(JudgedCode(*file), audit.policy.gpus[i])), table[i].width, ink);
    });
  row("driver", [&](std::size_t i) { return padded(table[i].driver, table[i].width); });
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
    unsigned first = byte(i);
    std::size_t length = first < 0x80                    ? 1
                         : first >= 0xc2 && first < 0xe0 ? 2
                         : first >= 0xe0 && first < 0xf0 ? 3
                         : first >= 0xf0 && first < 0xf5 ? 4
                                                         : 0;
    bool good = length > 0 && first >= 0x20 && first != 0x7f;
    for (std::size_t k = 1; k < length; ++k) good = good && (byte(i + k) & 0xc0) == 0x80;
    if (good && length == 2) good = !(first == 0xc2 && byte(i + 1) < 0xa0);  // the other control characters
    if (good && length == 3) good = !(first == 0xe0 && byte(i + 1) < 0xa0) && !(first == 0xed && byte(i + 1) >= 0xa0);
    if (good && length == 4) good = !(first == 0xf0 && byte(i + 1) < 0x90) && !(first == 0xf4 && byte(i + 1) >= 0x90);
    if (good) {
      out += text.substr(i, length);
      i += length;
    } else {
      out += fmt::format("\\x{:02x}", first);
      ++i;
    }
  }
  return out;
}

std::string path_text(std::string_view path) { return path.empty() ? "''" : printable(path); }

std::string inspect_text(const InspectRecord& record, const ReadOptions& options, bool colour) {
  Ink ink(colour);
  std::string out;
  for (const FileRecord& file : record.files) inspect_file(out, record, file, options, ink);
  return out;
}

namespace {

std::string_view name_of(Support support) {
  switch (support) {
    case Support::native:
      return "native";
    case Support::jit:
      return "jit";
    case Support::part:
      return "part";
    case Support::none:
      break;
  }
  return "none";
}

/// What the images cost and which GPUs are served: computed from the record, so that a program needs no tables.
void add_summary(Json& out, const FileRecord& file) {
  Json sizes = Json::array();
  for (const Cost& cost : costs_of(file))
    sizes.push_back(
        {{"image", cost.image}, {"bytes", static_cast<std::uint64_t>(cost.bytes)}, {"shared", cost.shared}});
  Json gpus = Json::array();
  for (const Served& one : served_by(file)) {
    if (one.support == Support::none) continue;
    Json row = {{"gpu", to_string(one.gpu->target)}, {"code", name_of(one.support)}};
    if (one.floor) {
      row["driver"] = one.floor->driver ? Json(*one.floor->driver) : Json(nullptr);
      row["driver_complete"] = one.floor->complete;
      for (const FloorPart& part : one.floor->parts) row["driver_reasons"].push_back(part.reason);
    }
    gpus.push_back(std::move(row));
  }
  out["sizes"] = std::move(sizes);
  out["gpus"] = std::move(gpus);
}

}  // namespace

std::string inspect_json(const InspectRecord& record) {
  Json out = to_json(record);
  for (std::size_t i = 0; i < record.files.size(); ++i)
    if (!record.files[i].fat_binaries.empty()) add_summary(out["files"][i], record.files[i]);
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string audit_text(const Audit& audit, bool colour) {
  Ink ink(colour);
  std::string out;
  for (const Finding& finding : audit.judgement.findings) {
    out += fmt::format("{}: {}: {} [{} {}]\n", ink.bold(printable(finding.path)), ink.severity(finding.severity),
                       printable(finding.evidence.message), finding.rule->id, finding.rule->name);
    if (!finding.evidence.related.empty())
      out += fmt::format("  {} {}\n", ink.hint("with:"), join(finding.evidence.related, ", "));
    if (!finding.evidence.hint.empty())
      out += fmt::format("  {} {}\n", ink.hint("hint:"), printable(finding.evidence.hint));
  }
  coverage_table(out, audit, ink);
  Counts counts = counts_of(audit);
  auto unread = static_cast<std::size_t>(std::count_if(audit.record.files.begin(), audit.record.files.end(),
                                                       [](const FileRecord& file) { return file.unreadable; }));
  out += fmt::format("{} (policy {}, stage {}): {}, {}; {} × {}: {} clean, {} flagged, {} not applicable\n",
                     counts.errors > 0 ? ink.error("not clean")
                     : unread > 0      ? ink.error(plural(unread, "path") + " could not be read")
                     : !audit.contradicted.empty()
                         ? ink.error(plural(audit.contradicted.size(), "path") + " with two contents")
                     : counts.warnings > 0 ? "warnings"
                     : counts.judged == 0  ? "nothing to judge"
                                           : "clean",
                     printable(audit.policy.name), stage_name(audit.stage), plural(counts.errors, "error"),
                     plural(counts.warnings, "warning"), plural(counts.files, "file"), plural(counts.rules, "rule"),
                     counts.clean, counts.flagged, counts.not_applicable);
  return out;
}

std::string audit_json(const Audit& audit) {
  Counts counts = counts_of(audit);
  const Policy& policy = audit.policy;
  Json wanted = Json::array();
  for (GpuTarget gpu : policy.gpus) wanted.push_back(to_string(gpu));
  Json severities = Json::object();
  for (const auto& [rule, severity] : policy.severity) severities[rule] = severity_name(severity);

  Json findings = Json::array();
  for (const Finding& finding : audit.judgement.findings)
    findings.push_back({{"rule", finding.rule->id},
                        {"name", finding.rule->name},
                        {"severity", severity_name(finding.severity)},
                        {"path", finding.path},
                        {"message", finding.evidence.message},
                        {"hint", finding.evidence.hint},
                        {"related", finding.evidence.related}});
  Json verdicts = Json::array();
  for (const VerdictRow& row : audit.judgement.verdicts)
    verdicts.push_back({{"path", row.path},
                        {"rule", row.rule->id},
                        {"name", row.rule->name},
                        {"outcome", outcome_name(row.outcome)},
                        {"reason", row.reason}});
  Json covered = Json::array();
  for (const FileRecord& file : audit.record.files) {
    const JudgedCode code(file);
    if (code.fat_binaries.empty()) continue;
    for (GpuTarget gpu : policy.gpus) {
      Coverage all = coverage(code, gpu);
      auto floor = driver_floor(file, gpu);
      covered.push_back({{"path", file.path},
                         {"gpu", to_string(gpu)},
                         {"code", to_string(all.worst)},
                         {"native", all.native},
                         {"jit", all.jit},
                         {"none", all.none},
                         {"driver", floor && floor->driver ? Json(*floor->driver) : Json(nullptr)},
                         {"driver_complete", floor ? floor->complete : true}});
    }
  }
  Json unreadable = Json::array();
  for (const FileRecord& file : audit.record.files)
    if (file.unreadable)
      unreadable.push_back({{"path", file.path}, {"message", file.problems.empty() ? "" : file.problems[0].message}});
  for (const std::string& path : audit.contradicted)
    unreadable.push_back({{"path", path}, {"message", "is in two of the inputs, with different content"}});

  Json out = {{"schema", "cudeploy/audit/1"},
              {"stage", stage_name(audit.stage)},
              {"policy",
               {{"name", policy.name},
                {"gpus", std::move(wanted)},
                {"driver", policy.driver ? Json(*policy.driver) : Json(nullptr)},
                {"severity", std::move(severities)},
                {"provided", policy.provided}}},
              {"counts",
               {{"files", counts.files},
                {"judged", counts.judged},
                {"rules", counts.rules},
                {"errors", counts.errors},
                {"warnings", counts.warnings},
                {"infos", counts.infos},
                {"clean", counts.clean},
                {"flagged", counts.flagged},
                {"not_applicable", counts.not_applicable}}},
              {"findings", std::move(findings)},
              {"coverage", std::move(covered)},
              {"verdicts", std::move(verdicts)},
              {"unreadable", std::move(unreadable)}};
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

std::string_view stages_of(const Rule& rule) {
  if (rule.at_link && rule.at_package) return "link, package";
  return rule.at_link ? "link" : "package";
}

/// Breaks at blanks so that no line is longer than `width`, each line indented; widths in bytes.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result, line;
  const auto flush = [&] {
    if (!line.empty()) result += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) flush();
    if (!line.empty()) line += ' ';
    line += word;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  flush();
  return result;
}

}  // namespace

std::string rule_text(const Rule& rule, bool colour) {
  constexpr std::size_t width = 100;
  Ink ink(colour);
  std::string page = fmt::format("{} {} ({}, stage {}, since {})\n\n", ink.bold(rule.id), ink.bold(rule.name),
                                 severity_name(rule.severity), stages_of(rule), rule.since);
  page += wrapped(rule.summary, width, 0);
  for (const auto& [title, text] :
       {std::pair(std::string_view("why"), rule.why), {"fix", rule.fix}, {"source", rule.source}})
    page += fmt::format("\n{}\n{}", ink.bold(title), wrapped(text, width, 2));
  return page;
}

std::string rules_markdown() {
  std::string page =
      "# Rules\n\n"
      "Written by `cudeploy explain --format markdown`; a test keeps it true. Each binary gets one verdict from each\n"
      "rule: clean, flagged, or not applicable with the reason. A policy changes a severity by\n"
      "`severity.<name> = \"error\" | \"warning\" | \"info\" | \"off\"`.\n\n"
      "| id | name | severity | stages | what it finds |\n|---|---|---|---|---|\n";
  for (const Rule& rule : all_rules()) {
    std::string anchor = fmt::format("{}-{}", rule.id, rule.name);
    for (char& c : anchor)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    page += fmt::format("| {} | [{}](#{}) | {} | {} | {} |\n", rule.id, rule.name, anchor, severity_name(rule.severity),
                        stages_of(rule), rule.summary);
  }
  for (const Rule& rule : all_rules()) {
    page += fmt::format("\n## {} {}\n\n{}\n\n", rule.id, rule.name, rule.summary);
    page += fmt::format("Severity: {}. Stages: {}. Since: {}.\n\n", severity_name(rule.severity), stages_of(rule),
                        rule.since);
    page += fmt::format("**Why.** {}\n\n**Fix.** {}\n\n**Source.** {}\n", rule.why, rule.fix, rule.source);
  }
  return page;
}

std::string rule_list() {
  std::size_t width = 0;
  for (const Rule& rule : all_rules()) width = std::max(width, rule.name.size());
  std::string out;
  for (const Rule& rule : all_rules())
    out += fmt::format("{}  {}  {:7}  {}\n", rule.id, padded(std::string(rule.name), width),
                       severity_name(rule.severity), rule.summary);
  return out;
}

}  // namespace cudeploy
