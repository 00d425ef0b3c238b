#!/bin/sh
# What people ship without noticing must not come out of a build: each variant fails, says which rule, which file and
# what to do, and leaves no package behind, not even an older one.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"
build=$work/build
packages=$build/packages

prepare() {
  variant=$1
  shift
  must_pass configure "$here/breaking" "$build" -DCASE="$variant" "$@"
}
pack() { (cd "$build" && cpack -B "$packages"); }

# fails_build RULE FILE : the build stops at the audit, and so does cpack
fails_build() {
  must_fail cmake --build "$build"
  output_has "$1]" "$2: error:" 'hint:'
  # As compilers write it, with the whole path: what an IDE opens.
  named=$(sed -n "s,^\(/.*\): error: .*$1\]\$,\1,p" "$log" | head -n 1)
  same 'the file named' "$(realpath "$named")" "$(realpath "$build/$2")"
  must_fail pack
  no_package "$packages"
}
# fails_pack RULE FILE : the build passes, cpack does not
fails_pack() {
  must_pass cmake --build "$build"
  must_fail pack
  output_has "$1]" "$2" 'error:' 'hint:' 'no package is made'
  no_package "$packages"
}

# The same project without a fault, so that what fails below fails for its one reason.
prepare none
must_pass cmake --build "$build"
must_pass pack
[ -f "$packages/breaking-1.0-Linux.tar.gz" ] && [ -f "$packages/breaking-1.0-Linux.deb" ]

prepare absolute-rpath
fails_build absolute-rpath app

prepare missing-ptx
fails_build missing-ptx app

prepare duplicate-runtime
fails_pack duplicate-runtime plugin

prepare needed-unresolved
fails_pack needed-unresolved app
output_has libcompanion.so

prepare driver-bundled
fails_pack driver-bundled libcuda.so.1
# The sources of the same project are no bundle.
must_pass sh -c "cd '$build' && cpack --config CPackSourceConfig.cmake -G TGZ -B '$work/sources'"
output_lacks audit
tar -tzf "$work"/sources/breaking-1.0-Source.tar.gz > "$log"
output_has /driver.cpp
output_lacks audit

# What comes into the package behind the first audit, the second one sees.
prepare late-driver
must_pass cmake --build "$build"
package_formats
for format in $formats; do
  must_fail sh -c "cd '$build' && cpack -G $format -B '$packages'"
  output_has driver-bundled libcuda.so.1 'error:' 'hint:' 'the audit of the finished package failed, so it was removed'
  output_lacks 'no package is made'
  no_package "$packages"
done

stub=
for folder in lib64/stubs lib/stubs targets/x86_64-linux/lib/stubs; do
  [ ! -f "$CUDEPLOY_TOOLKIT/$folder/libcuda.so" ] || stub=$CUDEPLOY_TOOLKIT/$folder/libcuda.so
done
if [ -n "$stub" ]; then
  prepare stub-driver-bundled -DSTUB="$stub"
  fails_pack stub-driver-bundled libcuda.so.1
else
  echo "not applicable: stub-driver-bundled, this toolkit has no stub of the driver"
fi

# Compiler, headers and runtime that are not of one toolkit: refused before anything is built.
include=$(sed -n 's/^CUDEPLOY_CUDA_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
mkdir "$work/headers"
ln -s "$include"/* "$work/headers"
rm "$work/headers/cuda_runtime_api.h"
sed 's/^\(#define CUDART_VERSION  *\)[0-9]*/\112990/' "$include/cuda_runtime_api.h" > "$work/headers/cuda_runtime_api.h"
rm -rf "$build"
must_fail configure "$here/breaking" "$build" -DCUDEPLOY_CUDA_INCLUDE_DIR="$work/headers"
output_has toolkit-mixed "$work/headers" 'headers 12.99' "$CUDEPLOY_TOOLKIT" 'hint:'
no_package "$build"
if other=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" cudart-13.5); then
  archive=$(find "$other" -name libcudart_static.a)
  rm -rf "$build"
  must_fail configure "$here/breaking" "$build" -DCUDA_cudart_static_LIBRARY="$archive"
  output_has toolkit-mixed "$archive" "$CUDEPLOY_TOOLKIT" 'runtime 13.5' 'hint:'
  no_package "$build"
  # The shared one of the compiler's toolkit is taken, unless somebody names another.
  rm -rf "$build"
  must_pass configure "$here/breaking" "$build" -DCASE=shared
  library=$(find "$other" -name 'libcudart.so.*')
  must_fail configure "$here/breaking" "$build" -DCASE=shared -DCUDA_cudart_LIBRARY="$library"
  output_has toolkit-mixed "$library" "$CUDEPLOY_TOOLKIT" 'runtime 13.5' 'hint:'
  no_package "$build"
fi
echo "breaking: every variant failed as it must"
