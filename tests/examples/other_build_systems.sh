#!/bin/sh
# What a link kit says is enough for build systems that know nothing of cudeploy: make and Meson, with the
# installed command and with the one of the build tree.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"

# judged PROGRAM : runs, and its runtime is a unified one
judged() {
  must_pass "$1"
  output_has 'CUDA runtime of this program:'
  must_pass "$cudeploy" inspect --format json "$1"
  output_has '"kind": "unified"' '"kind": "ptx"'
  output_lacks '"kind": "private-static"'
}

for tree in install build; do
  case $tree in
    install) cudeploy=$CUDEPLOY_PREFIX/bin/cudeploy ;;
    build) cudeploy=$CUDEPLOY_BUILD/bin/cudeploy ;;
  esac
  must_pass make -C "$CUDEPLOY_SOURCE/examples/make" CUDEPLOY="$cudeploy" CUDA="$CUDEPLOY_TOOLKIT" BUILD="$work/$tree/make" GPUS=90
  output_has '0 errors'
  judged "$work/$tree/make/add"
  must_pass make -C "$CUDEPLOY_SOURCE/examples/make" CUDEPLOY="$cudeploy" CUDA="$CUDEPLOY_TOOLKIT" BUILD="$work/$tree/make" GPUS=90
  output_lacks 'nvcc'

  if command -v meson > /dev/null; then
    PATH=$CUDEPLOY_TOOLKIT/bin:$PATH
    export PATH
    must_pass meson setup "$work/$tree/meson" "$CUDEPLOY_SOURCE/examples/meson" -Dcudeploy="$cudeploy" -Dcuda="$CUDEPLOY_TOOLKIT" \
      -Dgpus=90
    must_pass meson compile -C "$work/$tree/meson"
    output_has '0 errors'
    judged "$work/$tree/meson/add"
  else
    echo "not tried: meson is not there"
  fi
done
echo "other_build_systems: make and meson"
