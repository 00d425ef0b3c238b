# A program that starts here starts elsewhere when the libraries that it needs go along; which these are is known when it is
# built. NVIDIA's libraries may be handed on only with their licence, and some open others by name, which no linker and no
# loader tells. Runs inside cmake_install.cmake, behind the targets; told by _cudeploy_install_targets: _cudeploy_targets
# (files), _cudeploy_searched (folders), _cudeploy_nvidia (a pattern of names), _cudeploy_toolkit
# (where the toolkit is; may be empty), _cudeploy_command, _cudeploy_library_folder, _cudeploy_text_folder (relative to the prefix).
cmake_policy(VERSION 3.24...3.31)
if(_cudeploy_searched)
  list(PREPEND _cudeploy_searched DIRECTORIES)
endif()
# The targets themselves are installed already, under whatever name one needs the other and whichever way leads to them.
set(_cudeploy_own "")
foreach(_cudeploy_target IN LISTS _cudeploy_targets)
  file(REAL_PATH "${_cudeploy_target}" _cudeploy_file)
  list(APPEND _cudeploy_own "${_cudeploy_file}")
endforeach()
# By turns: what is needed, and what NVIDIA's libraries among it open by name whatever they do, which lies beside them and
# has needs of its own.
set(_cudeploy_opened "")
set(_cudeploy_asked "")
set(_cudeploy_roots "")
set(_cudeploy_more TRUE)
while(_cudeploy_more)
  set(_cudeploy_more FALSE)
  # A distribution keeps the toolkit where it keeps what every machine has.
  file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${_cudeploy_targets} ${_cudeploy_opened}
    RESOLVED_DEPENDENCIES_VAR _cudeploy_needed
    PRE_EXCLUDE_REGEXES
      "^libcuda\\.so(\\..*)?$" "^libcudadebugger\\.so" "^libnvidia-.*\\.so" "^libnvcuvid\\.so" "^libnvoptix\\.so"
      "^(libc|libm|libdl|librt|libpthread|libutil|libresolv|libgcc_s|libstdc\\+\\+)\\.so(\\.|$)" "^ld-linux.*\\.so"
    POST_INCLUDE_REGEXES "/${_cudeploy_nvidia}\\.so(\\.|$)"
    POST_EXCLUDE_REGEXES "^/(usr/)?lib(32|64|x32)?/"
    ${_cudeploy_searched})
  set(_cudeploy_libraries ${_cudeploy_opened})
  foreach(_cudeploy_library IN LISTS _cudeploy_needed)
    file(REAL_PATH "${_cudeploy_library}" _cudeploy_file)
    if(NOT _cudeploy_file IN_LIST _cudeploy_own)
      list(APPEND _cudeploy_libraries "${_cudeploy_library}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES _cudeploy_libraries)

  foreach(_cudeploy_library IN LISTS _cudeploy_libraries)
    if(_cudeploy_library IN_LIST _cudeploy_asked OR NOT _cudeploy_library MATCHES "/${_cudeploy_nvidia}\\.so(\\.[^/]*)?$")
      continue()
    endif()
    list(APPEND _cudeploy_asked "${_cudeploy_library}")
    cmake_path(GET _cudeploy_library PARENT_PATH _cudeploy_folder)
    file(REAL_PATH "${_cudeploy_folder}" _cudeploy_root)
    cmake_path(GET _cudeploy_root PARENT_PATH _cudeploy_root)
    list(APPEND _cudeploy_roots "${_cudeploy_root}")
    execute_process(COMMAND "${_cudeploy_command}" inspect --format json "${_cudeploy_library}"
      OUTPUT_VARIABLE _cudeploy_record ERROR_VARIABLE _cudeploy_problem RESULT_VARIABLE _cudeploy_status)
    if(NOT _cudeploy_status STREQUAL "0")
      message(FATAL_ERROR "cudeploy_package: ${_cudeploy_library} could not be read (${_cudeploy_status})\n${_cudeploy_problem}")
    endif()
    string(JSON _cudeploy_names ERROR_VARIABLE _cudeploy_none GET "${_cudeploy_record}" files 0 vendor opens)
    set(_cudeploy_count 0)
    if(NOT _cudeploy_none)
      string(JSON _cudeploy_count LENGTH "${_cudeploy_names}")
    endif()
    while(_cudeploy_count GREATER 0)
      math(EXPR _cudeploy_count "${_cudeploy_count} - 1")
      string(JSON _cudeploy_always GET "${_cudeploy_names}" ${_cudeploy_count} always)
      string(JSON _cudeploy_name GET "${_cudeploy_names}" ${_cudeploy_count} name)
      set(_cudeploy_companion "${_cudeploy_folder}/${_cudeploy_name}")
      if(_cudeploy_always AND EXISTS "${_cudeploy_companion}" AND NOT _cudeploy_companion IN_LIST _cudeploy_libraries)
        list(APPEND _cudeploy_opened "${_cudeploy_companion}")
        set(_cudeploy_more TRUE)
      endif()
    endwhile()
  endforeach()
endwhile()
foreach(_cudeploy_folder IN ITEMS _cudeploy_library_folder _cudeploy_text_folder)
  cmake_path(ABSOLUTE_PATH ${_cudeploy_folder} BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
endforeach()
if(_cudeploy_libraries)
  file(INSTALL DESTINATION "${_cudeploy_library_folder}" TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN FILES ${_cudeploy_libraries})
endif()

# Where the licence's text lies depends on how the toolkit came here: with the libraries, or else with the headers. A file of
# such a name may be somebody else's, and his licence must not go out as NVIDIA's.
set(_cudeploy_installed "${CMAKE_INSTALL_MANIFEST_FILES}")
list(FILTER _cudeploy_installed INCLUDE REGEX "/${_cudeploy_nvidia}\\.so(\\.[^/]*)?$")
if(_cudeploy_installed)
  list(APPEND _cudeploy_roots ${_cudeploy_toolkit})
  list(REMOVE_DUPLICATES _cudeploy_roots)
  foreach(_cudeploy_root IN LISTS _cudeploy_roots)
    file(GLOB _cudeploy_candidates
      "${_cudeploy_root}/EULA.txt" "${_cudeploy_root}/LICENSE" "${_cudeploy_root}/LICENSE.txt"
      "${_cudeploy_root}/dist-info/nvidia_cuda_runtime*.dist-info/License.txt"
      "${_cudeploy_root}/dist-info/nvidia_cuda_runtime*.dist-info/licenses/License.txt"
      "${_cudeploy_root}/../../nvidia_cuda_runtime*.dist-info/License.txt"
      "${_cudeploy_root}/../../nvidia_cuda_runtime*.dist-info/licenses/License.txt"
      "${_cudeploy_root}/../../EULA.txt"
      "${_cudeploy_root}/share/doc/nvidia-cuda-dev/copyright"
      "${_cudeploy_root}/../share/doc/nvidia-cuda-dev/copyright")
    foreach(_cudeploy_candidate IN LISTS _cudeploy_candidates)
      file(READ "${_cudeploy_candidate}" _cudeploy_text)
      if(_cudeploy_text MATCHES "NVIDIA" AND _cudeploy_text MATCHES "[Ll]icense [Aa]greement|LICENSE AGREEMENT")
        file(INSTALL DESTINATION "${_cudeploy_text_folder}" TYPE FILE RENAME NVIDIA-CUDA-EULA.txt FILES "${_cudeploy_candidate}")
        return()
      endif()
    endforeach()
  endforeach()
  message(WARNING "cudeploy_package: the bundle holds NVIDIA's libraries, but no licence text was found\n"
    "  libraries: ${_cudeploy_installed}\n  hint: install() the CUDA EULA of your toolkit, which asks for it")
endif()
