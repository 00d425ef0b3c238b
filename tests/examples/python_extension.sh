#!/bin/sh
# A wheel whose module brings its own runtime: built, audited, imported alone, and imported beside a wheel that brings a
# newer shared runtime, which it then uses.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"
python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import setuptools, wheel, sysconfig, os, sys
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2> /dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || skip "no python3 with setuptools, wheel and its headers"

cp -r "$CUDEPLOY_SOURCE/examples/python_extension" "$work/source"
cd "$work/source"
wheel() { must_pass env CUDEPLOY="$1/bin/cudeploy" CUDA_HOME="$CUDEPLOY_TOOLKIT" GPUS=90 "$python" setup.py bdist_wheel; }
wheel "$CUDEPLOY_PREFIX"
must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" audit --gpus 90 dist/*.whl
output_has '0 errors'
mkdir "$work/site"
cd "$work/site"
"$python" -m zipfile -e ../source/dist/*.whl .
must_pass "$python" -c 'import scaled; print("runtime", scaled.runtime_version())'
alone=$(sed -n 's/^runtime //p' "$log")
must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --format json "$work/site"
output_has '"kind": "unified"'
output_lacks '"kind": "needs-shared"'

# Only a runtime of the same major that is at least as new is joined.
if [ $((alone / 1000)) != 13 ]; then
  echo "not applicable: beside a newer shared runtime of 13, this one is not of 13"
elif other=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" cudart-13.5); then
  must_pass "$python" -c "import ctypes; ctypes.CDLL('$other/nvidia/cu13/lib/libcudart.so.13')
import scaled; print('runtime', scaled.runtime_version())"
  same 'runtime beside libcudart 13.5' "$(sed -n 's/^runtime //p' "$log")" 13050
fi

# With cudeploy's build tree in the place of the installation.
cd "$work/source"
rm -r build dist
wheel "$CUDEPLOY_BUILD"
must_pass "$CUDEPLOY_BUILD/bin/cudeploy" audit --gpus 90 dist/*.whl
mkdir "$work/site of the build tree"
cd "$work/site of the build tree"
"$python" -m zipfile -e ../source/dist/*.whl .
must_pass "$python" -c 'import scaled; print("runtime", scaled.runtime_version())'
same 'runtime' "$(sed -n 's/^runtime //p' "$log")" "$alone"
echo "python_extension: $alone alone"
