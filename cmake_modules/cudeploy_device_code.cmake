#[=======================================================================[.rst:
cudeploy_device_code
--------------------

.. versionadded:: 1.0

Which GPUs a target runs on, and what happens on the GPUs that come after it.

.. code-block:: cmake

  cudeploy_device_code(<target> GPUS <gpu>... [PTX <gpu>...|none] [DRIVER <version>])

``GPUS``
  Compute capabilities to compile machine code (cubins) for: ``80 90 120``, exact ones (``90a``) and families
  (``100f``) included. Each name is checked against the compiler that is there.
``PTX``
  Compute capabilities to add PTX for. PTX runs on any GPU that is as new or newer, compiled by the driver when
  the program starts. Default: the lowest and the highest of GPUS, without ``a`` or ``f``, since PTX for an exact GPU is
  no fallback. ``none`` adds none: such a program does not run on GPUs that are released later, and the audit fails with
  ``missing-ptx``, unless the policy says that this is meant: ``severity.missing-ptx = "off"``.
``DRIVER``
  The oldest driver that the program shall run on, such as ``580.65.06``. Decides the compression of device code:
  what nvcc 13 compresses by default cannot be read by drivers before 550.54.14; from 615 on, one compressed stream
  holds the images of all GPUs, where nvcc can write it (13.4).

A warning names each GPU of PTX that gets no machine code from GPUS, and says whether DRIVER can compile what this toolkit
writes; others, a DRIVER that runs nothing of this toolkit, and each GPU of GPUS that came after DRIVER.

Kernels of one library must not be found by another one that has a kernel of the same name: a launch would end in the
wrong library's CUDA runtime. So the host side of kernels is kept out of the dynamic symbol table, by the compiler's own
options where it has them, else by hidden visibility, unless the target sets CUDA_VISIBILITY_PRESET itself.

With CUDA_SEPARABLE_COMPILATION, nvcc's device link keeps machine code only: PTX does not reach the file that is linked, and a
warning says so.

A static or object library hands what it was told on to the audits of programs and libraries that link it and were told nothing
themselves: the GPUs that all of these libraries have in common, and a driver that is enough for each.

Sets the target properties CUDA_ARCHITECTURES, CUDEPLOY_GPUS, CUDEPLOY_PTX and CUDEPLOY_DRIVER. A second call with the same
values does nothing; with other values it is an error.
#]=======================================================================]
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/nearest_word.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/compiler_dry_run.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/gpu_choice.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/hidden_kernels.cmake")

function(cudeploy_device_code target)
  list(APPEND CMAKE_MESSAGE_CONTEXT "cudeploy_device_code")
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DRIVER" "GPUS;PTX")
  set(keywords GPUS PTX DRIVER)
  _cudeploy_check_target(cudeploy_device_code target "${target}"
    EXECUTABLE SHARED_LIBRARY MODULE_LIBRARY STATIC_LIBRARY OBJECT_LIBRARY)
  _cudeploy_check_leftovers(cudeploy_device_code arg ${keywords})
  if(NOT arg_GPUS)
    message(FATAL_ERROR "cudeploy_device_code: ${target}: GPUS is missing\n  hint: GPUS 80 90 120")
  endif()
  if(NOT CMAKE_CUDA_COMPILER_LOADED)  # a language may be enabled in another folder of the project alone
    message(FATAL_ERROR "cudeploy_device_code: ${target}: the project has not enabled CUDA here\n"
      "  hint: project(... LANGUAGES CXX CUDA)")
  endif()
  _cudeploy_check_driver(cudeploy_device_code "${target}" "${arg_DRIVER}")
  if(NOT DEFINED arg_PTX)
    set(arg_PTX "")
  endif()
  _cudeploy_choose_gpus(cudeploy_device_code arg_GPUS arg_PTX ${keywords})

  set(wanted "GPUS ${arg_GPUS} PTX ${arg_PTX} DRIVER ${arg_DRIVER}")
  get_target_property(before "${target}" _CUDEPLOY_DEVICE_CODE)
  if(before STREQUAL wanted)
    return()
  elseif(before)
    message(FATAL_ERROR "cudeploy_device_code: ${target}: called before with other values\n"
      "  before: ${before}\n  now:    ${wanted}\n  hint: keep one of the two calls")
  endif()

  set(architectures ${arg_GPUS})
  list(TRANSFORM architectures APPEND "-real")
  foreach(gpu IN LISTS arg_PTX)
    list(APPEND architectures "${gpu}-virtual")
  endforeach()
  _cudeploy_gpu_numbers(numbers "${arg_GPUS}")
  set_target_properties("${target}" PROPERTIES
    _CUDEPLOY_DEVICE_CODE "${wanted}"
    _CUDEPLOY_GPU_NUMBERS "${numbers}"
    CUDA_ARCHITECTURES "${architectures}"
    CUDEPLOY_GPUS "${arg_GPUS}"
    CUDEPLOY_PTX "${arg_PTX}"
    CUDEPLOY_DRIVER "${arg_DRIVER}")
  set_property(GLOBAL APPEND PROPERTY _CUDEPLOY_TARGETS_WITH_GPUS "${target}")
  if(NOT CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
    message(STATUS "cudeploy: ${target}: ${CMAKE_CUDA_COMPILER_ID} is not nvcc: GPU names, kernel visibility and compression \
are left as they are")
    return()
  endif()

  _cudeploy_warn_gpus(cudeploy_device_code "${target}" "${arg_GPUS}" "${arg_PTX}" "${arg_DRIVER}")
  if(arg_PTX)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL _cudeploy_warn_lost_ptx [[${target}]])")
  endif()
  _cudeploy_hide_kernels("${target}")
  _cudeploy_choose_compression("${target}" "${arg_DRIVER}")
  # Without it the names of temporary files, and so of local symbols, hold a process number: other bytes in each build.
  _cudeploy_compiler_accepts(has_objdir --objdir-as-tempdir)
  if(has_objdir)
    set_property(TARGET "${target}" APPEND PROPERTY COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CUDA>:--objdir-as-tempdir>")
  endif()
endfunction()

# Asked at the end of the folder, since the property may be set after the call.
function(_cudeploy_warn_lost_ptx target)
  get_target_property(separable "${target}" CUDA_SEPARABLE_COMPILATION)
  if(separable)
    get_target_property(ptx "${target}" CUDEPLOY_PTX)
    message(WARNING "cudeploy_device_code: ${target}: CUDA_SEPARABLE_COMPILATION is on, and the device link keeps no PTX: PTX ${ptx} "
      "does not reach the linked file\n  hint: PTX none, every GPU that is meant in GPUS, and severity.missing-ptx = \"off\" in the policy")
  endif()
endfunction()

function(_cudeploy_choose_compression target driver)
  _cudeploy_compression_option(option "${target}" "${driver}")
  if(option)
    set_property(TARGET "${target}" APPEND PROPERTY COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CUDA>:${option}>")
    # Options of the compilation do not reach the device link.
    set_property(TARGET "${target}" APPEND PROPERTY LINK_OPTIONS "$<DEVICE_LINK:${option}>")
  endif()
endfunction()
