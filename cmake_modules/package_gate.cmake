# What the gates of a package share: how the audit is asked, and which packages earlier runs left. Runs inside cpack.

# _cudeploy_read_wanted(): what cudeploy_package noted when the build was generated. Of several configurations in one package
# (cpack -C "Debug;Release") the first one counts.
macro(_cudeploy_read_wanted)
  set(_cudeploy_wanted "${CPACK_CUDEPLOY_WANTED}.cmake")
  if(CPACK_CUDEPLOY_MANY_CONFIGURATIONS)
    list(APPEND CPACK_BUILD_CONFIG "")
    list(GET CPACK_BUILD_CONFIG 0 _cudeploy_configuration)
    set(_cudeploy_wanted "${CPACK_CUDEPLOY_WANTED}_${_cudeploy_configuration}.cmake")
    if(NOT EXISTS "${_cudeploy_wanted}")
      file(GLOB _cudeploy_known "${CPACK_CUDEPLOY_WANTED}_*.cmake")
      list(TRANSFORM _cudeploy_known REPLACE "^.*_([^_]*)\\.cmake$" "\\1")
      message(FATAL_ERROR "cudeploy: ${CPACK_PACKAGE_FILE_NAME}: no package is made: this build has several configurations, and \
\"${_cudeploy_configuration}\" is none of them: ${_cudeploy_known}\n  hint: cpack -C Release")
    endif()
  endif()
  include("${_cudeploy_wanted}")
endmacro()

# _cudeploy_audit_package(<result> <folder> <report> <path>): audits <path>, seen from <folder>, so that reports hold no path
# of this machine; <result> is empty when it passed, else the report's text. Writes <report> unless empty.
function(_cudeploy_audit_package result folder report path)
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
    WORKING_DIRECTORY "${folder}" RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE errors)
  if(failed)
    set(${result} "${text}${errors}" PARENT_SCOPE)
  else()
    message(STATUS "cudeploy: ${path}: audit passed")
    set(${result} "" PARENT_SCOPE)
  endif()
endfunction()

# _cudeploy_remove_noted(<format pattern>): removes what earlier runs made, in the folder that this one writes to. DEB and
# RPM may choose other names than cpack's, so gate_after_package.cmake notes them.
function(_cudeploy_remove_noted format)
  file(GLOB notes "${CPACK_CUDEPLOY_WANTED}_made_${format}.txt")
  foreach(note IN LISTS notes)
    file(STRINGS "${note}" names)
    foreach(name IN LISTS names)
      file(REMOVE "${CPACK_PACKAGE_DIRECTORY}/${name}")
    endforeach()
  endforeach()
endfunction()
