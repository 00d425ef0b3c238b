// From paths to records: folders with every kind of oddity, packages in packages, and limits that hold. Members are
// PTX, which is text and needs no compiler.
#include "package.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

namespace cudeploy {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

const std::string ptx = ".version 9.0\n.target sm_90\n.address_size 64\n";

/// What a package writer is given.
struct Member {
  std::string name;
  std::string content;
  mode_t type = AE_IFREG;
  std::string target = {};  // of a link
  bool hard = false;
  unsigned links = 1;  // names of it; as cpio tells it
};

std::string pack(const std::vector<Member>& members, int format = ARCHIVE_FORMAT_TAR_PAX_RESTRICTED,
                 int filter = ARCHIVE_FILTER_GZIP) {
  std::string out;
  archive* a = archive_write_new();
  // There is no code for the two ways of ar.
  EXPECT_EQ(format == ARCHIVE_FORMAT_AR_GNU ? archive_write_set_format_ar_svr4(a) : archive_write_set_format(a, format),
            ARCHIVE_OK);
  archive_write_add_filter(a, filter);
  archive_write_set_bytes_in_last_block(a, 1);
  archive_write_open(
      a, &out, nullptr,
      [](archive*, void* to, const void* data, std::size_t size) -> la_ssize_t {
        static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
        return static_cast<la_ssize_t>(size);
      },
      nullptr);
  for (const Member& member : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.name.c_str());
    archive_entry_set_filetype(entry, member.type);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(member.content.size()));
    if (member.type == AE_IFLNK) archive_entry_set_symlink(entry, member.target.c_str());
    if (member.hard) archive_entry_set_hardlink(entry, member.target.c_str());
    archive_entry_set_nlink(entry, member.links);
    archive_entry_set_ino(entry, member.links);  // of two files that have names in common
    EXPECT_EQ(archive_write_header(a, entry), ARCHIVE_OK) << archive_error_string(a);
    archive_write_data(a, member.content.data(), member.content.size());
    archive_entry_free(entry);
  }
  archive_write_close(a);
  archive_write_free(a);
  return out;
}

class Package : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "cudeploy-package-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
    before = fs::current_path();
    fs::current_path(root);  // so that paths are short and the same everywhere
  }
  void TearDown() override {
    fs::current_path(before);
    fs::remove_all(root);
  }

  static std::string write(const std::string& path, const std::string& content) {
    if (fs::path(path).has_parent_path()) fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  InspectRecord inspect(const std::vector<std::string>& paths) {
    return inspect_paths(paths, ReadOptions(), limits, WorkerLimits());
  }

  static std::vector<std::string> paths(const InspectRecord& record) {
    std::vector<std::string> out;
    for (const FileRecord& file : record.files) out.push_back(file.path);
    return out;
  }

  static std::string problems(const InspectRecord& record) {
    std::string out;
    for (const FileRecord& file : record.files)
      for (const Problem& problem : file.problems) out += file.path + ": " + problem.message + "\n";
    return out;
  }

  PackageLimits limits;
  fs::path root, before;
};

using Paths = std::vector<std::string>;
using Links = std::map<std::string, std::string>;

TEST_F(Package, ANamedFileHasARowWhateverItHolds) {
  write("a.ptx", ptx);
  write("text", "hello");
  write("empty", "");
  InspectRecord record = inspect({"text", "a.ptx", "empty", "a.ptx"});
  EXPECT_EQ(paths(record), (Paths{"a.ptx", "empty", "text"}));
  EXPECT_EQ(record.files[0].format, Format::ptx);
  EXPECT_EQ(record.files[2].format, Format::other);
  EXPECT_EQ(problems(record), "");
  ASSERT_EQ(record.bundles.size(), 1u);
  EXPECT_EQ(record.bundles[0].kind, BundleRecord::Kind::files);
  EXPECT_EQ(record.bundles[0].files, paths(record));
}

TEST_F(Package, AFolderIsOneBundleAndShowsOnlyWhatHoldsSomething) {
  write("d/b/x.ptx", ptx);
  write("d/a.ptx", ptx);
  write("d/readme", "hello");
  InspectRecord record = inspect({"d/"});
  EXPECT_EQ(paths(record), (Paths{"d/a.ptx", "d/b/x.ptx"}));
  ASSERT_EQ(record.bundles.size(), 1u);
  EXPECT_EQ(record.bundles[0].kind, BundleRecord::Kind::folder);
  EXPECT_EQ(record.bundles[0].name, "d/");
}

TEST_F(Package, LinksInAFolderAreKeptAndLoopsDoNoHarm) {
  write("d/lib/x.ptx.1.2", ptx);
  write("outside.ptx", ptx);
  fs::create_symlink("x.ptx.1.2", "d/lib/x.ptx");
  fs::create_symlink("../../d", "d/lib/loop");
  fs::create_symlink("self", "d/self");
  fs::create_symlink("nowhere", "d/broken");
  fs::create_symlink("../../outside.ptx", "d/lib/out.ptx");
  fs::create_hard_link("d/lib/x.ptx.1.2", "d/lib/y.ptx");
  ASSERT_EQ(mkfifo("d/fifo", 0600), 0);
  InspectRecord record = inspect({"d"});
  EXPECT_EQ(paths(record), (Paths{"d/lib/out.ptx", "d/lib/x.ptx.1.2"}));
  EXPECT_EQ(problems(record), "");
  EXPECT_EQ(record.bundles.at(0).links, (Links{{"d/broken", "nowhere"},
                                               {"d/lib/loop", "../../d"},
                                               {"d/lib/x.ptx", "x.ptx.1.2"},
                                               {"d/lib/y.ptx", "x.ptx.1.2"},
                                               {"d/self", "self"}}));
}

TEST_F(Package, WhatCannotBeReadSaysWhyAndTheRestIsDone) {
  write("a.ptx", ptx);
  ASSERT_EQ(mkfifo("fifo", 0600), 0);
  InspectRecord record = inspect({"gone", "fifo", "a.ptx", "a.ptx/below"});
  EXPECT_EQ(problems(record),
            "a.ptx/below: cannot be read: not a directory\n"
            "fifo: cannot be read: not a regular file or a folder\n"
            "gone: cannot be read: no such file or directory\n");
  EXPECT_EQ(std::count_if(record.files.begin(), record.files.end(), [](auto& file) { return file.unreadable; }), 3);
}

TEST_F(Package, AFileThatVanishesAfterItWasFoundIsUnreadable) {
  write("d/a.ptx", ptx);
  Inputs inputs = collect({"d"});
  fs::remove("d/a.ptx");
  auto readings = read_in_workers(
      inputs.tasks, [&](const Task& task, Sink& sink) { read_input(task, ReadOptions(), limits, sink); },
      WorkerLimits());
  ASSERT_EQ(readings.at(0).files.size(), 1u);
  EXPECT_TRUE(readings[0].files[0].unreadable);
  EXPECT_EQ(readings[0].files[0].problems.at(0).message, "cannot be read: no such file or directory");
}

/// Does something to the file when the first item in it is begun.
class Meddler : public Sink {
 public:
  explicit Meddler(std::function<void()> meddle) : meddle_(std::move(meddle)) {}
  void package(const std::string& /*path*/, Unpacking /*unpacking*/) override {}
  void begin(const std::string& /*path*/, std::uint64_t /*size*/) override {
    if (meddle_) std::exchange(meddle_, {})();
  }
  void records(std::vector<FileRecord> files) override {
    for (FileRecord& file : files) found.files.push_back(std::move(file));
  }
  void link(const std::string& /*path*/, const std::string& /*target*/) override {}
  void loader_folders(const std::string& /*path*/, const std::vector<std::string>& /*folders*/) override {}
  void answer(const std::vector<std::uint8_t>& /*bytes*/) override {}
  void alive() override {}

  InspectRecord found;

 private:
  std::function<void()> meddle_;
};

TEST_F(Package, AFileThatIsCutWhileItIsReadIsNotASmallerFile) {
  const std::string many = ptx + std::string(8 << 20, '\n');
  const std::string archive = pack({{"a.ptx", ptx}, {"b.ptx", many}}, ARCHIVE_FORMAT_AR_GNU, ARCHIVE_FILTER_NONE);
  const std::string package =
      pack({{"a.ptx", ptx}, {"b.ptx", many}}, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED, ARCHIVE_FILTER_NONE);
  for (const auto& [path, content] : {std::pair("a.ptx", many), {"a.a", archive}, {"a.tar", package}}) {
    write(path, content);
    Meddler cutter([file = path] { fs::resize_file(file, 4096); });
    read_input({path, true, 0}, ReadOptions(), limits, cutter);
    EXPECT_NE(problems(cutter.found)
                  .find(std::string(path) + ": was cut while it was read: of " + std::to_string(content.size()) +
                        " bytes, those from "),
              std::string::npos)
        << path << ": " << problems(cutter.found);
    EXPECT_EQ(std::count_if(cutter.found.files.begin(), cutter.found.files.end(),
                            [name = path](const FileRecord& file) { return file.path == name; }),
              1);
  }
}

TEST_F(Package, AFileThatChangesWhileItIsReadIsAProblem) {
  const std::string package =
      pack({{"a.ptx", ptx}, {"b.ptx", ptx}}, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED, ARCHIVE_FILTER_NONE);
  const auto told = [&](const std::string& path, const std::function<void(const std::string&)>& meddle) {
    write(path, path == "a.tar" ? package : ptx);
    fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
    Meddler meddler([&] { meddle(path); });
    read_input({path, true, 0}, ReadOptions(), limits, meddler);
    return problems(meddler.found);
  };
  for (const std::string& path : {"a.ptx"s, "a.tar"s}) {
    // What leaves the content alone is no change.
    EXPECT_EQ(told(path,
                   [](const std::string& file) {
                     fs::create_hard_link(file, file + ".too");
                     fs::permissions(file, fs::perms::owner_read);
                     fs::permissions(file, fs::perms::owner_all);
                   }),
              "");
    EXPECT_EQ(told(path, [](const std::string& file) { std::ofstream(file, std::ios::in | std::ios::out) << "."; }),
              path + ": was changed while it was read\n");
    EXPECT_EQ(told(path, [](const std::string& file) { std::ofstream(file, std::ios::app) << "more"; }),
              path + ": was changed while it was read\n");
  }
}

TEST_F(Package, EveryKindIsToldByContent) {
  struct Kind {
    const char* name;
    int format, filter;
  };
  for (Kind kind : {Kind{"tar", ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE},
                    Kind{"tar.gz", ARCHIVE_FORMAT_TAR_GNUTAR, ARCHIVE_FILTER_GZIP},
                    Kind{"tar.bz2", ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_BZIP2},
                    Kind{"tar.xz", ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_XZ},
                    Kind{"tar.lzma", ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_LZMA},
                    Kind{"tar.zst", ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_ZSTD},
                    Kind{"zip", ARCHIVE_FORMAT_ZIP, ARCHIVE_FILTER_NONE}}) {
    write("anything", pack({{"./readme", "hello"}, {"./lib/x.ptx", ptx}}, kind.format, kind.filter));
    InspectRecord record = inspect({"anything"});
    EXPECT_EQ(paths(record), (Paths{"anything!/lib/x.ptx"})) << kind.name;
    EXPECT_EQ(problems(record), "") << kind.name;
    ASSERT_EQ(record.bundles.size(), 1u) << kind.name;
    EXPECT_EQ(record.bundles[0].kind, BundleRecord::Kind::package) << kind.name;
    EXPECT_EQ(record.bundles[0].name, "anything");
  }
}

TEST_F(Package, WhatAFileIsAloneItIsInAPackage) {
  const std::string comment = "// " + std::string(60'000, '-') + "\n";
  for (const std::string& content : {ptx, ptx + '\0', ptx + '\0' + std::string(70'000, 'x'), comment + ptx,
                                     "/* a\0b */"s + ptx, "text, .version 9.0"s}) {
    write("a", content);
    write("a.zip", pack({{"a", content}}, ARCHIVE_FORMAT_ZIP, ARCHIVE_FILTER_NONE));
    const InspectRecord alone = inspect({"a"}), packed = inspect({"a.zip"});
    EXPECT_EQ(packed.files.at(0).format, alone.files.at(0).format) << content.substr(0, 99);
    EXPECT_EQ(packed.files.at(0).fat_binaries.size(), alone.files.at(0).fat_binaries.size()) << content.substr(0, 99);
  }
}

TEST_F(Package, ADebHoldsItsDataOneLevelDeeper) {
  std::string data = pack({{"./usr/lib/x.ptx.1", ptx}, {"./usr/lib/x.ptx", "", AE_IFLNK, "x.ptx.1"}},
                          ARCHIVE_FORMAT_TAR_GNUTAR, ARCHIVE_FILTER_XZ);
  write("a.deb", pack({{"debian-binary", "2.0\n"},
                       {"control.tar.gz", pack({{"./control", "Package: a\n"}})},
                       {"data.tar.xz", data}},
                      ARCHIVE_FORMAT_AR_GNU, ARCHIVE_FILTER_NONE));
  InspectRecord record = inspect({"a.deb"});
  EXPECT_EQ(paths(record), (Paths{"a.deb!/data.tar.xz!/usr/lib/x.ptx.1"}));
  EXPECT_EQ(record.bundles.at(0).links, (Links{{"a.deb!/data.tar.xz!/usr/lib/x.ptx", "x.ptx.1"}}));
}

TEST_F(Package, ADebWhoseArTellsNoFileTypesIsReadToo) {
  // As `ar rcD` writes it, which leaves the type out of the mode; dpkg-deb writes "100644".
  std::string deb = pack({{"debian-binary", "2.0\n"}, {"data.tar.gz", pack({{"./usr/lib/x.ptx", ptx}})}},
                         ARCHIVE_FORMAT_AR_GNU, ARCHIVE_FILTER_NONE);
  std::size_t modes = 0;
  for (std::size_t at; (at = deb.find("100644  ")) != std::string::npos; ++modes) deb.replace(at, 8, "644     ");
  ASSERT_EQ(modes, 2u);
  write("a.deb", deb);
  EXPECT_EQ(paths(inspect({"a.deb"})), (Paths{"a.deb!/data.tar.gz!/usr/lib/x.ptx"}));
}

TEST_F(Package, ADebWhoseTarIsOldOrEmptyIsReadToo) {
  const auto deb = [](const std::string& data) {
    return pack({{"debian-binary", "2.0\n"}, {"data.tar", data}}, ARCHIVE_FORMAT_AR_GNU, ARCHIVE_FILTER_NONE);
  };
  write("empty.deb", deb(std::string(10240, '\0')));
  std::string v7 = pack({{"./usr/lib/x.ptx", ptx}}, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
  // Version 7 had nothing behind the link's name; the checksum counts its own place as blanks.
  std::fill(v7.begin() + 257, v7.begin() + 512, '\0');
  std::fill(v7.begin() + 148, v7.begin() + 156, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(v7[i]);
  std::snprintf(v7.data() + 148, 8, "%06o", sum);
  write("v7.deb", deb(v7));
  const InspectRecord record = inspect({"empty.deb", "v7.deb"});
  EXPECT_EQ(problems(record), "");
  EXPECT_EQ(paths(record), (Paths{"empty.deb", "v7.deb!/data.tar!/usr/lib/x.ptx"}));
  EXPECT_EQ(record.bundles.at(1).packages,
            (std::map<std::string, Unpacking>{{"v7.deb", Unpacking::anywhere}, {"v7.deb!/data.tar", Unpacking::deb}}));
}

TEST_F(Package, AStaticArchiveIsNoPackage) {
  write("lib.a", pack({{"x.ptx", ptx}}, ARCHIVE_FORMAT_AR_GNU, ARCHIVE_FILTER_NONE));
  InspectRecord record = inspect({"lib.a"});
  ASSERT_EQ(record.bundles.size(), 1u);
  EXPECT_EQ(record.bundles[0].kind, BundleRecord::Kind::files);
  EXPECT_EQ(record.files.at(0).path.substr(0, 5), "lib.a");
}

TEST_F(Package, PackagesInAFolderAreBundlesOfTheirOwn) {
  write("d/a.tar.gz", pack({{"x.ptx", ptx}}));
  write("d/b.zip", pack({{"x.ptx", ptx}}, ARCHIVE_FORMAT_ZIP, ARCHIVE_FILTER_NONE));
  write("d/y.ptx", ptx);
  InspectRecord record = inspect({"d"});
  EXPECT_EQ(paths(record), (Paths{"d/a.tar.gz!/x.ptx", "d/b.zip!/x.ptx", "d/y.ptx"}));
  ASSERT_EQ(record.bundles.size(), 3u);
  EXPECT_EQ(record.bundles[0].files, (Paths{"d/y.ptx"}));
  EXPECT_EQ(record.bundles[1].name, "d/a.tar.gz");
  EXPECT_EQ(record.bundles[2].name, "d/b.zip");
}

TEST_F(Package, HardLinksAreLinksSpecialFilesAreNothing) {
  write("a.tar.gz", pack({{"lib/x.ptx", ptx},
                          {"lib/sub/y.ptx", "", AE_IFREG, "lib/x.ptx", true},
                          {"fifo", "", AE_IFIFO},
                          {"null", "", AE_IFCHR}}));
  InspectRecord record = inspect({"a.tar.gz"});
  EXPECT_EQ(paths(record), (Paths{"a.tar.gz!/lib/x.ptx"}));
  EXPECT_EQ(record.bundles.at(0).links, (Links{{"a.tar.gz!/lib/sub/y.ptx", "../x.ptx"}}));
  EXPECT_EQ(problems(record), "");
}

TEST_F(Package, TheBytesOfAFileWithManyNamesComeWithAnyOfThem) {
  // As an RPM has it: the first two names are empty, the last one brings what is in the file.
  write("a.cpio.gz", pack({{"lib/x.ptx", "", AE_IFREG, "", false, 3},
                           {"lib/sub/y.ptx", "", AE_IFREG, "", false, 3},
                           {"z.ptx", ptx, AE_IFREG, "", false, 3},
                           {"none", "", AE_IFREG, "", false, 2},
                           {"none.2", "", AE_IFREG, "", false, 2}},
                          ARCHIVE_FORMAT_CPIO_SVR4_NOCRC));
  InspectRecord record = inspect({"a.cpio.gz"});
  ASSERT_EQ(paths(record), (Paths{"a.cpio.gz!/lib/x.ptx"}));
  EXPECT_EQ(record.files[0].size, ptx.size());
  EXPECT_EQ(record.bundles.at(0).links, (Links{{"a.cpio.gz!/lib/sub/y.ptx", "../x.ptx"},
                                               {"a.cpio.gz!/z.ptx", "lib/x.ptx"},
                                               {"a.cpio.gz!/none.2", "none"}}));
}

TEST_F(Package, BytesThatComeWithEachNameAreOneFile) {
  // As cpio's old form and pax -o linkdata have it.
  const std::vector<Member> members = {{"lib/x.ptx", ptx, AE_IFREG, "", false, 3},
                                       {"y.ptx", ptx, AE_IFREG, "", false, 3},
                                       {"z.ptx", ptx, AE_IFREG, "", false, 3}};
  write("a.cpio.gz", pack(members, ARCHIVE_FORMAT_CPIO_POSIX));
  InspectRecord record = inspect({"a.cpio.gz"});
  EXPECT_EQ(paths(record), (Paths{"a.cpio.gz!/lib/x.ptx"}));
  EXPECT_EQ(record.bundles.at(0).files, (Paths{"a.cpio.gz!/lib/x.ptx"}));
  EXPECT_EQ(record.bundles[0].links, (Links{{"a.cpio.gz!/y.ptx", "lib/x.ptx"}, {"a.cpio.gz!/z.ptx", "lib/x.ptx"}}));
  // Nothing hides behind a name that was met before.
  write("a.cpio.gz",
        pack({members[0], {"y.ptx", ptx + "// more", AE_IFREG, "", false, 3}, members[2]}, ARCHIVE_FORMAT_CPIO_POSIX));
  record = inspect({"a.cpio.gz"});
  EXPECT_EQ(paths(record), (Paths{"a.cpio.gz!/lib/x.ptx", "a.cpio.gz!/lib/x.ptx"}));
  EXPECT_EQ(record.files.at(1).size, ptx.size() + 7);
}

TEST_F(Package, NamesThatLeadOutAreReportedAndStayNames) {
  write("in/a.tar.gz", pack({{"../escaped.ptx", ptx}, {(root / "abs.ptx").string(), ptx}, {"a/../b.ptx", ptx}}));
  fs::current_path("in");  // where a member would land, all around, is looked at
  InspectRecord record = inspect({"a.tar.gz"});
  EXPECT_EQ(paths(record), (Paths{"a.tar.gz", "a.tar.gz!/../escaped.ptx", "a.tar.gz!/a/../b.ptx",
                                  "a.tar.gz!" + (root / "abs.ptx").string()}));
  const std::string no_two_agree = "some unpack it in one folder, some in another, some not at all\n";
  EXPECT_EQ(problems(record),
            "a.tar.gz: member ../escaped.ptx has a name that leads out of the package\n"
            "a.tar.gz: member " +
                (root / "abs.ptx").string() +
                " has an absolute name: some unpack it there, some elsewhere, some not at all\n"
                "a.tar.gz: member a/../b.ptx has a name with \"..\": " +
                no_two_agree);
  Paths there;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root))
    there.push_back(entry.path().lexically_relative(root));
  std::sort(there.begin(), there.end());
  EXPECT_EQ(there, (Paths{"in", "in/a.tar.gz"}));
}

TEST_F(Package, AnAbsoluteNameIsTheSameNameOnlyWhereThePackageIsUnpackedAtTheRoot) {
  const std::string absolute = "has an absolute name: some unpack it there, some elsewhere, some not at all\n";
  const std::string data = pack({{"/usr/lib/x.ptx", ptx}});
  write("a.zip", pack({{"/lib/x.ptx", ptx}, {"C:/lib/x.ptx", ptx}, {"c/C:/x.ptx", ptx}}, ARCHIVE_FORMAT_ZIP,
                      ARCHIVE_FILTER_NONE));
  EXPECT_EQ(problems(inspect({"a.zip"})),
            "a.zip: member /lib/x.ptx " + absolute + "a.zip: member C:/lib/x.ptx " + absolute);
  write("a.tar", pack({{"inner.tar.gz", data}}));
  EXPECT_EQ(problems(inspect({"a.tar"})), "a.tar: inner.tar.gz: member /usr/lib/x.ptx " + absolute);
  write("a.deb", pack({{"debian-binary", "2.0\n"}, {"data.tar.gz", data}}, ARCHIVE_FORMAT_AR_GNU, ARCHIVE_FILTER_NONE));
  const InspectRecord record = inspect({"a.deb"});
  EXPECT_EQ(paths(record), (Paths{"a.deb!/data.tar.gz!/usr/lib/x.ptx"}));
  EXPECT_EQ(problems(record), "");
  // A static archive has a table of its symbols under the name "/".
  write("a.a.gz", pack({{"/", "table"}, {"x.ptx", ptx}}, ARCHIVE_FORMAT_AR_GNU));
  EXPECT_EQ(problems(inspect({"a.a.gz"})), "");
}

TEST_F(Package, AHardLinkToANameThatLeadsOutIsReported) {
  for (const auto& [target, fault] :
       {std::pair("../x.ptx", "a name that leads out of the package"),
        {"/x.ptx", "an absolute name: some unpack it there, some elsewhere, some not at all"}}) {
    write("a.tar", pack({{"x.ptx", ptx}, {"y.ptx", "", AE_IFREG, target, true}}));
    EXPECT_EQ(problems(inspect({"a.tar"})),
              std::string("a.tar: member y.ptx is a hard link to ") + target + ", " + fault + "\n");
  }
}

TEST_F(Package, ManyProblemsAreCountedNotListed) {
  std::vector<Member> members;
  for (int i = 0; i < 30; ++i) members.push_back({"../" + std::to_string(i), "x"});
  write("a.tar.gz", pack(members));
  InspectRecord record = inspect({"a.tar.gz"});
  ASSERT_EQ(record.files.at(0).problems.size(), 21u);
  EXPECT_EQ(record.files[0].problems[20].message, "and 10 more problems");
}

TEST_F(Package, ATruncatedPackageSaysSoAndKeepsWhatWasRead) {
  std::string noise(200'000, 'x');  // not compressible, and no part of our formats
  unsigned state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  for (auto [format, filter] :
       {std::pair{ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_GZIP},
        std::pair{ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_XZ},
        std::pair{ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_ZSTD},
        std::pair{ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE}, std::pair{ARCHIVE_FORMAT_ZIP, ARCHIVE_FILTER_NONE}}) {
    std::string whole = pack({{"x.ptx", ptx}, {"noise", noise}, {"y.ptx", ptx}}, format, filter);
    write("cut", whole.substr(0, whole.size() / 2));
    write("whole", whole);
    InspectRecord record = inspect({"cut", "whole"});
    auto all = paths(record);
    EXPECT_TRUE(std::count(all.begin(), all.end(), "cut")) << format << " " << filter;
    EXPECT_TRUE(std::count(all.begin(), all.end(), "whole!/x.ptx"));
    EXPECT_TRUE(std::count(all.begin(), all.end(), "whole!/y.ptx"));
    EXPECT_EQ(std::count(all.begin(), all.end(), "whole"), 0);
    EXPECT_EQ(std::count(all.begin(), all.end(), "cut!/y.ptx"), 0);
    EXPECT_NE(problems(record).find("cut: "), std::string::npos);
    EXPECT_NE(problems(record).find("cannot be unpacked: "), std::string::npos) << problems(record);
  }
}

TEST_F(Package, ACompressedFileWithoutAnArchiveIsAPlainFile) {
  write("d/manual.1.gz", pack({{"x", "hello"}}, ARCHIVE_FORMAT_RAW, ARCHIVE_FILTER_GZIP));
  InspectRecord record = inspect({"d"});
  EXPECT_TRUE(record.files.empty()) << problems(record);
  record = inspect({"d/manual.1.gz"});
  ASSERT_EQ(paths(record), (Paths{"d/manual.1.gz"}));
  EXPECT_EQ(record.files[0].format, Format::other);
  EXPECT_EQ(problems(record), "");
}

TEST_F(Package, WhatBeginsAsAPackageAndIsNoneIsNoPlainFile) {
  const std::string whole = pack({{"x.ptx", ptx}}, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
  std::string tar = whole;
  tar.replace(148, 6, "777777");  // the checksum of its first header
  const std::string gzip = pack({{"-", tar}}, ARCHIVE_FORMAT_RAW, ARCHIVE_FILTER_GZIP);
  const std::string lzma = pack({{"-", tar}}, ARCHIVE_FORMAT_RAW, ARCHIVE_FILTER_LZMA);
  const auto deb = [](const std::vector<Member>& behind) {
    std::vector<Member> members{{"debian-binary", "2.0\n"}, {"control.tar.gz", pack({{"./control", "Package: a\n"}})}};
    members.insert(members.end(), behind.begin(), behind.end());
    return pack(members, ARCHIVE_FORMAT_AR_GNU, ARCHIVE_FILTER_NONE);
  };
  const std::string rpm = "\xed\xab\xee\xdb\3" + std::string(91, '\0');  // its lead alone
  const std::string no_tar =
      "cannot be unpacked: begins as a tar archive does, but holds nothing that can be read as one";
  const std::string no_rpm = "cannot be unpacked: begins as an RPM does, but holds nothing that can be read as one";
  const std::string no_data = "data.tar.gz holds no archive that can be read";
  for (const auto& [content, words] :
       {std::pair(tar, no_tar),
        {gzip, no_tar},
        {lzma, no_tar},
        {rpm, no_rpm},
        {rpm.substr(0, 8), no_rpm},
        {rpm + std::string(99, 'x'), std::string("cannot be unpacked: unrecognized rpm header")},
        {pack({{"lib/a.rpm", rpm}, {"y.ptx", ptx}}), "lib/a.rpm: " + no_rpm},
        {deb({{"data.tar.gz", gzip}}), "data.tar.gz: " + no_tar},
        {deb({{"data.tar.gz", pack({{"-", "text"}}, ARCHIVE_FORMAT_RAW)}}), "member " + no_data},
        {deb({{"data.tar.gz", "text"}}), "member " + no_data},
        {deb({}), std::string("cannot be unpacked: expected a member data.tar, found none")}}) {
    write("d/package", content);
    const InspectRecord record = inspect({"d"});
    EXPECT_EQ(problems(record), "d/package: " + words + "\n");
  }
  // What is something else of ours is that, whatever stands in it.
  std::string code = ptx + "//" + std::string(600, '-');
  code.replace(257, 5, "ustar");
  write("code.ptx", code);
  write("code.zip", pack({{"code.ptx", code}}, ARCHIVE_FORMAT_ZIP, ARCHIVE_FILTER_NONE));
  EXPECT_EQ(paths(inspect({"code.ptx", "code.zip"})), (Paths{"code.ptx", "code.zip!/code.ptx"}));
}

TEST_F(Package, APackageWithNothingForUsHasARowOnlyWhenNamed) {
  write("d/a.tar.gz", pack({{"readme", "hello"}}));
  EXPECT_TRUE(inspect({"d"}).files.empty());
  EXPECT_EQ(paths(inspect({"d/a.tar.gz"})), (Paths{"d/a.tar.gz"}));
}

TEST_F(Package, ABombIsGivenUp) {
  limits.ratio_from = 1 << 20;
  write("bomb.tar.gz", pack({{"x.ptx", ptx}, {"zeros", std::string(64 << 20, '\0')}, {"y.ptx", ptx}}));
  InspectRecord record = inspect({"bomb.tar.gz"});
  EXPECT_EQ(paths(record), (Paths{"bomb.tar.gz", "bomb.tar.gz!/x.ptx"}));
  EXPECT_EQ(problems(record),
            "bomb.tar.gz: unpacks to more than 200 times its size; the members behind were not read\n");
}

TEST_F(Package, ABombInAPackageCountsOnTheWhole) {
  limits.ratio_from = 1 << 20;
  std::string inner = pack({{"zeros", std::string(64 << 20, '\0')}}, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_XZ);
  write("bomb.zip", pack({{"inner", inner}, {"y.ptx", ptx}}, ARCHIVE_FORMAT_ZIP, ARCHIVE_FILTER_NONE));
  EXPECT_EQ(problems(inspect({"bomb.zip"})),
            "bomb.zip: unpacks to more than 200 times its size; the members behind were not read\n");
}

TEST_F(Package, AbsoluteLimitsHold) {
  std::vector<Member> members;
  for (int i = 0; i < 20; ++i) members.push_back({"m" + std::to_string(i), "x"});
  write("a.tar.gz", pack(members));
  limits.members = 10;
  EXPECT_EQ(problems(inspect({"a.tar.gz"})), "a.tar.gz: has more than 10 members; the members behind were not read\n");
  limits = PackageLimits();
  limits.inflated = 10;
  EXPECT_NE(problems(inspect({"a.tar.gz"})).find("unpacks to more than"), std::string::npos);
  limits = PackageLimits();
  limits.names = 8;
  EXPECT_NE(problems(inspect({"a.tar.gz"})).find("MiB of names"), std::string::npos);
}

TEST_F(Package, NestingEnds) {
  std::string package = pack({{"x.ptx", ptx}});
  for (int i = 0; i < 8; ++i) package = pack({{"inner", package}, {"y.ptx", ptx}});
  write("a.tar.gz", package);
  InspectRecord record = inspect({"a.tar.gz"});
  EXPECT_EQ(problems(record),
            "a.tar.gz: inner!/inner!/inner!/inner: member inner is not looked into: packages in packages, 5 deep\n");
  EXPECT_EQ(record.files.size(), 6u);  // five times y.ptx, and the package
}

TEST_F(Package, LargeMembersGoThroughAFileThatLeavesNothing) {
  limits.in_memory = 1 << 20;
  fs::create_directory("tmp");
  setenv("TMPDIR", (root / "tmp").c_str(), 1);
  std::string large = ptx + "//" + std::string(5 << 20, 'x') + "\n";
  write("a.tar.xz", pack({{"large.ptx", large}, {"y.ptx", ptx}}, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE));
  InspectRecord record = inspect({"a.tar.xz"});
  unsetenv("TMPDIR");
  EXPECT_EQ(paths(record), (Paths{"a.tar.xz!/large.ptx", "a.tar.xz!/y.ptx"}));
  EXPECT_EQ(record.files.at(0).size, large.size());
  EXPECT_EQ(problems(record), "");
  EXPECT_TRUE(fs::is_empty("tmp"));
}

TEST_F(Package, AMemberThatIsTooLargeIsAProblemAndTheNextIsRead) {
  limits.member = 1 << 20;
  write("a.tar.gz", pack({{"large.ptx", ptx + "//" + std::string(5 << 20, 'x')}, {"y.ptx", ptx}}));
  limits.ratio = 1'000'000;
  InspectRecord record = inspect({"a.tar.gz"});
  EXPECT_EQ(paths(record), (Paths{"a.tar.gz", "a.tar.gz!/y.ptx"}));
  EXPECT_NE(problems(record).find("member large.ptx is larger than"), std::string::npos);
}

TEST_F(Package, AFileFoundTwiceIsReadOnceAndShipsInBothFolders) {
  write("d/e/x.ptx", ptx);
  InspectRecord record = inspect({"d", "d/e", "d/e/x.ptx"});
  EXPECT_EQ(paths(record), (Paths{"d/e/x.ptx"}));
  ASSERT_EQ(record.bundles.size(), 2u);  // alone it would lack what lies beside it
  for (const BundleRecord& bundle : record.bundles) EXPECT_EQ(bundle.files, (Paths{"d/e/x.ptx"}));
}

}  // namespace
}  // namespace cudeploy
