#!/bin/sh
# The report is of use in the language that the program is written in. Each language of examples/languages is built and run
# with the installed command and with the one of the build tree; a compiler that is not there is named. A Fortran project
# with CMake needs no more than find_package(cudeploy).
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"

# language NAME COMMAND-THAT-IT-NEEDS
language() {
  if ! command -v "$2" > /dev/null; then
    echo "not tried: $1, $2 is not there"
    return 0
  fi
  must_pass make -C "$CUDEPLOY_SOURCE/examples/languages" "$1" BUILD="$work/$tree" CUDA="$CUDEPLOY_TOOLKIT" \
    LINK_KIT="$kit" CFLAGS='-std=c99 -O2 -pedantic -Wall -Wextra -Werror'
  output_has 'copies 2, states 1'
  must_pass env CUDEPLOY_UNIFY=0 make -C "$CUDEPLOY_SOURCE/examples/languages" "$1" BUILD="$work/$tree" \
    CUDA="$CUDEPLOY_TOOLKIT" LINK_KIT="$kit"
  output_has 'copies 2, states 2'
  tried="$tried $1"
}

tried=
for tree in install build; do
  case $tree in
    install) kit="$CUDEPLOY_PREFIX/bin/cudeploy link-kit" ;;
    build) kit="$CUDEPLOY_BUILD/bin/cudeploy link-kit" ;;
  esac
  language c cc
  language fortran gfortran
  language python python3
  language rust rustc
done

if command -v gfortran > /dev/null; then
  mkdir "$work/fortran"
  cat > "$work/fortran/CMakeLists.txt" << EOF
cmake_minimum_required(VERSION 3.24)
project(languages LANGUAGES C Fortran)
find_package(cudeploy REQUIRED)
add_library(first SHARED "$CUDEPLOY_SOURCE/examples/languages/library.c")
cudeploy_link_runtime(first unified)
add_executable(program "$CUDEPLOY_SOURCE/examples/languages/main.f90")
target_link_libraries(program PRIVATE first)
cudeploy_link_runtime(program unified)
EOF
  must_pass cmake -S "$work/fortran" -B "$work/fortran/build" -G Ninja -DCMAKE_PREFIX_PATH="$CUDEPLOY_PREFIX" \
    -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT"
  must_pass cmake --build "$work/fortran/build"
  must_pass "$work/fortran/build/program"
  output_has 'copies 2, states 1'
fi
echo "languages:$tried"
