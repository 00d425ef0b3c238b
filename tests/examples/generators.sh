#!/bin/sh
# two_plugins with another host compiler and with a generator of several configurations: the audit, the package gates and
# the link options work there too, and a project of C alone or CUDA alone finds the package.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"

generator='Ninja Multi-Config'
must_pass configure "$CUDEPLOY_SOURCE/examples/two_plugins" "$work/many" -DGPUS=90 -DCMAKE_BUILD_TYPE=Release
for configuration in Debug Release; do
  must_pass cmake --build "$work/many" --config $configuration
  output_has 'Auditing left'
  must_pass "$work/many/$configuration/two_plugins"
  [ -s "$work/many/$configuration/libleft.so.audit.json" ]
done
must_pass sh -c "cd '$work/many' && cpack -G TGZ -C Release"
output_has 'audit passed'
# Of two configurations in one package the first one's gates are asked; of none, none can be.
must_pass sh -c "cd '$work/many' && cpack -G TGZ -C 'Debug;Release'"
output_has 'audit passed'
for configuration in '' '-C Relase'; do
  must_fail sh -c "cd '$work/many' && cpack -G TGZ $configuration"
  output_has 'no package is made' 'is none of them: Debug;' 'hint: cpack -C Release'
  output_lacks 'could not find'
  no_package "$work/many"
done

generator=Ninja
if command -v clang++ > /dev/null; then
  must_pass configure "$CUDEPLOY_SOURCE/examples/two_plugins" "$work/clang" -DGPUS=90 -DCMAKE_CXX_COMPILER=clang++ \
    -DCMAKE_CUDA_HOST_COMPILER=clang++
  must_pass cmake --build "$work/clang"
  must_pass "$work/clang/two_plugins"
  output_has 'one CUDA runtime state'
else
  echo "not tried: clang++ is not there"
fi

for language in C CUDA; do
  case $language in C) extension=c ;; CUDA) extension=cu ;; esac
  mkdir -p "$work/$language"
  cat > "$work/$language/CMakeLists.txt" << LISTS
cmake_minimum_required(VERSION 3.24)
project(only LANGUAGES $language)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit runtime)
add_executable(only only.$extension)
cudeploy_target(only RUNTIME unified)
cudeploy_package(TARGETS only GENERATORS TGZ)
LISTS
  cat > "$work/$language/only.$extension" << 'SOURCE'
#include <cuda_runtime_api.h>
int main(void) {
  int version = 0;
  return cudaRuntimeGetVersion(&version) != cudaSuccess && version != 0;
}
SOURCE
  # In a folder with a space, which is in the options of compiler, linker and audit then.
  must_pass configure "$work/$language" "$work/$language/the build" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT"
  must_pass cmake --build "$work/$language/the build"
  output_has 'Auditing only'
  must_pass "$work/$language/the build/only"
  must_pass sh -c "cd '$work/$language/the build' && cpack"
  output_has 'audit passed'
done

# A static library of the user's carries what its users' links need, through install(EXPORT), to a stranger's link.
mkdir -p "$work/exported"
cat > "$work/exported/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(exported LANGUAGES CXX)
find_package(cudeploy 1.0 REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/x.cpp" "#include <cuda_runtime_api.h>\nint x() { int v = 0; return cudaRuntimeGetVersion(&v); }\n")
add_library(x STATIC "${CMAKE_BINARY_DIR}/x.cpp")
cudeploy_target(x RUNTIME unified)
install(TARGETS x EXPORT x ARCHIVE DESTINATION lib)
install(EXPORT x NAMESPACE x:: FILE x-targets.cmake DESTINATION lib/cmake/x)
file(WRITE "${CMAKE_BINARY_DIR}/x-config.cmake" "include(CMakeFindDependencyMacro)\nfind_dependency(cudeploy)\n"
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/x-targets.cmake\")\n")
install(FILES "${CMAKE_BINARY_DIR}/x-config.cmake" DESTINATION lib/cmake/x)
LISTS
must_pass configure "$work/exported" "$work/exported/build" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT"
must_pass cmake --build "$work/exported/build"
must_pass cmake --install "$work/exported/build" --prefix "$work/exported/prefix"
# Nothing of this machine's toolkit: the stranger has another.
if grep -n '/lib[a-z0-9_]*\.\(a\|so\)' "$work/exported/prefix/lib/cmake/x/x-targets.cmake"; then
  echo "the exported library names files of this machine"
  exit 1
fi
mkdir -p "$work/stranger"
cat > "$work/stranger/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(stranger LANGUAGES CXX)
find_package(x REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/main.cpp" "int x(); int main() { return x() != 0 && x() != 35; }\n")
add_executable(stranger "${CMAKE_BINARY_DIR}/main.cpp")
target_link_libraries(stranger PRIVATE x::x)
LISTS
must_pass configure "$work/stranger" "$work/stranger/build" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT" \
  -Dx_DIR="$work/exported/prefix/lib/cmake/x"
must_pass cmake --build "$work/stranger/build"
must_pass "$work/stranger/build/stranger"
must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --format json "$work/stranger/build/stranger"
output_has '"kind": "unified"'
# The stranger's own runtime must be of the same kind, which the exported library says.
echo 'cudeploy_target(stranger RUNTIME shared)' >> "$work/stranger/CMakeLists.txt"
must_fail configure "$work/stranger" "$work/stranger/build"
output_has 'stranger has the shared CUDA runtime and links x::x, which has the unified one' 'mixed-runtime'
echo "generators: Ninja Multi-Config, clang++, C alone, CUDA alone, an exported static library"
