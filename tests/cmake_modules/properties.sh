#!/bin/sh
# What the functions put on targets, compared with what their documentation says.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"
must_pass configure "$here/properties" "$work/build"

# What a target was told is the audit's default, so that a policy that wants more is heard; what cudeploy_audit itself is told
# comes first.
mkdir -p "$work/wanted"
cat > "$work/wanted/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(wanted LANGUAGES CXX CUDA)
find_package(cudeploy 1.0 REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/main.cu" "__global__ void k() {}\nint main() { k<<<1, 1>>>(); }\n")
file(WRITE "${CMAKE_BINARY_DIR}/policy.toml" "gpus = [75, 80]\n")
add_executable(by_policy "${CMAKE_BINARY_DIR}/main.cu")
cudeploy_target(by_policy GPUS 80 POLICY "${CMAKE_BINARY_DIR}/policy.toml")
add_executable(by_call "${CMAKE_BINARY_DIR}/main.cu")
cudeploy_audit(by_call GPUS 80 POLICY "${CMAKE_BINARY_DIR}/policy.toml")
cudeploy_target(by_call GPUS 80)
cudeploy_package(TARGETS by_policy GENERATORS TGZ POLICY "${CMAKE_BINARY_DIR}/policy.toml")
# Each of them ends up with one runtime, a unified one, though nobody says so of the first, and the second has it twice.
find_package(CUDAToolkit REQUIRED)
add_library(unified STATIC "${CMAKE_BINARY_DIR}/main.cu")
cudeploy_link_runtime(unified unified)
add_executable(by_library "${CMAKE_BINARY_DIR}/main.cu")
target_link_libraries(by_library PRIVATE unified)
add_executable(by_hand "${CMAKE_BINARY_DIR}/main.cu")
target_link_libraries(by_hand PRIVATE CUDA::cudart_static)
cudeploy_link_runtime(by_hand unified)
LISTS
must_pass configure "$work/wanted" "$work/wanted/build"
must_pass cmake --build "$work/wanted/build" --target by_call_audit by_library by_hand
for program in by_library by_hand; do
  must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --format json "$work/wanted/build/$program"
  same "runtimes of $program" "$(sed -n 's/^.*"kind": "\(private-static\|unified\|needs-shared\)".*$/\1/p' "$log")" unified
done
must_fail cmake --build "$work/wanted/build" --target by_policy_audit
output_has 'nothing for 7.5 (Turing)'
must_fail sh -c "cd '$work/wanted/build' && cpack"
output_has 'nothing for 7.5 (Turing)' 'no package is made'
no_package "$work/wanted/build"
# All audits have one name; a policy that changes is heard without linking again.
must_fail cmake --build "$work/wanted/build" --target cudeploy_audit_all
output_has 'nothing for 7.5 (Turing)'
output_lacks Linking
echo 'gpus = [80]' > "$work/wanted/build/policy.toml"
must_pass cmake --build "$work/wanted/build" --target cudeploy_audit_all
output_has 'Auditing by_policy'
output_lacks Linking

# Two runtimes of different kinds in one package: refused when the project is configured, with both names.
mkdir -p "$work/mixed"
cat > "$work/mixed/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(mixed LANGUAGES CXX)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
if(TARGET cudeploy::runtime)
  message(FATAL_ERROR "a component that nobody asked for")
endif()
find_package(cudeploy 1.0 REQUIRED COMPONENTS runtime)
if(NOT TARGET cudeploy::runtime)
  message(FATAL_ERROR "a second find_package brings no runtime")
endif()
file(WRITE "${CMAKE_BINARY_DIR}/main.cpp" "int main() {}\n")
add_executable(host "${CMAKE_BINARY_DIR}/main.cpp")
cudeploy_link_runtime(host unified)
add_library(opened MODULE "${CMAKE_BINARY_DIR}/main.cpp")
cudeploy_link_runtime(opened shared)
cudeploy_package(TARGETS host opened)
LISTS
must_fail configure "$work/mixed" "$work/mixed/build"
output_has 'host has the unified CUDA runtime, opened in the same package the shared one' mixed-runtime 'hint:'

# A plugin with a version script of its own, set after the call: GNU ld would refuse a second one.
mkdir -p "$work/anchor"
cat > "$work/anchor/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(anchor LANGUAGES CXX)
find_package(cudeploy 1.0 REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/plugin.cpp" "#include <cuda_runtime_api.h>\nextern \"C\" int plugin() { return cudaGetLastError(); }\n")
file(WRITE "${CMAKE_BINARY_DIR}/plugin.map" "{ global: plugin; local: *; };\n")
foreach(name IN ITEMS scripted linked plain)
  add_library(${name} MODULE "${CMAKE_BINARY_DIR}/plugin.cpp")
  cudeploy_link_runtime(${name} unified)
endforeach()
target_link_options(scripted PRIVATE "LINKER:--version-script=${CMAKE_BINARY_DIR}/plugin.map")
target_link_libraries(linked PRIVATE "-Wl,-version-script=${CMAKE_BINARY_DIR}/plugin.map")
# Also where a static library brings the runtime along, into a plugin that says so itself and into one that says nothing.
add_library(core STATIC "${CMAKE_BINARY_DIR}/plugin.cpp")
set_target_properties(core PROPERTIES POSITION_INDEPENDENT_CODE ON)
cudeploy_link_runtime(core unified)
foreach(name IN ITEMS told silent)
  add_library(${name} MODULE "${CMAKE_BINARY_DIR}/anchor_plugin.cpp")
  target_link_libraries(${name} PRIVATE core)
  target_link_options(${name} PRIVATE "LINKER:--version-script=${CMAKE_BINARY_DIR}/plugin.map")
endforeach()
file(WRITE "${CMAKE_BINARY_DIR}/anchor_plugin.cpp" "extern \"C\" int plugin();\nint main_of_plugin() { return plugin(); }\n")
cudeploy_link_runtime(told unified)
cudeploy_rpath(plain OVERRIDABLE no)
install(TARGETS plain scripted LIBRARY DESTINATION lib)
# What is left out of `all`, be it said before or after the call, is not built for its audit.
file(WRITE "${CMAKE_BINARY_DIR}/not_ready.cpp" "#error not ready\n")
add_executable(before EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/not_ready.cpp")
add_executable(after "${CMAKE_BINARY_DIR}/not_ready.cpp")
cudeploy_audit(before)
cudeploy_audit(after)
set_target_properties(after PROPERTIES EXCLUDE_FROM_ALL TRUE)
# What is found is shown and stops nothing, or is not looked for.
foreach(level IN ITEMS warn off)
  add_library(${level} MODULE "${CMAKE_BINARY_DIR}/main_of_plugin.cpp")
  set_target_properties(${level} PROPERTIES INSTALL_RPATH /opt/${level})
  cudeploy_audit(${level} LEVEL ${level})
endforeach()
file(WRITE "${CMAKE_BINARY_DIR}/main_of_plugin.cpp" "int main_of_plugin() { return 0; }\n")
LISTS
must_pass configure "$work/anchor" "$work/anchor/build"
output_has 'scripted: ANCHOR hidden, since its link options carry a version script' 'linked: ANCHOR hidden'
output_lacks 'plain: ANCHOR hidden'
must_pass cmake --build "$work/anchor/build"
output_has 'libwarn.so: error: ' '/opt/warn' 'absolute-rpath]'
output_lacks 'liboff.so: ' /opt/off
[ -s "$work/anchor/build/libwarn.so.audit.json" ] && [ -e "$work/anchor/build/liboff.so" ] || exit 1
[ ! -e "$work/anchor/build/liboff.so.audit.json" ] || { echo "audited though off"; exit 1; }
must_pass cmake --build "$work/anchor/build"
output_lacks Auditing
for name in before after; do
  must_fail cmake --build "$work/anchor/build" --target ${name}_audit
  output_has 'not ready'
done
nm -D --with-symbol-versions "$work/anchor/build/libplain.so" > "$work/anchor/plain"
nm -D --with-symbol-versions "$work/anchor/build/libscripted.so" > "$work/anchor/scripted"
grep -q 'cudeploy_anchor@@CUDEPLOY_' "$work/anchor/plain" || { echo "no anchor in libplain.so"; exit 1; }
if grep -q cudeploy_anchor "$work/anchor/scripted"; then echo "an anchor in libscripted.so"; exit 1; fi
readelf -nW "$work/anchor/build/libscripted.so" | grep -q cudeploy || { echo "no note in libscripted.so"; exit 1; }
for name in told silent; do
  must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" inspect --format json "$work/anchor/build/lib$name.so"
  same "runtimes of $name" "$(sed -n 's/^.*"kind": "\(private-static\|unified\|needs-shared\)".*$/\1/p' "$log")" unified
done

# A search path that LD_LIBRARY_PATH does not come before, where that is asked for.
must_pass cmake --install "$work/anchor/build" --prefix "$work/anchor/prefix"
readelf -dW "$work/anchor/prefix/lib/libplain.so" > "$log"
output_has '(RPATH)' 'ORIGIN'
output_lacks '(RUNPATH)'
