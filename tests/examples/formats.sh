#!/bin/sh
# Every format that cpack makes passes both audits, holds NVIDIA's library byte for byte with its licence, installs into a
# scratch root, runs there, and comes out with the same bytes from two build folders.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"
umask 022
SOURCE_DATE_EPOCH=1700000000
export SOURCE_DATE_EPOCH

package_formats
for tree in one two; do
  must_pass configure "$CUDEPLOY_SOURCE/examples/shared_runtime" "$work/$tree" -DGPUS=90 -DCMAKE_BUILD_TYPE=Release
  must_pass cmake --build "$work/$tree"
  for format in $formats; do
    must_pass sh -c "cd '$work/$tree' && cpack -G $format -B '$work/packages-$tree'"
    output_has 'before packing: audit passed' "shared_runtime-1.0-Linux.$(echo "$format" | sed 's/STGZ/sh/; s/TGZ/tar.gz/' | tr '[:upper:]' '[:lower:]')"
  done
done
runtime=$(find -L "$CUDEPLOY_TOOLKIT/lib64" "$CUDEPLOY_TOOLKIT/lib" -maxdepth 1 -name 'libcudart.so.*' 2> /dev/null | sort | tail -n 1)
original=$(sha256sum "$runtime" | cut -d ' ' -f 1)
name=shared_runtime-1.0-Linux

unpack_TGZ() { tar -xzf "$1" -C "$2"; }
unpack_ZIP() { (cd "$2" && cmake -E tar xf "$1"); }
unpack_STGZ() { sh "$1" --skip-license --exclude-subdir "--prefix=$2"; }
unpack_DEB() {
  mkdir -p "$2/var/lib/dpkg/updates" "$2/var/lib/dpkg/info" "$2/var/lib/dpkg/triggers"
  : > "$2/var/lib/dpkg/status"
  dpkg --root="$2" --force-not-root --force-depends --no-triggers --install "$1"
}
unpack_RPM() { rpm --root "$2" --dbpath /var/lib/rpm --nodeps --noscripts -i "$1"; }

for format in $formats; do
  case $format in TGZ) file=$name.tar.gz ;; STGZ) file=$name.sh ;; *) file=$name.$(echo "$format" | tr '[:upper:]' '[:lower:]') ;; esac
  must_pass cmp "$work/packages-one/$file" "$work/packages-two/$file"
  root="$work/root of $format"
  mkdir -p "$root"
  must_pass "unpack_$format" "$work/packages-one/$file" "$root"
  must_pass env -i "$(find "$root" -name shared_runtime -type f)"
  output_has "CUDA runtime" "from $root/"
  same "libcudart in $file" "$(sha256sum "$(find "$root" -name 'libcudart.so.*' -type f)" | cut -d ' ' -f 1)" "$original"
  # Unpacked at another place, it is the same; dpkg and rpm keep their own notes.
  second="$work/second root of $format"
  mkdir -p "$second"
  must_pass "unpack_$format" "$work/packages-two/$file" "$second"
  must_pass diff -r --exclude=var "$root" "$second"
  [ -n "$(find "$root" -name NVIDIA-CUDA-EULA.txt)" ] || { echo "no licence in $file"; exit 1; }
done
# What a Debian and an RPM package say of the driver and of the toolkit.
dpkg-deb --info "$work/packages-one/$name.deb" > "$log"
output_has 'Recommends: libcuda1 | libcuda.so.1'
output_lacks toolkit
if command -v rpmbuild > /dev/null; then
  rpm -qp --recommends "$work/packages-one/$name.rpm" > "$log" 2>&1
  output_has 'libcuda.so.1()(64bit)'
  rpm -qp --requires --provides "$work/packages-one/$name.rpm" > "$log" 2>&1
  output_lacks libcuda.so libcudart
fi

# Where the driver is meant to be a dependency, it is one, and nothing is recommended.
mkdir "$work/depends"
cat > "$work/depends/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(depends VERSION 1.0 LANGUAGES CXX)
find_package(cudeploy 1.0 REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/main.cpp" "int main() {}\n")
add_executable(depends "${CMAKE_BINARY_DIR}/main.cpp")
install(FILES "${ARCHIVE}" DESTINATION lib)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6")
cudeploy_package(TARGETS depends DRIVER_DEPENDS)
LISTS
archive=$(find -L "$CUDEPLOY_TOOLKIT/lib64" "$CUDEPLOY_TOOLKIT/lib" -maxdepth 1 -name libcudart_static.a 2> /dev/null | head -n 1)
must_pass configure "$work/depends" "$work/depends/build" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT" -DARCHIVE="$archive"
must_pass cmake --build "$work/depends/build"
must_pass sh -c "cd '$work/depends/build' && cpack -G DEB"
dpkg-deb --info "$work/depends/build/depends-1.0-Linux.deb" > "$log"
output_has 'Depends: libc6, libcuda1 | libcuda.so.1'
output_lacks Recommends
if command -v rpmbuild > /dev/null; then
  must_pass sh -c "cd '$work/depends/build' && cpack -G RPM"
  rpm -qp --requires "$work/depends/build/depends-1.0-Linux.rpm" > "$log" 2>&1
  output_has 'libcuda.so.1()(64bit)'
  rpm -qp --recommends "$work/depends/build/depends-1.0-Linux.rpm" > "$log" 2>&1
  output_lacks libcuda
  # rpm would by default rewrite static archives; NVIDIA's stays as it is.
  mkdir "$work/depends/root"
  must_pass unpack_RPM "$work/depends/build/depends-1.0-Linux.rpm" "$work/depends/root"
  must_pass cmp "$archive" "$(find "$work/depends/root" -name libcudart_static.a)"
fi

# A distribution has the toolkit in /usr/lib, beside what every machine has: NVIDIA's libraries go along, the others stay. On
# Debian, prefix /usr makes the library folder lib/x86_64-linux-gnu, already at the first configure. NVIDIA's
# licence goes along also where nobody was told of a runtime. libnvrtc is a stand-in.
mkdir "$work/distribution" "$work/toolkit"
cat > "$work/distribution/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(distribution VERSION 1.0 LANGUAGES CXX)
find_package(cudeploy 1.0 REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/main.cpp" "#include <cuda_runtime_api.h>\n#include <zstd.h>\n"
  "int main() { int version = 0; return cudaRuntimeGetVersion(&version) != cudaSuccess || ZSTD_versionNumber() == 0; }\n")
add_executable(distribution "${CMAKE_BINARY_DIR}/main.cpp")
target_link_libraries(distribution PRIVATE zstd -Wl,--no-as-needed "${CUDA_cudart_LIBRARY}" /usr/lib/apt/libnvrtc.so.13)
file(WRITE "${CMAKE_BINARY_DIR}/policy.toml" "provided = [\"libzstd.so.1\"]\n")
cudeploy_target(distribution RUNTIME none POLICY "${CMAKE_BINARY_DIR}/policy.toml")
cudeploy_package(TARGETS distribution GENERATORS TGZ POLICY "${CMAKE_BINARY_DIR}/policy.toml")
LISTS
cat > "$work/distribution/try.sh" << SCRIPT
mount --bind '$work/toolkit' /usr/lib/apt || exit 77
work='$work'
. '$here/../cmake_modules/expect.sh'
must_pass configure "\$work/distribution" "\$work/distribution/build" -DCMAKE_INSTALL_PREFIX=/usr -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT" \
  -DCUDA_cudart_LIBRARY=/usr/lib/apt/$(basename "$runtime")
must_pass cmake --build "\$work/distribution/build"
must_pass sh -c "cd '\$work/distribution/build' && cpack"
output_has 'audit passed'
SCRIPT
cp "$runtime" "$work/toolkit"
echo | c++ -shared -x c++ - -o "$work/toolkit/libnvrtc.so.13" -Wl,-soname,libnvrtc.so.13
status=0
unshare -rm sh "$work/distribution/try.sh" || status=$?
case $status in
  0)
    mkdir "$work/distribution/root"
    tar -xzf "$work/distribution/build/distribution-1.0-Linux.tar.gz" -C "$work/distribution/root" --strip-components=1
    libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$work/distribution/build/CMakeCache.txt")
    [ ! -e /etc/debian_version ] || same 'library folder' "$libdir" "lib/$(cc -print-multiarch)"
    same 'libraries in the bundle' "$(cd "$work/distribution/root/$libdir" && find . -name '*.so*' -printf '%f\n' | sort | tr '\n' ' ')" \
      "$(basename "$runtime") libnvrtc.so.13 "
    grep -qi 'NVIDIA' "$work/distribution/root/share/distribution/NVIDIA-CUDA-EULA.txt" || { echo "no licence"; exit 1; }
    must_pass env -i "$work/distribution/root/bin/distribution"
    ;;
  77) echo "needs root: a mount in a namespace of its own, for a toolkit in /usr/lib" ;;
  *) exit 1 ;;
esac
echo "formats: $formats"
