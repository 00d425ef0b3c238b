# Tests of a build are runs of cmake, ninja and cpack: each must pass or fail as said, and say why. Read by the test
# scripts of this room and of tests/examples. Everything lies below $work, which each script makes anew.
#
# The environment comes from CTest: CUDEPLOY_SOURCE (the tree), CUDEPLOY_BUILD (its build folder), CUDEPLOY_PREFIX (where it is
# installed for tests), CUDEPLOY_TOOLKIT (the folder with bin/nvcc).
# shellcheck shell=sh
# shellcheck disable=SC2154
set -eu

log=$work/log

# must_pass COMMAND... : its output is kept for output_has
must_pass() {
  "$@" > "$log" 2>&1 || {
    cat "$log"
    echo "expected to pass: $*"
    exit 1
  }
}

# must_fail COMMAND...
must_fail() {
  if "$@" > "$log" 2>&1; then
    cat "$log"
    echo "expected to fail: $*"
    exit 1
  fi
}

# Without colours, and with line breaks as spaces: cmake breaks the lines of a message.
flat_output() { tr -s ' \n\t' ' ' < "$log"; }

# output_has TEXT... : each must be in the last output
output_has() {
  for text in "$@"; do
    flat_output | grep -qF -e "$text" || {
      cat "$log"
      echo "expected in the output: $text"
      exit 1
    }
  done
}

# output_lacks TEXT...
output_lacks() {
  for text in "$@"; do
    if flat_output | grep -qF -e "$text"; then
      cat "$log"
      echo "not expected in the output: $text"
      exit 1
    fi
  done
}

# same WHAT FOUND EXPECTED
same() {
  [ "$2" = "$3" ] || {
    echo "$1: found \"$2\", expected \"$3\""
    exit 1
  }
}

# package_formats : sets formats, those that cpack makes here
package_formats() {
  formats='TGZ ZIP STGZ DEB'
  if command -v rpmbuild > /dev/null; then formats="$formats RPM"; else echo "not tried: RPM (no rpmbuild)"; fi
}

# no_package FOLDER : no package of any format lies in it, nor where cpack keeps its own copies
no_package() {
  left=$(find "$1" -type f \( -path "$1/_CPack_Packages/*" -o ! -path "$1/*/*" \) \( -name '*.tar.gz' -o -name '*.zip' -o -name '*.deb' -o -name '*.rpm' -o -name '*.sh' \))
  [ -z "$left" ] || {
    echo "left behind: $left"
    exit 1
  }
}

# configure SOURCE BUILD [CMAKE-ARGUMENT...] : a stranger, who knows find_package(cudeploy) and the toolkit's compiler
configure() {
  source=$1 build=$2
  shift 2
  cmake -S "$source" -B "$build" -G "${generator:-Ninja}" -DCMAKE_PREFIX_PATH="$CUDEPLOY_PREFIX" \
    -DCMAKE_CUDA_COMPILER="$CUDEPLOY_TOOLKIT/bin/nvcc" "$@"
}

# against_build_tree SOURCE BUILD [CMAKE-ARGUMENT...] : the same build folder again, with the build tree of cudeploy in the place
# of the installation; what was compiled stays
against_build_tree() {
  source=$1 build=$2
  shift 2
  must_pass configure "$source" "$build" -Dcudeploy_DIR="$CUDEPLOY_BUILD/share/cudeploy/cmake" "$@"
  must_pass cmake --build "$build"
  output_has 'Auditing'
  if grep -F -e "$CUDEPLOY_PREFIX" "$build/build.ninja"; then
    echo "the build against the build tree uses the installation"
    exit 1
  fi
}

skip() {
  echo "skipped: $*"
  exit 77
}
