#!/bin/sh
# The Python extension of `cudeploy new`, with the build backend and the binding that its pyproject.toml names: the wheel is
# built as its README says, audited, imported alone, and imported beside a newer shared runtime, which it then uses.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"
python3 -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || skip "python3 has no headers"
tools=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" wheel-tools)
PATH=$CUDEPLOY_PREFIX/bin:$PATH
CUDACXX=$CUDEPLOY_TOOLKIT/bin/nvcc
export PATH CUDACXX

cd "$work"
must_pass cudeploy new hello --kind python
cd hello
# The command that the README shows.
command=$(sed -n 's/^    \(pip wheel.*\)/\1/p' README.md)
# shellcheck disable=SC2086
must_pass env PIP_NO_INDEX=1 PIP_FIND_LINKS="$tools" python3 -m $command
output_has 'Successfully built hello'
must_pass cudeploy audit --gpus 80,90,120 dist/*.whl
output_has '0 errors, 0 warnings'
must_pass cudeploy inspect dist/*.whl
output_has 'unified'
output_lacks libcudart

python3 -m venv --without-pip "$work/new environment"
python="$work/new environment/bin/python"
must_pass python3 -m pip --python "$python" install --no-deps --no-index dist/*.whl
cd /
must_pass env -i "$python" -c 'import hello; print("runtime", hello.runtime_version())'
alone=$(sed -n 's/^runtime //p' "$log")
must_pass env -i "$python" -c 'import hello; assert hello.scale([], 2) == []
try: print(hello.scale([1, 2], 3))
except RuntimeError as error: print("without a GPU:", error)'
# Only a runtime of the same major that is at least as new is joined.
if [ $((alone / 1000)) != 13 ]; then
  echo "not applicable: beside a newer shared runtime of 13, this one is not of 13"
elif other=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" cudart-13.5); then
  must_pass env -i "$python" -c "import ctypes; ctypes.CDLL('$other/nvidia/cu13/lib/libcudart.so.13')
import hello; print('runtime', hello.runtime_version())"
  same 'runtime beside libcudart 13.5' "$(sed -n 's/^runtime //p' "$log")" 13050
fi
echo "python: $alone alone"
