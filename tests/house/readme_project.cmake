# The CMake lines of the README, taken from it as they stand, are a whole project: built and packed against an
# installed cudeploy. Script variables: CUDEPLOY_BUILD (build folder of cudeploy), README, NVCC, TOOLKIT, FOLDER.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${FOLDER}")
file(READ "${README}" text)
if(NOT text MATCHES "```cmake\n([^`]*)```")
  message(FATAL_ERROR "README.md has no block of CMake")
endif()
set(lines "${CMAKE_MATCH_1}")
file(WRITE "${FOLDER}/source/CMakeLists.txt" "cmake_minimum_required(VERSION 3.24)\nproject(app LANGUAGES CXX CUDA)\n${lines}")
file(WRITE "${FOLDER}/source/main.cu" "
__global__ void square(int* value) { *value *= *value; }
int main() {
  int* value = nullptr;
  if (cudaMalloc(&value, sizeof(int)) != cudaSuccess) return 0;  // no GPU here
  square<<<1, 1>>>(value);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run("${CMAKE_COMMAND}" --install "${CUDEPLOY_BUILD}" --prefix "${FOLDER}/prefix")
run("${CMAKE_COMMAND}" -S "${FOLDER}/source" -B "${FOLDER}/build" -G Ninja -D CMAKE_BUILD_TYPE=Release
  -D "CMAKE_PREFIX_PATH=${FOLDER}/prefix" -D "CMAKE_CUDA_COMPILER=${NVCC}" -D "CUDAToolkit_ROOT=${TOOLKIT}")
run("${CMAKE_COMMAND}" --build "${FOLDER}/build")
cmake_path(GET CMAKE_COMMAND PARENT_PATH cmake_folder)
find_program(cpack cpack HINTS "${cmake_folder}" REQUIRED)
run("${cpack}" --config "${FOLDER}/build/CPackConfig.cmake" -B "${FOLDER}/packages")
file(GLOB packages "${FOLDER}/packages/*.tar.gz" "${FOLDER}/packages/*.deb")
if(NOT packages)
  message(FATAL_ERROR "cpack made no package in ${FOLDER}/packages")
endif()
run("${CMAKE_COMMAND}" --install "${FOLDER}/build" --prefix "${FOLDER}/dist")
run("${FOLDER}/dist/bin/app")
