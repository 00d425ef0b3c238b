#!/bin/sh
# One kind of project, from `cudeploy new` to a package that works elsewhere, by a stranger who has the command in PATH and
# the toolkit, and does what the project's README says. Arguments: work folder, kind.
work=$1 kind=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"
PATH=$CUDEPLOY_PREFIX/bin:$PATH
CUDACXX=$CUDEPLOY_TOOLKIT/bin/nvcc
export PATH CUDACXX

must_pass sh -c "cd '$work' && cudeploy new hello --kind $kind"
output_has "hello: a $kind of" 'next: hello/README.md'
if grep -r starter "$work/hello"; then echo "the name is not everywhere"; exit 1; fi
(cd "$work/hello" && find . -type f | sort) > "$work/files"
must_fail sh -c "cd '$work' && cudeploy new hello --kind $kind"
output_has 'hello: error: exists already'
# The command that the README shows.
command=$(sed -n 's/^    \(cmake [^#]*[^# ]\) *\(#.*\)*$/\1/p' "$work/hello/README.md")
same 'the command of the README' "$command" 'cmake --workflow --preset release'
must_pass sh -c "cd '$work/hello' && $command"
output_has 'Auditing hello' '100% tests passed' 'audit passed'
must_pass cudeploy audit --gpus 80,90,120 "$work/hello"/build/*.tar.gz
elsewhere="$work/some where else"
mkdir -p "$elsewhere"
tar -xzf "$work"/hello/build/hello-0.1.0-*.tar.gz -C "$elsewhere" --strip-components=1
# What is built is in nobody's way: git does not see it.
must_pass git -c init.defaultBranch=main init -q "$work/hello"
must_pass git -C "$work/hello" ls-files --others --exclude-standard
same 'files that git sees' "$(sort "$log")" "$(sed 's,^\./,,' "$work/files" | sort)"

case $kind in
  program)
    must_pass env -i "$elsewhere/bin/hello"
    output_has 'CUDA version of the driver:'
    ;;
  plugin)
    must_pass env -i "$work/hello/build/load" "$elsewhere/lib/hello.so"
    nm -D --defined-only --with-symbol-versions "$elsewhere/lib/hello.so" > "$log"
    same 'exported names' "$(sed 's/^[0-9a-f]* //' "$log" | sort | tr '\n' ' ')" 'A hello_1 T hello_scale@@hello_1 '
    # A changed list of exports links again.
    touch "$work/hello/exports.map"
    must_pass cmake --build "$work/hello/build"
    output_has 'Linking'
    ;;
  library)
    mkdir "$work/user"
    cat > "$work/user/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(user LANGUAGES CXX)
find_package(hello 0.1 REQUIRED)
add_executable(user ../hello/hello_test.cpp)
target_link_libraries(user PRIVATE hello::hello)
LISTS
    if grep -rF -e "$work/hello" -e "$CUDEPLOY_TOOLKIT" "$elsewhere"/lib/cmake; then echo "paths of this machine"; exit 1; fi
    for shared in OFF ON; do
      must_pass cmake -S "$work/hello" -B "$work/hello/build" -DBUILD_SHARED_LIBS=$shared -DCMAKE_INSTALL_PREFIX="$work/prefix $shared"
      must_pass cmake --build "$work/hello/build" --target install
      must_pass cmake -S "$work/user" -B "$work/user/build $shared" -DCMAKE_PREFIX_PATH="$work/prefix $shared" \
        -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT"
      must_pass cmake --build "$work/user/build $shared"
      must_pass "$work/user/build $shared/user"
      must_pass cudeploy inspect "$work/user/build $shared/user"
      if [ $shared = OFF ]; then output_has unified; else output_has libhello.so.0; fi
    done
    # All kinds in one project, which packs by itself.
    mkdir "$work/above"
    cat > "$work/above/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(above LANGUAGES C CXX CUDA)
find_package(cudeploy 1.0 REQUIRED)
foreach(name IN ITEMS a_program a_plugin another_plugin a_library)
  add_subdirectory(${name})
endforeach()
cudeploy_package()
LISTS
    for name in a_program a_plugin another_plugin a_library; do
      must_pass sh -c "cd '$work/above' && cudeploy new $name --kind ${name#*_}"
    done
    must_pass configure "$work/above" "$work/above/build"
    ;;
esac
echo "$kind: made, built, packed and used"
