#!/bin/sh
# Device code needs nvcc, and a fresh machine has none. A distribution's toolkit needs root and gigabytes; what a
# build needs is five packages of NVIDIA's on the Python index, unpacked into a folder of the build.
#
#   sh tests/toolkit.sh FOLDER [DIR]
#   sh tests/toolkit.sh --would-fetch FOLDER [DIR]     exit code 0 when the next call would have to fetch it
#
# Prints the root of a CUDA toolkit (the folder with bin/nvcc) and nothing else on standard output: DIR where it is
# given, else the toolkit of the nvcc in $CUDACXX, in PATH or in /usr/local/cuda, else FOLDER/nvidia/cu13, filled
# when it is not there yet. Exit code 2 where DIR holds no nvcc or the packages cannot be had.
set -eu

# One release, so that compiler, headers and runtime archive belong together. CCCL counts on its own.
version=13.0.88
packages="nvidia-cuda-nvcc==$version nvidia-nvvm==$version nvidia-cuda-crt==$version nvidia-cuda-runtime==$version
  nvidia-cuda-cccl==13.0.85"

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

toolkit=$folder/nvidia/cu13
# The mark is written last: a download that was cut short is done again.
if [ ! -f "$folder/complete-$version" ]; then
  [ $would_fetch = no ] || exit 0
  cat >&2 << EOF
no nvcc here: fetching NVIDIA's CUDA $version compiler and runtime packages (about 100 MB) from the Python index into
  $folder
  They are NVIDIA's, under the NVIDIA Software License Agreement for the CUDA Toolkit (https://docs.nvidia.com/cuda/eula;
  the text comes with each package), which you accept by using them. To use another toolkit: --toolkit DIR
EOF
  rm -rf "$folder"
  mkdir -p "$folder"
  # Debian splits pip and venv from Python; either will do, and --target leaves the machine's Python alone.
  if python3 -m pip --version > /dev/null 2>&1; then
    pip="python3 -m pip"
  elif python3 -m venv "$folder/venv" > /dev/null 2>&1; then
    pip="$folder/venv/bin/python -m pip"
  else
    echo "error: python3 has neither pip nor venv, so the toolkit cannot be fetched" >&2
    echo "hint: install python3-pip, or name a toolkit with --toolkit DIR" >&2
    exit 2
  fi
  # shellcheck disable=SC2086
  PIP_ROOT_USER_ACTION=ignore $pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --target "$folder" $packages >&2 || {
    echo "error: the Python index did not give NVIDIA's compiler packages of CUDA $version" >&2
    echo "hint: check the network and pip's settings, or name a toolkit with --toolkit DIR" >&2
    exit 2
  }
  : > "$folder/complete-$version"
fi
(cd "$toolkit" && pwd)
[ $would_fetch = no ] || exit 1
