#!/bin/sh
# From a fresh machine to a CUDA program in an audited bundle that runs elsewhere, one step after the other.
# No GPU is needed. Nothing outside the build folder changes, except the packages that are installed. The first run takes about 3
# minutes on 2 cores, and more where something has to be fetched.
#
#   sh examples/quickstart.sh [--toolkit DIR]
#
#   --toolkit DIR   the CUDA toolkit to use (the folder with bin/nvcc); then none is fetched
#
# Exit code: 0 done, 2 something is missing that only root can install or wrong usage, 1 a step failed.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/quickstart
toolkit=
while [ $# -gt 0 ]; do
  case $1 in
    --toolkit) [ $# -ge 2 ] || { echo "error: --toolkit needs a folder" >&2; exit 2; }; toolkit=$2; shift 2 ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "error: unknown argument: $1" >&2; echo "hint: sh examples/quickstart.sh [--toolkit DIR]" >&2; exit 2 ;;
  esac
done

step() { printf '\n== %s\n' "$*"; }

# quietly NAME COMMAND... : what it prints goes to a log, which is shown when it fails
quietly() {
  log=$build/log/$1
  shift
  "$@" > "$log" 2>&1 || {
    tail -n 60 "$log" >&2
    echo "error: a step failed: $* (whole log: $log)" >&2
    exit 1
  }
}

[ -x "$build/prefix/bin/cudeploy" ] ||
  echo "the first run takes about 3 minutes on 2 cores, to build cudeploy, and more where something has to be fetched; later ones seconds"

# 1. What it stands on.
step "looking for compiler, build tools, libraries and a CUDA toolkit"
# shellcheck source=tests/dependencies.sh
. "$root/tests/dependencies.sh"
need_with_toolkit "$root/build/toolkit" "$toolkit" build pack
echo "CUDA toolkit: $toolkit"

# CMake keeps the compiler that it met first: another toolkit starts the example anew.
mkdir -p "$build/log"
[ "$(cat "$build/toolkit" 2> /dev/null)" = "$toolkit" ] || rm -rf "$build/one_program"
echo "$toolkit" > "$build/toolkit"

# 2. cudeploy itself.
jobs=$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)
prefix=$build/prefix
step "building cudeploy and installing it in $prefix"
quietly cudeploy-configure cmake -S "$root" -B "$build/cudeploy" -G Ninja -D CMAKE_BUILD_TYPE=Release \
  -D CUDEPLOY_BUILD_TESTS=OFF -D CMAKE_INSTALL_PREFIX="$prefix"
quietly cudeploy-build cmake --build "$build/cudeploy" -j "$jobs"
quietly cudeploy-install cmake --install "$build/cudeploy"
cudeploy=$prefix/bin/cudeploy
"$cudeploy" --version

# 3. From here on a stranger, who knows find_package(cudeploy) and nothing else.
program=$build/one_program
gpus="80;90;120"
if ! "$toolkit/bin/nvcc" --list-gpu-arch | grep -q compute_120; then
  gpus="70;80;90"
  echo "this nvcc is older than GPU 120 (that needs CUDA 12.8): compiling for 70, 80 and 90"
fi
step "configuring examples/one_program with find_package(cudeploy)"
quietly program-configure env PATH="$toolkit/bin:$PATH" cmake -S "$root/examples/one_program" -B "$program" -G Ninja \
  -D CMAKE_BUILD_TYPE=Release -D CMAKE_PREFIX_PATH="$prefix" -D CMAKE_CUDA_COMPILER="$toolkit/bin/nvcc" \
  -D CUDAToolkit_ROOT="$toolkit" -D GPUS="$gpus"
grep '^-- cudeploy' "$build/log/program-configure" || :

step "building it; the audit is a step of the build"
quietly program-build cmake --build "$program" -j "$jobs"
if grep -q 'no work to do' "$build/log/program-build"; then
  echo "nothing changed since:"
else
  cp "$build/log/program-build" "$build/log/program-build-last"
fi
cat "$build/log/program-build-last"

step "packing it: TGZ and DEB"
packages=$program/packages
rm -rf "$packages"
# cpack looks for its configuration where it stands.
(cd "$program" && quietly program-pack cpack -G "TGZ;DEB" -B "$packages")
tgz=$(echo "$packages"/*.tar.gz)
deb=$(echo "$packages"/*.deb)
ls -1 "$tgz" "$deb"

step "auditing both packages"
"$cudeploy" audit "$tgz"
"$cudeploy" audit "$deb"

# 4. Elsewhere: another folder, a space in its name, nothing in the environment.
elsewhere="$build/some where else"
step "unpacking the TGZ in \"$elsewhere\" and running the program with an empty environment"
rm -rf "$elsewhere"
mkdir -p "$elsewhere"
tar -xzf "$tgz" -C "$elsewhere"
run=$(find "$elsewhere" -name one_program -type f)
env -i "$run"

step "what each GPU generation gets from it"
(cd "$(dirname "$run")/.." && "$cudeploy" audit --policy "$root/examples/generations.toml" bin)
