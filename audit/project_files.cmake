# The command is handed on as one file, so the files of `cudeploy new` are compiled into it. Including this file writes
# project_files.cpp into the build folder, into the variable <project_files_source>, and again when a template changes.
set(project_templates "${PROJECT_SOURCE_DIR}/templates/project")
file(GLOB_RECURSE paths CONFIGURE_DEPENDS RELATIVE "${project_templates}" "${project_templates}/*")
list(SORT paths)
set(text "// Written by audit/project_files.cmake from templates/project: do not edit.\n#include \"new_project.hpp\"\n
const std::vector<cudeploy::ProjectFile>& cudeploy::project_files() {\n  static const std::vector<ProjectFile> files = {\n")
foreach(path IN LISTS paths)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${project_templates}/${path}")
  file(READ "${project_templates}/${path}" content)
  string(REGEX MATCH "^([^/]+)/(.+)$" match "${path}")
  string(APPEND text "      {\"${CMAKE_MATCH_1}\", \"${CMAKE_MATCH_2}\", R\"CUDEPLOY(${content})CUDEPLOY\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n")
set(project_files_source "${CMAKE_CURRENT_BINARY_DIR}/project_files.cpp")
file(CONFIGURE OUTPUT "${project_files_source}" CONTENT "@text@" @ONLY)
