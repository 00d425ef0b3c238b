// A claim about shared objects is only shown by shared objects that a compiler and a linker made and a loader
// loaded. This makes them: a folder, the few lines of programs/, the machine's compilers; and runs the result in a
// process of its own. Compiled parts are kept beside the test program between runs, by what went into them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace cudeploy::test {

/// What a process left behind.
struct Outcome {
  int status = 0;   ///< exit code, or 128 + signal
  std::string out;  ///< standard output and error together
};

using Words = std::vector<std::string>;

/// Runs a program to its end; environment entries "NAME=value" are added, "NAME" alone takes one away.
Outcome run(const Words& command, const Words& environment = {}, const std::filesystem::path& folder = {});

/// Like run, but a failing command fails the test with what it printed.
std::string must(const Words& command);

bool has_program(const std::string& name);

/// Folder of a part of tests/real_parts.sh, "" when it cannot be had (reason printed).
std::string real_part(const std::string& name);

Words lines_of(const std::string& text);

/// Whose programs are made: this machine's, or those of aarch64, by a cross-compiler and run in an emulator.
enum class Machine { here, aarch64 };

void PrintTo(Machine machine, std::ostream* out);

/// A compiler or binary tool by the name that it has for a machine: "gcc", "aarch64-linux-gnu-gcc".
std::string tool(Machine machine, const std::string& name);

/// A test that each of both machines runs: Values(Machine::here, Machine::aarch64), skipped where its parts are
/// missing. CTest knows those of aarch64 by the end of their names.
class OnEachMachine : public ::testing::TestWithParam<Machine> {
 protected:
  void SetUp() override;
};

#define CUDEPLOY_ON_EACH_MACHINE(suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(On, suite, ::testing::Values(Machine::here, Machine::aarch64), \
                           ::testing::PrintToStringParamName())

/// Programs and parts that this machine lacks to make and run those of another one; "" when it can.
std::string missing_for(Machine machine);

/// API functions that `nm`, which is not ours, shows in a runtime archive; sorted.
Words names_by_nm(const std::string& archive);

/// The runtime archive of the toolkit that the tests use, or of the part for another machine.
std::string toolkit_archive(Machine machine = Machine::here);

/// The shared runtime beside it, libcudart.so.N; "" when there is none.
std::string toolkit_shared_library();

/// One cudeploy runtime, compiled for one archive: what `cudeploy::runtime` is in CMake.
struct Kit {
  std::string folder;   ///< of the link kit
  std::string library;  ///< the static library made of its sources
  std::string archive;  ///< libcudart_static.a
  Words link;           ///< what a link with the compiler driver needs, in order
  int cuda_major = 0;
  std::vector<std::string> names;
};

struct KitOptions {
  std::string archive;  ///< "" = toolkit_archive(machine)
  std::string compiler = "g++";
  Words flags;  ///< beside those of the kit
  bool hidden_anchor = false;
  std::string sources;  ///< "" = the tree's runtime_static
  Machine machine = Machine::here;
};

const Kit& kit(const KitOptions& options = {});

/// A folder of its own for one test, emptied at the start. Compilers are named as this machine's.
class Workshop {
 public:
  explicit Workshop(Machine machine = Machine::here);

  Machine machine() const { return machine_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Compiles one of programs/ (or a file by absolute path) into an object here.
  std::string object(const std::string& name, const std::string& source, const Words& flags = {},
                     const std::string& compiler = "gcc");

  /// A plugin NAME.so of the probe; with a kit it is unified, without one it links the plain archive.
  void plugin(const std::string& name, const Kit* with, const Words& compile_flags = {}, const Words& link_flags = {},
              const std::string& compiler = "gcc", const std::string& archive = {});

  /// The host program; linked with the probe and the kit it has a copy of its own, `self`.
  void host(const Kit* with = nullptr, const Words& compile_flags = {}, const Words& link_flags = {},
            const std::string& compiler = "gcc");

  /// Runs the host with these commands, split at spaces.
  Outcome tell(const std::string& commands, const Words& environment = {}) const;

  /// Runs a program that was made here.
  Outcome start(const std::string& name, const Words& arguments = {}, const Words& environment = {}) const;

 private:
  Machine machine_;
  std::filesystem::path folder_;
};

}  // namespace cudeploy::test
