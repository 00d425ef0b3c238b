#!/bin/sh
# What the functions put on targets, compared with what their documentation says.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"
must_pass configure "$here/properties" "$work/build"
