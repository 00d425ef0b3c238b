# The host stub of a kernel is an ordinary function, and before CUDA 13 nvcc exports it. Where two objects export the same
# one, the loader binds both to the first: with one runtime for both, the last registration wins. Including this file has
# no effect.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/compiler_dry_run.cmake")

# _cudeploy_hide_kernels(<target>): keeps kernel stubs out of the dynamic symbol table. Once per target. The compiler is that of the
# target's folder: the calling one may not have enabled CUDA.
function(_cudeploy_hide_kernels target)
  get_property(done TARGET "${target}" PROPERTY _CUDEPLOY_KERNELS_HIDDEN)
  get_target_property(folder "${target}" SOURCE_DIR)
  foreach(variable IN ITEMS CMAKE_CUDA_COMPILER CMAKE_CUDA_COMPILER_ID CMAKE_CUDA_COMPILER_VERSION)
    get_directory_property(${variable} DIRECTORY "${folder}" DEFINITION ${variable})
  endforeach()
  if(done OR NOT CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
    return()
  endif()
  set_property(TARGET "${target}" PROPERTY _CUDEPLOY_KERNELS_HIDDEN TRUE)
  set(complete TRUE)
  foreach(option IN ITEMS -static-global-template-stub=true -device-entity-has-hidden-visibility=true)
    _cudeploy_compiler_accepts(known ${option})
    if(known)
      # Both are defaults since CUDA 13; said again, since a project may have turned them off for all targets.
      set_property(TARGET "${target}" APPEND PROPERTY COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CUDA>:${option}>")
    else()
      set(complete FALSE)
    endif()
  endforeach()
  get_target_property(chosen "${target}" CUDA_VISIBILITY_PRESET)
  if(NOT complete AND NOT chosen)
    set_target_properties("${target}" PROPERTIES CUDA_VISIBILITY_PRESET hidden)
    get_target_property(type "${target}" TYPE)
    if(type MATCHES "^(SHARED|MODULE)_LIBRARY$")
      message(STATUS "cudeploy: ${target}: nvcc ${CMAKE_CUDA_COMPILER_VERSION} cannot hide kernels alone, so symbols of its .cu \
files are hidden by default: mark what others call with __attribute__((visibility(\"default\")))")
    endif()
  endif()
endfunction()
