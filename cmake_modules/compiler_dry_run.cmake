# Which GPUs and which options a compiler knows is not in CMake's tables: they end where that CMake was released,
# and only the variable CMAKE_CUDA_ARCHITECTURES is ever looked at, never the target property. nvcc itself answers
# in 25 ms with --dryrun, without a GPU, and the source need not exist. Including this file has no effect.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/nearest_word.cmake")

# _cudeploy_compiler_accepts(<result> <options>...): TRUE when the project's nvcc accepts the options. Asked once per
# configure and set of options.
function(_cudeploy_compiler_accepts result)
  string(MD5 key "${CMAKE_CUDA_COMPILER} ${ARGN}")
  get_property(answer GLOBAL PROPERTY _CUDEPLOY_ACCEPTS_${key})
  if("${answer}" STREQUAL "")
    execute_process(
      COMMAND "${CMAKE_CUDA_COMPILER}" --dryrun -c ${ARGN} cudeploy_no_such_file.cu
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      set(answer FALSE)
    else()
      set(answer TRUE)
    endif()
    set_property(GLOBAL PROPERTY _CUDEPLOY_ACCEPTS_${key} ${answer})
  endif()
  set(${result} ${answer} PARENT_SCOPE)
endfunction()

# _cudeploy_known_gpus(<result>): the GPUs that the compiler can be asked for, "75;80;...;90;90a;...".
function(_cudeploy_known_gpus result)
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-code OUTPUT_VARIABLE listed ERROR_QUIET)
  string(REGEX MATCHALL "sm_[0-9]+[af]?" listed "${listed}")
  set(known "")
  foreach(name IN LISTS listed)
    string(SUBSTRING "${name}" 3 -1 name)
    list(APPEND known "${name}")
    # Compilers before 13 list no family or exact names.
    foreach(variant IN ITEMS a f)
      if(name MATCHES "^[0-9]+$" AND name GREATER_EQUAL 90)
        _cudeploy_compiler_accepts(ok "--generate-code=arch=compute_${name}${variant},code=[sm_${name}${variant}]")
        if(ok)
          list(APPEND known "${name}${variant}")
        endif()
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES known)
  list(SORT known COMPARE NATURAL)
  set(${result} "${known}" PARENT_SCOPE)
endfunction()
