#[=======================================================================[.rst:
cudeploy_package
----------------

.. versionadded:: 1.0

A bundle that is audited before it exists, and again when it is finished.

.. code-block:: cmake

  cudeploy_package([TARGETS <target>...] [GENERATORS TGZ|ZIP|DEB|RPM|STGZ...] [POLICY <name>|<file>] [GPUS <gpu>...]
                   [DRIVER <version>] [DRIVER_DEPENDS])

``TARGETS``
  Installed into ``bin`` and the library folder, together with the shared libraries that they need and that the
  target machine may lack; never driver libraries (they belong to the machine's driver) nor the C and C++ runtimes. Of
  what lies in ``/lib`` and ``/usr/lib`` only NVIDIA's libraries go along: install() others, or name them in the policy's
  ``provided``.
  Where NVIDIA's libraries are among them, the toolkit's licence text goes along, and what they open by name whatever they
  do (the builtins of libnvrtc, the parts of cuDNN), with its needs, from the folder that they come from. A
  libnvrtc without a search path of its own (13.0) finds them by that of a program with :command:`cudeploy_rpath`
  OVERRIDABLE ``no``. Targets with different CUDA runtimes, of which one is a library, are an error.
  Default: nothing is installed here; the project's own install() rules decide.
``GENERATORS``
  Default: what CPACK_GENERATOR says, else ``TGZ``, and ``DEB`` where dpkg is there.
``POLICY``
  ``default``, or a TOML file, relative to the current source folder, as in :command:`cudeploy_audit`.
``GPUS``, ``DRIVER``
  What is wanted of every fat binary in the bundle, whatever the policy says. Default: what the policy says, else what the
  TARGETS were told: all their GPUs, and the oldest driver. Without TARGETS: the GPUs that all targets that were told some have
  in common, which a message names, and a driver that is enough for each.
``DRIVER_DEPENDS``
  DEB and RPM recommend the driver. With this they depend on it: then they do not install where the driver
  came from NVIDIA's installer, and drag a driver into containers.

Before ``cpack`` makes a package, the staged tree is audited; a finding of severity error stops cpack, and no package is left
behind, neither a new nor an older one of the same name, in whatever format, nor cpack's own copies in ``_CPack_Packages``: only
the unpacked tree stays, and the message says where. Packages of other names, and of components that this run does not make,
stay too. The report is put into the package, as ``share/<package>/cudeploy-audit.json``. The finished
package is audited again, and removed when it fails. Warnings are shown, once, and stop nothing, unless the policy makes
errors of them. A format that the audit cannot read (``cpack -G 7Z``) is refused.
Packages of components (CPACK_DEB_COMPONENT_INSTALL and the like) are audited as if all that one run makes were installed
together, since one may bring what another needs; a component that is packed alone must do without the others. DEB and RPM
have the report as ``cudeploy-audit.<component>.json``; archives of components hold nothing but what was installed.
With SOURCE_DATE_EPOCH set, the same bytes come out of two build folders of one filesystem, a DEB only where the umask is the same
too, an archive (TGZ, ZIP, STGZ) where the files' owner is. Debug information names the folder that was built in, which the
files' build-ids tell even where it is stripped: such builds want ``-ffile-prefix-map``. A package of the sources is not audited.

DEB and RPM put the files below ``/usr``, where a bundled libcudart is in the way of other packages: to keep a bundle in a
folder of its own, set CPACK_PACKAGING_INSTALL_PREFIX to ``/opt/<name>`` before the call.

Reads the CPACK_ variables that are set before the call and calls include(CPack) itself. Call it last, once per project. An
include(CPack) before it, or behind it up to the end of the top folder, is an error: it would take the gates out.
#]=======================================================================]
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/nearest_word.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_audit.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/runtime_agreement.cmake")

# The names of NVIDIA's libraries that may be handed on, up to ".so".
set_property(GLOBAL PROPERTY _CUDEPLOY_NVIDIA_LIBRARIES "lib(cudart|cublas(Lt)?|nvblas|cufftw?|curand|cusolver(Mg)?|cusparse(Lt)?|\
cudnn[a-z_]*|cutensor(Mg)?|nccl|nvrtc(-builtins)?|nvJitLink|nvfatbin|nvvm|nvjpeg2?k?|npp[a-z]+|nvToolsExt|nvtx3interop|nvshmem_host|\
cupti|nvperf_(host|target)|cufile(_rdma)?)")

function(cudeploy_package)
  list(APPEND CMAKE_MESSAGE_CONTEXT "cudeploy_package")
  cmake_parse_arguments(PARSE_ARGV 0 arg "DRIVER_DEPENDS" "POLICY;DRIVER" "TARGETS;GENERATORS;GPUS")
  _cudeploy_check_leftovers(cudeploy_package arg TARGETS GENERATORS POLICY GPUS DRIVER DRIVER_DEPENDS)
  set(formats TGZ ZIP DEB RPM STGZ)
  _cudeploy_check_driver(cudeploy_package "the bundle" "${arg_DRIVER}")
  _cudeploy_check_gpu_numbers(cudeploy_package "${arg_GPUS}" TARGETS GENERATORS POLICY DRIVER DRIVER_DEPENDS)
  set(targets "")
  foreach(target IN LISTS arg_TARGETS)
    _cudeploy_check_target(cudeploy_package target "${target}" EXECUTABLE SHARED_LIBRARY MODULE_LIBRARY)
    list(APPEND targets "${target}")
  endforeach()
  set(arg_TARGETS "${targets}")
  foreach(format IN LISTS arg_GENERATORS)
    _cudeploy_check_choice(cudeploy_package GENERATORS "${format}" ${formats})
  endforeach()
  set(wanted "${ARGV}")
  get_property(before GLOBAL PROPERTY _CUDEPLOY_PACKAGE)
  if(before STREQUAL "${CMAKE_CURRENT_SOURCE_DIR} ${wanted}")
    return()
  elseif(before)
    message(FATAL_ERROR "cudeploy_package: called before, with other values or in another folder\n"
      "  before: ${before}\n  now:    ${CMAKE_CURRENT_SOURCE_DIR} ${wanted}\n  hint: one call, in the top folder of the project")
  endif()
  if(CPack_CMake_INCLUDED)
    message(FATAL_ERROR "cudeploy_package: CPack was included before, so nothing can be audited\n"
      "  hint: take include(CPack) out; cudeploy_package includes it")
  endif()
  if(NOT TARGET cudeploy::cudeploy)
    message(FATAL_ERROR "cudeploy_package: the command cudeploy is not there\n"
      "  hint: find_package(cudeploy COMPONENTS audit runtime)")
  endif()
  set_property(GLOBAL PROPERTY _CUDEPLOY_PACKAGE "${CMAKE_CURRENT_SOURCE_DIR} ${wanted}")
  # What cpack runs has to be built before, with `all`, and an in-tree command may be left out of that.
  get_target_property(imported cudeploy::cudeploy IMPORTED)
  if(NOT imported)
    add_custom_target(cudeploy_package_command ALL)
    add_dependencies(cudeploy_package_command cudeploy::cudeploy)
  endif()
  if(NOT DEFINED arg_POLICY)
    set(arg_POLICY default)
  endif()
  _cudeploy_policy_file(cudeploy_package policy policy_file "${arg_POLICY}")
  _cudeploy_check_package_agreement("${arg_TARGETS}")
  _cudeploy_install_targets("${arg_TARGETS}")

  if(arg_GENERATORS)
    set(CPACK_GENERATOR ${arg_GENERATORS})
  elseif(NOT CPACK_GENERATOR)
    set(CPACK_GENERATOR TGZ)
    find_program(CUDEPLOY_DPKG_PROGRAM dpkg)
    mark_as_advanced(CUDEPLOY_DPKG_PROGRAM)
    if(CUDEPLOY_DPKG_PROGRAM)
      list(APPEND CPACK_GENERATOR DEB)
    endif()
  endif()
  _cudeploy_describe_packages("${arg_DRIVER_DEPENDS}")

  # What the gates need to know and only the generated build does: where the command is, which GPUs the targets name.
  set(told "")
  if(arg_TARGETS)
    foreach(target IN LISTS arg_TARGETS)
      _cudeploy_take_from_linked("${target}")
    endforeach()
  else()  # which of them are in it is not known
    get_property(told GLOBAL PROPERTY _CUDEPLOY_TARGETS_WITH_GPUS)
    list(REMOVE_DUPLICATES told)
  endif()
  _cudeploy_wanted_by_all(common enough_driver "${told}")
  set(gpus "")
  set(driver "${arg_DRIVER}")
  set(gpus_option --default-gpus)
  set(driver_option --default-driver)
  if(driver)
    set(driver_option --driver)
  endif()
  if(arg_GPUS)
    set(gpus_option --gpus)
    list(TRANSFORM arg_GPUS REPLACE "[af]$" "")
    list(JOIN arg_GPUS "," gpus)
  elseif(told)
    list(JOIN common "," gpus)
    list(JOIN common " " common)
    list(JOIN told " " told)
    if(common)
      message(STATUS "cudeploy_package: wanted of the bundle, where the policy names no GPUs: ${common}, which all targets that were \
told GPUS have in common (${told})")
    else()
      message(STATUS "cudeploy_package: no GPU is wanted of the bundle, where the policy names none: ${told} were told GPUS, and have \
none in common")
    endif()
  else()
    foreach(target IN LISTS arg_TARGETS)
      list(APPEND gpus "$<TARGET_PROPERTY:${target},_CUDEPLOY_GPU_NUMBERS>")
    endforeach()
    set(gpus "$<JOIN:$<REMOVE_DUPLICATES:$<FILTER:${gpus},EXCLUDE,^$>>,$<COMMA>>")
  endif()
  if(NOT driver)
    set(driver "${enough_driver}")
  endif()
  if(NOT driver)  # the bundle runs where each of them is meant to
    foreach(target IN LISTS arg_TARGETS)
      get_target_property(wanted_by_target "${target}" CUDEPLOY_DRIVER)
      if(wanted_by_target AND (NOT driver OR wanted_by_target VERSION_LESS driver))
        set(driver "${wanted_by_target}")
      endif()
    endforeach()
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/cudeploy/package")
  get_property(many_configurations GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(many_configurations)
    set(suffix "_$<LOWER_CASE:$<CONFIG>>")
    set(CPACK_CUDEPLOY_CONFIGURATIONS "${CMAKE_CONFIGURATION_TYPES}")
  else()
    set(suffix "")
    set(CPACK_CUDEPLOY_CONFIGURATIONS "")
  endif()
  file(GENERATE OUTPUT "${folder}/wanted${suffix}.cmake" CONTENT
"set(CUDEPLOY_COMMAND \"$<TARGET_FILE:cudeploy::cudeploy>\")
set(CUDEPLOY_POLICY \"${policy}\")
set(CUDEPLOY_GPUS_OPTION ${gpus_option})
set(CUDEPLOY_GPUS \"${gpus}\")
set(CUDEPLOY_DRIVER_OPTION ${driver_option})
set(CUDEPLOY_DRIVER \"${driver}\")
")
  set(CPACK_CUDEPLOY_WANTED "${folder}/wanted")
  set(sources_as_before "")
  foreach(gate IN ITEMS INSTALL=remove_older_package PRE_BUILD=gate_before_package POST_BUILD=gate_after_package)
    string(REPLACE "=" ";" gate "${gate}")
    list(GET gate 0 when)
    list(GET gate 1 script)
    string(APPEND sources_as_before "set(CPACK_${when}_SCRIPTS [[${CPACK_${when}_SCRIPTS}]])\n")
    list(APPEND CPACK_${when}_SCRIPTS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${script}.cmake")
  endforeach()
  include(CPack)
  # A package of the sources (package_source) holds nothing that is built.
  file(APPEND "${CPACK_SOURCE_OUTPUT_CONFIG_FILE}" "${sources_as_before}")
  cmake_language(EVAL CODE
    "cmake_language(DEFER DIRECTORY [[${CMAKE_SOURCE_DIR}]] CALL _cudeploy_check_gates [[${CPACK_OUTPUT_CONFIG_FILE}]])")
endfunction()

# A later include(CPack), in this folder or in one above, writes anew what cpack reads, and knows nothing of the gates.
function(_cudeploy_check_gates cpack_config)
  file(STRINGS "${cpack_config}" gates REGEX "gate_(before|after)_package\\.cmake")
  list(LENGTH gates count)
  if(count LESS 2)
    file(REMOVE "${cpack_config}")  # cpack would run all the same
    message(FATAL_ERROR "cudeploy_package: CPack was included again after cudeploy_package, so cpack would audit nothing\n"
      "  hint: take include(CPack) out; cudeploy_package includes it. Where a project above makes the package, it calls \
cudeploy_package, and this one only if(PROJECT_IS_TOP_LEVEL)")
  endif()
endfunction()

# Installs targets with the libraries that they need, except those of the driver and of the C and C++ runtimes.
function(_cudeploy_install_targets targets)
  if(NOT targets)
    return()
  endif()
  include(GNUInstallDirs)
  install(TARGETS ${targets}
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_SKIP)
  list(TRANSFORM targets REPLACE "^(.+)$" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  set(searched ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES})
  get_property(cudart GLOBAL PROPERTY CUDEPLOY_CUDART_SHARED)
  if(cudart)
    cmake_path(GET cudart PARENT_PATH folder)
    list(PREPEND searched "${folder}")
  endif()
  get_property(nvidia GLOBAL PROPERTY _CUDEPLOY_NVIDIA_LIBRARIES)
  get_property(toolkit GLOBAL PROPERTY CUDEPLOY_CUDA_INCLUDE)
  if(toolkit)
    file(REAL_PATH "${toolkit}" toolkit)
    cmake_path(GET toolkit PARENT_PATH toolkit)
  endif()
  # As CPack will name the package, which has the report in a folder of that name too.
  set(package "${CMAKE_PROJECT_NAME}")
  if(CPACK_PACKAGE_NAME)
    set(package "${CPACK_PACKAGE_NAME}")
  endif()
  # What is known of a build's files only when it is generated lies in a script of its own: a project of CMake 3.13 or before
  # gets no generator expressions in install(CODE).
  set(script "${CMAKE_CURRENT_BINARY_DIR}/cudeploy/${PROJECT_NAME}")
  set(of_build "")
  set(of_install "")
  set(optional "")
  get_property(several_builds GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(several_builds)  # CMake installs them whatever the case of their names, and nothing of one that it does not know
    set(of_build "-$<LOWER_CASE:$<CONFIG>>")
    set(of_install "-\${_cudeploy_configuration}")
    set(optional OPTIONAL)
  endif()
  file(GENERATE OUTPUT "${script}${of_build}-libraries.cmake" CONTENT "set(_cudeploy_targets [[${files}]])
set(_cudeploy_searched [[${searched}]])
set(_cudeploy_nvidia [[${nvidia}]])
set(_cudeploy_toolkit [[${toolkit}]])
set(_cudeploy_command [[$<TARGET_FILE:cudeploy::cudeploy>]])
set(_cudeploy_library_folder [[${CMAKE_INSTALL_LIBDIR}]])
set(_cudeploy_text_folder [[${CMAKE_INSTALL_DATADIR}/${package}]])
include([[${CMAKE_CURRENT_FUNCTION_LIST_DIR}/install_libraries.cmake]])
")
  install(CODE "
    set(_cudeploy_script [[${script}]])
    string(TOLOWER \"\${CMAKE_INSTALL_CONFIG_NAME}\" _cudeploy_configuration)
    include(\"\${_cudeploy_script}${of_install}-libraries.cmake\" ${optional})")
endfunction()

# What Debian and RPM packages say of themselves, where the project has not said it.
macro(_cudeploy_describe_packages driver_depends)
  if(NOT CPACK_PACKAGE_CONTACT)
    set(CPACK_PACKAGE_CONTACT "the maintainers of ${PROJECT_NAME}")
  endif()
  if(NOT CPACK_PACKAGE_VENDOR)
    set(CPACK_PACKAGE_VENDOR "${PROJECT_NAME}")
  endif()
  # The driver is the machine's. Debian's package is libcuda1; other sources of the driver provide libcuda.so.1.
  set(_cudeploy_weight RECOMMENDS)
  if(${driver_depends})
    set(_cudeploy_weight DEPENDS)
  endif()
  _cudeploy_join_words(CPACK_DEBIAN_PACKAGE_${_cudeploy_weight} "libcuda1 | libcuda.so.1")
  if(_cudeploy_weight STREQUAL "DEPENDS")
    _cudeploy_join_words(CPACK_RPM_PACKAGE_REQUIRES "libcuda.so.1()(64bit)")
  else()  # CPack has no variable for what an RPM package recommends
    string(APPEND CPACK_RPM_SPEC_MORE_DEFINE "\nRecommends: libcuda.so.1()(64bit)")
  endif()
  # rpm would else require the driver of whatever links it, offer NVIDIA's bundled libraries to the whole system (what is not
  # offered must not be required either), and rewrite NVIDIA's archives when it strips them, which their licence forbids.
  get_property(_cudeploy_nvidia GLOBAL PROPERTY _CUDEPLOY_NVIDIA_LIBRARIES)
  string(APPEND CPACK_RPM_SPEC_MORE_DEFINE
    "\n%global __requires_exclude ^(lib(cuda|nvidia-.*)|${_cudeploy_nvidia})\\\\.so.*$\n"
    "%global __provides_exclude ^${_cudeploy_nvidia}\\\\.so.*$\n"
    "%define __os_install_post %{nil}\n"
    "%define _buildhost reproducible\n%define use_source_date_epoch_as_buildtime 1\n"
    "%define clamp_mtime_to_source_date_epoch 1")
endmacro()

macro(_cudeploy_join_words variable words)
  if(${variable})
    string(APPEND ${variable} ", ${words}")
  else()
    set(${variable} "${words}")
  endif()
endmacro()
