# What the gates of a package share: how the audit is asked, what is judged together, and what is refused. Runs inside cpack.
cmake_policy(VERSION 3.24...3.31)
include("${CMAKE_CURRENT_LIST_DIR}/package_names.cmake")

# What the audit reads as a package. Any other file it would judge as one file that is neither program nor library, and pass.
set(_CUDEPLOY_READABLE_FORMATS TGZ ZIP DEB RPM STGZ TAR TBZ2 TXZ TZST
  ZIP_BZ2 ZIP_DEFLATE ZIP_LZMA ZIP_LZMA2 ZIP_STORE ZIP_ZSTD)

# _cudeploy_read_wanted(): what cudeploy_package noted when the build was generated. Of several configurations in one package
# (cpack -C "Debug;Release") the first one counts. CMake installs them whatever their case.
macro(_cudeploy_read_wanted)
  set(_cudeploy_wanted "${CPACK_CUDEPLOY_WANTED}")
  if(CPACK_CUDEPLOY_CONFIGURATIONS)
    string(TOLOWER "${CPACK_BUILD_CONFIG}" _cudeploy_configurations)
    list(GET _cudeploy_configurations 0 _cudeploy_configuration)
    string(APPEND _cudeploy_wanted "_${_cudeploy_configuration}")
  endif()
  include("${_cudeploy_wanted}.cmake")
endmacro()

# _cudeploy_audit_package(<passed> <findings> <folder> <report> <path> <subject>): audits <path>, seen from <folder>, so that
# reports hold no path of this machine; <passed> is true when the audit ended and found no error, <findings> what it said. Writes
# <report> unless empty. <subject> is what the user knows it by.
function(_cudeploy_audit_package passed findings folder report path subject)
  set(options --stage package --policy "${CUDEPLOY_POLICY}")
  if(CUDEPLOY_GPUS)
    list(APPEND options ${CUDEPLOY_GPUS_OPTION} "${CUDEPLOY_GPUS}")
  endif()
  if(CUDEPLOY_DRIVER)
    list(APPEND options ${CUDEPLOY_DRIVER_OPTION} "${CUDEPLOY_DRIVER}")
  endif()
  if(report)
    list(APPEND options --format json --output "${report}")
  endif()
  execute_process(COMMAND "${CUDEPLOY_COMMAND}" audit ${options} "${path}"
    WORKING_DIRECTORY "${folder}" RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE errors)
  string(APPEND text "${errors}")
  set(${passed} FALSE PARENT_SCOPE)
  if(status STREQUAL "0")
    _cudeploy_say_passed("${subject}" "${text}")
    set(${passed} TRUE PARENT_SCOPE)
  elseif(NOT status MATCHES "^[12]$")  # killed, or not started: a reason in words, or another number
    string(APPEND text "cudeploy: ${subject}: the audit did not end: ${status}\n  command: ${CUDEPLOY_COMMAND}")
  endif()
  set(${findings} "${text}" PARENT_SCOPE)
endfunction()

# What is no error is read here or nowhere. Both gates and all formats of one run have much the same warnings, apart from
# the folders: each text is shown once. The gates share cpack's process, and nothing else.
function(_cudeploy_say_passed subject text)
  set(warnings "")
  set(count 0)
  while(text MATCHES "(^|\n)([^ \n][^\n]*: warning: [^\n]*\n(  [^\n]*\n)*)")
    math(EXPR count "${count} + 1")
    set(warning "${CMAKE_MATCH_2}")
    string(APPEND warnings "${warning}")
    string(FIND "${text}" "${warning}" begin)
    string(LENGTH "${warning}" length)
    math(EXPR end "${begin} + ${length}")
    string(SUBSTRING "${text}" ${end} -1 text)
  endwhile()
  set(result "audit passed")
  if(text MATCHES "(^|\n)nothing to judge ")
    set(result "nothing to judge")
  elseif(count GREATER 0)
    set(words "${count} warnings")
    if(count EQUAL 1)
      set(words "1 warning")
    endif()
    string(REGEX REPLACE "[^ \n]*/" "" key "${warnings}")
    string(MD5 key "${key}")
    set(shown $ENV{_CUDEPLOY_SHOWN_WARNINGS})
    if(key IN_LIST shown)
      string(APPEND result " with ${words}, as above")
    else()
      string(APPEND result " with ${words}")
      list(APPEND shown ${key})
      set(ENV{_CUDEPLOY_SHOWN_WARNINGS} "${shown}")
      string(REGEX REPLACE "\n$" "" warnings "${warnings}")
      message("${warnings}")  # as it is: a warning of cmake's would break its lines
    endif()
  endif()
  message(STATUS "cudeploy: ${subject}: ${result}")
endfunction()

# _cudeploy_staged_components(<result>): the folders that hold a component (or a group of them) each; empty where everything is
# staged as one.
function(_cudeploy_staged_components result)
  set(kind ARCHIVE)
  if(CPACK_GENERATOR MATCHES "^(DEB|RPM)$")
    set(kind "${CPACK_GENERATOR}")
  endif()
  set(trees "")
  if(CPACK_${kind}_COMPONENT_INSTALL AND CPACK_COMPONENTS_ALL AND NOT CPACK_MONOLITHIC_INSTALL)
    file(GLOB trees "${CPACK_TEMPORARY_DIRECTORY}/*")
  endif()
  set(${result} "${trees}" PARENT_SCOPE)
endfunction()

# _cudeploy_put_together(<folder> <trees>...): makes <folder> what is there when all trees are installed. Hard links: a bundle may
# be gigabytes.
function(_cudeploy_put_together folder)
  file(REMOVE_RECURSE "${folder}")
  file(MAKE_DIRECTORY "${folder}")
  foreach(tree IN LISTS ARGN)
    file(GLOB_RECURSE entries LIST_DIRECTORIES false RELATIVE "${tree}" "${tree}/*")
    foreach(entry IN LISTS entries)
      set(from "${tree}/${entry}")
      set(to "${folder}/${entry}")
      if(EXISTS "${to}" OR IS_SYMLINK "${to}")
        execute_process(COMMAND "${CMAKE_COMMAND}" -E compare_files "${from}" "${to}"
          RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
        if(differs)
          cmake_path(GET tree FILENAME component)
          _cudeploy_remove_made(${_CUDEPLOY_READABLE_FORMATS})
          _cudeploy_keep_from_cpack()
          message(FATAL_ERROR "cudeploy: ${CPACK_PACKAGE_FILE_NAME}: no package is made: component ${component} and another one bring \
different files of one name, so they are not installed together, and no audit of both is right\n  file: ${entry}\n\
  hint: pack them in runs of their own: cpack -D CPACK_COMPONENTS_ALL=${component}")
        endif()
        continue()
      endif()
      cmake_path(GET to PARENT_PATH parent)
      file(MAKE_DIRECTORY "${parent}")
      if(IS_SYMLINK "${from}")
        file(READ_SYMLINK "${from}" target)
        file(CREATE_LINK "${target}" "${to}" SYMBOLIC)
      else()
        file(CREATE_LINK "${from}" "${to}" COPY_ON_ERROR)
      endif()
    endforeach()
  endforeach()
endfunction()

# _cudeploy_unpack(<problem> <package> <folder>): puts the package's files below <folder>; <problem> is empty, or says why that
# did not work. A self-extracting script is unpacked by itself, as its user does it.
function(_cudeploy_unpack problem package folder)
  file(MAKE_DIRECTORY "${folder}")
  if(CPACK_GENERATOR STREQUAL "STGZ")
    set(unpack sh "${package}" --skip-license --exclude-subdir "--prefix=${folder}")
  else()
    set(unpack "${CMAKE_COMMAND}" -E tar xf "${package}")
  endif()
  execute_process(COMMAND ${unpack} WORKING_DIRECTORY "${folder}"
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status STREQUAL "0" AND CPACK_GENERATOR STREQUAL "DEB")  # an archive of archives
    file(GLOB parts "${folder}/data.tar*")
    execute_process(COMMAND "${CMAKE_COMMAND}" -E tar xf ${parts} WORKING_DIRECTORY "${folder}"
      RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    file(GLOB parts "${folder}/*.tar*")
    file(REMOVE ${parts} "${folder}/debian-binary")
  endif()
  set(${problem} "" PARENT_SCOPE)
  if(NOT status STREQUAL "0")
    set(${problem} "${status}\n${output}" PARENT_SCOPE)
  endif()
endfunction()

# _cudeploy_keep_from_cpack(<path variable>...): to be called before an error stops the package. cpack notes that a script failed, and
# makes the archive all the same: so what it would pack is moved out of its way, where it can be looked at, and folders lie
# where it would write. The paths become the new ones.
function(_cudeploy_keep_from_cpack)
  set(refused "${CPACK_TOPLEVEL_DIRECTORY}.refused")
  file(REMOVE_RECURSE "${refused}")
  if(EXISTS "${CPACK_TOPLEVEL_DIRECTORY}")
    file(RENAME "${CPACK_TOPLEVEL_DIRECTORY}" "${refused}")
  endif()
  foreach(path IN LISTS ARGN)
    string(REPLACE "${CPACK_TOPLEVEL_DIRECTORY}/" "${refused}/" ${path} "${${path}}")
    set(${path} "${${path}}" PARENT_SCOPE)
  endforeach()
  _cudeploy_names(names)
  foreach(name IN LISTS names CPACK_OUTPUT_FILE_NAME)
    file(MAKE_DIRECTORY "${CPACK_TOPLEVEL_DIRECTORY}/${name}" "${CPACK_TEMPORARY_DIRECTORY}/${name}")
  endforeach()
endfunction()
