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
  The symbol: a C identifier, of which a target may have several.
``SOURCES``
  CUDA files; several are compiled as one translation unit, in the given order, so that they make one fat binary.
``GPUS``, ``PTX``, ``DRIVER``
  As in :command:`cudeploy_device_code`.
``OPTIONS``
  More options for nvcc, such as ``-std=c++17``. Include folders and definitions of <target> are passed on.

The language CUDA need not be enabled; then nvcc is that of the CUDA toolkit that find_package(CUDAToolkit) finds. The symbols are
hidden: they are seen by the program or library that they are linked into. The fat binary is made again when a source,
a header or an option changes. A second call with the same values does nothing.
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

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/cudeploy/embed/${target}")
  set(fatbin "${folder}/${arg_NAME}.fatbin")
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
  _cudeploy_write_symbol("${folder}" "${arg_NAME}" symbol_source)

  set(options "")
  foreach(gpu IN LISTS arg_GPUS)
    list(APPEND options "--generate-code=arch=compute_${gpu},code=[sm_${gpu}]")
  endforeach()
  foreach(gpu IN LISTS arg_PTX)
    list(APPEND options "--generate-code=arch=compute_${gpu},code=[compute_${gpu}]")
  endforeach()
  _cudeploy_compression_option(compression "${target}" "${arg_DRIVER}")
  list(APPEND options ${compression} ${arg_OPTIONS})
  if(CMAKE_CUDA_HOST_COMPILER)
    list(APPEND options "--compiler-bindir=${CMAKE_CUDA_HOST_COMPILER}")
  endif()
  # Make looks at files only: the options are one.
  _cudeploy_write_if_changed("${fatbin}.options" "${options}\n")
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
    DEPENDS ${sources} ${compiled} "${fatbin}.options"
    DEPFILE "${fatbin}.d"
    COMMENT "Compiling device code ${arg_NAME}"
    COMMAND_EXPAND_LISTS VERBATIM)
  get_target_property(target_folder "${target}" SOURCE_DIR)
  if(NOT target_folder STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    # Commands and files' properties are a folder's own: the one that builds the target knows neither.
    add_custom_target("${target}_${arg_NAME}_fatbin" DEPENDS "${fatbin}")
    add_dependencies("${target}" "${target}_${arg_NAME}_fatbin")
  endif()
  # Link-time optimisation does not see symbols that assembly defines.
  set_property(SOURCE "${symbol_source}" TARGET_DIRECTORY "${target}" APPEND PROPERTY OBJECT_DEPENDS "${fatbin}")
  set_property(SOURCE "${symbol_source}" TARGET_DIRECTORY "${target}" APPEND PROPERTY COMPILE_OPTIONS -fno-lto)
  target_sources("${target}" PRIVATE "${symbol_source}")
  set_property(TARGET "${target}" APPEND PROPERTY INCLUDE_DIRECTORIES "${folder}")
endfunction()

# The header and the source that take the fat binary in, in a language that the project has.
function(_cudeploy_write_symbol folder name result)
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
    \".incbin \\\"${folder}/${name}.fatbin\\\"\\n\"
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
  string(TOUPPER "${name}" guard)
  _cudeploy_write_if_changed("${folder}/${name}.h" "/* Written by cudeploy_embed_fatbin: do not edit. */
#ifndef ${guard}_H_EMBEDDED
#define ${guard}_H_EMBEDDED
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
  set(${result} "${source}" PARENT_SCOPE)
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
