# The one-state runtime cannot be shipped as a library: it holds a jump for every function of the very
# libcudart_static.a that a project links. So it is made in the project's build tree, from the installed sources, against
# the project's toolkit: `cudeploy link-kit` reads the archive and says what to compile and how to link; this file puts
# that on targets. A macro, since enable_language must act on the caller's folder. Including this file has no effect.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/one_toolkit.cmake")

# _cudeploy_make_runtime(<result>): makes the imported targets cudeploy::runtime and cudeploy::runtime_hidden (the same, with an
# anchor that is not exported) unless they are there; outside Linux both are NVIDIA's static runtime as it is. <result> is
# empty, or why they could not be made.
macro(_cudeploy_make_runtime result)
  set(${result} "")
  if(NOT TARGET cudeploy::runtime)
    get_property(_cudeploy_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
    if(NOT _cudeploy_languages)
      set(${result} "no language is enabled: find_package(cudeploy) comes after project()")
    else()
      if(NOT CMAKE_CXX_COMPILER_LOADED)  # here: another folder may have it
        enable_language(CXX)
      endif()
      _cudeploy_find_toolkit(${result})
      get_property(_cudeploy_archive GLOBAL PROPERTY CUDEPLOY_CUDART_STATIC)
      if(${result} STREQUAL "" AND NOT _cudeploy_archive)
        set(${result} "the toolkit has no libcudart_static.a (CUDA_cudart_static_LIBRARY)")
      endif()
      if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_BINARY_DIR MATCHES "," AND ${result} STREQUAL "")
        set(${result} "${CMAKE_BINARY_DIR} has a comma in its name, at which compilers divide what they hand to the linker\n  hint: \
another build folder")
      endif()
      if(${result} STREQUAL "")
        _cudeploy_check_one_toolkit("${_cudeploy_archive}")
        if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
          _cudeploy_add_runtime(cudeploy_runtime exported cudeploy::runtime)
          _cudeploy_add_runtime(cudeploy_runtime_hidden hidden cudeploy::runtime_hidden)
        else()
          _cudeploy_add_plain_runtime(cudeploy::runtime)
          _cudeploy_add_plain_runtime(cudeploy::runtime_hidden)
        endif()
      endif()
    endif()
  endif()
endmacro()

# Where the one-state runtime does not exist, a project that asks for it is built all the same.
function(_cudeploy_add_plain_runtime imported)
  get_property(cuda_include GLOBAL PROPERTY CUDEPLOY_CUDA_INCLUDE)
  _cudeploy_add_toolkit_runtime(static)
  add_library(${imported} INTERFACE IMPORTED GLOBAL)
  set_target_properties(${imported} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${cuda_include}"
    INTERFACE_LINK_LIBRARIES cudeploy::runtime_static)
endfunction()

# _cudeploy_say_plain_runtime(<target>): what a target gets that asked for the one-state runtime, and how many states there are
# then; the latter once per project.
function(_cudeploy_say_plain_runtime target)
  set(text "cudeploy_link_runtime: ${target}: unified is plain static on ${CMAKE_SYSTEM_NAME}: the one-state runtime exists on \
Linux only")
  get_property(said GLOBAL PROPERTY _CUDEPLOY_SAID_PLAIN_RUNTIME)
  if(NOT said)
    set_property(GLOBAL PROPERTY _CUDEPLOY_SAID_PLAIN_RUNTIME TRUE)
    get_property(version GLOBAL PROPERTY CUDEPLOY_CUDA_VERSION)
    set(private "\n   CUDA ${version}: each program and library that links it has a state of its own, and kernels, memory and \
errors stop at that border;")
    if(NOT WIN32 OR version VERSION_LESS 13)
      string(APPEND text "${private}\n   where several meet in a process: shared, for all of them")
    elseif(version VERSION_LESS 13.3)
      string(APPEND text "${private}\n   shared has one: cudart.lib of CUDA 13 (the hybrid runtime) needs no cudart64_13.dll, it loads \
nvcudart_hybrid64.dll of\n   the display driver, 580 or newer")
    else()
      string(APPEND text "\n   CUDA ${version}: cudart_static.lib is a loader as cudart.lib is (the hybrid runtime): the state is in \
nvcudart_hybrid64.dll of\n   the display driver, 580 or newer, one for the whole process; nothing of it is to be shipped")
    endif()
  endif()
  message(STATUS "${text}")
endfunction()

# One library built from a link kit, and the imported target that carries what its users' links need.
function(_cudeploy_add_runtime library anchor imported)
  get_property(archive GLOBAL PROPERTY CUDEPLOY_CUDART_STATIC)
  get_property(cuda_include GLOBAL PROPERTY CUDEPLOY_CUDA_INCLUDE)
  get_property(runtime_sources GLOBAL PROPERTY CUDEPLOY_RUNTIME_SOURCES)
  set(kit "${CMAKE_BINARY_DIR}/cudeploy/${library}")
  set(arguments link-kit --cudart "${archive}" -o "${kit}" --sources "${runtime_sources}" --anchor ${anchor})
  get_target_property(imported_command cudeploy::cudeploy IMPORTED)
  if(imported_command)
    _cudeploy_read_link_kit("${kit}" ${arguments})
  else()
    # In-tree, the command that writes the kit is not built yet: what the kit will say is known from the same sources.
    set(sources "${kit}/entries.cpp" "${runtime_sources}/join.cpp" "${runtime_sources}/report.cpp")
    set(include_directories "${kit}" "${runtime_sources}" "${runtime_sources}/include")
    set(compile_options -std=c++17 -Os -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti
      -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-lto)
    set(response_file "${kit}/wrap.rsp")
    set(link_options "-Wl,@${response_file}")
    set(libraries "${archive}" pthread dl rt)
    add_custom_command(
      OUTPUT "${kit}/entries.cpp" "${kit}/cudeploy_copy.hpp" "${kit}/wrap.rsp" "${kit}/link-kit.json"
      COMMAND cudeploy::cudeploy ${arguments}
      # The command leaves a file alone whose content stays the same; the build must see that it was looked at.
      COMMAND "${CMAKE_COMMAND}" -E touch "${kit}/entries.cpp" "${kit}/cudeploy_copy.hpp" "${kit}/wrap.rsp"
              "${kit}/link-kit.json"
      DEPENDS "${archive}" cudeploy::cudeploy
      COMMENT "Reading ${archive}"
      VERBATIM)
  endif()

  add_library(${library} STATIC EXCLUDE_FROM_ALL ${sources} "${response_file}")
  target_include_directories(${library} PRIVATE ${include_directories} "${cuda_include}")
  # A project's own settings for all its targets must not reach these few files: its C++ standard, its warnings (which are
  # errors where its flags say so), its tools.
  target_compile_options(${library} PRIVATE ${compile_options} -w)
  set_target_properties(${library} PROPERTIES
    CXX_STANDARD 17 CXX_CLANG_TIDY "" CXX_CPPCHECK "" CXX_CPPLINT "" CXX_INCLUDE_WHAT_YOU_USE ""
    AUTOMOC OFF AUTOUIC OFF AUTORCC OFF CXX_SCAN_FOR_MODULES OFF
    INTERPROCEDURAL_OPTIMIZATION OFF UNITY_BUILD OFF COMPILE_WARNING_AS_ERROR OFF FOLDER cudeploy)

  # Plain -Wl, also where nvcc links: LINKER: would hand clang an option file that it takes for its own.
  set(link "")
  foreach(option IN LISTS link_options)
    string(REPLACE "," "$<COMMA>" option "${option}")
    list(APPEND link "$<HOST_LINK:${option}>")
  endforeach()
  # CUDA_RUNTIME_LIBRARY None drops it, and kernels that launch kernels need it.
  get_property(cudadevrt GLOBAL PROPERTY CUDEPLOY_CUDADEVRT)
  add_library(${imported} INTERFACE IMPORTED GLOBAL)
  set_target_properties(${imported} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${runtime_sources}/include;${cuda_include}"
    INTERFACE_LINK_OPTIONS "${link}"
    INTERFACE_LINK_DEPENDS "${response_file}"
    INTERFACE_LINK_LIBRARIES "${cudadevrt};${library};${libraries}")
endfunction()

# Writes the kit now and reads what it says into the caller's sources, include_directories, compile_options, link_options,
# libraries and response_file.
function(_cudeploy_read_link_kit kit)
  get_target_property(command cudeploy::cudeploy IMPORTED_LOCATION)
  execute_process(COMMAND "${command}" ${ARGN}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "cudeploy: no link kit could be made in ${kit}\n${output}")
  endif()
  get_property(archive GLOBAL PROPERTY CUDEPLOY_CUDART_STATIC)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${archive}" "${command}")
  file(READ "${kit}/link-kit.json" json)
  foreach(key IN ITEMS sources include_directories compile_options link_options libraries)
    set(items "")
    string(JSON count LENGTH "${json}" ${key})
    set(i 0)
    while(i LESS count)
      string(JSON item GET "${json}" ${key} ${i})
      list(APPEND items "${item}")
      math(EXPR i "${i} + 1")
    endwhile()
    set(${key} "${items}" PARENT_SCOPE)
  endforeach()
  string(JSON response_file GET "${json}" response_file)
  set(response_file "${response_file}" PARENT_SCOPE)
endfunction()
