// Files to read are made by the test itself, from a few lines and the machine's own compilers and linkers.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "binary.hpp"

namespace cudeploy {

/// A folder of its own for each test, gone afterwards, and the ways to fill it.
class Fixture : public testing::Test {
 protected:
  Fixture() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cudeploy-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Fixture() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }

  std::string content(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// Runs a shell command inside the folder; what it printed on both channels. A failure fails the test.
  std::string run(const std::string& command) const {
    auto [status, output] = try_run(command);
    EXPECT_EQ(status, 0) << command << "\n" << output;
    return output;
  }

  std::pair<int, std::string> try_run(const std::string& command) const {
    std::string output;
    FILE* pipe = popen(("cd '" + folder_.string() + "' && { " + command + "; } 2>&1").c_str(), "r");
    char buffer[4096];
    while (std::size_t got = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, got);
    int status = pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
  }

  std::vector<FileRecord> read_all(const std::string& name, const ReadOptions& options = {}) const {
    std::string why;
    auto bytes = FileBytes::open(path(name), why);
    EXPECT_TRUE(bytes) << name << ": " << why;
    return bytes ? read_binary(name, *bytes, options) : std::vector<FileRecord>{};
  }

  FileRecord read(const std::string& name, const ReadOptions& options = {}) const {
    auto records = read_all(name, options);
    EXPECT_EQ(records.size(), 1u) << name;
    return records.empty() ? FileRecord{} : records.front();
  }

 private:
  std::filesystem::path folder_;
};

/// What a file's problems say, one a line.
inline std::string problems_of(const FileRecord& record) {
  std::string text;
  for (const Problem& problem : record.problems) text += problem.message + "\n";
  return text;
}

}  // namespace cudeploy
