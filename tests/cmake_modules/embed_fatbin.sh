#!/bin/sh
# cudeploy_embed_fatbin: the symbol is what was compiled, aligned, declared for C and C++, and made again when a source, a
# header or an option changes, and only then.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/source"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

cat > "$work/source/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(embed LANGUAGES C CXX)
find_package(cudeploy 1.0 REQUIRED)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
add_subdirectory(below)  # a target of another folder
add_library(x MODULE main.cpp)
target_compile_definitions(c PRIVATE FACTOR=3)
foreach(i RANGE 1)  # the second call does nothing
  cudeploy_embed_fatbin(c NAME two SOURCES one.cu other.cu GPUS 80 90 PTX 80)
  cudeploy_embed_fatbin(x NAME single SOURCES one.cu GPUS 90 DRIVER ${DRIVER} OPTIONS -DFACTOR=2)
endforeach()
cudeploy_target(c RUNTIME none)
LISTS
mkdir "$work/source/below"
echo 'add_executable(c ../main.c)' > "$work/source/below/CMakeLists.txt"
cat > "$work/source/main.c" << 'SOURCE'
#include <stdint.h>
#include <stdio.h>
#include "two.h"
int main(void) {
  FILE* file = fopen("two.bin", "wb");
  if ((uintptr_t)two % 16 != 0 || fwrite(two, 1, two_size, file) != two_size) return 1;
  return fclose(file);
}
SOURCE
cat > "$work/source/main.cpp" << 'SOURCE'
#include "single.h"
extern "C" size_t size() { return single_size + single[0]; }
SOURCE
echo '#include "factor.cuh"
extern "C" __global__ void one(float* x) { *x *= FACTOR + MORE; }' > "$work/source/one.cu"
echo 'extern "C" __global__ void other(float* x) { *x += FACTOR; }' > "$work/source/other.cu"
echo '#define MORE 1' > "$work/source/factor.cuh"
build="$work/the build"  # with a space, which .incbin meets too
embed() { must_pass configure "$work/source" "$build" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT" "$@"; }

embed -DDRIVER=600.1
must_pass cmake --build "$build"
must_pass sh -c "cd '$work' && 'the build/c'"
must_pass cmp "$work/two.bin" "$build/cudeploy/embed/c/two.fatbin"
must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --format json --kernels "$build/c"
output_has '"arch": 80' '"arch": 90' '"kind": "ptx"' '"one"' '"other"'
nm -D "$build/libx.so" > "$log"
output_lacks single

must_pass cmake --build "$build"
output_lacks 'Compiling device code' Linking
echo '#define MORE 2' > "$work/source/factor.cuh"
must_pass cmake --build "$build"
output_has 'Compiling device code two' 'Compiling device code single' 'Linking C executable c'
echo '// changed' >> "$work/source/other.cu"
must_pass cmake --build "$build"
output_has 'Compiling device code two'
output_lacks 'Compiling device code single'
# Another driver, another option: made again, where nvcc knows the option.
embed -DDRIVER=535.54
must_pass cmake --build "$build"
if grep -q 'compress-mode' "$build/build.ninja"; then
  output_has 'Compiling device code single' 'Linking CXX shared module'
  output_lacks 'Compiling device code two'
fi

# Each configuration has its own definitions, so its own fat binary. The host compiler of the environment is taken, as the language
# takes it.
mkdir "$work/many"
cat > "$work/many/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(many LANGUAGES C)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
add_executable(program ../source/main.c)
target_compile_definitions(program PRIVATE "$<$<CONFIG:Debug>:FACTOR=11>" "$<$<CONFIG:Release>:FACTOR=22>")
cudeploy_embed_fatbin(program NAME two SOURCES ../source/other.cu GPUS 80 PTX none)
LISTS
cat > "$work/host_compiler" << 'SCRIPT'
#!/bin/sh
touch "$0 was called"
exec c++ "$@"
SCRIPT
chmod +x "$work/host_compiler"
many="$work/the configurations"
generator='Ninja Multi-Config'
CUDAHOSTCXX="$work/host_compiler" must_pass configure "$work/many" "$many" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT"
for configuration in Debug Release; do
  must_pass cmake --build "$many" --config $configuration
  must_pass sh -c "cd '$work' && '$many/$configuration/program' && mv two.bin $configuration.bin"
  must_pass cmp "$work/$configuration.bin" "$many/cudeploy/embed/program/$configuration/two.fatbin"
  must_pass cmake --build "$many" --config $configuration
  output_lacks 'Compiling device code' Linking
done
must_fail cmp "$work/Debug.bin" "$work/Release.bin"
# Nothing is compiled again where CMake runs again in a shell that does not name it.
must_pass env -u CUDAHOSTCXX cmake "$many"
must_pass cmake --build "$many" --config Release
output_lacks 'Compiling device code'
[ -e "$work/host_compiler was called" ] || { echo "CUDAHOSTCXX is not taken"; exit 1; }
echo "embed_fatbin: embedded, declared, made again when it must be"
