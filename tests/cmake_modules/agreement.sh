#!/bin/sh
# Two runtimes in one process, or in one package, are told before anything is built, however they come into it: by what a
# target was told, through other targets, by name, or from the compiler. What agrees is accepted.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

# Told: static_library, unified_library... (C++). Not told: host (C++), cuda (a static library with a .cu), used (a C++ library).
# shellcheck disable=SC2016
common='file(WRITE "${CMAKE_BINARY_DIR}/x.cpp" "int main() {}\n")
  foreach(name IN ITEMS host other)
    add_executable(${name} "${CMAKE_BINARY_DIR}/x.cpp")
  endforeach()
  foreach(mode IN ITEMS unified static shared)
    add_library(${mode}_library SHARED "${CMAKE_BINARY_DIR}/x.cpp")
    cudeploy_link_runtime(${mode}_library ${mode})
  endforeach()
  add_library(cuda STATIC "${CMAKE_BINARY_DIR}/empty.cu")
  add_library(used SHARED "${CMAKE_BINARY_DIR}/x.cpp")
  '
run() { configure "$here/arguments" "$work/build" -DCASE="$(printf '%s' "$common$1" | tr '\n' '&' | sed 's/&/\&\&/g')"; }
# refused CALLS TEXT...
refused() {
  must_fail run "$1"
  shift
  output_has "$@" 'two states in one process [mixed-runtime]' 'hint:'
}
accepted() { must_pass run "$1"; }

# The languages and compilers are asked once.
accepted ''

# Two libraries of one process, that were told of different ones.
refused 'target_link_libraries(host PRIVATE unified_library static_library)' \
  'host links unified_library, which has the unified CUDA runtime, and static_library, which has the static one' \
  'cudeploy_link_runtime(static_library unified), where static_library is built, or static for unified_library'
refused 'target_link_libraries(used PRIVATE static_library)
  target_link_libraries(host PRIVATE unified_library used)' 'host links unified_library' 'and static_library, which has the static one'
refused 'cudeploy_link_runtime(host none)
  target_link_libraries(host PRIVATE shared_library unified_library)' 'host links shared_library' 'and unified_library'
accepted 'target_link_libraries(host PRIVATE unified_library)
  target_link_libraries(other PRIVATE static_library)'
# A plugin and the program whose symbols it uses.
refused 'set_target_properties(host PROPERTIES ENABLE_EXPORTS ON)
  target_link_libraries(static_library PRIVATE host)
  cudeploy_link_runtime(host unified)' 'static_library has the static CUDA runtime and links host, which has the unified one'

# The compiler links a runtime into all that holds CUDA code, wherever the code comes from.
# shellcheck disable=SC2016
{
  untold='cudeploy_link_runtime(host unified)
    target_link_libraries(host PRIVATE used)
    '
  mixed='host has the unified CUDA runtime and links used, which has the static one'
  accepted "$untold"
  refused "$untold"'target_link_libraries(used PRIVATE cuda)' "$mixed (the compiler links it for cuda)" \
    'cudeploy_link_runtime(used unified), where used is built, or static for host'
  refused "$untold"'target_link_libraries(other PRIVATE cuda)
    target_link_libraries(used PRIVATE $<TARGET_NAME:cuda>)' "$mixed"
  refused "$untold"'file(WRITE "${CMAKE_BINARY_DIR}/y.cpp" "")
    set_source_files_properties("${CMAKE_BINARY_DIR}/y.cpp" PROPERTIES LANGUAGE CUDA)
    target_sources(used PRIVATE "${CMAKE_BINARY_DIR}/y.cpp")' "$mixed"
  refused "$untold"'target_sources(used PRIVATE "$<$<BOOL:ON>:${CMAKE_BINARY_DIR}/empty.cu>")' "$mixed"
  refused "$untold"'target_sources(used PRIVATE "$<$<STREQUAL:a,a>:${CMAKE_BINARY_DIR}/empty.cu>")' "$mixed"
  refused "$untold"'add_library(brings INTERFACE)
    target_sources(brings INTERFACE "${CMAKE_BINARY_DIR}/empty.cu")
    target_link_libraries(used PRIVATE brings)' "$mixed (the compiler links it for brings)"
  refused "$untold"'add_library(objects OBJECT "${CMAKE_BINARY_DIR}/empty.cu")
    target_sources(used PRIVATE $<TARGET_OBJECTS:objects>)' "$mixed (the compiler links it for objects)"
  refused "$untold"'add_library(objects OBJECT "${CMAKE_BINARY_DIR}/empty.cu")
    target_link_libraries(used PRIVATE objects)' "$mixed"
  refused "$untold"'add_library(theirs STATIC IMPORTED)
    set_target_properties(theirs PROPERTIES IMPORTED_LOCATION /none/libtheirs.a IMPORTED_LINK_INTERFACE_LANGUAGES CUDA)
    target_link_libraries(used PRIVATE theirs)' "$mixed (the compiler links it for theirs)"
  refused "$untold"'set_target_properties(used PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
    target_link_libraries(used PRIVATE cuda)' 'links used, which has the shared one'
  # What is no CUDA code, or is not in it, or gets no runtime.
  accepted "$untold"'target_sources(used PRIVATE "$<$<STREQUAL:a,b>:${CMAKE_BINARY_DIR}/empty.cu>")
    target_sources(used INTERFACE "$<$<BOOL:OFF>:${CMAKE_BINARY_DIR}/empty.cu>")'
  accepted "$untold"'file(WRITE "${CMAKE_BINARY_DIR}/y.cu" "")
    set_source_files_properties("${CMAKE_BINARY_DIR}/y.cu" PROPERTIES LANGUAGE CXX)
    target_sources(used PRIVATE "${CMAKE_BINARY_DIR}/y.cu")'
  accepted "$untold"'target_link_libraries(used PRIVATE cuda)
    set_target_properties(used PROPERTIES CUDA_RUNTIME_LIBRARY None)'
  # Not compiled.
  accepted "$untold"'target_sources(used PRIVATE "${CMAKE_BINARY_DIR}/empty.cu")
    set_source_files_properties("${CMAKE_BINARY_DIR}/empty.cu" PROPERTIES HEADER_FILE_ONLY ON)'
  # A unified static library makes what links it unified.
  accepted "$untold"'target_link_libraries(used PRIVATE cuda)
    cudeploy_link_runtime(cuda unified)'
  accepted "$untold"'target_link_libraries(host PRIVATE cuda)'
}

# The compiler's runtime stands last in the link: where another has come into it by hand or from a library, nothing of it is taken.
# shellcheck disable=SC2016
for by_hand in 'cudeploy_link_runtime(cuda shared)' 'target_link_libraries(cuda PUBLIC CUDA::cudart)' \
    'target_link_libraries(other PRIVATE CUDA::cudart)' 'add_library(objects OBJECT "${CMAKE_BINARY_DIR}/empty.cu")
      cudeploy_link_runtime(objects shared)
      target_sources(other PRIVATE $<TARGET_OBJECTS:objects>)'; do
  accepted "find_package(CUDAToolkit REQUIRED)
    target_link_libraries(other PRIVATE cuda)
    $by_hand"
  refused "find_package(CUDAToolkit REQUIRED)
    target_link_libraries(other PRIVATE cuda unified_library)
    $by_hand" 'which has the shared' 'unified_library'
done

accepted 'target_link_libraries(other PRIVATE cuda cudeploy::runtime_static)
  set_target_properties(other PROPERTIES CUDA_RUNTIME_LIBRARY Shared)'

# Of alternatives that are known only when the build is generated none is taken, of those that are known the right one.
# shellcheck disable=SC2016
{
  accepted 'find_package(CUDAToolkit REQUIRED)
    target_link_libraries(host PRIVATE $<$<CXX_COMPILER_ID:GNU>:CUDA::cudart> $<$<NOT:$<CXX_COMPILER_ID:GNU>>:CUDA::cudart_static>
    $<IF:$<CXX_COMPILER_ID:GNU>,unified_library,static_library>)'
  sides='find_package(CUDAToolkit REQUIRED)
    target_link_libraries(host PRIVATE $<$<PLATFORM_ID:Windows>:CUDA::cudart> $<$<PLATFORM_ID:Linux,FreeBSD>:CUDA::cudart_static>)
    '
  accepted "${sides}target_link_libraries(host PRIVATE static_library)"
  refused "${sides}target_link_libraries(host PRIVATE shared_library)" 'CUDA::cudart_static, which has the static' 'shared_library'
  accepted 'set_target_properties(app PROPERTIES CUDA_RUNTIME_LIBRARY "$<IF:$<CXX_COMPILER_ID:GNU>,Shared,Static>")'
  output_lacks 'CMake Warning'
}

# The runtime by its plain name, as a file, and by this package's own names.
for name in cudart -lcudart -l:libcudart.so.13 /opt/cuda/lib64/libcudart.so /opt/cuda/lib64/libcudart.so.13.0.96 cudeploy::runtime_shared; do
  refused "cudeploy_link_runtime(host unified)
    target_link_libraries(host PRIVATE $name)" "host has the unified CUDA runtime and links $name, which has the shared one" \
    "take $name out of what host links: cudeploy_link_runtime(host unified) brings the runtime"
done
for name in cudart_static /opt/cuda/lib64/libcudart_static.a cudeploy::runtime_static; do
  refused "cudeploy_link_runtime(host unified)
    target_link_libraries(host PRIVATE used)
    target_link_libraries(used PRIVATE $name)" "host has the unified CUDA runtime and links $name, which has the static one" \
    "take $name out of what used links"
  # In one link with the unified runtime it is the same archive once more.
  accepted "cudeploy_link_runtime(host unified)
    target_link_libraries(host PRIVATE $name)"
done
refused 'add_library(by_file SHARED IMPORTED)
  set_target_properties(by_file PROPERTIES IMPORTED_LOCATION /opt/cuda/lib64/libcudart.so.13)
  target_link_libraries(host PRIVATE by_file static_library)' 'host links by_file, which has the shared CUDA runtime, and static_library' \
  'take by_file out of what host links: cudeploy_link_runtime(host static)'
refused 'target_link_libraries(host PRIVATE cudeploy::runtime static_library)' 'host links cudeploy::runtime, which has the unified'
accepted 'cudeploy_link_runtime(host unified)
  target_link_libraries(host PRIVATE my_cudart cudart_tools /opt/lib/libmycudart.so)'

# One package: a library meets all that are in it and what these load; programs do not meet.
# shellcheck disable=SC2016
{
  package='add_library(plugin MODULE "${CMAKE_BINARY_DIR}/x.cpp")
    cudeploy_link_runtime(host unified)
    '
  packaged='
    cudeploy_package(GENERATORS TGZ TARGETS host other plugin)'
  mixed='cudeploy_package: host has the unified CUDA runtime'
  refused "${package}target_sources(plugin PRIVATE \"\${CMAKE_BINARY_DIR}/empty.cu\")$packaged" \
    "$mixed, plugin in the same package the static one" 'cudeploy_link_runtime(plugin unified)'
  refused "${package}add_library(told STATIC \"\${CMAKE_BINARY_DIR}/x.cpp\")
    cudeploy_link_runtime(told static)
    target_link_libraries(plugin PRIVATE told)$packaged" "$mixed, told in the same package the static one"
  refused "${package}target_link_libraries(plugin PRIVATE static_library)$packaged" "$mixed, static_library in the same package the static one"
  # What is told after the call counts too.
  refused "$package$packaged
    cudeploy_link_runtime(plugin shared)" "$mixed, plugin in the same package the shared one"
  accepted "$package$packaged
    cudeploy_link_runtime(plugin unified)
    target_link_libraries(used PRIVATE static_library)"
  accepted "${package}cudeploy_link_runtime(other static)
    cudeploy_package(GENERATORS TGZ TARGETS host other)"
}

# Sources that lie, or will lie, in the binary folder, under a relative name: asking about them changes nothing. Without CUDA
# nothing is compiled as such.
mkdir "$work/made"
cat > "$work/made/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(made LANGUAGES C CXX)
find_package(cudeploy 1.0 REQUIRED)
file(WRITE "${CMAKE_BINARY_DIR}/version.c.in" "int main(void) { return 0; }\n")
configure_file("${CMAKE_BINARY_DIR}/version.c.in" version.c)
file(WRITE "${CMAKE_BINARY_DIR}/kernels.cu" "")
add_custom_command(OUTPUT made.c COMMAND "${CMAKE_COMMAND}" -E copy version.c made.c DEPENDS version.c)
file(GENERATE OUTPUT written.c CONTENT "int main(void) { return 0; }\n")
foreach(name IN ITEMS version made written)
  add_executable(${name} ${name}.c)
  target_sources(${name} PRIVATE "${CMAKE_BINARY_DIR}/kernels.cu")
endforeach()
add_library(shared_library SHARED version.c)
cudeploy_link_runtime(shared_library shared)
cudeploy_link_runtime(version static)
target_link_libraries(made PRIVATE shared_library)
LISTS
must_pass configure "$work/made" "$work/made/build" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT"
must_pass ninja -C "$work/made/build" made written

# The objects of an object library come with its runtime, taken as sources and linked.
# shellcheck disable=SC2016
objects='add_library(objects OBJECT "${CMAKE_BINARY_DIR}/empty.cu")
  cudeploy_target(objects RUNTIME unified GPUS 80)
  add_library(between STATIC $<TARGET_OBJECTS:objects>)
  target_sources(host PRIVATE $<TARGET_OBJECTS:objects>)
  target_link_libraries(other PRIVATE objects)
  target_link_libraries(used PRIVATE between)'
accepted "$objects"
for file in host other libused.so; do
  must_pass ninja -C "$work/build" -t commands $file
  tail -n 1 "$log" > "$work/link" && mv "$work/link" "$log"
  output_has "-o $file" cudeploy_runtime_hidden/wrap.rsp libcudeploy_runtime_hidden.a
done
refused "$objects
  cudeploy_link_runtime(host static)" 'host has the static CUDA runtime and links objects, which has the unified one'

# What only a folder below imports, in a program that no function was called on: its package file finds this package.
mkdir "$work/below" "$work/package"
cat > "$work/package/theirs-config.cmake" << 'CONFIG'
include(CMakeFindDependencyMacro)
find_dependency(cudeploy)
foreach(name IN ITEMS one two)
  add_library(theirs::${name} SHARED IMPORTED)
endforeach()
set_target_properties(theirs::one PROPERTIES CUDEPLOY_RUNTIME unified IMPORTED_LOCATION /none/libone.so)
set_target_properties(theirs::two PROPERTIES IMPORTED_LOCATION /none/libtwo.so IMPORTED_LINK_DEPENDENT_LIBRARIES theirs::one)
CONFIG
cat > "$work/below/CMakeLists.txt" << 'LISTS'
find_package(theirs REQUIRED)
add_executable(inner "${CMAKE_BINARY_DIR}/empty.cu")
target_link_libraries(inner PRIVATE theirs::two)
LISTS
refused "set(theirs_DIR [[$work/package]])
  add_subdirectory([[$work/below]] below)" 'inner has the static CUDA runtime and links theirs::one, which has the unified one' \
  'no function of cudeploy was called on inner: cudeploy_link_runtime(inner unified)'
accepted "set(theirs_DIR [[$work/package]])
  add_subdirectory([[$work/below]] below)
  cudeploy_link_runtime(inner unified)"

# A program more costs what it links itself, not all libraries below: the statements that are run for it are counted.
mkdir "$work/large"
cat > "$work/large/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(large LANGUAGES C)
find_package(cudeploy 1.0 REQUIRED COMPONENTS audit)
file(WRITE "${CMAKE_BINARY_DIR}/x.c" "int main(void) { return 0; }\n")
set(below "")
foreach(i RANGE 40)
  add_library(library_${i} STATIC "${CMAKE_BINARY_DIR}/x.c")
  target_link_libraries(library_${i} PUBLIC ${below})
  list(PREPEND below library_${i})
  list(SUBLIST below 0 2 below)
endforeach()
foreach(i RANGE 1 ${PROGRAMS})
  add_executable(program_${i} "${CMAKE_BINARY_DIR}/x.c")
  target_link_libraries(program_${i} PRIVATE library_40)
endforeach()
cudeploy_link_runtime(program_1 shared)
cudeploy_link_runtime(library_0 static)
cudeploy_link_runtime(program_2 static)
LISTS
statements() {
  must_fail configure "$work/large" "$work/large/build" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT" -DPROGRAMS="$1" \
    --trace --trace-redirect="$work/trace"
  output_has 'program_1 has the shared CUDA runtime and links library_0, which has the static one'
  count=$(grep -c 'runtime_agreement.cmake(' "$work/trace")
}
statements 10
few=$count
statements 20
each=$(((count - few) / 10))
[ "$each" -lt 500 ] || { echo "agreement: $each statements for a program that links one library of 41"; exit 1; }

# Where CUDA is no language of the project, FindCUDAToolkit looks for the toolkit: sixty libraries, and once for a folder is enough.
same 'runs of FindCUDAToolkit for three targets' "$(grep -c 'find_package(CUDAToolkit' "$work/trace")" 1

# nvcc for Windows knows a runtime that CMake does not: it would link none, without a word.
accepted 'set_target_properties(app PROPERTIES CUDA_RUNTIME_LIBRARY Hybrid)'
output_has 'CMake Warning' 'app: CUDA_RUNTIME_LIBRARY is "hybrid", which CMake does not know, so it links no CUDA runtime'
accepted 'set_target_properties(app PROPERTIES CUDA_RUNTIME_LIBRARY NONE)'
output_lacks 'CMake Warning'
echo "agreement: all refused or accepted as said"
