#!/bin/sh
# Headers of another toolkit that come before its own, whichever way the folder gets to a target: the build is refused where the
# compiler takes them, and runs where it does not.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/project/below" "$work/other" "$work/patch"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

include=$(find -L "$CUDEPLOY_TOOLKIT" -name cuda_runtime_api.h -not -path '*/crt/*' | sort | head -n 1)
include=${include%/*}
number=$(sed -n 's/^#define CUDART_VERSION *//p' "$include/cuda_runtime_api.h")
other=$((number + 490))
with_number() { sed "s/^\(#define CUDART_VERSION *\).*/\1$2/" "$include/cuda_runtime_api.h" > "$1/cuda_runtime_api.h"; }
# nvcc includes cuda_runtime.h by itself, and that what lies beside it: whole folders.
for folder in other patch; do
  ln -s "$include"/* "$work/$folder"
  rm "$work/$folder/cuda_runtime_api.h"
done
with_number "$work/other" "$other"
with_number "$work/patch" "$((number + 1))"
for language in c cpp cu; do echo '#include <cuda_runtime_api.h>' > "$work/project/x.$language"; done
echo 'int plain;' > "$work/project/plain.cpp"

cat > "$work/project/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(headers LANGUAGES C CXX CUDA)
find_package(cudeploy 1.0 REQUIRED COMPONENTS runtime)
list(GET CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES 0 INCLUDE)
add_library(app SHARED ${SOURCES})
add_library(brings INTERFACE)
target_include_directories(brings INTERFACE "$<BUILD_INTERFACE:${OTHER}>")
cudeploy_link_runtime(app ${TOLD})
string(REPLACE "&&" "\n" CASE "${CASE}")
cmake_language(EVAL CODE "${CASE}")
LISTS
cat > "$work/project/below/CMakeLists.txt" << 'LISTS'
add_library(theirs::core INTERFACE IMPORTED)
set_target_properties(theirs::core PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${OTHER}" IMPORTED_NO_SYSTEM ON)
set(CUDAToolkit_INCLUDE_DIRS "${OTHER}")  # as a FindCUDAToolkit that finds the other one leaves it
add_library(CUDA::cublas INTERFACE IMPORTED)
set_target_properties(CUDA::cublas PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${OTHER}" IMPORTED_NO_SYSTEM ON)
add_library(inner OBJECT "${CMAKE_SOURCE_DIR}/x.cu")
cudeploy_link_runtime(inner unified)
target_link_libraries(inner PRIVATE ${LINK})
LISTS
flags=''
configured() { # TOLD SOURCES CASE
  must_pass configure "$work/project" "$work/build" "-DTOLD=$1" "-DSOURCES=$2" "-DOTHER=$work/other" "-DPATCH=$work/patch" \
    "-DCMAKE_CXX_FLAGS=$flags" "-DCASE=$(printf '%s' "$3" | tr '\n' '&' | sed 's/&/\&\&/g')"
}
dotted() { echo "$(($1 / 1000)).$(($1 % 1000 / 10))"; }
# The toolkit's folder comes with shared by the target, with unified by a library, as one of the system.
modes='shared unified'
refused() { # SOURCES CASE [TARGET [FROM]]
  for told in $modes; do
    configured "$told" "$1" "$2"
    must_fail cmake --build "$work/build"
    output_has "cudeploy: ${3:-app}: compiler, headers and CUDA runtime are not of one toolkit [toolkit-mixed]" \
      "before those of CUDA $(dotted "$number") in " "$work/other (CUDA $(dotted "$other")), which comes from ${4:-${3:-app}}"
  done
}
accepted() { # SOURCES CASE
  for told in $modes; do
    configured "$told" "$1" "$2"
    must_pass cmake --build "$work/build"
  done
}

accepted 'x.c;x.cpp;x.cu' ''
# shellcheck disable=SC2016
{
  # By the target, by its folder, by flags.
  before='target_include_directories(app BEFORE PRIVATE "${OTHER}")'
  for sources in x.c x.cpp x.cu; do
    refused "$sources" "$before"
  done
  modes=unified
  refused x.cpp 'include_directories("${OTHER}")'
  refused x.cu 'target_compile_options(app PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-I ${OTHER}>")'
  flags="-I$work/other" refused x.cpp ''
  # By what is linked: told or not, built or imported, here or below.
  refused x.cu 'add_library(between INTERFACE)
    target_link_libraries(between INTERFACE brings)
    target_link_libraries(app PRIVATE between)' app brings
  refused plain.cpp 'set(LINK theirs::core)
    add_subdirectory(below)' inner theirs::core
  refused plain.cpp 'set(LINK CUDA::cublas)
    add_subdirectory(below)' inner

  # Behind the right ones, of the same release, where no source looks, and beside what needs no CUDA headers.
  accepted 'x.c;x.cpp;x.cu' 'target_include_directories(app BEFORE PRIVATE "${PATCH}")'
  accepted x.cu 'target_include_directories(app BEFORE PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${OTHER}>" "$<INSTALL_INTERFACE:${OTHER}>")'
  accepted plain.cpp "$before"
  accepted x.cu 'target_link_libraries(app PRIVATE "$<LINK_ONLY:brings>")'
  modes=shared
  accepted 'x.c;x.cpp;x.cu' 'target_include_directories(app PRIVATE "${OTHER}")
    target_compile_options(app PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Werror>")
    set_target_properties(app PROPERTIES UNITY_BUILD ON)'
  accepted 'x.cpp;x.cu' 'target_link_libraries(app PRIVATE brings)'
}
echo "toolkit_headers: headers of another toolkit are refused where the compiler takes them"
