# shellcheck shell=sh
# What has to be installed, in one place: run.sh and quickstart.sh read it with `.`, $root being the checkout.
# The packages are Debian's. Another system gets the list in words, since its names differ.
#
#   need PURPOSE...         installs what is missing (as root), or names it and ends with exit code 2
#   need_with_toolkit FOLDER DIR PURPOSE...
#                           the same, and sets $toolkit to the CUDA toolkit in DIR, to the machine's where DIR is empty,
#                           or to one that is fetched into FOLDER
#   skip_without PURPOSE    ends a test with 77 and the reason, where something of the purpose is missing

packages_for() {
  case $1 in
    # the command: compiler, build tools, libraries
    build)
      echo ca-certificates cmake g++ libarchive-dev libcli11-dev libfmt-dev liblief-dev liblz4-dev \
        libtomlplusplus-dev libzstd-dev ninja-build nlohmann-json3-dev pkg-config ;;
    # the command as one static file (what Debian's static LIEF and libarchive want without asking for it)
    static) echo libbz2-dev liblzma-dev libmbedtls-dev nettle-dev zlib1g-dev ;;
    # a CUDA toolkit, fetched where there is none
    toolkit) echo python3 python3-pip ;;
    # packing: cpack's DEB generator asks these
    pack) echo dpkg-dev file ;;
    # the judges of the tests (other linkers, readers and checkers than ours), and what makes their fixtures
    test)
      echo binutils clang clang-format elfutils gfortran git libgmock-dev libgtest-dev lld llvm make meson mold \
        patchelf libtree python3 python3-dev python3-jsonschema python3-pip python3-setuptools python3-wheel rpm \
        shellcheck zip zstd ;;
    # the long tests: other machines' code, costs, the static checker, a bare Debian
    all)
      echo clang-tidy curl debootstrap g++-11 g++-aarch64-linux-gnu libarchive-tools qemu-user rustc strace valgrind wine \
        wine64 ;;
    *) echo "dependencies.sh: unknown purpose: $1" >&2; return 1 ;;
  esac
}

need() {
  wanted=
  for purpose in "$@"; do wanted="$wanted $(packages_for "$purpose")"; done
  if ! command -v dpkg-query > /dev/null; then
    echo "no Debian packages here, so nothing is installed; what is needed, by Debian's names:$wanted" >&2
    return 0
  fi
  missing=
  for package in $wanted; do
    case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || :) in
      installed) ;;
      *) missing="$missing $package" ;;
    esac
  done
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    echo "error: missing packages, and only root can install them" >&2
    echo "hint: run as root: apt-get install --no-install-recommends$missing" >&2
    exit 2
  fi
  echo "installing from Debian:$missing"
  log=${TMPDIR:-/tmp}/cudeploy-install.$$
  # The lists may be old or absent; where the update fails, what is known may still do.
  # shellcheck disable=SC2086
  { apt-get update || :; DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } \
    > "$log" 2>&1 < /dev/null || {
    tail -n 30 "$log" >&2
    rm -f "$log"
    echo "error: apt-get could not install:$missing" >&2
    exit 2
  }
  rm -f "$log"
}

skip_without() {
  for package in $(packages_for "$1"); do
    dpkg-query -W "$package" > /dev/null 2>&1 || { echo "skipped: $package is not installed"; exit 77; }
  done
}

need_with_toolkit() {
  folder=$1
  dir=$2
  shift 2
  finder=${root:?is the folder of the checkout}/tests/toolkit.sh
  fetch=0
  sh "$finder" --would-fetch "$folder" "$dir" || fetch=$?
  case $fetch in
    0) need "$@" toolkit ;;
    1) need "$@" ;;
    *) exit "$fetch" ;;
  esac
  toolkit=$(sh "$finder" "$folder" "$dir")
  # The nvcc of the Python packages of 13.0 looks for its runtime in lib64, and they have lib.
  if [ ! -e "$toolkit/lib64" ] && [ -e "$toolkit/lib/libcudart_static.a" ]; then
    LIBRARY_PATH=$toolkit/lib${LIBRARY_PATH:+:$LIBRARY_PATH}
    export LIBRARY_PATH
  fi
}
