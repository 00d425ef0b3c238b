"""The DLLs of a published wheel for Windows, by judges that are not ours:
windows_test.py CASE CUDEPLOY REAL-PARTS TABLE WHEEL

  tables       llvm-readobj and objdump: machine, kind, names, imports, delayed ones, the sections that hold device code
  device_code  NVIDIA's cuobjdump for Windows, under wine: the same images by kind and architecture; of a file that it
               refuses, cuobjdump 12.4 lists each fat binary

Where the two must differ, TABLE says so, as it does for ELF files (cuobjdump_test.py). REAL-PARTS is tests/real_parts.sh. Exit code 77: this machine lacks a part, and says which.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "audit"))
from cuobjdump_test import Refused, cuobjdump_in, differences, images_in, listed as listed_of_file, read as images_of, read_table

MACHINES = {"IMAGE_FILE_MACHINE_AMD64": "x86_64", "IMAGE_FILE_MACHINE_ARM64": "aarch64", "IMAGE_FILE_MACHINE_I386": "x86"}

def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def part(script, name):
    done = subprocess.run(["sh", script, name], capture_output=True, text=True)
    if done.returncode == 77:
        skip(done.stderr.strip().splitlines()[-1])
    if done.returncode != 0:
        raise SystemExit(f"{script} {name}: exit code {done.returncode}: {done.stderr}")
    return Path(done.stdout.strip())


def output_of(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True, **options).stdout


def read(cudeploy, path):
    (record,) = json.loads(output_of(cudeploy, "inspect", "--format", "json", path))["files"]
    return record


def once(names):
    """Each name as it is spelt first: Windows compares names in any case."""
    first = {}
    for name in names:
        first.setdefault(name.lower(), name)
    return list(first.values())


def sections_of(text):
    """name -> (offset, size) from what llvm-readobj prints."""
    return {name: (int(offset, 16), int(size)) for name, size, offset in re.findall(
        r"Name: (\S+) \(.*?\n(?:.*\n)*?    RawDataSize: (\d+)\n    PointerToRawData: (0x[0-9A-F]+)", text)}


def tables(cudeploy, dlls, *_):
    wrong = []
    for path in dlls.values():
        record = read(cudeploy, path)
        text = output_of("llvm-readobj", "--file-headers", "--sections", "--coff-imports", path)
        needed = re.findall(r"^Import \{\n  Name: (.*)$", text, re.MULTILINE)
        delayed = re.findall(r"^DelayImport \{\n  Name: (.*)$", text, re.MULTILINE)
        dll = "IMAGE_FILE_DLL " in text
        exported = re.search(r"^Name\s+[0-9a-f]{16} (\S.*)$", output_of("objdump", "-p", path), re.MULTILINE)
        facts = {
            "machine": MACHINES[re.search(r"Machine: (\w+)", text)[1]],
            "type": "shared" if dll else "executable",
            "soname": exported[1] if exported else None,
            "needed": once(needed + delayed),
            "delayed": [name for name in once(needed + delayed) if name not in needed],
        }
        for key, value in facts.items():
            if record[key] != value:
                wrong.append(f"{path.name}: {key}: cudeploy says {record[key]}, the judges {value}")
        sections = sections_of(text)
        for box in record["fat_binaries"]:
            offset, size = sections.get(box["section"], (0, 0))
            if not offset <= box["offset"] <= box["offset"] + box["size"] <= offset + size:
                wrong.append(f"{path.name}: a fat binary at {box['offset']} is not in the section {box['section']}")
        if not sections:
            wrong.append(f"{path.name}: this test does not understand llvm-readobj")
    return wrong


def listed(cuobjdump, path, environment):
    """Counter of (kind, architecture); empty where the lister finds no device code."""
    images = Counter()
    for option, kind in (("-lelf", "cubin"), ("-lptx", "ptx")):
        done = subprocess.run(["wine", cuobjdump, "-all", option, path.name], cwd=path.parent, env=environment,
                              capture_output=True, text=True)
        if re.search(r"does not contain device code|No (ELF|PTX) file found", done.stdout + done.stderr):
            continue
        if done.returncode != 0:
            raise Refused(f"{path.name}: cuobjdump {option}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        if not done.stdout:
            raise SystemExit(f"{path.name}: cuobjdump {option} says nothing: {done.stderr}")
        for line in done.stdout.splitlines():
            match = re.fullmatch(r"(?:ELF|PTX) file +\d+: .*\.sm_(\d+[af]?)\.(?:cubin|ptx)\s*", line)
            if not match:
                raise SystemExit(f"{path.name}: cuobjdump {option} says what this test does not know: {line}")
            images[kind, match[1]] += 1
    return images


def listed_by_older(cuobjdump, path):
    """By a lister that reads no PE file: it is given each fat binary of the sections for device code, which begin with a
    magic and their size."""
    whole, images, one = path.read_bytes(), Counter(), path.with_suffix(".fatbin")
    for name, (offset, size) in sections_of(output_of("llvm-readobj", "--sections", path)).items():
        code = whole[offset:offset + size] if name in (".nv_fatb", "__nv_rel") else b""
        at = code.find(b"\x50\xed\x55\xba")
        while at >= 0:
            end = at + 16 + int.from_bytes(code[at + 8:at + 16], "little")
            one.write_bytes(code[at:end])
            images += listed_of_file(cuobjdump, one)
            at = code.find(b"\x50\xed\x55\xba", end)
    return images


def device_code(cudeploy, dlls, real_parts, table, wheel):
    if not shutil.which("wine"):
        skip("no wine here")
    (cuobjdump,) = part(real_parts, "cuobjdump-windows-13.5").rglob("cuobjdump.exe")
    rows, wrong, ours, judged = read_table(table, wheel), [], {}, {}
    environment = {**os.environ, "WINEPREFIX": str(next(iter(dlls.values())).parent / "wine"), "WINEDEBUG": "-all"}
    for member, path in dlls.items():
        ours[member] = images_of(read(cudeploy, path))
        try:
            judged[member] = listed(cuobjdump, path, environment)
        except Refused as refused:
            if rows.pop((member, "refused", "all"), None) is None:
                wrong.append(str(refused))
            judged[member] = listed_by_older(cuobjdump_in(part(real_parts, "cuda-12.4")), path)
            print(f"{member}: {sum(judged[member].values())} images by the older cuobjdump")
    wrong += differences(ours, judged, rows)
    print(f"{images_in(judged)} images compared, {sum(not images for images in judged.values())} files without device code")
    if images_in(judged) < 50:
        wrong.append(f"only {images_in(judged)} images were compared; each of these wheels has hundreds")
    return wrong


def main():
    case, cudeploy, real_parts, table, wheel = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        package = zipfile.ZipFile(part(real_parts, f"wheel:{wheel}") / wheel)
        dlls = {name: Path(package.extract(name, folder)) for name in package.namelist() if name.endswith((".dll", ".pyd"))}
        if not dlls:
            raise SystemExit(f"{wheel}: no DLL in it to compare")
        wrong = {"tables": tables, "device_code": device_code}[case](cudeploy, dlls, real_parts, table, wheel)
        print(f"{len(dlls)} files")
        print("\n".join(wrong))
    sys.exit(bool(wrong))


main()
