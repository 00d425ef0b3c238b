#!/bin/sh
# The installed package promises CMake 3.24 to the newest: the same tests with another one in front. The second
# argument is a version of the Python package "cmake".
work=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
part=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" "cmake-$version") || exit $?
PATH=$part/cmake/data/bin:$PATH
export PATH
rm -rf "$work"
mkdir -p "$work"
case $(cmake --version | head -n 1) in
  "cmake version $version."*) ;;
  *) echo "found $(cmake --version | head -n 1), expected $version"; exit 1 ;;
esac
sh "$here/properties.sh" "$work/properties" &&
  sh "$here/arguments.sh" "$work/arguments" &&
  sh "$here/agreement.sh" "$work/agreement" &&
  sh "$here/package_gates.sh" "$work/package_gates" &&
  sh "$here/in_tree.sh" "$work/in_tree" configure &&
  sh "$here/embed_fatbin.sh" "$work/embed_fatbin" &&
  sh "$here/../examples/one_program.sh" "$work/one_program" &&
  sh "$here/../examples/breaking.sh" "$work/breaking"
