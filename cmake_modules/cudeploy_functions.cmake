# The public functions, one per file: what find_package(cudeploy) and an in-tree build of cudeploy both give.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_device_code.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_link_runtime.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_embed_fatbin.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_rpath.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_audit.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_target.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cudeploy_package.cmake")
