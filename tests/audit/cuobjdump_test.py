"""NVIDIA's own lister decides whether cudeploy reads device code rightly: cuobjdump_test.py CASE ...

  places CUDEPLOY LIBRARY-FOLDER TABLE                       every byte of the sections for device code, and where else
  libraries CUDEPLOY CUOBJDUMP-FOLDER LIBRARY-FOLDER TABLE   every library of a toolkit: the same images
  resources CUDEPLOY CUOBJDUMP-FOLDER NVCC                   kernels, registers and shared memory of compiled cubins

Where the two must differ, TABLE says so: one line per file, kind, architecture, how many more images cudeploy
lists, and why. A difference without a line fails, and so does a line without a difference.
Exit code 77: this machine lacks a part, and says which.
"""

import json
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# cuobjdump lists neither LTO-IR nor the f of a family: 120f is 120 to it.
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
            raise SystemExit(f"{file.name}: cuobjdump {option} failed: {done.stderr}")
        for line in done.stdout.splitlines():
            match = re.fullmatch(r"(?:ELF|PTX) file +\d+: .*\.sm_(\d+[af]?)\.(?:cubin|ptx)", line)
            if not match:
                raise SystemExit(f"{file.name}: cuobjdump {option} says what this test does not know: {line}")
            images[kind, match[1]] += 1
    return images


def read(record):
    images = Counter()
    for container in record["fat_binaries"]:
        for image in container["images"]:
            if image["kind"] in LISTED_KINDS:
                images[image["kind"], f"{image['arch']}{image['variant'].replace('f', '')}"] += 1
    return images


def read_table(path):
    """(file, kind, architecture) -> (how many more, why)."""
    rows = {}
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        file, kind, architecture, count, why = line.split(None, 4)
        key = file, kind, architecture
        if key in rows or kind not in LISTED_KINDS or int(count) == 0:
            raise SystemExit(f"{path}:{number}: not a row of file, kind, architecture, count, why")
        rows[key] = int(count), why
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


def skip_without(files, records):
    missing = sorted(set(files) - records.keys())
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
            wrong.append(f"{file} {section} {here[0]} {here[1]}: expected {expected[0]} containers and {expected[1]} loose cubins")
    print(f"{bytes_seen} bytes of device code sections accounted for, device code in {len(found)} other places")
    return wrong


def compare(cudeploy, cuobjdump_folder, library_folder, table):
    cuobjdump = cuobjdump_in(cuobjdump_folder)
    records = inspect_libraries(cudeploy, library_folder)
    rows = read_table(table)
    skip_without({file for file, _, _ in rows}, records)
    with ThreadPoolExecutor(2) as pool:
        judged = dict(zip(records, pool.map(lambda record: listed(cuobjdump, Path(record["path"])), records.values())))
    wrong, used, images = [], set(), 0
    for name, theirs in judged.items():
        ours = read(records[name])
        images += sum(theirs.values())
        wrong += [f"{name}: problem: {problem['message']}" for problem in records[name]["problems"]]
        for kind, architecture in sorted(ours.keys() | theirs.keys()):
            key = name, kind, architecture
            more, explained = ours[kind, architecture] - theirs[kind, architecture], rows.get(key, (0, ""))[0]
            if more != explained:
                wrong.append(f"{name} {kind} {architecture} {more}: cudeploy lists {ours[kind, architecture]}, "
                             f"cuobjdump {theirs[kind, architecture]}, the table explains {explained}")
            if more != 0:
                used.add(key)
    wrong += [f"{' '.join(key)}: this row of the table is not needed" for key in sorted(rows.keys() - used)]
    print(f"{len(judged)} libraries, {images} images listed by cuobjdump, {len(rows)} explained differences")
    if images < 1000:
        wrong.append(f"only {images} images were compared; a toolkit has thousands")
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


def main():
    cases = {"places": places, "libraries": compare, "resources": resources}
    wrong = cases[sys.argv[1]](*sys.argv[2:])
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
