"""A README is believed, so what it shows is run: python3 readme_test.py CUDEPLOY SOURCE_DIR [FOLDER_WITH_APP]

Without a folder: the block after `<!-- cudeploy --help -->` is what the command prints (CUDEPLOY_BLESS=1 writes it),
links of every *.md lead to files, and what a reader looks for has its heading. With one: each line of the shell
blocks that begins with `cudeploy` is run there and ends with exit code 0, or the one in its remark (`# exit 1`).
"""

import os
import re
import subprocess
import sys
from pathlib import Path


def help_block(cudeploy: str, readme: Path) -> list[str]:
    text = readme.read_text()
    block = re.compile(r"(<!-- cudeploy --help -->\n```\n)(.*?)(```\n)", re.S)
    said = block.search(text)
    if not said:
        return ["README.md: no block after <!-- cudeploy --help -->"]
    result = subprocess.run([cudeploy, "--help"], capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"})
    if result.returncode != 0 or not result.stdout:
        return [f"cudeploy --help: exit code {result.returncode}, {len(result.stdout)} bytes"]
    printed = "\n".join(line.rstrip() for line in result.stdout.replace(cudeploy, "cudeploy").strip().splitlines()) + "\n"
    if printed == said.group(2):
        return []
    if os.environ.get("CUDEPLOY_BLESS") == "1":
        readme.write_text(block.sub(lambda match: match.group(1) + printed + match.group(3), text))
        print("README.md: help block written")
        return []
    return ["README.md: the help block is not what cudeploy --help prints (CUDEPLOY_BLESS=1 writes it):", printed]


# Sections that nothing else refers to, so that losing one in an edit would be seen by nobody.
HEADINGS = {"audit/README.md": ["Exit codes", "Saved records", "What it costs", "Versions of LIEF", "Limits"]}


def headings(source: Path) -> list[str]:
    return [f"{name}: no section {heading}" for name, wanted in HEADINGS.items() for heading in wanted
            if f"\n## {heading}\n" not in (source / name).read_text()]


def links(source: Path) -> list[str]:
    broken = []
    for text in sorted(source.rglob("*.md")):
        name = text.relative_to(source)
        if name.parts[0] == "build":  # copies of other projects
            continue
        found = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text.read_text())
        broken += [f"{name}: no such file: {link}" for link in found
                   if "://" not in link and not (text.parent / link).exists()]
    # The commands of the first screen.
    shown = re.findall(r"^\s+sh (\S+\.sh)", (source / "README.md").read_text(), re.M)
    if len(shown) < 2:
        broken.append("README.md: the two commands are not shown")
    broken += [f"README.md: no such script: {script}" for script in shown if not (source / script).is_file()]
    return broken


def shell_lines(cudeploy: str, readme: Path, folder: Path) -> list[str]:
    broken = []
    lines = [line for block in re.findall(r"```sh\n(.*?)```", readme.read_text(), re.S)
             for line in block.splitlines() if line.startswith("cudeploy ")]
    if len(lines) < 4:
        return [f"README.md: {len(lines)} shell lines to run, expected more"]
    path = f"{Path(cudeploy).parent}:{os.environ['PATH']}"
    for line in lines:
        remark = re.search(r"# exit (\d)", line)
        expected = int(remark.group(1)) if remark else 0
        result = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True,
                                env={**os.environ, "PATH": path})
        print(f"$ {line}\n{result.stdout}{result.stderr}")
        if result.returncode != expected:
            broken.append(f"README.md: `{line}`: exit code {result.returncode}, expected {expected}")
        elif not result.stdout:
            broken.append(f"README.md: `{line}`: prints nothing")
    return broken


def main() -> int:
    cudeploy, source = sys.argv[1], Path(sys.argv[2])
    readme = source / "README.md"
    if len(sys.argv) > 3:
        broken = shell_lines(cudeploy, readme, Path(sys.argv[3]))
    else:
        broken = help_block(cudeploy, readme) + headings(source) + links(source)
    for line in broken:
        print(line)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
