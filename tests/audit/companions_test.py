"""What NVIDIA's libraries open by name, told by `cudeploy` and seen at the loader: companions_test.py CASE CUDEPLOY FOLDER...

  nvrtc CUDEPLOY FOLDER...   bundles with and without the builtins: does a compilation work, and does the audit say so?
  cudnn CUDEPLOY FOLDER...   the parts that a program makes cuDNN open are those that `inspect` names
  optional CUDEPLOY FOLDER...  what only some functions of libcupti, libcufft and libcusparse open, which want a GPU first

FOLDER: where the libraries lie, as they are or in wheels (searched below it). The judge is glibc's loader without its cache, so that
nothing of this machine's toolkit helps; compiling and describing need no GPU. Of what wants one the
judge is `strings`: the name must stand in the file, and readelf must not list it as needed. Exit code 77: none is there.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LOADER = "/lib64/ld-linux-x86-64.so.2"

NVRTC = r"""
#include <stddef.h>
int nvrtcCreateProgram(void **, const char *, const char *, int, const char *const *, const char *const *);
int nvrtcCompileProgram(void *, int, const char *const *);
int main(void) {
  void *program = NULL;
  int result = nvrtcCreateProgram(&program, "__global__ void k(int *p) { *p = 1; }", "k.cu", 0, NULL, NULL);
  return result ? 100 + result : nvrtcCompileProgram(program, 0, NULL);
}
"""

CUDNN = r"""
int cudnnCreateTensorDescriptor(void **);
int cudnnCreateRNNDescriptor(void **);
int cudnnCreateConvolutionDescriptor(void **);
int main(void) {
  void *a, *b, *c;
  return cudnnCreateTensorDescriptor(&a) || cudnnCreateRNNDescriptor(&b) || cudnnCreateConvolutionDescriptor(&c);
}
"""

WORKS, NO_BUILTINS = 0, 7  # NVRTC_ERROR_BUILTIN_OPERATION_FAILURE


def libraries(folders, name):
    found = {path.resolve() for folder in folders for path in Path(folder).rglob(name) if "stubs" not in path.parts}
    if not found:
        print(f"skipped: no {name} below {' '.join(folders)}")
        sys.exit(77)
    return sorted(found)


def soname(path):
    text = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    return re.search(r"soname: \[(.*)\]", text)[1]


def has_search_path(path):
    return "PATH)" in subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout


def link(source, bundle, libs, *options):
    """bundle/bin/app, which needs `libs` of bundle/lib."""
    (bundle / "bin").mkdir(exist_ok=True)
    (bundle / "app.c").write_text(source)
    subprocess.run([os.environ.get("CC", "cc"), bundle / "app.c", "-o", bundle / "bin/app", "-Wl,--no-as-needed",
                    "-Wl,--allow-shlib-undefined", *[bundle / "lib" / lib for lib in libs],
                    "-Wl,-rpath,$ORIGIN/../lib", *options], check=True)
    (bundle / "app.c").unlink()


def start(bundle):
    """Exit code, and the names that the loader was asked for."""
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    done = subprocess.run([LOADER, "--inhibit-cache", bundle / "bin/app"], capture_output=True, text=True,
                          env={**environment, "LD_DEBUG": "libs"})
    return done.returncode, set(re.findall(r"find library=(\S+) ", done.stderr))


def opens(cudeploy, path, name):
    record = json.loads(subprocess.run([cudeploy, "inspect", "--format", "json", path], capture_output=True, text=True,
                                       check=True).stdout)
    file = next(file for file in record["files"] if file["soname"] == name)
    return {one["name"] for one in file["vendor"]["opens"] if one["always"]}


def flagged(cudeploy, bundle):
    done = subprocess.run([cudeploy, "audit", "--format", "json", bundle], capture_output=True, text=True)
    return [one["message"] for one in json.loads(done.stdout)["findings"] if one["name"] == "companion-missing"]


def nvrtc(cudeploy, folders, scratch):
    failures = 0
    for number, library in enumerate(libraries(folders, "libnvrtc.so.[0-9]*")):
        name = soname(library)
        told = opens(cudeploy, library, name)
        builtins = [path for path in library.parent.glob("libnvrtc-builtins.so.*") if not path.is_symlink()]
        # name of the case -> files beside it, what else the program needs, options of its link
        cases = {"ldd's view": ([], [], []), "builtins beside it": (builtins, [], []),
                 "an RPATH": (builtins, [], ["-Wl,--disable-new-dtags"]),
                 "builtins needed by the program": (builtins, [soname(one) for one in builtins], [])}
        seen = {}
        for case, (files, libs, options) in cases.items():
            bundle = scratch / f"{number}-{case.replace(' ', '-')}"
            (bundle / "lib").mkdir(parents=True)
            for file in [library, *files]:
                shutil.copy(file, bundle / "lib" / soname(file))
            link(NVRTC, bundle, [name, *libs], *(options or ["-Wl,--enable-new-dtags"]))
            code, asked = start(bundle)
            said = flagged(cudeploy, bundle)
            seen[case] = code
            wrong = [] if code in (WORKS, NO_BUILTINS) else ["another exit code than 0 and 7"]
            if (code == WORKS) != (not said):
                wrong.append("the audit says otherwise")
            if not told or not told <= asked:
                wrong.append(f"the loader was not asked for {told or 'what is told: nothing'}")
            for each in wrong:
                failures += 1
                print(f"FAILED: {library}: {case}: {each}; exit code {code}, findings {said}")
            print(f"{library}: {case}: exit code {code}, {len(said)} findings")
        # Cases that cannot tell good from bad would prove nothing.
        expected = {"ldd's view": NO_BUILTINS, "builtins beside it": WORKS if has_search_path(library) else NO_BUILTINS,
                    "an RPATH": WORKS, "builtins needed by the program": WORKS}
        if seen != expected:
            failures += 1
            print(f"FAILED: {library}: expected {expected}, found {seen}")
    return failures


def cudnn(cudeploy, folders, scratch):
    failures = 0
    for library in libraries(folders, "libcudnn.so.[0-9]*"):
        name = soname(library)
        told = opens(cudeploy, library, name)
        (scratch / "lib").mkdir()
        for part in library.parent.glob("libcudnn*.so.[0-9]*"):
            (scratch / "lib" / part.name).symlink_to(part.resolve())
        link(CUDNN, scratch, [name], "-Wl,--disable-new-dtags")
        code, asked = start(scratch)
        # Each part is tried with its whole version first, and with less of it where that is not there.
        parts = {re.sub(r"(\.so\.\d+)[.\d]*$", r"\1", one) for one in asked if one.startswith("libcudnn_")}
        if code != 0 or parts != told or not told:
            failures += 1
            print(f"FAILED: {library}: exit code {code}, the loader was asked for {parts}, told was {told}")
        print(f"{library}: {sorted(told)}")
    return failures


# soname -> names. The libcusparse of the Python package nvidia-cusparse 12.9.4.2 opens nvJitLink; CUDA 13.0's needs it.
OPTIONAL = {"libcupti.so.13": {"libnvperf_host.so"},
            "libcufft.so.12": {"libnvJitLink.so.13", "libnvrtc.so.13"},
            "libcusparse.so.12": {"libnvJitLink.so.13"}}


def optional(cudeploy, folders, scratch):
    failures, seen = 0, set()
    for folder in folders:
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as package:
                for member in package.namelist():
                    if Path(member).name.startswith(tuple(OPTIONAL)):
                        package.extract(member, scratch)
    for library in libraries([*folders, scratch], "lib*.so*"):
        name = next((one for one in OPTIONAL if library.name.startswith(one)), None)
        if name is None:
            continue
        needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        texts = subprocess.run(["strings", "-n", "8", library], capture_output=True, text=True, check=True).stdout.split("\n")
        expected = {one for one in OPTIONAL[name] if one in texts and f"[{one}]" not in needed}
        record = json.loads(subprocess.run([cudeploy, "inspect", "--format", "json", library], capture_output=True, text=True,
                                           check=True).stdout)["files"][0]
        told = {one["name"] for one in record["vendor"]["opens"] if not one["always"]}
        always = [one["name"] for one in record["vendor"]["opens"] if one["always"]]
        if told != expected or always:
            failures += 1
            print(f"FAILED: {library}: told was {told} and always {always}, expected {expected} and none always")
        if expected == OPTIONAL[name]:
            seen.add(name)
        print(f"{library}: {sorted(told)}")
    if seen != OPTIONAL.keys():
        failures += 1
        print(f"FAILED: no file opened all that it can of {sorted(OPTIONAL.keys() - seen)}")
    return failures


if __name__ == "__main__":
    case, command, *where = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(1 if {"nvrtc": nvrtc, "cudnn": cudnn, "optional": optional}[case](command, where, Path(folder)) else 0)
