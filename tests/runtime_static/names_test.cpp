// Names are routed by hundreds, from generated tables. A missing one would leave a call with the wrong runtime; two
// swapped ones would mostly answer alike (35 without a driver). So the tables are compared with what independent
// tools read from the archive and from the linked file.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

#include "workshop.hpp"

namespace cudeploy::test {
namespace {

/// Addresses in the file of all symbols, local ones included.
std::map<std::string, std::uintptr_t> symbols_of(const std::string& file) {
  std::map<std::string, std::uintptr_t> symbols;
  for (const auto& line : lines_of(must({"nm", "--format=posix", "--defined-only", file}))) {
    std::istringstream words(line);
    std::string name, type;
    std::uintptr_t value = 0;
    words >> name >> type >> std::hex >> value;
    symbols.emplace(name, value);
  }
  return symbols;
}

TEST(Names, AllApiNamesOfTheArchiveAreRouted) {
  EXPECT_GT(kit().names.size(), 300u);
  EXPECT_EQ(kit().names, names_by_nm(toolkit_archive()));
  Workshop shop;
  shop.plugin("a", &kit());
  const auto symbols = symbols_of(shop.path("a.so"));
  for (const auto& name : kit().names) EXPECT_TRUE(symbols.contains("__wrap_" + name)) << name;
}

/// The table entry that the jump at `entry` goes through: `ff 25 rel32` on x86-64.
std::uintptr_t slot_of_jump(const unsigned char* entry) {
  if (entry[0] == 0xf3 && entry[1] == 0x0f && entry[2] == 0x1e && entry[3] == 0xfa) entry += 4;  // endbr64
  if (entry[0] != 0xff || entry[1] != 0x25) return 0;
  std::int32_t distance = 0;
  std::memcpy(&distance, entry + 2, sizeof distance);
  return reinterpret_cast<std::uintptr_t>(entry) + 6 + static_cast<std::intptr_t>(distance);
}

/// Loads a.so, a plugin or a shared runtime, and b.so, which joins it, and returns the names whose calls do not arrive
/// at the function of the same name in a.so. A shared runtime is asked by dlsym; what it lacks stays with the guest.
Words compare_loaded(const Workshop& shop) {
  const auto load = [&](const char* name) {
    void* handle = dlopen(shop.path(name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw std::runtime_error(dlerror());
    return handle;
  };
  void* server = load("a.so");
  const bool shared = !dlsym(server, "probe_push");
  auto* push = dlsym(server, shared ? "__cudaPushCallConfiguration" : "probe_push");
  if (shared) {
    struct {
      unsigned x, y, z;
    } grid = {1, 2, 3}, block = {4, 5, 6};
    reinterpret_cast<unsigned (*)(decltype(grid), decltype(block), size_t, void*)>(push)(
        grid, block, 77, reinterpret_cast<void*>(0x1234));
  } else {
    reinterpret_cast<int (*)(int)>(push)(1);
  }
  void* guest = load("b.so");
  if (reinterpret_cast<int (*)(int)>(dlsym(guest, "probe_pop"))(0) != 1) throw std::runtime_error("not joined");
  const auto base = [](void* handle) { return static_cast<const link_map*>(handle)->l_addr; };
  const auto server_symbols = symbols_of(shop.path("a.so"));
  const auto guest_symbols = symbols_of(shop.path("b.so"));
  const auto expected = [&](const std::string& name) {
    if (!shared) return base(server) + server_symbols.at(name);
    void* function = dlsym(server, name.c_str());
    return function ? reinterpret_cast<std::uintptr_t>(function) : base(guest) + guest_symbols.at(name);
  };
  Words wrong;
  for (const auto& name : names_by_nm(toolkit_archive())) {
    // The registration functions are observed on their way: their jump stands behind the observer.
    const bool observed = guest_symbols.contains("cudeploy_next_" + name);
    const auto entry = base(guest) + guest_symbols.at((observed ? "cudeploy_next_" : "__wrap_") + name);
    const auto slot = slot_of_jump(reinterpret_cast<const unsigned char*>(entry));
    std::uintptr_t target = 0;
    if (slot) std::memcpy(&target, reinterpret_cast<const void*>(slot), sizeof target);
    if (target != expected(name)) wrong.push_back(name);
  }
  return wrong;
}

/// compare_loaded in a child: the server stays loaded, and the next comparison must not meet it.
Words misdirected(const Workshop& shop) {
  const std::string file = shop.path("misdirected");
  const pid_t child = fork();
  if (child == 0) {
    try {
      std::ofstream out(file);
      for (const auto& name : compare_loaded(shop)) out << name << "\n";
      out.close();
      _exit(out ? 0 : 2);
    } catch (const std::exception& error) {
      fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ifstream in(file);
  return lines_of({std::istreambuf_iterator<char>(in), {}});
}

TEST(Names, EachSlotHoldsTheServersFunctionOfTheSameName) {
#ifndef __x86_64__
  GTEST_SKIP() << "not applicable: reads x86-64 jumps";
#endif
  Workshop shop;
  shop.plugin("a", &kit());
  shop.plugin("b", &kit());
  EXPECT_EQ(misdirected(shop), Words());
}

TEST(Names, EachSlotHoldsTheSharedRuntimesFunctionOfTheSameName) {
#ifndef __x86_64__
  GTEST_SKIP() << "not applicable: reads x86-64 jumps";
#endif
  const std::string library = toolkit_shared_library();
  if (library.empty()) GTEST_SKIP() << "the toolkit has no libcudart.so beside its archive";
  Workshop shop;
  std::filesystem::copy_file(library, shop.path("a.so"));
  shop.plugin("b", &kit());
  EXPECT_EQ(misdirected(shop), Words());
}

TEST(Names, TwoSwappedNamesAreNoticed) {
  // The comparison above must be able to fail: the generated table of one plugin names two functions in wrong order.
  // Both answer 35 without a driver, so nothing else would tell.
#ifndef __x86_64__
  GTEST_SKIP() << "not applicable: reads x86-64 jumps";
#endif
  Workshop shop;
  const Kit& right = kit();
  Kit swapped = right;
  swapped.library = shop.path("swapped.a");
  std::ifstream in(right.folder + "/entries.cpp");
  std::ofstream out(shop.path("entries.cpp"));
  int changed = 0;
  for (std::string line; std::getline(in, line);) {
    for (const auto& [name, other] : {std::pair("cudaMalloc", "cudaFree"), std::pair("cudaFree", "cudaMalloc")}) {
      const std::string end = std::string(", ") + name;
      if (!line.starts_with("cudeploy_entry ") || !line.ends_with(end)) continue;
      line.replace(line.size() - end.size() + 2, std::string::npos, other);
      ++changed;
      break;
    }
    out << line << "\n";
  }
  out.close();
  ASSERT_EQ(changed, 2);
  must({"g++", "-std=c++17", "-Os", "-fPIC", "-I" + right.folder, "-c", shop.path("entries.cpp"), "-o",
        shop.path("entries.o")});
  std::filesystem::copy_file(right.library, swapped.library);
  must({"ar", "r", swapped.library, shop.path("entries.o")});
  std::replace(swapped.link.begin(), swapped.link.end(), right.library, swapped.library);
  shop.plugin("a", &right);
  shop.plugin("b", &swapped);
  EXPECT_EQ(misdirected(shop), (Words{"cudaFree", "cudaMalloc"}));
}

/// A program that calls every routed function with zeroed arguments, each in a child, and prints how it ended.
std::string call_each(Workshop& shop, const std::string& name, const Kit* with, const Words& names) {
  const std::string source = shop.path(name + ".c");
  std::ofstream out(source);
  out << "#include <signal.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/wait.h>\n#include <unistd.h>\n";
  for (const auto& function : names) out << "int " << function << "();\n";
  out << "static const struct { const char *name; int (*call)(); } all[] = {\n";
  for (const auto& function : names) out << "  {\"" << function << "\", (int (*)())" << function << "},\n";
  out << "};\n"
         "int main(void) {\n"
         "  for (unsigned i = 0; i < sizeof all / sizeof *all; ++i) {\n"
         "    int ends[2], result = 0, status = 0;\n"
         "    if (pipe(ends)) return 3;\n"
         "    pid_t child = fork();\n"
         "    if (!child) {\n"
         "      freopen(\"/dev/null\", \"w\", stderr);\n"
         "      alarm(10);\n"
         "      result = all[i].call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);\n"
         "      if (write(ends[1], &result, sizeof result) < 0) _exit(9);\n"
         "      _exit(0);\n"
         "    }\n"
         "    close(ends[1]);\n"
         "    int got = read(ends[0], &result, sizeof result) == sizeof result;\n"
         "    close(ends[0]);\n"
         "    waitpid(child, &status, 0);\n"
         "    if (got) printf(\"%s %d\\n\", all[i].name, result);\n"
         "    else if (WIFSIGNALED(status)) printf(\"%s signal %d\\n\", all[i].name, WTERMSIG(status));\n"
         "    else printf(\"%s exit %d\\n\", all[i].name, WEXITSTATUS(status));\n"
         "  }\n"
         "  return 0;\n"
         "}\n";
  out.close();
  Words command = {tool(shop.machine(), "gcc"), "-O1", "-w", "-no-pie", source, "-o", shop.path(name)};
  for (const auto& word : with ? with->link : Words{toolkit_archive(shop.machine()), "-lpthread", "-ldl", "-lrt"}) {
    command.push_back(word);
  }
  must(command);
  return shop.start(name).out;
}

class Answers : public OnEachMachine {};

TEST_P(Answers, WithOneCopyEachFunctionAnswersAsThePlainOne) {
  Workshop shop(GetParam());
  const Words names = names_by_nm(toolkit_archive(GetParam()));
  const Words plain = lines_of(call_each(shop, "plain", nullptr, names));
  const Words unified = lines_of(call_each(shop, "unified", &kit({.machine = GetParam()}), names));
  ASSERT_EQ(plain.size(), names.size());
  ASSERT_EQ(unified.size(), names.size());
  // Functions without a result leave anything in the register of the result.
  const std::regex no_result(
      "__cuda(RegisterFatBinary|RegisterFatBinaryEnd|UnregisterFatBinary|RegisterFunction|RegisterVar|RegisterHostVar|"
      "RegisterManagedVar|RegisterSurface|RegisterTexture|RegisterUnifiedTable|RegisterManagedVariable|"
      "RegisterShared|RegisterSharedVar) .*|cudaCreateChannelDesc .*|cudaGetError(Name|String) .*");
  int exact = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::regex_match(plain[i], no_result) && plain[i].find(" signal ") == std::string::npos) {
      EXPECT_EQ(unified[i].substr(0, unified[i].find(' ')), names[i]);
      EXPECT_EQ(unified[i].find(" signal "), std::string::npos) << unified[i];
      continue;
    }
    EXPECT_EQ(plain[i], unified[i]);
    ++exact;
  }
  EXPECT_GT(exact, 300);
}

TEST_P(Answers, ArgumentsOfAllKindsPassTheBinder) {
  // The first call goes through the binder; it must hand on what stands in general and vector registers, on the
  // stack, and come back with the result. Seen with the real archive and two functions more.
  Workshop shop(GetParam());
  const auto copy = shop.path("libcudart_static.a");
  std::filesystem::copy_file(toolkit_archive(GetParam()), copy);
  std::filesystem::permissions(copy, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  must({tool(GetParam(), "ar"), "rs", copy, shop.object("standin", "standin.c", {"-DRUNTIME"})});
  const Kit& runtime = kit({.archive = copy, .machine = GetParam()});
  ASSERT_EQ(runtime.names.size(), kit({.machine = GetParam()}).names.size() + 2);
  const std::string caller = shop.object("caller", "standin.c");
  for (const auto& [name, libraries] :
       {std::pair<std::string, Words>("direct", {copy, "-lpthread", "-ldl", "-lrt"}), {"bound", runtime.link}}) {
    Words command = {tool(GetParam(), "gcc"), caller, "-o", shop.path(name)};
    command.insert(command.end(), libraries.begin(), libraries.end());
    must(command);
  }
  // 1 + 2.5 * 2 + 3 * 3 + 4.5 * 4 + 5 * 5 + ... + 20 * 20
  EXPECT_EQ(shop.start("direct", {"scalars"}).out, "2873.0\n2873.0\n");
  EXPECT_EQ(shop.start("bound", {"scalars"}).out, shop.start("direct", {"scalars"}).out);
  std::string numbers;
  for (int i = 1; i <= 16; ++i) numbers += std::to_string(10 * i) + " ";
  EXPECT_EQ(shop.start("direct", {"vectors"}).out, numbers + "\n" + numbers + "\n");
  EXPECT_EQ(shop.start("bound", {"vectors"}).out, shop.start("direct", {"vectors"}).out);
}

CUDEPLOY_ON_EACH_MACHINE(Answers);

}  // namespace
}  // namespace cudeploy::test
