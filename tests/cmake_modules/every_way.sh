#!/bin/sh
# One project that calls every function, twice, from folders that do not know each other's languages: built, judged, run, made
# again where something changed and packed, with each generator and each host compiler. The second argument is a version of
# the Python package "cmake", or "here" for the one of this machine.
work=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
if [ "$version" != here ]; then
  part=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" "cmake-$version") || exit $?
  PATH=$part/cmake/data/bin:$PATH
  export PATH
fi
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"
cp -R "$here/every_way" "$work/source"

# tried NAME GENERATOR [CMAKE-ARGUMENT...]
tried() {
  name=$1 generator=$2
  shift 2
  build="$work/$name"
  configurations=. configuration=Release
  must_pass configure "$work/source" "$build" -DCMAKE_BUILD_TYPE=Release "$@"
  output_lacks Warning Deprecation
  case $generator in *Multi-Config) configurations='Debug Release' ;; esac
  for configuration in $configurations; do
    folder=$configuration
    [ "$configuration" != . ] || configuration=Release
    built() { must_pass cmake --build "$build" --config "$configuration" "$@"; }
    built
    output_has 'Auditing direct' 'Auditing in_c' 'Auditing program' 'Auditing opened'
    built
    output_lacks 'Auditing' 'Compiling device code' 'Linking'
    must_pass "$build/$folder/direct" "$work/embedded"
    must_pass cmp "$work/embedded" "$build/cudeploy/embed/direct/$folder/embedded.fatbin"
    must_pass "$build/$folder/in_c"
    must_pass "$build/engine/$folder/program" "$build/engine/opened/$folder/libopened.so"
    output_has 'one state'
    for file in "$build/$folder/in_c" "$build/engine/$folder/program" "$build/engine/opened/$folder/libopened.so"; do
      must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --format json "$file"
      output_has '"kind": "unified"'
      [ -s "$file.audit.json" ] || { echo "no report beside $file"; exit 1; }
    done
    # A header of the embedded code alone: that is compiled, linked and judged again, nothing else.
    cp "$work/embedded" "$work/before"
    factor=$((factor + 1))
    echo "#define FACTOR $factor" > "$work/source/factor.cuh"
    built
    output_has 'Compiling device code embedded' 'Auditing direct'
    output_lacks 'Auditing program' 'Auditing opened' 'Auditing in_c'
    must_pass "$build/$folder/direct" "$work/embedded"
    must_fail cmp "$work/embedded" "$work/before"
    built --target cudeploy_audit_all
    output_lacks Auditing
  done
  must_pass sh -c "cd '$build' && cpack -C $configuration"
  output_has 'audit passed'
  tar -tzf "$build/every_way-1.0-Linux.tar.gz" > "$log"
  output_has bin/direct bin/in_c bin/program lib/libopened.so share/every_way/cudeploy-audit.json
  done="$done $name"
}

done='' factor=2
tried ninja Ninja
tried makefiles 'Unix Makefiles'
tried many 'Ninja Multi-Config'
if command -v clang > /dev/null; then
  tried clang Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CUDA_HOST_COMPILER=clang++
fi
echo "covered: every function, CMake $(cmake --version | sed -n 's/^cmake version //p'):$done"
