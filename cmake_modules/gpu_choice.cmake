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

# _cudeploy_warn_gpus(<function> <target> <gpus> <ptx> <driver>): the GPUs that are named, and would get less than machine code.
function(_cudeploy_warn_gpus function target gpus ptx driver)
  set(jit "")
  foreach(name IN LISTS ptx)
    string(REGEX REPLACE "[af]$" "" number "${name}")
    set(native FALSE)
    foreach(gpu IN LISTS gpus)
      _cudeploy_runs_on(runs "${gpu}" "${number}")
      if(runs)
        set(native TRUE)
      endif()
    endforeach()
    if(NOT native)
      list(APPEND jit "${name}")
    endif()
  endforeach()
  list(JOIN jit " " jit)
  _cudeploy_toolkit_driver(oldest)
  _cudeploy_toolkit_version(version)
  _cudeploy_ptx_driver(ptx_driver since)
  if(ptx AND driver AND ptx_driver AND driver VERSION_LESS ptx_driver AND NOT driver VERSION_LESS oldest)
    if(jit)
      message(WARNING "${function}: ${target}: ${jit} in PTX has no machine code in GPUS, and DRIVER ${driver} cannot compile PTX of \
CUDA ${version} (drivers ${since} can): with it, nothing runs there\n  hint: ${jit} in GPUS too")
    else()
      message(STATUS "cudeploy: ${target}: PTX of CUDA ${version} is compiled by drivers ${since}: with DRIVER ${driver}, GPUs \
without machine code in GPUS get nothing")
    endif()
  elseif(jit)
    message(WARNING "${function}: ${target}: ${jit} in PTX has no machine code in GPUS: there a driver at least as \
new as the toolkit compiles when the program is first started (JIT)\n  hint: ${jit} in GPUS too")
  endif()
  if(driver AND oldest AND driver VERSION_LESS oldest)
    message(WARNING "${function}: ${target}: DRIVER ${driver} runs nothing of CUDA ${version}, on no GPU: it needs ${oldest}\n"
      "  hint: DRIVER ${oldest}, or an older toolkit")
  elseif(driver)
    # No driver runs anything on a GPU that came after it.
    set(unknown "")
    set(needed "")
    foreach(gpu IN LISTS gpus)
      _cudeploy_first_driver(first "${gpu}")
      if(first AND driver VERSION_LESS first)
        list(APPEND unknown "${gpu} (${first} does)")
        if(NOT needed OR first VERSION_GREATER needed)
          set(needed ${first})
        endif()
      endif()
    endforeach()
    if(unknown)
      list(JOIN unknown ", " unknown)
      message(WARNING "${function}: ${target}: DRIVER ${driver} does not know the GPU ${unknown}: with it, nothing runs there\n"
        "  hint: DRIVER ${needed}, or GPUS without it")
    endif()
  endif()
endfunction()

# _cudeploy_first_driver(<result> <gpu>): the first driver that knows <gpu> (90, 90a, 100f), that of its first toolkit (release
# notes, as in audit/gpu.cpp: a test compares); empty where every driver of today's toolkits does, or where it is not known.
function(_cudeploy_first_driver result gpu)
  string(REGEX REPLACE "[af]$" "" number "${gpu}")
  if(number EQUAL 101)  # was called so before CUDA 13
    set(number 110)
  endif()
  set(${result} "" PARENT_SCOPE)
  foreach(row IN ITEMS 80=450.51.05 86=455.23 87=470.42.01 88=580.65.06 89=520.61.05 90=520.61.05 100=570.26 103=575.51.03
                       107=615 110=570.26 120=570.26 121=575.51.03)
    if(row MATCHES "^${number}=(.+)$")
      set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# _cudeploy_runs_on(<result> <image> <gpu>): whether machine code for <image> (90, 90a, 100f) runs on <gpu> (a number). The same
# rules as in audit/gpu.cpp: the same major and no older minor, except systems on a chip and exact images; those of a
# family are taken for the family's major.
function(_cudeploy_runs_on result image gpu)
  string(REGEX REPLACE "[af]$" "" number "${image}")
  string(REGEX REPLACE ".$" "" major "${number}")
  string(REGEX REPLACE ".$" "" gpu_major "${gpu}")
  set(on_a_chip 53 62 72 87 88 101 110)
  set(${result} FALSE PARENT_SCOPE)
  if(number EQUAL gpu
      OR (major EQUAL gpu_major AND number LESS gpu AND NOT image MATCHES "a$" AND NOT gpu IN_LIST on_a_chip
          AND NOT number IN_LIST on_a_chip))
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# _cudeploy_toolkit_version(<result>): of the compiler, else of the toolkit whose headers are used; empty where there is neither.
function(_cudeploy_toolkit_version result)
  get_property(version GLOBAL PROPERTY CUDEPLOY_CUDA_VERSION)
  if(CMAKE_CUDA_COMPILER_VERSION)
    set(version "${CMAKE_CUDA_COMPILER_VERSION}")
  endif()
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" version "${version}")
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# _cudeploy_toolkit_driver(<result>): the oldest driver that runs what a toolkit of this CUDA major makes (the CUDA
# Compatibility guide, as in audit/gpu.cpp); empty where it is not known.
function(_cudeploy_toolkit_driver result)
  _cudeploy_toolkit_version(version)
  string(REGEX MATCH "^[0-9]+" major "${version}")
  set(driver_11 450.80.02)
  set(driver_12 525.60.13)
  set(driver_13 580.65.06)
  set(${result} "${driver_${major}}" PARENT_SCOPE)
endfunction()

# _cudeploy_ptx_driver(<result> <since>): the oldest driver that compiles PTX as this toolkit's compiler writes it (release notes, as
# in audit/gpu.cpp: a test compares), and that in words; empty where it is not known. Toolkits that came after the table
# need one that is newer than its last.
function(_cudeploy_ptx_driver result since)
  _cudeploy_toolkit_version(version)
  set(drivers
    11.2=460.27.03 11.3=465.19.01 11.4=470.42.01 11.5=495.29.05 11.6=510.39.01 11.7=515.43.04 11.8=520.61.05
    12.0=525.60.13 12.1=530.30.02 12.2=535.54.03 12.3=545.23.06 12.4=550.54.14 12.5=555.42.02 12.6=555.42.02
    12.7=565 12.8=570.26 12.9=575.51.03 13.0=580.65.06 13.1=590.44.01 13.2=595.45.04 13.3=610.43.02 13.4=615)
  set(found "")
  foreach(row IN LISTS drivers)
    string(REGEX MATCH "^(.+)=(.+)$" row "${row}")
    set(last ${CMAKE_MATCH_1})
    set(driver ${CMAKE_MATCH_2})
    if(version VERSION_EQUAL last)
      set(found ${driver})
    endif()
  endforeach()
  set(${since} "from ${found} on" PARENT_SCOPE)
  if(NOT found AND version VERSION_GREATER last)
    set(found ${driver})
    set(${since} "newer than ${driver}" PARENT_SCOPE)
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# _cudeploy_compression_option(<result> <target> <driver>): the option for device code that <driver> can read; empty when the
# compiler's default can be read and is the best. zstd, the default since CUDA 13, needs 550.54.14; one stream for the images
# of all GPUs (--concat, CUDA 13.4) is smaller and needs 615.
function(_cudeploy_compression_option result target driver)
  set(${result} "" PARENT_SCOPE)
  if("${driver}" STREQUAL "")
    return()
  elseif(driver VERSION_GREATER_EQUAL 615)
    _cudeploy_compiler_accepts(known --concat)
    if(known)
      set(${result} --concat PARENT_SCOPE)
      message(STATUS "cudeploy: ${target}: driver ${driver} reads the images of all GPUs from one compressed stream (--concat)")
    endif()
    return()
  elseif(driver VERSION_GREATER_EQUAL 550.54.14)
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
    _cudeploy_toolkit_driver(oldest)
    if(NOT oldest)
      set(oldest 580.65.06)
    endif()
    message(FATAL_ERROR "${function}: ${target}: DRIVER is \"${driver}\", expected a driver version\n"
      "  hint: as nvidia-smi prints it, such as DRIVER ${oldest}")
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
