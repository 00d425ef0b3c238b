#!/bin/sh
# cudeploy as a folder of the project, by add_subdirectory and by FetchContent. With "build" as the second argument it is
# also built and packed, which compiles the command once more: minutes.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

version=$(cmake --version | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p')
[ "$version" != 3.24 ] || { echo "not tried: cudeploy itself is built with CMake 3.25 or newer"; exit 0; }
must_pass configure "$here/in_tree" "$work/folder" -DCUDEPLOY_SOURCE="$CUDEPLOY_SOURCE"
must_pass configure "$here/in_tree" "$work/fetched" -DCUDEPLOY_SOURCE="$CUDEPLOY_SOURCE" -DMETHOD=FetchContent
[ "${2:-}" = build ] || exit 0

must_pass cmake --build "$work/fetched"
output_has 'Auditing app'
must_pass cmake --build "$work/fetched"
output_lacks 'Linking' 'Auditing' 'Reading'
must_pass sh -c "cd '$work/fetched' && cpack"
tar -tzf "$work/fetched/in_tree-1.0-Linux.tar.gz" | sort > "$log"
output_has bin/app share/in_tree/cudeploy-audit.json
output_lacks bin/cudeploy share/cudeploy

# What the build assumes of a kit before it is written is what the kit says.
for kind in cudeploy_runtime cudeploy_runtime_hidden; do
  kit=$work/fetched/program/cudeploy/$kind
  [ -d "$kit" ] || kit=$(dirname "$(find "$work/fetched" -path "*/$kind/link-kit.json")")
  python3 - "$kit/link-kit.json" "$work/fetched/build.ninja" << 'PYTHON' || exit 1
import json, sys
kit = json.load(open(sys.argv[1]))
ninja = open(sys.argv[2]).read()
for key in ("sources", "include_directories", "compile_options", "link_options", "libraries"):
    for item in kit[key]:
        name = item.rsplit("/", 1)[-1]
        if name not in ninja:
            sys.exit(f"{sys.argv[1]}: {key} has {item}, which the build does not know")
PYTHON
done
echo "in_tree: same names, built and packed"
