// Some libraries no bundle has to bring, and some none may bring: those of the driver must match its kernel module,
// and those of the base system are where a program can run at all. A name tells which.
#pragma once

#include <string_view>

namespace cudeploy {

/// Whether a needed name is one of Windows': WINSPOOL.DRV is a library too. Their names are the same in any case.
bool is_dll_name(std::string_view name);

/// A soname or file name that only the NVIDIA driver may bring; hashed names of repaired wheels
/// (libcuda-984fdb42.so.570.133.07) too.
bool is_driver_name(std::string_view name);

/// Sonames that each machine has which can run a program at all: glibc's own, the loader, libgcc_s and libstdc++;
/// on Windows the system's DLLs and the Visual C++ runtime.
bool is_base_system_name(std::string_view name);

}  // namespace cudeploy
