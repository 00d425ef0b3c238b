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

formats='TGZ ZIP DEB STGZ'
if command -v rpmbuild > /dev/null; then formats="$formats RPM"; else echo "not tried: RPM (no rpmbuild)"; fi
for tree in one two; do
  must_pass configure "$CUDEPLOY_SOURCE/examples/shared_runtime" "$work/$tree" -DGPUS=90 -DCMAKE_BUILD_TYPE=Release
  must_pass cmake --build "$work/$tree"
  for format in $formats; do
    must_pass sh -c "cd '$work/$tree' && cpack -G $format -B '$work/packages-$tree'"
    output_has '.: audit passed' "shared_runtime-1.0-Linux.$(echo "$format" | sed 's/STGZ/sh/; s/TGZ/tar.gz/' | tr '[:upper:]' '[:lower:]')"
  done
done
original=$(sha256sum "$(find -L "$CUDEPLOY_TOOLKIT/lib64" "$CUDEPLOY_TOOLKIT/lib" -maxdepth 1 -name 'libcudart.so.*' 2> /dev/null | sort | tail -n 1)" | cut -d ' ' -f 1)
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
echo "formats: $formats"
