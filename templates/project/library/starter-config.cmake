# find_package(starter): the target starter::starter. The CUDA runtime is that of its user's toolkit.
include(CMakeFindDependencyMacro)
find_dependency(cudeploy 1.0)
include("${CMAKE_CURRENT_LIST_DIR}/starter-targets.cmake")
