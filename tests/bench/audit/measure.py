"""What benchmarks of the command share: seconds of commands by turns, the memory of all processes of one, and the
parts that they are compared with. Seconds are by the wall clock; a MB has 1,000,000 bytes.
"""
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

REAL_PARTS = Path(__file__).resolve().parents[2] / "real_parts.sh"


def real_part(name):
    """The folder of a part of tests/real_parts.sh; None, and the reason is printed, when it cannot be downloaded."""
    result = subprocess.run(["sh", REAL_PARTS, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode == 77:
        print(result.stderr.strip().splitlines()[-1])
        return None
    if result.returncode != 0:
        sys.exit(f"{name}: {result.stderr}")
    return Path(result.stdout.strip())


def seconds_of(command):
    start = time.monotonic()
    result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    seconds = time.monotonic() - start
    if result.returncode != 0:
        sys.exit(f"{command[0]}: exit code {result.returncode}\n{result.stderr.decode(errors='replace')}")
    return seconds


def medians_by_turns(commands, rounds):
    """Name -> median seconds. `commands` has pairs of a command and how often it runs per round; by turns, so that what
    else the machine does is borne by all alike."""
    seconds = {name: [] for name in commands}
    for _ in range(rounds):
        for name, (command, often) in commands.items():
            seconds[name] += [seconds_of(command) for _ in range(often)]
    return {name: statistics.median(values) for name, values in seconds.items()}


def _peak_of_tree(pid, peaks):
    """Adds the peak resident size of a process and its descendants in KiB, by process id."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    peaks[pid] = max(peaks.get(pid, 0), int(line.split()[1]))
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as children:
                for child in children.read().split():
                    _peak_of_tree(int(child), peaks)
    except (FileNotFoundError, ProcessLookupError):
        pass


def peak_memory(command):
    """MB: the sum of the peaks of all its processes, which is no less than the peak of the sum. Pages that are shared
    count in each."""
    peaks = {}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        _peak_of_tree(process.pid, peaks)
        time.sleep(0.001)
    if process.returncode != 0:
        sys.exit(f"{command[0]}: exit code {process.returncode}")
    if not peaks:
        sys.exit(f"{command[0]}: its memory could not be seen in /proc")
    return sum(peaks.values()) * 1024 / 1e6


def print_rows(medians, first):
    """A line per command: milliseconds, and how many times those of the command `first`."""
    for name, seconds in medians.items():
        print(f"  {name:<26} {seconds * 1000:8.0f} ms  {seconds / medians[first]:7.2f}")


def verdict(measure, tries=3):
    """The exit code of a benchmark. `measure` returns what is too slow or too large. What else the machine does can
    spoil one measurement, so one that misses is repeated as a whole; what misses each time is missed."""
    for left in reversed(range(tries)):
        missed = measure()
        if not missed:
            return 0
        for sentence in missed:
            print(f"{'missed, measured again' if left else 'error'}: {sentence}")
    return 1
