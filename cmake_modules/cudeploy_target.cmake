#[=======================================================================[.rst:
cudeploy_target
---------------

.. versionadded:: 1.0

One call that makes a target ready to be shipped, with defaults that pass the audit.

.. code-block:: cmake

  cudeploy_target(<target> [RUNTIME unified|shared|static|none] [GPUS <gpu>...] [PTX <gpu>...|none]
                  [DRIVER <version>] [POLICY <name>|<file>] [AUDIT error|warn|off] [LAYOUT bundle|wheel|conda])

It calls

* :command:`cudeploy_device_code` with GPUS, PTX and DRIVER, where GPUS is given;
* :command:`cudeploy_link_runtime` with RUNTIME (default: ``unified``);
* :command:`cudeploy_rpath` with LAYOUT;
* :command:`cudeploy_audit` with POLICY, DRIVER and AUDIT as the level, for what is linked. Static and object libraries are
  judged in the files that they end up in: there POLICY and AUDIT are refused.

A target of C or C++ alone needs no GPUS. A second call with the same values does nothing. What else these functions can do
(DESTINATION, ANCHOR, LEVEL...) is had by calling them first: what this call says nothing about is then left as it is.
#]=======================================================================]
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/nearest_word.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_device_code.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_link_runtime.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_rpath.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_audit.cmake")

function(cudeploy_target target)
  list(APPEND CMAKE_MESSAGE_CONTEXT "cudeploy_target")
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "RUNTIME;DRIVER;POLICY;AUDIT;LAYOUT" "GPUS;PTX")
  set(keywords RUNTIME GPUS PTX DRIVER POLICY AUDIT LAYOUT)
  _cudeploy_check_target(cudeploy_target target "${target}"
    EXECUTABLE SHARED_LIBRARY MODULE_LIBRARY STATIC_LIBRARY OBJECT_LIBRARY)
  _cudeploy_check_leftovers(cudeploy_target arg ${keywords})
  get_target_property(runtime_before "${target}" CUDEPLOY_RUNTIME)
  if(NOT DEFINED arg_RUNTIME)
    set(arg_RUNTIME unified)
    if(runtime_before)
      set(arg_RUNTIME ${runtime_before})
    endif()
  endif()
  _cudeploy_check_choice(cudeploy_target RUNTIME "${arg_RUNTIME}" unified shared static none)
  if(DEFINED arg_AUDIT)
    _cudeploy_check_choice(cudeploy_target AUDIT "${arg_AUDIT}" error warn off)
  endif()

  get_target_property(type "${target}" TYPE)
  set(linked FALSE)
  if(type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$")
    set(linked TRUE)
  endif()
  foreach(keyword IN ITEMS POLICY AUDIT)
    if(DEFINED arg_${keyword} AND NOT linked)
      message(FATAL_ERROR "cudeploy_target: ${target}: ${keyword} for a ${type}, which is judged in the files that it ends up in\n"
        "  hint: ${keyword} for what links ${target}")
    endif()
  endforeach()
  foreach(keyword IN ITEMS PTX DRIVER)
    set(${keyword}_words "")
    if(DEFINED arg_${keyword})
      set(${keyword}_words ${keyword} ${arg_${keyword}})
    endif()
  endforeach()
  # A misspelt keyword after GPUS or PTX was taken for a name: say so before the compiler is asked.
  foreach(word IN LISTS arg_GPUS arg_PTX)
    _cudeploy_nearest_word(nearest "${word}" ${keywords} none)
    if(nearest AND word MATCHES "^[A-Za-z_]+$" AND NOT word MATCHES "^(none|native|all)$")
      _cudeploy_refuse("cudeploy_target: unknown argument \"${word}\"" "${word}" ${nearest})
    endif()
  endforeach()
  if(arg_GPUS)
    cudeploy_device_code("${target}" GPUS ${arg_GPUS} ${PTX_words} ${DRIVER_words})
  elseif(DEFINED arg_PTX)
    message(FATAL_ERROR "cudeploy_target: ${target}: PTX without GPUS\n  hint: GPUS 80 90 120")
  elseif(DEFINED arg_DRIVER AND NOT linked)
    message(FATAL_ERROR "cudeploy_target: ${target}: DRIVER without GPUS decides nothing for a ${type}\n  hint: GPUS 80 90 120, or DRIVER \
for what links ${target}")
  elseif(DEFINED arg_DRIVER)  # the bundle wants it too
    get_target_property(driver_before "${target}" CUDEPLOY_DRIVER)
    if(NOT driver_before)
      set_target_properties("${target}" PROPERTIES CUDEPLOY_DRIVER ${arg_DRIVER})
    endif()
  endif()
  if(NOT arg_RUNTIME STREQUAL "${runtime_before}")
    cudeploy_link_runtime("${target}" ${arg_RUNTIME})
  endif()

  get_target_property(rpath_before "${target}" _CUDEPLOY_RPATH)
  if(DEFINED arg_LAYOUT)
    cudeploy_rpath("${target}" LAYOUT ${arg_LAYOUT})
  elseif(NOT rpath_before)
    cudeploy_rpath("${target}")
  endif()

  get_target_property(audit_before "${target}" _CUDEPLOY_AUDIT)
  if(audit_before AND NOT DEFINED arg_AUDIT AND NOT DEFINED arg_POLICY AND NOT DEFINED arg_DRIVER)
    return()
  endif()
  if(linked)
    set(audit "")
    if(DEFINED arg_AUDIT)
      list(APPEND audit LEVEL ${arg_AUDIT})
    endif()
    if(DEFINED arg_POLICY)
      list(APPEND audit POLICY "${arg_POLICY}")
    endif()
    if(DEFINED arg_DRIVER)
      list(APPEND audit DRIVER ${arg_DRIVER})
    endif()
    cudeploy_audit("${target}" ${audit})
  endif()
endfunction()
