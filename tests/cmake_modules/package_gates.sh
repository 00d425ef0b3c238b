#!/bin/sh
# What the gates of a package say, and what they leave behind: warnings are shown, once; a refused package is nowhere, not even among
# cpack's own copies; and a format that the audit cannot read is no package.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/bundle"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"
package_formats
all=$(echo "$formats" | tr ' ' ';')

# Programs that need what is nowhere: an error, or by the policy a warning.
cat > "$work/bundle/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(bundle VERSION 1.0 LANGUAGES C)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
foreach(name IN ITEMS app tool)
  add_executable(${name} main.c)
endforeach()
add_library(gone SHARED main.c)
foreach(name IN LISTS INCOMPLETE)
  target_link_libraries(${name} PRIVATE -Wl,--no-as-needed gone)
endforeach()
# Cut after the first gate.
file(WRITE "${CMAKE_BINARY_DIR}/late.cmake" "execute_process(COMMAND find \"\${CPACK_TEMPORARY_DIRECTORY}\" -name app -type f\n"
  "  OUTPUT_VARIABLE app OUTPUT_STRIP_TRAILING_WHITESPACE)\n"
  "execute_process(COMMAND head -c 2000 \"${CMAKE_BINARY_DIR}/libgone.so\" OUTPUT_FILE \"\${app}\")\n")
file(WRITE "${CMAKE_BINARY_DIR}/own.cmake" "if(LATE)\nlist(APPEND CPACK_PRE_BUILD_SCRIPTS \"${CMAKE_BINARY_DIR}/late.cmake\")\nendif()\n")
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_BINARY_DIR}/own.cmake")
install(TARGETS app COMPONENT app)
install(TARGETS tool COMPONENT tool)
install(FILES main.c DESTINATION share COMPONENT text)
foreach(kind IN ITEMS ARCHIVE DEB RPM)
  set(CPACK_${kind}_COMPONENT_INSTALL ${APART})
endforeach()
cudeploy_package(POLICY "${POLICY}")
LISTS
echo 'int main(void) { return 0; }' > "$work/bundle/main.c"
echo 'severity.needed-unresolved = "warning"' > "$work/mild.toml"
make() { # INCOMPLETE POLICY
  must_pass configure "$work/bundle" "$work/build" "-DINCOMPLETE=$1" "-DPOLICY=$2" "-DAPART=${apart:-OFF}" \
    -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
  must_pass cmake --build "$work/build"
}
pack() { (cd "$work/build" && cpack "$@"); }
shown() { same "times \"$1\"" "$(grep -cF -e "$1" "$log")" "$2"; }
# Whatever could be handed on, wherever cpack keeps it.
archives() {
  find "$work/build" -type f \( -name '*.tar*' -o -name '*.zip' -o -name '*.deb' -o -name '*.rpm' -o -name '*.sh' -o -name '*.7z' \
    -o -name '*.sha256' \)
}

make '' default
must_pass pack -G "$all"
shown 'audit passed' "$((2 * $(echo "$formats" | wc -w)))"
output_lacks warning ' .: ' .unpacked
for format in $formats; do output_has "bundle-1.0-Linux ($format), before packing: audit passed"; done
output_has 'bundle-1.0-Linux.tar.gz: audit passed' 'bundle-1.0-Linux.sh, unpacked: audit passed'

# Each warning once, in the words of the audit; of each gate how many.
make 'app;tool' "$work/mild.toml"
must_pass pack -G "$all"
for program in app tool; do shown "bin/$program: warning: needs libgone.so" 1; done
shown 'audit passed with 2 warnings' "$((2 * $(echo "$formats" | wc -w)))"
output_has 'before packing: audit passed with 2 warnings' 'bundle-1.0-Linux.tar.gz: audit passed with 2 warnings, as above' 'hint: ship libgone.so'
# The number is that of the package alone.
"$CUDEPLOY_PREFIX/bin/cudeploy" audit --policy "$work/mild.toml" "$work/build/bundle-1.0-Linux.tar.gz" > "$log"
output_has '0 errors, 2 warnings'
make tool "$work/mild.toml"
must_pass pack -G TGZ
output_has 'before packing: audit passed with 1 warning CPack:' 'tool: warning: needs libgone.so'
# What the second gate alone has a warning of.
make '' "$work/mild.toml"
echo 'severity.malformed-file = "warning"' >> "$work/mild.toml"
must_pass pack -G TGZ -D LATE=ON
output_has 'before packing: audit passed CPack:' 'bundle-1.0-Linux.tar.gz: audit passed with 1 warning' 'bin/app: warning:'

# A refused package is gone, its checksum too, as are those of earlier runs and in other formats; what was judged stays, and the message says where.
make '' default
for format in $formats; do
  must_pass pack -G "$all" -D CPACK_PACKAGE_CHECKSUM=SHA256
  [ -f "$work/build/bundle-1.0-Linux.tar.gz.sha256" ] || { echo "package_gates: no checksum beside the package"; exit 1; }
  must_fail pack -G "$format" -D LATE=ON -D CPACK_PACKAGE_CHECKSUM=SHA256
  output_has malformed-file 'the audit of the finished package failed, so it was removed'
  same "left after the second gate of $format" "$(archives)" ''
  [ "$format" = RPM ] || output_has "content: $work/build/_CPack_Packages/Linux/$format/"  # rpmbuild may have taken it away
  content=$(sed -n 's/^ *content: *//p' "$log")
  [ -z "$content" ] || [ -d "$content" ] || { echo "not there: the content that the message names: $content"; exit 1; }
done
must_pass pack -G "$all" -D CPACK_PACKAGE_CHECKSUM=SHA256
make app default
for format in $formats; do
  must_fail pack -G "$format"
  output_has needed-unresolved 'no package is made' "content: $work/build/_CPack_Packages/Linux/$format.refused/bundle-1.0-Linux"
  output_lacks 'Call Stack'
  [ -x "$(sed -n 's/^ *content: *//p' "$log")/$(if [ "$format" = DEB ] || [ "$format" = RPM ]; then echo usr/; fi)bin/app" ] ||
    { echo "not there: what the message names"; exit 1; }
  same "left after the first gate of $format" "$(archives)" ''
done

# What was kept to be looked at goes with the next run.
make '' default
must_pass pack -G "$all"
same 'kept of refused packages' "$(find "$work/build" -name '*.refused')" ''

# What earlier runs made under other names stays, whatever becomes of this one: other releases, other components.
left() { (cd "$work/build" && for word; do find . -maxdepth 1 -name "*$word*.$ending" -printf "$word "; done); }
ending=tar.gz
must_pass pack -G TGZ -D CPACK_PACKAGE_FILE_NAME=bundle-2.0
same 'packages of two names' "$(left 1.0 2.0)" '1.0 2.0 '
must_fail pack -G TGZ -D CPACK_PACKAGE_FILE_NAME=bundle-2.0 -D LATE=ON
same 'packages after the second was refused' "$(left 1.0 2.0)" '1.0 '
apart=ON
for naming in 'TGZ tar.gz' 'DEB deb' 'DEB deb DEB-DEFAULT' 'RPM rpm' 'RPM rpm RPM-DEFAULT'; do
  # shellcheck disable=SC2086
  set -- $naming
  format=$1 ending=$2 name=${3:-}
  case " $formats " in *" $format "*) ;; *) continue ;; esac
  only() { pack -G "$format" -D "CPACK_COMPONENTS_ALL=$1" -D "CPACK_DEBIAN_FILE_NAME=$name" -D "CPACK_RPM_FILE_NAME=$name"; }
  make '' default
  must_pass only app
  must_pass only tool
  same "packages of two components, $naming" "$(left -app -tool)" '-app -tool '
  must_pass only 'app;tool'
  make tool default
  must_fail only tool
  same "packages after one component was refused, $naming" "$(left -app -tool)" '-app '
  must_fail only 'app;tool'
  same "packages after both were refused, $naming" "$(left -app -tool)" ''
done
# Where nothing was judged, nothing has passed.
must_pass pack -G TGZ -D CPACK_COMPONENTS_ALL=text
shown 'bundle-1.0-Linux-text.tar.gz: nothing to judge' 1
output_has 'bundle-1.0-Linux (TGZ), before packing: nothing to judge'
output_lacks 'audit passed'
apart=OFF
rm -r "$work/build"/bundle-* "$work/build/_CPack_Packages"

# A refused package is nowhere under whatever name.
named() { # COMMAND : with each pack of such a name
  for naming in 'TGZ ARCHIVE_FILE_NAME=named' 'TGZ ARCHIVE_APP_FILE_NAME=named' \
    'DEB DEBIAN_FILE_NAME=DEB-DEFAULT' 'RPM RPM_FILE_NAME=RPM-DEFAULT'; do
    case " $formats " in *" ${naming%% *} "*) "$@" pack -G "${naming%% *}" -D "CPACK_${naming#* }" ;; esac
  done
}
nowhere() {
  must_fail "$@"
  same "left of $*" "$(archives)" ''
}
late() {
  must_pass "$@"
  nowhere "$@" -D LATE=ON
}
for apart in OFF ON; do
  make '' default
  named late
  make app default
  named nowhere
done
apart=OFF
# cpack would pack nothing under such a name, and say that it did.
must_fail pack -G TGZ -D 'CPACK_PACKAGE_FILE_NAME=app[1.0]'
output_has 'no package is made' "folder: $work/build/_CPack_Packages/Linux/TGZ/app[1.0]" 'hint: another CPACK_PACKAGE_FILE_NAME'
same 'left of app[1.0]' "$(archives)" ''
rm -r "$work/build/_CPack_Packages"

# The audit has to be able to read what is made.
make '' default
for format in 7Z External TZ; do
  must_fail pack -G "$format"
  output_has "no package is made: the audit cannot read what $format makes" 'TGZ ZIP DEB RPM STGZ'
  output_lacks 'audit passed'
  same "left of $format" "$(archives)" ''
done
for format in TBZ2 TXZ TZST TAR ZIP_BZ2 ZIP_DEFLATE ZIP_LZMA ZIP_LZMA2 ZIP_STORE ZIP_ZSTD; do
  cpack --help | grep -q "^ *$format *=" || continue  # those behind TZST came with CMake 4
  must_pass pack -G "$format"
  output_has 'audit passed'
  "$CUDEPLOY_PREFIX/bin/cudeploy" inspect "$(archives | grep "$work/build/bundle")" > "$log"
  output_has bin/app bin/tool
  find "$work/build" -name 'bundle-1.0-Linux.[tz]*' -delete
done
echo "package_gates: $formats"
