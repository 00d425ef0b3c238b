# A package that would not run is found out by whoever unpacks it, on a machine where nobody can mend it. So the staged
# tree is judged before cpack makes a package of it. Runs inside cpack (CPACK_PRE_BUILD_SCRIPTS), once per format.
cmake_policy(VERSION 3.24...3.31)
include("${CMAKE_CURRENT_LIST_DIR}/package_gate.cmake")
_cudeploy_read_wanted()
if(NOT CPACK_GENERATOR IN_LIST _CUDEPLOY_READABLE_FORMATS)
  list(JOIN _CUDEPLOY_READABLE_FORMATS " " _cudeploy_formats)
  _cudeploy_remove_made("${CPACK_GENERATOR}")
  _cudeploy_keep_from_cpack()
  message(FATAL_ERROR "cudeploy: ${CPACK_PACKAGE_FILE_NAME}: no package is made: the audit cannot read what ${CPACK_GENERATOR} makes\n"
    "  hint: cpack -G with one of ${_cudeploy_formats}")
endif()

# Components are packages of their own; what one needs may come with another one of this run.
_cudeploy_staged_components(_cudeploy_trees)
set(_cudeploy_judged "${CPACK_TEMPORARY_DIRECTORY}")
if(_cudeploy_trees)
  set(_cudeploy_judged "${CPACK_TEMPORARY_DIRECTORY}.together")
  _cudeploy_put_together("${_cudeploy_judged}" ${_cudeploy_trees})
endif()
# The report is written elsewhere first: it must not be part of what it reports on.
set(_cudeploy_report "${CPACK_TEMPORARY_DIRECTORY}.audit.json")
_cudeploy_audit_package(_cudeploy_passed _cudeploy_findings "${_cudeploy_judged}" "${_cudeploy_report}" .
  "${CPACK_PACKAGE_FILE_NAME} (${CPACK_GENERATOR}), before packing")
if(NOT _cudeploy_passed)
  # As it is: an error of cmake's would break its lines, and with them what an editor makes of file names.
  message("${_cudeploy_findings}")
  # The same content in another format is no better.
  _cudeploy_remove_made(${_CUDEPLOY_READABLE_FORMATS})
  _cudeploy_keep_from_cpack(_cudeploy_judged _cudeploy_report)
  message(FATAL_ERROR "cudeploy: ${CPACK_PACKAGE_FILE_NAME}: no package is made, since the audit of its content failed (see above)\n"
    "  content: ${_cudeploy_judged}\n  report: ${_cudeploy_report}")
endif()
# Two packages that are installed together must not bring a file of one name.
set(_cudeploy_name cudeploy-audit.json)
if(NOT _cudeploy_trees)
  set(_cudeploy_trees "${CPACK_TEMPORARY_DIRECTORY}")
else()
  set(_cudeploy_name "cudeploy-audit.<component>.json")
endif()
foreach(_cudeploy_tree IN LISTS _cudeploy_trees)
  cmake_path(GET _cudeploy_tree FILENAME _cudeploy_component)
  string(REPLACE "<component>" "${_cudeploy_component}" _cudeploy_place
    "${_cudeploy_tree}/${CPACK_PACKAGING_INSTALL_PREFIX}/share/${CPACK_PACKAGE_NAME}/${_cudeploy_name}")
  cmake_path(NORMAL_PATH _cudeploy_place)
  configure_file("${_cudeploy_report}" "${_cudeploy_place}" COPYONLY)
  file(CHMOD "${_cudeploy_place}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
file(REMOVE "${_cudeploy_report}")
file(REMOVE_RECURSE "${CPACK_TEMPORARY_DIRECTORY}.together")

# The modes of folders come from the umask of whoever runs cpack.
file(GLOB_RECURSE _cudeploy_entries LIST_DIRECTORIES true "${CPACK_TEMPORARY_DIRECTORY}/*")
foreach(_cudeploy_entry IN LISTS _cudeploy_entries)
  if(IS_DIRECTORY "${_cudeploy_entry}" AND NOT IS_SYMLINK "${_cudeploy_entry}")
    file(CHMOD "${_cudeploy_entry}" PERMISSIONS
      OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
endforeach()
