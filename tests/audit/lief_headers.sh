#!/bin/sh
# LIEF's interface changes with each release, and only binary.cpp may notice: it is compiled with the headers of another
# release than the one that it is built with: lief_headers.sh FOLDER SOURCE_DIR COMPILER [FLAG...]
set -eu

headers=$1 source=$2
shift 2
[ -d "$headers/LIEF" ] || headers=$headers/include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/LIEF"
# What LIEF's own build would make of its templates.
for template in version config; do
  [ -e "$headers/LIEF/$template.h.in" ] || continue
  sed -e 's/^#cmakedefine *\(LIEF_\(ELF\|PE\|MACHO\|COFF\)_SUPPORT\).*/#define \1 1/' -e '/^#cmakedefine/d' \
    -e 's/@[A-Za-z_]*@/0/g' "$headers/LIEF/$template.h.in" > "$work/LIEF/$template.h"
done
"$@" -std=c++20 -Wall -Wextra -Wshadow -Werror -fsyntax-only -I"$source/audit" -I"$source" -isystem "$work" \
  -isystem "$headers" "$source/audit/binary.cpp"
echo "compiled with $headers"
