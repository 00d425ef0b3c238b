#!/bin/sh
# cudeploy as a folder of the project, by add_subdirectory and by FetchContent. With "configure" as the second argument the
# other generators are tried too; with "build" it is also built and packed, which compiles the command once more: minutes.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

must_pass configure "$here/in_tree" "$work/folder" -DCUDEPLOY_SOURCE="$CUDEPLOY_SOURCE"
must_pass configure "$here/in_tree" "$work/fetched" -DCUDEPLOY_SOURCE="$CUDEPLOY_SOURCE" -DMETHOD=FetchContent
# What the build assumes of a kit before it is written is what the kit says, word by word.
archive=$(sed -n 's/.*"--cudart" "\{0,1\}\([^" ]*\).*/\1/p; s/.*--cudart \([^ ]*\) .*/\1/p' "$work/folder/build.ninja" | head -n 1)
for anchor in exported hidden; do
  must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" link-kit --cudart "$archive" -o "$work/kit" --sources "$CUDEPLOY_SOURCE/runtime_static" --anchor $anchor
  python3 - "$work/kit" "$work/folder" $anchor << 'PYTHON' || exit 1
import json, sys
kit, build, anchor = sys.argv[1:]
said = json.load(open(f"{kit}/link-kit.json"))
words = set(open(f"{build}/build.ninja").read().split())
here = f"{build}/cudeploy/cudeploy_runtime" + {"exported": "", "hidden": "_hidden"}[anchor]
for key, begin in {"sources": "", "include_directories": "-I", "compile_options": "", "link_options": "", "libraries": ""}.items():
    if not said[key]:
        sys.exit(f"the kit has no {key}")
    for item in said[key]:
        word = begin + item.replace(kit, here)
        if key == "libraries" and "/" not in item:
            word = f"-l{item}"
        if not words & {word, word.replace(f"{build}/", "")}:
            sys.exit(f"the {anchor} kit: {key} has {item}, which the in-tree build (cmake_modules/unified_runtime.cmake) does not know")
PYTHON
done
[ -n "${2:-}" ] || exit 0

# From folders that do not know each other's languages, and with the other generators.
for generator in 'Ninja Multi-Config' 'Unix Makefiles'; do
  for method in add_subdirectory FetchContent; do
    must_pass configure "$here/every_way" "$work/$method with $generator" -DCUDEPLOY_SOURCE="$CUDEPLOY_SOURCE" -DMETHOD=$method \
      -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT"
  done
done
generator=Ninja
[ "$2" = build ] || exit 0

for method in FetchContent add_subdirectory; do
  must_pass configure "$here/in_tree" "$work/fetched" -DCUDEPLOY_SOURCE="$CUDEPLOY_SOURCE" -DMETHOD=$method
  rm -f "$work/fetched/program/app"
  must_pass cmake --build "$work/fetched"
  output_has 'Auditing app'
  must_pass cmake --build "$work/fetched"
  output_lacks 'Linking' 'Auditing' 'Reading'
  must_pass sh -c "cd '$work/fetched' && cpack"
  tar -tzf "$work/fetched/in_tree-1.0-Linux.tar.gz" | sort > "$log"
  output_has bin/app share/in_tree/cudeploy-audit.json
  output_lacks bin/cudeploy share/cudeploy
done

echo "in_tree: same names, built and packed"
