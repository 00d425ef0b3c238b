# Compiler, headers and runtime archive must be of ONE toolkit, and nothing in CMake sees to it. NVIDIA's Python packages
# hold no unversioned libcudart.so, so FindCUDAToolkit falls to a system folder, which then is the first hint for every
# other library: headers of 13.5 with an archive of 13.0, silently. What people meet later: unresolved __cuda symbols,
# a ptxas that rejects its own PTX, wrong results. So the libraries are looked for beside the compiler first, and the
# archive is asked for its own version. Including this file has no effect.
include_guard(GLOBAL)

# _cudeploy_find_toolkit(<result>): notes the toolkit of this project in the global properties CUDEPLOY_CUDART_STATIC,
# CUDEPLOY_CUDART_SHARED, CUDEPLOY_CUDADEVRT, CUDEPLOY_CUDA_INCLUDE (paths; empty where not there); <result> is empty, or
# why there is none. To be called before find_package(CUDAToolkit): what that one would pair wrongly is then set right.
function(_cudeploy_find_toolkit result)
  set(${result} "" PARENT_SCOPE)
  if(CMAKE_CUDA_COMPILER_LOADED AND CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
    set_property(GLOBAL PROPERTY CUDEPLOY_NVCC "${CMAKE_CUDA_COMPILER}" "${CMAKE_CUDA_COMPILER_VERSION}")
    set(include_dirs ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
    set(library_dirs ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES})
    # nvcc 13.0 of the Python packages looks in lib64, and they only have lib: beside its headers, as below.
    foreach(dir IN LISTS include_dirs)
      list(APPEND library_dirs "${dir}/../lib64" "${dir}/../lib")
    endforeach()
    string(REGEX MATCH "^[0-9]+" major "${CMAKE_CUDA_COMPILER_VERSION}")
  else()
    # FindCUDAToolkit finds no toolkit where there is no file named libcudart.so: in NVIDIA's Python packages.
    set(roots ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_PATH})
    find_program(nvcc nvcc NO_CACHE)
    if(NOT roots AND nvcc)
      file(REAL_PATH "${nvcc}" nvcc)
      cmake_path(GET nvcc PARENT_PATH roots)
      cmake_path(GET roots PARENT_PATH roots)
    endif()
    find_library(CUDA_CUDART NAMES cudart libcudart.so.13 libcudart.so.12 libcudart.so.11.0 PATHS ${roots}
      PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
    find_package(CUDAToolkit QUIET)
    if(NOT CUDAToolkit_FOUND)
      set(${result} "no CUDA compiler is enabled, and no CUDA toolkit was found (-DCUDAToolkit_ROOT=<folder>)" PARENT_SCOPE)
      return()
    endif()
    set(include_dirs ${CUDAToolkit_INCLUDE_DIRS})
    # The library folder that belongs to these headers, whatever CUDA_CUDART led to: lib64 and lib of full
    # toolkits, lib of the Python packages, targets/<platform>/lib of conda.
    set(library_dirs "")
    foreach(dir IN LISTS include_dirs)
      list(APPEND library_dirs "${dir}/../lib64" "${dir}/../lib" "${dir}/../lib/x64")
    endforeach()
    list(APPEND library_dirs ${CUDAToolkit_LIBRARY_DIR})
    string(REGEX MATCH "^[0-9]+" major "${CUDAToolkit_VERSION}")
  endif()

  # The names of FindCUDAToolkit's own cache entries: what a user sets there is respected (and checked), and what is
  # found here keeps that module from pairing another toolkit's files with this compiler.
  foreach(entry IN ITEMS CUDA_CUDART CUDA_cudart_LIBRARY)
    find_library(${entry} NAMES cudart libcudart.so.${major} PATHS ${library_dirs} NO_DEFAULT_PATH)
  endforeach()
  find_library(CUDA_cudart_static_LIBRARY NAMES cudart_static PATHS ${library_dirs} NO_DEFAULT_PATH)
  find_library(CUDEPLOY_CUDADEVRT_LIBRARY NAMES cudadevrt PATHS ${library_dirs} NO_DEFAULT_PATH)
  find_path(CUDEPLOY_CUDA_INCLUDE_DIR NAMES cuda_runtime_api.h PATHS ${include_dirs} NO_DEFAULT_PATH)
  mark_as_advanced(CUDA_CUDART CUDA_cudart_LIBRARY CUDA_cudart_static_LIBRARY CUDEPLOY_CUDADEVRT_LIBRARY
    CUDEPLOY_CUDA_INCLUDE_DIR)
  foreach(pair IN ITEMS CUDART_STATIC=CUDA_cudart_static_LIBRARY CUDART_SHARED=CUDA_cudart_LIBRARY
                        CUDADEVRT=CUDEPLOY_CUDADEVRT_LIBRARY CUDA_INCLUDE=CUDEPLOY_CUDA_INCLUDE_DIR)
    string(REPLACE "=" ";" pair "${pair}")
    list(GET pair 0 property)
    list(GET pair 1 entry)
    set(value "")
    if(${entry})
      set(value "${${entry}}")
    endif()
    set_property(GLOBAL PROPERTY CUDEPLOY_${property} "${value}")
  endforeach()
  if(NOT CUDEPLOY_CUDA_INCLUDE_DIR)
    list(JOIN include_dirs " " looked)
    set(${result} "no cuda_runtime_api.h in ${looked}" PARENT_SCOPE)
  endif()
endfunction()

# _cudeploy_add_toolkit_runtime(shared|static): makes the imported target cudeploy::runtime_<kind>, NVIDIA's runtime as it is,
# unless it is there or the toolkit lacks it. A name, not paths: exported libraries would carry this machine's paths.
function(_cudeploy_add_toolkit_runtime kind)
  string(TOUPPER "CUDEPLOY_CUDART_${kind}" property)
  get_property(runtime GLOBAL PROPERTY ${property})
  if(NOT runtime OR TARGET cudeploy::runtime_${kind})
    return()
  endif()
  # CUDA_RUNTIME_LIBRARY None drops cudadevrt too, and kernels that launch kernels need it.
  get_property(libraries GLOBAL PROPERTY CUDEPLOY_CUDADEVRT)
  list(APPEND libraries "${runtime}")
  if(kind STREQUAL "static" AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
    list(APPEND libraries pthread dl rt)
  endif()
  add_library(cudeploy::runtime_${kind} INTERFACE IMPORTED GLOBAL)
  set_target_properties(cudeploy::runtime_${kind} PROPERTIES INTERFACE_LINK_LIBRARIES "${libraries}")
endfunction()

# _cudeploy_check_one_toolkit(<library>...): asks each runtime library (static archive or shared) for its own version and
# stops unless it is the headers' and the compiler's, and that of the programs which the compiler calls. Needs C or C++ for the
# libraries. Answers are kept in the cache. NVIDIA's headers in crt/ carry no version: whether they belong to the
# compiler is not known.
function(_cudeploy_check_one_toolkit)
  get_property(include GLOBAL PROPERTY CUDEPLOY_CUDA_INCLUDE)
  _cudeploy_release_of_headers(headers "${include}")
  if(NOT headers)
    message(FATAL_ERROR "cudeploy: ${include}/cuda_runtime_api.h: no CUDART_VERSION in it\n"
      "  hint: the headers of a CUDA toolkit of 11.2 or newer are needed")
  endif()
  set_property(GLOBAL PROPERTY CUDEPLOY_CUDA_VERSION "${headers}")
  set(parts "  headers   ${headers}  ${include}/cuda_runtime_api.h")
  set(differs FALSE)
  if(CMAKE_CUDA_COMPILER_LOADED AND CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
    string(REGEX MATCH "^[0-9]+\\.[0-9]+" compiler "${CMAKE_CUDA_COMPILER_VERSION}")
    string(PREPEND parts "  compiler  ${compiler}  ${CMAKE_CUDA_COMPILER}\n")
    if(NOT compiler STREQUAL headers)
      set(differs TRUE)
    endif()
    _cudeploy_compiler_programs(programs)
    foreach(row IN LISTS programs)
      string(REGEX MATCH "^(.*)\t(.*)\t(.*)$" row "${row}")
      set(program "${CMAKE_MATCH_1}          ")
      string(SUBSTRING "${program}" 0 9 program)
      string(APPEND parts "\n  ${program} ${CMAKE_MATCH_2}  ${CMAKE_MATCH_3}")
      if(NOT CMAKE_MATCH_2 STREQUAL compiler)
        set(differs TRUE)
      endif()
    endforeach()
  endif()
  foreach(library IN LISTS ARGN)
    _cudeploy_library_version(version "${library}" "${include}")
    string(APPEND parts "\n  runtime   ${version}  ${library}")
    if(NOT version STREQUAL headers)
      set(differs TRUE)
    endif()
  endforeach()
  if(differs)
    message(FATAL_ERROR "cudeploy: ${ARGN}: compiler, headers and CUDA runtime are not of one toolkit [toolkit-mixed]\n"
      "${parts}\n"
      "  hint: take CUDA_cudart_static_LIBRARY and CUDA_cudart_LIBRARY out of the cache (or set them to the files of the "
      "compiler's toolkit), call find_package(cudeploy) before find_package(CUDAToolkit), and install the parts of the toolkit in one "
      "release: NVIDIA's Python packages do not pin each other")
  endif()
endfunction()

# The programs that nvcc calls, each as "name, release, path" with tabs between; those that cannot be found or do not answer are
# left out. NVIDIA's Python packages of different releases lie in one folder, and a ptxas rejects the PTX of a newer cicc.
function(_cudeploy_compiler_programs result)
  get_property(rows GLOBAL PROPERTY "_CUDEPLOY_PROGRAMS ${CMAKE_CUDA_COMPILER}")
  get_property(known GLOBAL PROPERTY "_CUDEPLOY_PROGRAMS ${CMAKE_CUDA_COMPILER}" SET)
  if(NOT known)
    execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --dryrun -c cudeploy_no_such_file.cu
      OUTPUT_QUIET ERROR_VARIABLE dry_run RESULT_VARIABLE failed)
    set(folders "")
    foreach(variable IN ITEMS CICC_PATH PATH)  # as nvcc sets them
      if(NOT failed AND dry_run MATCHES "\n#\\$ ${variable}=([^\n]*)")
        string(REPLACE ":" ";" folder "${CMAKE_MATCH_1}")
        list(APPEND folders ${folder})
      endif()
    endforeach()
    set(rows "")
    foreach(name IN ITEMS cudafe++ cicc ptxas fatbinary nvlink)
      unset(program)
      find_program(program NAMES ${name} PATHS ${folders} NO_DEFAULT_PATH NO_CACHE)
      if(program)
        _cudeploy_program_release(release ${name} "${program}")
        if(release)
          list(APPEND rows "${name}\t${release}\t${program}")
        endif()
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY "_CUDEPLOY_PROGRAMS ${CMAKE_CUDA_COMPILER}" "${rows}")
  endif()
  set(${result} "${rows}" PARENT_SCOPE)
endfunction()

function(_cudeploy_program_release result name program)
  file(REAL_PATH "${program}" real)
  file(SIZE "${real}" size)
  file(TIMESTAMP "${real}" changed "%s" UTC)
  string(MD5 key "${real} ${size} ${changed}")
  if(NOT DEFINED _CUDEPLOY_PROGRAM_RELEASE_${key})
    set(arguments --version)
    if(name STREQUAL "cicc")  # says it in the PTX that it writes
      set(source "${CMAKE_BINARY_DIR}/CMakeFiles/cudeploy/toolkit/empty.ii")
      file(WRITE "${source}" "")
      set(arguments "${source}" -o -)
    endif()
    execute_process(COMMAND "${program}" ${arguments} OUTPUT_VARIABLE output ERROR_VARIABLE output)
    set(release "")
    if(output MATCHES "Cuda compilation tools, release ([0-9]+\\.[0-9]+)")
      set(release "${CMAKE_MATCH_1}")
    endif()
    set(_CUDEPLOY_PROGRAM_RELEASE_${key} "${release}" CACHE INTERNAL "release of ${program}")
  endif()
  set(${result} "${_CUDEPLOY_PROGRAM_RELEASE_${key}}" PARENT_SCOPE)
endfunction()

# _cudeploy_release_of_headers(<result> <folder>): such as 13.0; empty where there are none. The file is long, so each is read once.
function(_cudeploy_release_of_headers result folder)
  get_property(known GLOBAL PROPERTY "_CUDEPLOY_HEADERS ${folder}" SET)
  if(NOT known)
    set(release "")
    if(EXISTS "${folder}/cuda_runtime_api.h")
      file(STRINGS "${folder}/cuda_runtime_api.h" line LIMIT_COUNT 1 REGEX "^#define CUDART_VERSION +[0-9]+")
      if(line MATCHES "([0-9]+)")
        _cudeploy_dotted_version(release ${CMAKE_MATCH_1})
      endif()
    endif()
    set_property(GLOBAL PROPERTY "_CUDEPLOY_HEADERS ${folder}" "${release}")
  endif()
  get_property(release GLOBAL PROPERTY "_CUDEPLOY_HEADERS ${folder}")
  set(${result} "${release}" PARENT_SCOPE)
endfunction()

function(_cudeploy_dotted_version result number)
  math(EXPR major "${number} / 1000")
  math(EXPR minor "${number} % 1000 / 10")
  set(${result} "${major}.${minor}" PARENT_SCOPE)
endfunction()

# The version that a runtime library says of itself. A file name, a folder or a header tell only what was expected.
function(_cudeploy_library_version result library include)
  file(REAL_PATH "${library}" real)
  file(SIZE "${real}" size)
  file(TIMESTAMP "${real}" changed "%s" UTC)
  string(MD5 key "${real} ${size} ${changed} ${include} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER}")
  if(DEFINED _CUDEPLOY_LIBRARY_VERSION_${key})
    set(${result} "${_CUDEPLOY_LIBRARY_VERSION_${key}}" PARENT_SCOPE)
    return()
  endif()
  if(CMAKE_CROSSCOMPILING)
    _cudeploy_version_by_names(version "${real}" "${include}")
  else()
    set(folder "${CMAKE_BINARY_DIR}/CMakeFiles/cudeploy/toolkit")
    if(CMAKE_CXX_COMPILER_LOADED)
      set(source "${folder}/version_${key}.cpp")
    elseif(CMAKE_C_COMPILER_LOADED)
      set(source "${folder}/version_${key}.c")
    else()
      message(FATAL_ERROR "cudeploy: ${library}: neither C nor C++ is enabled here, to ask this CUDA runtime for its version\n"
        "  hint: project(... LANGUAGES CXX CUDA)")
    endif()
    file(WRITE "${source}" "#include <cuda_runtime_api.h>\n#include <stdio.h>\n"
      "int main(void) {\n  int version = 0;\n  const int error = cudaRuntimeGetVersion(&version);\n"
      "  if (error == cudaSuccess) printf(\"%d\", version);\n  return error;\n}\n")
    set(system_libraries "")
    if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
      set(system_libraries pthread dl rt)
    endif()
    set(program "${folder}/version_${key}${CMAKE_EXECUTABLE_SUFFIX}")
    try_compile(compiled "${folder}" "${source}"
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${include}"
      LINK_LIBRARIES "${real}" ${system_libraries}
      OUTPUT_VARIABLE output COPY_FILE "${program}" COPY_FILE_ERROR copy_error)
    set(answer "")
    set(failed "")
    if(compiled AND NOT copy_error)
      cmake_path(GET real PARENT_PATH library_folder)
      execute_process(COMMAND "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${library_folder}" "${program}"
        OUTPUT_VARIABLE answer RESULT_VARIABLE failed ERROR_VARIABLE output)
    endif()
    if(compiled AND failed EQUAL 35)
      # Before CUDA 12 the runtime asks the driver first, and this machine has none.
      _cudeploy_version_by_names(version "${real}" "${include}")
    elseif(NOT answer MATCHES "^[0-9]+$")
      message(FATAL_ERROR "cudeploy: ${library}: this CUDA runtime does not answer cudaRuntimeGetVersion, built against \
${include}\n${output}\n  hint: is it a CUDA runtime of this platform, and do the headers belong to it?")
    endif()
    if(answer MATCHES "^[0-9]+$")
      _cudeploy_dotted_version(version ${answer})
    endif()
  endif()
  set(_CUDEPLOY_LIBRARY_VERSION_${key} "${version}" CACHE INTERNAL "version of ${library}")
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# For a runtime that cannot be run here, as when cross-compiling: a runtime as new as the headers has every function that they declare. It is
# then called by the headers' version; one that lacks a name is older. A newer one shows no difference, so the folders
# are compared too.
function(_cudeploy_version_by_names result library include)
  file(STRINGS "${include}/cuda_runtime_api.h" line REGEX "^#define CUDART_VERSION +[0-9]+")
  string(REGEX MATCH "[0-9]+" number "${line}")
  _cudeploy_dotted_version(version ${number})
  file(STRINGS "${include}/cuda_runtime_api.h" declared REGEX "CUDARTAPI +cuda[A-Z][A-Za-z0-9_]*\\(")
  list(TRANSFORM declared REPLACE "^.*CUDARTAPI +(cuda[A-Z][A-Za-z0-9_]*)\\(.*$" "\\1")
  file(STRINGS "${library}" defined REGEX "^_?_?cuda[A-Z][A-Za-z0-9_]*$")
  set(missing ${declared})
  list(REMOVE_ITEM missing ${defined})
  if(WIN32)  # declared there too, though NvSci does not exist for Windows
    list(FILTER missing EXCLUDE REGEX NvSci)
  endif()
  list(LENGTH missing count)
  file(REAL_PATH "${include}" include_root)
  cmake_path(GET include_root PARENT_PATH include_root)
  cmake_path(IS_PREFIX include_root "${library}" NORMALIZE beside)
  if(count GREATER 0)
    set(version "older (lacks ${count} functions)")
  elseif(NOT beside)
    set(version "unknown (lies outside ${include_root})")
  endif()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()
