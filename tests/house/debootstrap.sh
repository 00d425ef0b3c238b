#!/bin/sh
# Tests of what a fresh machine does need one, and no machine of a developer is fresh. This makes a bare Debian in a
# folder, with nothing but what debootstrap calls minimal.
#
#   sh tests/house/debootstrap.sh SUITE FOLDER      needs root and debootstrap; 77 and a reason where it cannot be had
#
# The archive is the one from which this machine has its own release. What is downloaded is kept in the cache
# ($CUDEPLOY_CACHE, else $XDG_CACHE_HOME/cudeploy or ~/.cache/cudeploy).
set -eu

# shellcheck source=tests/debian_archive.sh
. "$(dirname "$0")/../debian_archive.sh"
suite=$1
bare=$2
cache=${CUDEPLOY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cudeploy}

cannot() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || cannot "needs root: a chroot"
command -v debootstrap > /dev/null || cannot "debootstrap is not installed"
found=$(debian_archive /etc/apt)
mirror=${found%% *}
key=${found#"$mirror"}
key=${key# }
[ -n "$mirror" ] || cannot "the apt sources of this machine name no archive of this system"

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
    cannot "real part not available: debootstrap could not download $suite"
  }
  rm -rf "$bare.download"
  mv "$packages.new" "$packages"
fi
debootstrap "$@" --unpack-tarball="$packages" "$suite" "$bare" "$mirror" > "$bare.log" 2>&1 || {
  tail -n 20 "$bare.log"
  exit 1
}
rm -f "$bare.log"
