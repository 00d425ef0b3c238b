#!/usr/bin/env python3
"""The time to read a library grows with the number of its images and with the data that has to be searched, not with the
file. Libraries are built that grow in one of these alone, with ptxas, fatbinary and the linker; the medians are drawn
into audit/growth.svg (with CUDEPLOY_BLESS=1, else into the build folder). Fails where

  the same 64 images, payloads of 16 to 256 MB     take more than 1.5 times as long at the end
  more and more images of 16 kB                    cost each more than 2 times as much in the second half
  .rodata of 16 to 256 MB                          costs each MB more than 2 times as much in the second half
"""
import argparse
import os
import random
import subprocess
import sys
from pathlib import Path

from measure import medians_by_turns, verdict

MB = 1_000_000
SIZES = [16, 64, 128, 192, 256]  # MB
IMAGES = 64
CAT, PAYLOADS, NUMBER, DATA = "cat of these files", "payloads grow", "number of images grows", ".rodata grows"
COLOURS = {CAT: "#999999", PAYLOADS: "#2a7f3f", NUMBER: "#b5442c", DATA: "#2c5fb5"}

PTX = """.version 9.0
.target sm_90
.address_size 64
.global .align 1 .b8 table[{size}] = {{1}};
.visible .entry kernel(.param .u64 out)
{{
.reg .u64 %r<3>;
ld.param.u64 %r1, [out];
mov.u64 %r2, table;
st.global.u64 [%r1], %r2;
ret;
}}
"""


class Libraries:
    def __init__(self, toolkit, folder):
        self.tools, self.folder = Path(toolkit, "bin"), folder

    def fat_binary(self, size):
        """One image of about `size` bytes, not compressed."""
        ptx, cubin, fatbin = (self.folder / f"image.{kind}" for kind in ("ptx", "cubin", "fatbin"))
        ptx.write_text(PTX.format(size=size - 3200))
        subprocess.run([self.tools / "ptxas", "-arch", "sm_90", ptx, "-o", cubin], check=True)
        subprocess.run([self.tools / "fatbinary", "-64", "--compress=false", f"--create={fatbin}",
                        f"--image3=kind=elf,sm=90,file={cubin}"], check=True)
        return fatbin.read_bytes()

    def build(self, name, section, piece, count):
        """A library whose section holds a piece so many times."""
        library, content, source = self.folder / f"{name}.so", self.folder / "content", self.folder / "library.s"
        with open(content, "wb") as out:
            for _ in range(count):
                out.write(piece)
        source.write_text(f'.section {section},"a"\n.balign 8\n.incbin "{content}"\n')
        subprocess.run(["cc", "-shared", "-nostdlib", "-o", library, source], check=True)
        content.unlink()
        return library

    def build_all(self):
        """Series -> size in MB -> file."""
        small, noise = self.fat_binary(16_000), random.Random(1).randbytes(MB)
        return {
            PAYLOADS: {size: self.build(f"payloads{size}", ".nv_fatbin", self.fat_binary(size * MB // IMAGES), IMAGES)
                       for size in SIZES},
            NUMBER: {size: self.build(f"number{size}", ".nv_fatbin", small, size * MB // len(small)) for size in SIZES},
            DATA: {size: self.build(f"data{size}", ".rodata", noise, size) for size in SIZES},
        }


def measured(cudeploy, libraries, rounds):
    """Series -> size in MB -> median milliseconds."""
    commands = {(series, size): ([cudeploy, "inspect", path], 1)
                for series, files in libraries.items() for size, path in files.items()}
    commands.update({(CAT, size): (["cat", path], 1) for size, path in libraries[PAYLOADS].items()})
    medians_by_turns({key: (["cat", command[-1]], 1) for key, (command, _) in commands.items()}, 1)  # warm
    times = {}
    for (series, size), seconds in medians_by_turns(commands, rounds).items():
        times.setdefault(series, {})[size] = seconds * 1000
    return times


def judge(times):
    missed = []
    first, middle, last = SIZES[0], SIZES[len(SIZES) // 2], SIZES[-1]
    payloads = times[PAYLOADS]
    if payloads[last] > 1.5 * payloads[first]:
        missed.append(f"{PAYLOADS}: {payloads[first]:.0f} ms at {first} MB, {payloads[last]:.0f} ms at {last} MB")
    for series in (NUMBER, DATA):
        early = (times[series][middle] - times[series][first]) / (middle - first)
        late = (times[series][last] - times[series][middle]) / (last - middle)
        if late > 2 * early:
            missed.append(f"{series}: {early:.3f} ms per MB up to {middle} MB, {late:.3f} behind")
    return missed


def drawn(times):
    """The plot, as text of an SVG file."""
    width, height, left, bottom, top = 640, 360, 52, 318, 16
    most_ms = max(max(points.values()) for points in times.values())
    step = next(s for s in (5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 5000) if most_ms / s <= 8)
    across = lambda size: round(left + (width - left - 200) * size / SIZES[-1])
    up = lambda ms: round(bottom - (bottom - top) * ms / (step * (most_ms // step + 1)))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           "<title>cudeploy inspect: time over the size of the file</title>",
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for ms in range(0, int(most_ms) + step, step):
        out.append(f'<path d="M{left} {up(ms)}H{across(SIZES[-1])}" stroke="#dddddd"/>'
                   f'<text x="{left - 6}" y="{up(ms) + 4}" text-anchor="end">{ms}</text>')
    for size in SIZES:
        out.append(f'<text x="{across(size)}" y="{bottom + 18}" text-anchor="middle">{size}</text>')
    out.append(f'<text x="{across(SIZES[-1] / 2)}" y="{bottom + 36}" text-anchor="middle">MB of the file</text>')
    out.append(f'<text x="{left + 4}" y="{top + 4}">ms</text>')
    labels = []  # top down, so that none lies on another
    for series, points in sorted(times.items(), key=lambda item: -item[1][SIZES[-1]]):
        y = max(up(points[SIZES[-1]]) + 4, labels[-1] + 15 if labels else 0)
        labels.append(y)
        line = " ".join(f"{across(size)},{up(ms)}" for size, ms in points.items())
        out.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[series]}" stroke-width="2"/>')
        out += [f'<circle cx="{across(size)}" cy="{up(ms)}" r="3" fill="{COLOURS[series]}"/>' for size, ms in points.items()]
        out.append(f'<text x="{across(SIZES[-1]) + 10}" y="{y}" fill="{COLOURS[series]}">{series}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cudeploy", required=True)
    parser.add_argument("--toolkit", required=True, help="with bin/ptxas and bin/fatbinary")
    parser.add_argument("--folder", type=Path, required=True, help="to build in: 800 MB, removed afterwards")
    parser.add_argument("--plot", type=Path, required=True, help="the SVG that CUDEPLOY_BLESS=1 writes")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    libraries = Libraries(arguments.toolkit, arguments.folder).build_all()
    plot = arguments.plot if os.environ.get("CUDEPLOY_BLESS") else arguments.folder / arguments.plot.name

    def measure():
        times = measured(arguments.cudeploy, libraries, arguments.rounds)
        print("medians in ms of files of " + ", ".join(f"{size} MB" for size in SIZES))
        for series, points in times.items():
            print(f"  {series:<24}" + "".join(f"{ms:8.0f}" for ms in points.values()))
        plot.write_text(drawn(times))
        return judge(times)

    try:
        return verdict(measure)
    finally:
        for files in libraries.values():
            for path in files.values():
                path.unlink()


if __name__ == "__main__":
    sys.exit(main())
