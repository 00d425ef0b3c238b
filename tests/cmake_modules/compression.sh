#!/bin/sh
# The oldest wanted driver decides how device code is compressed: what an older one cannot read must not be there, and what a
# newer one reads is smaller and must be. With each driver, for cudeploy_device_code and cudeploy_embed_fatbin; the frames
# of zstd are counted in the raw bytes too. The second argument "all" adds the drivers at the borders: minutes.
work=$1
drivers='535.54 580.65.06'
[ "${2:-}" != all ] || drivers='535.54 550.54.14 580.65.06 615.10'
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/source"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

cat > "$work/source/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(compression LANGUAGES CXX CUDA)
find_package(cudeploy 1.0 REQUIRED)
foreach(driver IN LISTS DRIVERS)
  string(REPLACE "." "_" name ${driver})
  add_library(compiled_${name} MODULE kernel.cu)
  cudeploy_device_code(compiled_${name} GPUS 80 90 DRIVER ${driver})
  add_library(embedded_${name} MODULE symbol.cpp)
  cudeploy_embed_fatbin(embedded_${name} NAME code SOURCES kernel.cu GPUS 80 90 DRIVER ${driver})
endforeach()
if(615.10 IN_LIST DRIVERS)
  add_executable(separable kernel.cu main.cu)
  set_target_properties(separable PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
  cudeploy_device_code(separable GPUS 80 90 PTX none DRIVER 615.10)
endif()
LISTS
# Large enough that compressing it is worth while.
cat > "$work/source/kernel.cu" << 'SOURCE'
__global__ void kernel(float* x) {
#pragma unroll
  for (int i = 0; i < 64; i++) x[i] = x[i + 64] * i + x[i + 128];
}
void launch(float* x) { kernel<<<1, 1>>>(x); }
SOURCE
echo 'void launch(float*); int main() { launch(nullptr); }' > "$work/source/main.cu"
printf '#include "code.h"\nextern "C" size_t size() { return code_size + code[0]; }\n' > "$work/source/symbol.cpp"

nvcc=$CUDEPLOY_TOOLKIT/bin/nvcc
major=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
"$nvcc" --help > "$work/help"
must_pass configure "$work/source" "$work/build" -DDRIVERS="$(echo "$drivers" | tr ' ' ';')"
# A compiler without the option writes LZ4 alone.
speaks=output_lacks
if grep -q -e --compress-mode "$work/help"; then speaks=output_has; fi
$speaks 'compiled_535_54: driver 535.54 cannot read zstd (550.54.14 can), so device code is compressed with LZ4' \
  'embedded_535_54: driver 535.54 cannot read zstd'
speaks=output_lacks
if [ "${drivers##* }" = 615.10 ] && grep -q -e --concat "$work/help"; then speaks=output_has; fi
$speaks 'compiled_615_10: driver 615.10 reads the images of all GPUs from one compressed stream (--concat)' 'embedded_615_10: driver 615.10'
output_lacks 'compiled_550_54_14: driver' 'embedded_580_65_06: driver'
must_pass cmake --build "$work/build"

# compressions FILE : what is there but uncompressed images, then whether images of several GPUs share a stream
compressions() {
  must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --format json "$1"
  output_has '"arch": 80' '"arch": 90'
  sed -n 's/^.*"compression": "\(.*\)",$/\1/p' "$log" | grep -v '^none$' | sort -u | tr '\n' ' '
  if grep -q '"group":' "$log"; then echo one stream; else echo each; fi
}
frames() { python3 -c 'import sys; print(open(sys.argv[1], "rb").read().count(b"\x28\xb5\x2f\xfd"))' "$1"; }

for driver in $(echo "$drivers" | tr . _); do
  expected='lz4 each'
  if [ "$major" -ge 13 ] && [ "$driver" != 535_54 ]; then expected='zstd each'; fi
  if [ "$driver" = 615_10 ] && grep -q -e --concat "$work/help"; then expected='zstd one stream'; fi
  for kind in compiled embedded; do
    file=$work/build/lib${kind}_$driver.so
    same "$file" "$(compressions "$file")" "$expected"
    case $expected in
      zstd*) [ "$(frames "$file")" -ge 1 ] || { echo "$file: no frame of zstd"; exit 1; } ;;
      lz4*) same "frames of zstd in $file" "$(frames "$file")" 0 ;;
    esac
  done
done
if [ -e "$work/build/separable" ] && grep -q -e --concat "$work/help"; then
  same separable "$(compressions "$work/build/separable")" 'zstd one stream'
fi
echo "compression: CUDA $major with drivers $drivers"
