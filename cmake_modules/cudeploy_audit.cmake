#[=======================================================================[.rst:
cudeploy_audit
--------------

.. versionadded:: 1.0

Judges a target after it was linked: would it run where it is meant to?

.. code-block:: cmake

  cudeploy_audit(<target> [LEVEL error|warn|off] [POLICY <name>|<file>] [GPUS <gpu>...] [DRIVER <version>])

``LEVEL``
  ``error`` (default): the build fails when the policy finds an error. ``warn``: findings are shown, the build goes on.
  ``off``: nothing is done.
``POLICY``
  ``default``, or a TOML file, relative to the current source folder, with ``gpus``, ``driver``, ``provided`` and
  ``severity.<rule>``; checked when the project is configured, or by the first audit where cudeploy is part of the project
  and built with it.
``GPUS``, ``DRIVER``
  What is wanted, whatever the policy says. Default: what the policy says, else what :command:`cudeploy_device_code` was
  told, of the target or else of the static libraries in it.

The audit is a step of its own (``<target>_audit``, part of ``all`` where the target is) that runs when the file, the
policy or what is asked changed, and again when it failed, without linking again. The file stays where it is. The report
lies beside the target, as ``<file>.audit.json``; ``clean`` removes it, and the next audit writes it anew. The target
``cudeploy_audit_all`` runs the audits of all targets. A second call with the same values does nothing; with other values it is an error.

Of search paths INSTALL_RPATH is judged, not the ones of the build tree, which go when the file is installed. What else gets into the
installed file is not known before: INSTALL_RPATH_USE_LINK_PATH and ``-rpath`` among the link options are warned of when
the project is configured, and what they leave is found by :command:`cudeploy_package`, which audits the installed files.
#]=======================================================================]
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/nearest_word.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/gpu_choice.cmake")

function(cudeploy_audit target)
  list(APPEND CMAKE_MESSAGE_CONTEXT "cudeploy_audit")
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LEVEL;POLICY;DRIVER" "GPUS")
  _cudeploy_check_target(cudeploy_audit target "${target}"
    EXECUTABLE SHARED_LIBRARY MODULE_LIBRARY STATIC_LIBRARY)
  _cudeploy_check_leftovers(cudeploy_audit arg LEVEL POLICY GPUS DRIVER)
  if(NOT DEFINED arg_LEVEL)
    set(arg_LEVEL error)
  endif()
  _cudeploy_check_choice(cudeploy_audit LEVEL "${arg_LEVEL}" error warn off)
  if(NOT DEFINED arg_POLICY)
    set(arg_POLICY default)
  endif()
  _cudeploy_policy_file(cudeploy_audit policy policy_file "${arg_POLICY}")
  _cudeploy_check_driver(cudeploy_audit "${target}" "${arg_DRIVER}")
  _cudeploy_check_gpu_numbers(cudeploy_audit "${arg_GPUS}" LEVEL POLICY DRIVER)

  set(wanted "LEVEL ${arg_LEVEL} POLICY ${policy} GPUS ${arg_GPUS} DRIVER ${arg_DRIVER}")
  get_target_property(before "${target}" _CUDEPLOY_AUDIT)
  if(before STREQUAL wanted)
    return()
  elseif(before)
    message(FATAL_ERROR "cudeploy_audit: ${target}: called before with other values\n  before: ${before}\n  now:    ${wanted}\n"
      "  hint: keep one of the two calls, or put this one before cudeploy_target")
  endif()
  set_target_properties("${target}" PROPERTIES _CUDEPLOY_AUDIT "${wanted}")
  if(arg_LEVEL STREQUAL "off")
    return()
  endif()
  if(NOT TARGET cudeploy::cudeploy)
    message(FATAL_ERROR "cudeploy_audit: ${target}: the command cudeploy is not there\n"
      "  hint: find_package(cudeploy COMPONENTS audit runtime)")
  endif()

  # What the functions noted on the target may still change after this call, so it is read when the build is generated.
  if(arg_GPUS)
    _cudeploy_gpu_numbers(gpus "${arg_GPUS}")
    list(JOIN gpus "," gpus)
    set(gpus_option "--gpus;${gpus}")
  else()
    set(known "$<TARGET_PROPERTY:${target},_CUDEPLOY_GPU_NUMBERS>")
    set(gpus_option "$<$<BOOL:${known}>:--default-gpus;$<JOIN:${known},$<COMMA>>>")
  endif()
  if(DEFINED arg_DRIVER)
    set(driver_option "--driver;${arg_DRIVER}")
  else()
    set(known "$<TARGET_PROPERTY:${target},CUDEPLOY_DRIVER>")
    set(driver_option "$<$<BOOL:${known}>:--default-driver;${known}>")
  endif()
  set(install_rpath "$<JOIN:$<TARGET_GENEX_EVAL:${target},$<TARGET_PROPERTY:${target},INSTALL_RPATH>>,:>")

  set(fail_on error)
  if(arg_LEVEL STREQUAL "warn")
    set(fail_on never)
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/cudeploy/audit/$<CONFIG>")
  set(stamp "${folder}/${target}.ok")
  set(report "$<TARGET_FILE:${target}>.audit.json")
  # Make looks at files only: what is asked is one.
  file(GENERATE OUTPUT "${folder}/${target}.wanted"
    CONTENT "${install_rpath}\n${policy}\n${gpus_option}\n${driver_option}\n${fail_on}\n" TARGET "${target}")
  add_custom_command(
    OUTPUT "${stamp}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
    COMMAND cudeploy::cudeploy audit --stage link "--install-rpath=${install_rpath}" --policy "${policy}"
            "${gpus_option}" "${driver_option}" --fail-on ${fail_on} --format json --output "${report}" "$<TARGET_FILE:${target}>"
    COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
    DEPENDS "${target}" "$<TARGET_FILE:cudeploy::cudeploy>" "${folder}/${target}.wanted" ${policy_file}
    COMMENT "Auditing ${target}"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(${target}_audit ALL DEPENDS "${stamp}")
  set_target_properties(${target}_audit PROPERTIES ADDITIONAL_CLEAN_FILES "${report}")
  cmake_language(EVAL CODE "cmake_language(DEFER CALL _cudeploy_leave_out_of_all [[${target}]])
    cmake_language(DEFER CALL _cudeploy_take_from_linked [[${target}]])
    cmake_language(DEFER CALL _cudeploy_warn_search_paths [[${target}]])")
  if(NOT TARGET cudeploy_audit_all)
    add_custom_target(cudeploy_audit_all)
  endif()
  add_dependencies(cudeploy_audit_all ${target}_audit)
endfunction()

# What `all` leaves out, the audit does not bring back. Asked at the end of the folder, since it may be said after the call. Folders
# between this one and the target's may be left out too; what the target says itself comes first.
function(_cudeploy_leave_out_of_all target)
  get_property(said TARGET "${target}" PROPERTY EXCLUDE_FROM_ALL SET)
  get_target_property(left_out "${target}" EXCLUDE_FROM_ALL)
  get_target_property(folder "${target}" SOURCE_DIR)
  while(NOT said AND NOT left_out AND folder AND NOT folder STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    get_property(left_out DIRECTORY "${folder}" PROPERTY EXCLUDE_FROM_ALL)
    get_property(folder DIRECTORY "${folder}" PROPERTY PARENT_DIRECTORY)
  endwhile()
  if(left_out)
    set_target_properties(${target}_audit PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
endfunction()

# What gets into the installed file past INSTALL_RPATH, which is all that the audit of a link can judge.
function(_cudeploy_warn_search_paths target)
  get_target_property(use_link_path "${target}" INSTALL_RPATH_USE_LINK_PATH)
  if(use_link_path)
    message(WARNING "cudeploy_audit: ${target}: INSTALL_RPATH_USE_LINK_PATH is on: folders of this machine may get into the installed \
file, and are not judged here\n  hint: cudeploy_rpath(${target}) turns it off")
  endif()
  get_target_property(type "${target}" TYPE)
  string(REGEX REPLACE "^(SHARED|MODULE|EXECUTABLE)_?.*$" "\\1" type "${type}")
  string(REPLACE "EXECUTABLE" "EXE" type "${type}")
  set(options "${CMAKE_${type}_LINKER_FLAGS}")
  get_target_property(libraries "${target}" LINK_LIBRARIES)
  foreach(property IN ITEMS LINK_OPTIONS LINK_FLAGS LINK_LIBRARIES)
    get_target_property(value "${target}" ${property})
    list(APPEND options "${value}")
  endforeach()
  foreach(library IN LISTS libraries)
    if(TARGET "${library}")
      get_target_property(value "${library}" INTERFACE_LINK_OPTIONS)
      list(APPEND options "${value}")
    endif()
  endforeach()
  # -Wl,-rpath,/opt/x and LINKER:-rpath,/opt/x, but not what begins with $ORIGIN; -rpath-link is for the linker alone.
  if(options MATCHES "-rpath[,=; ](-Wl,)*[^$\\\\'\",; -][^; ]*")
    set(option "${CMAKE_MATCH_0}")
    message(WARNING "cudeploy_audit: ${target}: the link options write a search path past INSTALL_RPATH, which stays in the installed \
file and is not judged here\n  option: ${option}\n  hint: cudeploy_rpath(${target} PATHS $ORIGIN/<way>) takes a path that moves with \
the file")
  endif()
endfunction()

# A policy is named, or a file: then its full path, and the same again as a file to depend on.
function(_cudeploy_policy_file function policy policy_file value)
  cmake_path(ABSOLUTE_PATH value BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE OUTPUT_VARIABLE file)
  if(EXISTS "${file}" AND NOT IS_DIRECTORY "${file}")
    set(${policy} "${file}" PARENT_SCOPE)
    set(${policy_file} "${file}" PARENT_SCOPE)
  elseif(value MATCHES "[/.]")
    message(FATAL_ERROR "${function}: there is no policy file ${file}\n"
      "  hint: POLICY takes a built-in name or a TOML file, relative to ${CMAKE_CURRENT_SOURCE_DIR}")
  else()
    set(file "${value}")
    set(${policy} "${value}" PARENT_SCOPE)
    set(${policy_file} "" PARENT_SCOPE)
  endif()
  # Everything would be compiled before the first audit finds a typo. In-tree the command is not built yet.
  get_property(checked GLOBAL PROPERTY _CUDEPLOY_CHECKED_POLICIES)
  if(TARGET cudeploy::cudeploy AND NOT file STREQUAL "default" AND NOT file IN_LIST checked)
    set_property(GLOBAL APPEND PROPERTY _CUDEPLOY_CHECKED_POLICIES "${file}")
    get_target_property(imported cudeploy::cudeploy IMPORTED)
    if(imported)
      get_target_property(command cudeploy::cudeploy IMPORTED_LOCATION)
      execute_process(COMMAND "${command}" audit --policy "${file}" "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
        RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE problem)
      if(status EQUAL 2)
        string(STRIP "${problem}" problem)
        string(REPLACE "\n" "\n  " problem "${problem}")
        message(FATAL_ERROR "${function}: POLICY ${value}:\n  ${problem}")
      endif()
    endif()
  endif()
endfunction()
