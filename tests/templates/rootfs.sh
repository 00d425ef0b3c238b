#!/bin/sh
# The Dockerfile without a container engine: its RUN lines, except the one that installs packages, make the same root file
# system here, from a project of `cudeploy new`; its ENTRYPOINT is then run inside, with nothing else there. With the
# real driver library laid where the NVIDIA container toolkit lays it, the program must find it.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/local"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"
[ "$(id -u)" = 0 ] || skip "needs root: a chroot"
chroot=$(command -v chroot) || skip "chroot is not in PATH"
command -v curl > /dev/null || skip "curl is not installed"
CUDACXX=$CUDEPLOY_TOOLKIT/bin/nvcc
PATH=$work/local/bin:$PATH
CUDEPLOY=file://$work/cudeploy.tar.gz
export CUDACXX PATH CUDEPLOY

tar -czf "$work/cudeploy.tar.gz" -C "$(dirname "$CUDEPLOY_PREFIX")" "$(basename "$CUDEPLOY_PREFIX")"
must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" new "$work/hello"
# One command a line, with the places of the image in this folder.
sed "s/starter/hello/g" "$CUDEPLOY_SOURCE/templates/package/Dockerfile" > "$work/Dockerfile"
sed -e ':join' -e '/\\$/{N;s/\\\n//;bjoin' -e '}' "$work/Dockerfile" |
  sed -n "s,/rootfs,$work/rootfs,g; s,/usr/local,$work/local,g; s/^RUN //p" | grep -v '^apt-get' > "$work/commands"
same 'commands of the Dockerfile' "$(grep -c . "$work/commands")" 4
while read -r command; do
  must_pass sh -c "cd '$work/hello' && $command" < /dev/null
done < "$work/commands"
root=$work/rootfs
program=$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]/\1/p' "$work/Dockerfile")

# Nothing but the bundle, libraries and what the driver's installer looks for: no shell.
strangers=$(find "$root" -type f ! -path "$root/bin/hello" ! -path "$root/share/*" ! -path '*/lib*/lib*.so.*' \
  ! -path '*/ld-linux-*.so.*' ! -path "$root/etc/debian_version")
same 'other files' "$strangers" ''
must_pass env -i "$chroot" "$root" "$program"
output_has 'CUDA version of the driver: 0.0' 'no GPU to compute on:'
bytes=$(du -sb "$root" | cut -f 1)
[ "$bytes" -lt 20000000 ] || { echo "the image has $bytes bytes"; exit 1; }

if driver=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" libcuda-535); then
  mkdir -p "$root/usr/lib/x86_64-linux-gnu"
  cp "$driver"/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1 "$root/usr/lib/x86_64-linux-gnu"
  must_pass env -i "$chroot" "$root" "$program"
  output_has 'CUDA version of the driver: 12.2'
fi
echo "rootfs: $bytes bytes"
