#!/bin/sh
# one_program and two_plugins with another CUDA toolkit, as strangers: the module finds compiler, headers and runtime of
# that one, whatever else is installed. Arguments: work folder, real part that holds the toolkit.
work=$1 part=$2
here=$(cd "$(dirname "$0")" && pwd)
folder=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" "$part") || exit $?
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"

gpus='80;90'
case $part in
  nvcc-*) root=$folder/nvidia/cu13 ;;
  cuda-*)
    # Debian spreads a toolkit over /usr and ties it to that place: put together as NVIDIA's own layout has it. nvcc looks
    # for its profile beside its own file, so it is copied.
    root=$work/toolkit
    debian=$folder/usr/lib/nvidia-cuda-toolkit
    mkdir -p "$root/bin" "$root/nvvm"
    ln -s "$folder/usr/include" "$root/include"
    ln -s "$folder/usr/lib/x86_64-linux-gnu" "$root/lib64"
    ln -s "$debian/libdevice" "$root/nvvm/libdevice"
    ln -s "$folder/usr/lib/x86_64-linux-gnu" "$root/nvvm/lib64"
    for tool in "$folder"/usr/bin/* "$debian/bin/cicc" "$debian/bin/crt"; do
      [ "${tool##*/}" = nvcc ] || ln -s "$tool" "$root/bin/${tool##*/}"
    done
    cp "$debian/bin/nvcc" "$root/bin/nvcc"
    cat > "$root/bin/nvcc.profile" << 'PROFILE'
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(_HERE_):
INCLUDES =+ "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
PROFILE
    ;;
esac
if [ "$part" = cuda-11.8 ]; then
  for old in 11 10 9; do
    command -v "g++-$old" > /dev/null && break
    old=
  done
  [ -n "$old" ] || { echo "CUDA 11.8 needs g++ 11 or older, and none is here"; exit 1; }
  CUDAHOSTCXX=$(command -v "g++-$old")
  export CUDAHOSTCXX
fi
CUDEPLOY_TOOLKIT=$root
export CUDEPLOY_TOOLKIT
version=${part#*-}

for example in one_program two_plugins; do
  must_pass configure "$CUDEPLOY_SOURCE/examples/$example" "$work/$example" -DGPUS="$gpus" -DCMAKE_BUILD_TYPE=Release
  must_pass cmake --build "$work/$example"
  output_has "Auditing $example"
  must_pass "$work/$example/$example"
  must_pass sh -c "cd '$work/$example' && cpack -G TGZ"
  output_has 'audit passed'
done
output_has 'audit passed'
must_pass "$work/one_program/one_program"
output_has "CUDA runtime of this program: $version"
must_pass "$work/two_plugins/two_plugins"
output_has 'one CUDA runtime state'

# Kernels with names that others can see, in a library: their stubs are hidden, whatever this compiler does by itself.
mkdir "$work/stubs"
cat > "$work/stubs/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(stubs LANGUAGES CXX CUDA)
find_package(cudeploy 1.0 REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/k.cu" "__global__ void plain() {}\ntemplate <class T> __global__ void typed(T) {}\n"
  "__attribute__((visibility(\"default\"))) void launch() { plain<<<1, 1>>>(); typed<<<1, 1>>>(1); }\n")
add_library(bare SHARED "${CMAKE_BINARY_DIR}/k.cu")
set_target_properties(bare PROPERTIES CUDA_ARCHITECTURES 80)
add_library(ours SHARED "${CMAKE_BINARY_DIR}/k.cu")
cudeploy_target(ours GPUS 80)
LISTS
must_pass configure "$work/stubs" "$work/stubs/build"
must_pass cmake --build "$work/stubs/build"
nm -D --defined-only "$work/stubs/build/libours.so" > "$log"
output_has launch
output_lacks plain typed
case $version in
  13.*) ;;
  *)
    must_fail "$CUDEPLOY_PREFIX/bin/cudeploy" audit --fail-on warning "$work/stubs/build/libbare.so"
    output_has exported-kernel-stub
    ;;
esac

# The real driver library, where there is no GPU: what is wrong, and what to do.
if [ ! -e /proc/driver/nvidia/version ]; then
  driver=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" libcuda-535) || exit $?
  with_driver="env LD_LIBRARY_PATH=$driver/usr/lib/x86_64-linux-gnu/nvidia/current"
  case $version in
    13.*)
      # shellcheck disable=SC2086
      must_fail $with_driver "$work/one_program/one_program"
      output_has 'CUDA version of the driver: 12.2' 'the driver is too old for this program' 'install a newer driver'
      ;;
    *)
      # shellcheck disable=SC2086
      must_pass $with_driver "$work/one_program/one_program"
      output_has 'CUDA version of the driver: 12.2' 'the driver finds none; look whether'
      ;;
  esac
fi

# The quickstart takes any of them.
if [ "$part" = cuda-12.4 ]; then
  must_pass sh "$CUDEPLOY_SOURCE/examples/quickstart.sh" --toolkit "$root"
  output_has 'older than GPU 120' 'compiling for 70, 80 and 90' "CUDA runtime of this program: $version" '120'
fi

# Compilers differ in what they write by default and in what they can be asked for.
must_pass sh "$here/../cmake_modules/compression.sh" "$work/compression" all

# Device code that is optimised across files at the device link. NVIDIA's packages for Python have the compiler for that where
# their own linker does not look.
CUDEPLOY_TOOLKIT=$root
if [ ! -e "$root/nvvm/lib64/libnvvm.so" ]; then
  CUDEPLOY_TOOLKIT=$work/with_libnvvm
  mkdir -p "$CUDEPLOY_TOOLKIT/bin" "$CUDEPLOY_TOOLKIT/nvvm/lib64"
  ln -s "$root/include" "$root/lib" "$CUDEPLOY_TOOLKIT"
  ln -s "$root"/nvvm/* "$CUDEPLOY_TOOLKIT/nvvm"
  ln -s "$root"/bin/* "$CUDEPLOY_TOOLKIT/bin"
  cp --remove-destination "$root/bin/nvcc" "$CUDEPLOY_TOOLKIT/bin"
  ln -s "$root"/lib/libnvvm.so.* "$CUDEPLOY_TOOLKIT/nvvm/lib64/libnvvm.so"
fi
must_pass configure "$CUDEPLOY_SOURCE/examples/separable_compilation" "$work/device_lto" -DGPUS="$gpus" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON
must_pass cmake --build "$work/device_lto" --verbose
output_has lto_80 -dlto 'audit --stage link'
must_pass "$work/device_lto/separable_compilation"
must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect "$work/device_lto/separable_compilation"
output_has unified
CUDEPLOY_TOOLKIT=$root
# The oldest driver of the major runs machine code of this toolkit, but compiles no PTX of it, unless the toolkit is the
# first one of its major; the audit finds the same.
case $version in
  11.*) oldest=450.80.02 since='from 520.61.05 on' ;;
  12.*) oldest=525.60.13 since='from 550.54.14 on' ;;
  *) oldest=580.65.06 since='newer than 615' ;;
esac
mkdir "$work/jit"
cat > "$work/jit/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(jit LANGUAGES CXX CUDA)
find_package(cudeploy 1.0 REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/main.cu" "__global__ void k() {}\nint main() { k<<<1, 1>>>(); }\n")
foreach(name IN ITEMS jit later)
  add_executable(${name} "${CMAKE_BINARY_DIR}/main.cu")
endforeach()
cudeploy_device_code(jit GPUS 80 PTX 75 DRIVER ${OLDEST})
cudeploy_audit(jit LEVEL warn GPUS 75 80)
cudeploy_device_code(later GPUS 80 DRIVER ${OLDEST})
LISTS
must_pass configure "$work/jit" "$work/jit/build" -DOLDEST=$oldest
case $version in
  13.0) output_has 'jit: 75 in PTX has no machine code in GPUS: there a driver at least as new' && output_lacks 'cannot compile PTX' ;;
  *) output_has "jit: 75 in PTX has no machine code in GPUS, and DRIVER $oldest cannot compile PTX of CUDA $version" \
    "later: PTX of CUDA $version is compiled by drivers $since: with DRIVER $oldest, GPUs without machine code in GPUS get nothing" ;;
esac
must_pass cmake --build "$work/jit/build"
case $version in 13.0) output_lacks ptx-needs-driver ;; *) output_has ptx-needs-driver ;; esac

# The folders of NVIDIA's Python packages are others in each major.
must_pass sh "$here/../cmake_modules/rpath.sh" "$work/rpath"
echo "covered: CUDA $version, device LTO too"
