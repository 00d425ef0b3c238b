// Cubins: a few headers that lead to tables, names and notes.
#include "cubin.hpp"

#include "hostile_input.hpp"

using cudeploy::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cudeploy;
  const std::span<const std::byte> input{reinterpret_cast<const std::byte*>(data), size};
  const MemoryBytes bytes(input);
  compat_says_arch_specific(input);
  std::optional<CubinFacts> facts[3];
  for (const auto detail : {CubinDetail::headers, CubinDetail::kernel_count, CubinDetail::kernels}) {
    std::string fault;
    auto& out = facts[static_cast<int>(detail)];
    out = read_cubin_facts(bytes, {0, size}, detail, fault);
    require(out.has_value() == fault.empty());
    if (!out) continue;
    require(out->size <= size && looks_like_cubin(bytes, {0, size}));
    require(detail != CubinDetail::kernels || out->kernels.size() == out->kernel_count);
  }
  // Asking for more changes nothing that was known.
  if (facts[2])
    require(facts[1] && facts[1]->kernel_count == facts[2]->kernel_count && facts[1]->toolkit == facts[2]->toolkit);
  if (facts[1]) require(facts[0] && facts[0]->size == facts[1]->size && facts[0]->arch == facts[1]->arch);
  std::vector<Problem> problems;
  require(read_cubin(bytes, {0, size}, std::nullopt, {}, problems).size <= size);
  return 0;
}
