#[=======================================================================[.rst:
cudeploy_rpath
--------------

.. versionadded:: 1.0

Search paths that still point to the bundle after it was moved.

.. code-block:: cmake

  cudeploy_rpath(<target> [LAYOUT bundle|wheel|conda] [DESTINATION <dir>] [CUDA <major>] [PATHS <path>...]
                 [OVERRIDABLE yes|no])

``LAYOUT``
  ``bundle`` (default): programs in ``bin``, libraries beside them or in the library folder (CMAKE_INSTALL_LIBDIR of
  GNUInstallDirs): ``$ORIGIN`` and the way from DESTINATION to the library folder.
  ``wheel``: an extension module in a Python package: ``$ORIGIN``, and the folders in which NVIDIA's own Python
  packages put their libraries, reached from DESTINATION: ``nvidia/cu<major>/lib`` (CUDA 13 and newer) or
  ``nvidia/cuda_runtime/lib``, ``nvidia/cublas/lib`` and ``nvidia/cuda_nvrtc/lib``.
  ``conda``: ``$ORIGIN`` and the way from DESTINATION to ``lib`` of the environment.
``DESTINATION``
  The folder that the file is installed to, relative to the root of the bundle, the wheel (site-packages) or the
  environment. Default: ``bin`` for programs, the library folder for libraries; the target's name for ``wheel``.
``CUDA``
  For ``wheel``: the major version whose folders are meant. Default: the toolkit's; where the project has none, it must be said.
``PATHS``
  More search paths, each beginning with ``$ORIGIN``.
``OVERRIDABLE``
  ``yes`` (default): DT_RUNPATH, which LD_LIBRARY_PATH of the user's comes before. ``no``: DT_RPATH, which comes before
  LD_LIBRARY_PATH, so nobody's environment puts another library in the place of the bundled one.

Sets INSTALL_RPATH, BUILD_RPATH_USE_ORIGIN and turns INSTALL_RPATH_USE_LINK_PATH off, which would write this machine's
paths into the file. What INSTALL_RPATH held before stays, behind these, where it begins with ``$ORIGIN``; paths of this machine are
left out, and a message says which. A second call with the same values does nothing; with other values it is an error.
#]=======================================================================]
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/nearest_word.cmake")

function(cudeploy_rpath target)
  list(APPEND CMAKE_MESSAGE_CONTEXT "cudeploy_rpath")
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LAYOUT;DESTINATION;CUDA;OVERRIDABLE" "PATHS")
  _cudeploy_check_target(cudeploy_rpath target "${target}"
    EXECUTABLE SHARED_LIBRARY MODULE_LIBRARY STATIC_LIBRARY OBJECT_LIBRARY)
  _cudeploy_check_leftovers(cudeploy_rpath arg LAYOUT DESTINATION CUDA PATHS OVERRIDABLE)
  if(NOT DEFINED arg_LAYOUT)
    set(arg_LAYOUT bundle)
  endif()
  if(NOT DEFINED arg_OVERRIDABLE)
    set(arg_OVERRIDABLE yes)
  endif()
  _cudeploy_check_choice(cudeploy_rpath LAYOUT "${arg_LAYOUT}" bundle wheel conda)
  _cudeploy_check_choice(cudeploy_rpath OVERRIDABLE "${arg_OVERRIDABLE}" yes no)
  foreach(path IN LISTS arg_PATHS)
    if(NOT path MATCHES "^\\$ORIGIN(/|$)")
      message(FATAL_ERROR "cudeploy_rpath: ${target}: PATHS holds \"${path}\", expected a path that begins with $ORIGIN\n"
        "  hint: a path of this machine is not there on the user's: $ORIGIN/<the way from the file's folder>")
    endif()
  endforeach()

  if(DEFINED arg_CUDA AND NOT arg_CUDA MATCHES "^[1-9][0-9]$")
    message(FATAL_ERROR "cudeploy_rpath: ${target}: CUDA is \"${arg_CUDA}\", expected a major version\n  hint: CUDA 13")
  endif()

  get_target_property(type "${target}" TYPE)
  # Where the library folder is depends on the system and the prefix; what is installed later goes there.
  include(GNUInstallDirs)
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(libdir "${CMAKE_INSTALL_LIBDIR}")
  else()
    set(libdir lib)
  endif()
  if(DEFINED arg_DESTINATION)
    set(destination "${arg_DESTINATION}")
  elseif(arg_LAYOUT STREQUAL "wheel")
    set(destination "${target}")
  elseif(NOT type STREQUAL "EXECUTABLE")
    set(destination "${libdir}")
  elseif(NOT IS_ABSOLUTE "${CMAKE_INSTALL_BINDIR}")
    set(destination "${CMAKE_INSTALL_BINDIR}")
  else()
    set(destination bin)
  endif()
  if(IS_ABSOLUTE "${destination}")
    message(FATAL_ERROR "cudeploy_rpath: ${target}: DESTINATION is \"${destination}\", expected a relative path\n"
      "  hint: the folder as seen from the root of the bundle")
  endif()

  if(arg_LAYOUT STREQUAL "wheel")
    # Since CUDA 13 all of NVIDIA's libraries share one folder per major; before, each has its own.
    get_property(version GLOBAL PROPERTY CUDEPLOY_CUDA_VERSION)
    string(REGEX MATCH "[0-9]+" major "${arg_CUDA};${version};${CMAKE_CUDA_COMPILER_VERSION};${CUDAToolkit_VERSION}")
    if(NOT major)
      message(FATAL_ERROR "cudeploy_rpath: ${target}: LAYOUT wheel, and no CUDA version is known: NVIDIA's packages have other folders \
in each\n  hint: cudeploy_rpath(${target} LAYOUT wheel CUDA 13), before cudeploy_target")
    endif()
    if(major GREATER_EQUAL 13)
      set(folders "nvidia/cu${major}/lib")
    else()
      set(folders nvidia/cuda_runtime/lib nvidia/cublas/lib nvidia/cuda_nvrtc/lib)
    endif()
  elseif(arg_LAYOUT STREQUAL "conda")
    set(folders lib)
  else()
    set(folders "${libdir}")
  endif()
  set(paths "$ORIGIN")
  foreach(folder IN LISTS folders)
    file(RELATIVE_PATH way "/bundle/${destination}" "/bundle/${folder}")
    string(REGEX REPLACE "/$" "" way "${way}")
    if(way)
      list(APPEND paths "$ORIGIN/${way}")
    endif()
  endforeach()
  list(APPEND paths ${arg_PATHS})
  list(REMOVE_DUPLICATES paths)

  set(wanted "${paths} OVERRIDABLE ${arg_OVERRIDABLE}")
  get_target_property(before "${target}" _CUDEPLOY_RPATH)
  if(before STREQUAL wanted)
    return()
  elseif(before)
    message(FATAL_ERROR "cudeploy_rpath: ${target}: called before with other values\n  before: ${before}\n  now:    ${wanted}\n"
      "  hint: keep one of the two calls, or put this one before cudeploy_target")
  endif()
  get_target_property(own "${target}" INSTALL_RPATH)
  foreach(path IN LISTS own)
    if(path MATCHES "^\\$")  # $ORIGIN, or a generator expression
      list(APPEND paths "${path}")
    elseif(path)
      message(STATUS "cudeploy_rpath: ${target}: INSTALL_RPATH held ${path}, a path of this machine, which is left out")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES paths)
  set_target_properties("${target}" PROPERTIES
    _CUDEPLOY_RPATH "${wanted}"
    INSTALL_RPATH "${paths}"
    INSTALL_RPATH_USE_LINK_PATH OFF
    BUILD_RPATH_USE_ORIGIN ON)
  if(arg_OVERRIDABLE STREQUAL "no")
    set_property(TARGET "${target}" APPEND PROPERTY LINK_OPTIONS "$<HOST_LINK:LINKER:--disable-new-dtags>")
  elseif(UNIX AND NOT APPLE)
    set_property(TARGET "${target}" APPEND PROPERTY LINK_OPTIONS "$<HOST_LINK:LINKER:--enable-new-dtags>")
  endif()
endfunction()
