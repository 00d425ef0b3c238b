// NVIDIA's own libraries each hold a private CUDA runtime by design, and its driver must never be shipped, so both
// have to be known for what they are. A file's name proves nothing: wheel tools rename files, and anybody can call
// a library libcuda.so.1. So the soname has to be in a table, and the file's own version node or exports agree.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "companions.hpp"
#include "inspect_record.hpp"

namespace cudeploy {

/// A function that other objects can bind to: defined, global or weak, default visibility.
struct ExportedFunction {
  std::string name;
  bool weak = false;
};

/// What costs time, and is asked for only where it decides.
struct VendorClues {
  std::function<const std::vector<ExportedFunction>&()> exports;
  std::function<bool(std::string_view)> holds_text;  ///< in the file's data
  TextSearch texts;                                  ///< in the file's data
  bool names_driver_api = false;                     ///< the dynamic names hold cuInit, as an export or an import
};

/// Reads type, soname, needs and version definitions of `record`, and its runtime copies. `opens` is filled too.
std::optional<Vendor> recognise_vendor(const FileRecord& record, const VendorClues& clues);

/// "libcublas" of libcublas.so.13 and of libcublas-1f2e3d4c.so.13.1.0.3; empty for other names.
std::string_view library_stem(std::string_view soname);

}  // namespace cudeploy
