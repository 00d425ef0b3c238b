# An older package that lies where a new one is expected is taken for the result of a run that failed, be it in the build
# that cpack starts or in the audit. So it goes first. Runs inside cpack (CPACK_INSTALL_SCRIPTS), once per format.
include("${CMAKE_CURRENT_LIST_DIR}/package_gate.cmake")
_cudeploy_remove_made("${CPACK_GENERATOR}")
