#!/bin/sh
# One example as a stranger: configured against the installed package, built, run, packed, unpacked in a folder with a
# space in its name and run there with an empty environment. Arguments: work folder, name of the example.
work=$1 example=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"

# A copy: one of them is changed below.
cp -R "$CUDEPLOY_SOURCE/examples/$example" "$work/source"
must_pass configure "$work/source" "$work/build" -DGPUS=90 -DCMAKE_BUILD_TYPE=Release
must_pass cmake --build "$work/build"
output_has "Auditing $example"
must_pass "$work/build/$example"
must_pass sh -c "cd '$work/build' && cpack -G TGZ"
output_has 'audit passed'
mkdir -p "$work/some where else"
tar -xzf "$work/build/$example-1.0-Linux.tar.gz" -C "$work/some where else" --strip-components=1
must_pass env -i "$work/some where else/bin/$example"
cp "$log" "$work/said"
content=$(cd "$work/some where else" && find . -type f | sort | tr '\n' ' ')

case $example in
  two_plugins)
    output_has 'one CUDA runtime state'
    must_pass env CUDEPLOY_REPORT="$work/report.json" "$work/build/two_plugins"
    python3 -m json.tool "$work/report.json" > "$log"
    # The same sources without cudeploy: two states, and a bundle that is refused.
    must_pass configure "$work/source" "$work/build" -DPLAIN=ON
    must_pass cmake --build "$work/build"
    must_fail "$work/build/two_plugins"
    output_has 'two CUDA runtime states' 'error 52'
    must_fail sh -c "cd '$work/build' && cpack -G TGZ"
    output_has 'duplicate-runtime' libleft.so libright.so 'hint:'
    no_package "$work/build"
    ;;
  shared_runtime)
    output_has "from $work/some where else/bin/../lib/libcudart.so"
    runtime=$(find "$work/some where else/lib" -name 'libcudart.so.*' -type f)
    must_pass cmp "$runtime" "$(find -L "$CUDEPLOY_TOOLKIT/lib64" "$CUDEPLOY_TOOLKIT/lib" -maxdepth 1 -name "$(basename "$runtime")" 2> /dev/null | head -n 1)"
    case $content in *NVIDIA-CUDA-EULA.txt*) ;; *) echo "no licence in: $content"; exit 1 ;; esac
    ;;
  driver_direct)
    output_has 'device code in this program:'
    readelf -d "$work/build/driver_direct" > "$log"
    output_lacks libcudart libstdc++
    must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --format json "$work/build/driver_direct"
    output_has '"kind": "ptx"' '"kind": "cubin"'
    # A change of the device code reaches the program, and no other source is compiled for it; then there is nothing to do.
    echo 'extern "C" __global__ void cube(float* numbers) { numbers[threadIdx.x] *= 3; }' >> "$work/source/square.cu"
    must_pass cmake --build "$work/build"
    output_has 'Compiling device code' 'Auditing'
    output_lacks main.c
    must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --kernels "$work/build/driver_direct"
    output_has square cube
    must_pass cmake --build "$work/build"
    output_lacks 'Compiling device code' Linking
    ;;
  separable_compilation)
    # Without a GPU it says so, with one it computes; either way with one runtime, and with the code of the device link: one
    # image, that for 90, with both kernels.
    grep -Eq '^(no GPU to compute on|1000 values computed and checked)$' "$work/said" || { cat "$work/said"; exit 1; }
    nm "$work/build/$example" > "$log"
    output_has __cudaRegisterLinkedBinary
    must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --kernels "$work/build/$example"
    output_has 'runtime unified' '.nv_fatbin: 1 fat binary, 1 image' 'sm_90' evaluate start
    output_lacks private
    ;;
esac

# With cudeploy's build tree in the place of the installation.
against_build_tree "$work/source" "$work/build" -DPLAIN=OFF
must_pass "$work/build/$example"
must_pass sh -c "cd '$work/build' && cpack -G TGZ"
output_has 'audit passed'
same 'content of the bundle' "$(tar -tzf "$work/build/$example-1.0-Linux.tar.gz" | grep -v '/$' | sed 's,^[^/]*/,./,' | sort | tr '\n' ' ')" "$content"
echo "$example: $content"
