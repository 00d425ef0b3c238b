#include "vendor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cudeploy {

namespace {

struct Row {
  std::string_view stem;  ///< of the soname
  std::string_view product;
  std::string_view node;                    ///< stem of its own version node; "" where the library has none
  std::array<std::string_view, 3> exports;  ///< instead of the node
  std::string_view source;                  ///< where both were read
};

constexpr std::string_view kToolkit13 = "CUDA 13.0.88, lib64";
constexpr std::string_view kStubs12 = "CUDA 12.4, lib64/stubs: same soname and version node as the library";
constexpr std::string_view kCudnn = "cuDNN 9.19, lib64";

constexpr Row kRows[] = {
    {"libcublas", "cuBLAS", "libcublas", {}, kToolkit13},
    {"libcublasLt", "cuBLAS", "libcublasLt", {}, kToolkit13},
    {"libnvblas", "cuBLAS", "libnvblas", {}, kToolkit13},
    {"libcudart", "CUDA runtime", "libcudart", {}, kToolkit13},
    {"libcufft", "cuFFT", "libcufft", {}, kToolkit13},
    {"libcufftw", "cuFFT", "libcufftw", {}, kToolkit13},
    {"libcurand", "cuRAND", "libcurand", {}, kToolkit13},
    {"libcusolver", "cuSOLVER", "libcusolver", {}, kToolkit13},
    {"libcusolverMg", "cuSOLVER", "libcusolverMg", {}, kToolkit13},
    {"libcusparse", "cuSPARSE", "libcusparse", {}, kToolkit13},
    {"libnvJitLink", "nvJitLink", "libnvJitLink", {}, kToolkit13},
    {"libnvrtc", "NVRTC", "libnvrtc", {}, kToolkit13},
    {"libnvrtc.alt", "NVRTC", "libnvrtc.alt", {}, kToolkit13},
    {"libnvrtc-builtins", "NVRTC", "libnvrtc-builtins", {}, kToolkit13},
    {"libnvrtc-builtins.alt", "NVRTC", "libnvrtc-builtins.alt", {}, kToolkit13},
    {"libnvvm", "NVVM", "", {"nvvmCreateProgram", "nvvmCompileProgram", "nvvmIRVersion"}, kToolkit13},
    {"libnvtx3interop", "NVTX", "libnvtx3interop", {}, kToolkit13},
    {"libcupti", "CUPTI", "libcupti", {}, kToolkit13},
    {"libcheckpoint", "CUPTI", "libcheckpoint", {}, kToolkit13},
    {"libpcsamplingutil", "CUPTI", "libpcsamplingutil", {}, kToolkit13},
    {"libnvperf_host", "CUPTI", "", {"NVPW_InitializeHost"}, kToolkit13},
    {"libnvperf_target", "CUPTI", "", {"NVPW_InitializeTarget"}, kToolkit13},
    {"libcudnn", "cuDNN", "libcudnn", {}, kCudnn},
    {"libcudnn_adv", "cuDNN", "libcudnn_adv", {}, kCudnn},
    {"libcudnn_cnn", "cuDNN", "libcudnn_cnn", {}, kCudnn},
    {"libcudnn_engines_precompiled", "cuDNN", "libcudnn_engines_precompiled", {}, kCudnn},
    {"libcudnn_engines_runtime_compiled", "cuDNN", "libcudnn_engines_runtime_compiled", {}, kCudnn},
    {"libcudnn_graph", "cuDNN", "libcudnn_graph", {}, kCudnn},
    {"libcudnn_heuristic", "cuDNN", "libcudnn_heuristic", {}, kCudnn},
    {"libcudnn_ops", "cuDNN", "libcudnn_ops", {}, kCudnn},
    {"libnccl", "NCCL", "", {"ncclCommInitRank", "ncclGetUniqueId", "ncclAllReduce"}, "NCCL 2 for CUDA 13.0, lib64"},
    {"libnvjpeg", "nvJPEG", "libnvjpeg", {}, "Python package nvidia-nvjpeg-cu12 12.4.0.76"},
    {"libnvfatbin",
     "nvFatbin",
     "",
     {"nvFatbinCreate", "nvFatbinAddCubin", "nvFatbinGet"},
     "Python package nvidia-nvfatbin-cu12 12.9.82"},
    {"libcufile",
     "cuFile",
     "",
     {"cuFileDriverOpen", "cuFileRead", "cuFileHandleRegister"},
     "Python package nvidia-cufile-cu12 1.14.1.1"},
    {"libnvshmem_host", "NVSHMEM", "NVSHMEM", {}, "Python package nvidia-nvshmem-cu12 3.8.0"},
    {"nvshmem_transport_gpunetio", "NVSHMEM", "", {"nvshmemt_init"}, "Python package nvidia-nvshmem-cu12 3.8.0"},
    {"nvshmem_transport_ibdevx", "NVSHMEM", "", {"nvshmemt_init"}, "Python package nvidia-nvshmem-cu12 3.8.0"},
    {"nvshmem_transport_ibgda", "NVSHMEM", "", {"nvshmemt_init"}, "Python package nvidia-nvshmem-cu12 3.8.0"},
    {"nvshmem_transport_ibrc", "NVSHMEM", "", {"nvshmemt_init"}, "Python package nvidia-nvshmem-cu12 3.8.0"},
    {"nvshmem_transport_libfabric", "NVSHMEM", "", {"nvshmemt_init"}, "Python package nvidia-nvshmem-cu12 3.8.0"},
    {"nvshmem_transport_ucx", "NVSHMEM", "", {"nvshmemt_init"}, "Python package nvidia-nvshmem-cu12 3.8.0"},
    {"libnppc", "NPP", "libnppc", {}, kStubs12},
    {"libnppial", "NPP", "libnppial", {}, kStubs12},
    {"libnppicc", "NPP", "libnppicc", {}, kStubs12},
    {"libnppidei", "NPP", "libnppidei", {}, kStubs12},
    {"libnppif", "NPP", "libnppif", {}, kStubs12},
    {"libnppig", "NPP", "libnppig", {}, kStubs12},
    {"libnppim", "NPP", "libnppim", {}, kStubs12},
    {"libnppist", "NPP", "libnppist", {}, kStubs12},
    {"libnppisu", "NPP", "libnppisu", {}, kStubs12},
    {"libnppitc", "NPP", "libnppitc", {}, kStubs12},
    {"libnpps", "NPP", "libnpps", {}, kStubs12},
};

/// A DLL has no version nodes: its name in its own export directory is a row's, and it exports the row's function.
struct DllRow {
  std::string_view stem;  ///< of the name, in small letters: "cublas" of cublas64_12.dll
  std::string_view product;
  std::string_view exported;
  std::string_view source;
};

constexpr std::string_view kWindows12 = "Python packages nvidia-*-cu12 of CUDA 12.9 for Windows";
constexpr std::string_view kWindowsCudnn = "Python package nvidia-cudnn-cu12 9.28.0.42 for Windows";
// All that some parts of cuDNN export is a C++ type of its own.
constexpr std::string_view kCudnnType = "??0dualDataType_t@@QEAA@AEBW4cudnnDataType_t@@@Z";

constexpr DllRow kDlls[] = {
    {"cublas", "cuBLAS", "cublasCreate_v2", kWindows12},
    {"cublaslt", "cuBLAS", "cublasLtCreate", kWindows12},
    {"nvblas", "cuBLAS", "dgemm_", kWindows12},
    {"cudart", "CUDA runtime", "cudaRuntimeGetVersion", kWindows12},
    {"cufft", "cuFFT", "cufftGetVersion", kWindows12},
    {"cufftw", "cuFFT", "fftw_plan_dft_1d", kWindows12},
    {"curand", "cuRAND", "curandGetVersion", kWindows12},
    {"cusolver", "cuSOLVER", "cusolverDnCreate", kWindows12},
    {"cusolvermg", "cuSOLVER", "cusolverMgCreate", kWindows12},
    {"cusparse", "cuSPARSE", "cusparseGetVersion", kWindows12},
    {"nvjitlink", "nvJitLink", "nvJitLinkVersion", kWindows12},
    {"nvrtc", "NVRTC", "nvrtcVersion", kWindows12},
    {"nvrtc-builtins", "NVRTC", "getBuiltinHeader", kWindows12},
    {"cupti", "CUPTI", "cuptiGetVersion", kWindows12},
    {"checkpoint", "CUPTI", "cuptiCheckpointSave", kWindows12},
    {"pcsamplingutil", "CUPTI", "CuptiUtilGetHeaderData", kWindows12},
    {"nvperf_host", "CUPTI", "NVPW_InitializeHost", kWindows12},
    {"nvperf_target", "CUPTI", "NVPW_InitializeTarget", kWindows12},
    {"nvjpeg", "nvJPEG", "nvjpegDecode", kWindows12},
    {"nvfatbin", "nvFatbin", "nvFatbinCreate", kWindows12},
    {"nppc", "NPP", "nppGetLibVersion", kWindows12},
    {"nppial", "NPP", "nppiAddC_8u_C1RSfs_Ctx", kWindows12},
    {"nppicc", "NPP", "nppiRGBToGray_8u_C3C1R_Ctx", kWindows12},
    {"nppidei", "NPP", "nppiSet_8u_C1R_Ctx", kWindows12},
    {"nppif", "NPP", "nppiFilter_8u_C1R_Ctx", kWindows12},
    {"nppig", "NPP", "nppiResize_8u_C1R_Ctx", kWindows12},
    {"nppim", "NPP", "nppiDilate3x3_8u_C1R_Ctx", kWindows12},
    {"nppist", "NPP", "nppiSum_8u_C1R_Ctx", kWindows12},
    {"nppisu", "NPP", "nppiMalloc_8u_C1", kWindows12},
    {"nppitc", "NPP", "nppiCompareC_8u_C1R_Ctx", kWindows12},
    {"npps", "NPP", "nppsAddC_32f_Ctx", kWindows12},
    {"cudnn", "cuDNN", "cudnnGetVersion", kWindowsCudnn},
    {"cudnn_adv", "cuDNN", "cudnnAdvVersionCheck", kWindowsCudnn},
    {"cudnn_cnn", "cuDNN", "cudnnCnnVersionCheck", kWindowsCudnn},
    {"cudnn_graph", "cuDNN", "cudnnGraphVersionCheck", kWindowsCudnn},
    {"cudnn_ops", "cuDNN", "cudnnOpsVersionCheck", kWindowsCudnn},
    {"cudnn_ext", "cuDNN", "cudnnCausalConv1dForward", kWindowsCudnn},
    {"cudnn_engines_precompiled", "cuDNN", kCudnnType, kWindowsCudnn},
    {"cudnn_engines_runtime_compiled", "cuDNN", kCudnnType, kWindowsCudnn},
    {"cudnn_engines_tensor_ir", "cuDNN", kCudnnType, kWindowsCudnn},
    {"cudnn_heuristic", "cuDNN", kCudnnType, kWindowsCudnn},
};

// Core of the driver API: in the drivers 535, in the stubs of 11.8, 12.4 and 13.0 and in cuda.h since CUDA 4.
constexpr std::array<std::string_view, 5> kDriverApi = {"cuInit", "cuDriverGetVersion", "cuCtxGetCurrent",
                                                        "cuModuleLoadData", "cuLaunchKernel"};

bool exports_function(const VendorClues& clues, std::string_view name) {
  const auto& exports = clues.exports();
  return std::any_of(exports.begin(), exports.end(), [&](const ExportedFunction& f) { return f.name == name; });
}

template <typename Names>
bool exports_all(const VendorClues& clues, const Names& names) {
  return std::all_of(names.begin(), names.end(),
                     [&](std::string_view name) { return name.empty() || exports_function(clues, name); });
}

/// The driver is known by what it offers and opens, whatever its name: auditwheel ships it as
/// libcuda-984fdb42.so.570.133.07. The stub is no bearer of the words "stub library" (the driver and each runtime
/// are: it is the text of error 34); it is the one that offers the API and needs nothing, not even the C library.
std::optional<Vendor> recognise_driver(const FileRecord& record, std::string_view stem, const VendorClues& clues) {
  if (stem == "libnvidia-ptxjitcompiler" && exports_function(clues, "__cuda_CallJitEntryPoint")) {
    return Vendor{Vendor::Role::driver, "CUDA driver, PTX compiler", "exports __cuda_CallJitEntryPoint", {}};
  }
  if (stem == "libnvidia-ml" && exports_function(clues, "nvmlInit_v2")) {
    if (clues.holds_text("is a stub library")) {
      return Vendor{Vendor::Role::driver_stub, "NVML stub", "exports nvmlInit_v2, says that it is a stub library", {}};
    }
    return Vendor{Vendor::Role::driver, "NVML", "exports nvmlInit_v2", {}};
  }
  if (!clues.names_driver_api || !exports_all(clues, kDriverApi)) return std::nullopt;
  if (clues.holds_text("/dev/nvidia")) {
    return Vendor{Vendor::Role::driver, "CUDA driver", "exports the driver API, opens /dev/nvidia…", {}};
  }
  if (record.needed.empty()) {
    return Vendor{
        Vendor::Role::driver_stub, "CUDA driver stub", "exports the driver API, needs no library, opens no device", {}};
  }
  return std::nullopt;
}

/// "cublas" of cublas64_12.dll, "nvrtc" of nvrtc64_120_0.alt.dll, "nvjitlink" of nvJitLink_120_0.dll.
std::string dll_stem(std::string_view name) {
  std::string stem = windows_name(name);
  for (const std::string_view end : {".dll", ".alt"}) {
    if (stem.ends_with(end)) stem.resize(stem.size() - end.size());
  }
  stem.resize(stem.find_last_not_of("0123456789._") + 1);
  return stem;
}

}  // namespace

std::string_view library_stem(std::string_view soname) {
  std::size_t end = soname.find(".so");
  if (end == std::string_view::npos || (end + 3 < soname.size() && soname[end + 3] != '.')) return {};
  std::string_view stem = soname.substr(0, end);
  // auditwheel appends the first eight digits of the file's SHA-256
  std::size_t dash = stem.rfind('-');
  if (dash != std::string_view::npos && stem.size() - dash == 9 &&
      stem.find_first_not_of("0123456789abcdef", dash + 1) == std::string_view::npos) {
    stem = stem.substr(0, dash);
  }
  return stem;
}

namespace {

bool is_stand_in(const FileRecord& record) {
  return std::any_of(record.runtime_copies.begin(), record.runtime_copies.end(),
                     [](const RuntimeCopy& copy) { return copy.kind == RuntimeCopyKind::stand_in; });
}

std::optional<Vendor> recognise_dll(const FileRecord& record, const VendorClues& clues) {
  if (!record.soname || is_stand_in(record)) return std::nullopt;
  const std::string stem = dll_stem(*record.soname);
  for (const DllRow& row : kDlls) {
    if (row.stem == stem && exports_function(clues, row.exported))
      return Vendor{Vendor::Role::toolkit, std::string(row.product),
                    fmt::format("calls itself {}, exports {}", *record.soname, row.exported),
                    companions_of(record, stem, clues.texts)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Vendor> recognise_vendor(const FileRecord& record, const VendorClues& clues) {
  if (record.type != "shared") return std::nullopt;
  if (record.format == Format::pe) return recognise_dll(record, clues);
  std::string_view stem = record.soname ? library_stem(*record.soname) : std::string_view{};
  if (auto driver = recognise_driver(record, stem, clues)) return driver;
  for (const Row& row : kRows) {
    if (row.stem != stem) continue;
    if (row.node.empty()) {
      if (!exports_all(clues, row.exports)) return std::nullopt;
      return Vendor{Vendor::Role::toolkit, std::string(row.product),
                    fmt::format("soname {}, exports {}", *record.soname, row.exports.front()),
                    companions_of(record, stem, clues.texts)};
    }
    for (const std::string& node : record.version_definitions) {
      if (node != row.node && library_stem(node) != row.node) continue;
      if (is_stand_in(record)) return std::nullopt;
      return Vendor{Vendor::Role::toolkit, std::string(row.product),
                    fmt::format("soname {}, version node {}", *record.soname, node),
                    companions_of(record, stem, clues.texts)};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace cudeploy
