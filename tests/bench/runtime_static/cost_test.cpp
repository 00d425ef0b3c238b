// Sharing one runtime must not be paid for at each call, and hardly at the first. Counted in instructions, which are
// the same on every run, with callgrind; the limits are promises of runtime_static/README.md, whose table this prints.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
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

#define NEEDS_VALGRIND \
  if (!has_program("valgrind")) GTEST_SKIP() << "valgrind is not installed"

TEST(Cost, OfEachCall) {
  NEEDS_VALGRIND;
  Workshop shop;
  const std::string object = shop.object("call", std::string(CUDEPLOY_BENCH_SOURCES) + "/call.c");
  const auto link = [&](const std::string& name, const Words& libraries) {
    Words command = {"gcc", object, "-o", shop.path(name)};
    command.insert(command.end(), libraries.begin(), libraries.end());
    must(command);
    const auto count = [&](const char* times) { return instructions({shop.path(name), times}); };
    return static_cast<double>(count("20000") - count("10000")) / 10000;
  };
  const double plain = link("plain", {toolkit_archive(), "-lpthread", "-ldl", "-lrt"});
  const double unified = link("unified", kit().link);
  const std::string library = toolkit_shared_library();
  ASSERT_NE(library, "");
  const double shared =
      link("shared", {library, "-Wl,-rpath," + std::filesystem::path(library).parent_path().string()});
  std::printf("instructions per call of cudaRuntimeGetVersion: static %.1f, unified %.1f, shared %.1f\n", plain,
              unified, shared);
  EXPECT_LE(unified - plain, 2);
  EXPECT_LE(unified, shared);
}

TEST(Cost, OfJoining) {
  NEEDS_VALGRIND;
  Workshop shop;
  for (const char* name : {"a", "b"}) shop.plugin(name, &kit());
  // The same runtime with one function more: another list of names.
  std::ofstream(shop.path("more.c")) << "__attribute__((visibility(\"hidden\"))) int cudaOneMore(void) { return 0; }\n";
  must({"gcc", "-fPIC", "-c", shop.path("more.c"), "-o", shop.path("more.o")});
  std::filesystem::copy_file(toolkit_archive(), shop.path("libcudart_static.a"));
  std::filesystem::permissions(shop.path("libcudart_static.a"), std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
  must({"ar", "rs", shop.path("libcudart_static.a"), shop.path("more.o")});
  shop.plugin("more", &kit({.archive = shop.path("libcudart_static.a")}));
  shop.host();
  std::ofstream(shop.path("nothing.c")) << "int nothing(void) { return 0; }\n";
  must({"gcc", "-shared", "-fPIC", shop.path("nothing.c"), "-o", shop.path("n0.so")});
  Words crowd;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "n" + std::to_string(i);
    if (i) std::filesystem::copy_file(shop.path("n0.so"), shop.path(name + ".so"));
    crowd.insert(crowd.end(), {"open", name});
  }
  const auto cost = [&](const std::string& function, const Words& before, const Words& words) {
    Words command = {shop.path("host")};
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
  const long per_object_first = (first_in_crowd - first) / 100;
  const long per_object = (joined_in_crowd - joined) / 100;
  const long bound_itself = cost("*fill_slots*", {}, serve);
  const long bound_equal = cost("*fill_slots*", {}, join) - bound_itself;
  const long bound_other = cost("*fill_slots*", {}, join_other) - bound_itself;
  std::printf(
      "instructions of the first call of the first copy %ld, of one that joins %ld; of these per loaded object "
      "%ld and %ld, and to bind %zu names %ld and %ld (%ld where the lists differ)\n",
      first, joined, per_object_first, per_object, kit().names.size(), bound_itself, bound_equal, bound_other);
  EXPECT_LE(per_object_first, 3000);
  EXPECT_LE(per_object, 3000);
  EXPECT_GT(bound_equal, 0);
  EXPECT_LE(bound_equal, 6000) << "equal lists of names are copied";
  EXPECT_LE(bound_other, 150000);
}

TEST(Cost, OfJoiningASharedRuntime) {
  NEEDS_VALGRIND;
  const std::string library = toolkit_shared_library();
  ASSERT_NE(library, "");
  Workshop shop;
  shop.plugin("a", &kit());
  shop.host();
  std::filesystem::copy_file(library, shop.path("shared.so"));
  const Words commands = {shop.path("host"), "open", "shared", "open", "a", "a.version"};
  ASSERT_NE(run({shop.path("host"), "open", "shared", "open", "a", "a.version", "a.server"}).out.find("shared.so"),
            std::string::npos);
  const long bound = instructions(commands, "*fill_slots*");
  std::printf("instructions to bind %zu names to a shared runtime: %ld\n", kit().names.size(), bound);
  EXPECT_GT(bound, 0);
  EXPECT_LE(bound, 150000);
}

/// Also for the newest toolkit that can be had: the number grows with the names.
TEST(Cost, OfLoadedBytes) {
  Words archives = {toolkit_archive()};
  if (const std::string newest = real_part("cudart-13.5"); !newest.empty()) {
    archives.push_back(newest + "/nvidia/cu13/lib/libcudart_static.a");
  }
  for (const auto& archive : archives) {
    Workshop shop;
    const Kit& runtime = kit({.archive = archive});
    shop.plugin("plain", nullptr, {}, {}, "gcc", archive);
    shop.plugin("unified", &runtime);
    // Segments are whole pages in the sum of neither: memory sizes are exact.
    const long bytes = loaded_bytes(shop.path("unified.so")) - loaded_bytes(shop.path("plain.so"));
    std::printf("loaded bytes per object: %ld for %zu names\n", bytes, runtime.names.size());
    EXPECT_LE(bytes, 48 * 1024);
  }
}

}  // namespace
}  // namespace cudeploy::test
