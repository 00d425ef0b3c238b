"""Ten thousand damaged ELF, PE and ar files through the command itself:
python3 mutated_files_test.py CUDEPLOY NVCC KEEP_IN [SEED [COUNT [FILE...]]]

Damage goes where a reader looks: headers, tables, sizes and offsets, with values that readers trip over. Whatever is
in a file, the command must end with 0 or 1, say nothing on standard error, have a row for each file, take less than 2 s
of processor time, never wait for a second with nothing to run, and take 512 MB with all its workers. No reader of ours may die; LIEF may do so
in its worker for MAY_DIE files. A file that breaks this is kept in KEEP_IN. FILEs are damaged too.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

BATCH = 250
SECONDS, BYTES = 2.0, 512_000_000
# A hang that burns no time shows while it lasts: none of the threads can run. Those that can and have no processor do
# not count, so what else the machine does changes nothing.
IDLE = 1.0
# Whatever else goes wrong must end too, by the clock; other tests run beside this one.
ALONE, TOGETHER = 10.0, 60.0
# LIEF 0.9.0 trusts what an ELF file says and is the only reader that is not ours; the worker is there for its deaths.
# None of the 10,000 makes it die today; where another seed or another LIEF does, a few are its bugs, more are ours.
MAY_DIE = 3
OURS_ALONE = (".dll", ".fatbin", ".cubin", ".ptx")  # LIEF never sees these
FATBIN = b"\x50\xed\x55\xba"

SOURCES = {
    "lib.c": "extern double cos(double);\nint g = 1;\nint f(void) { return g + (int)cos(g); }\n"
             "int h(void) { return 2; }\n",
    "program.c": "extern int f(void); int main(void) { return f(); }\n",
    "dll.c": "__declspec(dllexport) int NAME(void) { return 1; }\n",
    "main.c": "__declspec(dllimport) int dep(void); __declspec(dllimport) int late(void);\n"
              "void *__delayLoadHelper2(void *descriptor, void *slot) { return slot; }\n"
              "__declspec(dllexport) int both(void) { return dep() + late(); }\n",
    # Where nvcc puts device code in Windows' files.
    "device.s": ".section .nv_fatb,\"dr\"\n.p2align 4\n.incbin \"kernel.fatbin\"\n"
                ".section .nvFatBi,\"dr\"\n.p2align 3\n.long 0x466243b1, 1\n.quad 0, 0\n",
    "kernel.cu": "__global__ void add(float* x) { x[threadIdx.x] += 1; }\nvoid f(float* x) { add<<<1, 32>>>(x); }\n",
    "versions.map": "ONE { global: f; local: g; };\nTWO { global: h; } ONE;\n",
}
COMMANDS = [
    "gcc -shared -fPIC lib.c -o lib.so -lm -Wl,-soname,libx.so.1,--version-script=versions.map,--enable-new-dtags,"
    "-rpath,'$ORIGIN/../lib:/opt/x'",
    "gcc -shared -fPIC lib.c -o sysv.so -lm -Wl,--hash-style=sysv,--disable-new-dtags,-rpath,/opt/x,-z,nodelete -s",
    "gcc program.c lib.so -o program",
    "gcc -static program.c lib.c -o static_program -lm -s",
    "gcc -c -g -ffunction-sections lib.c -o object.o",
    "gcc -c program.c -o a_name_of_more_than_fifteen_letters.o",
    "ar rc archive.a object.o a_name_of_more_than_fifteen_letters.o",
    "$NVCC -shared -Xcompiler -fPIC -cudart none -gencode arch=compute_90,code=[sm_90,compute_90] kernel.cu -o cuda.so",
    "$NVCC -c -rdc=true -gencode arch=compute_90,code=sm_90 kernel.cu -o cuda.o",
    "$NVCC -fatbin -gencode arch=compute_90,code=[sm_90,compute_90] kernel.cu -o kernel.fatbin",
    "$NVCC -cubin -arch=sm_90 kernel.cu -o kernel.cubin",
    "$NVCC -ptx -arch=compute_90 kernel.cu -o kernel.ptx",
    "ar rc cuda.a cuda.o",
    # A DLL with imports, delayed imports and device code; what it is made of is no base.
    "mkdir windows",
    *(f"$CLANG -DNAME={name} dll.c -o windows/{name}.obj && $LLD /noentry windows/{name}.obj /out:windows/{name}.dll"
      for name in ("dep", "late")),
    "$CLANG main.c -o windows/main.obj && $CLANG device.s -o windows/device.obj",
    "$LLD /noentry windows/main.obj windows/device.obj windows/dep.lib windows/late.lib /delayload:late.dll /out:main.dll",
    "rm -r windows main.lib",
]
TOOLS = {"CLANG": "clang --target=x86_64-pc-windows-msvc -O1 -c", "LLD": "lld-link /nologo /nodefaultlib /dll"}


def bases(folder: Path, nvcc: str) -> dict[str, bytes]:
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    for command in COMMANDS:
        subprocess.run(command, shell=True, cwd=folder, check=True, env=os.environ | TOOLS | {"NVCC": nvcc})
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in SOURCES}


class Mutator:
    def __init__(self, rng: random.Random):
        self.rng = rng

    def value(self, width: int, now: int, size: int) -> int:
        """What a field may claim in a file of `size` bytes: borders of type and file, and near what it says."""
        top = 1 << (8 * width)
        choices = [0, 1, 2, top - 1, top - 2, top // 2, top // 2 - 1, size, size - 1, size + 1, now + 1, now - 1,
                   now * 2, now // 2, now + 0x1000, 1_000_000_000, 0x10000, 0xFFFF, 0xFFFFFFFF, 1 << 60,
                   self.rng.randrange(top), self.rng.randrange(size + 1), now ^ (1 << self.rng.randrange(8 * width))]
        return self.rng.choice(choices) % top

    def field(self, out: bytearray, at: int, width: int) -> None:
        if 0 <= at and at + width <= len(out):
            now = int.from_bytes(out[at:at + width], "little")
            out[at:at + width] = self.value(width, now, len(out)).to_bytes(width, "little")

    def record(self, out: bytearray, table: int, size: int, count: int, widths: list[int]) -> None:
        """One field of one record of a table."""
        if count < 1:
            return
        index = self.rng.randrange(len(widths))
        self.field(out, table + size * self.rng.randrange(min(count, 4096)) + sum(widths[:index]), widths[index])

    def elf(self, out: bytearray, start: int = 0) -> None:
        if len(out) < start + 64:
            return
        programs, sections = struct.unpack_from("<QQ", out, start + 32)
        program_count, section_count = struct.unpack_from("<H2xH", out, start + 56)
        tables = []
        for i in range(min(section_count, 100)):
            at = start + sections + 64 * i
            if at + 64 > len(out):
                break
            kind, where, size = struct.unpack_from("<4xI16xQQ", out, at)
            # Strings, symbols, notes, dynamic entries, hashes and versions.
            if kind in (2, 3, 5, 6, 7, 11, 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF) and size:
                tables.append((start + where, size))
        choice = self.rng.randrange(5)
        if choice == 0:
            self.record(out, start, 0, 1, [4, 1, 1, 1, 9, 2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2])
        elif choice == 1:
            self.record(out, start + programs, 56, program_count, [4, 4, 8, 8, 8, 8, 8, 8])
        elif choice == 2:
            self.record(out, start + sections, 64, section_count, [4, 4, 8, 8, 8, 8, 4, 4, 8, 8])
        elif tables:
            where, size = self.rng.choice(tables)
            width = self.rng.choice([1, 2, 4, 8])
            self.field(out, where + self.rng.randrange(size) // width * width, width)

    def pe(self, out: bytearray) -> None:
        if len(out) < 0x40:
            return
        header, = struct.unpack_from("<I", out, 0x3C)
        if header + 24 > len(out):
            return
        count, optional = struct.unpack_from("<H12xH", out, header + 6)
        choice = self.rng.randrange(6)
        if choice == 0:
            self.record(out, header, 0, 1, [4, 2, 2, 4, 4, 4, 2, 2])
        elif choice == 1:
            self.record(out, header + 24, 0, 1, [2, 1, 1, 4, 4, 4, 4, 4, 8, 4, 4, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 2, 2, 8,
                                                 8, 8, 8, 4, 4])
        elif choice == 2:
            self.record(out, header + 24 + 112, 8, 16, [4, 4])  # data directories
        elif choice == 3:
            self.record(out, header + 24 + optional, 40, count, [8, 4, 4, 4, 4, 4, 4, 2, 2, 4])
        elif choice == 4:
            self.field(out, 0x3C, 4)
        else:  # what the directories lead to: names, thunks, tables of addresses
            width = self.rng.choice([1, 2, 4, 8])
            first = min(0x200, len(out) // 2)
            self.field(out, first + self.rng.randrange(max(1, len(out) // 2)) // width * width, width)

    def fatbin(self, out: bytearray) -> None:
        places = []
        at = out.find(FATBIN)
        while at >= 0 and len(places) < 16:
            places.append(at)
            at = out.find(FATBIN, at + 1)
        if not places:
            return
        at = self.rng.choice(places)
        if self.rng.random() < 0.3:
            self.record(out, at, 0, 1, [4, 2, 2, 8])
        else:  # the first entry's header
            self.record(out, at + 16, 0, 1, [2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 8, 8, 8])

    def ar(self, out: bytearray) -> None:
        ends = [at for at in range(66, min(len(out) - 1, 1 << 20)) if out[at:at + 2] == b"`\n"]
        if not ends:
            return
        header = self.rng.choice(ends) - 58
        where, width = self.rng.choice([(0, 16), (48, 10), (58, 2)])
        text = self.rng.choice([b"9999999999", b"-1", b"0", b"", b"/999999", b"#1/999999999", b"#1/0", b"//", b"/",
                                str(len(out)).encode(), bytes([self.rng.randrange(256)])])
        out[header + where:header + where + width] = text[:width].ljust(width)

    def anywhere(self, out: bytearray) -> None:
        choice = self.rng.randrange(6)
        at = self.rng.randrange(len(out)) if out else 0
        if not out:
            return
        if choice == 0:
            del out[at:]
        elif choice == 1:
            for _ in range(self.rng.randrange(1, 16)):
                out[self.rng.randrange(len(out))] ^= 1 << self.rng.randrange(8)
        elif choice == 2:
            self.field(out, at // 8 * 8, self.rng.choice([2, 4, 8]))
        elif choice == 3:  # a block over another
            size = self.rng.randrange(1, 512)
            out[at:at + size] = out[self.rng.randrange(len(out)):][:size]
        elif choice == 4:
            size = self.rng.randrange(1, 4096)
            out[at:at + size] = bytes([self.rng.choice([0, 0xFF, 0x41])]) * len(out[at:at + size])
        else:
            del out[at:at + self.rng.randrange(1, 256)]

    def mutate(self, base: bytes) -> bytes:
        out = bytearray(base)
        for _ in range(self.rng.choice([1, 1, 1, 2, 3, 8])):
            kind = bytes(out[:8])
            ways = [self.anywhere]
            if kind.startswith(b"\x7fELF"):
                ways += [self.elf] * 5
            if kind.startswith(b"MZ"):
                ways += [self.pe] * 5
            if kind.startswith(b"!<arch>\n"):
                member = out.find(b"\x7fELF")
                ways += [self.ar] * 3 + [lambda data: self.elf(data, max(member, 0))] * 2
            if FATBIN in out:
                ways += [self.fatbin] * 2
            self.rng.choice(ways)(out)
        return bytes(out)


def peak_memory(pid: int) -> list[int]:
    """Bytes: the peaks of a process and of all below it. Pages that are shared count in each."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        found = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")]
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                found += peak_memory(int(child))
        return found
    except (FileNotFoundError, ProcessLookupError):
        return []


def can_run(pid: int) -> bool:
    """Whether a thread of the process or of one below it computes, waits for a disk or is stopped by somebody."""
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            if (thread / "stat").read_text().rpartition(")")[2].split()[0] not in "SZX":
                return True
            if any(can_run(int(child)) for child in (thread / "children").read_text().split()):
                return True
        return False
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has just ended, so it ran


class Run:
    """One run of the command over some files, and what it cost with all its workers."""

    largest = 0  # bytes, most of all its processes together
    idle = 0.0  # seconds, the longest stretch in which nothing could run
    over = late = False

    def __init__(self, cudeploy: str, words: list[str], files: list[Path]):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen([cudeploy, *words, *map(str, files)], stdout=out, stderr=err, start_new_session=True)
            clock = threading.Timer(ALONE if len(files) == 1 else TOGETHER, self.end, [process.pid])
            memory = threading.Thread(target=self.watch, args=[process.pid])
            clock.start(), memory.start()
            _, status, used = os.wait4(process.pid, 0)
            clock.cancel()
            self.over = True
            memory.join()
            process.returncode = self.code = os.waitstatus_to_exitcode(status)
            out.seek(0), err.seek(0)
            self.out, self.err = out.read(), err.read()
        self.seconds = used.ru_utime + used.ru_stime  # of the parent and all its workers
        self.largest = max(self.largest, used.ru_maxrss * 1024)  # whatever was missed, no process had more

    def end(self, parent: int) -> None:
        self.late = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent, signal.SIGKILL)  # with its workers

    def watch(self, parent: int) -> None:
        """Adds up the peaks of all processes that are there, again and again."""
        stretch, seen = 0.0, time.monotonic()
        while not self.over:
            self.largest = max(self.largest, sum(peak_memory(parent)))
            now = time.monotonic()
            # Nobody knows what was while this thread itself had no processor.
            stretch = 0.0 if can_run(parent) else stretch + min(now - seen, 0.02)
            self.idle, seen = max(self.idle, stretch), now
            time.sleep(0.002)

    def faults(self, files: list[Path]) -> list[str]:
        if self.late:
            return [f"not ready after {ALONE if len(files) == 1 else TOGETHER:.0f} s"]
        found = []
        if self.code not in (0, 1):
            found.append(f"exit code {self.code}")
        if self.err:
            found.append(f"standard error: {self.err[:300]!r}")
        if self.largest > BYTES:
            found.append(f"{self.largest / 1e6:.0f} MB in all its processes")
        if len(files) == 1 and self.seconds > SECONDS:
            found.append(f"{self.seconds:.1f} s")
        if self.idle > IDLE:
            found.append(f"nothing ran for {self.idle:.1f} s")
        try:
            self.record = json.loads(self.out)
        except ValueError as error:
            return found + [f"its JSON cannot be read: {error}"]
        return found


def check_inspect(run: Run, files: list[Path], told: dict[str, list[str]]) -> list[str]:
    """What is wrong with the run; `told` gets each file's problems."""
    found = run.faults(files)
    if not hasattr(run, "record"):
        return found
    rows: dict[str, list[str]] = {}
    for row in run.record["files"]:
        rows.setdefault(row["path"].split("!/")[0], []).extend(problem["message"] for problem in row["problems"])
    found += [f"no row for {path.name}" for path in files if str(path) not in rows]
    found += [problem for path, problems in rows.items() for problem in problems
              if problem.startswith("reader " if path.endswith(OURS_ALONE) else ("reader stopped", "reader told"))]
    damaged = sum(bool(problems) for problems in rows.values())
    if run.code != (1 if damaged else 0):
        found.append(f"exit code {run.code} with {damaged} damaged files")
    told.update(rows)
    return found


def check_audit(run: Run, files: list[Path], _: dict[str, list[str]]) -> list[str]:
    found = run.faults(files)
    if not hasattr(run, "record"):
        return found
    judged = {row["path"].split("!/")[0] for row in run.record["verdicts"]}
    return found + [f"no verdict for {path.name}" for path in files if str(path) not in judged]


def main() -> int:
    cudeploy, nvcc, keep = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 20260801
    count = int(sys.argv[5]) if len(sys.argv) > 5 else 10_000
    rng = random.Random(seed)
    mutator = Mutator(rng)
    told: dict[str, list[str]] = {}
    failed = 0

    def run(words, check, files):
        """Faults, each with the smallest batch that shows it: a file that is slow is slow alone."""
        done = Run(cudeploy, words, files)
        faults = check(done, files, told)
        if len(files) > 1 and (faults or done.seconds > SECONDS):
            half = len(files) // 2
            return run(words, check, files[:half]) + run(words, check, files[half:]) or [(files, f) for f in faults]
        return [(files, fault) for fault in faults]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bases").mkdir()
        start = bases(folder / "bases", nvcc) | {Path(file).name: Path(file).read_bytes() for file in sys.argv[6:]}
        # What a fuzzer has kept of Windows files: sound ones are bases too, others are damaged already.
        corpus = Path(__file__).parent / "corpus" / "pe"
        seeds = {f"{path.name}.dll": path.read_bytes() for path in sorted(corpus.iterdir())}
        start |= seeds
        # Each base is read as it is, or damage would be found in front of what is damaged.
        whole: dict[str, list[str]] = {}
        files = [folder / base for base in start]
        for path in files:
            path.write_bytes(start[path.name])
        for fault in check_inspect(Run(cudeploy, ["inspect", "--format", "json"], files), files, whole):
            print(f"before anything was done: {fault}")
            failed += 1
        unsound = {Path(path).name for path, problems in whole.items() if problems}
        assert unsound <= set(seeds), f"a base is damaged before anything was done to it: {whole}"
        start = {base: content for base, content in start.items() if base not in unsound}
        assert start.keys() & set(seeds), "no seed of a fuzzer is a sound Windows file"
        # A large base costs time and shows little that a small one does not.
        weights = [1 if len(content) < 100_000 else 0.1 for content in start.values()]
        for first in range(0, count, BATCH):
            batch = folder / f"{first}"
            batch.mkdir()
            files = []
            for i in range(first, min(first + BATCH, count)):
                base, = rng.choices(list(start), weights)
                files.append(batch / f"{i}_{base}")
                files[-1].write_bytes(mutator.mutate(start[base]))
            for words, check in ((["inspect", "--format", "json", "--kernels", "--payloads"], check_inspect),
                                 (["audit", "--format", "json"], check_audit)):
                for bad, fault in run(words, check, files):
                    failed += 1
                    print(f"{words[0]} {', '.join(path.name for path in bad[:3])}: {fault}")
                    keep.mkdir(parents=True, exist_ok=True)
                    for path in bad[:3]:
                        shutil.copy(path, keep)
            shutil.rmtree(batch)
    dead = Counter(problem for problems in told.values() for problem in problems if problem.startswith("reader "))
    failed += dead.total() > MAY_DIE
    damaged = sum(map(bool, told.values()))
    print(f"seed {seed}: {count} files of {len(start)} bases, {damaged} of them damaged in the eyes of the command, "
          f"{dead.total()} readers dead, {failed} faults")
    for problem, times in sorted(dead.items()):
        print(f"  {times}: {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
