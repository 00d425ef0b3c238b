// Static libraries: the two ways to write long names, and what hostile headers claim.
#include <gtest/gtest.h>

#include "archive.hpp"
#include "fixture.hpp"

namespace cudeploy {
namespace {

/// A member header as ar writes it.
std::string header(const std::string& name, const std::string& size) {
  std::string text = name;
  text.resize(16, ' ');
  text += "0           0     0     644     " + size;
  text.resize(58, ' ');
  return text + "`\n";
}

struct Read {
  std::vector<ArchiveMember> members;
  std::string problems;
};
Read read_text(const std::string& text) {
  MemoryBytes bytes(std::as_bytes(std::span(text)));
  std::vector<Problem> problems;
  Read result;
  result.members = read_archive(bytes, problems);
  for (const Problem& problem : problems) result.problems += problem.message + "\n";
  return result;
}

TEST(Archive, GivesMembersWhereTheyLie) {
  Read result = read_text("!<arch>\n" + header("a.o/", "3") + "abc\n" + header("b.o/", "2") + "xy");
  ASSERT_EQ(result.members.size(), 2u);
  EXPECT_EQ(result.members[0].name, "a.o");
  EXPECT_EQ(result.members[0].where, (Extent{68, 3}));
  EXPECT_EQ(result.members[1].name, "b.o");
  EXPECT_EQ(result.members[1].where, (Extent{132, 2}));
  EXPECT_EQ(result.problems, "");
}

TEST(Archive, ReadsLongNamesOfBsd) {
  Read result = read_text("!<arch>\n" + header("#1/20", "23") + std::string("a_long_member_name.o", 20) + "abc");
  ASSERT_EQ(result.members.size(), 1u);
  EXPECT_EQ(result.members[0].name, "a_long_member_name.o");
  EXPECT_EQ(result.members[0].where.size, 3u);
}

TEST(Archive, ReportsHostileSizes) {
  EXPECT_NE(read_text("!<arch>\n" + header("a.o/", "-1") + "abc").problems.find("found '-1'"), std::string::npos);
  EXPECT_NE(
      read_text("!<arch>\n" + header("a.o/", "9999999999") + "abc").problems.find("at most 3 bytes, found 9999999999"),
      std::string::npos);
  EXPECT_NE(read_text("!<arch>\n" + header("a.o/", "") + "abc").problems.find("expected a decimal number"),
            std::string::npos);
  EXPECT_NE(read_text("!<arch>\n" + header("/99", "3") + "abc").problems.find("name table of 0 bytes"),
            std::string::npos);
  EXPECT_NE(read_text("!<arch>\n" + header("#1/99", "3") + "abc").problems.find("length inside the member"),
            std::string::npos);
  EXPECT_NE(read_text("!<arch>\nshort").problems.find("expected 60 bytes, found 5"), std::string::npos);
  EXPECT_NE(read_text("!<arch>\n" + std::string(60, 'x')).problems.find("end mark"), std::string::npos);
  EXPECT_NE(read_text("!<thin>\n" + header("a.o/", "3")).problems.find("thin archive"), std::string::npos);
}

class ArchiveOfObjects : public Fixture {};

TEST_F(ArchiveOfObjects, GivesOneRecordPerObject) {
  write("one.c", "int one = 1;");
  write("readme.txt", "no object\n");
  run("gcc -c one.c -o one.o && cp one.o a_name_of_more_than_fifteen_characters.o && "
      "ar rcs lib.a one.o a_name_of_more_than_fifteen_characters.o readme.txt");
  auto records = read_all("lib.a");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].path, "lib.a!/one.o");
  EXPECT_EQ(records[1].path, "lib.a!/a_name_of_more_than_fifteen_characters.o");
  for (const auto& record : records) {
    EXPECT_EQ(record.format, Format::elf);
    EXPECT_EQ(record.type, "relocatable");
    EXPECT_EQ(record.size, std::filesystem::file_size(path("one.o")));
    EXPECT_EQ(problems_of(record), "");
  }

  run("ar rcT thin.a one.o");
  auto thin = read_all("thin.a");
  ASSERT_EQ(thin.size(), 1u);
  EXPECT_EQ(thin[0].format, Format::ar);
  EXPECT_NE(problems_of(thin[0]).find("thin archive"), std::string::npos);

  write("empty.a", "!<arch>\n");
  auto empty = read_all("empty.a");
  ASSERT_EQ(empty.size(), 1u);
  EXPECT_EQ(empty[0].format, Format::ar);
  EXPECT_EQ(problems_of(empty[0]), "");
}

}  // namespace
}  // namespace cudeploy
