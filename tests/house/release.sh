#!/bin/sh
# The command goes into containers that have nothing, so what is released has to need nothing. This makes the release
# packages, audits them with the command that is in them, and runs it where there is no libc, and in an older Debian.
#
#   sh tests/house/release.sh CUDEPLOY_TO_JUDGE_WITH FOLDER         77 and a reason where something is missing
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
judge=$1
folder=$2

# shellcheck source=tests/dependencies.sh
. "$root/tests/dependencies.sh"
skip_without static

mkdir -p "$folder"
cmake -S "$root" -B "$folder/build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D CUDEPLOY_BUILD_TESTS=OFF \
  -D CUDEPLOY_STATIC=ON > "$folder/log"
cmake --build "$folder/build" >> "$folder/log" 2>&1 || { tail -n 40 "$folder/log"; exit 1; }
rm -rf "$folder/packages"
(cd "$folder/build" && cpack -G "TGZ;DEB" -B "$folder/packages")
tgz=$(echo "$folder"/packages/*.tar.gz)
deb=$(echo "$folder"/packages/*.deb)

echo "== both packages, judged"
"$judge" audit "$tgz" "$deb"

echo "== the DEB, as dpkg sees it"
dpkg-deb --info "$deb"
if [ "$(dpkg-deb --field "$deb" Depends)" != "" ]; then
  echo "error: a static command depends on: $(dpkg-deb --field "$deb" Depends)"
  exit 1
fi

echo "== unpacked, moved, without a libc"
rm -rf "$folder/nothing"
mkdir -p "$folder/nothing/moved here"
tar -xzf "$tgz" -C "$folder/nothing/moved here" --strip-components=1
command="$folder/nothing/moved here/bin/cudeploy"
if readelf -lW "$command" | grep INTERP; then
  echo "error: $command asks for a loader"
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  inside="/moved here/bin/cudeploy"
  set -- chroot "$folder/nothing" "$inside"
else
  inside=$command
  set -- env -i "$command"
fi
"$@" --version
# It can read itself: workers, LIEF and the report work in there.
"$@" inspect "$inside" > "$folder/seen" || { cat "$folder/seen"; exit 1; }
grep -q x86_64 "$folder/seen" || { echo "error: nothing was read:"; cat "$folder/seen"; exit 1; }
# It has all that it writes in itself.
made=$folder/nothing/made
rm -rf "$made"
if [ "$(id -u)" = 0 ]; then "$@" new /made; else "$@" new "$made"; fi
grep -q 'project(made ' "$made/CMakeLists.txt"
# What is copied into every container stays small: 8.8 MB, most of it LIEF.
size=$(stat -c %s "$command")
if [ "$size" -gt 10000000 ]; then
  echo "error: $command has $size bytes, expected at most 10 MB: is it stripped? did a library come along whole?"
  exit 1
fi
echo "$size bytes"

echo "== in a bare Debian 11"
old=$folder/debian11
code=0
sh "$root/tests/house/debootstrap.sh" bullseye "$old" || code=$?
[ "$code" != 77 ] || exit 0
[ "$code" = 0 ] || exit "$code"
grep -q '^11' "$old/etc/debian_version"
cp "$command" "$old/usr/local/bin/cudeploy"
chroot "$old" cudeploy --version
# Its programs are read, judged, and found to need nothing but their system.
chroot "$old" cudeploy inspect /bin/sh /usr/lib/x86_64-linux-gnu/libc.so.6 > "$folder/seen"
grep -q 'needs  *libc.so.6' "$folder/seen" || { echo "error: /bin/sh was not read:"; cat "$folder/seen"; exit 1; }
chroot "$old" cudeploy audit /bin/sh
rm -rf "$old"
