# What was staged is not yet what was packed: strip, rpm's scripts and a format's own layout come in between. So the
# finished package is judged as its user gets it. cpack copies a package out even when this script fails, so it is
# removed here. Runs inside cpack (CPACK_POST_BUILD_SCRIPTS), once per format.
include("${CMAKE_CURRENT_LIST_DIR}/package_gate.cmake")
_cudeploy_read_wanted()

set(_cudeploy_names "")
foreach(_cudeploy_package IN LISTS CPACK_PACKAGE_FILES)
  cmake_path(GET _cudeploy_package FILENAME _cudeploy_name)
  cmake_path(GET _cudeploy_package PARENT_PATH _cudeploy_folder)
  string(APPEND _cudeploy_names "${_cudeploy_name}\n")
  set(_cudeploy_subject "${_cudeploy_name}")
  if(CPACK_GENERATOR STREQUAL "STGZ")
    # A self-extracting script is unpacked by itself, as its user does it.
    set(_cudeploy_subject "${_cudeploy_name}.unpacked")
    file(REMOVE_RECURSE "${_cudeploy_folder}/${_cudeploy_subject}")
    file(MAKE_DIRECTORY "${_cudeploy_folder}/${_cudeploy_subject}")
    execute_process(
      COMMAND sh "${_cudeploy_package}" --skip-license --exclude-subdir "--prefix=${_cudeploy_folder}/${_cudeploy_subject}"
      RESULT_VARIABLE _cudeploy_failed OUTPUT_VARIABLE _cudeploy_output ERROR_VARIABLE _cudeploy_output)
    if(_cudeploy_failed)
      file(REMOVE "${_cudeploy_package}" "${CPACK_PACKAGE_DIRECTORY}/${_cudeploy_name}")
      message(FATAL_ERROR "cudeploy: ${_cudeploy_name}: the package does not unpack itself, so it was removed\n"
        "${_cudeploy_output}")
    endif()
  endif()
  _cudeploy_audit_package(_cudeploy_findings "${_cudeploy_folder}" "" "${_cudeploy_subject}")
  if(NOT _cudeploy_findings STREQUAL "")
    file(REMOVE "${_cudeploy_package}" "${CPACK_PACKAGE_DIRECTORY}/${_cudeploy_name}")
    _cudeploy_remove_noted(*)
    message("${_cudeploy_findings}")
    message(FATAL_ERROR "cudeploy: ${_cudeploy_name}: the audit of the finished package failed, so it was removed (see above)")
  endif()
endforeach()
file(WRITE "${CPACK_CUDEPLOY_WANTED}_made_${CPACK_GENERATOR}.txt" "${_cudeploy_names}")
