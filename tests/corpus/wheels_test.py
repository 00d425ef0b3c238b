"""Published wheels, as strangers made them: wheels_test.py CUDEPLOY TABLE DIFFERENCES WHEEL-NAME WHEEL-FOLDER

TABLE (wheels.json) says, from a reader that shares no code with cudeploy, which members of the wheel carry device
code or a CUDA runtime: each image by kind and architecture, each runtime copy. cudeploy reads the wheel as it was
published, and has to say the same of each member, and nothing of all others. Where the two must differ, DIFFERENCES
says so: one line per wheel, member, what, how many more cudeploy lists, and why. A difference without a line fails,
and so does a line without a difference.

The table knows fat binaries only. Bare cubins that lie in a data section are counted here, by their ELF headers.
"""

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

CUBIN = re.compile(rb"\x7fELF\x02\x01[\x01\x00].{11}\xbe\x00", re.DOTALL)  # e_machine 190, EM_CUDA


def is_loose(container):
    """A bare image: no container header before it."""
    return len(container["images"]) == 1 and container["images"][0]["offset"] == container["offset"]


def loose_cubins(data, record):
    """Offsets of cubins outside of all fat binaries."""
    inside = sorted((box["offset"], box["offset"] + box["size"]) for box in record["fat_binaries"] if not is_loose(box))
    found, at = [], 0
    for begin, end in [*inside, (len(data), len(data))]:
        found += [match.start() for match in CUBIN.finditer(data, at, max(at, begin))]
        at = max(at, end)
    return found


def contents(record):
    """What the record says, in the table's words, a space being a colon: each image, each runtime copy."""
    words = Counter(f"{image['kind']}:{image['arch']}{image['variant']}"
                    for box in record["fat_binaries"] if not is_loose(box) for image in box["images"])
    for copy in record["runtime_copies"]:
        words[copy["kind"]] += 1
        if copy["kind"] == "private-static":
            words[f"private-static:level:{copy.get('api_level')}"] += 1
            words["private-static"] -= 1
        elif copy["kind"] == "needs-shared":
            asked = [needed for needed in record["needed"] if re.match(r"(?i)(lib)?cudart", needed)]
            words[":".join(["needs-shared", *asked])] += 1
            words["needs-shared"] -= 1
    return +words


def read_differences(path, name):
    """(member, word) -> how many more, of this wheel."""
    rows = {}
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        wheel, member, word, count, why = line.split(None, 4)
        if int(count) == 0 or (wheel == name and (member, word) in rows):
            raise SystemExit(f"{path}:{number}: not a row of wheel, member, what, count, why")
        if wheel == name:
            rows[member, word] = int(count)
    return rows


def sha256(path):
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 22), b""):
            digest.update(block)
    return digest.hexdigest()


def main():
    cudeploy, table, differences, name, folder = sys.argv[1:]
    [wheel] = [row for row in json.loads(Path(table).read_text())["wheels"] if row["file"] == name]
    explained = read_differences(differences, name)
    path = Path(folder) / name
    if not path.is_file():
        raise SystemExit(f"{folder} holds no {name}: {sorted(entry.name for entry in Path(folder).iterdir())}")
    if sha256(path) != wheel["sha256"]:
        raise SystemExit(f"{path}: not the file that the table was made from (SHA-256)")

    done = subprocess.run([cudeploy, "inspect", "--format", "json", path], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"cudeploy inspect: exit code {done.returncode}: {done.stderr}{done.stdout[-2000:]}")
    files = json.loads(done.stdout)["files"]
    faults = []
    # The table has no row for bare device code, and none of these wheels ships any.
    faults += [f"{record['path']}: a {record['format']} file with device code or runtimes, which the table does not have"
               for record in files if record["format"] not in ("elf", "pe") and (record["fat_binaries"] or record["runtime_copies"])]
    records = {record["path"].split("!/", 1)[1]: record for record in files if record["format"] in ("elf", "pe")}
    rows = wheel["members"]

    # Static archives, import libraries of Windows among them, are one binary each.
    binaries = {record["path"].split("!/")[1] for record in files if record["format"] in ("elf", "pe", "ar")}
    if len(binaries) != wheel["binaries"]:
        faults.append(f"{len(binaries)} binaries, the table counts {wheel['binaries']}")
    package = zipfile.ZipFile(path)
    for member in sorted(records.keys() | rows.keys()):
        if member not in records:
            faults.append(f"{member}: not read")
            continue
        record = records[member]
        row = rows.get(member, {"format": record["format"], "images": {}, "runtime_copies": []})
        if record["format"] != row["format"]:
            faults.append(f"{member}: format {record['format']}, the table says {row['format']}")
        found = contents(record)
        right = Counter(row["images"]) + Counter(copy.replace(" ", ":") for copy in row["runtime_copies"])
        for word in sorted(found.keys() | right.keys()):
            more = found[word] - right[word]
            if more != explained.pop((member, word), 0):
                faults.append(f"{member}: {found[word]} × {word}, the table counts {right[word]}")
        listed = [box["offset"] for box in record["fat_binaries"] if is_loose(box)]
        expected = loose_cubins(package.read(member), record)
        if sorted(listed) != expected:
            faults.append(f"{member}: {len(listed)} bare cubins, and {len(expected)} ELF headers of cubins outside of containers")
    faults += [f"{member}: {word}: {count} more are explained and not there"
               for (member, word), count in explained.items()]
    for fault in faults:
        print(fault)
    images = sum(len(box["images"]) for record in records.values() for box in record["fat_binaries"])
    print(f"{name}: {len(records)} binaries, {images} images, {len(faults)} differences")
    sys.exit(bool(faults))


main()
