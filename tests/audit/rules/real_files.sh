#!/bin/sh
# Rules judge records; what compilers and linkers really write is another matter. Here each rule meets files made on
# the spot, a good one and a bad one, through the command.
#
#   sh real_files.sh FOLDER      with CUDEPLOY_COMMAND, the command, and CUDEPLOY_TOOLKIT, a toolkit's root
set -eu

folder=$1
here=$(cd "$(dirname "$0")" && pwd)
command=$CUDEPLOY_COMMAND
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
failures=0

# expect RULES ARGUMENTS...: the rules that have findings, by id, each once, separated by blanks; "" for none.
expect() {
  wanted=$1
  shift
  code=0
  "$command" audit "$@" > out.txt 2>&1 || code=$?
  found=$(sed -n 's/.*\[\(CD[0-9]*\) [a-z-]*\]$/\1/p' out.txt | sort -u | tr '\n' ' ' | sed 's/ $//')
  want_code=0
  [ -z "$wanted" ] || want_code=1
  if [ "$found" != "$wanted" ] || [ "$code" != "$want_code" ]; then
    echo "FAILED: audit $*: expected '$wanted' and exit code $want_code, found '$found' and $code"
    sed 's/^/    /' out.txt
    failures=$((failures + 1))
  fi
}

# says TEXT: the last report holds it.
says() {
  if ! grep -qF -- "$1" out.txt; then
    echo "FAILED: the report does not say '$1'"
    sed 's/^/    /' out.txt
    failures=$((failures + 1))
  fi
}

compiler=${CC:-cc}
echo 'int f(void) { return 1; }' > f.c
echo 'int f(void); int main(void) { return f(); }' > main.c
echo 'int main(void) { return 0; }' > plain.c

# Search paths and needs, with the host compiler alone.
mkdir -p good/bin good/lib
$compiler -shared -fPIC f.c -o good/lib/libf.so.1 -Wl,-soname,libf.so.1
# shellcheck disable=SC2016
$compiler main.c good/lib/libf.so.1 -o good/bin/app -Wl,-rpath,'$ORIGIN/../lib'
expect "" good

mkdir -p absolute
$compiler plain.c -o absolute/app -Wl,-rpath,/opt/elsewhere/lib
expect "CD201" absolute
says "'/opt/elsewhere/lib' is absolute"
$compiler plain.c -o absolute/app -Wl,-rpath,/tmp/lib
expect "CD201" absolute
says "where anybody can put a library"
expect "" --stage link absolute/app
# shellcheck disable=SC2016
expect "" --stage link --install-rpath '$ORIGIN/../lib' absolute/app
expect "CD201" --stage link --install-rpath /opt/lib absolute/app

mkdir -p stubs
# shellcheck disable=SC2016
$compiler plain.c -o stubs/app -Wl,-rpath,'$ORIGIN/../lib/stubs'
expect "CD202" stubs

mkdir -p missing
cp good/bin/app missing/
expect "CD203" missing
says "needs libf.so.1, which is not found"
printf 'provided = ["libf.so.1"]\n' > provided.toml
expect "" --policy provided.toml missing

mkdir -p renamed/bin renamed/lib
cp good/bin/app renamed/bin/
cp good/lib/libf.so.1 renamed/lib/libf.so.1.0
expect "CD203" renamed
says "the loader looks for the file name"
ln -s libf.so.1.0 renamed/lib/libf.so.1
expect "" renamed

# What is opened by name: a library that says of itself that it is NVRTC, and asks for its builtins.
mkdir -p opens
cat > opens.c << 'K'
const char *const builtins = "libnvrtc-builtins.so.13.0";
int nvrtcVersion(int *major, int *minor) { return *major + *minor; }
K
echo 'libnvrtc.so.13 { global: *; };' > opens.map
# shellcheck disable=SC2016
$compiler -shared -fPIC opens.c -o opens/libnvrtc.so.13 -Wl,-soname,libnvrtc.so.13,--version-script,opens.map \
  -Wl,-rpath,'$ORIGIN'
expect "CD204" opens
says "opens libnvrtc-builtins.so.13.0 by name"
$compiler -shared -fPIC f.c -o opens/libnvrtc-builtins.so.13.0 -Wl,-soname,libnvrtc-builtins.so.13.0
expect "" opens

# The driver by name; as the soname of a renamed file; the loader looks for the first only.
mkdir -p driver
$compiler -shared -fPIC f.c -o driver/libcuda.so.1 -Wl,-soname,libcuda.so.1
expect "CD501" driver
mv driver/libcuda.so.1 driver/libcuda-0123abcd.so.570.1
expect "CD501" driver

# Tile cubins call themselves architecture-specific, the entry does not: the GPU's own cubin counts, no other.
tile=$here/../../samples/tile.fatbin
expect "" --gpus 100,120,121 "$tile"
expect "CD402" --gpus 103 "$tile"

# A fat binary that was cut off.
printf '\120\355\125\272\001\000\020\000\000\001\000\000\000\000\000\000cut' > cut.fatbin
expect "CD001" cut.fatbin

nvcc=$CUDEPLOY_TOOLKIT/bin/nvcc

# One object of device code per kind, linked in several ways.
cat > k.cu <<'K'
template <typename T> __global__ void scale(T* p) { *p *= 2; }
__global__ void add(float* p) { *p += 1; }
extern "C" int run_K(float* p) {
  add<<<1, 1>>>(p);
  scale<float><<<1, 1>>>(p);
  return cudaGetLastError();
}
K
sed 's/run_K/run_L/' k.cu > l.cu
echo 'extern "C" int run_K(float*); int main() { return run_K(nullptr) == 0; }' > main.cpp
with_ptx='-gencode arch=compute_80,code=[sm_80,compute_80]'
# shellcheck disable=SC2086
"$nvcc" $with_ptx -Xcompiler -fPIC -c k.cu -o k.o
# shellcheck disable=SC2086
"$nvcc" $with_ptx -Xcompiler -fPIC -c l.cu -o l.o
"$nvcc" -gencode arch=compute_80,code=sm_80 -Xcompiler -fPIC -c k.cu -o cubin_only.o
# shellcheck disable=SC2086
"$nvcc" $with_ptx -static-global-template-stub=false -device-entity-has-hidden-visibility=false \
  -Xcompiler -fPIC -c k.cu -o exported.o 2> exported.log || "$nvcc" $with_ptx -Xcompiler -fPIC -c k.cu -o exported.o
"$nvcc" -c main.cpp -o main.o

mkdir -p one two/bin two/lib alone
"$nvcc" main.o k.o -o one/app
expect "" one
expect "" --gpus 80,86,90,120 one
expect "CD402" --gpus 75,80 one
says "nothing for 7.5 (Turing)"

"$nvcc" -shared l.o -o two/lib/plugin.so
cp one/app two/bin/app
expect "CD101" two
says "2 private CUDA runtimes can meet in one process"
says "two/lib/plugin.so"
[ "$(grep -c 'CD101' out.txt)" = 1 ] || { echo "FAILED: more than one finding for one bundle"; failures=$((failures + 1)); }
expect "" --stage link two/lib/plugin.so
"$command" inspect --format json two > saved.json
expect "CD101" saved.json

"$nvcc" -shared cubin_only.o -o alone/cubin_only.so
expect "CD401" alone
says "there is sm_80"
expect "CD401" --stage link alone/cubin_only.so
printf 'gpus = [80]\nseverity.missing-ptx = "off"\n' > known.toml
expect "" --policy known.toml alone

# Warnings: they fail where that is asked for.
expect "CD403 CD407" --fail-on warning --driver 535.54 --gpus 80,86,90 one
says "GPUs without a cubin of their own"
"$nvcc" -Xcompiler -fPIC -shared k.cu -o alone/nobody_chose.so
expect "CD406" --fail-on warning alone/nobody_chose.so
"$nvcc" -gencode arch=compute_80,code=sm_80 -gencode arch=compute_120,code='[sm_120,compute_120]' -Xcompiler -fPIC \
  -shared k.cu -o alone/hole.so 2> hole.log && {
  expect "CD405" --fail-on warning alone/hole.so
  says "9.0 (Hopper)"
}
"$nvcc" --compress-mode=size -gencode arch=compute_80,code='[sm_80,compute_80]' -Xcompiler -fPIC -shared k.cu \
  -o alone/zstd.so 2> zstd.log && {
  expect "CD404 CD407" --driver 535.54 --gpus 80 alone/zstd.so
  expect "CD407" --driver 550.54.14 --gpus 80 alone/zstd.so
  expect "" --driver 580.65.06 --gpus 80 alone/zstd.so
}

mkdir -p exported
"$nvcc" -shared exported.o -o exported/lib.so
expect "CD301" exported
says "_Z3addPf"
# A saved record is judged as the file is, where the kernels are in it; where not, the user hears it.
"$command" inspect --format json --kernels exported > saved.json
expect "CD301" saved.json
"$command" inspect --format json exported > saved.json
expect "" saved.json
says "does not say which kernels there are, so exported-kernel-stub is not judged"

mkdir -p mixed
# By its full name where the toolkit has no libcudart.so to link by: NVIDIA's Python packages.
shared=$(find "$(dirname "$nvcc")/../lib64/" "$(dirname "$nvcc")/../lib/" -name 'libcudart.so.[0-9]*' 2> /dev/null | head -n 1)
if [ -n "$shared" ]; then
  "$nvcc" -cudart none -shared l.o -o mixed/shared.so -Xlinker "$shared"
else
  "$nvcc" -cudart shared -shared l.o -o mixed/shared.so
fi
cp one/app mixed/app
soname=$(sed -n 's/.*"\(libcudart\.so\.[0-9.]*\)".*/\1/p' <<K | head -n 1
$("$command" inspect --format json mixed/shared.so)
K
)
printf 'provided = ["%s"]\n' "$soname" > shared.toml
expect "CD102" --policy shared.toml mixed
says "different CUDA runtimes can meet in one process"

for stub in "$CUDEPLOY_TOOLKIT"/lib64/stubs/libcuda.so "$CUDEPLOY_TOOLKIT"/targets/*/lib/stubs/libcuda.so; do
  [ -f "$stub" ] || continue
  mkdir -p stub
  cp "$stub" stub/libcuda.so.1
  expect "CD502" stub
  break
done

[ "$failures" = 0 ]
