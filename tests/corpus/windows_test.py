"""The DLLs of a published wheel for Windows, by judges that are not ours: windows_test.py CASE CUDEPLOY REAL-PARTS WHEEL

  tables       llvm-readobj and objdump: machine, kind, names, imports, delayed ones, the sections that hold device code
  device_code  NVIDIA's cuobjdump for Windows, under wine: the same images by kind and architecture

REAL-PARTS is tests/real_parts.sh. Exit code 77: this machine lacks a part, and says which.
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

MACHINES = {"IMAGE_FILE_MACHINE_AMD64": "x86_64", "IMAGE_FILE_MACHINE_ARM64": "aarch64", "IMAGE_FILE_MACHINE_I386": "x86"}

# cuobjdump lists neither LTO-IR nor the f of a family.
LISTED_KINDS = {"cubin", "ptx"}

# Files at which the judge gives up, and its words. (It calls cubins of CUDA 12.1 invalid, which 12.4 lists.)
REFUSED = {"libbitsandbytes_cuda121.dll": "Invalid ELF"}


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


def tables(cudeploy, dlls, _):
    wrong = []
    for path in dlls:
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
        sections = {name: (int(offset, 16), int(size)) for name, size, offset in re.findall(
            r"Name: (\S+) \(.*?\n(?:.*\n)*?    RawDataSize: (\d+)\n    PointerToRawData: (0x[0-9A-F]+)", text)}
        for box in record["fat_binaries"]:
            offset, size = sections.get(box["section"], (0, 0))
            if not offset <= box["offset"] <= box["offset"] + box["size"] <= offset + size:
                wrong.append(f"{path.name}: a fat binary at {box['offset']} is not in the section {box['section']}")
        if not sections:
            wrong.append(f"{path.name}: this test does not understand llvm-readobj")
    return wrong


class Refused(Exception):
    """The lister fails on this file."""


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


def device_code(cudeploy, dlls, real_parts):
    if not shutil.which("wine"):
        skip("no wine here")
    (cuobjdump,) = part(real_parts, "cuobjdump-windows-13.5").rglob("cuobjdump.exe")
    wrong, compared, empty = [], 0, 0
    environment = {**os.environ, "WINEPREFIX": str(dlls[0].parent / "wine"), "WINEDEBUG": "-all"}
    for path in dlls:
        record = read(cudeploy, path)
        ours = Counter((image["kind"], f"{image['arch']}{image['variant'].replace('f', '')}")
                       for box in record["fat_binaries"] for image in box["images"] if image["kind"] in LISTED_KINDS)
        try:
            theirs = listed(cuobjdump, path, environment)
        except Refused as refused:
            if path.name not in REFUSED or REFUSED[path.name] not in str(refused):
                wrong.append(str(refused))
            continue
        if path.name in REFUSED:
            wrong.append(f"{path.name}: stands in REFUSED, but cuobjdump lists it")
        if ours != theirs:
            wrong.append(f"{path.name}: only cudeploy lists {ours - theirs}, only cuobjdump {theirs - ours}")
        compared += sum(theirs.values())
        empty += not theirs
    print(f"{compared} images compared, {empty} files without device code by both")
    if compared < 50:
        wrong.append(f"only {compared} images were compared; each of these wheels has hundreds")
    return wrong


def main():
    case, cudeploy, real_parts, wheel = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        package = zipfile.ZipFile(part(real_parts, f"wheel:{wheel}") / wheel)
        dlls = [Path(package.extract(name, folder)) for name in package.namelist() if name.endswith((".dll", ".pyd"))]
        if not dlls:
            raise SystemExit(f"{wheel}: no DLL in it to compare")
        wrong = {"tables": tables, "device_code": device_code}[case](cudeploy, dlls, real_parts)
        print(f"{len(dlls)} files")
        print("\n".join(wrong))
    sys.exit(bool(wrong))


main()
