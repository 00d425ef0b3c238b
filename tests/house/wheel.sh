#!/bin/sh
# `pip install .` is what Python users try first. The wheel is built, judged by the command that is tested, installed
# into an environment that has nothing else, used there as command and as CMake package, and taken out again. Compiles
# the command once more: minutes.
#
#   sh tests/house/wheel.sh CUDEPLOY_TO_JUDGE_WITH FOLDER TOOLKIT         77 and a reason where something is missing
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
judge=$1
folder=$2
toolkit=$3

# shellcheck source=tests/dependencies.sh
. "$root/tests/dependencies.sh"
skip_without static
tools=$(sh "$root/tests/real_parts.sh" wheel-tools)
rm -rf "$folder"
mkdir -p "$folder/wheel"
cd "$folder"
PIP_NO_INDEX=1 PIP_FIND_LINKS=$tools python3 -m pip wheel --quiet -w wheel "$root"
wheel=$(echo wheel/cudeploy-*-py3-none-linux_*.whl)

echo "== $wheel, judged"
"$judge" audit "$wheel"

echo "== installed into an empty environment"
outer=$(python3 -c 'import sys; print(sys.executable)')
python3 -m venv --without-pip "new environment"
environment="$folder/new environment"
"$outer" -m pip --python "$environment/bin/python" install --quiet --no-deps --no-index "$wheel"
PATH=$environment/bin:$PATH
export PATH
[ "$(command -v cudeploy)" = "$environment/bin/cudeploy" ] || { echo "error: no command in $environment"; exit 1; }
[ "$(cudeploy --version)" = "$("$judge" --version)" ] || { echo "error: version: $(cudeploy --version)"; exit 1; }
cudeploy audit "$wheel"
archive=$(find -L "$toolkit" -name libcudart_static.a 2> /dev/null | head -n 1)
cudeploy link-kit --cudart "$archive" -o kit
grep -qF "$environment/share/cudeploy/runtime_static/join.cpp" kit/link-kit.json || { cat kit/link-kit.json; exit 1; }

echo "== found by CMake through PATH alone"
mkdir project
cat > project/CMakeLists.txt << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(stranger LANGUAGES NONE)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
get_target_property(command cudeploy::cudeploy IMPORTED_LOCATION)
message(STATUS "the command is ${command}")
LISTS
cmake -S project -B project/build > log || { cat log; exit 1; }
grep -F "the command is $environment/bin/cudeploy" log || { cat log; exit 1; }

echo "== taken out again"
"$outer" -m pip --python "$environment/bin/python" uninstall --quiet --yes cudeploy
left=$(cd "$environment" && find . -path '*cudeploy*' ! -type d)
[ -z "$left" ] || { echo "error: left behind: $left"; exit 1; }
