// Static libraries: sizes that are text, two ways to write long names, and a name table that names point into. The
// last byte of the input chooses whether the file shrank since it was opened.
// The seeds: `ar rc gnu a.o a_name_of_more_than_fifteen_letters.o`, `ar rcT thin a.o` and `llvm-ar rc --format=bsd bsd`
// of the same files, which hold a few letters each; `index` is `gnu` with an object in it, so that ar writes a symbol
// table.
#include "archive.hpp"

#include <ar.h>

#include <cstring>

#include "hostile_input.hpp"

using cudeploy::require;
using cudeploy::Shrunk;

namespace {

/// The same members as BSD's ar writes them: each name before its bytes.
std::string written_again(const std::vector<cudeploy::ArchiveMember>& members, const cudeploy::Bytes& bytes) {
  std::string text = ARMAG;
  for (const auto& [name, where] : members) {
    std::string header = "#1/" + std::to_string(name.size());
    header.resize(16, ' ');
    header += "0           0     0     644     " + std::to_string(name.size() + where.size);
    header.resize(58, ' ');
    text += header + ARFMAG + name;
    const std::vector<std::byte> content = bytes.copy(where);
    text.append(reinterpret_cast<const char*>(content.data()), content.size());
    text.resize(text.size() + where.size - content.size());
    if (text.size() & 1) text += '\n';
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cudeploy;
  const MemoryBytes memory({reinterpret_cast<const std::byte*>(data), size});
  const Shrunk bytes(memory, size != 0 && data[size - 1] & 1 ? 5000 : 0);
  if (!looks_like_archive(bytes)) return 0;
  std::vector<Problem> problems;
  std::vector<ArchiveMember> members = read_archive(bytes, problems);
  for (const Problem& problem : problems) require(problem.offset && *problem.offset <= bytes.size());
  std::uint64_t end = SARMAG;
  for (const auto& [name, where] : members) {
    require(name.size() <= 4096 && bytes.holds(where) && where.offset >= end + sizeof(ar_hdr));
    end = where.end();
  }
  if (problems.empty()) {
    // A whole archive is read to its end: what is put behind it is one member more.
    std::string longer(reinterpret_cast<const char*>(data), size);
    longer.resize(size + (size & 1), '\n');
    longer += written_again({{"last", {}}}, bytes).substr(SARMAG);
    const std::vector<ArchiveMember> more = read_archive(MemoryBytes(std::as_bytes(std::span(longer))), problems);
    require(problems.empty() && more.size() == members.size() + 1 && more.back().name == "last");
  }
  // What it says is all that another archive needs to say the same. Names that the other cannot hold are left out.
  std::erase_if(members, [](const ArchiveMember& member) {
    return member.name.find('\0') != std::string::npos || member.name.starts_with("__.SYMDEF") ||
           (member.name.size() > 1 && member.name.ends_with('/'));
  });
  const std::string text = written_again(members, bytes);
  const MemoryBytes again(std::as_bytes(std::span(text)));
  const std::vector<ArchiveMember> same = read_archive(again, problems = {});
  require(problems.empty() && same.size() == members.size());
  for (std::size_t i = 0; i < same.size(); ++i) {
    require(same[i].name == members[i].name && same[i].where.size == members[i].where.size);
    const std::vector<std::byte> content = bytes.copy(members[i].where);
    const std::vector<std::byte> copied = again.copy({same[i].where.offset, content.size()});
    require(content == copied);
  }
  return 0;
}
