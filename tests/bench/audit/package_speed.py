#!/usr/bin/env python3
"""A package costs what unpacking it costs: cudeploy inspect of two published wheels against bsdtar, which unpacks the
same to nothing, in one run, by turns, on the same warm files, medians.

  transformer_engine_cu12   729 MB, nearly all of it one library of 1.03 GB: within 1.25 times, in 256 MiB
  flashinfer-cubin          458 MB, 15,970 loose cubins: no process and no file per member

Fails where one of these does not hold, and where the second takes more than 1.5 times as long.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
import zipfile

from measure import medians_by_turns, peak_memory, print_rows, real_part, verdict

LARGE = "wheel:transformer_engine_cu12-2.20.2-py3-none-manylinux_2_28_x86_64.whl"
MANY = "flashinfer-cubin"
MOST_MEMORY = 256  # MiB
MOST_OF_BSDTAR = {LARGE: 1.25, MANY: 1.5}


def compare(arguments, part, wheel):
    inspect = [arguments.cudeploy, "inspect", wheel]
    commands = {"cudeploy inspect": (inspect, 1), "bsdtar -xO": (["bsdtar", "-xOf", wheel], 1)}
    medians_by_turns({"cat": (["cat", wheel], 1)}, 1)  # warm
    medians = medians_by_turns(commands, arguments.rounds)
    memory = peak_memory(inspect)
    print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.0f} MB, medians:")
    print_rows(medians, "bsdtar -xO")
    print(f"  memory of cudeploy inspect, all processes: {memory:.0f} MiB")
    missed = []
    ratio = medians["cudeploy inspect"] / medians["bsdtar -xO"]
    if ratio > MOST_OF_BSDTAR[part]:
        missed.append(f"{wheel.name}: {ratio:.2f} times bsdtar's time, expected at most {MOST_OF_BSDTAR[part]}")
    if memory > MOST_MEMORY:
        missed.append(f"{wheel.name}: {memory:.0f} MiB, expected at most {MOST_MEMORY}")
    return missed


def processes_so_far():
    """Processes and threads that this machine has started."""
    with open("/proc/stat") as stat:
        return next(int(line.split()[1]) for line in stat if line.startswith("processes "))


def nothing_per_member(arguments, wheel):
    """inspect where no byte can be written to any file and there is no place for a temporary one; and what the whole
    machine started meanwhile is counted, which is no less than what inspect started."""
    with zipfile.ZipFile(wheel) as package:
        cubins = sum(name.endswith(".cubin") for name in package.namelist())

    def no_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    with tempfile.TemporaryDirectory() as gone:
        environment = {**os.environ, "TMPDIR": gone}
    before = processes_so_far()
    result = subprocess.run([arguments.cudeploy, "inspect", wheel], env=environment, preexec_fn=no_files,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started = processes_so_far() - before
    rows = result.stdout.count(".cubin: cubin, ")
    print(f"  without a file to write to: {rows} of {cubins} cubins read, {started} processes started by the whole machine")
    missed = []
    if result.returncode != 0 or rows != cubins or cubins < 15000:
        missed.append(f"exit code {result.returncode}, {rows} of {cubins} cubins read: {result.stderr[:500]}")
    if started > cubins // 4:
        missed.append(f"{started} processes for {cubins} members")
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
            if part == MANY:
                codes.append(verdict(lambda wheel=wheel: nothing_per_member(arguments, wheel)))
    if not codes:
        print("skipped: neither of the two wheels can be had")
        return 77
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
