# A package that would not run is found out by whoever unpacks it, on a machine where nobody can mend it. So the staged
# tree is judged before cpack makes a package of it. Runs inside cpack (CPACK_PRE_BUILD_SCRIPTS), once per format.
include("${CMAKE_CURRENT_LIST_DIR}/package_gate.cmake")
_cudeploy_read_wanted()

set(_cudeploy_report_folder
  "${CPACK_TEMPORARY_DIRECTORY}/${CPACK_PACKAGING_INSTALL_PREFIX}/share/${CPACK_PACKAGE_NAME}")
cmake_path(NORMAL_PATH _cudeploy_report_folder)
# The report is written elsewhere first: it must not be part of what it reports on.
set(_cudeploy_report "${CPACK_TEMPORARY_DIRECTORY}.audit.json")
_cudeploy_audit_package(_cudeploy_findings "${CPACK_TEMPORARY_DIRECTORY}" "${_cudeploy_report}" .)
if(NOT _cudeploy_findings STREQUAL "")
  # As it is: an error of cmake's would break its lines, and with them what an editor makes of file names.
  message("${_cudeploy_findings}")
  # The same content in another format is no better.
  _cudeploy_remove_noted(*)
  message(FATAL_ERROR "cudeploy: ${CPACK_PACKAGE_FILE_NAME}: no package is made, since the audit of its content failed (see above)\n"
    "  content: ${CPACK_TEMPORARY_DIRECTORY}\n  report: ${_cudeploy_report}")
endif()
file(MAKE_DIRECTORY "${_cudeploy_report_folder}")
file(RENAME "${_cudeploy_report}" "${_cudeploy_report_folder}/cudeploy-audit.json")
file(CHMOD "${_cudeploy_report_folder}/cudeploy-audit.json" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

# The modes of folders come from the umask of whoever runs cpack.
file(GLOB_RECURSE _cudeploy_entries LIST_DIRECTORIES true "${CPACK_TEMPORARY_DIRECTORY}/*")
foreach(_cudeploy_entry IN LISTS _cudeploy_entries)
  if(IS_DIRECTORY "${_cudeploy_entry}" AND NOT IS_SYMLINK "${_cudeploy_entry}")
    file(CHMOD "${_cudeploy_entry}" PERMISSIONS
      OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
endforeach()
