#!/bin/sh
# The quickstart promises a fresh machine, and no machine of a developer is one. This makes a bare Debian of the same
# release in a folder (no compiler, no CUDA), puts a clean checkout into it, and runs the quickstart there.
#
#   sh tests/house/bare_debian.sh [FOLDER]       needs root and debootstrap; 77 and a reason where they are missing
#
# Mirror, keys, suites and the settings of apt and pip are those of this machine.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
bare=${1:-$root/build/bare_debian}

# /proc is unmounted whatever happens, so that nobody deletes through it.
leave() {
  umount "$bare/proc" 2> /dev/null || :
}
trap leave EXIT
trap 'exit 1' HUP INT TERM
leave

suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
echo "== a bare Debian $suite in $bare"
sh "$root/tests/house/debootstrap.sh" "$suite" "$bare"

# The settings of this machine that decide where packages come from and whom to trust.
hand_on() {
  for path in "$@"; do
    [ -e "$path" ] || continue
    mkdir -p "$bare$(dirname "$path")"
    cp -aL "$path" "$bare$(dirname "$path")/"
  done
}
rm -f "$bare/etc/apt/sources.list"
hand_on /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf /etc/apt/apt.conf.d /etc/apt/trusted.gpg.d \
  /etc/apt/keyrings /etc/apt/auth.conf.d /usr/share/keyrings /etc/pip.conf /etc/ssl/certs /usr/local/share/ca-certificates \
  /etc/resolv.conf /etc/hosts
# Other archives than Debian's have no part in this, and may want tools that a bare system lacks.
for file in "$bare"/etc/apt/sources.list.d/*; do
  [ -f "$file" ] && ! grep -q "$suite" "$file" && rm -f "$file"
done
mount -t proc proc "$bare/proc"

for path in usr/bin/cc usr/bin/c++ usr/bin/cmake usr/bin/nvcc usr/local/cuda; do
  if [ -e "$bare/$path" ]; then
    echo "error: the bare Debian is not bare: /$path"
    exit 1
  fi
done

echo "== a clean checkout in it"
mkdir -p "$bare/opt/cudeploy"
if [ -e "$root/.git" ]; then
  # What is in the work tree, so that a change can be tried before it is committed.
  (cd "$root" && git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
    tar --null -T - --ignore-failed-read -cf -) | tar -xf - -C "$bare/opt/cudeploy"
else
  (cd "$root" && tar --exclude=./build -cf - .) | tar -xf - -C "$bare/opt/cudeploy"
fi

# Settings in the environment go along: of pip, of proxies, of certificates.
set -- PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C.UTF-8
for name in $(env | sed -n 's/^\(PIP_[A-Z_]*\|[a-zA-Z]*_proxy\|[A-Z]*_PROXY\|SSL_CERT_FILE\|SSL_CERT_DIR\|REQUESTS_CA_BUNDLE\)=.*/\1/p'); do
  eval "value=\$$name"
  # A folder of this machine is not in the bare one.
  # shellcheck disable=SC2154
  case $value in
    /*) [ -e "$bare$value" ] || continue ;;
  esac
  set -- "$@" "$name=$value"
done

echo "== without root it says what is missing, and stops"
chroot "$bare" env -i "$@" setpriv --reuid 65534 --regid 65534 --clear-groups \
  sh /opt/cudeploy/examples/quickstart.sh > "$bare/opt/without-root" 2>&1 && code=0 || code=$?
cat "$bare/opt/without-root"
if [ "$code" != 2 ] || ! grep -q 'apt-get install.* liblief-dev' "$bare/opt/without-root"; then
  echo "error: expected exit code 2 and the list of packages, found exit code $code"
  exit 1
fi

echo "== the quickstart"
chroot "$bare" env -i "$@" sh /opt/cudeploy/examples/quickstart.sh > "$bare/opt/first-run" 2>&1 || {
  cat "$bare/opt/first-run"
  exit 1
}
cat "$bare/opt/first-run"
head -n 1 "$bare/opt/first-run" | grep -q 'the first run takes about 3 minutes on 2 cores' || {
  echo "error: expected in the first line: how long the first run takes"
  exit 1
}
for text in 'NVIDIA Software License Agreement' 'Auditing one_program' '^clean (policy default, stage package)' \
  'CUDA runtime of this program: 13\.0' 'CUDA version of the driver: '; do
  grep -q "$text" "$bare/opt/first-run" || { echo "error: expected in the output: $text"; exit 1; }
done
# The table comes last: Turing has nothing, the three that were named run as they are (Ada as 8.0), GPU 100 by PTX.
tail -n 6 "$bare/opt/first-run" | grep -Eq ' none +native +native +native +JIT +native$' || {
  echo "error: expected the coverage of 7.5, 8.0, 8.9, 9.0, 10.0 and 12.0 in the last lines"
  exit 1
}
[ -e /proc/driver/nvidia/version ] || grep -q 'no GPU to compute on: this machine has no NVIDIA driver' "$bare/opt/first-run"
echo "== again: all is there"
start=$(date +%s)
chroot "$bare" env -i "$@" sh /opt/cudeploy/examples/quickstart.sh > "$bare/opt/second-run" 2>&1 || {
  tail -n 40 "$bare/opt/second-run"
  exit 1
}
seconds=$(($(date +%s) - start))
echo "second run: $seconds s"
echo "== with a toolkit that is named: nothing is fetched"
chroot "$bare" env -i "$@" sh /opt/cudeploy/examples/quickstart.sh --toolkit /opt/cudeploy/build/toolkit/parts/nvcc-13.0/nvidia/cu13 \
  > "$bare/opt/named-toolkit" 2>&1 || {
  tail -n 40 "$bare/opt/named-toolkit"
  exit 1
}
for run in second-run named-toolkit; do
  if ! grep -q 'nothing changed since' "$bare/opt/$run" || grep -E 'fetching|installing from|first run' "$bare/opt/$run"; then
    echo "error: expected that nothing is built, fetched or installed again:"
    cat "$bare/opt/$run"
    exit 1
  fi
done
leave
rm -rf "$bare"
