// PTX: text of any length, with comments and strings that may never end.
#include "ptx.hpp"

#include <algorithm>

#include "hostile_input.hpp"

using cudeploy::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cudeploy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const MemoryBytes bytes({reinterpret_cast<const std::byte*>(data), size});
  std::string fault;
  const auto facts = read_ptx_facts(text, fault);
  require(facts.has_value() == fault.empty());
  if (facts) {
    require(std::is_sorted(facts->kernels.begin(), facts->kernels.end()));
    for (const auto& name : facts->kernels) require(!name.empty() && text.find(name) != std::string_view::npos);
    require(facts->variant.size() <= 1);
    // The quick search and the careful walk, which a comment at the end asks for, name the same kernels. Text that
    // ends inside a string or a line comment would hide that comment.
    const auto body = text.substr(0, text.find('\0'));
    if (body.find("/*") == std::string_view::npos && body.find('"') == std::string_view::npos) {
      const auto careful = read_ptx_facts(std::string(body) + "\n/**/", fault);
      require(careful && careful->kernels == facts->kernels);
    }
  }
  std::vector<Problem> problems;
  if (looks_like_ptx(bytes, {0, size}))
    require(read_ptx(bytes, {0, size}, std::nullopt, {}, problems).images.size() == 1);
  return 0;
}
