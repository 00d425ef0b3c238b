#include "companions.hpp"

#include <algorithm>
#include <set>

namespace cudeploy {
namespace {

struct Row {
  std::string_view stem;   ///< of the library that opens
  std::string_view begin;  ///< of the names that it opens
  std::string_view end;    ///< how such a name ends; "": in a version
  bool always;             ///< false where only some functions want it
  std::string_view wanted_for;
  std::string_view source;
};

constexpr std::string_view kNvrtc =
    "dlopen seen with LD_DEBUG=libs, error 7 without it: CUDA 13.0.88; same text in 11.8.89, 12.4.127, 13.5.37";
constexpr std::string_view kNvrtcWindows = "texts in nvrtc64_120_0.dll of CUDA 12.9.86, nvrtc64_130_0.dll of 13.5.37";
constexpr std::string_view kCudnnShim = "dlopen seen with LD_DEBUG=libs: cuDNN 9.19";
constexpr std::string_view kCudnnWindows = "texts in cudnn64_9.dll of the wheel ctranslate2 4.8.5 for Windows";
constexpr std::string_view kCudnnGraph =
    "texts in libcudnn_graph 9.19; cuDNN documentation, library configuration: the default takes all; "
    "pytorch/pytorch#185512 (engines_tensor_ir)";
constexpr std::string_view kCudnnGraphWindows = "texts in cudnn_graph64_9.dll of nvidia-cudnn-cu12 9.28 for Windows";
constexpr std::string_view kCudnnOthers =
    "texts in cuDNN 9.19; cuDNN documentation, building and running: 'required by dlopen() at runtime when using …'";
constexpr std::string_view kCufft =
    "texts in libcufft of CUDA 13.0.88; cuFFT documentation, LTO callbacks, software requirements";
constexpr std::string_view kCusparse = "texts in libcusparse of the Python package nvidia-cusparse 12.9.4.2";
constexpr std::string_view kCufile =
    "texts in the Python packages nvidia-cufile-cu12 1.14.1.1 and nvidia-cufile 1.20.0";
constexpr std::string_view kCupti = "texts in libcupti of CUDA 13.0.88";

// cuBLAS needs cuBLASLt, and cuSOLVER and cuSPARSE up to CUDA 13.0 need nvJitLink, in the ordinary way. The plugins of
// NCCL and what comes with the driver or the system (libnvcuvid of nvJPEG, libibverbs of NCCL) ship with nobody.
constexpr Row kRows[] = {
    {"libnvrtc", "libnvrtc-builtins.so.", "", true, "every compilation", kNvrtc},
    {"libnvrtc.alt", "libnvrtc-builtins.alt.so.", "", true, "every compilation", kNvrtc},
    {"nvrtc", "nvrtc-builtins", ".dll", true, "every compilation", kNvrtcWindows},
    {"libcudnn", "libcudnn_", ".so", true, "the functions of that part", kCudnnShim},
    {"cudnn", "cudnn_", ".dll", true, "the functions of that part", kCudnnWindows},
    {"libcudnn_graph", "libcudnn_", ".so", true, "running a graph", kCudnnGraph},
    {"cudnn_graph", "cudnn_", ".dll", true, "running a graph", kCudnnGraphWindows},
    {"libcudnn_engines_precompiled", "libcublasLt.so.", "", false, "some matrix and convolution engines", kCudnnOthers},
    {"libcudnn_engines_precompiled", "libnvrtc.so.", "", false, "engines compiled at run time", kCudnnOthers},
    {"libcudnn_adv", "libcublasLt.so.", "", false, "recurrent networks and attention", kCudnnOthers},
    {"libcufft", "libnvrtc.so.", "", false, "code made at run time", kCufft},
    {"libcufft", "libnvJitLink.so.", "", false, "LTO callbacks, code made at run time", kCufft},
    {"libcusparse", "libnvJitLink.so.", "", false, "operators compiled at run time", kCusparse},
    {"libcufile", "libcufile_rdma.so.", "", false, "RDMA", kCufile},
    {"libcupti", "libnvperf_host.so", "", false, "profiling", kCupti},
};

/// Whether the whole text is such a name, and no sentence with one in it.
bool is_name(std::string_view text, const Row& row) {
  if (!text.starts_with(row.begin) || !text.ends_with(row.end)) return false;
  text.remove_prefix(row.begin.size());
  if (row.end.empty()) {
    if (!row.begin.ends_with('.')) return text.empty();
    return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos && text.back() != '.';
  }
  text.remove_suffix(std::min(row.end.size(), text.size()));
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == std::string_view::npos;
}

/// ".9" of libcudnn_graph.so.9.19.0. cuDNN tries its parts with the whole version and then with less and less of it.
std::string major_of(std::string_view soname) {
  const std::size_t at = soname.find(".so.");
  return at == std::string_view::npos ? "" : std::string(soname.substr(at + 3, soname.find('.', at + 4) - at - 3));
}

}  // namespace

std::vector<Companion> companions_of(const FileRecord& record, std::string_view stem, const TextSearch& texts) {
  std::vector<const Row*> rows;
  std::vector<std::string_view> begins;
  for (const Row& row : kRows) {
    if (row.stem != stem) continue;
    rows.push_back(&row);
    begins.push_back(row.begin);
  }
  if (rows.empty()) return {};
  std::set<std::string> had(record.needed.begin(), record.needed.end());
  if (record.soname) had.insert(*record.soname);
  std::vector<Companion> found;
  for (const std::string& text : texts(begins))
    for (const Row* row : rows) {
      if (!is_name(text, *row) || text.starts_with(std::string(stem) + ".so")) continue;
      std::string name = row->end == ".so" ? text + major_of(record.soname.value_or("")) : text;
      if (had.insert(name).second) found.push_back({std::move(name), row->always, std::string(row->wanted_for)});
    }
  std::sort(found.begin(), found.end(), [](const Companion& a, const Companion& b) { return a.name < b.name; });
  return found;
}

}  // namespace cudeploy
