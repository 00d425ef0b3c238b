"""Programs and libraries whose runtime is known, since they were linked here: labelled_runtimes_test.py CUDEPLOY TOOLKIT CUDART-STATIC

Linked static, shared, unified and without any runtime, as a program and as a library, plain, stripped, and with sections
collected and stripped: `inspect` finds what is there, and nothing else. The version is what the runtime itself says when
the program asks it (which needs no GPU), or unknown with that release among the candidates.
Exit code 77: this machine lacks a part, and says which.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

CODE = r"""
#include <cstdio>
__global__ void k(float *p) { *p *= 2; }
extern "C" int version() {
  int v = 0;
  k<<<1, 1>>>(nullptr);
  return cudaRuntimeGetVersion(&v) ? -1 : v;
}
#ifdef PROGRAM
int main() { std::printf("%d", version()); }
#endif
"""
NO_RUNTIME = {"program": "int main() { return 0; }", "library": 'extern "C" int version() { return 1; }'}
FINISHES = {"plain": ([], False), "stripped": ([], True), "collected": (["-Wl,--gc-sections"], True)}


def run(*words, cwd):
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def kit_of(cudeploy, cudart, include, folder):
    """The libraries and options of a link that joins the one state."""
    run(cudeploy, "link-kit", "--cudart", cudart, "-o", "kit", cwd=folder)
    kit = json.loads((folder / "kit/link-kit.json").read_text())
    includes = [f"-I{path}" for path in kit["include_directories"]] + ["-isystem", include]
    for source in kit["sources"]:
        run("c++", *kit["compile_options"], *includes, "-c", source, cwd=folder / "kit")
    run("ar", "rcs", "kit/libcudeploy_runtime.a", *(folder / "kit").glob("*.o"), cwd=folder)
    archive, *libraries = kit["libraries"]
    return [*kit["link_options"], "kit/libcudeploy_runtime.a", archive, *[f"-l{library}" for library in libraries]]


def copies_of(cudeploy, path):
    (file,) = json.loads(run(cudeploy, "inspect", "--format", "json", path, cwd=path.parent))["files"]
    return file["runtime_copies"], file["problems"]


def main():
    cudeploy, toolkit, cudart = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if not cudart.is_file():
        print("skipped: no libcudart_static.a in the toolkit of the tests")
        return 77
    shared = sorted(cudart.parent.glob("libcudart.so.[0-9]*"))
    if not shared:
        print(f"skipped: no libcudart.so in {cudart.parent}")
        return 77
    wrong, looked_at = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "code.cu").write_text(CODE)
        system = ["-ldl", "-lpthread", "-lrt"]
        links = {"private-static": [cudart, *system], "needs-shared": [shared[0], *system],
                 "unified": kit_of(cudeploy, cudart, toolkit / "include", folder), None: []}
        for shape, options in (("program", ["-DPROGRAM"]), ("library", [])):
            run(toolkit / "bin/nvcc", *options, "-Xcompiler", "-fPIC,-ffunction-sections", "-c", "code.cu", "-o",
                f"{shape}.o", cwd=folder)
            (folder / f"none-{shape}.cpp").write_text(NO_RUNTIME[shape])
            for kind, libraries in links.items():
                for finish, (more, strip) in FINISHES.items():
                    out = folder / f"{kind}-{shape}-{finish}"
                    source = f"{shape}.o" if kind else f"none-{shape}.cpp"
                    run("c++", "-fPIC", *(["-shared"] if shape == "library" else []), source, *more, *libraries, "-o",
                        out, f"-Wl,-rpath,{cudart.parent}", cwd=folder)
                    if strip:
                        run("strip", "-R", ".comment", out, cwd=folder)
                    copies, problems = copies_of(cudeploy, out)
                    looked_at += 1
                    if [copy["kind"] for copy in copies] != ([kind] if kind else []) or problems:
                        wrong.append(f"{out.name}: found {copies} and {problems}")
                        continue
                    if not kind or shape == "library":
                        continue
                    said = int(run(out, cwd=folder))
                    release = f"{said // 1000}.{said % 1000 // 10}"
                    version, candidates = copies[0]["version"], copies[0].get("candidates", [])
                    # A soname tells the major only; a level that later releases share tells "or a later release".
                    known = version == release or (not version and (
                        kind == "needs-shared" or release in candidates or "or a later release" in copies[0]["evidence"]))
                    if not known:
                        wrong.append(f"{out.name}: the runtime says {release}, inspect {version} of {candidates}")
        # A library that nobody gave a runtime leaves its needs open: nothing is there, and nothing is asked for by name.
        run("c++", "-shared", "-fPIC", "library.o", "-o", "open.so", cwd=folder)
        if copies_of(cudeploy, folder / "open.so")[0]:
            wrong.append("open.so: a runtime is found where none was linked")
    print(f"{looked_at + 1} files looked at")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
