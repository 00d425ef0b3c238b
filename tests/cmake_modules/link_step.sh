#!/bin/sh
# The audit as a step of the build, and the search paths that it judges, in projects of C that know no toolkit: what it is part of,
# what it leaves behind, and what it says of paths that only the installed file has.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"
project() { # NAME : what stands behind the beginning is read from the standard input
  mkdir -p "$work/$1"
  { cat "$work/begin"; cat; } > "$work/$1/CMakeLists.txt"
}
cat > "$work/begin" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(step VERSION 1.0 LANGUAGES C)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
file(WRITE "${CMAKE_BINARY_DIR}/main.c" "int main(void) { return 0; }\n")
file(WRITE "${CMAKE_BINARY_DIR}/not_ready.c" "#error not ready\n")
LISTS

# A report goes with what it reports on, and comes again. Folders that `all` leaves out stay out, though the audit is asked for
# above them; what a target says of itself comes first.
project all << 'LISTS'
add_subdirectory(left_out EXCLUDE_FROM_ALL)
foreach(name IN ITEMS optional deep wanted)
  cudeploy_audit(${name})
endforeach()
LISTS
mkdir -p "$work/all/left_out/deep"
cat > "$work/all/left_out/CMakeLists.txt" << 'LISTS'
add_executable(optional "${CMAKE_BINARY_DIR}/not_ready.c")
add_executable(wanted "${CMAKE_BINARY_DIR}/main.c")
set_target_properties(wanted PROPERTIES EXCLUDE_FROM_ALL FALSE)
add_subdirectory(deep)
# The folder's own `all` has both.
add_executable(inside "${CMAKE_BINARY_DIR}/main.c")
cudeploy_audit(inside)
LISTS
cat > "$work/all/left_out/deep/CMakeLists.txt" << 'LISTS'
add_executable(deep "${CMAKE_BINARY_DIR}/not_ready.c")
LISTS
for generator in Ninja 'Unix Makefiles'; do
  build="$work/all with $generator"
  must_pass configure "$work/all" "$build"
  must_pass cmake --build "$build"
  output_has 'Auditing wanted'
  report=$build/left_out/wanted.audit.json
  [ -s "$report" ] || { echo "no report"; exit 1; }
  must_pass cmake --build "$build" --target clean
  [ ! -e "$report" ] || { echo "clean leaves the report"; exit 1; }
  must_pass cmake --build "$build"
  [ -s "$report" ] || { echo "no report after clean"; exit 1; }
  for name in optional deep; do
    must_fail cmake --build "$build" --target ${name}_audit
    output_has 'not ready'
  done
done
generator=Ninja
must_fail cmake --build "$work/all with Ninja" --target left_out/all -- -k 0
output_has 'Auditing inside'

# Search paths that get into the installed file past INSTALL_RPATH: said when the project is configured, and found in the package.
project past << 'LISTS'
add_library(lib SHARED IMPORTED)
set_target_properties(lib PROPERTIES IMPORTED_LOCATION "${FOLDER}/libneed.so" IMPORTED_SONAME libneed.so)
add_library(options INTERFACE)
target_link_options(options INTERFACE "LINKER:-rpath,/opt/mine")
file(WRITE "${CMAKE_BINARY_DIR}/policy.toml" "provided = [\"libneed.so\"]\n")
foreach(name IN ITEMS link_path option inherited origin plain)
  add_executable(${name} "${CMAKE_BINARY_DIR}/main.c")
  target_link_libraries(${name} PRIVATE -Wl,--no-as-needed lib)
  if(NOT name STREQUAL "link_path")
    cudeploy_rpath(${name})
  endif()
  cudeploy_audit(${name} POLICY "${CMAKE_BINARY_DIR}/policy.toml")
endforeach()
set_target_properties(link_path PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
target_link_options(option PRIVATE -Wl,-rpath,/opt/mine)
target_link_libraries(inherited PRIVATE options)
target_link_options(origin PRIVATE "-Wl,-rpath,$ORIGIN/x" -Wl,-rpath-link,/opt/link)
install(TARGETS ${PACKED} RUNTIME DESTINATION bin)
cudeploy_package(GENERATORS TGZ POLICY "${CMAKE_BINARY_DIR}/policy.toml")
LISTS
mkdir "$work/folder"
echo 'int need(void) { return 0; }' | cc -shared -fPIC -x c - -o "$work/folder/libneed.so" -Wl,-soname,libneed.so
for packed in link_path option inherited; do
  must_pass configure "$work/past" "$work/past/build" -DFOLDER="$work/folder" -DPACKED=$packed
  output_has 'link_path: INSTALL_RPATH_USE_LINK_PATH is on' 'option: the link options write a search path' \
    'inherited: the link options write a search path' 'option: -rpath,/opt/mine' 'hint:'
  output_lacks 'origin: ' 'plain: '
  must_pass cmake --build "$work/past/build"
  must_fail sh -c "cd '$work/past/build' && cpack"
  output_has absolute-rpath "bin/$packed" 'no package is made'
  no_package "$work/past/build"
done
must_pass configure "$work/past" "$work/past/build" -DFOLDER="$work/folder" -DPACKED=plain
must_pass cmake --build "$work/past/build"
must_pass sh -c "cd '$work/past/build' && cpack"

# What the project had in mind itself stays, as far as it moves with the file.
project own << 'LISTS'
add_executable(app "${CMAKE_BINARY_DIR}/main.c")
set_target_properties(app PROPERTIES INSTALL_RPATH "$ORIGIN/../mine;/opt/theirs;$ORIGIN")
cudeploy_target(app RUNTIME none)
cudeploy_target(app RUNTIME none)
install(TARGETS app RUNTIME DESTINATION bin)
LISTS
must_pass configure "$work/own" "$work/own/build" -DCMAKE_INSTALL_LIBDIR=lib
output_has 'INSTALL_RPATH held /opt/theirs'
must_pass cmake --build "$work/own/build"
must_pass cmake --install "$work/own/build" --prefix "$work/own/prefix"
# shellcheck disable=SC2016
same 'search path' "$(readelf -dW "$work/own/prefix/bin/app" | sed -n 's/.*(RUNPATH).*\[\(.*\)\]/\1/p')" \
  '$ORIGIN:$ORIGIN/../lib:$ORIGIN/../mine'

# NVIDIA's packages have other folders in each major, and no toolkit tells which: it must be said.
project wheel << 'LISTS'
add_library(module MODULE "${CMAKE_BINARY_DIR}/main.c")
cudeploy_rpath(module LAYOUT wheel ${SAID})
cudeploy_target(module RUNTIME none)
get_target_property(paths module INSTALL_RPATH)
message(STATUS "paths: ${paths}.")
LISTS
wheel() { configure "$work/wheel" "$work/wheel/build" -DSAID="$1"; }
must_fail wheel ''
output_has 'no CUDA version is known' 'hint: cudeploy_rpath(module LAYOUT wheel CUDA 13)'
must_fail wheel 'CUDA;13.0'
output_has 'CUDA is "13.0"' 'hint: CUDA 13'
must_pass wheel 'CUDA;13'
# shellcheck disable=SC2016
output_has 'paths: $ORIGIN;$ORIGIN/../nvidia/cu13/lib.'
must_pass wheel 'CUDA;12'
# shellcheck disable=SC2016
output_has 'paths: $ORIGIN;$ORIGIN/../nvidia/cuda_runtime/lib;$ORIGIN/../nvidia/cublas/lib;$ORIGIN/../nvidia/cuda_nvrtc/lib.'
echo "link_step: the audit's place, what gets past it, search paths"
