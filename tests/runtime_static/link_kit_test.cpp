// The generator reads a vendor's file and writes what a build depends on: it must say what is wrong with the file,
// and must not touch what stays the same.
#include "runtime_static/link_kit.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "workshop.hpp"

namespace cudeploy::test {
namespace {

namespace fs = std::filesystem;

std::string error_of(const LinkKitOptions& options) {
  try {
    make_link_kit(options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::string sources = std::string(CUDEPLOY_TREE) + "/runtime_static";

TEST(LinkKit, SaysWhatTheLinkNeeds) {
  Workshop shop;
  const LinkKit made = make_link_kit({toolkit_archive(), shop.path("kit"), sources});
  const auto json = nlohmann::json::parse(bytes_of(shop.path("kit/link-kit.json")));
  EXPECT_EQ(json["schema"], "cudeploy/link-kit/1");
  EXPECT_EQ(json["name_count"], made.names.size());
  EXPECT_EQ(json["cuda_major"], made.cuda_major);
  EXPECT_EQ(json["generation"], std::to_string(made.cuda_major) + "_1");
  EXPECT_EQ(json["anchor"], "exported");
  for (const auto& source : json["sources"]) EXPECT_TRUE(fs::is_regular_file(source)) << source;
  EXPECT_TRUE(fs::is_regular_file(json["response_file"]));
  EXPECT_EQ(json["libraries"][0], fs::absolute(toolkit_archive()).lexically_normal().string());
  const std::string response = bytes_of(json["response_file"]);
  for (const auto& name : made.names) EXPECT_NE(response.find("--wrap=" + name + "\n"), std::string::npos) << name;
}

TEST(LinkKit, HiddenNeedsNoVersionScript) {
  Workshop shop;
  make_link_kit({toolkit_archive(), shop.path("kit"), sources, AnchorVisibility::exported});
  EXPECT_TRUE(fs::exists(shop.path("kit/anchor.map")));
  make_link_kit({toolkit_archive(), shop.path("kit"), sources, AnchorVisibility::hidden});
  EXPECT_FALSE(fs::exists(shop.path("kit/anchor.map")));
  EXPECT_EQ(bytes_of(shop.path("kit/wrap.rsp")).find("version-script"), std::string::npos);
}

TEST(LinkKit, LeavesFilesAloneThatStayTheSame) {
  Workshop shop;
  make_link_kit({toolkit_archive(), shop.path("kit"), sources});
  std::map<std::string, fs::file_time_type> before;
  for (const auto& entry : fs::directory_iterator(shop.path("kit"))) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
    before[entry.path()] = fs::last_write_time(entry.path());
  }
  make_link_kit({toolkit_archive(), shop.path("kit"), sources});
  for (const auto& [path, time] : before) EXPECT_EQ(fs::last_write_time(path), time) << path;
}

TEST(LinkKit, WorksInAFolderWithSpaces) {
  Workshop shop;
  fs::create_directories(shop.path("a b"));
  const LinkKit made = make_link_kit({toolkit_archive(), shop.path("a b/k 'i' t"), sources});
  Words command = {"gcc", "-shared", "-o", shop.path("a b/lib.so")};
  std::ofstream(shop.path("use.c")) << "int cudaDeviceReset(void); int use(void) { return cudaDeviceReset(); }\n";
  must({"gcc", "-fPIC", "-c", shop.path("use.c"), "-o", shop.path("use.o")});
  command.push_back(shop.path("use.o"));
  command.insert(command.end(), made.link_options.begin(), made.link_options.end());
  for (const auto& source : made.sources) {
    const std::string object = shop.path(fs::path(source).stem().string() + ".o");
    Words compile = {"g++"};
    compile.insert(compile.end(), made.compile_options.begin(), made.compile_options.end());
    for (const auto& include : made.include_directories) compile.push_back("-I" + include);
    compile.insert(compile.end(), {"-c", source, "-o", object});
    must(compile);
    command.push_back(object);
  }
  for (const auto& library : made.libraries) command.push_back(library.front() == '/' ? library : "-l" + library);
  for (const char* linker : {"bfd", "gold", "lld", "mold"}) {
    if (!has_program(std::string(linker) == "mold" ? "mold" : std::string("ld.") + linker)) {
      std::cout << "not tried: " << linker << " is not installed\n";
      continue;
    }
    Words with = command;
    with.push_back(std::string("-fuse-ld=") + linker);
    must(with);
    EXPECT_NE(must({"nm", "-D", shop.path("a b/lib.so")}).find("cudeploy_anchor"), std::string::npos) << linker;
  }
}

TEST(LinkKit, RefusesWhatIsNoRuntimeArchive) {
  Workshop shop;
  const auto refused = [&](const std::string& archive) { return error_of({archive, shop.path("kit"), sources}); };
  EXPECT_NE(refused(shop.path("none.a")).find("none.a: error: cannot be opened"), std::string::npos);
  std::ofstream(shop.path("text.a")) << "hello";
  EXPECT_NE(refused(shop.path("text.a")).find("expected a static archive"), std::string::npos);
  EXPECT_NE(refused(shop.path("text.a")).find("\nhint: "), std::string::npos);
  std::ofstream(shop.path("thin.a")) << "!<thin>\nrest";
  EXPECT_NE(refused(shop.path("thin.a")).find("thin archive"), std::string::npos);
  std::ofstream(shop.path("empty.a")) << "!<arch>\n";
  EXPECT_NE(refused(shop.path("empty.a")).find("expected functions named"), std::string::npos);
  std::ofstream(shop.path("f.c")) << "int cudaMalloc(void) { return 0; }\n";
  must({"gcc", "-c", shop.path("f.c"), "-o", shop.path("f.o")});
  must({"ar", "rcs", shop.path("one.a"), shop.path("f.o")});
  EXPECT_NE(refused(shop.path("one.a")).find("expected the function cudaRuntimeGetVersion"), std::string::npos);
  std::ofstream(shop.path("f.c")) << "int cudaRuntimeGetVersion(void) { return 0; }\n";
  must({"gcc", "-c", shop.path("f.c"), "-o", shop.path("f.o")});
  must({"ar", "rcs", shop.path("two.a"), shop.path("f.o")});
  EXPECT_NE(refused(shop.path("two.a")).find("expected the table of runtime functions"), std::string::npos);
  EXPECT_NE(error_of({toolkit_archive(), shop.path("kit"), shop.path("nowhere")}).find("cannot be read"),
            std::string::npos);
}

TEST(LinkKit, SurvivesDamage) {
  // Cut anywhere, or with a byte changed anywhere in its headers: an error or a whole result, never a crash.
  Workshop shop;
  const std::string whole = bytes_of(toolkit_archive());
  int refused = 0;
  const auto read = [&](const std::string& bytes) {
    std::ofstream(shop.path("damaged.a"), std::ios::binary | std::ios::trunc) << bytes;
    try {
      read_runtime_archive(shop.path("damaged.a"));
    } catch (const std::runtime_error&) {
      ++refused;
    }
  };
  for (std::size_t size = 0; size < whole.size(); size += whole.size() / 61 + 1) read(whole.substr(0, size));
  EXPECT_GT(refused, 40);
  const std::size_t object = whole.find("\177ELF");
  ASSERT_NE(object, std::string::npos);
  std::uint64_t sections = 0;
  std::memcpy(&sections, whole.data() + object + 40, sizeof sections);
  std::string bytes = whole;
  const auto flip = [&](std::size_t at, char value) {
    const char old = bytes[at];
    bytes[at] = value;
    read(bytes);
    bytes[at] = old;
  };
  for (std::size_t i = 0; i < 64; ++i) flip(object + i, '\xff');
  for (std::size_t i = 0; i < std::size_t{59} * 64; i += 13) flip(object + sections + i, '\xff');
  for (std::size_t i = 0; i < 68; ++i) flip(i, '9');
}

}  // namespace
}  // namespace cudeploy::test
