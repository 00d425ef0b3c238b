// PE headers and tables, and the search for runtimes behind them. The last byte of the input chooses whether the file
// shrank since it was opened.
#include "pe.hpp"

#include "hostile_input.hpp"
#include "runtime_copies.hpp"

using cudeploy::require;
using cudeploy::Shrunk;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cudeploy;
  const MemoryBytes memory({reinterpret_cast<const std::byte*>(data), size});
  const Shrunk bytes(memory, size != 0 && data[size - 1] & 1 ? 5000 : 0);
  std::vector<Problem> problems;
  if (!looks_like_pe(bytes)) return 0;
  const auto layout = read_pe_layout(bytes, problems);
  require(layout || !problems.empty());
  if (!layout) return 0;
  std::vector<Extent> constants;
  for (const PeSection& section : layout->sections) {
    require(bytes.holds(section.where));
    if (section.is_data() && !section.is_writable()) constants.push_back(section.where);
  }
  for (const auto* names : {&layout->imports, &layout->delayed_imports}) {
    require(names->size() <= 1024);
    for (const std::string& name : *names) require(!name.empty() && name.size() <= 260);
  }
  require(pe_exports(bytes, *layout).size() <= 1 << 16);
  const std::vector<Found> marks = find_bytes(bytes, constants, runtime_marks(Format::pe));
  FileRecord record;
  record.format = Format::pe;
  record.type = "shared";
  record.soname = layout->export_name;
  record.needed = layout->imports;
  RuntimeClues clues;
  clues.hybrid_loader = find_hybrid_loader(marks);
  clues.exported_api = [&] { return pe_exports(bytes, *layout).size(); };
  runtime_copies(find_callback_tables(bytes, memory_view(*layout), marks, problems), record, clues);
  return 0;
}
