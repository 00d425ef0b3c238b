#!/bin/sh
# From source to a bundle that runs elsewhere: Ninja and Makefiles, the audit as a build step, TGZ and DEB, the same bytes
# from two build folders, a run from a folder with a space in its name and nothing in the environment.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"
umask 022
cudeploy=$CUDEPLOY_PREFIX/bin/cudeploy
SOURCE_DATE_EPOCH=1700000000
export SOURCE_DATE_EPOCH

cp -R "$CUDEPLOY_SOURCE/examples/one_program" "$work/source"
must_pass configure "$work/source" "$work/ninja" -DGPUS='80;90;120' -DCMAKE_BUILD_TYPE=Release
must_pass cmake --build "$work/ninja"
output_has 'Auditing one_program'
[ -s "$work/ninja/one_program.audit.json" ] || { echo "no report beside the program"; exit 1; }
# Nothing changed: nothing is linked or audited again.
must_pass cmake --build "$work/ninja"
output_lacks 'Linking' 'Auditing'
# A changed program is judged again.
touch "$work/source/main.cpp"
must_pass cmake --build "$work/ninja"
output_has 'Auditing one_program'

must_pass "$work/ninja/one_program"
output_has 'CUDA runtime of this program:' 'CUDA version of the driver:'

must_pass sh -c "cd '$work/ninja' && cpack -G 'TGZ;DEB' -B '$work/packages'"
output_has 'audit passed'
tgz=$(echo "$work"/packages/*.tar.gz)
deb=$(echo "$work"/packages/*.deb)
must_pass "$cudeploy" audit --gpus 80,90,120 "$tgz" "$deb"

# The report travels inside, names no path of this machine, and says of every file what was found.
elsewhere="$work/some where else"
mkdir -p "$elsewhere"
tar -xzf "$tgz" -C "$elsewhere"
report=$(find "$elsewhere" -name cudeploy-audit.json)
[ -n "$report" ] || { echo "no report in the package"; exit 1; }
if grep -qF "$work" "$report"; then echo "the report names $work"; exit 1; fi

program=$(find "$elsewhere" -name one_program -type f)
must_pass env -i "$program"
output_has 'CUDA runtime of this program:'
if [ ! -e /proc/driver/nvidia/version ]; then
  output_has 'no GPU to compute on:'
fi
if readelf -d "$program" | grep -E 'RPATH|RUNPATH' | grep -v '\[.ORIGIN'; then
  echo "a search path of this machine is in the program"
  exit 1
fi

# A Debian package recommends the driver, and depends on no toolkit.
dpkg-deb --info "$deb" > "$log"
output_has 'Recommends: libcuda1 | libcuda.so.1'
output_lacks 'cuda-toolkit' 'nvidia-cuda-toolkit' 'libcudart'
dpkg --root="$work/root" --force-not-root --force-depends --no-triggers --install "$deb" > "$log" 2>&1 || {
  mkdir -p "$work/root/var/lib/dpkg/updates" "$work/root/var/lib/dpkg/info" "$work/root/var/lib/dpkg/triggers"
  : > "$work/root/var/lib/dpkg/status"
  must_pass dpkg --root="$work/root" --force-not-root --force-depends --no-triggers --install "$deb"
}
must_pass env -i "$(find "$work/root" -name one_program -type f)"

# The same bytes from another build folder, with other make files and another umask.
umask 077
generator='Unix Makefiles'
must_pass configure "$work/source" "$work/make" -DGPUS='80;90;120' -DCMAKE_BUILD_TYPE=Release
must_pass cmake --build "$work/make"
output_has 'Auditing one_program'
# Other wishes are judged again, with Make as with Ninja.
must_pass configure "$work/source" "$work/make" -DGPUS='80;90;100;120'
must_pass cmake --build "$work/make"
output_has 'Auditing one_program'
must_pass configure "$work/source" "$work/make" -DGPUS='80;90;120'
must_pass cmake --build "$work/make"
must_pass sh -c "cd '$work/make' && cpack -G TGZ -B '$work/again'"
must_pass cmp "$tgz" "$(echo "$work"/again/*.tar.gz)"

# With cudeploy's build tree in the place of the installation.
generator=Ninja
against_build_tree "$work/source" "$work/ninja"
must_pass "$work/ninja/one_program"
echo "one_program: built, audited, packed, moved and run"
