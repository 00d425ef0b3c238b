# An older package that lies where a new one is expected is taken for the result of a run that failed, be it in the build
# that cpack starts or in the audit. So it goes first. Runs inside cpack (CPACK_INSTALL_SCRIPTS), once per format.
include("${CMAKE_CURRENT_LIST_DIR}/package_gate.cmake")
if(CPACK_TEMPORARY_DIRECTORY MATCHES "[][*?]")  # for cpack a pattern, which matches nothing or too much
  message(FATAL_ERROR "cudeploy: ${CPACK_PACKAGE_FILE_NAME}: no package is made: cpack packs an empty folder where a name has one of [ ] * ?\n"
    "  folder: ${CPACK_TEMPORARY_DIRECTORY}\n  hint: another CPACK_PACKAGE_FILE_NAME, or another build folder")
endif()
_cudeploy_remove_made("${CPACK_GENERATOR}")
file(REMOVE_RECURSE "${CPACK_TOPLEVEL_DIRECTORY}.refused")  # as large as a bundle, and of no use any more

# Before anything is installed: afterwards cpack packs what there is, whatever a script says.
string(TOLOWER "${CPACK_CUDEPLOY_CONFIGURATIONS}" _cudeploy_known)
set(_cudeploy_unknown "")
foreach(_cudeploy_configuration IN LISTS CPACK_BUILD_CONFIG)
  string(TOLOWER "${_cudeploy_configuration}" _cudeploy_lower)
  if(NOT _cudeploy_lower IN_LIST _cudeploy_known)
    set(_cudeploy_unknown "${_cudeploy_configuration}")
  endif()
endforeach()
if(_cudeploy_known AND (_cudeploy_unknown OR NOT CPACK_BUILD_CONFIG))
  message(FATAL_ERROR "cudeploy: ${CPACK_PACKAGE_FILE_NAME}: no package is made: this build has several configurations, and \
\"${_cudeploy_unknown}\" is none of them: ${CPACK_CUDEPLOY_CONFIGURATIONS}\n  hint: cpack -C Release")
endif()
