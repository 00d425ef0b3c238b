#!/bin/sh
# A misspelt keyword that is swallowed ships a program without what was asked for. Every function refuses what it does
# not know and names the nearest right word; a repeated call does nothing, a contradicting one is refused.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/expect.sh"

# refused CALL TEXT... : the call stops the configuration, with these texts
refused() {
  call=$1
  shift
  must_fail configure "$here/arguments" "$work/build" -DCASE="$call"
  output_has "$@"
}
accepted() { must_pass configure "$here/arguments" "$work/build" -DCASE="$1"; }

accepted ''
refused 'cudeploy_target(app RUNTIM unified)' 'unknown argument "RUNTIM"' 'did you mean RUNTIME?'
refused 'cudeploy_target(app RUNTIME unifed)' 'RUNTIME is "unifed"' 'did you mean unified?'
refused 'cudeploy_target(app GPUS 80 PTXX 80)' 'unknown argument "PTXX"' 'did you mean PTX?'
refused 'cudeploy_target(app GPUS)' 'GPUS needs a value'
refused 'cudeploy_target(app PTX 80)' 'PTX without GPUS'
refused 'cudeploy_target(ap GPUS 80)' 'there is no target "ap"' 'did you mean app?'
refused 'cudeploy_target(cudeploy::runtime)' 'is imported'
refused 'cudeploy_device_code(app GPUS 9O)' 'GPUS names "9O"' 'did you mean 90?'
refused 'cudeploy_device_code(app GPUS 90a 35)' 'GPUS names "35"' 'it knows: 75 80'
refused 'cudeploy_device_code(app GPUS 80 PTX non)' 'PTX names "non"' 'did you mean none?'
refused 'cudeploy_device_code(app GPUS 80 DRIVER new)' 'DRIVER is "new"' '535.54'
refused 'cudeploy_device_code(app)' 'GPUS is missing'
refused 'cudeploy_device_code(app GPUS 80) && cudeploy_device_code(app GPUS 90)' 'called before with other values'
refused 'cudeploy_link_runtime(app uniffied)' 'did you mean unified?'
refused 'cudeploy_link_runtime(app unified ANCOR hidden)' 'did you mean ANCHOR?'
refused 'cudeploy_link_runtime(app static ANCHOR hidden)' 'only a unified copy has an anchor'
refused 'cudeploy_link_runtime(app static) && cudeploy_link_runtime(app shared)' 'called before with other values'
refused 'cudeploy_rpath(app LAYOUT weel)' 'did you mean wheel?'
# shellcheck disable=SC2016
refused 'cudeploy_rpath(app PATHS /opt/lib)' 'expected a path that begins with $ORIGIN'
refused 'cudeploy_audit(app LEVEL errors)' 'did you mean error?'
refused 'cudeploy_audit(app POLICY no/such.toml)' 'there is no policy file'
refused 'cudeploy_embed_fatbin(app NAME k SOURCE k.cu GPUS 80)' 'did you mean SOURCES?'
refused 'cudeploy_embed_fatbin(app NAME 9k SOURCES k.cu GPUS 80)' 'expected a C identifier'
refused 'cudeploy_embed_fatbin(app NAME k SOURCES k.cu GPUS 80)' 'there is no file'
refused 'cudeploy_embed_fatbin(app NAME k SOURCES k.cu)' 'GPUS is missing'
refused 'cudeploy_package(TARGETS app GENERATORS TZG)' 'did you mean TGZ?'
refused 'cudeploy_package(TARGETS ap)' 'did you mean app?'
refused 'include(CPack) && cudeploy_package()' 'CPack was included before'
refused 'cudeploy_package() && cudeploy_package(TARGETS app)' 'called before'
refused 'find_package(cudeploy REQUIRED COMPONENTS adit)' 'no component "adit"'
refused 'find_package(cudeploy 2.0 REQUIRED)' 'version'
# Two states in one process, told before anything is built.
refused 'cudeploy_link_runtime(app unified) && cudeploy_link_runtime(plain shared) && target_link_libraries(app PRIVATE plain)' \
  'app has the unified CUDA runtime and links plain, which has the shared one' 'mixed-runtime'

accepted 'foreach(i RANGE 1) && find_package(cudeploy 1.0 REQUIRED COMPONENTS audit runtime) &&
  cudeploy_target(app RUNTIME unified GPUS 80 90 PTX 80) && cudeploy_package(TARGETS app) && endforeach()'
accepted 'cudeploy_target(app RUNTIME none)'
echo "arguments: all refused or accepted as said"
