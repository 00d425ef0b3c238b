#!/bin/sh
# What cudeploy_package collects and what its gates let through, with stand-ins for NVIDIA's libraries and a compiler of C: what
# lies beside a library that is bundled, packages of components, a command that dies, and one that nothing else builds.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"
package_formats
file_of() { # FORMAT NAME : what cpack calls the package
  case $1 in TGZ) echo "$2.tar.gz" ;; STGZ) echo "$2.sh" ;; *) echo "$2.$(echo "$1" | tr '[:upper:]' '[:lower:]')" ;; esac
}
# unpack FORMAT PACKAGE FOLDER
unpack() {
  mkdir -p "$3"
  case $1 in
    TGZ) tar -xzf "$2" -C "$3" ;;
    ZIP) (cd "$3" && cmake -E tar xf "$2") ;;
    STGZ) sh "$2" --skip-license --exclude-subdir "--prefix=$3" > /dev/null ;;
    DEB) dpkg-deb -x "$2" "$3" ;;
    RPM) rpm --root "$3" --dbpath /var/lib/rpm --nodeps --noscripts -i "$2" ;;
  esac
}
pack() { # BUILD FORMAT [CPACK-ARGUMENT...]
  build=$1 format=$2
  shift 2
  (cd "$build" && cpack -G "$format" "$@")
}

# A library as NVIDIA builds it: its version node, and the names that it opens among its data.
stand_in() { # FOLDER FILE [OPENED...]
  library=$1/$2
  soname=$2
  shift 2
  printf '%s {\n  global: *;\n};\n' "$(echo "$soname" | tr - _)" > "$work/node.map"
  { printf 'int stand_in(void) { return 0; }\nconst char* const opened[] = {"nothing"'; printf ', "%s"' "$@"; echo '};'; } > "$work/stand_in.c"
  cc -g -shared -fPIC "$work/stand_in.c" -o "$library" "-Wl,-soname,$soname,--version-script=$work/node.map,-rpath,\$ORIGIN"
}
toolkit=$work/toolkit
mkdir -p "$toolkit/lib" "$work/bundle"
stand_in "$toolkit/lib" libnvrtc.so.13 libnvrtc-builtins.so.13.0
stand_in "$toolkit/lib" libnvrtc-builtins.so.13.0
stand_in "$toolkit/lib" libcudnn.so.9 libcudnn_graph.so
stand_in "$toolkit/lib" libcudnn_graph.so.9 libcudnn_engines_precompiled.so
# The last one has a need of its own.
stand_in "$toolkit/lib" libcudnn_engines_precompiled.so.9
echo 'int helper(void) { return 0; }' | cc -shared -fPIC -x c - -o "$toolkit/lib/libhelper.so" -Wl,-soname,libhelper.so
cc -shared -fPIC "$work/stand_in.c" -o "$toolkit/lib/libcudnn_engines_precompiled.so.9" -Wl,--no-as-needed "$toolkit/lib/libhelper.so" \
  "-Wl,-soname,libcudnn_engines_precompiled.so.9,--version-script=$work/node.map,-rpath,\$ORIGIN"
cat > "$work/bundle/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(bundle VERSION 1.0 LANGUAGES C)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
file(WRITE "${CMAKE_BINARY_DIR}/main.c" "int main(void) { return 0; }\n")
add_executable(app "${CMAKE_BINARY_DIR}/main.c")
target_link_libraries(app PRIVATE -Wl,--no-as-needed ${LIBRARIES})
# NVIDIA's libraries have no search path that leads to their own folder in every release: a need of the program's does.
cudeploy_target(app RUNTIME none)
cudeploy_package(TARGETS app)
LISTS

# No toolkit, none of NVIDIA's libraries: nothing is missing.
no_toolkit=-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
must_pass configure "$work/bundle" "$work/plain" $no_toolkit
must_pass cmake --build "$work/plain"
must_pass pack "$work/plain" TGZ
output_lacks licence
tar -tzf "$work/plain/bundle-1.0-Linux.tar.gz" > "$log"
output_has bin/app
output_lacks EULA lib/

# The project's own library is installed as it is installed by CMake, also where a link leads to the build folder: once, stripped,
# with the search path of the bundle.
mkdir "$work/own" "$work/real"
ln -s real "$work/link"
cat > "$work/own/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(own VERSION 1.0 LANGUAGES C)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
file(WRITE "${CMAKE_BINARY_DIR}/main.c" "int own(void);\nint main(void) { return own(); }\n")
file(WRITE "${CMAKE_BINARY_DIR}/own.c" "int own(void) { return 0; }\n")
add_library(own SHARED "${CMAKE_BINARY_DIR}/own.c")
set_target_properties(own PROPERTIES VERSION 1.2.3 SOVERSION 1)
add_executable(app "${CMAKE_BINARY_DIR}/main.c")
target_link_libraries(app PRIVATE own)
cudeploy_target(app RUNTIME none)
cudeploy_target(own RUNTIME none)
cudeploy_package(TARGETS app own)
LISTS
for folder in real link; do
  must_pass configure "$work/own" "$work/$folder/build" $no_toolkit -DCPACK_STRIP_FILES=ON -DCMAKE_BUILD_TYPE=Debug
  must_pass cmake --build "$work/$folder/build"
  sleep 2  # CMake installs nothing again over what is as old
  must_pass pack "$work/$folder/build" TGZ
  unpack TGZ "$work/$folder/build/own-1.0-Linux.tar.gz" "$work/$folder/root"
  own=$work/$folder/root/own-1.0-Linux/lib/libown.so.1.2.3
  same 'files of the own library' "$(find "$work/$folder/root" -type f -name 'libown*')" "$own"
  readelf -dSW "$own" > "$log"
  output_lacks .debug_info .symtab "$work"
  rm -r "$work/$folder/build"
done

# Somebody else's licence must not go out as NVIDIA's.
echo 'License Agreement of whoever has the folder above NVIDIA' > "$work/LICENSE"
echo 'This needs a driver of NVIDIA.' > "$toolkit/LICENSE"
echo 'License Agreement of somebody else' > "$toolkit/LICENSE.txt"
# What they open by name comes from the folder that they come from, and what that opens and needs too. Without the licence's text
# this is said.
must_pass configure "$work/bundle" "$work/build" $no_toolkit -DCPACK_STRIP_FILES=ON -DCMAKE_BUILD_TYPE=Debug \
  -DLIBRARIES="$toolkit/lib/libnvrtc.so.13;$toolkit/lib/libcudnn.so.9"
must_pass cmake --build "$work/build"
must_pass pack "$work/build" TGZ
output_has 'audit passed' 'no licence text was found'
unpack TGZ "$work/build/bundle-1.0-Linux.tar.gz" "$work/unlicensed"
same 'libraries in the bundle' "$(find "$work/unlicensed" -name '*.so*' -printf '%f\n' | sort | tr '\n' ' ')" \
  "libcudnn.so.9 libcudnn_engines_precompiled.so.9 libcudnn_graph.so.9 libhelper.so libnvrtc-builtins.so.13.0 libnvrtc.so.13 "
same 'a licence' "$(find "$work/unlicensed" -name '*EULA*')" ''
# The text that lies where NVIDIA's packages for Python have it, two folders above. Programs are stripped on demand, NVIDIA's
# files stay as they are, and an RPM does not offer them to the whole system.
mkdir "$work/nvidia_cuda_runtime-13.0.96.dist-info" "$work/site"
mv "$toolkit" "$work/site/cu13"
toolkit=$work/site/cu13
printf 'License Agreement for NVIDIA Software\n' > "$work/nvidia_cuda_runtime-13.0.96.dist-info/License.txt"
must_pass configure "$work/bundle" "$work/build" $no_toolkit -DCPACK_STRIP_FILES=ON -DCMAKE_BUILD_TYPE=Debug \
  -DLIBRARIES="$toolkit/lib/libnvrtc.so.13;$toolkit/lib/libcudnn.so.9"
must_pass cmake --build "$work/build"
for format in $formats; do
  must_pass pack "$work/build" "$format"
  output_lacks 'no licence text'
  root=$work/root-$format
  must_pass unpack "$format" "$work/build/$(file_of "$format" bundle-1.0-Linux)" "$root"
  for library in "$toolkit"/lib/*; do
    must_pass cmp "$library" "$(find "$root" -name "${library##*/}")"
  done
  must_pass cmp "$work/nvidia_cuda_runtime-13.0.96.dist-info/License.txt" "$(find "$root" -name NVIDIA-CUDA-EULA.txt)"
  readelf -SW "$(find "$root" -name app -type f)" > "$log"
  output_lacks .debug_info .symtab
done
readelf -SW "$work/build/app" > "$log"
output_has .debug_info
# Under another name too, the report and the licence lie in one folder, which has the package's name.
must_pass configure "$work/bundle" "$work/build" -DCPACK_PACKAGE_NAME=named
must_pass pack "$work/build" TGZ
unpack TGZ "$work/build/named-1.0-Linux.tar.gz" "$work/named"
same 'texts of the package' "$(cd "$work/named/named-1.0-Linux/share" && find . -type f | sort | tr '\n' ' ')" \
  './named/NVIDIA-CUDA-EULA.txt ./named/cudeploy-audit.json '
must_pass configure "$work/bundle" "$work/build" -DCPACK_PACKAGE_NAME=
if [ -e "$work/build/bundle-1.0-Linux.rpm" ]; then
  rpm -qp --provides --requires "$work/build/bundle-1.0-Linux.rpm" > "$log" 2>&1
  output_has 'bundle = 1.0' libc.so.6
  output_lacks libnvrtc libcudnn
fi

# NVIDIA's own libnvrtc of some releases leads nobody to its builtins. With OVERRIDABLE no, the search path of the program does: the loader is asked
# where they come from, and the compilation works.
nvrtc=$(find -L "$CUDEPLOY_TOOLKIT/lib64" "$CUDEPLOY_TOOLKIT/lib" -maxdepth 1 -name 'libnvrtc.so.1*' 2> /dev/null | sort | tail -n 1)
if [ -n "$nvrtc" ]; then
  mkdir "$work/compiles"
  cat > "$work/compiles/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(compiles VERSION 1.0 LANGUAGES C)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
add_executable(app main.c)
target_link_libraries(app PRIVATE "${NVRTC}")
cudeploy_rpath(app OVERRIDABLE no)
cudeploy_target(app RUNTIME none)
cudeploy_package(TARGETS app)
LISTS
  cat > "$work/compiles/main.c" << 'MAIN'
#include <stddef.h>
int nvrtcCreateProgram(void**, const char*, const char*, int, const char* const*, const char* const*);
int nvrtcCompileProgram(void*, int, const char* const*);
int main(void) {
  void* program = NULL;
  return nvrtcCreateProgram(&program, "__global__ void k(int* p) { *p = 1; }", "k.cu", 0, NULL, NULL) ||
         nvrtcCompileProgram(program, 0, NULL);
}
MAIN
  must_pass configure "$work/compiles" "$work/compiles/build" -DNVRTC="$nvrtc"
  must_pass cmake --build "$work/compiles/build"
  must_pass cmake --install "$work/compiles/build" --prefix "$work/compiles/moved"
  must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" audit "$work/compiles/moved"
  must_pass env -i LD_DEBUG=libs "$work/compiles/moved/bin/app"
  output_has "calling init: $work/compiles/moved/bin/../lib/libnvrtc-builtins.so."
  rm -rf "$work/compiles/moved"
else
  echo "not applicable: a compilation with libnvrtc, this toolkit has none"
fi

# The library of one component is what the program of another needs: installed together they are whole.
mkdir "$work/components"
cat > "$work/components/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(parts VERSION 1.0 LANGUAGES C)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
file(WRITE "${CMAKE_BINARY_DIR}/main.c" "int core(void);\nint main(void) { return core(); }\n")
file(WRITE "${CMAKE_BINARY_DIR}/core.c" "int core(void) { return 0; }\n")
file(WRITE "${CMAKE_BINARY_DIR}/first" "first\n")
file(WRITE "${CMAKE_BINARY_DIR}/second" "second\n")
add_library(core SHARED "${CMAKE_BINARY_DIR}/core.c")
set_target_properties(core PROPERTIES VERSION 1.2.3 SOVERSION 1)
add_executable(app "${CMAKE_BINARY_DIR}/main.c")
target_link_libraries(app PRIVATE core)
cudeploy_rpath(app)
include(GNUInstallDirs)
install(TARGETS app RUNTIME DESTINATION bin COMPONENT bin)
install(TARGETS core LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib)
install(FILES "${CMAKE_BINARY_DIR}/first" DESTINATION share/parts COMPONENT bin)
install(FILES "${CMAKE_BINARY_DIR}/${SECOND}" DESTINATION share/parts RENAME first COMPONENT lib)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_RPM_COMPONENT_INSTALL ON)
# A script of the project's own, after the staged tree was audited: the library becomes one that needs something else.
add_library(gone SHARED "${CMAKE_BINARY_DIR}/core.c")
add_library(late SHARED "${CMAKE_BINARY_DIR}/core.c")
target_link_libraries(late PRIVATE -Wl,--no-as-needed gone)
file(WRITE "${CMAKE_BINARY_DIR}/late.cmake" "file(GLOB_RECURSE core \"\${CPACK_TEMPORARY_DIRECTORY}/lib/*libcore.so.1.2.3\")\n"
  "file(COPY_FILE \"${CMAKE_BINARY_DIR}/liblate.so\" \"\${core}\")\n")
file(WRITE "${CMAKE_BINARY_DIR}/own.cmake" "if(LATE)\nlist(APPEND CPACK_PRE_BUILD_SCRIPTS \"${CMAKE_BINARY_DIR}/late.cmake\")\nendif()\n")
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_BINARY_DIR}/own.cmake")
cudeploy_package(GENERATORS TGZ)
LISTS
must_pass configure "$work/components" "$work/parts" -DSECOND=first
must_pass cmake --build "$work/parts"
for format in $formats; do
  root=$work/installed-$format
  must_pass pack "$work/parts" "$format"
  for component in bin lib; do
    must_pass unpack "$format" "$work/parts/$(file_of "$format" "parts-1.0-Linux-$component")" "$root"
    case $format in
      DEB | RPM) # a component of an archive holds nothing but what was installed
        must_pass grep -q libcore "$(find "$root" -path "*/share/parts/cudeploy-audit.$component.json")" ;;
    esac
  done
  must_pass env -i "$(find "$root" -name app -type f)"
  # A component alone must do without the others; its own package of an earlier run goes, theirs stay.
  must_fail pack "$work/parts" "$format" -D CPACK_COMPONENTS_ALL=bin
  output_has needed-unresolved libcore.so.1 'no package is made'
  for component in bin lib; do [ ! -e "$work/parts/$(file_of "$format" "parts-1.0-Linux-$component")" ] || echo $component; done > "$log"
  same "left of $format" "$(cat "$log")" lib
  must_pass pack "$work/parts" "$format" -D CPACK_COMPONENTS_ALL=lib
  # What goes missing between the two gates the second one sees.
  must_fail pack "$work/parts" "$format" -D LATE=ON
  output_has needed-unresolved libgone.so 'the audit of the finished package failed'
  output_lacks 'no package is made'
  no_package "$work/parts"
done
must_pass configure "$work/components" "$work/parts" -DSECOND=second
must_fail pack "$work/parts" TGZ
output_has 'no package is made' 'different files of one name' share/parts/first 'hint:'
no_package "$work/parts"

# An audit that did not end has not passed: the first is the command's own, then it dies or is gone.
cat > "$work/dies" << COMMAND
#!/bin/sh
case \$* in *--output*) [ "\$0" != '$work/gone' ] || rm "\$0"; exec '$CUDEPLOY_PREFIX/bin/cudeploy' "\$@" ;; esac
kill -9 \$\$
COMMAND
chmod +x "$work/dies"
cp "$work/dies" "$work/gone"
for command in dies gone; do
  must_pass pack "$work/plain" TGZ
  sed -i "s,^set(CUDEPLOY_COMMAND .*,set(CUDEPLOY_COMMAND \"$work/$command\")," "$work/plain/cudeploy/package/wanted.cmake"
  must_fail pack "$work/plain" TGZ
  output_has 'before packing: audit passed' 'the audit did not end' "$work/$command" 'so it was removed'
  no_package "$work/plain"
  must_pass configure "$work/bundle" "$work/plain"
done

# A command that is part of the project, and that nothing but the package asks for, is built with it.
mkdir "$work/in_tree" "$work/in_tree/command"
cat > "$work/in_tree/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(in_tree VERSION 1.0 LANGUAGES C)
add_subdirectory(command EXCLUDE_FROM_ALL)
include("${MODULES}/cudeploy_functions.cmake")
add_executable(app command/main.c)
cudeploy_package(TARGETS app GENERATORS TGZ)
LISTS
echo 'int main(void) { return 0; }' > "$work/in_tree/command/main.c"
cat > "$work/in_tree/command/CMakeLists.txt" << 'LISTS'
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/command.c" "#include <unistd.h>\nint main(int c, char** v) { return execv(\"${COMMAND}\", v); }\n")
add_executable(command "${CMAKE_CURRENT_BINARY_DIR}/command.c")
add_executable(cudeploy::cudeploy ALIAS command)
LISTS
must_pass configure "$work/in_tree" "$work/in_tree/build" -DMODULES="$CUDEPLOY_PREFIX/share/cudeploy/cmake" \
  -DCOMMAND="$CUDEPLOY_PREFIX/bin/cudeploy"
must_pass cmake --build "$work/in_tree/build"
must_pass pack "$work/in_tree/build" TGZ
output_has 'audit passed'
echo "package: $formats"
