#!/bin/sh
# Device code needs nvcc, and a fresh machine has none. A distribution's toolkit needs root and gigabytes; what a
# build needs is five packages of NVIDIA's on the Python index, unpacked into a folder of the build.
#
#   sh tests/toolkit.sh FOLDER [DIR]
#   sh tests/toolkit.sh --would-fetch FOLDER [DIR]     exit code 0 when the next call would have to fetch it
#
# Prints the root of a CUDA toolkit (the folder with bin/nvcc) and nothing else on standard output: DIR where it is
# given, else the toolkit of the nvcc in $CUDACXX, in PATH or in /usr/local/cuda, else one below FOLDER, fetched
# when it is not there yet. Exit code 2 where DIR holds no nvcc or the packages cannot be had.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
would_fetch=no
if [ "$1" = --would-fetch ]; then
  would_fetch=yes
  exec > /dev/null
  shift
fi
folder=$1
wanted=${2:-}

# The toolkit that an nvcc belongs to, in its own words: a distribution's nvcc is a wrapper far from its toolkit.
root_of() {
  top=$("$1" --dryrun -E -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')
  [ -n "$top" ] && (cd "$top" && pwd)
}

if [ -n "$wanted" ]; then
  if [ ! -x "$wanted/bin/nvcc" ]; then
    echo "error: no toolkit: $wanted/bin/nvcc is not there" >&2
    echo "hint: --toolkit takes the folder that holds bin/nvcc, such as /usr/local/cuda" >&2
    exit 2
  fi
  (cd "$wanted" && pwd)
  [ $would_fetch = no ] || exit 1
  exit 0
fi

for nvcc in "${CUDACXX:-}" "$(command -v nvcc || :)" /usr/local/cuda/bin/nvcc; do
  if [ -n "$nvcc" ] && [ -x "$nvcc" ] && root_of "$nvcc"; then
    [ $would_fetch = no ] || exit 1
    exit 0
  fi
done

part=$folder/parts/nvcc-13.0
if [ ! -d "$part" ]; then
  [ $would_fetch = no ] || exit 0
  cat >&2 << EOF
no nvcc here: fetching NVIDIA's compiler and runtime packages of CUDA 13.0 (about 100 MB) from the Python index into
  $part
  They are NVIDIA's, under the NVIDIA Software License Agreement for the CUDA Toolkit (https://docs.nvidia.com/cuda/eula;
  the text comes with each package), which you accept by using them. To use another toolkit: --toolkit DIR
EOF
  CUDEPLOY_CACHE=$folder sh "$here/real_parts.sh" nvcc-13.0 > /dev/null || {
    echo "error: no CUDA toolkit" >&2
    echo "hint: check the network and pip's settings, or name a toolkit with --toolkit DIR" >&2
    exit 2
  }
fi
(cd "$part/nvidia/cu13" && pwd)
[ $would_fetch = no ] || exit 1
