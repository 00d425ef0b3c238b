#[=======================================================================[.rst:
cudeploy_embed_fatbin
---------------------

.. versionadded:: 1.0

Device code as a C symbol, for programs that open the driver themselves and link no CUDA runtime.

.. code-block:: cmake

  cudeploy_embed_fatbin(<target> NAME <symbol> SOURCES <file>... GPUS <gpu>... [PTX <gpu>...|none] [DRIVER <version>]
                        [OPTIONS <nvcc option>...])

The sources of <target> can then ``#include "<symbol>.h"``, which declares for C and C++

.. code-block:: c

  extern const unsigned char <symbol>[];  /* a fat binary, aligned to 16 bytes, for cuLibraryLoadData or cuModuleLoadData */
  extern const size_t <symbol>_size;      /* bytes */

``NAME``
  The symbol: a C identifier, of which a target may have several; no keyword, and no name of a header that the
  compilers bring, which ``<symbol>.h`` would hide.
``SOURCES``
  CUDA files; several are compiled as one translation unit, in the given order, so that they make one fat binary.
``GPUS``, ``PTX``, ``DRIVER``
  As in :command:`cudeploy_device_code`.
``OPTIONS``
  More options for nvcc, such as ``-std=c++17``. Include folders and definitions of <target> are passed on, those of each
  configuration to a fat binary of its own; not those that are for one language alone, such as
  ``$<$<COMPILE_LANGUAGE:CUDA>:FAST=1>``: a warning names them, and they are said here, as ``-DFAST=1``.

The language CUDA need not be enabled; then nvcc is that of the CUDA toolkit that find_package(CUDAToolkit) finds, and its host
compiler that of CMAKE_CUDA_HOST_COMPILER or of the environment's CUDAHOSTCXX, as for the language; else nvcc's own choice. The
symbols are hidden: they are seen by the program or library that they are linked into. The fat binary is made again when a
source, a header or an option changes. A second call with the same values does nothing.
#]=======================================================================]
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/nearest_word.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/gpu_choice.cmake")

function(cudeploy_embed_fatbin target)
  list(APPEND CMAKE_MESSAGE_CONTEXT "cudeploy_embed_fatbin")
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;DRIVER" "SOURCES;GPUS;PTX;OPTIONS")
  set(keywords NAME SOURCES GPUS PTX DRIVER OPTIONS)
  _cudeploy_check_target(cudeploy_embed_fatbin target "${target}"
    EXECUTABLE SHARED_LIBRARY MODULE_LIBRARY STATIC_LIBRARY OBJECT_LIBRARY)
  _cudeploy_check_leftovers(cudeploy_embed_fatbin arg ${keywords})
  foreach(keyword IN ITEMS NAME SOURCES GPUS)
    if(NOT arg_${keyword})
      message(FATAL_ERROR "cudeploy_embed_fatbin: ${target}: ${keyword} is missing\n"
        "  hint: cudeploy_embed_fatbin(${target} NAME kernels SOURCES kernels.cu GPUS 80 90 120)")
    endif()
  endforeach()
  if(NOT arg_NAME MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    message(FATAL_ERROR "cudeploy_embed_fatbin: ${target}: NAME is \"${arg_NAME}\", expected a C identifier\n"
      "  hint: letters, digits and _, not beginning with a digit")
  endif()
  _cudeploy_check_driver(cudeploy_embed_fatbin "${target}" "${arg_DRIVER}")
  _cudeploy_find_nvcc(cudeploy_embed_fatbin "${target}")
  _cudeploy_check_symbol("${target}" "${arg_NAME}")
  if(NOT DEFINED arg_PTX)
    set(arg_PTX "")
  endif()
  _cudeploy_choose_gpus(cudeploy_embed_fatbin arg_GPUS arg_PTX ${keywords})

  set(wanted "${arg_SOURCES} GPUS ${arg_GPUS} PTX ${arg_PTX} DRIVER ${arg_DRIVER} OPTIONS ${arg_OPTIONS}")
  get_target_property(before "${target}" _CUDEPLOY_EMBED_${arg_NAME})
  if(before STREQUAL wanted)
    return()
  elseif(before)
    message(FATAL_ERROR "cudeploy_embed_fatbin: ${target}: ${arg_NAME} is embedded before, of other values\n"
      "  before: ${before}\n  now:    ${wanted}\n  hint: give each its own NAME")
  endif()
  set_target_properties("${target}" PROPERTIES "_CUDEPLOY_EMBED_${arg_NAME}" "${wanted}")

  _cudeploy_warn_gpus(cudeploy_embed_fatbin "${target}" "${arg_GPUS}" "${arg_PTX}" "${arg_DRIVER}")
  # The audit of the target is asked about these GPUs too.
  _cudeploy_gpu_numbers(numbers "${arg_GPUS}")
  get_target_property(known "${target}" _CUDEPLOY_GPU_NUMBERS)
  if(known)
    list(APPEND numbers ${known})
    list(REMOVE_DUPLICATES numbers)
  endif()
  set_target_properties("${target}" PROPERTIES _CUDEPLOY_GPU_NUMBERS "${numbers}")
  set_property(GLOBAL APPEND PROPERTY _CUDEPLOY_TARGETS_WITH_GPUS "${target}")

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/cudeploy/embed/${target}")
  get_property(many_configurations GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  set(fatbin "${folder}/${arg_NAME}.fatbin")
  if(many_configurations)
    set(fatbin "${folder}/$<CONFIG>/${arg_NAME}.fatbin")
  endif()
  set(sources "")
  set(unit "// Written by cudeploy_embed_fatbin: do not edit.\n")
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    get_source_file_property(generated "${source}" GENERATED)
    if(NOT generated AND NOT EXISTS "${source}")
      message(FATAL_ERROR "cudeploy_embed_fatbin: ${target}: there is no file ${source}\n"
        "  hint: SOURCES are relative to ${CMAKE_CURRENT_SOURCE_DIR}")
    endif()
    list(APPEND sources "${source}")
    string(APPEND unit "#include \"${source}\"\n")
  endforeach()
  list(LENGTH sources count)
  set(compiled "${sources}")
  if(count GREATER 1)
    set(compiled "${folder}/${arg_NAME}.cu")
    _cudeploy_write_if_changed("${compiled}" "${unit}")
  endif()
  _cudeploy_write_header("${folder}" "${arg_NAME}")

  set(options "")
  foreach(gpu IN LISTS arg_GPUS)
    list(APPEND options "--generate-code=arch=compute_${gpu},code=[sm_${gpu}]")
  endforeach()
  foreach(gpu IN LISTS arg_PTX)
    list(APPEND options "--generate-code=arch=compute_${gpu},code=[compute_${gpu}]")
  endforeach()
  _cudeploy_compression_option(compression "${target}" "${arg_DRIVER}")
  list(APPEND options ${compression} ${arg_OPTIONS})
  set(host_compiler "${CMAKE_CUDA_HOST_COMPILER}")
  if(NOT CMAKE_CUDA_COMPILER_LOADED AND NOT host_compiler)
    # Kept, as the language keeps it: CMake may run again in a shell that does not name it.
    if(NOT DEFINED CACHE{CUDEPLOY_CUDAHOSTCXX})
      set(CUDEPLOY_CUDAHOSTCXX "$ENV{CUDAHOSTCXX}" CACHE INTERNAL "nvcc's host compiler where CUDA is not enabled")
    endif()
    set(host_compiler "${CUDEPLOY_CUDAHOSTCXX}")
  endif()
  if(host_compiler)
    list(APPEND options "--compiler-bindir=${host_compiler}")
  endif()
  # Make looks at files only: the options are one.
  set(options_file "${folder}/${arg_NAME}.options")
  _cudeploy_write_if_changed("${options_file}" "${options}\n")
  set(includes "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
  set(definitions "$<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>")
  # nvcc does not escape a space in the folder's name.
  cmake_path(RELATIVE_PATH fatbin BASE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" OUTPUT_VARIABLE relative_fatbin)
  add_custom_command(
    OUTPUT "${fatbin}"
    COMMAND "${CMAKE_CUDA_COMPILER}" -fatbin ${options}
            "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>" "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>"
            --generate-dependencies-with-compile --dependency-target-name "${relative_fatbin}"
            --dependency-output "${fatbin}.d" -o "${fatbin}" "${compiled}"
    DEPENDS ${sources} ${compiled} "${options_file}"
    DEPFILE "${fatbin}.d"
    COMMENT "Compiling device code ${arg_NAME}"
    COMMAND_EXPAND_LISTS VERBATIM)
  get_target_property(target_folder "${target}" SOURCE_DIR)
  if(NOT target_folder STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    # Commands and files' properties are a folder's own: the one that builds the target knows neither.
    add_custom_target("${target}_${arg_NAME}_fatbin" DEPENDS "${fatbin}")
    add_dependencies("${target}" "${target}_${arg_NAME}_fatbin")
  endif()
  set(configurations "the only one")
  if(many_configurations)
    set(configurations ${CMAKE_CONFIGURATION_TYPES})
  endif()
  foreach(configuration IN LISTS configurations)
    string(REPLACE "$<CONFIG>" "${configuration}" its_fatbin "${fatbin}")
    _cudeploy_write_symbol("${its_fatbin}" "${arg_NAME}" symbol_source)
    # Link-time optimisation does not see symbols that assembly defines.
    set_property(SOURCE "${symbol_source}" TARGET_DIRECTORY "${target}" APPEND PROPERTY OBJECT_DEPENDS "${its_fatbin}")
    set_property(SOURCE "${symbol_source}" TARGET_DIRECTORY "${target}" APPEND PROPERTY COMPILE_OPTIONS -fno-lto)
    if(many_configurations)
      target_sources("${target}" PRIVATE "$<$<CONFIG:${configuration}>:${symbol_source}>")
    else()
      target_sources("${target}" PRIVATE "${symbol_source}")
    endif()
  endforeach()
  set_property(TARGET "${target}" APPEND PROPERTY INCLUDE_DIRECTORIES "${folder}")
  cmake_language(EVAL CODE "cmake_language(DEFER CALL _cudeploy_warn_language [[${target}]])")
endfunction()

# Asked at the end of the folder, since definitions may be added after the call. Expressions of a language are empty in a command.
function(_cudeploy_warn_language target)
  get_property(warned TARGET "${target}" PROPERTY _CUDEPLOY_EMBED_WARNED)
  set_property(TARGET "${target}" PROPERTY _CUDEPLOY_EMBED_WARNED TRUE)
  set(found "")
  set(seen "${target}")
  set(waiting "${target}")
  while(waiting AND NOT warned)
    list(POP_FRONT waiting current)
    set(prefix INTERFACE_)
    if(current STREQUAL target)
      set(prefix "")
    endif()
    foreach(property IN ITEMS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES)
      get_target_property(values "${current}" ${prefix}${property})
      foreach(value IN LISTS values)
        if(value MATCHES "COMPILE_LANG(UAGE|_AND_ID):[^>]*CUDA")
          list(APPEND found "${value}")
        endif()
      endforeach()
    endforeach()
    get_target_property(items "${current}" ${prefix}LINK_LIBRARIES)
    foreach(item IN LISTS items)
      if(TARGET "${item}" AND NOT item IN_LIST seen)
        list(APPEND seen "${item}")
        list(APPEND waiting "${item}")
      endif()
    endforeach()
  endwhile()
  if(found)
    list(JOIN found " " found)
    message(WARNING "cudeploy_embed_fatbin: ${target}: definitions and include folders for one language are not passed on: ${found}\n"
      "  hint: say them in OPTIONS too, as -DNAME=value or -Ifolder")
  endif()
endfunction()

# The symbol is a word of C and C++, and its header is found before those of the compilers.
function(_cudeploy_check_symbol target name)
  set(keywords
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await co_return
    co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
    return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try
    typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq)
  if(name IN_LIST keywords)
    message(FATAL_ERROR "cudeploy_embed_fatbin: ${target}: NAME is \"${name}\", a keyword of C or C++\n  hint: ${name}_code")
  endif()
  cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH toolkit)
  foreach(folder IN LISTS CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES
                          CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES CUDAToolkit_INCLUDE_DIRS ITEMS "${toolkit}/../include")
    if(EXISTS "${folder}/${name}.h")
      message(FATAL_ERROR "cudeploy_embed_fatbin: ${target}: NAME is \"${name}\", and its header would hide ${folder}/${name}.h\n"
        "  hint: ${name}_code")
    endif()
  endforeach()
endfunction()

# The source that takes the fat binary in, in a language that the project has; it lies beside it.
function(_cudeploy_write_symbol fatbin name result)
  cmake_path(GET fatbin PARENT_PATH folder)
  if(MSVC)
    message(FATAL_ERROR "cudeploy_embed_fatbin: ${name}: the assembler's .incbin is needed, which this compiler lacks\n"
      "  hint: load the file with cuModuleLoad instead")
  endif()
  if(CMAKE_C_COMPILER_LOADED)
    set(source "${folder}/${name}.c")
  elseif(CMAKE_CXX_COMPILER_LOADED)
    set(source "${folder}/${name}.cpp")
  else()
    message(FATAL_ERROR "cudeploy_embed_fatbin: ${name}: the project has enabled neither C nor C++\n"
      "  hint: project(... LANGUAGES C CUDA)")
  endif()
  math(EXPR pointer_bits "${CMAKE_SIZEOF_VOID_P} * 8")
  set(word .quad)
  if(pointer_bits EQUAL 32)
    set(word .long)
  endif()
  _cudeploy_write_if_changed("${source}" "/* Written by cudeploy_embed_fatbin: do not edit. */
__asm__(
    \".section .rodata\\n\"
    \".balign 16\\n\"
    \".globl ${name}\\n\"
    \".hidden ${name}\\n\"
    \".type ${name}, %object\\n\"
    \"${name}:\\n\"
    \".incbin \\\"${fatbin}\\\"\\n\"
    \".L${name}_end:\\n\"
    \".size ${name}, .L${name}_end - ${name}\\n\"
    \".balign 16\\n\"
    \".globl ${name}_size\\n\"
    \".hidden ${name}_size\\n\"
    \".type ${name}_size, %object\\n\"
    \"${name}_size:\\n\"
    \"${word} .L${name}_end - ${name}\\n\"
    \".size ${name}_size, . - ${name}_size\\n\"
    \".text\\n\");
")
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

function(_cudeploy_write_header folder name)
  _cudeploy_write_if_changed("${folder}/${name}.h" "/* Written by cudeploy_embed_fatbin: do not edit. */
#ifndef CUDEPLOY_EMBEDDED_${name}
#define CUDEPLOY_EMBEDDED_${name}
#include <stddef.h>
#ifdef __cplusplus
extern \"C\" {
#endif
/** A fat binary, aligned to 16 bytes: for cuLibraryLoadData or cuModuleLoadData. */
extern const unsigned char ${name}[];
/** Its size in bytes. */
extern const size_t ${name}_size;
#ifdef __cplusplus
}
#endif
#endif
")
endfunction()

# A file whose content stays the same keeps its time, so nothing is compiled again.
function(_cudeploy_write_if_changed path content)
  set(old "")
  if(EXISTS "${path}")
    file(READ "${path}" old)
  endif()
  if(NOT old STREQUAL content)
    file(WRITE "${path}" "${content}")
  endif()
endfunction()

# Sets the caller's CMAKE_CUDA_COMPILER, with its id, where the language CUDA is not enabled: the one of the folder below that
# has it, else the toolkit's.
function(_cudeploy_find_nvcc function target)
  if(CMAKE_CUDA_COMPILER_LOADED)
    if(NOT CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
      message(FATAL_ERROR "${function}: ${target}: the CUDA compiler is ${CMAKE_CUDA_COMPILER_ID}, fat binaries need nvcc")
    endif()
    return()
  endif()
  get_property(nvcc GLOBAL PROPERTY CUDEPLOY_NVCC)
  if(nvcc)
    list(GET nvcc 0 CUDAToolkit_NVCC_EXECUTABLE)
    list(GET nvcc 1 CUDAToolkit_VERSION)
  else()
    find_package(CUDAToolkit QUIET)
  endif()
  if(NOT CUDAToolkit_NVCC_EXECUTABLE)
    message(FATAL_ERROR "${function}: ${target}: no nvcc: the project has not enabled CUDA, and no CUDA toolkit was found\n"
      "  hint: -DCUDAToolkit_ROOT=<folder of the toolkit>")
  endif()
  set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}" PARENT_SCOPE)
  set(CMAKE_CUDA_COMPILER_ID NVIDIA PARENT_SCOPE)
  set(CMAKE_CUDA_COMPILER_VERSION "${CUDAToolkit_VERSION}" PARENT_SCOPE)
endfunction()
