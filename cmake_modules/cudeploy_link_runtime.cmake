#[=======================================================================[.rst:
cudeploy_link_runtime
---------------------

.. versionadded:: 1.0

Which CUDA runtime a target brings or asks for. Works for targets of C, C++ and CUDA: CMake's own property
CUDA_RUNTIME_LIBRARY reaches only targets with CUDA sources.

.. code-block:: cmake

  cudeploy_link_runtime(<target> unified|shared|static|none [ANCHOR exported|hidden])

``unified``
  The static runtime, joined with every other unified copy in the process: kernels, ``__device__`` variables and
  the last error are then the same for the program and its plugins. Links ``cudeploy::runtime``. Exists on Linux; elsewhere
  it is ``static``, and a message says so.
``shared``
  libcudart.so of the toolkit; :command:`cudeploy_package` puts it into the bundle.
``static``
  NVIDIA's static runtime as it is: a private state in each program and library. On Windows since CUDA 13.3, and ``shared``
  there since 13.0, it is a loader of the display driver's own runtime (nvcc calls it hybrid), one state per process:
  nothing to ship, and drivers before 580 lack it.
``none``
  No runtime: for programs that open the driver themselves. The toolkit's headers are still found.
``ANCHOR``
  Only for ``unified``. ``exported`` (default): the mark of the copy is shown under a symbol version, for nm and gdb.
  ``hidden``: not; for libraries that have a version script of their own, beside which GNU ld takes no second one. Where
  the target's link options carry a version script at the end of its folder, ``hidden`` is chosen, with a message. A static
  library leaves the choice to what links it; there it is ``hidden`` where no function was called.

With ``unified`` the host stubs of kernels are kept out of the dynamic symbol table: where two objects export the same one, one
state would keep the last registration for both.

The compiler's default is turned off (CUDA_RUNTIME_LIBRARY None), so that exactly one runtime is linked. Compiler, the
programs that it calls (cudafe++, cicc, ptxas, fatbinary, nvlink), headers and runtime must be of one toolkit, major and minor, else
this stops with all paths. Where an include folder of another toolkit reaches the target, by itself, its folder, flags or what it
links, the build stops if its sources find those headers first. A second call with the same values does nothing.

What is linked into one process, or put into one package as libraries and what they meet, must agree: unified, shared and static
do not mix, and the message names both targets. Asked at the end of the project, also of targets that no function was called on:
whatever holds CUDA code, its own or from static, object and interface libraries, has the runtime that the compiler
links; one that is linked by name (``CUDA::cudart``, ``cudart``, the file) counts too. What CMake does not know, the audit of
the bundle sees: libraries that are built elsewhere, plugins that are opened by name, link options.

A static library hands its runtime on to what links it, an object library also to what takes its objects as sources. Through
install(EXPORT) that goes by the names ``cudeploy::runtime``, ``cudeploy::runtime_shared`` and ``cudeploy::runtime_static``: the
package file of such a library says ``find_dependency(cudeploy)``, and the runtime is then that of its user's toolkit.
#]=======================================================================]
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/nearest_word.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/hidden_kernels.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/unified_runtime.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/project_targets.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/runtime_agreement.cmake")

function(cudeploy_link_runtime target)
  list(APPEND CMAKE_MESSAGE_CONTEXT "cudeploy_link_runtime")
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "ANCHOR" "")
  _cudeploy_check_target(cudeploy_link_runtime target "${target}"
    EXECUTABLE SHARED_LIBRARY MODULE_LIBRARY STATIC_LIBRARY OBJECT_LIBRARY)
  if(ARGC LESS 2 OR ARGV1 STREQUAL "ANCHOR")
    message(FATAL_ERROR "cudeploy_link_runtime: ${target}: which runtime?\n"
      "  hint: cudeploy_link_runtime(${target} unified), or shared, static, none")
  endif()
  set(mode "${ARGV1}")
  if(mode STREQUAL "RUNTIME")
    message(FATAL_ERROR "cudeploy_link_runtime: ${target}: takes no word RUNTIME\n  hint: cudeploy_link_runtime(${target} unified)")
  endif()
  _cudeploy_check_leftovers(cudeploy_link_runtime arg ANCHOR)
  _cudeploy_check_choice(cudeploy_link_runtime runtime "${mode}" unified shared static none)
  if(NOT DEFINED arg_ANCHOR)
    set(arg_ANCHOR exported)
  elseif(NOT mode STREQUAL "unified")
    message(FATAL_ERROR "cudeploy_link_runtime: ${target}: ANCHOR with ${mode}\n  hint: only a unified copy has an anchor")
  endif()
  _cudeploy_check_choice(cudeploy_link_runtime ANCHOR "${arg_ANCHOR}" exported hidden)

  set(wanted "${mode} ANCHOR ${arg_ANCHOR}")
  get_target_property(before "${target}" _CUDEPLOY_LINK_RUNTIME)
  if(before STREQUAL wanted)
    return()
  elseif(before)
    message(FATAL_ERROR "cudeploy_link_runtime: ${target}: called before with other values\n"
      "  before: ${before}\n  now:    ${wanted}\n  hint: keep one of the two calls, or put this one before cudeploy_target")
  endif()

  set(libraries "")
  if(mode STREQUAL "unified")
    if(NOT TARGET cudeploy::runtime AND NOT CMAKE_CXX_COMPILER_LOADED)  # a function cannot enable a language
      message(FATAL_ERROR "cudeploy_link_runtime: ${target}: the unified runtime is compiled with C++, which is not enabled here\n"
        "  hint: project(... LANGUAGES C CXX), or find_package(cudeploy COMPONENTS runtime), which enables it")
    endif()
    _cudeploy_make_runtime(problem)
    if(problem)
      message(FATAL_ERROR "cudeploy_link_runtime: ${target}: ${problem}")
    endif()
    if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
      _cudeploy_say_plain_runtime("${target}")
      set(mode static)
    endif()
  endif()
  if(mode STREQUAL "unified")
    _cudeploy_runtime_libraries(libraries unified)
    set_target_properties("${target}" PROPERTIES CUDEPLOY_ANCHOR ${arg_ANCHOR})
    if(arg_ANCHOR STREQUAL "exported")
      cmake_language(EVAL CODE "cmake_language(DEFER CALL _cudeploy_fit_anchor [[${target}]])")
    endif()
    _cudeploy_hide_kernels("${target}")
    # CUDA may have been enabled since the runtime was made.
    get_property(archive GLOBAL PROPERTY CUDEPLOY_CUDART_STATIC)
    _cudeploy_check_one_toolkit("${archive}")
  elseif(mode STREQUAL "none")
    _cudeploy_find_toolkit(problem)
    get_property(include GLOBAL PROPERTY CUDEPLOY_CUDA_INCLUDE)
    if(include)
      set_property(TARGET "${target}" APPEND PROPERTY INCLUDE_DIRECTORIES "${include}")
    endif()
  else()
    _cudeploy_find_toolkit(problem)
    string(TOUPPER "CUDEPLOY_CUDART_${mode}" property)
    get_property(runtime GLOBAL PROPERTY ${property})
    if(NOT problem AND NOT runtime)
      set(problem "the toolkit has no ${mode} CUDA runtime")
    endif()
    if(problem)
      message(FATAL_ERROR "cudeploy_link_runtime: ${target}: ${problem}")
    endif()
    _cudeploy_check_one_toolkit("${runtime}")
    get_property(include GLOBAL PROPERTY CUDEPLOY_CUDA_INCLUDE)
    set_property(TARGET "${target}" APPEND PROPERTY INCLUDE_DIRECTORIES "${include}")
    _cudeploy_add_toolkit_runtime(${mode})
    _cudeploy_runtime_libraries(libraries ${mode})
    if(mode STREQUAL "shared")
      # CMake writes no search path for folders that the compiler searches by itself; the loader does not search them.
      get_property(library GLOBAL PROPERTY CUDEPLOY_CUDART_SHARED)
      cmake_path(GET library PARENT_PATH folder)
      set_property(TARGET "${target}" APPEND PROPERTY BUILD_RPATH "${folder}")
    endif()
  endif()

  set_target_properties("${target}" PROPERTIES
    _CUDEPLOY_LINK_RUNTIME "${wanted}"
    CUDEPLOY_RUNTIME "${mode}"
    CUDA_RUNTIME_LIBRARY None)
  # So that a stranger's link with an exported library is watched too.
  set_property(TARGET "${target}" APPEND PROPERTY EXPORT_PROPERTIES CUDEPLOY_RUNTIME)
  # Properties, since target_link_libraries would force its keyword or its plain form on the project, and refuses targets
  # of other folders in older projects.
  set_property(TARGET "${target}" APPEND PROPERTY LINK_LIBRARIES ${libraries})
  get_target_property(type "${target}" TYPE)
  if(type MATCHES "^(STATIC|OBJECT)_LIBRARY$")
    list(TRANSFORM libraries REPLACE "^(.+)$" "$<LINK_ONLY:\\1>")
    set_property(TARGET "${target}" APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${libraries})
  endif()
  set_property(GLOBAL PROPERTY _CUDEPLOY_TOLD TRUE)
  _cudeploy_watch_runtime_agreement()
endfunction()

# What is linked for a runtime, by the names that exported libraries carry.
function(_cudeploy_runtime_libraries result mode)
  set(libraries cudeploy::runtime_${mode})
  if(mode STREQUAL "unified")
    # Which of the two is up to the file that is linked: a static library hands this on, and one link takes only one.
    set(libraries "$<IF:$<STREQUAL:$<TARGET_PROPERTY:CUDEPLOY_ANCHOR>,exported>,cudeploy::runtime,cudeploy::runtime_hidden>")
  endif()
  set(${result} "${libraries}" PARENT_SCOPE)
endfunction()

# Asked at the end of the folder, since options may be set after the call. GNU ld takes no version script with names beside
# one without; in behaviour the two anchors do not differ.
function(_cudeploy_fit_anchor target)
  get_target_property(type "${target}" TYPE)
  string(REGEX REPLACE "^(SHARED|MODULE|EXECUTABLE).*$" "\\1" type "${type}")
  string(REPLACE "EXECUTABLE" "EXE" type "${type}")
  set(options "${CMAKE_${type}_LINKER_FLAGS}")
  set(properties LINK_OPTIONS LINK_FLAGS LINK_LIBRARIES)
  foreach(configuration IN LISTS CMAKE_BUILD_TYPE CMAKE_CONFIGURATION_TYPES)
    string(TOUPPER "${configuration}" configuration)
    list(APPEND properties LINK_FLAGS_${configuration})
    string(APPEND options " ${CMAKE_${type}_LINKER_FLAGS_${configuration}}")
  endforeach()
  foreach(property IN LISTS properties)
    get_target_property(value "${target}" ${property})
    string(APPEND options " ${value}")
  endforeach()
  _cudeploy_linked_targets(linked "${target}")
  foreach(library IN LISTS linked)
    get_target_property(value "${library}" INTERFACE_LINK_OPTIONS)
    get_target_property(libraries "${library}" INTERFACE_LINK_LIBRARIES)
    string(APPEND options " ${value} ${libraries}")
  endforeach()
  if(options MATCHES "-version-script")
    message(STATUS "cudeploy_link_runtime: ${target}: ANCHOR hidden, since its link options carry a version script")
    set_target_properties("${target}" PROPERTIES CUDEPLOY_ANCHOR hidden)
  endif()
endfunction()
