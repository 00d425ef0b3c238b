#!/bin/sh
# Tests of what a fresh machine does need one, and no machine of a developer is fresh. This makes a bare Debian in a
# folder, with nothing but what debootstrap calls minimal.
#
#   sh tests/house/debootstrap.sh SUITE FOLDER      needs root and debootstrap; 77 and a reason where it cannot be had
#
# The archive is the one from which this machine has its own release. What is downloaded is kept in the cache
# ($CUDEPLOY_CACHE, else $XDG_CACHE_HOME/cudeploy or ~/.cache/cudeploy).
set -eu

suite=$1
bare=$2
cache=${CUDEPLOY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cudeploy}

cannot() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || cannot "a chroot needs root"
command -v debootstrap > /dev/null || cannot "debootstrap is not installed"
here=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")

# The archive of this release, "uri [keyring]", from deb822 or one-line sources.
source_of_release() {
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] || continue
    awk -v suite="$here" 'function say() { if (uri != "" && mine) print uri, key; uri = key = ""; mine = 0 }
      /^[ \t]*$/ { say() }
      /^URIs:/ { uri = $2 }
      /^Suites:/ { for (i = 2; i <= NF; i++) if ($i == suite) mine = 1 }
      /^Signed-By:/ { key = $2 }
      END { say() }' "$file"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] || continue
    sed -n 's/^deb[ \t]\{1,\}\(\[[^]]*\]\)\{0,1\}[ \t]*\([^ \t]*\)[ \t]\{1,\}\([^ \t]*\)[ \t].*/\2 \3 \1/p' "$file" |
      awk -v suite="$here" '$2 == suite { key = ""; if (match($0, /signed-by=[^] ]*/))
        key = substr($0, RSTART + 10, RLENGTH - 10); print $1, key }'
  done
}
found=$(source_of_release | head -n 1)
mirror=${found%% *}
key=${found#"$mirror"}
key=${key# }
[ -n "$mirror" ] || cannot "the apt sources of this machine name no archive of ${here:-this system}"

rm -rf "$bare"
mkdir -p "$bare" "$cache"
packages=$cache/debootstrap-$suite-$(dpkg --print-architecture).tar
# Without sandboxed users the downloads work below any folder.
set -- --variant=minbase
if [ -n "$key" ] && [ -f "$key" ]; then set -- "$@" --keyring="$key"; fi
if [ ! -f "$packages" ]; then
  debootstrap "$@" --make-tarball="$packages.new" "$suite" "$bare.download" "$mirror" > "$bare.log" 2>&1 || {
    tail -n 20 "$bare.log"
    rm -rf "$packages.new" "$bare.download"
    cannot "debootstrap could not download $suite"
  }
  rm -rf "$bare.download"
  mv "$packages.new" "$packages"
fi
debootstrap "$@" --unpack-tarball="$packages" "$suite" "$bare" "$mirror" > "$bare.log" 2>&1 || {
  tail -n 20 "$bare.log"
  exit 1
}
rm -f "$bare.log"
