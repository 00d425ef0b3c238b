# Windows without Windows: clang and lld-link write objects and DLLs as Microsoft's compiler does. Microsoft's own headers and
# libraries are not there, so what NVIDIA's library asks them for stays open.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_COMPILER clang)
set(CMAKE_CXX_COMPILER_TARGET x86_64-pc-windows-msvc)
set(CMAKE_CXX_STANDARD_LIBRARIES "" CACHE STRING "")
set(CMAKE_SHARED_LINKER_FLAGS "-nostdlib -Wl,/noentry -Wl,/nodefaultlib -Wl,/force:unresolved" CACHE STRING "")
