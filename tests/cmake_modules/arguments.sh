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
refused 'cudeploy_target(app RUNTIME unify)' 'did you mean unified?'
refused 'cudeploy_target(app AUDIT on)' 'cudeploy_target: AUDIT is "on"'
refused 'cudeploy_target(app GPUS 80 runtime shared)' 'unknown argument "runtime"' 'did you mean RUNTIME?'
refused 'cudeploy_target(app plain GPUS 80)' 'unexpected target "plain"' 'one call for each target'
refused 'cudeploy_target(GPUS 80)' 'there is no target "GPUS"' 'known: app plain'
refused 'cudeploy_target(app GPUS)' 'GPUS needs a value'
refused 'cudeploy_target(app PTX 80)' 'PTX without GPUS'
refused 'cudeploy_target(ap GPUS 80)' 'there is no target "ap"' 'did you mean app?'
refused 'cudeploy_target(cudeploy::runtime)' 'is imported'
refused 'cudeploy_device_code(app GPUS 9O)' 'GPUS names "9O"' 'did you mean 90?'
# How other tools write GPUs, and GPUs that this compiler has not.
refused 'cudeploy_device_code(app GPUS 08)' 'did you mean 80?'
refused 'cudeploy_device_code(app GPUS sm_80)' 'did you mean 80?'
refused 'cudeploy_device_code(app GPUS 9.0 80)' 'did you mean 90?'
refused 'cudeploy_device_code(app GPUS 80-virtual)' 'did you mean 80?'
refused 'cudeploy_device_code(app GPUS 80a)' 'did you mean 80?'
refused 'cudeploy_device_code(app GPUS 80,90)' 'separate the names: 80 90 120'
refused 'cudeploy_target(app GPUS native)' 'name the GPUs of the machines that it is shipped to'
refused 'cudeploy_device_code(app GPUS 90a 35)' 'GPUS names "35"' 'an older toolkit compiles for it'
refused 'cudeploy_device_code(app GPUS 990)' 'a newer toolkit may compile for it; until then PTX of'
refused 'cudeploy_device_code(app GPUS 80 PTX none 80)' 'PTX is "none 80"'
refused 'cudeploy_device_code(app GPUS 80 PTX non)' 'PTX names "non"' 'did you mean none?'
for begin in 'cudeploy_target(app ' 'cudeploy_device_code(app ' 'cudeploy_audit(app ' 'cudeploy_package('; do
  refused "${begin}GPUS 80 hopper)" 'GPUS names "hopper"' 'hint: hopper is 90'
  refused "${begin}GPUS Blackwell)" 'GPUS names "Blackwell"' 'hint: Blackwell is 100 and 120'
  refused "${begin}GPUS fermi)" 'GPUS names "fermi"' 'hint: a compute capability, such as 90'
done
# A compiler that does not tell which it knows.
cat > "$work/clang.cmake" << 'SCRIPT'
cmake_minimum_required(VERSION 3.24)
include("${MODULES}/gpu_choice.cmake")
set(CMAKE_CUDA_COMPILER false)
set(CMAKE_CUDA_COMPILER_ID Clang)
_cudeploy_check_gpu_names(f GPUS "${NAME}")
SCRIPT
for name in fermi 9O sm_90; do
  must_fail cmake -DMODULES="$CUDEPLOY_PREFIX/share/cudeploy/cmake" -DNAME=$name -P "$work/clang.cmake"
  output_has "f: GPUS names \"$name\", which false" hint:
  output_lacks 'it knows' 'list GET'
done
# Targets of other folders, and none at all.
mkdir -p "$work/below"
# shellcheck disable=SC2016
echo 'add_library(deeper STATIC "${CMAKE_BINARY_DIR}/empty.cu")' > "$work/below/CMakeLists.txt"
refused "add_subdirectory([[$work/below]] below) && cudeploy_target(depeer)" 'there is no target "depeer"' 'did you mean deeper?'
echo 'cudeploy_target(palin)' > "$work/below/CMakeLists.txt"
refused "add_subdirectory([[$work/below]] below)" 'there is no target "palin"' 'did you mean plain?'
echo 'cudeploy_target(some_other)' > "$work/below/CMakeLists.txt"
refused "add_subdirectory([[$work/below]] below)" 'there is no target "some_other"' 'hint: this folder has made none yet'
# A list takes what comes behind it, also a keyword that is misspelt. Each function, and each of its lists.
refused 'cudeploy_device_code(app GPU 80)' 'cudeploy_device_code: unknown argument "GPU"' 'did you mean GPUS?'
refused 'cudeploy_device_code(app GPUS 80 DRIVR 580.65.06)' 'unknown argument "DRIVR"' 'did you mean DRIVER?'
refused 'cudeploy_audit(app LEVL warn)' 'cudeploy_audit: unknown argument "LEVL"' 'did you mean LEVEL?'
refused 'cudeploy_audit(app GPUS 80 DRIVR 580.65.06)' 'unknown argument "DRIVR"' 'did you mean DRIVER?'
refused 'cudeploy_rpath(app LAYOT wheel)' 'cudeploy_rpath: unknown argument "LAYOT"' 'did you mean LAYOUT?'
# shellcheck disable=SC2016
{
  refused 'cudeploy_rpath(app PATHS $ORIGIN/x OVERRIDABL no)' 'unknown argument "OVERRIDABL"' 'did you mean OVERRIDABLE?'
  embed='cudeploy_embed_fatbin(app NAME k SOURCES ${CMAKE_BINARY_DIR}/empty.cu'
  refused "$embed GPU 80)" 'unknown argument "GPU"' 'did you mean GPUS?'
  refused "$embed GPUS 80 OPTION -O3)" 'unknown argument "OPTION"' 'did you mean OPTIONS?'
  refused "$embed GPUS 80 OPTIONS -O3 DRIVR 580.65.06)" 'unknown argument "DRIVR"' 'did you mean DRIVER?'
}
refused 'cudeploy_package(TARGETS app GENERATORS TGZ POLCY x)' 'unknown argument "POLCY"' 'did you mean POLICY?'
refused 'cudeploy_package(TARGETS app DRIVER_DEPEND)' 'unknown argument "DRIVER_DEPEND"' 'did you mean DRIVER_DEPENDS?'
# The driver that a hint shows is one that this toolkit's programs run on.
case $("$CUDEPLOY_TOOLKIT/bin/nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p') in
  11) oldest=450.80.02 ;;
  12) oldest=525.60.13 ;;
  *) oldest=580.65.06 ;;
esac
refused 'cudeploy_device_code(app GPUS 80 DRIVER new)' 'DRIVER is "new"' "such as DRIVER $oldest"
# What is named and would get less than machine code is told.
accepted 'cudeploy_device_code(app GPUS 80 90 PTX 80 86 89 90)'
output_lacks Warning
accepted 'cudeploy_device_code(app GPUS 80 90a PTX 80 87 90)'
output_has 'app: 87 in PTX has no machine code in GPUS' 'hint: 87 in GPUS too'
accepted 'cudeploy_device_code(app GPUS 86 PTX 75 80 86)'
output_has 'app: 75 80 in PTX has no machine code in GPUS'
accepted 'cudeploy_device_code(app GPUS 80 PTX none DRIVER 390.1)'
output_has 'DRIVER 390.1 runs nothing of CUDA' 'on no GPU' "hint: DRIVER $oldest"
accepted "cudeploy_device_code(app GPUS 80 DRIVER $oldest)"
output_lacks Warning
# Each function is documented on top of its file, with every word that it takes, and is named where the package begins.
python3 - "$CUDEPLOY_PREFIX/share/cudeploy/cmake" << 'PYTHON' || exit 1
import pathlib, re, sys
folder, functions = pathlib.Path(sys.argv[1]), 0
for file in sorted(folder.glob("cudeploy_*.cmake")):
    text = file.read_text()
    for name in re.findall(r"^function\((cudeploy_\w+)", text, re.M):
        functions += 1
        parsed = re.search(r"cmake_parse_arguments\(PARSE_ARGV \d arg ((?:\"[A-Z;_]*\" ?){3})\)", text).group(1)
        doc = re.match(rf"#\[=+\[\.rst:\n{name}\n-+\n.*?\.\. code-block:: cmake\n\n(.*?)\n\n(?=\S)(.*?)\n#\]=+\]", text, re.S)
        call, prose = doc.groups() if doc else ("", "")
        words = set(re.findall(r"[A-Z_]+", parsed))
        lacking = [word for word in words if word not in re.findall(r"[A-Z_]+", call) or word not in prose]
        if not call.strip().startswith(name + "(") or lacking:
            sys.exit(f"{file.name}: {name} is not documented on top, or lacks {lacking}")
        if name not in (folder / "cudeploy-config.cmake").read_text().split("@PACKAGE_INIT@")[0][:2000]:
            sys.exit(f"cudeploy-config.cmake does not name {name}")
if functions != 7:
    sys.exit(f"{functions} public functions")
PYTHON
# Which driver compiles the PTX of which toolkit: the audit's table.
python3 - "$CUDEPLOY_SOURCE/audit/gpu.cpp" "$CUDEPLOY_PREFIX/share/cudeploy/cmake/gpu_choice.cmake" << 'PYTHON' || exit 1
import re, sys
first, expected = {}, {}
for major, minor, isa, driver in re.findall(r'Toolkit\{(\d+), (\d+), (\d+, \d+), "([^"]*)"', open(sys.argv[1]).read()):
    first.setdefault(isa, driver)
    if (int(major), int(minor)) >= (11, 2) and first[isa]:
        expected[f"{major}.{minor}"] = first[isa]
found = dict(re.findall(r"\b(1[0-9]\.[0-9])=([0-9.]+)", open(sys.argv[2]).read()))
if found != expected or len(expected) < 10:
    sys.exit(f"drivers by toolkit: {sorted(set(found.items()) ^ set(expected.items()))}")
PYTHON
# Which driver is the first that knows a GPU: the audit's table, for each GPU that this toolkit knows; and with older toolkits, which
# run on older drivers. Warned of below that driver, not from it on.
cat > "$work/first_driver.cmake" << 'LISTS'
include("${MODULES}/gpu_choice.cmake")
foreach(gpu IN LISTS GPUS)
  _cudeploy_first_driver(first ${gpu})
  message("first ${gpu}=${first}")
endforeach()
foreach(asked IN ITEMS "12.9.41 120 535.54.03" "12.9.41 120 570.26" "11.8.89 90 450.80.02" "11.8.89 80 450.80.02" "11.8.89 90a 520.61.05"
                       "13.5.37 107 580.65.06" "12.9.41 101f 535.54.03" "13.0.88 999 580.65.06")
  string(REPLACE " " ";" asked "${asked}")
  list(GET asked 0 CMAKE_CUDA_COMPILER_VERSION)
  list(GET asked 1 gpu)
  list(GET asked 2 driver)
  message("asked ${asked}")
  _cudeploy_warn_gpus(f t "${gpu}" "" "${driver}")
endforeach()
LISTS
python3 - "$CUDEPLOY_SOURCE/audit/gpu.cpp" "$CUDEPLOY_PREFIX/share/cudeploy/cmake" "$work/first_driver.cmake" << 'PYTHON' || exit 1
import re, subprocess, sys
rows = re.findall(r'Gpu\{\{(\d+), (\d+)\}, "[^"]*", "[^"]*", \w+, \d+, "[^"]*", "([^"]*)"', open(sys.argv[1]).read())
expected = {major + minor: driver for major, minor, driver in rows} | {"101": dict((a + b, d) for a, b, d in rows)["110"]}
if len(expected) < 20:
    sys.exit(f"GPUs of the audit: {expected}")
output = subprocess.run(["cmake", f"-DMODULES={sys.argv[2]}", "-DGPUS=" + ";".join(expected), "-P", sys.argv[3]],
                        stderr=subprocess.PIPE, text=True, check=True).stderr
found = dict(re.findall(r"first (\d+)=(.*)", output))
if found != expected:
    sys.exit(f"first drivers of GPUs: {sorted(set(found.items()) ^ set(expected.items()))}")
warned = {asked.strip(): re.sub(r"\s+", " ", text) for asked, text in
          re.findall(r"asked (.*)\n((?:(?!asked).*\n)*)", output)}
for asked in ("12.9.41;120;535.54.03", "11.8.89;90;450.80.02", "13.5.37;107;580.65.06", "12.9.41;101f;535.54.03"):
    _, gpu, driver = asked.split(";")
    first = expected[gpu.rstrip("af")]
    if f"DRIVER {driver} does not know the GPU {gpu} ({first} does): with it, nothing runs there hint: DRIVER {first}" not in warned[asked]:
        sys.exit(f"{asked}: {warned[asked]}")
for asked in ("12.9.41;120;570.26", "11.8.89;80;450.80.02", "11.8.89;90a;520.61.05", "13.0.88;999;580.65.06"):
    if "Warning" in warned[asked]:
        sys.exit(f"{asked}: {warned[asked]}")
PYTHON
refused 'cudeploy_device_code(app)' 'GPUS is missing'
refused 'cudeploy_device_code(app GPUS 80) && cudeploy_device_code(app GPUS 90)' 'called before with other values'
refused 'cudeploy_link_runtime(app uniffied)' 'did you mean unified?'
refused 'cudeploy_link_runtime(app RUNTIME shared)' 'takes no word RUNTIME'
refused 'cudeploy_link_runtime(app)' 'app: which runtime?' 'hint: cudeploy_link_runtime(app unified), or shared, static, none'
refused 'cudeploy_link_runtime(app ANCHOR hidden)' 'app: which runtime?'
# What an unset variable leaves behind, in each function.
refused 'cudeploy_target(app RUNTIME "")' 'cudeploy_target: the argument behind "RUNTIME" is empty' 'leave RUNTIME out'
refused 'cudeploy_target(app GPUS "")' 'the argument behind "GPUS" is empty'
refused 'cudeploy_target(app GPUS 80 "")' 'the argument behind "80" is empty'
refused 'cudeploy_device_code(app GPUS 80 DRIVER "")' 'cudeploy_device_code: the argument behind "DRIVER" is empty'
refused 'cudeploy_link_runtime(app "")' 'cudeploy_link_runtime: the argument behind "app" is empty'
refused 'cudeploy_rpath(app DESTINATION "")' 'cudeploy_rpath: the argument behind "DESTINATION" is empty'
refused 'cudeploy_audit(app POLICY "" GPUS 80)' 'cudeploy_audit: the argument behind "POLICY" is empty'
refused 'cudeploy_embed_fatbin(app NAME k SOURCES "" GPUS 80)' 'cudeploy_embed_fatbin: the argument behind "SOURCES" is empty'
refused 'cudeploy_package(TARGETS app GENERATORS "")' 'cudeploy_package: the argument behind "GENERATORS" is empty'
# What would decide nothing is not taken without a word.
refused 'cudeploy_target(plain POLICY no/such.toml)' 'plain: POLICY for a STATIC_LIBRARY' 'hint: POLICY for what links plain'
refused 'cudeploy_target(plain GPUS 80 AUDIT warn)' 'plain: AUDIT for a STATIC_LIBRARY'
refused 'cudeploy_target(plain DRIVER new)' 'plain: DRIVER without GPUS decides nothing'
accepted 'cudeploy_target(plain GPUS 80 DRIVER 590.44.01)'
refused 'cudeploy_link_runtime(app unified ANCOR hidden)' 'did you mean ANCHOR?'
refused 'cudeploy_link_runtime(app static ANCHOR hidden)' 'only a unified copy has an anchor'
refused 'cudeploy_link_runtime(app static) && cudeploy_link_runtime(app shared)' 'called before with other values'
refused 'cudeploy_rpath(app LAYOUT weel)' 'did you mean wheel?'
# shellcheck disable=SC2016
refused 'cudeploy_rpath(app PATHS /opt/lib)' 'expected a path that begins with $ORIGIN'
refused 'cudeploy_audit(app LEVEL errors)' 'did you mean error?'
refused 'cudeploy_audit(app POLICY no/such.toml)' 'there is no policy file'
printf 'gpu = [80]\n' > "$work/typo.toml"
refused "cudeploy_audit(app POLICY $work/typo.toml)" 'typo.toml:1: error: unknown key' "did you mean 'gpus'?"
output_lacks 'error: error:'
refused 'cudeploy_audit(app POLICY defualt)' 'defualt: error: cannot be opened'
refused 'cudeploy_audit(app GPUS 9O)' 'GPUS names "9O"' 'did you mean 90?'
refused 'cudeploy_audit(app DRIVER new)' 'DRIVER is "new"'
refused 'cudeploy_embed_fatbin(app NAME k SOURCE k.cu GPUS 80)' 'did you mean SOURCES?'
refused 'cudeploy_embed_fatbin(app NAME 9k SOURCES k.cu GPUS 80)' 'expected a C identifier'
refused 'cudeploy_embed_fatbin(app NAME k SOURCES k.cu GPUS 80)' 'there is no file'
refused 'cudeploy_embed_fatbin(app NAME k SOURCES k.cu)' 'GPUS is missing'
# The symbol is a word of C and C++, and its header is found before all others.
# shellcheck disable=SC2016
{
  embed='cudeploy_embed_fatbin(app SOURCES "${CMAKE_BINARY_DIR}/empty.cu" GPUS 80 NAME '
  for name in int class restrict; do refused "$embed$name)" "NAME is \"$name\", a keyword of C or C++" "hint: ${name}_code"; done
  for name in string unistd cuda; do refused "$embed$name)" "NAME is \"$name\", and its header would hide" "/$name.h" "hint: ${name}_code"; done
  accepted "$embed"'Scale) && '"$embed"'scale)'
  for name in Scale scale; do grep '^#ifndef' "$work/build/cudeploy/embed/app/$name.h"; done | sort -u > "$log"
  same 'include guards of Scale and scale' "$(wc -l < "$log")" 2
  # What a command cannot be told is named, also from a library, and added after the call.
  accepted "$embed"'scale) && target_compile_definitions(app PRIVATE FAST=1)'
  output_lacks 'CMake Warning'
  accepted "$embed"'scale) && target_compile_definitions(app PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:FAST=1>")'
  output_has 'CMake Warning' 'app: definitions and include folders for one language are not passed on: $<$<COMPILE_LANGUAGE:CUDA>:FAST=1>' \
    'hint: say them in OPTIONS too'
  accepted "$embed"'scale) && add_library(between INTERFACE) && target_include_directories(between INTERFACE "$<$<COMPILE_LANGUAGE:CXX,CUDA>:/x>") &&
    target_link_libraries(plain PUBLIC between) && target_link_libraries(app PRIVATE plain)'
  output_has 'CMake Warning' 'not passed on: $<$<COMPILE_LANGUAGE:CXX,CUDA>:/x>'
}
refused 'cudeploy_package(TARGETS app GENERATORS TZG)' 'did you mean TGZ?'
refused 'cudeploy_package(TARGETS ap)' 'did you mean app?'
output_lacks 'get_target_property() called'
accepted 'add_executable(my::app ALIAS app) && cudeploy_package(TARGETS my::app)'
grep -q 'FILES ".*/app"' "$work/build/cmake_install.cmake" || { echo "the target behind an alias is not installed"; exit 1; }
# The oldest driver of several, whatever their order, also where GPUS is said.
new='cudeploy_device_code(app GPUS 80 DRIVER 590.44.1)'
# shellcheck disable=SC2016
old='add_executable(old "${CMAKE_BINARY_DIR}/empty.cu") && cudeploy_device_code(old GPUS 80 DRIVER 585.10)'
for call in 'cudeploy_package(TARGETS app old)' 'cudeploy_package(TARGETS old app GPUS 80)'; do
  accepted "$new && $old && $call"
  same "driver of $call" "$(sed -n 's/^set(CUDEPLOY_DRIVER "\(.*\)")$/\1/p' "$work/build/cudeploy/package/wanted.cmake")" 585.10
done
# What libraries in a file were told is wanted of it where it was told nothing itself: what they have in common.
bundle_wants() { # GPUS DRIVER
  for pair in "GPUS=$1" "DRIVER=$2"; do
    same "${pair%%=*} of the bundle" "$(sed -n "s/^set(CUDEPLOY_${pair%%=*} \"\(.*\)\")\$/\1/p" "$work/build/cudeploy/package/wanted.cmake")" "${pair#*=}"
  done
}
plain='cudeploy_device_code(plain GPUS 80 90a DRIVER 585.10)'
# shellcheck disable=SC2016
objects='add_library(objects OBJECT "${CMAKE_BINARY_DIR}/empty.cu") && cudeploy_device_code(objects GPUS 90 120 DRIVER 590.44.1) &&
  target_link_libraries(plain PRIVATE objects)'
accepted "cudeploy_audit(app) && $plain && target_link_libraries(app PRIVATE plain) && cudeploy_package(TARGETS app)"
bundle_wants 80,90 585.10
grep -qx -e '--default-gpus;80,90' "$(find "$work/build/cudeploy/audit" -name app.wanted)" || { echo "the audit of app does not want what plain was told"; exit 1; }
# A file may be told a driver alone.
accepted 'cudeploy_target(app RUNTIME none DRIVER 590.44) && cudeploy_package(TARGETS app)'
bundle_wants '' 590.44
accepted "cudeploy_target(app RUNTIME none DRIVER 590.44) && $plain && target_link_libraries(app PRIVATE plain) && cudeploy_package(TARGETS app)"
bundle_wants 80,90 590.44
accepted "$plain && $objects && target_link_libraries(app PRIVATE plain) && cudeploy_package(TARGETS app)"
bundle_wants 90 590.44.1
accepted "$plain && target_link_libraries(app PRIVATE plain) && cudeploy_device_code(app GPUS 80) && cudeploy_package(TARGETS app)"
bundle_wants 80 ''
# The same of all targets where the project's own install() rules decide what is in the bundle.
accepted "$plain && cudeploy_device_code(app GPUS 80 90 120 DRIVER 580.65.06) && cudeploy_package()"
bundle_wants 80,90 585.10
output_has 'cudeploy_package: wanted of the bundle, where the policy names no GPUs: 80 90, which all targets that were told GPUS have in common'
accepted "$plain && cudeploy_device_code(app GPUS 120) && cudeploy_package()"
bundle_wants '' 585.10
output_has 'cudeploy_package: no GPU is wanted of the bundle, where the policy names none: plain app were told GPUS, and have none in common'
accepted "$plain && cudeploy_package(GPUS 75)"
bundle_wants 75 585.10
accepted 'cudeploy_package()'
bundle_wants '' ''
output_lacks 'of the bundle'
refused 'cudeploy_package(app)' 'unexpected target "app"' 'targets come after TARGETS'
refused 'cudeploy_package(TARGETS app GENERATOR TGZ)' 'unknown argument "GENERATOR"' 'did you mean GENERATORS?'
refused 'cudeploy_package(TARGETS app GPUS sm_90)' 'did you mean 90?'
refused 'cudeploy_package(TARGETS app DRIVER 535)' 'DRIVER is "535"'
refused 'include(CPack) && cudeploy_package()' 'CPack was included before'
# A later one writes what cpack reads once more, without the gates: in the same folder, or in the one above.
refused 'cudeploy_package() && include(CPack)' 'CPack was included again after cudeploy_package, so cpack would audit nothing' \
  'hint: take include(CPack) out'
# shellcheck disable=SC2016
refused 'file(WRITE "${CMAKE_BINARY_DIR}/below/CMakeLists.txt" "cudeploy_package()\n") &&
  add_subdirectory("${CMAKE_BINARY_DIR}/below" below) && include(CPack)' 'CPack was included again after cudeploy_package'
refused 'cudeploy_package() && cudeploy_package(TARGETS app)' 'called before'
refused 'find_package(cudeploy REQUIRED COMPONENTS adit)' 'no component "adit"'
# What is asked for where it may be is no reason not to be found.
# shellcheck disable=SC2016
accepted 'find_package(cudeploy REQUIRED COMPONENTS audit OPTIONAL_COMPONENTS gui) && message("gui: ${cudeploy_gui_FOUND}")'
output_has 'gui: FALSE'
refused 'find_package(cudeploy 2.0 REQUIRED)' 'version'
# Two states in one process, told before anything is built.
refused 'cudeploy_link_runtime(app unified) && cudeploy_link_runtime(plain shared) && target_link_libraries(app PRIVATE plain)' \
  'app has the unified CUDA runtime and links plain, which has the shared one' 'mixed-runtime'
# A library that nobody told cudeploy of has the runtime that CMake gives it.
# shellcheck disable=SC2016
refused 'add_library(own SHARED "${CMAKE_BINARY_DIR}/empty.cu") && target_link_libraries(app PRIVATE own) && cudeploy_target(app)' \
  'app has the unified CUDA runtime and links own, which has the static one' 'cudeploy_link_runtime(own unified)'
# Nor is a CUDA program: it has a private one. A static library makes its link a unified one, a C++ program has none.
# shellcheck disable=SC2016
{
  own='add_library(used SHARED "${CMAKE_BINARY_DIR}/empty.cu") && cudeploy_link_runtime(used unified) && target_link_libraries(app PRIVATE used)'
  refused "$own" 'app has the static CUDA runtime and links used, which has the unified one' \
    'no function of cudeploy was called on app: cudeploy_link_runtime(app unified)'
  refused "$own"' && set_target_properties(app PROPERTIES CUDA_RUNTIME_LIBRARY Shared)' 'app has the shared CUDA runtime and links used'
  accepted "$own"' && set_target_properties(app PROPERTIES CUDA_RUNTIME_LIBRARY None)'
  accepted 'cudeploy_link_runtime(plain unified) && target_link_libraries(app PRIVATE plain)'
  # The same runtimes by FindCUDAToolkit's names.
  found='find_package(CUDAToolkit REQUIRED) && cudeploy_link_runtime(app unified) && '
  refused "$found"'target_link_libraries(app PRIVATE CUDA::cudart)' 'app has the unified CUDA runtime and links CUDA::cudart, which has the shared one' \
    'take CUDA::cudart out of what app links'
  refused "$found"'target_link_libraries(plain PUBLIC CUDA::cudart) && target_link_libraries(app PRIVATE plain)' \
    'take CUDA::cudart out of what plain links'
  accepted "$found"'target_link_libraries(app PRIVATE CUDA::cudart_static)'
  refused "$found"'file(WRITE "${CMAKE_BINARY_DIR}/x.cpp" "") && add_library(x SHARED "${CMAKE_BINARY_DIR}/x.cpp") &&
    target_link_libraries(x PRIVATE CUDA::cudart_static) && target_link_libraries(app PRIVATE x)' \
    'app has the unified CUDA runtime and links CUDA::cudart_static, which has the static one' 'take CUDA::cudart_static out of what x links'
  refused 'find_package(CUDAToolkit REQUIRED) && cudeploy_link_runtime(app shared) && target_link_libraries(app PRIVATE CUDA::cudart_static)' \
    'app has the shared CUDA runtime and links CUDA::cudart_static'
  # Only a folder below knows these: CUDA:: names, and a package that brings a runtime along.
  below() {
    mkdir -p "$work/below"
    printf '%s\n' 'add_executable(inner "${CMAKE_BINARY_DIR}/empty.cu")' 'cudeploy_link_runtime(inner unified)' "$@" > "$work/below/CMakeLists.txt"
    echo "add_subdirectory([[$work/below]] below)"
  }
  refused "$(below 'find_package(CUDAToolkit REQUIRED)' 'target_link_libraries(inner PRIVATE CUDA::cudart)')" \
    'inner has the unified CUDA runtime and links CUDA::cudart, which has the shared one'
  package='add_library(p::p SHARED IMPORTED)
    set_target_properties(p::p PROPERTIES IMPORTED_LOCATION /none/libp.so'
  refused "$(below "$package CUDEPLOY_RUNTIME shared)" 'target_link_libraries(inner PRIVATE p::p)')" \
    'inner has the unified CUDA runtime and links p::p, which has the shared one'
  refused "$(below "$package INTERFACE_LINK_LIBRARIES CUDA::cudart)" 'target_link_libraries(inner PRIVATE p::p)')" \
    'inner has the unified CUDA runtime and links CUDA::cudart, which has the shared one'
  accepted "$(below "$package CUDEPLOY_RUNTIME unified)" 'target_link_libraries(inner PRIVATE p::p)')"
  # What a folder below builds may be told of its runtime by the one above it.
  accepted "$(below 'add_library(late SHARED "${CMAKE_BINARY_DIR}/empty.cu")' 'target_link_libraries(inner PRIVATE late)') && cudeploy_link_runtime(late unified)"
  # In generator expressions whose condition is known.
  for expression in '$<$<NOT:$<CONFIG:Debug>>:CUDA::cudart>' '$<$<BOOL:ON>:CUDA::cudart>' \
    '$<IF:$<AND:1,$<CONFIG:Debug>>,m,CUDA::cudart>' '$<BUILD_INTERFACE:m\;$<LINK_ONLY:$<$<PLATFORM_ID:Linux>:CUDA::cudart>>>'; do
    refused "${found}target_link_libraries(app PRIVATE \"$expression\")" 'app has the unified CUDA runtime and links CUDA::cudart, which'
  done
  for expression in '$<$<CONFIG:Debug>:CUDA::cudart>' '$<$<CXX_COMPILER_ID:GNU>:CUDA::cudart>' '$<$<BOOL:OFF>:CUDA::cudart>' '$<$<OR:0,$<NOT:1>>:CUDA::cudart>' \
    '$<IF:$<BOOL:>,CUDA::cudart,m>' '$<INSTALL_INTERFACE:CUDA::cudart>' '$<$<TARGET_EXISTS:CUDA::cudart>:m>'; do
    accepted "${found}target_link_libraries(app PRIVATE \"$expression\")"
  done
}

# A version script that comes through two libraries, one of them in an expression.
# shellcheck disable=SC2016
accepted 'add_library(outer INTERFACE) && add_library(inner INTERFACE) && target_link_options(inner INTERFACE LINKER:--version-script=x.map) &&
  target_link_libraries(outer INTERFACE $<LINK_ONLY:inner>) && target_link_libraries(app PRIVATE $<$<BOOL:ON>:outer>) && cudeploy_link_runtime(app unified)'
output_has 'app: ANCHOR hidden, since its link options carry a version script'
# What a function was told before cudeploy_target stays, where cudeploy_target says nothing about it.
# shellcheck disable=SC2016
accepted 'cudeploy_rpath(app PATHS $ORIGIN/../plugins) && cudeploy_link_runtime(app unified ANCHOR hidden) &&
  cudeploy_audit(app LEVEL warn) && cudeploy_target(app GPUS 80) && get_target_property(paths app INSTALL_RPATH) &&
  if(NOT paths MATCHES plugins) && message(FATAL_ERROR "${paths}") && endif()'
refused 'cudeploy_link_runtime(app shared) && cudeploy_target(app RUNTIME unified)' 'called before with other values'

accepted 'foreach(i RANGE 1) && find_package(cudeploy 1.0 REQUIRED COMPONENTS audit runtime) &&
  cudeploy_target(app RUNTIME unified GPUS 80 90 PTX 80) && cudeploy_package(TARGETS app) && endforeach()'
accepted 'cudeploy_target(app RUNTIME none)'

# A project of C: the unified runtime is compiled with C++, which a function cannot enable; find_package can. The others need no C++.
mkdir "$work/in_c"
cat > "$work/in_c/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(in_c LANGUAGES C)
find_package(cudeploy 1.0 REQUIRED COMPONENTS ${COMPONENTS})
file(WRITE "${CMAKE_BINARY_DIR}/main.c" "int main(void) { return 0; }\n")
add_executable(app "${CMAKE_BINARY_DIR}/main.c")
cudeploy_link_runtime(app ${MODE})
LISTS
in_c() {
  configure "$work/in_c" "$work/in_c/$1" -DCOMPONENTS="$1" -DMODE="$2" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT"
}
for mode in static shared; do must_pass in_c audit $mode; done
must_fail in_c audit unified
output_has 'app: the unified runtime is compiled with C++, which is not enabled here' 'hint: project(... LANGUAGES C CXX)'
output_lacks CMAKE_CXX_COMPILE_OBJECT
must_pass in_c runtime unified

# The compiler of a target's folder hides its kernels, also where the folder that asks for it has none.
mkdir -p "$work/top/below"
cat > "$work/top/CMakeLists.txt" << 'LISTS'
cmake_minimum_required(VERSION 3.24)
project(top LANGUAGES CXX)
find_package(cudeploy 1.0 REQUIRED COMPONENTS runtime)
add_subdirectory(below)
cudeploy_link_runtime(kernels unified)
get_target_property(options kernels COMPILE_OPTIONS)
get_target_property(visibility kernels CUDA_VISIBILITY_PRESET)
message(STATUS "kernels: ${options} ${visibility}")
LISTS
# shellcheck disable=SC2016
printf '%s\n' 'project(below LANGUAGES CUDA)' 'file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/k.cu" "")' \
  'add_library(kernels MODULE "${CMAKE_CURRENT_BINARY_DIR}/k.cu")' > "$work/top/below/CMakeLists.txt"
must_pass configure "$work/top" "$work/top/build" -DCUDAToolkit_ROOT="$CUDEPLOY_TOOLKIT"
grep -q 'kernels: .*-static-global-template-stub=true\|kernels: .* hidden' "$log" || { cat "$log"; echo "kernels are not hidden"; exit 1; }
echo "arguments: all refused or accepted as said"
