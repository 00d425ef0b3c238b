// What the loader would do, seen from the closure itself: load order, who loads whom, what $ORIGIN means.
#include "closure.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "short_record.hpp"

namespace cudeploy {
namespace {

struct Tree {
  std::vector<FileRecord> files;
  Bundle bundle;

  Tree(std::string name, const nlohmann::json& content, std::map<std::string, std::string> links = {}) {
    for (const auto& [path, file] : content.items()) files.push_back(short_file(path, file));
    bundle.name = std::move(name);
    std::vector<std::string> paths;
    for (const FileRecord& file : files) {
      bundle.files.push_back(&file);
      paths.push_back(file.path);
    }
    bundle.packages = packages_by_name(paths);
    bundle.links = std::move(links);
  }
};

/// "d/app: liba.so<d/app libb.so<d/lib/liba.so" per process: objects in load order, with who loaded them.
std::vector<std::string> processes(const Closure& closure) {
  std::vector<std::string> result;
  for (const Process& process : closure.processes) {
    std::string text = process.root()->path + ":";
    for (std::size_t i = 1; i < process.objects.size(); ++i)
      text += " " + std::string(file_name(process.objects[i].file->path)) + "<" +
              std::string(file_name(process.objects[process.objects[i].by].file->path));
    result.push_back(text);
  }
  return result;
}

TEST(Closure, LoadsBreadthFirst) {
  const Tree tree("d", {{"d/app", {{"type", "executable"}, {"needed", {"a.so", "b.so"}}, {"rpath", {"$ORIGIN"}}}},
                        {"d/a.so", {{"needed", {"c.so"}}}},
                        {"d/b.so", {{"needed", {"d.so", "c.so"}}}},
                        {"d/c.so", {{"needed", {"e.so"}}}},
                        {"d/d.so", nlohmann::json::object()},
                        {"d/e.so", nlohmann::json::object()}});
  EXPECT_EQ(processes(close_over(tree.bundle, {})),
            (std::vector<std::string>{"d/app: a.so<app b.so<app c.so<a.so d.so<b.so e.so<c.so"}));
}

TEST(Closure, LibrariesThatNobodyLoadsAreOpenedByAStranger) {
  const Tree tree("d", {{"d/app", {{"type", "executable"}}},
                        {"d/plugin.so", {{"needed", {"x.so"}}, {"runpath", {"$ORIGIN"}}}},
                        {"d/x.so", nlohmann::json::object()},
                        {"d/y.a!/m.o", {{"type", "relocatable"}}}});
  EXPECT_EQ(processes(close_over(tree.bundle, {})),
            (std::vector<std::string>{"d/app:", "d/plugin.so: x.so<plugin.so"}));
}

TEST(Closure, CirclesEnd) {
  const Tree tree("", {{"a.so", {{"needed", {"b.so", "a.so"}}, {"runpath", {"$ORIGIN"}}}},
                       {"b.so", {{"needed", {"a.so"}}, {"runpath", {"$ORIGIN"}}}}});
  EXPECT_EQ(processes(close_over(tree.bundle, {})), (std::vector<std::string>{"a.so: b.so<a.so"}));
}

/// What was tried for the first need of the last object.
std::vector<std::string> last_tried(const Closure& closure) {
  return closure.processes.at(0).objects.back().needs.at(0).tried;
}

// Each library of the chain lies in the same folder, under a path that is twice as long as the one before. Where the
// folder lies is known of a package that is unpacked at "/".
TEST(Closure, PathsThatGrowEndWhereLinuxEndsThem) {
  nlohmann::json content;
  for (int i = 0; i < 40; ++i)
    content["x.deb!/data.tar!/d/" + std::to_string(100 + i)] = {{"needed", {std::to_string(101 + i)}},
                                                                {"runpath", {"$ORIGIN/..$ORIGIN"}}};
  const Tree tree("x.deb", content);
  const Closure closure = close_over(tree.bundle, {});
  EXPECT_GE(closure.processes.at(0).objects.size(), 10u);
  EXPECT_EQ(last_tried(closure), std::vector<std::string>{"RUNPATH $ORIGIN/..$ORIGIN: longer than any path"});
}

TEST(Closure, AnEntryLongerThanAnyPathIsNamedByItsLength) {
  std::string entry = "$ORIGIN/";
  while (entry.size() < 4096) entry += "./";
  const Tree tree("d", {{"d/app", {{"type", "executable"}, {"needed", {"x.so"}}, {"runpath", {entry}}}},
                        {"d/x.so", nlohmann::json::object()}});
  EXPECT_EQ(last_tried(close_over(tree.bundle, {})),
            std::vector<std::string>{"RUNPATH entry of 4096 bytes: longer than any path"});
  entry.resize(4000);
  const Tree shorter("d", {{"d/app", {{"type", "executable"}, {"needed", {"x.so"}}, {"runpath", {entry}}}},
                           {"d/x.so", nlohmann::json::object()}});
  EXPECT_EQ(processes(close_over(shorter.bundle, {})), std::vector<std::string>{"d/app: x.so<app"});
}

TEST(Closure, AMillionPlacesForAMillionNamesAreNotAllSearched) {
  nlohmann::json needed, runpath;
  for (int i = 0; i < 20000; ++i) {
    needed.push_back("lib" + std::to_string(i) + ".so");
    runpath.push_back("$ORIGIN/" + std::to_string(i));
  }
  const Tree tree("d", {{"d/app", {{"type", "executable"}, {"needed", needed}, {"runpath", runpath}}}});
  const Closure closure = close_over(tree.bundle, {});
  const auto& needs = closure.processes.at(0).objects.at(0).needs;
  EXPECT_EQ(needs.front().tried.size(), 20000u);
  EXPECT_EQ(needs.back().tried,
            std::vector<std::string>{"not looked for any further: no loader searches so many places"});
}

// Each of a million needs can be one long path, told once, and each can go up a long chain of inherited paths.
TEST(Closure, WhatASearchSaysIsBounded) {
  std::string path = "$ORIGIN";
  while (path.size() < 4000) path += "/x";
  const std::vector<std::string> needed(5'000, path), entries(10, path), names(20'000, "lib.so");
  const Tree tree("d", {{"d/a", {{"type", "executable"}, {"needed", needed}}},
                        {"d/b", {{"type", "executable"}, {"needed", names}, {"rpath", entries}}},
                        {"d/c", {{"type", "executable"}, {"needed", names}, {"rpath", std::vector(10, path + path)}}}});
  const Closure closure = close_over(tree.bundle, {});
  for (const Process& process : closure.processes) {
    std::size_t said = 0;
    for (const Need& need : process.objects.at(0).needs)
      for (const std::string& text : need.tried) said += text.size();
    EXPECT_LT(said, 12u << 20) << process.root()->path;
    EXPECT_EQ(process.objects.at(0).needs.back().tried,
              std::vector<std::string>{"not looked for any further: no loader searches so many places"})
        << process.root()->path;
  }
}

// glibc takes the folder in which a library was found, not the one that the link leads to.
TEST(Closure, OriginIsWhereTheLinkLies) {
  const Tree tree("d",
                  {{"d/bin/app", {{"type", "executable"}, {"needed", {"liba.so"}}, {"runpath", {"$ORIGIN/../lib"}}}},
                   {"d/real/liba.so", {{"needed", {"libb.so"}}, {"runpath", {"$ORIGIN"}}}},
                   {"d/lib/libb.so", nlohmann::json::object()}},
                  {{"d/lib/liba.so", "../real/liba.so"}});
  const Closure closure = close_over(tree.bundle, {});
  ASSERT_EQ(closure.processes.size(), 1u);
  const auto& objects = closure.processes[0].objects;
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[1].folder, "bin/../lib");
  EXPECT_EQ(objects[1].needs[0].provider, Provider::bundle);
  EXPECT_EQ(objects[1].needs[0].via, "RUNPATH $ORIGIN");
}

// The same folder is another on each distribution, and a package knows its own.
TEST(Closure, LibIsWhatTheDistributionHas) {
  const auto found_in = [](const std::string& package) {
    nlohmann::json content = {
        {package + "bin/app", {{"type", "executable"}, {"needed", {"x.so"}}, {"runpath", {"$ORIGIN/../${LIB}"}}}}};
    for (const char* lib : {"lib/x86_64-linux-gnu", "lib64", "lib"})
      content[package + lib + "/x.so"] = nlohmann::json::object();
    const Tree tree(package.substr(0, package.find('!')), content);
    std::vector<std::string> found;
    for (const Process& process : close_over(tree.bundle, {}).processes)
      if (is_executable(*process.root()))
        found.push_back(process.lib + ": " + process.objects.at(1).file->path.substr(package.size()));
    return found;
  };
  const std::string debian = "lib/x86_64-linux-gnu: lib/x86_64-linux-gnu/x.so", fedora = "lib64: lib64/x.so";
  EXPECT_EQ(found_in("d/"), (std::vector<std::string>{debian, fedora, "lib: lib/x.so"}));
  EXPECT_EQ(found_in("x.tar!/"), (std::vector<std::string>{debian, fedora, "lib: lib/x.so"}));
  EXPECT_EQ(found_in("x.deb!/data.tar!/"), std::vector<std::string>{debian});
  EXPECT_EQ(found_in("x.rpm!/"), std::vector<std::string>{fedora});
}

TEST(Closure, SaysWhoProvides) {
  const Tree tree("", {{"app",
                        {{"type", "executable"},
                         {"needed", {"libcuda.so.1", "libm.so.6", "libz.so.1", "libq.so", "libx.so"}},
                         {"runpath", {"$ORIGIN"}}}},
                       {"libx.so", nlohmann::json::object()}});
  Policy policy;
  policy.provided = {"libz.so.1"};
  const Closure closure = close_over(tree.bundle, policy);
  const auto& needs = closure.processes[0].objects[0].needs;
  ASSERT_EQ(needs.size(), 5u);
  EXPECT_EQ(needs[0].provider, Provider::driver);
  EXPECT_EQ(needs[1].provider, Provider::base_system);
  EXPECT_EQ(needs[2].provider, Provider::policy);
  EXPECT_EQ(needs[3].provider, Provider::missing);
  EXPECT_EQ(needs[4].provider, Provider::bundle);
  EXPECT_EQ(needs[4].file, &tree.files[1]);
}

TEST(Closure, MissingLibraryIsSeenElsewhereInTheBundle) {
  const Tree tree("d", {{"d/bin/app", {{"type", "executable"}, {"needed", {"libx.so.1", "liby.so"}}}},
                        {"d/lib/libx.so.1.2", {{"soname", "libx.so.1"}}},
                        {"d/lib/liby.so", nlohmann::json::object()}});
  const Closure closure = close_over(tree.bundle, {});
  const auto& needs = closure.processes[0].objects[0].needs;
  EXPECT_EQ(needs[0].elsewhere.path, "d/lib/libx.so.1.2");
  EXPECT_EQ(needs[1].elsewhere.path, "d/lib/liby.so");
}

TEST(Closure, PositionIndependentExecutablesAreExecutables) {
  EXPECT_TRUE(is_executable(short_file("app", {{"interpreter", "/lib64/ld-linux-x86-64.so.2"}})));
  EXPECT_FALSE(is_executable(
      short_file("libc.so.6", {{"interpreter", "/lib64/ld-linux-x86-64.so.2"}, {"soname", "libc.so.6"}})));
  EXPECT_FALSE(is_loadable(short_file("x.o", {{"type", "relocatable"}})));
  EXPECT_FALSE(is_loadable(short_file("x.cubin", {{"format", "cubin"}, {"type", "executable"}})));
}

TEST(Closure, PathsAreNormalisedAsText) {
  EXPECT_EQ(normal_path("a/./b//../c/"), "a/c");
  EXPECT_EQ(normal_path("../a/../.."), "../..");
  EXPECT_EQ(normal_path("/../a"), "/a");
  EXPECT_EQ(normal_path(""), ".");
  EXPECT_EQ(normal_path("a/.."), ".");
  EXPECT_EQ(normal_path("/"), "/");
}

TEST(Closure, OriginIsATokenOnly) {
  for (const char* entry : {"$ORIGIN/../lib", "${ORIGIN}/../lib", "///$ORIGIN/../lib"})
    EXPECT_EQ(below_origin(entry), "/../lib") << entry;
  EXPECT_EQ(below_origin("$ORIGIN"), "");
  EXPECT_EQ(below_origin("${ORIGIN}x"), "x");
  EXPECT_EQ(below_origin("$ORIGIN.d"), ".d");
  for (const char* entry : {"", "/", "$", "$ORIGINAL", "$ORIGIN_", "${ORIGIN", "x/$ORIGIN", "$LIB/$ORIGIN"})
    EXPECT_EQ(below_origin(entry), std::nullopt) << entry;
}

}  // namespace
}  // namespace cudeploy
