#!/bin/sh
# What a project sets for all its targets, or says of the CMake that it was written for, must not reach what cudeploy brings.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/project"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

cat > "$work/project/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION ${MINIMUM})
project(settings VERSION 1.0 LANGUAGES CXX)
find_package(cudeploy 1.0 REQUIRED)
find_package(CUDAToolkit REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/main.cpp" "#include <cuda_runtime_api.h>\nint main() { int n; return cudaGetDeviceCount(&n) == cudaSuccess && n < 0; }\n")
add_executable(app "${CMAKE_BINARY_DIR}/main.cpp")
set_target_properties(app PROPERTIES AUTOMOC OFF AUTOUIC OFF AUTORCC OFF)  # this project has no Qt
cudeploy_target(app RUNTIME ${RUNTIME})
cudeploy_package(TARGETS app)
LISTS
# builds NAME [CMAKE-ARGUMENT...] : configured with all that CMake can warn of as errors, built, installed
builds() {
  name=$1
  shift
  must_pass configure "$work/project" "$work/$name" -DMINIMUM=3.24 -DRUNTIME=unified -Wdev -Werror=dev "$@"
  output_lacks Warning
  must_pass cmake --build "$work/$name"
  output_lacks ' warning: '
  must_pass cmake --install "$work/$name" --prefix "$work/$name/there" --config "${config:-}"
  same "what $name installs" "$(find "$work/$name/there" -type f)" "$work/$name/there/bin/app"
}
for standard in 98 11 14 23; do builds "standard $standard" -DCMAKE_CXX_STANDARD=$standard; done
for compiler in g++ clang++; do
  if ! command -v $compiler > /dev/null; then echo "not tried: $compiler (not here)" && continue; fi
  builds "warnings of $compiler" -DCMAKE_CXX_COMPILER=$compiler -DCMAKE_CXX_STANDARD=11 \
    '-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wshadow -Wmissing-declarations -Wold-style-cast -Wconversion -Werror -Wno-error=old-style-cast'
done
builds tools -DCMAKE_AUTOMOC=ON -DCMAKE_AUTOUIC=ON -DCMAKE_AUTORCC=ON -DCMAKE_UNITY_BUILD=ON
# Of CMake 3.13 and before: generator expressions in install(CODE) stay as they are.
must_pass configure "$work/project" "$work/old" -DMINIMUM=3.10...3.13 -DRUNTIME=unified
must_pass cmake --build "$work/old"
must_pass cmake --install "$work/old" --prefix "$work/old/there"
must_pass sh -c "cd '$work/old' && cpack -G TGZ"
output_has 'audit passed'
generator='Ninja Multi-Config' config=Debug
builds configurations
# CMake takes the name of a configuration in any case.
must_pass cmake --install "$work/configurations" --prefix "$work/configurations/lower" --config debug
same 'what "debug" installs' "$(find "$work/configurations/lower" -type f)" "$work/configurations/lower/bin/app"
packs() { (cd "$work/configurations" && cpack -G TGZ "$@"); }
must_pass packs -C debug
output_has 'audit passed'
for wrong in '' Nix 'Debug;Nix'; do
  must_fail packs -C "$wrong"
  output_has "no package is made: this build has several configurations, and \"${wrong#Debug;}\" is none of them: Debug;Release" \
    'hint: cpack -C Release'
  output_lacks 'could not find' 'list GET'
  no_package "$work/configurations"
done
generator=Ninja config=
# Compilers divide what they hand to the linker at commas: only the unified runtime needs that.
must_fail configure "$work/project" "$work/a, b" -DMINIMUM=3.24 -DRUNTIME=unified
output_has 'has a comma in its name' 'hint: another build folder'
must_pass configure "$work/project" "$work/a, b" -DMINIMUM=3.24 -DRUNTIME=shared
output_has 'cudeploy::runtime is left out:' 'has a comma in its name'
must_pass cmake --build "$work/a, b"
must_pass sh -c "cd '$work/a, b' && cpack -G TGZ"
output_has 'audit passed'

# In the project's tree: every library of cudeploy's is compiled from its own sources, file by file.
must_pass configure "$here/in_tree" "$work/in_tree" -DCUDEPLOY_SOURCE="$CUDEPLOY_SOURCE" -DCMAKE_UNITY_BUILD=ON
same "joined sources of cudeploy's" "$(cmake --build "$work/in_tree" -- -t targets all | grep -c 'cudeploy-build.*unity_')" 0
must_pass sh -c "cmake --build '$work/in_tree' -- -t targets all | grep -c 'audit/CMakeFiles/cudeploy_audit.dir/fatbin.cpp.o'"

echo "project_settings: standards, warnings, tools, an old project"
