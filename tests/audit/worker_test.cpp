// A reader that dies in every way that a reader can die, and what is still read of everything else. The reader is
// injected; the deaths are real.
#include "worker.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <stdexcept>

namespace cudeploy {
namespace {

using namespace std::chrono_literals;

/// One record, as a reader of a plain file tells it.
void tell(const std::string& path, Sink& sink, const std::string& type = "read") {
  FileRecord file;
  file.path = path;
  file.type = type;
  sink.records({file});
}

std::vector<Task> tasks(std::initializer_list<const char*> paths) {
  std::vector<Task> out;
  for (const char* path : paths) out.push_back({path, true, 0});
  return out;
}

WorkerLimits limits(unsigned workers = 2) {
  WorkerLimits out;
  out.workers = workers;
  out.silence = 20s;  // no test waits for it, unless it says so
  return out;
}

std::string problem(const Reading& reading, std::size_t index = 0) {
  if (reading.files.size() <= index || reading.files[index].problems.empty()) return "";
  return reading.files[index].problems[0].message;
}

/// What is said of "bad" when it is read by `bad`; asserts that its neighbours are read.
std::string death_of(const std::function<void()>& bad, const WorkerLimits& how = limits()) {
  auto all = tasks({"a", "bad", "c", "d"});
  auto readings = read_in_workers(
      all,
      [&](const Task& task, Sink& sink) {
        sink.begin(task.path, 7);
        if (task.path == "bad") bad();
        tell(task.path, sink);
      },
      how);
  EXPECT_EQ(readings.size(), 4u);
  for (std::size_t i : {0u, 2u, 3u}) {
    EXPECT_EQ(readings[i].files.size(), 1u);
    EXPECT_EQ(readings[i].files[0].type, "read");
    EXPECT_TRUE(readings[i].files[0].problems.empty());
  }
  EXPECT_EQ(readings[1].files.size(), 1u);
  EXPECT_EQ(readings[1].files[0].path, "bad");
  EXPECT_EQ(readings[1].files[0].size, 7u);
  return problem(readings[1]);
}

void die_of(int number) {
  signal(number, SIG_DFL);
  raise(number);
}

TEST(Worker, ReadsAllInTheOrderOfTheTasks) {
  std::vector<Task> many;
  for (int i = 0; i < 500; ++i) many.push_back({"file " + std::to_string(i), true, 0});
  auto readings = read_in_workers(
      many, [](const Task& task, Sink& sink) { tell(task.path, sink); }, limits(4));
  ASSERT_EQ(readings.size(), many.size());
  for (std::size_t i = 0; i < many.size(); ++i) {
    ASSERT_EQ(readings[i].files.size(), 1u);
    EXPECT_EQ(readings[i].files[0].path, many[i].path);
  }
}

TEST(Worker, NothingToDoStartsNothing) { EXPECT_TRUE(read_in_workers({}, Reader(), limits()).empty()); }

TEST(Worker, OneWorkerReadsManyFiles) {
  auto all = tasks({"a", "b", "c"});
  auto readings = read_in_workers(
      all, [](const Task& task, Sink& sink) { tell(task.path, sink, std::to_string(getpid())); }, limits(1));
  EXPECT_EQ(readings[0].files[0].type, readings[2].files[0].type);
  EXPECT_NE(readings[0].files[0].type, std::to_string(getpid()));
}

TEST(Worker, SeveralFilesAreReadAtOnce) {
  void* shared = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* begun = new (shared) std::atomic<int>(0);
  auto all = tasks({"a", "b"});
  auto readings = read_in_workers(
      all,
      [&](const Task& task, Sink& sink) {
        ++*begun;
        for (int left = 1000; *begun < 2 && left > 0; --left) usleep(10'000);
        tell(task.path, sink, *begun == 2 ? "together" : "alone");
      },
      limits(2));
  for (const Reading& reading : readings) EXPECT_EQ(reading.files[0].type, "together");
  munmap(shared, sizeof(std::atomic<int>));
}

TEST(Worker, ASignalIsAProblemOfTheFileThatWasRead) {
  EXPECT_EQ(death_of([] { die_of(SIGSEGV); }), "reader died: signal 11 (segmentation fault)");
  EXPECT_EQ(death_of([] { die_of(SIGBUS); }), "reader died: signal 7 (bus error)");
  EXPECT_EQ(death_of([] { std::abort(); }), "reader died: signal 6 (aborted)");
  EXPECT_EQ(death_of([] { die_of(SIGKILL); }),
            "reader died: signal 9 (killed), perhaps by the system for want of memory");
  EXPECT_EQ(death_of([] { _exit(3); }), "reader died: it ended early with exit status 3");
  EXPECT_EQ(death_of([] { _exit(0); }, limits(1)), "reader died: it ended early with exit status 0");
}

TEST(Worker, AnExceptionIsAProblemInItsOwnWords) {
  EXPECT_EQ(death_of([] { throw std::runtime_error("section table: expected 64 bytes, found 3"); }),
            "section table: expected 64 bytes, found 3");
}

TEST(Worker, MemoryIsLimited) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "not applicable: shadow memory counts as data, so there is no limit under AddressSanitizer";
#endif
  WorkerLimits how = limits();
  how.memory = 256u << 20;
  EXPECT_EQ(death_of(
                [] {
                  std::vector<char> much(300u << 20);
                  std::memset(much.data(), 1, much.size());
                },
                how),
            "reader stopped: it needs more than 256 MiB of memory");
}

TEST(Worker, WantOfMemoryIsToldWhereNothingMayBeThrown) {
  const auto in_noexcept = [](void (*work)()) noexcept { work(); };
  EXPECT_EQ(death_of([&] { in_noexcept([] { throw std::bad_alloc(); }); }),
            "reader stopped: it needs more than 1024 MiB of memory");
  EXPECT_EQ(death_of([&] { in_noexcept([] { throw std::runtime_error("other"); }); }),
            "reader died: signal 6 (aborted)");
}

TEST(Worker, WhatEarlierFilesLeftInTheHeapIsNotBlamedOnTheNext) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "not applicable: shadow memory counts as data, so there is no limit under AddressSanitizer";
#endif
  WorkerLimits how = limits(1);
  how.memory = 256u << 20;
  auto all = tasks({"leaks", "needs much"});
  auto readings = read_in_workers(
      all,
      [](const Task& task, Sink& sink) {
        sink.begin(task.path, 0);
        char* block = new char[150u << 20];
        block[0] = 1;
        if (task.path == "needs much") delete[] block;
        tell(task.path, sink);
      },
      how);
  EXPECT_EQ(problem(readings[0]), "");
  EXPECT_EQ(problem(readings[1]), "");
  EXPECT_EQ(readings[1].files.at(0).type, "read");
}

TEST(Worker, TimeIsLimited) {
  WorkerLimits how = limits();
  how.silence = 300ms;
  EXPECT_EQ(death_of(
                [] {
                  for (;;) pause();
                },
                how),
            "reader stopped: no answer after 1 s");
}

TEST(Worker, WhoSaysThatItIsAliveMayTakeLonger) {
  WorkerLimits how = limits(1);
  how.silence = 2s;
  auto all = tasks({"slow"});
  auto readings = read_in_workers(
      all,
      [](const Task& task, Sink& sink) {
        sink.begin(task.path, 0);
        for (int i = 0; i < 25; ++i) {
          usleep(100'000);
          sink.alive();
        }
        tell(task.path, sink);
      },
      how);
  EXPECT_EQ(problem(readings[0]), "");
}

TEST(Worker, NonsenseOnTheWireIsADeath) {
  EXPECT_EQ(death_of([] {
              unsigned char wild[64];
              std::memset(wild, 0xff, sizeof wild);
              if (write(3, wild, sizeof wild) < 0) _exit(9);
              for (;;) pause();
            }).substr(0, 12),
            "reader died:");
  EXPECT_EQ(death_of([] {
              // A frame of the right form whose content is no record.
              const unsigned char frame[] = {3, 0, 0, 0, 'R', 0x82, 0x01, 0x02};
              if (write(3, frame, sizeof frame) < 0) _exit(9);
              for (;;) pause();
            }).substr(0, 20),
            "reader told nonsense");
}

TEST(Worker, InheritsNothingThatCouldHarm) {
  int open_here = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(open_here, 3);
  auto all = tasks({"a"});
  auto readings = read_in_workers(
      all,
      [](const Task& task, Sink& sink) {
        std::string found;
        for (int descriptor = 4; descriptor < 256; ++descriptor)
          if (fcntl(descriptor, F_GETFD) >= 0) found += " descriptor " + std::to_string(descriptor);
        rlimit core{};
        getrlimit(RLIMIT_CORE, &core);
        if (core.rlim_cur != 0) found += " core files";
        char name[64] = {};
        for (const char* stream : {"/proc/self/fd/0", "/proc/self/fd/1"}) {
          ssize_t size = readlink(stream, name, sizeof name - 1);
          if (size < 0 || std::string(name, static_cast<std::size_t>(size)) != "/dev/null")
            found += std::string(" ") + stream;
        }
        tell(task.path, sink, found);
      },
      limits());
  close(open_here);
  EXPECT_EQ(readings[0].files.at(0).type, "");
}

TEST(Worker, NamesThatAreNotUtf8ComeThrough) {
  std::string name = "caf\xe9/\x01\xff";
  std::vector<Task> all{{name, true, 0}};
  auto readings = read_in_workers(
      all,
      [](const Task& task, Sink& sink) {
        sink.package("d\xfb", Unpacking::rpm);
        sink.link(task.path + "!/l\xff", "t\xfe");
        sink.loader_folders("c\xfd", {"/\xfc", "/b"});
        tell(task.path, sink);
      },
      limits());
  EXPECT_EQ(readings[0].files.at(0).path, name);
  EXPECT_EQ(readings[0].links, (std::map<std::string, std::string>{{name + "!/l\xff", "t\xfe"}}));
  EXPECT_EQ(readings[0].loader_folders, (std::map<std::string, std::vector<std::string>>{{"c\xfd", {"/\xfc", "/b"}}}));
  EXPECT_EQ(readings[0].packages, (std::map<std::string, Unpacking>{{"d\xfb", Unpacking::rpm}}));
}

/// A package of ten members, of which some kill.
Reader package_with(const std::set<int>& deadly) {
  return [deadly](const Task& task, Sink& sink) {
    sink.package(task.path, Unpacking::anywhere);
    for (int i = 0; i < 10; ++i) {
      if (static_cast<std::uint64_t>(i) < task.skip) continue;
      std::string member = task.path + "!/" + std::to_string(i);
      sink.begin(member, 1);
      if (deadly.contains(i)) die_of(SIGSEGV);
      tell(member, sink);
    }
  };
}

TEST(Worker, AFreshWorkerGoesOnBehindTheMemberThatKilled) {
  auto all = tasks({"p", "q"});
  auto readings = read_in_workers(all, package_with({0, 4, 9}), limits());
  for (const Reading& reading : readings) {
    EXPECT_EQ(reading.packages.size(), 1u);
    ASSERT_EQ(reading.files.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_TRUE(reading.files[i].path.ends_with("!/" + std::to_string(i)));
      bool deadly = i == 0 || i == 4 || i == 9;
      EXPECT_EQ(problem(reading, i), deadly ? "reader died: signal 11 (segmentation fault)" : "") << i;
    }
  }
}

TEST(Worker, APackageThatKillsTooOftenIsGivenUp) {
  WorkerLimits how = limits();
  how.deaths = 3;
  auto all = tasks({"p"});
  auto readings = read_in_workers(all, package_with({1, 2, 3, 4, 5}), how);
  ASSERT_EQ(readings[0].files.size(), 5u);  // 0, three deaths, the package
  EXPECT_EQ(readings[0].files[4].path, "p");
  EXPECT_EQ(problem(readings[0], 4), "reader died 3 times; the members behind p!/3 were not read");
}

TEST(Worker, ADeathWhileUnpackingEndsThePackage) {
  auto all = tasks({"p", "q"});
  auto readings = read_in_workers(
      all,
      [](const Task& task, Sink& sink) {
        sink.package(task.path, Unpacking::anywhere);
        sink.begin(task.path + "!/0", 1);
        tell(task.path + "!/0", sink);
        if (task.path == "p") die_of(SIGSEGV);
      },
      limits());
  ASSERT_EQ(readings[0].files.size(), 2u);
  EXPECT_EQ(readings[0].files[1].path, "p");
  EXPECT_EQ(problem(readings[0], 1),
            "reader died: signal 11 (segmentation fault), while unpacking; the members behind were not read");
  EXPECT_EQ(readings[1].files.size(), 1u);
}

}  // namespace
}  // namespace cudeploy
