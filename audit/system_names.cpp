#include "system_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "inspect_record.hpp"

namespace cudeploy {
namespace {

// The user-mode driver must match the kernel module, so nothing but the driver may bring these.
// Sources: file lists of NVIDIA's driver packages (README of the Linux driver, "Installed Components").
constexpr std::array<std::string_view, 12> driver_names = {
    "libcuda",         "libcudadebugger", "libnvcuvid",          "libnvoptix",
    "libGLX_nvidia",   "libEGL_nvidia",   "libGLESv1_CM_nvidia", "libGLESv2_nvidia",
    "libvdpau_nvidia", "libnvidia-ml",    "libnvidia-encode",    "libnvidia-fbc"};
constexpr std::array<std::string_view, 11> driver_dlls = {
    "nvcuda.dll",  "nvml.dll",          "nvcudart_hybrid64.dll", "nvcudart_hybrida64.dll",
    "nvapi64.dll", "nvcuvid.dll",       "nvoptix.dll",           "nvofapi64.dll",
    "nvfbc64.dll", "nvencodeapi64.dll", "nvptxjitcompiler64.dll"};

constexpr std::array<std::string_view, 13> base_names = {
    "libc.so.6",      "libm.so.6",   "libmvec.so.1",  "libdl.so.2",     "libpthread.so.0", "librt.so.1", "libutil.so.1",
    "libresolv.so.2", "libanl.so.1", "libgcc_s.so.1", "libstdc++.so.6", "linux-vdso.so.1", "libc.so"};
constexpr std::array<std::string_view, 3> base_prefixes = {"ld-linux", "ld-musl", "libc.musl-"};
// Windows 10 has these in System32; OpenCL.dll comes with each vendor's driver.
constexpr std::string_view base_dlls =
    " advapi32.dll avrt.dll bcrypt.dll bcryptprimitives.dll cabinet.dll cfgmgr32.dll comctl32.dll comdlg32.dll "
    "credui.dll crypt32.dll d2d1.dll d3d10.dll d3d11.dll d3d12.dll d3d9.dll d3dcompiler_47.dll dbgeng.dll dbghelp.dll "
    "dcomp.dll "
    "ddraw.dll dinput8.dll dnsapi.dll dsound.dll dwmapi.dll dwrite.dll dxgi.dll dxva2.dll gdi32.dll gdiplus.dll "
    "glu32.dll hid.dll imagehlp.dll imm32.dll iphlpapi.dll kernel32.dll kernelbase.dll mf.dll mfplat.dll "
    "mfreadwrite.dll mpr.dll msi.dll "
    "msimg32.dll msvcrt.dll msvfw32.dll mswsock.dll ncrypt.dll netapi32.dll normaliz.dll ntdll.dll ole32.dll "
    "oleacc.dll oleaut32.dll opencl.dll opengl32.dll pdh.dll powrprof.dll propsys.dll psapi.dll rpcrt4.dll "
    "rstrtmgr.dll "
    "secur32.dll setupapi.dll shcore.dll shell32.dll shlwapi.dll sspicli.dll tdh.dll ucrtbase.dll urlmon.dll "
    "user32.dll "
    "userenv.dll usp10.dll uxtheme.dll version.dll windowscodecs.dll winhttp.dll wininet.dll winmm.dll "
    "winspool.drv wintrust.dll wldap32.dll ws2_32.dll wsock32.dll wtsapi32.dll xmllite.dll ";
// The Visual C++ redistributable stands to Windows as libstdc++ to Linux.
constexpr std::array<std::string_view, 7> base_dll_prefixes = {"api-ms-win-", "ext-ms-",  "vcruntime140", "msvcp140",
                                                               "concrt140",   "vcomp140", "vccorlib140"};

/// "libcuda-984fdb42.so.570" -> "libcuda.so.570": repaired wheels carry a hash of the content in the name.
std::string without_hash(std::string_view name) {
  const std::size_t so = name.find(".so");
  constexpr std::size_t hash = 8;
  if (so == std::string_view::npos || so < hash + 2 || name[so - hash - 1] != '-') return std::string(name);
  const std::string_view word = name.substr(so - hash, hash);
  if (!std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isxdigit(c); }))
    return std::string(name);
  return std::string(name.substr(0, so - hash - 1)) + std::string(name.substr(so));
}

}  // namespace

bool is_dll_name(std::string_view name) {
  const std::string file = windows_name(name);
  return file.ends_with(".dll") || file.ends_with(".drv");
}

bool is_driver_name(std::string_view given) {
  if (is_dll_name(given)) {
    const std::string name = windows_name(given);
    return std::find(driver_dlls.begin(), driver_dlls.end(), name) != driver_dlls.end();
  }
  const std::string name = without_hash(given);
  const std::size_t so = name.find(".so");
  if (so == std::string::npos || (so + 3 != name.size() && name[so + 3] != '.')) return false;
  const std::string_view stem = std::string_view(name).substr(0, so);
  if (stem.starts_with("libnvidia-")) return true;
  return std::find(driver_names.begin(), driver_names.end(), stem) != driver_names.end();
}

bool is_base_system_name(std::string_view given) {
  if (is_dll_name(given)) {
    const std::string name = windows_name(given);
    return (base_dlls.find(" " + name + " ") != std::string_view::npos && name.find(' ') == std::string::npos) ||
           std::any_of(base_dll_prefixes.begin(), base_dll_prefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
  }
  return std::find(base_names.begin(), base_names.end(), given) != base_names.end() ||
         std::any_of(base_prefixes.begin(), base_prefixes.end(),
                     [&](std::string_view prefix) { return given.starts_with(prefix); });
}

}  // namespace cudeploy
