#!/bin/sh
# One command from an empty checkout to a verdict: installs what is missing, builds, runs every test that this
# machine can.
#
#   sh tests/run.sh [--all] [--toolkit DIR] [CTEST-ARGUMENT...]
#
#   --all           also the long tests: corpus, fuzz, other toolkits, benchmarks, the static checks, a bare Debian
#   --toolkit DIR   the CUDA toolkit to test with (the folder with bin/nvcc); else the one that is found, else fetched
#   the rest goes to ctest, as in: sh tests/run.sh -R fatbin
#
# What a test did not try is said at the end, with the reason. With --all a judge or a tool that is not there is a
# failure; a download that failed, a GPU that is not there, and what only root may do are not (tests/untried.py).
#
# Exit code: 0 all passed, 2 something is missing that only root can install, else what failed first.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/dev
labels='unit|cmake|package'
toolkit=
all=no
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=yes; shift ;;
    --toolkit) [ $# -ge 2 ] || { echo "error: --toolkit needs a folder" >&2; exit 2; }; toolkit=$2; shift 2 ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) break ;;
  esac
done

# shellcheck source=tests/dependencies.sh
. "$root/tests/dependencies.sh"
purposes="build pack test"
if [ "$all" = yes ]; then
  purposes="$purposes static all"
  labels="$labels|corpus|fuzz|toolkits|bench|tidy|chroot"
fi
# shellcheck disable=SC2086
need_with_toolkit "$root/build/toolkit" "$toolkit" $purposes
# A GPU that is there is used. The device nodes say nothing: the driver library makes them, when root asks.
[ ! -e /proc/driver/nvidia/version ] || labels="$labels|gpu"

echo "CUDA toolkit: $toolkit"
# Whatever asks for a toolkit below, by whichever way, must get this one.
PATH=$toolkit/bin:$PATH
CUDACXX=$toolkit/bin/nvcc
CUDAToolkit_ROOT=$toolkit
export PATH CUDACXX CUDAToolkit_ROOT

jobs=$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)
cd "$root"
cmake --preset dev -DCUDEPLOY_TEST_TOOLKIT="$toolkit"
cmake --build "$build" -j "$jobs"
code=0
results=$build/Testing/results.xml
rm -f "$results"
ctest --test-dir "$build" -L "^($labels)\$" -j "$jobs" --output-on-failure --no-tests=error \
  --output-junit "$results" --test-output-size-passed 16777216 "$@" || code=$?
set --
[ "$all" = no ] || set -- --all
[ ! -f "$results" ] || python3 tests/untried.py "$results" "$@" || [ "$code" != 0 ] || code=1
exit "$code"
