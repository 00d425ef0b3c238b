#!/bin/sh
# NVIDIA's Python packages do not pin each other: one folder ends up with nvcc of one release and ptxas or cicc of another, and
# what people meet is PTX that ptxas rejects. A toolkit with one part from elsewhere is refused, with all paths; the same with
# another patch is not.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/toolkit/bin" "$work/toolkit/nvvm/bin"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

nvcc=$CUDEPLOY_TOOLKIT/bin/nvcc
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
"$nvcc" --dryrun -c none.cu > "$log" 2>&1
cicc_folder=$(sed -n 's/^#\$ CICC_PATH=//p' "$log")
[ -n "$cicc_folder" ] || skip "nvcc $release does not say where its cicc is"
programs=$(sed -n 's/^#\$ _HERE_=//p' "$log")
# nvcc finds the others from where it lies itself.
cp "$programs/nvcc" "$programs/nvcc.profile" "$work/toolkit/bin"
include=$(sed -n 's/^#\$ INCLUDES="-I\([^"]*\)".*/\1/p' "$log")
restore() {
  for name in cudafe++ ptxas fatbinary nvlink; do ln -sf "$programs/$name" "$work/toolkit/bin/$name"; done
  ln -sf "$cicc_folder/cicc" "$work/toolkit/nvvm/bin/cicc"
}
# of PROGRAM LINE : all others are the toolkit's own; this one is a script (a link to a real one must go first)
of() {
  restore
  rm "$1"
  printf '#!/bin/sh\n%s\n' "$2" > "$1"
  chmod +x "$1"
}
says() { of "$1" "echo 'Cuda compilation tools, release $2, V$2.1'"; }
cat > "$work/check.cmake" << 'SCRIPT'
include("${MODULES}/one_toolkit.cmake")
set(CMAKE_CUDA_COMPILER_LOADED TRUE)
set(CMAKE_CUDA_COMPILER_ID NVIDIA)
set_property(GLOBAL PROPERTY CUDEPLOY_CUDA_INCLUDE "${INCLUDE}")
_cudeploy_check_one_toolkit()
_cudeploy_compiler_programs(programs)
message("${programs}")
SCRIPT
check() {
  (cd "$work" && cmake -DMODULES="$CUDEPLOY_PREFIX/share/cudeploy/cmake" -DINCLUDE="$include" -DCMAKE_CUDA_COMPILER="$work/toolkit/bin/nvcc" \
    -DCMAKE_CUDA_COMPILER_VERSION="$release.1" -P check.cmake)
}

restore
must_pass check
for program in cudafe++ cicc ptxas fatbinary nvlink; do output_has "$program $release $work/toolkit/"; done
for program in bin/cudafe++ nvvm/bin/cicc bin/ptxas bin/fatbinary bin/nvlink; do
  says "$work/toolkit/$program" 99.9
  must_fail check
  output_has 'are not of one toolkit [toolkit-mixed]' "${program##*/} 99.9 $work/toolkit/" "compiler $release $work/toolkit/bin/nvcc" \
    "headers $release" 'install the parts of the toolkit in one release'
  says "$work/toolkit/$program" "$release"
  must_pass check
done
# What does not answer says nothing.
of "$work/toolkit/bin/ptxas" 'exit 1'
must_pass check
output_lacks ptxas
echo "one_toolkit: each part of CUDA $release from elsewhere is refused"
