# NVIDIA's libraries may be handed on only with their licence, and libnvrtc opens another one by name, which no linker and no
# loader tells. Which of them a bundle holds is known when it is installed. Runs inside cmake_install.cmake, behind the libraries;
# told by _cudeploy_install_targets: _cudeploy_nvidia_libraries (a pattern), _cudeploy_licence, _cudeploy_toolkit (folders),
# _cudeploy_library_folder, _cudeploy_text_folder (relative to the prefix).
set(_cudeploy_installed "${CMAKE_INSTALL_MANIFEST_FILES}")
list(FILTER _cudeploy_installed INCLUDE REGEX "/${_cudeploy_nvidia_libraries}")
foreach(_cudeploy_folder IN ITEMS _cudeploy_library_folder _cudeploy_text_folder)
  cmake_path(ABSOLUTE_PATH ${_cudeploy_folder} BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
endforeach()
if(_cudeploy_installed AND _cudeploy_licence)
  file(INSTALL DESTINATION "${_cudeploy_text_folder}" TYPE FILE RENAME NVIDIA-CUDA-EULA.txt FILES "${_cudeploy_licence}")
elseif(_cudeploy_installed)
  message(WARNING "cudeploy_package: the bundle holds NVIDIA's libraries, but no licence text was found\n"
    "  libraries: ${_cudeploy_installed}\n  hint: install() the CUDA EULA of your toolkit, which asks for it")
endif()
if(_cudeploy_installed MATCHES "/libnvrtc\\.so\\.([0-9]+)")
  list(TRANSFORM _cudeploy_toolkit APPEND "/libnvrtc-builtins.so.${CMAKE_MATCH_1}.*")
  file(GLOB _cudeploy_opened ${_cudeploy_toolkit})
  file(INSTALL DESTINATION "${_cudeploy_library_folder}" TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN FILES ${_cudeploy_opened})
endif()
