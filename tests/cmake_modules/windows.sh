#!/bin/sh
# Where the one-state runtime does not exist, a project that asks for it is built with NVIDIA's static one, and told what that
# means with its toolkit. No Windows here: clang and lld-link make the DLLs, from NVIDIA's own libraries for Windows; what the
# finished DLL holds is told from its bytes.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"
for tool in clang lld-link; do command -v $tool > /dev/null || skip "no $tool"; done

mkdir "$work/source"
cat > "$work/source/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(windows LANGUAGES CXX)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit runtime)
foreach(name IN ITEMS first second by_name)
  add_library(${name} SHARED use.cpp)
endforeach()
foreach(i RANGE 1)
  cudeploy_link_runtime(first unified)
  cudeploy_target(second AUDIT off)
endforeach()
target_link_libraries(by_name PRIVATE cudeploy::runtime)
add_library(shared SHARED use.cpp)
cudeploy_link_runtime(shared shared)
LISTS
cat > "$work/source/use.cpp" << 'SOURCE'
extern "C" int cudaGetDevice(int*);
extern "C" __declspec(dllexport) int use() { int device = 0; return cudaGetDevice(&device); }
SOURCE

# dll RELEASE NAME KIND : whose runtime the DLL has
dll() {
  must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --format json "$work/$1/build/$2.dll"
  same "the runtime of $2.dll with CUDA $1" "$(sed -n 's/^.*"kind": "\(private-static\|driver-hybrid\|needs-shared\|unified\)".*$/\1/p' "$log")" "$3"
}

for release in 12.9 13.0 13.5; do
  part=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" "cudart-windows-$release") || exit $?
  toolkit=$work/$release/toolkit
  mkdir -p "$toolkit/bin"
  for root in "$part/nvidia/cu13" "$part/nvidia/cuda_runtime"; do
    [ ! -d "$root" ] || ln -s "$root/include" "$root/lib" "$toolkit"
  done
  # A double: nvcc.exe does not run here, and CMake asks it for no more than the place and the version.
  cat > "$toolkit/bin/nvcc" << DOUBLE
#!/bin/sh
echo '#\$ TOP=$toolkit'
echo 'Cuda compilation tools, release $release, V$release.0'
DOUBLE
  chmod +x "$toolkit/bin/nvcc"
  must_pass cmake -S "$work/source" -B "$work/$release/build" -G Ninja -DCMAKE_PREFIX_PATH="$CUDEPLOY_PREFIX" \
    --toolchain "$here/windows/toolchain.cmake" -DCUDAToolkit_ROOT="$toolkit"
  output_has 'cudeploy_link_runtime: first: unified is plain static on Windows: the one-state runtime exists on Linux only' \
    'cudeploy_link_runtime: second: unified is plain static on Windows'
  case $release in
    12.9) output_has 'CUDA 12.9: each program and library that links it has a state of its own' ': shared, for all of them' ;;
    13.0) output_has 'CUDA 13.0: each program and library that links it has a state of its own' 'shared has one: cudart.lib' \
      'nvcudart_hybrid64.dll of the display driver, 580 or newer' ;;
    13.5) output_has 'CUDA 13.5: cudart_static.lib is a loader as cudart.lib is' 'nvcudart_hybrid64.dll of the display driver'
      output_lacks 'a state of its own' ;;
  esac
  # Once for the project.
  same 'explanations' "$(grep -c "CUDA $release: " "$log")" 1
  must_pass cmake --build "$work/$release/build"
  # What is said is what came out.
  case $release in
    12.9) static=private-static shared=needs-shared ;;
    13.0) static=private-static shared=driver-hybrid ;;
    13.5) static=driver-hybrid shared=driver-hybrid ;;
  esac
  for name in first second by_name; do dll "$release" $name "$static"; done
  dll "$release" shared "$shared"
done
echo "covered: Windows with CUDA 12.9, 13.0 and 13.5: static instead of unified"
