#!/usr/bin/env python3
"""Reading must cost what matters in a file, not its size: cudeploy inspect against LIEF's whole parse of the same
541 MB library, in one run on the same warm file, medians. Fails below 20 times, or above 128 MB of memory with the
workers included. What `cat`, `readelf` and, where it is there, `cuobjdump` take is shown beside it.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

LEAST_RATIO = 20
MOST_MEMORY = 128  # MiB
LIBRARY = "libcublasLt.so"


def peak_of_tree(pid, peaks):
    """Adds the peak resident size of a process and its descendants, by process id."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    peaks[pid] = max(peaks.get(pid, 0), int(line.split()[1]))
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as children:
                for child in children.read().split():
                    peak_of_tree(int(child), peaks)
    except (FileNotFoundError, ProcessLookupError):
        pass


def measure(command, watch=False):
    """Seconds, and with `watch` the sum of the peaks of all its processes in MiB (0 without)."""
    peaks = {}
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if watch:
        while process.poll() is None:
            peak_of_tree(process.pid, peaks)
            time.sleep(0.001)
    error = process.communicate()[1]
    seconds = time.monotonic() - start
    if process.returncode != 0:
        sys.exit(f"{command[0]}: exit code {process.returncode}\n{error.decode(errors='replace')}")
    return seconds, sum(peaks.values()) / 1024


def median(command, rounds):
    return statistics.median(measure(command)[0] for _ in range(rounds))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cudeploy", required=True)
    parser.add_argument("--lief", required=True, help="the program lief_whole_parse")
    parser.add_argument("--folder", required=True, help="the toolkit's libraries")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    library = os.path.realpath(os.path.join(arguments.folder, LIBRARY))
    if not os.path.exists(library):
        print(f"skipped: {LIBRARY} is not in {arguments.folder}")
        return 77

    inspect = [arguments.cudeploy, "inspect", library]
    lief = [arguments.lief, library]
    measure(["cat", library])  # warm
    ours, theirs = [], []
    for _ in range(arguments.rounds):  # by turns, so that a busy machine is busy for both
        ours += [measure(inspect)[0] for _ in range(3)]
        theirs.append(measure(lief)[0])
    memory = measure(inspect, watch=True)[1]

    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"{os.path.basename(library)}, {os.path.getsize(library) / 1e6:.0f} MB, medians:")
    rows = [("cudeploy inspect", statistics.median(ours)), ("LIEF, whole parse", statistics.median(theirs))]
    rows.append(("… --format json", median([*inspect, "--format", "json"], 5)))
    rows.append(("cat", median(["cat", library], 3)))
    if shutil.which("readelf"):
        rows.append(("readelf -dVs", median(["readelf", "-dVsW", library], 3)))
    if shutil.which("cuobjdump"):
        rows.append(("cuobjdump", median(["cuobjdump", "--list-elf", "--list-ptx", library], 1)))
    for name, seconds in rows:
        print(f"  {name:<18} {seconds * 1000:8.0f} ms   {seconds / rows[0][1]:6.1f}")
    print(f"  memory of cudeploy inspect, all processes: {memory:.0f} MiB")
    failed = False
    if ratio < LEAST_RATIO:
        print(f"error: {ratio:.1f} times faster than LIEF's whole parse, expected at least {LEAST_RATIO}")
        failed = True
    if memory > MOST_MEMORY or memory == 0:
        print(f"error: {memory:.0f} MiB, expected at most {MOST_MEMORY}")
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
