"""NVIDIA's own lister decides whether cudeploy reads device code rightly: cuobjdump_test.py CASE ...

  places CUDEPLOY LIBRARY-FOLDER TABLE                       every byte of the sections for device code, and where else
  libraries CUDEPLOY CUOBJDUMP-FOLDER LIBRARY-FOLDER [TABLE] [FILES/JUDGE=OLDER-TABLE]
                                                             every library of a toolkit, static ones too: the same images
  wheel CUDEPLOY CUOBJDUMP-FOLDER OLDER-CUOBJDUMP-FOLDER WHEEL-FOLDER WHEEL-NAME WHEELS TABLE   the ELF files of a wheel
  newest CUDEPLOY CUOBJDUMP-FOLDER NVCC-FOLDER TILEIRAS-FOLDER   concatenated and tile images, relocatable ones too
  variants CUDEPLOY CUOBJDUMP-FOLDER NVCC                    a and f, as its dumps say and as the compiler was told
  resources CUDEPLOY CUOBJDUMP-FOLDER NVCC                   kernels, registers and shared memory of compiled cubins
  kernels CUDEPLOY CUOBJDUMP-FOLDER LIBRARY-FOLDER           the same of the libraries of a toolkit
  ptx CUDEPLOY CUOBJDUMP-FOLDER LIBRARY-FOLDER               version, target and entries of each PTX text of these

Where the two must differ, TABLE says so: one line per file, kind, architecture, how many more images cudeploy
lists, and why. A difference without a line fails, and so does a line without a difference. OLDER-TABLE has two versions
in front, as 13.0/12.4: files of CUDA 13.0, listed by cuobjdump 12.4; or the files' alone, for each lister.
In the table of wheels (WHEELS is tests/corpus/wheels.json, which names the members), the name of the wheel is in front.
Exit code 77: this machine lacks a part, and says which.
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# cuobjdump lists neither LTO-IR nor the f of a cubin for a family: 120f is 120 to it. Its dumps tell (variants).
LISTED_KINDS = {"cubin", "ptx"}

NAMED_SECTIONS = {".nv_fatbin", "__nv_relfatbin"}

SOURCE = """
__global__ void plain(float* p) { p[threadIdx.x] *= 2; }
__global__ void tile(float* p) {
  __shared__ float s[256];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[255 - threadIdx.x];
}
template <int N> __global__ void sized(double* p) {
  __shared__ double s[N];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[(threadIdx.x + 1) % N] * 2;
}
template __global__ void sized<64>(double*);
template __global__ void sized<1024>(double*);
__global__ void dynamic(float* p) {
  extern __shared__ float d[];
  d[threadIdx.x] = p[0];
  __syncthreads();
  p[1] = d[3];
}
"""


class Refused(Exception):
    """The lister does not read this file at all."""


TILE_SOURCE = """
__global__ void simt(float* p) { *p = 1; }
__tile_global__ void tile(float* p) { }
extern "C" int call(float* p) { simt<<<1, 1>>>(p); return 0; }
"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def cuobjdump_in(folder):
    found = sorted(Path(folder).rglob("cuobjdump"))
    if not found:
        skip(f"no cuobjdump in {folder}")
    return found[0]


def inspect(cudeploy, *arguments):
    done = subprocess.run([cudeploy, "inspect", "--format", "json", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"cudeploy inspect: exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["files"]


def listed(cuobjdump, file):
    """Counter of (kind, architecture) from lines such as `ELF file    1: name.1.sm_90a.cubin`."""
    images = Counter()
    for option, kind in (("-lelf", "cubin"), ("-lptx", "ptx")):
        done = subprocess.run([cuobjdump, "-all", option, file], capture_output=True, text=True)
        if "does not contain device code" in done.stderr or f"No {'ELF' if kind == 'cubin' else 'PTX'} file found" in done.stderr:
            continue
        if done.returncode != 0:
            raise Refused(f"{file.name}: cuobjdump {option} failed: {done.stderr}")
        for line in done.stdout.splitlines():
            match = re.fullmatch(r"(?:ELF|PTX) file +\d+: .*\.sm_(\d+[af]?)\.(?:cubin|ptx)", line)
            if not match and line and not line.startswith("member "):
                raise SystemExit(f"{file.name}: cuobjdump {option} says what this test does not know: {line}")
            if match:
                images[kind, match[1]] += 1
    return images


def read(record):
    images = Counter()
    for container in record["fat_binaries"]:
        for image in container["images"]:
            if image["kind"] in LISTED_KINDS:
                images[image["kind"], f"{image['arch']}{listed_variant(image)}"] += 1
    return images


def listed_variant(image):
    return "" if image["kind"] == "cubin" and image["variant"] == "f" else image["variant"]


def read_table(path, label=None):
    """(file, kind, architecture) -> how many more. With a label: of its lines only. A file that the lister refuses as a
    whole: kind and architecture are `refused all`, and the number is 1."""
    rows = {}
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if label:
            own, line = line.split(None, 1)
            if own not in (label, label.split("/")[0]):
                continue
        file, kind, architecture, count, why = line.split(None, 4)
        key = file, kind, architecture
        if key in rows or kind not in LISTED_KINDS | {"refused"} or int(count) == 0:
            raise SystemExit(f"{path}:{number}: not a row of file, kind, architecture, count, why")
        rows[key] = int(count)
    return rows


def real_libraries(folder):
    """The folder's libraries, each once."""
    return sorted({path.resolve() for path in Path(folder).glob("*.so*")})


def inspect_libraries(cudeploy, folder):
    """soname -> record: the tables know libraries by soname, since file names differ between packages."""
    records = {}
    for record in inspect(cudeploy, *real_libraries(folder)):
        records[record["soname"] or Path(record["path"]).name] = record
    return records


def skip_without(files, names):
    missing = sorted(set(files) - set(names))
    if missing:
        skip(f"this toolkit has no {', '.join(missing)}")


def sections_of(path):
    """name -> (offset, size) of a 64-bit ELF file, by the ELF specification alone."""
    with path.open("rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            return {}
        offset, = struct.unpack_from("<Q", header, 40)
        size, count, names = struct.unpack_from("<HHH", header, 58)
        file.seek(offset)
        rows = [struct.unpack_from("<II4Q", file.read(size)) for _ in range(count)]
        file.seek(rows[names][4])
        text = file.read(rows[names][5])
    return {text[row[0]:text.index(b"\0", row[0])].decode(): (row[4], row[5]) for row in rows}


def places(cudeploy, library_folder, table):
    records = inspect_libraries(cudeploy, library_folder)
    rows = {}
    for line in Path(table).read_text().splitlines():
        if line and not line.startswith("#"):
            file, section, containers, loose = line.split()
            rows[file, section] = int(containers), int(loose)
    skip_without({file for file, _ in rows}, records)
    wrong, bytes_seen, found = [], 0, {}
    for name, record in records.items():
        path = Path(record["path"])
        by_section = defaultdict(list)
        for container in record["fat_binaries"]:
            by_section[container["section"]].append(container)
        sections = sections_of(path)
        for section in sorted(NAMED_SECTIONS & sections.keys()):
            offset, size = sections[section]
            with path.open("rb") as file:
                at = offset
                for container in by_section[section] + [{"offset": offset + size, "size": 0}]:
                    file.seek(at)
                    if container["offset"] < at or file.read(container["offset"] - at).strip(b"\0"):
                        wrong.append(f"{name} {section}: bytes {at} to {container['offset']} are not accounted for")
                    at = container["offset"] + container["size"]
            bytes_seen += size
        for section in by_section.keys() - NAMED_SECTIONS:
            loose = sum(1 for container in by_section[section] if container["images"] and container["images"][0]["entry_kind"] == 0)
            found[name, section] = len(by_section[section]) - loose, loose
    for file, section in sorted(found.keys() | rows.keys()):
        expected, here = rows.get((file, section), (0, 0)), found.get((file, section), (0, 0))
        if expected != here:
            wrong.append(f"{file} {section} {here[0]} {here[1]}: expected {expected[0]} containers and {expected[1]} loose images")
    print(f"{bytes_seen} bytes of device code sections accounted for, device code in {len(found)} other places")
    return wrong


def differences(ours, judged, rows):
    """Where (file -> counter) of cudeploy and of the lister differ, and no row says so; and rows without a use."""
    wrong, used = [], set()
    for name, theirs in judged.items():
        if isinstance(theirs, Refused):
            key = name, "refused", "all"
            if key not in rows:
                wrong.append(str(theirs))
            used.add(key)
            continue
        for kind, architecture in sorted(ours[name].keys() | theirs.keys()):
            key = name, kind, architecture
            mine, other = ours[name][kind, architecture], theirs[kind, architecture]
            if mine - other != rows.get(key, 0):
                wrong.append(f"{name} {kind} {architecture} {mine - other}: cudeploy lists {mine}, cuobjdump {other}, "
                             f"the table explains {rows.get(key, 0)}")
            if mine != other:
                used.add(key)
    wrong += [f"{' '.join(key)}: this row of the table is not needed" for key in sorted(rows.keys() - used)]
    return wrong


def list_all(cuobjdump, files):
    def one(file):
        try:
            return listed(cuobjdump, file)
        except Refused as refused:
            return refused
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, files))


def images_in(judged):
    return sum(sum(images.values()) for images in judged.values() if not isinstance(images, Refused))


def all_libraries(folder):
    """Static and shared libraries in and below a folder, each once; links are links."""
    return sorted(path for path in Path(folder).rglob("*") if re.search(r"\.a$|\.so[.\d]*$", path.name)
                  and path.is_file() and not path.is_symlink())


def compare(cudeploy, cuobjdump_folder, library_folder, *tables):
    """Libraries by soname, or by file name; those that only tell a linker what to expect lie in stubs/."""
    files = {str(path): path for path in all_libraries(library_folder)}
    images, names, wrong = defaultdict(Counter), {}, []
    for record in inspect(cudeploy, *files):
        path, _, member = record["path"].partition("!/")
        images[path] += read(record)
        name = not member and record["soname"] or Path(path).name
        names[path] = f"stubs/{name}" if files[path].parent.name == "stubs" else name
        wrong += [f"{record['path']}: problem: {problem['message']}" for problem in record["problems"]]
    if len(set(names.values())) != len(files):
        raise SystemExit(f"{len(files)} files, but {len(set(names.values()))} names of libraries: {sorted(names.values())}")
    rows = {}
    for table in tables:
        label, _, path = table.rpartition("=")
        own = read_table(path, label)
        if not label:
            skip_without({file for file, _, _ in own}, set(names.values()))
        for key, count in own.items():
            rows[key] = rows.get(key, 0) + count
    judged = dict(zip(map(names.get, files), list_all(cuobjdump_in(cuobjdump_folder), files.values())))
    wrong += differences({names[path]: counter for path, counter in images.items()}, judged, rows)
    print(f"{len(judged)} libraries, {sum(name.endswith('.a') for name in judged)} of them static, "
          f"{images_in(judged)} images listed by cuobjdump, {len(rows)} explained differences")
    if images_in(judged) < 1000:
        wrong.append(f"only {images_in(judged)} images were compared; a toolkit has thousands")
    return wrong


def wheel(cudeploy, newest_folder, older_folder, wheel_folder, name, wheels, table):
    """By the newest lister; what it refuses has a row that says so, and is judged by the older one."""
    (members,) = (row["members"] for row in json.loads(Path(wheels).read_text())["wheels"] if row["file"] == name)
    rows, wrong = read_table(table, name), []
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(Path(wheel_folder, name)) as package:
        files = {member: Path(package.extract(member, folder)) for member, row in members.items() if row["format"] == "elf"}
        by_path = {record["path"]: record for record in inspect(cudeploy, *files.values())}
        records = {member: by_path[str(path)] for member, path in files.items()}
        wrong += [f"{member}: problem: {problem['message']}" for member, record in records.items() for problem in record["problems"]]
        judged = dict(zip(files, list_all(cuobjdump_in(newest_folder), files.values())))
        refused = {member: files[member] for member, images in judged.items() if isinstance(images, Refused)}
        for member, images in zip(refused, list_all(cuobjdump_in(older_folder), refused.values())):
            if rows.pop((member, "refused", "all"), None) is None:
                wrong.append(str(judged[member]))
            judged[member] = images
    for member, images in judged.items():
        if isinstance(images, Refused):
            wrong.append(f"by the older lister: {images}")
    wrong += differences({member: read(record) for member, record in records.items()}, judged, rows)
    print(f"{len(judged)} libraries, {len(refused)} of them by the older cuobjdump, {images_in(judged)} images listed, "
          f"{len(rows)} explained differences")
    if not images_in(judged):
        wrong.append("no image was compared")
    return wrong


def newest(cudeploy, cuobjdump_folder, nvcc_folder, tileiras_folder):
    """A unit with a SIMT and a tile kernel has two fat binaries; --concat joins the images of each sort in one entry."""
    cuobjdump = cuobjdump_in(cuobjdump_folder)
    nvcc, tileiras = (next(Path(folder).rglob(name), None) for folder, name in
                      ((nvcc_folder, "bin/nvcc"), (tileiras_folder, "bin/tileiras")))
    environment = dict(os.environ, PATH=f"{nvcc.parent}:{tileiras.parent}:{os.environ['PATH']}")
    targets = [word for arch in ("75", "80", "100", "120") for word in ("-gencode", f"arch=compute_{arch},code=sm_{arch}")]
    targets += ["-gencode", "arch=compute_120,code=compute_120"]
    wrong, images, joined = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "tile.cu")
        source.write_text(TILE_SOURCE)
        files = []
        for number, options in enumerate(([], ["--concat"], ["-rdc=true"], ["-rdc=true", "--concat"])):
            unit, library = Path(folder, f"unit{number}.o"), Path(folder, f"library{number}.so")
            command = [nvcc, "-std=c++20", "--enable-tile", "-Xcompiler", "-fPIC", "-cudart", "none", *targets, *options]
            subprocess.run([*command, "-c", source, "-o", unit], env=environment, check=True)
            subprocess.run([*command, "-shared", unit, "-o", library], env=environment, check=True)
            files += [(unit, options), (library, options)]
        for (file, options), record in zip(sorted(files), inspect(cudeploy, "--payloads", *sorted(file for file, _ in files))):
            # The entry of a tile cubin does not say that it is for its GPU only; cudeploy says it beside, cuobjdump by an a.
            ours = Counter()
            for container in record["fat_binaries"]:
                for image in container["images"]:
                    variant = image["variant"] or ("a" if image["arch_specific"] else "")
                    ours[image["kind"], f"{image['arch']}{variant}"] += 1
                    joined += "group" in image
            what = f"{file.suffix} of nvcc {' '.join(options)}"
            theirs = listed(cuobjdump, file)
            images += sum(theirs.values())
            wrong += [f"{what}: {kind} {architecture}: cudeploy lists {ours[kind, architecture]}, cuobjdump {theirs[kind, architecture]}"
                      for kind, architecture in sorted(ours.keys() | theirs.keys())
                      if kind in LISTED_KINDS and ours[kind, architecture] != theirs[kind, architecture]]
            if ours["tile-ir", "120"] != 1:
                wrong.append(f"{what}: expected one image of tile IR, found {ours['tile-ir', '120']}")
            if ("--concat" in options) != any("group" in image for box in record["fat_binaries"] for image in box["images"]):
                wrong.append(f"{what}: concatenated entries where there are none, or none where there are some")
            # What --payloads finds wrong is the silent a of each tile cubin, and nothing else.
            told = [problem["message"] for problem in record["problems"]]
            tile_cubins = sum(count for (kind, arch), count in ours.items() if kind == "cubin" and arch in ("100a", "120a"))
            if len(told) != tile_cubins or not all("arch" in text or "variant" in text for text in told):
                wrong.append(f"{what}: problems: {told}")
    print(f"{len(files)} files, {images} images listed by cuobjdump, {joined} of concatenated entries")
    return wrong


VARIANTS = ("sm_90", "sm_90a", "sm_100f", "sm_103a", "sm_120f", "compute_80", "compute_100a", "compute_120f")


def variants(cudeploy, cuobjdump_folder, nvcc):
    """The list of images leaves out the f, but what is dumped of each names it: `arch = sm_120f`, `.target sm_120f`."""
    cuobjdump, told, wrong = cuobjdump_in(cuobjdump_folder), Counter(VARIANTS), []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "variants.cu")
        source.write_text(SOURCE)
        for compression in ("none", "size"):
            file = Path(folder, f"{compression}.fatbin")
            targets = [f"arch=compute_{word.split('_')[1]},code={word}" for word in VARIANTS]
            subprocess.run([nvcc, "-fatbin", f"--compress-mode={compression}", *(word for target in targets for word in
                            ("-gencode", target)), source, "-o", file], check=True)
            dump = {option: subprocess.run([cuobjdump, option, file], capture_output=True, text=True, check=True).stdout
                    for option in ("-elf", "-ptx")}
            theirs = Counter(re.findall(r"^Fatbin elf code:\n=+\narch = (sm_\S+)$", dump["-elf"], re.M))
            theirs += Counter(f"compute_{word}" for word in re.findall(r"^\.target sm_(\w+)", dump["-ptx"], re.M))
            (record,) = inspect(cudeploy, file)
            names = {"cubin": "sm", "ptx": "compute"}
            ours = Counter(f"{names[image['kind']]}_{image['arch']}{image['variant']}"
                           for container in record["fat_binaries"] for image in container["images"])
            if not ours == theirs == told:
                wrong.append(f"{compression}: cudeploy {ours}, cuobjdump {theirs}, the compiler was told {told}")
            print(f"{compression}: {sum(theirs.values())} images")
    return wrong


def resources(cudeploy, cuobjdump_folder, nvcc):
    cuobjdump = cuobjdump_in(cuobjdump_folder)
    wrong, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "resources.cu")
        source.write_text(SOURCE)
        for architecture in ("75", "80", "90", "120"):
            cubin = Path(folder, f"sm_{architecture}.cubin")
            subprocess.run([nvcc, "-cubin", f"-arch=sm_{architecture}", source, "-o", cubin], check=True)
            text = subprocess.run([cuobjdump, "--dump-resource-usage", cubin], capture_output=True, text=True, check=True).stdout
            theirs = {name: (int(registers), int(shared)) for name, registers, shared in
                      re.findall(r"Function (\S+):\s+REG:(\d+) STACK:\d+ SHARED:(\d+)", text)}
            (record,) = inspect(cudeploy, "--kernels", cubin)
            (image,) = record["fat_binaries"][0]["images"]
            ours = {kernel["name"]: (kernel["registers"], kernel["shared_bytes"]) for kernel in image["kernels"]}
            if ours != theirs or len(theirs) != 5:
                wrong.append(f"sm_{architecture}: cudeploy says {ours}, cuobjdump {theirs}")
            compared += len(theirs)
    print(f"{compared} kernels compared")
    return wrong


# Whose kernels are compared one by one: libraries of a few thousand to tens of thousands each, all of them kernels.
# (Of libnccl, which is linked from relocatable code, the lister also gives device functions, and of libcufft nothing.)
MEASURED = ("libcublas.so", "libcudnn_ops.so", "libcurand.so", "libcusolver.so", "libcusolverMg.so", "libcusparse.so")


def kernels(cudeploy, cuobjdump_folder, library_folder):
    cuobjdump = cuobjdump_in(cuobjdump_folder)
    libraries = [path for path in sorted(Path(library_folder).glob("*.so")) if path.name in MEASURED]
    if not libraries:
        skip(f"{library_folder} has none of {', '.join(MEASURED)}")
    wrong, compared = [], 0
    for library in libraries:
        text = subprocess.run([cuobjdump, "--dump-resource-usage", library], capture_output=True, text=True, check=True).stdout
        theirs, architecture, name = Counter(), None, None
        for line in text.splitlines():
            if match := re.match(r"arch = (\S+)", line):
                architecture = match[1]
            elif match := re.match(r" Function (\S+):", line):
                name = match[1]
            elif match := re.match(r"  REG:(\d+) STACK:\d+ SHARED:(\d+)", line):
                theirs[architecture, name, int(match[1]), int(match[2])] += 1
        ours = Counter()
        for record in inspect(cudeploy, "--kernels", library):
            for container in record["fat_binaries"]:
                if container["section"] != ".nv_fatbin":  # elsewhere the lister does not look
                    continue
                for image in container["images"]:
                    for kernel in image.get("kernels", []) if image["kind"] == "cubin" else []:
                        ours[f"sm_{image['arch']}{image['variant']}", kernel["name"], kernel["registers"],
                             kernel["shared_bytes"]] += 1
        for said, by, more in ((ours - theirs, "cudeploy", ours), (theirs - ours, "cuobjdump", theirs)):
            if said:
                wrong.append(f"{library.name}: only {by} says {sum(said.values())} of {sum(more.values())}, as {next(iter(said))}")
        print(f"{library.name}: {sum(theirs.values())} kernels")
        compared += sum(theirs.values())
    if compared < 1000:
        wrong.append(f"only {compared} kernels were compared; a toolkit has thousands")
    return wrong


# Whose PTX is compared: as text, it is tens of MB each.
DUMPED = ("libcublas.so", "libcudnn_ops.so", "libcurand.so")


def ptx(cudeploy, cuobjdump_folder, library_folder):
    cuobjdump = cuobjdump_in(cuobjdump_folder)
    libraries = [path for path in sorted(Path(library_folder).glob("*.so")) if path.name in DUMPED]
    if not libraries:
        skip(f"{library_folder} has none of {', '.join(DUMPED)}")
    wrong, compared = [], 0
    for library in libraries:
        theirs, texts = Counter(), []
        with subprocess.Popen([cuobjdump, "-all", "--dump-ptx", library], stdout=subprocess.PIPE, text=True) as dump:
            for line in dump.stdout:
                if match := re.match(r"\.version (\S+)", line):
                    texts.append({"version": match[1], "entries": []})
                elif match := re.match(r"\.target sm_([^\s,]+)", line):
                    texts[-1]["target"] = match[1]
                elif match := re.match(r"(?:\.visible |\.weak |\.extern )?\.entry ([^\s(]+)", line):
                    texts[-1]["entries"].append(match[1])
        if dump.returncode != 0:
            raise SystemExit(f"{library.name}: cuobjdump --dump-ptx: exit code {dump.returncode}")
        for text in texts:
            theirs[text["version"], text["target"], tuple(sorted(text["entries"]))] += 1
        ours = Counter()
        for record in inspect(cudeploy, "--kernels", "--payloads", library):
            wrong += [f"{library.name}: problem: {problem['message']}" for problem in record["problems"]]
            for container in record["fat_binaries"]:
                if container["section"] in NAMED_SECTIONS:  # elsewhere the lister does not look
                    for image in container["images"]:
                        if image["kind"] == "ptx":
                            ours[image["ptx_version"], f"{image['arch']}{image['variant']}",
                                 tuple(sorted(kernel["name"] for kernel in image.get("kernels", [])))] += 1
        for said, by in ((ours - theirs, "cudeploy"), (theirs - ours, "cuobjdump")):
            if said:
                wrong.append(f"{library.name}: only {by} says {sum(said.values())} texts, as {str(next(iter(said)))[:400]}")
        entries = sum(len(text["entries"]) for text in texts)
        print(f"{library.name}: {len(texts)} PTX texts with {entries} entries")
        compared += entries
    if compared < 1000:
        wrong.append(f"only {compared} entries were compared; a toolkit has thousands")
    return wrong


def main():
    cases = {"kernels": kernels, "ptx": ptx, "places": places, "libraries": compare, "wheel": wheel, "newest": newest,
             "resources": resources, "variants": variants}
    wrong = cases[sys.argv[1]](*sys.argv[2:])
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
