#!/usr/bin/env python3
"""Reading must cost what matters in a file, not its size: cudeploy inspect against what others take for the same
libraries of the toolkit, in one run, by turns, on the same warm files, medians. Fails where inspect is not 40 times
faster than NVIDIA's cuobjdump or 20 times faster than LIEF's whole parse on the largest library, needs more than 96 MB
there with all its processes, or takes more than 1.5 times as long for the whole folder as cat for the same files.
"""
import argparse
import os
import sys
from pathlib import Path

from measure import medians_by_turns, peak_memory, print_rows, real_part, verdict

LEAST = {"cuobjdump": 40, "LIEF, whole parse": 20}  # times faster than these
MOST_MEMORY = 96  # MB
MOST_OF_CAT = 1.5
LIBRARY = "libcublasLt.so.13"


def regular_files(folder):
    """Each file of a folder once: links are links."""
    found = []
    for where, _, names in os.walk(folder):
        found += [path for name in names if (path := Path(where, name)).is_file() and not path.is_symlink()]
    return sorted(found)


def compare_library(arguments, library, lister):
    inspect = [arguments.cudeploy, "inspect", library]
    commands = {
        "cudeploy inspect": (inspect, 3),
        "… --format json": ([*inspect, "--format", "json"], 1),
        "cat": (["cat", library], 3),
        "readelf -dVs": (["readelf", "-dVsW", library], 1),
        "LIEF, whole parse": ([arguments.lief, library], 1),
    }
    if lister:
        commands["cuobjdump"] = ([lister, "--list-elf", "--list-ptx", library], 1)
    medians_by_turns({"cat": commands["cat"]}, 1)  # warm
    medians = medians_by_turns(commands, arguments.rounds)
    memory = max(peak_memory(inspect) for _ in range(3))
    print(f"{library.name}, {library.stat().st_size / 1e6:.0f} MB, medians:")
    print_rows(medians, "cudeploy inspect")
    print(f"  memory of cudeploy inspect, all processes: {memory:.0f} MB")
    missed = []
    for name, least in LEAST.items():
        if name in medians and (ratio := medians[name] / medians["cudeploy inspect"]) < least:
            missed.append(f"{ratio:.1f} times faster than {name}, expected at least {least}")
    if memory > MOST_MEMORY:
        missed.append(f"{memory:.0f} MB, expected at most {MOST_MEMORY}")
    return missed


def compare_folder(arguments, files):
    commands = {"cudeploy inspect": ([arguments.cudeploy, "inspect", arguments.folder], 1), "cat": (["cat", *files], 1)}
    medians_by_turns({"cat": commands["cat"]}, 1)  # warm
    medians = medians_by_turns(commands, arguments.rounds)
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files of the toolkit's libraries, {size / 1e6:.0f} MB, medians:")
    print_rows(medians, "cat")
    ratio = medians["cudeploy inspect"] / medians["cat"]
    return [f"the folder in {ratio:.2f} times cat's time, expected at most {MOST_OF_CAT}"] if ratio > MOST_OF_CAT else []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cudeploy", required=True)
    parser.add_argument("--released", required=True, help="the command of the release; measured where it was made")
    parser.add_argument("--lief", required=True, help="the program lief_whole_parse")
    parser.add_argument("--folder", required=True, help="the toolkit's libraries")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if Path(arguments.released).exists():
        arguments.cudeploy = arguments.released
    else:
        print(f"not tried: the command of the release, which was not made; measured is {arguments.cudeploy}")
    library = Path(arguments.folder, LIBRARY).resolve()
    if not library.exists():
        print(f"skipped: {LIBRARY} is not in {arguments.folder}")
        return 77
    files = regular_files(arguments.folder)
    part = real_part("cuobjdump-13.5")
    lister = part and part / "nvidia/cu13/bin/cuobjdump"
    codes = [verdict(lambda: compare_library(arguments, library, lister)), verdict(lambda: compare_folder(arguments, files))]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
