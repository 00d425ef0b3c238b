#!/bin/sh
# A LIEF that was installed with its package file must be found by that file, Debian's without one, and either as an
# archive for the static command: lief_found.sh SOURCE_DIR FOLDER, which projects are configured, built and run in.
set -eu

source=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder/project" "$folder/own/lib/cmake/LIEF" "$folder/own/include"
cat > "$folder/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.24)
project(project LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
if(CUDEPLOY_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
list(APPEND CMAKE_MODULE_PATH "$source/audit")
find_package(LIEF MODULE REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE LIEF::LIEF)
END
cat > "$folder/project/program.cpp" <<'END'
#include <LIEF/LIEF.hpp>
#include <cstdio>
#ifndef FOUND_BY
#define FOUND_BY "the library"
#endif
int main(int, char** words) {
  std::printf("%s, %d sections\n", FOUND_BY, LIEF::ELF::Parser::parse(words[0])->sections().size() > 20 ? 21 : 0);
}
END
# What LIEF's own installation has, around the LIEF of this machine.
cat > "$folder/own/lib/cmake/LIEF/LIEFConfig.cmake" <<'END'
set(kind "the shared library")
set(suffix .so)
if("STATIC" IN_LIST LIEF_FIND_COMPONENTS)
  set(kind "the archive")
  set(suffix .a)
endif()
set(LIEF_STATIC_FOUND TRUE)
set(LIEF_VERSION 9.9.9)
set(CMAKE_FIND_LIBRARY_SUFFIXES ${suffix})
find_library(library_of_this_machine LIEF NO_CACHE REQUIRED)
add_library(LIEF::LIEF UNKNOWN IMPORTED)
set_target_properties(LIEF::LIEF PROPERTIES IMPORTED_LOCATION "${library_of_this_machine}"
  INTERFACE_COMPILE_DEFINITIONS "FOUND_BY=\"its package file, ${kind}\"")
if(suffix STREQUAL .a)
  set_property(TARGET LIEF::LIEF PROPERTY INTERFACE_LINK_LIBRARIES mbedx509 mbedcrypto)
endif()
END

# found NAME EXPECTED OPTION... : the program says it, and is linked with LIEF as the file name says
found() {
  build=$folder/$1 expected=$2
  shift 2
  { cmake -S "$folder/project" -B "$build" "$@" && cmake --build "$build"; } > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
  said=$("$build/program")
  linked=archive
  ! readelf -d "$build/program" | grep -q 'NEEDED.*libLIEF' || linked=shared
  echo "$said, $linked"
  [ "$said, $linked" = "$expected" ] || { echo "error: expected: $expected"; exit 1; }
}
found none "the library, 21 sections, shared"
found own "its package file, the shared library, 21 sections, shared" -DCMAKE_PREFIX_PATH="$folder/own"
found none_static "the library, 21 sections, archive" -DCUDEPLOY_STATIC=ON
found own_static "its package file, the archive, 21 sections, archive" -DCMAKE_PREFIX_PATH="$folder/own" -DCUDEPLOY_STATIC=ON

# None at all is said in words.
mkdir "$folder/empty"
if cmake -S "$folder/project" -B "$folder/nothing" -DCMAKE_FIND_ROOT_PATH="$folder/empty" -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
  -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY > "$folder/nothing.log" 2>&1; then
  echo "error: LIEF was found where there is none"
  exit 1
fi
grep -q 'Could NOT find LIEF (missing: LIEF_LIBRARY LIEF_INCLUDE_DIR)' "$folder/nothing.log" || {
  cat "$folder/nothing.log"
  exit 1
}
