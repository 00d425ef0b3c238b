"""Three readers of ELF files that are not ours say the same as `cudeploy inspect`: elf_facts_test.py CASE ...

  libraries CUDEPLOY LIEF-FOLDER LIBRARY-FOLDER    every library of a toolkit
  system CUDEPLOY LIEF-FOLDER                      every library that this machine's loader knows, and some programs
  built CUDEPLOY LIEF-FOLDER CUDART-STATIC SOURCES what several linkers make, for two machines
  stubs CUDEPLOY NVCC                              the host functions of kernels, which other objects can see or not

The judges: binutils' readelf, elfutils' eu-readelf, and the current LIEF (the command is built with an old one).
Compared of every file: NEEDED, soname, RPATH, RUNPATH, interpreter, flags, defined versions. Of notes the record holds
that of cudeploy's own runtime; of dynamic symbols those behind each needed version, and the exported functions that told
who made a file: both are compared too. By readelf alone the stubs of kernels, weak or not. Exit code 77: this machine lacks a part, and says which.
"""

import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SINGLE = ("soname", "rpath", "runpath", "interpreter")
FLAGS = {"NODELETE", "NODEFLIB", "SYMBOLIC"}
NOTE_OWNER, NOTE_TYPE = "cudeploy", 1
NOTE_CONTENT_UNSHOWN = "there"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="surrogateescape", check=True).stdout


def no_facts():
    return {"needed": [], **{field: None for field in SINGLE}, "flags": set(), "definitions": [], "needs": {},
            "generation": None, "exports": set()}


def generation(description):
    """The first two fields of the note, as runtime_static/anchor.hpp says them: anchor ABI, CUDA major."""
    abi, major = struct.unpack_from("<II", bytes(description))
    return f"{major}_{abi}"


def with_symbols(facts, libraries, symbols):
    """facts["needs"] from {index: (library, version)} and [(index, symbol)]."""
    facts["needs"] = {need: [] for need in libraries.values()}
    for index, symbol in symbols:
        if index in libraries:
            facts["needs"][libraries[index]].append(symbol)
    return facts


def versions_of(text, facts, libraries):
    """What readelf and eu-readelf print alike of the version sections."""
    library = None
    for line in text.splitlines():
        if match := re.search(r"Version: 1 +File: (.+?) +Cnt: ", line):
            library = match[1]
        elif match := re.search(r"0x[0-9a-f]+: +Name: (\S+) +Flags: .* Version: (\d+)$", line.rstrip()):
            libraries[int(match[2])] = library, match[1]
        elif match := re.search(r"0[0-9a-fx]+: (?:Rev|Version): 1 +Flags: (.*?) +Index: \d+ +Cnt: \d+ +Name: (\S+)", line):
            if "BASE" not in match[1]:
                facts["definitions"].append(match[2])


def symbols_of(text):
    """(version index, symbol) of the rows of a dynamic symbol table."""
    for line in text.splitlines():
        if match := re.match(r" *\d+: [0-9a-f]+ .* (\S+?)@+\S+ \((\d+)\)$", line.rstrip()):
            yield int(match[2]), match[1]


def exports_of(text):
    """The functions of a dynamic symbol table that others can call, as both readelfs print it."""
    return set(re.findall(r" FUNC +(?:GLOBAL|WEAK) +DEFAULT +(?:\[.*\] +)?\d+ ([^@\s]+)", text))


def dynamic_of(rows, facts):
    """(tag, text) of a dynamic table."""
    for tag, text in rows:
        value = re.search(r"\[(.*)\]$", text)
        if tag == "NEEDED":
            facts["needed"].append(value[1])
        elif tag.lower() in SINGLE:
            facts[tag.lower()] = value[1]
        elif tag in ("FLAGS", "FLAGS_1", "SYMBOLIC"):
            facts["flags"] |= FLAGS & set(text.split()) | ({"SYMBOLIC"} if tag == "SYMBOLIC" else set())


def by_readelf(path):
    facts, libraries = no_facts(), {}
    dynamic_of(re.findall(r"^ 0x[0-9a-f]+ \((\w+)\) +(.*)$", run("readelf", "-dW", path), re.M), facts)
    versions_of(run("readelf", "-W", "--version-info", path), facts, libraries)
    if match := re.search(r"\[Requesting program interpreter: (.*)\]", run("readelf", "-lW", path)):
        facts["interpreter"] = match[1]
    if match := re.search(rf"^ *{NOTE_OWNER}\s.*description data: ([0-9a-f ]+)$", run("readelf", "-nW", path), re.M):
        facts["generation"] = generation(bytes.fromhex(match[1]))
    table = run("readelf", "-W", "--dyn-syms", path)
    facts["exports"] = exports_of(table)
    return with_symbols(facts, libraries, symbols_of(table))


def by_eu_readelf(path):
    facts, libraries = no_facts(), {}
    dynamic_of(re.findall(r"^  ([A-Z_0-9]+) +(.*)$", run("eu-readelf", "-d", path), re.M), facts)
    versions = run("eu-readelf", "-V", path)
    versions_of(versions, facts, libraries)
    if match := re.search(r"\[Requesting program interpreter: (.*)\]", run("eu-readelf", "-l", path)):
        facts["interpreter"] = match[1]
    if re.search(rf"^ *{NOTE_OWNER} +\d+ .*\b{NOTE_TYPE}$", run("eu-readelf", "-n", path), re.M):
        facts["generation"] = NOTE_CONTENT_UNSHOWN
    # Its symbol table names no version of a copied symbol in .data.rel.ro; the table of versions does.
    indices = {}
    for line in re.findall(r"^ +[0-9]+: +[0-9]+h? .*$", versions, re.M):
        first, rest = line.split(":", 1)
        for place, index in enumerate(re.findall(r"(\d+)h? +[^\s\d]\S*", rest)):
            indices[int(first) + place] = int(index)
    table = run("eu-readelf", "-s", "--symbols=.dynsym", path)
    facts["exports"] = exports_of(table)
    rows = re.findall(r"^ *(\d+): [0-9a-f]{8,16} .*? (\S+?)(?:@\S+(?: \(\d+\))?)?$", table, re.M)
    return with_symbols(facts, libraries, [(indices.get(int(row), 0), name) for row, name in rows])


def by_lief(lief, path):
    elf = lief.ELF.parse(str(path))
    facts, libraries, tag = no_facts(), {}, lief.ELF.DynamicEntry.TAG
    for entry in elf.dynamic_entries:
        if entry.tag == tag.NEEDED:
            facts["needed"].append(entry.name)
        elif entry.tag == tag.SONAME:
            facts["soname"] = entry.name
        elif entry.tag == tag.RPATH:
            facts["rpath"] = entry.rpath
        elif entry.tag == tag.RUNPATH:
            facts["runpath"] = entry.runpath
        elif entry.tag == tag.SYMBOLIC:
            facts["flags"].add("SYMBOLIC")
        elif entry.tag in (tag.FLAGS, tag.FLAGS_1):
            facts["flags"] |= FLAGS & {flag.name for flag in entry.flags}
    if elf.has_interpreter:
        facts["interpreter"] = elf.interpreter
    for definition in elf.symbols_version_definition:
        if not definition.flags & 1:
            facts["definitions"].append(list(definition.auxiliary_symbols)[0].name)
    for need in elf.symbols_version_requirement:
        for version in need.get_auxiliary_symbols():
            libraries[version.other & 0x7fff] = need.name, version.name
    for note in elf.notes:
        if note.name.rstrip("\0") == NOTE_OWNER and note.original_type == NOTE_TYPE:
            facts["generation"] = generation(note.description)
    facts["exports"] = {symbol.name for symbol in elf.dynamic_symbols
                        if symbol.type == lief.ELF.Symbol.TYPE.FUNC and symbol.shndx != 0
                        and symbol.binding in (lief.ELF.Symbol.BINDING.GLOBAL, lief.ELF.Symbol.BINDING.WEAK)
                        and symbol.visibility == lief.ELF.Symbol.VISIBILITY.DEFAULT}
    rows = [(symbol.symbol_version.value & 0x7fff, symbol.name) for symbol in elf.dynamic_symbols if symbol.symbol_version]
    return with_symbols(facts, libraries, rows)


def by_cudeploy(record):
    facts = no_facts()
    facts["needed"] = record["needed"]
    facts["soname"], facts["interpreter"] = record["soname"], record["interpreter"]
    for field in ("rpath", "runpath"):
        facts[field] = ":".join(record[field]) if record[field] else None
    facts["flags"] = {flag for flag in FLAGS if record[flag.lower()]}
    facts["definitions"] = record["version_definitions"]
    facts["needs"] = {(need["library"], need["version"]): need["symbols"] for need in record["version_needs"]}
    for copy in record["runtime_copies"]:
        facts["generation"] = copy.get("generation", facts["generation"])
    # Those that it names as its reason: "soname libnvperf_host.so, exports NVPW_InitializeHost".
    if record["vendor"]:
        facts["exports"] = set(re.findall(r"exports (\w{8,})", record["vendor"]["evidence"]))
    return facts


def compare(cudeploy, lief_folder, paths, least):
    sys.path.insert(0, lief_folder)
    try:
        import lief
    except ImportError as error:
        skip(f"no LIEF for this Python: {error}")
    for tool in ("readelf", "eu-readelf"):
        if not shutil.which(tool):
            skip(f"no {tool}")
    lief.logging.disable()
    done = subprocess.run([cudeploy, "inspect", "--format", "json", *map(str, paths)], capture_output=True, text=True)
    records = {Path(record["path"]): record for record in json.loads(done.stdout)["files"]}
    wrong, counts = [], {"files": 0, "needed versions": 0, "symbols behind them": 0, "notes": 0,
                     "exports that told the maker": 0}
    with ThreadPoolExecutor(2) as pool:
        judges = {"readelf": list(pool.map(by_readelf, paths)), "eu-readelf": list(pool.map(by_eu_readelf, paths)),
                  f"LIEF {lief.__version__}": [by_lief(lief, path) for path in paths]}
    for index, path in enumerate(paths):
        ours = by_cudeploy(records[path])
        wrong += [f"{path}: problem: {problem['message']}" for problem in records[path]["problems"]]
        for judge, facts in judges.items():
            for field, theirs in facts[index].items():
                if theirs == NOTE_CONTENT_UNSHOWN and ours[field] is not None:
                    continue
                if not ours[field] <= theirs if field == "exports" else ours[field] != theirs:
                    wrong.append(f"{path}: {field}: cudeploy {ours[field]}, {judge} {str(theirs)[:500]}")
        counts["files"] += 1
        counts["needed versions"] += len(ours["needs"])
        counts["symbols behind them"] += sum(map(len, ours["needs"].values()))
        counts["notes"] += ours["generation"] is not None
        counts["exports that told the maker"] += len(ours["exports"])
    print(", ".join(f"{count} {what}" for what, count in counts.items()), "compared with", ", ".join(judges))
    if counts["files"] < least or counts["symbols behind them"] < least:
        wrong.append(f"expected at least {least} files and symbols")
    return wrong


def libraries(cudeploy, lief_folder, folder):
    paths = sorted({path.resolve() for path in Path(folder).glob("*.so*")})
    return compare(cudeploy, lief_folder, paths, 1)


def system(cudeploy, lief_folder):
    known = re.findall(r"=> (/.*)$", run("/sbin/ldconfig", "-p"), re.M)
    programs = filter(None, map(shutil.which, ("bash", "cmake", "gcc", "git", "ld", "python3")))
    paths = {Path(path).resolve() for path in [*known, *programs]}
    return compare(cudeploy, lief_folder, sorted(path for path in paths if path.open("rb").read(4) == b"\x7fELF"), 50)


SOURCES = {
    "one.c": "int one(int x) { return x + 1; }\nint old(int x) { return x; }\n",
    "one.map": "ONE_1 { global: one; local: *; };\nONE_2 { global: old; } ONE_1;\n",
    "two.c": "#include <math.h>\n#include <stdio.h>\nint one(int); int old(int);\n"
             "double two(double x) { printf(\"%f\", x); return cos(x) + one(1) + old(2); }\n",
    "main.c": "#include <stdio.h>\ndouble two(double);\nint main(void) { fputs(\"x\", stdout); return two(1) > 3; }\n",
    "call.c": "int cudaDeviceReset(void); int call(void) { return cudaDeviceReset(); }\n",
}


def link_unified(cudeploy, cudart, sources, folder, output):
    run(cudeploy, "link-kit", "--cudart", cudart, "--sources", sources, "--out", folder / "kit")
    kit = json.loads((folder / "kit" / "link-kit.json").read_text())
    objects = []
    for source in kit["sources"]:
        objects.append(folder / f"{Path(source).stem}.o")
        run("g++", *kit["compile_options"], *(f"-I{path}" for path in kit["include_directories"]), "-c", source, "-o", objects[-1])
    names = [name if name.startswith("/") else f"-l{name}" for name in kit["libraries"]]
    run("gcc", "-shared", "-fPIC", folder / "call.c", *objects, *kit["link_options"], *names, "-o", output)


def built(cudeploy, lief_folder, cudart, sources):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in SOURCES.items():
            (folder / file).write_text(text)
        made = []
        for linker in ("bfd", "gold", "lld", "mold"):
            if not shutil.which("mold" if linker == "mold" else f"ld.{linker}"):
                print(f"not tried: {linker} is not installed")
                continue

            def link(output, *words):
                made.append(folder / output)
                run("gcc", f"-fuse-ld={linker}", *words, "-o", made[-1])
            one, two = f"libone-{linker}.so", f"libtwo-{linker}.so"
            link(one, "-shared", "-fPIC", folder / "one.c", f"-Wl,-soname,{one},--version-script={folder}/one.map")
            link(two, "-shared", "-fPIC", folder / "two.c", folder / one, "-lm",
                 "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib:/opt/x,-z,nodelete")
            link(f"main-{linker}", "-no-pie", folder / "main.c", folder / two, folder / one,
                 "-Wl,--enable-new-dtags,-rpath,$ORIGIN::/opt/x,-z,nodefaultlib")
            link(f"nowhere-{linker}.so", "-shared", "-fPIC", folder / "one.c", "-Wl,--enable-new-dtags,-rpath,NONE")
            # No linker writes a search path that is there and empty; patchelf does.
            made[-1].write_bytes(made[-1].read_bytes().replace(b"NONE\0", b"\0\0\0\0\0"))
            link(f"pie-{linker}", "-pie", "-fPIE", folder / "main.c", folder / two, folder / one)
            link(f"sysv-{linker}.so", "-s", "-shared", "-fPIC", folder / "two.c", "-lm", "-Wl,--hash-style=sysv,-Bsymbolic")
            link(f"gnu-{linker}.so", "-shared", "-fPIC", folder / "two.c", "-lm", "-Wl,--hash-style=gnu")
        if shutil.which("aarch64-linux-gnu-gcc"):
            made.append(folder / "aarch64.so")
            run("aarch64-linux-gnu-gcc", "-shared", "-fPIC", folder / "two.c", "-lm", "-o", made[-1])
        else:
            print("not tried: aarch64-linux-gnu-gcc is not installed")
        made.append(folder / "libunified.so")
        link_unified(cudeploy, cudart, sources, folder, made[-1])
        wrong = compare(cudeploy, lief_folder, sorted(made), 10)
        record = json.loads(run(cudeploy, "inspect", "--format", "json", folder / "libunified.so"))["files"][0]
        if by_cudeploy(record)["generation"] is None:
            wrong.append("the note of the unified runtime was compared nowhere")
        return wrong


KERNELS = """
template <typename T> __global__ void scale(T* x) { *x *= 2; }
template <typename T> struct Box { T* at; };
template <int N, typename T> __global__ void fill(Box<T> box) { *box.at = N; }
namespace deep { __global__ void add(int* x) { *x += 1; } }
extern "C" __global__ void plain(float* x) { *x = 1; }
static __global__ void hidden(float* x) { *x = 3; }
void visible_but_no_stub() {}
void run(float* x, int* y) {
  scale<<<1, 1>>>(x);
  scale<<<1, 1>>>(y);
  fill<3><<<1, 1>>>(Box<float>{x});
  deep::add<<<1, 1>>>(y);
  plain<<<1, 1>>>(x);
  hidden<<<1, 1>>>(x);
}
"""


def functions(*command):
    """name -> weak, of the defined functions of a symbol table that others can see."""
    found = re.findall(r" FUNC +(GLOBAL|WEAK) +(?:DEFAULT|PROTECTED) +(?:\[.*\] +)?\d+ (\S+)$", run(*command), re.M)
    return {name: binding == "WEAK" for binding, name in found}


def stubs(cudeploy, nvcc):
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernels.cu").write_text(KERNELS)
        for seen in ("visible", "hidden"):
            words = [f"-static-global-template-stub={str(seen == 'hidden').lower()}",
                     f"-device-entity-has-hidden-visibility={str(seen == 'hidden').lower()}"]
            run(nvcc, "-cubin", "-arch=sm_90", *words, folder / "kernels.cu", "-o", folder / "kernels.cubin")
            library = folder / f"lib{seen}.so"
            run(nvcc, "-arch=sm_90", "-Xcompiler", "-fPIC", "-shared", "-cudart", "none", *words, folder / "kernels.cu", "-o", library)
            names = re.findall(r" FUNC .* (\S+)$", run("readelf", "-sW", folder / "kernels.cubin"), re.M)
            exported = functions("readelf", "--dyn-syms", "-W", library)
            expected = {name: weak for name, weak in exported.items() if name in names}
            (record,) = json.loads(run(cudeploy, "inspect", "--kernels", "--format", "json", library))["files"]
            told = {stub["name"]: stub["weak"] for stub in record["exported_stubs"]}
            print(f"{seen}: {len(names)} kernels, {len(exported)} functions seen by others, {len(told)} of them stubs, "
                  f"{sum(told.values())} weak")
            if told != expected:
                wrong.append(f"{seen}: cudeploy says {told}, readelf {expected}")
            if len(names) < 6 or len(exported) <= len(expected):
                wrong.append(f"{seen}: kernels are {names}, the library has {exported}: too few to tell stubs from others")
            if (seen == "visible") != (set(expected.values()) == {True, False}):
                wrong.append(f"{seen}: expected stubs both weak and not where they are visible and none where not: {expected}")
    return wrong


def main():
    cases = {"libraries": libraries, "system": system, "built": built, "stubs": stubs}
    wrong = cases[sys.argv[1]](*sys.argv[2:])
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
