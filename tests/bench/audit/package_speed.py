#!/usr/bin/env python3
"""A package costs what unpacking it costs: cudeploy inspect of two published wheels against bsdtar, which unpacks the
same to nothing, in one run, by turns, on the same warm files, medians.

  transformer_engine_cu12   729 MB, nearly all of it one library of 1.03 GB: within 1.25 times, in 256 MB
  flashinfer-cubin          458 MB, 15,970 loose cubins: no process and no file per member

Fails where one of these does not hold, and where the second takes more than 1.5 times as long.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from measure import medians_by_turns, peak_memory, print_rows, real_part, verdict

LARGE = "wheel:transformer_engine_cu12-2.20.2-py3-none-manylinux_2_28_x86_64.whl"
MANY = "flashinfer-cubin"
MOST_MEMORY = 256  # MB
MOST_OF_BSDTAR = {LARGE: 1.25, MANY: 1.5}
STARTS, MAKES = "fork,vfork,clone,clone3", "open,openat,creat,mknod,mknodat,memfd_create"
MOST_STARTED = MOST_MADE = 200  # a worker or a file now and then is none per member


def compare(arguments, part, wheel):
    inspect = [arguments.cudeploy, "inspect", wheel]
    commands = {"cudeploy inspect": (inspect, 1), "bsdtar -xO": (["bsdtar", "-xOf", wheel], 1)}
    medians_by_turns({"cat": (["cat", wheel], 1)}, 1)  # warm
    medians = medians_by_turns(commands, arguments.rounds)
    memory = peak_memory(inspect)
    print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.0f} MB, medians:")
    print_rows(medians, "bsdtar -xO")
    print(f"  memory of cudeploy inspect, all processes: {memory:.0f} MB")
    missed = []
    ratio = medians["cudeploy inspect"] / medians["bsdtar -xO"]
    if ratio > MOST_OF_BSDTAR[part]:
        missed.append(f"{wheel.name}: {ratio:.2f} times bsdtar's time, expected at most {MOST_OF_BSDTAR[part]}")
    if memory > MOST_MEMORY:
        missed.append(f"{wheel.name}: {memory:.0f} MB, expected at most {MOST_MEMORY}")
    return missed


def nothing_per_member(arguments, wheel):
    """inspect where no byte can be written to any file, watched by strace: which processes and threads it starts, and
    which files it makes, empty and nameless ones too."""
    with zipfile.ZipFile(wheel) as package:
        cubins = sum(name.endswith(".cubin") for name in package.namelist())
    with tempfile.NamedTemporaryFile("r") as calls:
        result = subprocess.run(["strace", "-f", "-qq", "--seccomp-bpf", "-e", f"trace={STARTS},{MAKES}", "-o", calls.name,
                                 "sh", "-c", 'ulimit -f 0; exec "$@"', "sh", arguments.cudeploy, "inspect", wheel],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = calls.read().splitlines()
    started = sum(re.search(rf"\b({STARTS.replace(',', '|')})\(", line) is not None for line in lines)
    made = sum(re.search(r"O_CREAT|O_TMPFILE|\b(creat|mknod|mknodat|memfd_create)\(", line) is not None for line in lines)
    rows = result.stdout.count(".cubin: cubin, ")
    print(f"  without a byte in a file: {rows} of {cubins} cubins read, {started} processes started, {made} files made")
    missed = []
    if result.returncode != 0 or rows != cubins or cubins < 15000:
        missed.append(f"exit code {result.returncode}, {rows} of {cubins} cubins read: {result.stderr[:500]}")
    if not 1 <= started < MOST_STARTED:
        missed.append(f"{started} processes for {cubins} members, expected 1 to {MOST_STARTED - 1}")
    if made >= MOST_MADE:
        missed.append(f"{made} files made for {cubins} members, expected fewer than {MOST_MADE}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cudeploy", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    codes = []
    for part in (LARGE, MANY):
        if folder := real_part(part):
            (wheel,) = folder.glob("*.whl")
            codes.append(verdict(lambda wheel=wheel, part=part: compare(arguments, part, wheel)))
            if part == MANY and not shutil.which("strace"):
                print("not tried: strace is not installed")
            elif part == MANY:
                codes.append(verdict(lambda wheel=wheel: nothing_per_member(arguments, wheel)))
    if not codes:
        return 77
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
