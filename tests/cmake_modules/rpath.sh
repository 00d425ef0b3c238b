#!/bin/sh
# A search path is right when the loader finds the library by it. The layouts of cudeploy_rpath with real files: installed,
# moved, and the loader asked which libcudart it takes, with an empty environment and with an LD_LIBRARY_PATH against it.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

mkdir "$work/source"
cat > "$work/source/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(rpath LANGUAGES CXX CUDA)
find_package(cudeploy 1.0 REQUIRED)
include(GNUInstallDirs)
file(WRITE "${CMAKE_BINARY_DIR}/use.cpp" "#include <cuda_runtime_api.h>\nint use() { return cudaGetLastError(); }\nint main() { return use() < 0; }\n")
set(site lib/python3.11/site-packages)
foreach(name IN ITEMS wheel deep conda library pinned)
  add_library(${name} MODULE "${CMAKE_BINARY_DIR}/use.cpp")
  cudeploy_link_runtime(${name} shared)
endforeach()
add_executable(program "${CMAKE_BINARY_DIR}/use.cpp")
cudeploy_link_runtime(program shared)
cudeploy_rpath(wheel LAYOUT wheel)
cudeploy_rpath(deep LAYOUT wheel DESTINATION package/sub/sub)
cudeploy_rpath(conda LAYOUT conda DESTINATION ${site}/package)
cudeploy_rpath(program)
cudeploy_rpath(library DESTINATION ${CMAKE_INSTALL_LIBDIR}/plugins)
cudeploy_rpath(pinned DESTINATION ${CMAKE_INSTALL_LIBDIR}/plugins OVERRIDABLE no)
install(TARGETS wheel LIBRARY DESTINATION site/wheel)
install(TARGETS deep LIBRARY DESTINATION site/package/sub/sub)
install(TARGETS conda LIBRARY DESTINATION env/${site}/package)
install(TARGETS program RUNTIME DESTINATION bundle/bin)
install(TARGETS library pinned LIBRARY DESTINATION bundle/${CMAKE_INSTALL_LIBDIR}/plugins)
file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/facts" CONTENT "${CMAKE_INSTALL_LIBDIR} $<TARGET_PROPERTY:wheel,BUILD_RPATH>\n")
LISTS
must_pass configure "$work/source" "$work/build"
must_pass cmake --build "$work/build"
must_pass cmake --install "$work/build" --prefix "$work/first"
read -r libdir toolkit < "$work/build/facts"
soname=$(readelf -dW "$work/build/libwheel.so" | sed -n 's/.*(NEEDED).*\[\(libcudart[^]]*\)\].*/\1/p')
runtime=$toolkit/$soname
[ -f "$runtime" ] || { echo "no $runtime"; exit 1; }

# NVIDIA's packages for Python put it where they do; the environment and the bundle have their own.
case $soname in
  libcudart.so.1[3-9]) folder=nvidia/cu${soname#libcudart.so.}/lib ;;
  *) folder=nvidia/cuda_runtime/lib ;;
esac
mv "$work/first" "$work/moved here"
root="$work/moved here"
for place in "site/$folder" env/lib "bundle/$libdir" elsewhere; do
  mkdir -p "$root/$place"
  cp -L "$runtime" "$root/$place/$soname"
done

# taken FILE FOLDER [VARIABLE=VALUE] : the loader takes libcudart from there, and needs nothing that is not found
taken() {
  file=$root/$1 expected=$root/$2/$soname
  shift 2
  # ldd runs the loader, which says what it would load.
  must_pass env -i PATH="$PATH" "$@" ldd "$file"
  output_lacks 'not found'
  found=$(sed -n "s,^.*$soname => \(.*\) (0x.*,\1,p" "$log")
  same "libcudart of $file" "$(realpath "$found")" "$(realpath "$expected")"
}
taken site/wheel/libwheel.so "site/$folder"
taken site/package/sub/sub/libdeep.so "site/$folder"
taken env/lib/python3.11/site-packages/package/libconda.so env/lib
taken bundle/bin/program "bundle/$libdir"
taken "bundle/$libdir/plugins/liblibrary.so" "bundle/$libdir"
taken "bundle/$libdir/plugins/libpinned.so" "bundle/$libdir"
# The user's environment comes before the one, and not before the other.
taken "bundle/$libdir/plugins/liblibrary.so" elsewhere LD_LIBRARY_PATH="$root/elsewhere"
taken "bundle/$libdir/plugins/libpinned.so" "bundle/$libdir" LD_LIBRARY_PATH="$root/elsewhere"
# It is the search path that finds it: away from its place, the module finds none of these.
mkdir -p "$root/nowhere/near"
cp "$root/site/wheel/libwheel.so" "$root/nowhere/near"
env -i PATH="$PATH" ldd "$root/nowhere/near/libwheel.so" > "$log"
output_lacks "$root"
# In the build tree it is the toolkit's.
env -i PATH="$PATH" ldd "$work/build/libwheel.so" > "$log"
same "libcudart in the build tree" "$(realpath "$(sed -n "s,^.*$soname => \(.*\) (0x.*,\1,p" "$log")")" "$(realpath "$runtime")"
must_pass env -i "$root/bundle/bin/program"
echo "rpath: wheel ($folder), conda and bundle: the loader finds $soname"
