"""Samples that would hold NVIDIA's object code are built here by the manifest's commands, then read:
built_samples_test.py CUDEPLOY MANIFEST TOOLKIT REAL-PARTS-SCRIPT FILE...

The expectations were written for nvcc 13.0.88. Exit code 77: this machine lacks a part, and says which.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = {"elf": "cubin", "ptx": "ptx", "lto": "lto-ir", "tile-ir": "tile-ir", "reloc-ptx": "other", None: "other"}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def library_folder(toolkit):
    for name in ("lib64", "lib", "lib/x86_64-linux-gnu"):
        if (Path(toolkit) / name / "libcudart_static.a").exists():
            return Path(toolkit) / name
    raise SystemExit(f"{toolkit}: no libcudart_static.a")


def part(script, name):
    done = subprocess.run(["sh", script, name], stdout=subprocess.PIPE, text=True)
    if done.returncode == 77:
        sys.exit(77)  # the script has said why
    done.check_returncode()
    return done.stdout.strip()


def build(row, source, folder, toolkit, parts):
    work = Path(folder) / "src"
    shutil.copytree(source, work)
    work.chmod(0o755)
    command = re.sub(r"^nvcc ", f"{toolkit}/bin/nvcc ", row["command"])
    for version in re.findall(r"<CUDA (\d+\.\d+)>/lib", command):
        old = library_folder(Path(part(parts, f"cuda-{version}")) / "usr")
        command = command.replace(f"<CUDA {version}>/lib", str(old))
    command = command.replace("<CUDA>/lib", str(library_folder(toolkit)))
    subprocess.run(command, shell=True, cwd=work, check=True)
    return Path(folder) / row["file"]


def compare(expect, record):
    """Every expectation that is a field of the record, as (field, expected, found) where they differ."""
    images = [image for container in record["fat_binaries"] for image in container["images"]]
    pairs = [("fat binaries", expect["containers"], len(record["fat_binaries"])),
             ("images", len(expect["entries"]), len(images)), ("problems", [], record["problems"])]
    for index, (entry, image) in enumerate(zip(expect["entries"], images)):
        def check(field, expected, found):
            pairs.append((f"image {index} {field}", expected, found))
        check("kind", KINDS[entry["kind"]], image["kind"])
        check("compression", entry["compressed"], image["compression"])
        for field in ("arch", "variant", "toolkit", "name", "debug", "ptx_version", "header_size", "options"):
            if field in entry:
                check(field, entry[field], image[field])
        if "kernels" in entry:
            check("kernel_count", entry["kernels"], image["kernel_count"])
    for container in record["fat_binaries"]:
        pairs.append((f"loadable at {container['offset']}", container["section"] != "__nv_relfatbin", container["loadable"]))
    if "sections" in expect:
        pairs.append(("sections", sorted(expect["sections"]), sorted({c["section"] for c in record["fat_binaries"]})))
    copies = [{"linkage": "static", "api_level": copy["api_level"], "version": copy["version"]}
              for copy in record["runtime_copies"] if copy["kind"] == "private-static"]
    pairs.append(("private copies of the runtime", expect.get("cudart", []), copies))
    needs = [copy for copy in record["runtime_copies"] if copy["kind"] == "needs-shared"]
    pairs.append(("shared runtimes needed", len(expect.get("shared_needed", [])), len(needs)))
    for soname in expect.get("shared_needed", []):
        pairs.append((f"needs {soname}", True, soname in record["needed"]))
    for field in ("rpath", "runpath"):
        if field in expect:
            pairs.append((field, [expect[field]] if expect[field] else [], record[field]))
    return [f"{field}: expected {expected}, found {found}" for field, expected, found in pairs if expected != found]


def main():
    cudeploy, manifest, toolkit, parts, *wanted = sys.argv[1:]
    version = subprocess.run([f"{toolkit}/bin/nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    if "V13.0.88" not in version:
        skip(f"not applicable: the samples are for nvcc 13.0.88, this is {version.splitlines()[-2]}")
    rows = {row["file"]: row for row in json.loads(Path(manifest).read_text())["build_in_the_test"]}
    failed = False
    for file in wanted:
        with tempfile.TemporaryDirectory() as folder:
            path = build(rows[file], Path(manifest).parent / "src", folder, toolkit, parts)
            done = subprocess.run([cudeploy, "inspect", "--payloads", "--format", "json", path], capture_output=True, text=True)
            wrong = compare(rows[file]["expect"], json.loads(done.stdout)["files"][0])
            if done.returncode != 0:
                wrong.append(f"exit code: expected 0, found {done.returncode}")
        print(f"{file}: {'as expected' if not wrong else ''}")
        print("".join(f"  {line}\n" for line in wrong), end="")
        failed |= bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()
