// Sharing one runtime must not be paid for at each call, and hardly at the first. Counted in instructions, which are
// the same on every run, with callgrind. The tables of runtime_static/README.md hold limits and counts, and are held to
// both: a count that is no longer true fails, CUDEPLOY_BLESS=1 writes it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "../../runtime_static/workshop.hpp"

namespace cudeploy::test {
namespace {

/// Instructions of a process, or of one function and what it calls.
long instructions(const Words& command, const std::string& only_in = {}) {
  Words words = {"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"};
  if (!only_in.empty()) words.push_back("--toggle-collect=" + only_in);
  words.insert(words.end(), command.begin(), command.end());
  const Outcome outcome = run(words, {"LD_BIND_NOW=1"});
  long count = -1;
  for (const auto& line : lines_of(outcome.out)) {
    const auto at = line.find("Collected : ");
    if (at != std::string::npos) count = std::stol(line.substr(at + 12));
  }
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_GE(count, 0) << outcome.out;
  return count;
}

/// Bytes that the loader maps for a file.
long loaded_bytes(const std::string& file) {
  long bytes = 0;
  for (const auto& line : lines_of(must({"readelf", "-lW", file}))) {
    std::istringstream words(line);
    std::string type, offset, address, physical, in_file, in_memory;
    words >> type >> offset >> address >> physical >> in_file >> in_memory;
    if (type == "LOAD") bytes += std::stol(in_memory, nullptr, 16);
  }
  return bytes;
}

/// 46104 as "46,104".
std::string grouped(long number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<long>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

/// Cells of a line of a table, without the spaces around them.
Words cells_of(const std::string& line) {
  static const std::regex cell(R"(\|\s*([^|]*?)\s*(?=\|))");
  Words cells;
  for (std::sregex_iterator match(line.begin(), line.end(), cell), none; match != none; ++match) {
    cells.push_back((*match)[1]);
  }
  return cells;
}

/// Whether a number of the README, found by its row and the heading of its column, is what was counted. Counts that
/// depend on how the machine's C library compares texts may differ by a share.
void expect_in_readme(const std::string& row, const std::string& column, long counted, double share = 0) {
  const std::string path = CUDEPLOY_TREE "/runtime_static/README.md";
  std::ifstream in(path);
  Words lines = lines_of({std::istreambuf_iterator<char>(in), {}});
  Words heading, last;
  for (auto& line : lines) {
    Words cells = cells_of(line);
    if (line.starts_with("|---")) heading = last;
    last = cells;
    const auto at = static_cast<std::size_t>(std::find(heading.begin(), heading.end(), column) - heading.begin());
    if (cells.empty() || cells[0] != row || at == heading.size() || at >= cells.size()) continue;
    if (const char* bless = std::getenv("CUDEPLOY_BLESS"); bless && std::string(bless) == "1") {
      cells[at] = grouped(counted);
      line = "|";
      for (const auto& cell : cells) line += cell.empty() ? " |" : " " + cell + " |";
      std::ofstream out(path);
      for (const auto& each : lines) out << each << "\n";
      return;
    }
    std::string written = cells[at];
    std::erase(written, ',');
    EXPECT_LE(std::abs(std::strtol(written.c_str(), nullptr, 10) - counted), share * static_cast<double>(counted))
        << row << " | " << column << ": the README has " << cells[at] << ", counted are " << grouped(counted)
        << " (CUDEPLOY_BLESS=1 writes it)";
    return;
  }
  ADD_FAILURE() << "runtime_static/README.md has no row " << row << " with a column " << column;
}

/// Pinned releases: the next one of the same version may differ.
struct Toolkit {
  const char* version;
  const char* part;
};

void PrintTo(const Toolkit& toolkit, std::ostream* out) { *out << toolkit.version; }

class Cost : public ::testing::TestWithParam<Toolkit> {
 protected:
  std::string archive, library;

  void SetUp() override {
    if (!has_program("valgrind")) GTEST_SKIP() << "valgrind is not installed";
    const std::string part = real_part(GetParam().part);
    if (part.empty()) GTEST_SKIP() << "real part not available: " << GetParam().part;
    archive = part + "/nvidia/cu13/lib/libcudart_static.a";
    library = part + "/nvidia/cu13/lib/libcudart.so.13";
  }

  /// What one copy pays once, or once per loaded object: within the limit, and as the README has it.
  void expect_once(const std::string& row, long counted, long limit, double share = 0.02) const {
    EXPECT_GT(counted, 0) << row;
    EXPECT_LE(counted, limit) << row;
    const auto names = kit({.archive = archive}).names.size();
    expect_in_readme(row, GetParam().version + (", " + std::to_string(names)) + " names", counted, share);
    expect_in_readme(row, "limit", limit);
  }
};

TEST_P(Cost, OfEachCall) {
  Workshop shop;
  const std::string object = shop.object("call", std::string(CUDEPLOY_BENCH_SOURCES) + "/call.c");
  const auto link = [&](const std::string& name, const Words& libraries) {
    Words command = {"gcc", object, "-o", shop.path(name)};
    command.insert(command.end(), libraries.begin(), libraries.end());
    must(command);
    const auto count = [&](const char* times) { return instructions({shop.path(name), times}); };
    // The start of a process differs by some instructions from run to run.
    const long per_call = std::lround(static_cast<double>(count("20000") - count("10000")) / 10000);
    expect_in_readme(GetParam().version, name, per_call);
    return per_call;
  };
  const long plain = link("static", {archive, "-lpthread", "-ldl", "-lrt"});
  const long unified = link("unified", kit({.archive = archive}).link);
  const long shared = link("shared", {library, "-Wl,-rpath," + std::filesystem::path(library).parent_path().string()});
  EXPECT_GT(plain, 0);
  EXPECT_LE(unified, plain + 2);
  EXPECT_LE(unified, shared);
}

TEST_P(Cost, OfJoining) {
  Workshop shop;
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit({.archive = archive}));
  // The same runtime with one function more: another list of names.
  std::ofstream(shop.path("more.c")) << "__attribute__((visibility(\"hidden\"))) int cudaOneMore(void) { return 0; }\n";
  must({"gcc", "-fPIC", "-c", shop.path("more.c"), "-o", shop.path("more.o")});
  std::filesystem::copy_file(archive, shop.path("libcudart_static.a"));
  std::filesystem::permissions(shop.path("libcudart_static.a"), std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
  must({"ar", "rs", shop.path("libcudart_static.a"), shop.path("more.o")});
  shop.plugin("more", &kit({.archive = shop.path("libcudart_static.a")}));
  shop.host();
  std::ofstream(shop.path("nothing.c")) << "int nothing(void) { return 0; }\n";
  must({"gcc", "-shared", "-fPIC", shop.path("nothing.c"), "-o", shop.path("n0.so")});
  // The loader compares paths, letter by letter: they have the same length wherever this is built.
  constexpr std::size_t path_length = 160;
  ASSERT_LT(shop.folder().string().size() + 1, path_length) << "build in a folder with a shorter path";
  const std::string folder = shop.path(std::string(path_length - shop.folder().string().size() - 1, 'x'));
  std::filesystem::create_directory(folder);
  for (const char* file : {"host", "a.so", "b.so", "more.so"}) {
    std::filesystem::copy_file(shop.path(file), folder + "/" + file);
  }
  // So many that a few hundred instructions, by which processes differ, do not count.
  constexpr int crowd_size = 400;
  Words crowd;
  for (int i = 0; i < crowd_size; ++i) {
    const std::string name = "n" + std::to_string(100 + i);
    std::filesystem::copy_file(shop.path("n0.so"), folder + "/" + name + ".so");
    crowd.insert(crowd.end(), {"open", name});
  }
  const auto cost = [&](const std::string& function, const Words& before, const Words& words) {
    Words command = {folder + "/host"};
    command.insert(command.end(), before.begin(), before.end());
    command.insert(command.end(), words.begin(), words.end());
    return instructions(command, function);
  };
  // The first one serves: it meets, chooses, pins itself and binds to itself. The second one joins: what it adds.
  const Words serve = {"open", "a", "a.version"};
  const Words join = {"open", "a", "a.version", "open", "b", "b.version"};
  const Words join_other = {"open", "a", "a.version", "open", "more", "more.version"};
  const long first = cost("cudeploy_bind", {}, serve);
  const long first_in_crowd = cost("cudeploy_bind", crowd, serve);
  const long joined = cost("cudeploy_bind", {}, join) - first;
  const long joined_in_crowd = cost("cudeploy_bind", crowd, join) - first_in_crowd;
  const long bound_itself = cost("*fill_slots*", {}, serve);
  expect_once("per loaded object that is walked, joining", (joined_in_crowd - joined) / crowd_size, 3000);
  expect_once("the same for the first copy, which also pins", (first_in_crowd - first) / crowd_size, 3000);
  expect_once("filling the slots, equal lists of names", cost("*fill_slots*", {}, join) - bound_itself, 6000);
  expect_once("filling the slots, lists that differ", cost("*fill_slots*", {}, join_other) - bound_itself, 150000);
}

TEST_P(Cost, OfJoiningASharedRuntime) {
  Workshop shop;
  shop.plugin("a", &kit({.archive = archive}));
  shop.host();
  std::filesystem::copy_file(library, shop.path("shared.so"));
  EXPECT_TRUE(shop.tell("open shared open a a.version a.server").out.ends_with("\nshared.so\n"));
  const Words commands = {shop.path("host"), "open", "shared", "open", "a", "a.version"};
  expect_once("filling the slots from a shared runtime", instructions(commands, "*fill_slots*"), 150000);
}

TEST_P(Cost, OfLoadedBytes) {
  Workshop shop;
  shop.plugin("plain", nullptr, {}, {}, "gcc", archive);
  shop.plugin("unified", &kit({.archive = archive}));
  // Segments are whole pages in the sum of neither: memory sizes are exact.
  expect_once("loaded bytes per object", loaded_bytes(shop.path("unified.so")) - loaded_bytes(shop.path("plain.so")),
              49152, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, Cost, ::testing::Values(Toolkit{"13.0", "nvcc-13.0"}, Toolkit{"13.5", "cudart-13.5"}),
                         [](const auto& info) {
                           std::string name = info.param.version;
                           for (char& c : name) {
                             if (c == '.') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace cudeploy::test
