#!/bin/sh
# Tests judge against real parts: other toolkits, NVIDIA's own lister, the real driver library, published
# wheels. They are large and not ours to hand on, so they are fetched when a test asks for one, once, into a
# cache outside the tree.
#
#   sh tests/real_parts.sh PART      prints the folder of the part; 77 and a reason when it cannot be had: "real part not
#                                    available: ..." where a download failed, "skipped: ..." where this machine lacks what downloads
#   sh tests/real_parts.sh --list    the names
#
# Parts (each name says what lies in the folder):
#   nvcc-<x.y>          compiler, headers and runtime of CUDA x.y in nvidia/cu13 (13.0, 13.5)
#   libraries-13.0      the libraries of CUDA 13.0 that hold device code, cuDNN and NVRTC, side by side as in a toolkit
#   cudart-<x.y>        libcudart_static.a, libcudart.so and headers of CUDA x.y (12.0 to 13.5), x86-64
#   cudart-aarch64-13.0 the same for aarch64, with the crt headers
#   cudart-windows-<x.y>  cudart.lib, cudart_static.lib and cudart64_*.dll of CUDA x.y for Windows (12.0 to 13.5)
#   nvrtc-<x.y>         libnvrtc and its builtins of CUDA x.y, x86-64 (12.4, 13.5)
#   cuobjdump-13.5      NVIDIA's lister
#   tileiras-13.5       what nvcc 13.5 calls for CUDA Tile, nvidia/cu13/bin/tileiras
#   cuobjdump-windows-13.5  the same for Windows, which reads PE files and runs under wine
#   cuda-11.8 cuda-12.4 Debian's non-free toolkit, unpacked: usr/bin/nvcc, usr/lib/x86_64-linux-gnu, …
#   libcuda-535         the real driver library, usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1
#   lief-1.0            a LIEF of today for this machine's Python, lief/
#   lief-headers-0.12   C++ headers of a LIEF that is newer than Debian's, include/; its sources are not built
#   cmake-<x.y>         CMake of the Python index (3.24, 4.4), cmake/data/bin/cmake
#   wheel-tools         wheels of scikit-build-core, nanobind and what they need, for PIP_FIND_LINKS
#   check-jsonschema pre-commit   these tools and what they need; the folder goes into PYTHONPATH
#   flashinfer-cubin    a published wheel of 15,970 loose cubins
#   wheel:<file name>   a published wheel of tests/corpus/wheels.json, by file name
#
# Environment: CUDEPLOY_CACHE names the cache (default: $XDG_CACHE_HOME/cudeploy or ~/.cache/cudeploy).
set -eu

cache=${CUDEPLOY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cudeploy}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/debian_archive.sh
. "$here/debian_archive.sh"

cannot() {
  echo "real part not available: $*" >&2
  exit 77
}
# No download was tried, so none failed: with --all this is no excuse (tests/untried.py).
lacks() {
  echo "skipped: real parts are fetched with what is missing here: $*" >&2
  exit 77
}

# python_packages DIR MACHINE REQUIREMENT... : unpacks packages of the Python index into DIR
python_packages() {
  directory=$1 machine=$2
  shift 2
  case $machine in
    win_*) platforms="--platform $machine" ;;
    *) platforms="--platform manylinux_2_28_$machine --platform manylinux_2_27_$machine --platform manylinux_2_25_$machine
      --platform manylinux_2_17_$machine --platform manylinux2014_$machine" ;;
  esac
  python3 -m pip --version > /dev/null 2>&1 || lacks "pip of python3"
  # shellcheck disable=SC2086
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --only-binary :all: --python-version 3.11 \
    $platforms --target "$directory" "$@" >&2 || cannot "the Python index did not give: $*"
}

# debian_packages DIR SUITE COMPONENTS PACKAGE... : downloads and unpacks, leaving the machine's apt untouched
debian_packages() {
  directory=$1 suite=$2 components=$3
  shift 3
  command -v apt-get > /dev/null || lacks "apt-get"
  found=$(debian_archive /etc/apt)
  mirror=${found%% *}
  [ -n "$mirror" ] || lacks "a Debian archive in the machine's apt sources"
  apt=$cache/apt-$suite
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/debs"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite $components" > "$apt/sources.list"
  options="-o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$apt/lists
    -o Dir::Cache::archives=$apt/archives -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root
    -o APT::Architecture=amd64"
  # shellcheck disable=SC2086
  apt-get $options -qq update >&2 || cannot "the Debian archive did not answer for $suite"
  for package in "$@"; do
    # shellcheck disable=SC2086
    (cd "$apt/debs" && apt-get $options -qq download "$package:amd64" >&2) || cannot "Debian $suite has no $package"
    for deb in "$apt/debs/${package}_"*.deb; do dpkg-deb -x "$deb" "$directory"; done
    rm -f "$apt/debs/${package}_"*.deb
  done
}

# The newest patch release of each is pinned, so that a test means the same tomorrow.
make_part() {
  case $1 in
    nvcc-13.0)
      python_packages "$2" x86_64 nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
        nvidia-cuda-runtime==13.0.88 nvidia-cuda-cccl==13.0.85 ;;
    nvcc-13.5)
      python_packages "$2" x86_64 'nvidia-cuda-nvcc==13.5.*' 'nvidia-nvvm==13.5.*' 'nvidia-cuda-crt==13.5.*' \
        'nvidia-cuda-runtime==13.5.*' nvidia-cuda-cccl==13.3.5.0.6 ;;
    libraries-13.0)
      python_packages "$2/index" x86_64 nvidia-cublas==13.1.0.3 nvidia-cuda-cupti==13.0.85 nvidia-cuda-nvrtc==13.0.88 \
        nvidia-cudnn-cu13==9.19.0.56 nvidia-cufft==12.0.0.61 nvidia-curand==10.4.0.35 nvidia-cusolver==12.0.4.66 \
        nvidia-cusparse==12.6.3.3 nvidia-nvjitlink==13.0.88
      mv "$2"/index/nvidia/cu13/lib/*.so* "$2"/index/nvidia/cudnn/lib/*.so* "$2/"
      rm -rf "$2/index"
      for library in "$2"/*.so.*; do ln -s "${library##*/}" "${library%.so.*}.so"; done ;;
    cudart-12.*) python_packages "$2" x86_64 "nvidia-cuda-runtime-cu12==${1#cudart-}.*" ;;
    cudart-13.*) python_packages "$2" x86_64 "nvidia-cuda-runtime==${1#cudart-}.*" ;;
    cudart-aarch64-13.0)
      python_packages "$2" aarch64 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 ;;
    nvrtc-12.*) python_packages "$2" x86_64 "nvidia-cuda-nvrtc-cu12==${1#nvrtc-}.*" ;;
    nvrtc-13.*) python_packages "$2" x86_64 "nvidia-cuda-nvrtc==${1#nvrtc-}.*" ;;
    tileiras-13.5) python_packages "$2" x86_64 'nvidia-cuda-tileiras==13.5.*' ;;
    cudart-windows-12.*) python_packages "$2" win_amd64 "nvidia-cuda-runtime-cu12==${1#cudart-windows-}.*" ;;
    cudart-windows-13.*) python_packages "$2" win_amd64 "nvidia-cuda-runtime==${1#cudart-windows-}.*" ;;
    cuobjdump-windows-13.5) python_packages "$2" win_amd64 'nvidia-cuda-cuobjdump==13.5.*' ;;
    cuobjdump-13.5) python_packages "$2" x86_64 'nvidia-cuda-cuobjdump==13.5.*' ;;
    cuda-11.8)
      debian_packages "$2" bookworm "main contrib non-free" nvidia-cuda-toolkit nvidia-cuda-dev libcudart11.0 libnvvm4 ;;
    cuda-12.4)
      debian_packages "$2" trixie "main contrib non-free" nvidia-cuda-toolkit nvidia-cuda-dev libcudart12 libnvvm4 ;;
    libcuda-535) debian_packages "$2" bookworm "main contrib non-free" libcuda1 libnvidia-ptxjitcompiler1 ;;
    lief-headers-0.12)
      # The last release whose headers the Python index has. pip can only unpack what it also means to build: there is
      # nothing to build here, so its failure to is not looked at.
      python3 -m pip --version > /dev/null 2>&1 || lacks "pip of python3"
      mkdir "$2/pip"
      TMPDIR="$2/pip" python3 -m pip download --quiet --no-clean --no-deps --no-build-isolation --no-binary :all: \
        -d "$2/pip" 'lief==0.12.*' > /dev/null 2>&1 || true
      mv "$2"/pip/*/lief_*/include "$2/" 2> /dev/null || cannot "the Python index did not give the sources of lief"
      # Headers of others that LIEF brings as archives.
      python3 - "$2"/pip/*/lief_*/third-party "$2/include/LIEF/third-party/internal" <<'PYTHON'
import sys
import zipfile
from pathlib import Path

folder, out = map(Path, sys.argv[1:])
out.mkdir()
for archive in sorted([*folder.glob("tcb-span-*.zip"), *folder.glob("leaf-*.zip")]):
    with zipfile.ZipFile(archive) as members:
        for name in members.namelist():
            if Path(name).name in ("span.hpp", "leaf.hpp"):
                (out / Path(name).name).write_bytes(members.read(name))
PYTHON
      rm -rf "$2/pip" ;;
    lief-*)
      python3 -m pip --version > /dev/null 2>&1 || lacks "pip of python3"
      PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --only-binary :all: --target "$2" \
        "lief==${1#lief-}.*" >&2 || cannot "the Python index did not give lief" ;;
    cmake-*) python_packages "$2" x86_64 "cmake==${1#cmake-}.*" ;;
    wheel-tools)
      python3 -m pip download --quiet --only-binary :all: -d "$2" 'scikit-build-core==1.1.*' 'nanobind==3.1.*' >&2 ||
        cannot "the Python index did not give scikit-build-core and nanobind" ;;
    check-jsonschema | pre-commit)
      version=0.39.0
      [ "$1" = check-jsonschema ] || version=4.7.0
      PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --only-binary :all: --target "$2" "$1==$version" >&2 ||
        cannot "the Python index did not give $1" ;;
    flashinfer-cubin)
      python3 -m pip download --quiet --no-deps --only-binary :all: -d "$2" flashinfer-cubin==0.6.13 >&2 ||
        cannot "the Python index did not give flashinfer-cubin" ;;
    wheel:*)
      wheel=${1#wheel:}
      requirement=$(python3 -c 'import json, sys
for wheel in json.load(open(sys.argv[1]))["wheels"]:
    if wheel["file"] == sys.argv[2]: print(wheel["get"])' "$here/corpus/wheels.json" "$wheel")
      [ -n "$requirement" ] || { echo "real_parts.sh: tests/corpus/wheels.json has no $wheel" >&2; exit 2; }
      platform=${wheel##*-} platform=${platform%.whl} platform=${platform%%.*}
      case $platform in any) platform=manylinux_2_28_x86_64 ;; esac
      python3 -m pip download --quiet --no-deps --only-binary :all: --platform "$platform" --python-version 3.11 \
        -d "$2" "$requirement" >&2 || cannot "the Python index did not give $requirement" ;;
    *) echo "real_parts.sh: unknown part: $1" >&2; exit 2 ;;
  esac
}

case ${1:-} in
  --list) sed -n 's/^#   \([a-z].*\)/\1/p' "$0" | sed -n '3,$p'; exit 0 ;;
  '') echo "usage: sh tests/real_parts.sh PART | --list" >&2; exit 2 ;;
esac
folder=$cache/parts/$1
if [ ! -d "$folder" ]; then
  mkdir -p "$cache/parts"
  # Two tests may ask for the same part at once; the second waits.
  exec 9> "$cache/parts/.lock"
  flock 9
  if [ ! -d "$folder" ]; then
    new=$(mktemp -d "$cache/parts/.new.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    make_part "$1" "$new" || exit $?
    chmod 755 "$new"
    mv "$new" "$folder"
  fi
fi
echo "$folder"
