"""Static checks on all sources that the build compiles: python3 clang_tidy.py BUILD_DIR SOURCE_DIR

A file's verdict is kept beside the build, under what it depends on, so that only what changed is checked again.
"""

import concurrent.futures
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    build, source = Path(sys.argv[1]), Path(sys.argv[2])
    if not shutil.which("clang-tidy"):
        print("skipped: clang-tidy is not here")
        return 77
    kept = build / "clang_tidy"
    kept.mkdir(exist_ok=True)
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = Path(entry["file"])
        if path.is_relative_to(source) and path.suffix == ".cpp" and not path.is_relative_to(build):
            commands[path] = entry
    assert commands, "no source in compile_commands.json"
    settings = (source / ".clang-tidy").read_bytes()

    def check(path: Path) -> str:
        entry = commands[path]
        words = shlex.split(entry["command"])
        # All that the compiler would read, system headers too: a new library gives a new verdict.
        output = words.index("-o")
        listing = subprocess.run(words[:output] + words[output + 2:] + ["-M"], cwd=entry["directory"],
                                 capture_output=True, text=True).stdout
        key = hashlib.sha256(settings + entry["command"].encode())
        for name in sorted(set(listing.replace("\\\n", " ").split(": ", 1)[-1].split())):
            file = Path(entry["directory"]) / name
            key.update(name.encode() + (file.read_bytes() if file.is_file() else b""))
        verdict = kept / key.hexdigest()
        if verdict.exists():
            return ""
        result = subprocess.run(["clang-tidy", "--quiet", "-p", str(build), str(path)], capture_output=True, text=True)
        if result.returncode == 0:
            verdict.touch()
            return ""
        return result.stdout + "\n".join(line for line in result.stderr.splitlines() if "warnings" not in line)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, said in zip(sorted(commands), pool.map(check, sorted(commands))):
            if said:
                failed += 1
                print(f"{path.relative_to(source)}:\n{said}")
    print(f"clang-tidy: {failed} of {len(commands)} files fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
