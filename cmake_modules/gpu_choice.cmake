# Which GPUs a user names decides three things that must agree wherever device code is compiled: the names the compiler
# gets, the PTX for GPUs that come later, and the compression that the oldest wanted driver can read. Including this
# file has no effect.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/nearest_word.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/compiler_dry_run.cmake")

# _cudeploy_check_gpu_names(<function> <keyword> <names> <other right words>...): refuses a name that the compiler does not
# know. A misspelt keyword of the function lands among the names, so the keywords are candidates too.
function(_cudeploy_check_gpu_names function keyword names)
  foreach(name IN LISTS names)
    set(ok FALSE)
    if(name MATCHES "^[1-9][0-9]+[af]?$")
      set(ok TRUE)
      if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
        _cudeploy_compiler_accepts(ok "--generate-code=arch=compute_${name},code=[sm_${name}]")
      endif()
    endif()
    if(NOT ok)
      _cudeploy_known_gpus(known)
      list(JOIN known " " known_text)
      _cudeploy_gpu_hint(hint "${name}" "${known}" ${ARGN})
      message(FATAL_ERROR "${function}: ${keyword} names \"${name}\", which ${CMAKE_CUDA_COMPILER} \
(${CMAKE_CUDA_COMPILER_VERSION}) does not know; it knows: ${known_text}\n  hint: ${hint}")
    endif()
  endforeach()
endfunction()

# _cudeploy_gpu_hint(<result> <name> <known> <other right words>...): what to write instead of <name>. Other tools write
# GPUs as sm_90, 9.0, 90-real or native, and a GPU may be too old or too new for this compiler: letters do not tell.
function(_cudeploy_gpu_hint result name known)
  string(REGEX REPLACE "^(sm|compute)_|-(real|virtual)$|\\." "" plain "${name}")
  string(REGEX REPLACE "[af]$" "" number "${plain}")
  list(GET known 0 oldest)
  list(TRANSFORM known REPLACE "[af]$" "" OUTPUT_VARIABLE newest)
  list(SORT newest COMPARE NATURAL)
  list(GET newest -1 newest)
  if(name MATCHES "^(native|all|all-major)$")
    set(hint "name the GPUs of the machines that it is shipped to, such as 80 90 120")
  elseif(name MATCHES "[0-9][ ,]+[0-9]")
    set(hint "separate the names: 80 90 120")
  elseif(plain IN_LIST known)
    set(hint "did you mean ${plain}?")
  elseif(number IN_LIST known)
    set(hint "did you mean ${number}?")
  elseif(number MATCHES "^[1-9][0-9]+$" AND number LESS oldest)
    set(hint "an older toolkit compiles for it; this one begins with ${oldest}")
  elseif(number MATCHES "^[1-9][0-9]+$" AND number GREATER newest)
    set(hint "a newer toolkit may compile for it; until then PTX of ${newest} runs there")
  else()
    _cudeploy_nearest_word(nearest "${name}" ${known} ${ARGN})
    if(nearest)
      set(hint "did you mean ${nearest}?")
    else()
      set(hint "a compute capability, such as 90")
    endif()
  endif()
  set(${result} "${hint}" PARENT_SCOPE)
endfunction()

# _cudeploy_choose_gpus(<function> <gpus> <ptx> <keywords>...): sorts and checks the names in the two variables. Empty PTX
# becomes the lowest and the highest GPU, without a or f: PTX for an exact GPU is no fallback. "none" becomes empty.
function(_cudeploy_choose_gpus function gpus_variable ptx_variable)
  set(gpus ${${gpus_variable}})
  set(ptx ${${ptx_variable}})
  list(REMOVE_DUPLICATES gpus)
  list(SORT gpus COMPARE NATURAL)
  _cudeploy_check_gpu_names(${function} GPUS "${gpus}" ${ARGN})
  if("${ptx}" STREQUAL "")
    list(TRANSFORM gpus REPLACE "[af]$" "" OUTPUT_VARIABLE plain)
    list(SORT plain COMPARE NATURAL)
    list(GET plain 0 lowest)
    list(GET plain -1 highest)
    set(ptx ${lowest} ${highest})
  elseif("${ptx}" STREQUAL "none")
    set(ptx "")
  elseif("none" IN_LIST ptx)
    list(JOIN ptx " " ptx_text)
    message(FATAL_ERROR "${function}: PTX is \"${ptx_text}\": none and something\n  hint: PTX none, or the names without it")
  else()
    _cudeploy_check_gpu_names(${function} PTX "${ptx}" ${ARGN} none)
  endif()
  list(REMOVE_DUPLICATES ptx)
  list(SORT ptx COMPARE NATURAL)
  set(${gpus_variable} "${gpus}" PARENT_SCOPE)
  set(${ptx_variable} "${ptx}" PARENT_SCOPE)
endfunction()

# _cudeploy_gpu_numbers(<result> <gpus>): what the GPUs are called by compute capability alone, as the audit is asked.
function(_cudeploy_gpu_numbers result gpus)
  list(TRANSFORM gpus REPLACE "[af]$" "")
  list(REMOVE_DUPLICATES gpus)
  set(${result} "${gpus}" PARENT_SCOPE)
endfunction()

# _cudeploy_compression_option(<result> <target> <driver>): the option for device code that <driver> can read; empty when the
# compiler's default can be read. zstd, the default since CUDA 13, needs 550.54.14.
function(_cudeploy_compression_option result target driver)
  set(${result} "" PARENT_SCOPE)
  if("${driver}" STREQUAL "" OR driver VERSION_GREATER_EQUAL 550.54.14)
    return()
  endif()
  _cudeploy_compiler_accepts(known --compress-mode=speed)
  if(known)  # a compiler without the option writes LZ4, which every driver reads
    set(${result} --compress-mode=speed PARENT_SCOPE)
    message(STATUS "cudeploy: ${target}: driver ${driver} cannot read zstd (550.54.14 can), so device code is compressed with LZ4")
  endif()
endfunction()

# _cudeploy_check_driver(<function> <target> <driver>): refuses what is no driver version; empty is none.
function(_cudeploy_check_driver function target driver)
  if(NOT "${driver}" MATCHES "^([0-9]+\\.[0-9]+(\\.[0-9]+)?)?$")
    message(FATAL_ERROR "${function}: ${target}: DRIVER is \"${driver}\", expected a driver version\n"
      "  hint: DRIVER 535.54 or DRIVER 535.54.03")
  endif()
endfunction()

# _cudeploy_check_gpu_numbers(<function> <names> <other right words>...): refuses what names no GPU; for the audit, which is asked about
# GPUs of any compiler.
function(_cudeploy_check_gpu_numbers function names)
  foreach(name IN LISTS names)
    if(NOT name MATCHES "^[1-9][0-9]+[af]?$")
      _cudeploy_gpu_hint(hint "${name}" "75;80;86;87;88;89;90;100;103;110;120;121" ${ARGN})
      message(FATAL_ERROR "${function}: GPUS names \"${name}\", expected a compute capability\n  hint: ${hint}")
    endif()
  endforeach()
endfunction()
