"""The house rules that a reader cannot see at a glance, each as a test: python3 house_rules.py RULE [SOURCE_DIR]

A rule fails with one line per place, `path:line: what is wrong`. A rule that found nothing to look at fails too.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# Includes go down only. Each header of audit/ stands on one step; a file may include headers of lower steps, and
# its own. What reads and what judges meet only in the inspect record.
READING = [
    ["json_field"],
    ["bytes", "inspect_record", "parallel"],
    ["archive", "find_bytes", "payload", "pe", "ptx", "record_codec", "slice"],
    ["companions", "cubin", "runtime_copies"],
    ["vendor"],
    ["fatbin"],
    ["binary"],
    ["worker"],
    ["package"],
    ["saved_document"],
]
JUDGING = [
    ["json_field"],
    ["inspect_record", "nearest"],
    ["bundle", "policy", "system_names"],
    ["bundle_tree", "gpu"],
    ["closure"],
    ["loose_code", "runtime_states"],
    ["rule"],
    ["policy_file", "report"],
    ["new_project", "runtime_report"],
    ["saved_document"],
]
TOP = ["main"]
# The one door to LIEF, whose interface changes with each release.
LIEF_DOOR = {"audit/binary.cpp", "tests/bench/audit/lief_whole_parse.cpp"}
RULES_MAY_SEE = {
    "bundle.hpp", "closure.hpp", "gpu.hpp", "inspect_record.hpp", "loose_code.hpp", "policy.hpp", "rule.hpp",
    "runtime_states.hpp", "system_names.hpp",
}

JUNK_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "misc"}

# Links in comments and documents lead to documents. Where packages come from is the machine's own setting.
DOCUMENT_HOSTS = {
    "cmake.org", "developer.nvidia.com", "docs.nvidia.com", "forums.developer.nvidia.com", "github.com",
    "json-schema.org", "json.schemastore.org", "llvm.org", "man7.org", "refspecs.linuxfoundation.org",
    "docs.oasis-open.org", "www.apache.org", "www.sourceware.org", "sourceware.org", "gitlab.com", "nvidia.github.io",
    "packaging.python.org", "peps.python.org", "reproducible-builds.org", "www.debian.org", "example.com",
    "arxiv.org", "keepachangelog.com", "semver.org", "www.w3.org", "learn.microsoft.com", "ninja-build.org",
}
MACHINE_PATHS = re.compile(r"(?<![\w.$}/-])/(?:work|root|home/\w+|Users/\w+|mnt|var/cache/cudeploy)(?:/|\b)")


def tracked(source: Path) -> list[str]:
    """Paths of the files that belong to the project, relative to it, sorted."""
    if (source / ".git").exists() and shutil.which("git"):
        git = ["git", "-c", "safe.directory=*", "-C", str(source)]
        names = subprocess.run(
            git + ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True)
        found = names.stdout.decode().split("\0")
        return sorted(name for name in found if name and (source / name).is_file())
    found = []
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in {".git", "build", "__pycache__"}]
        found += [str((Path(folder) / name).relative_to(source)) for name in names]
    return sorted(found)


def text_lines(source: Path, path: str):
    """(number, line) of a text file; nothing for a binary one."""
    data = (source / path).read_bytes()
    if b"\0" in data:
        return []
    return enumerate(data.decode("utf-8", "replace").splitlines(), 1)


def steps_of(stem: str) -> dict[str, int]:
    """Where a header stands: side -> step."""
    out = {}
    for side, steps in (("reading", READING), ("judging", JUDGING)):
        for number, stems in enumerate(steps):
            if stem in stems:
                out[side] = number
    return out


def includes_go_down(source: Path, files: list[str]):
    include = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
    seen = 0
    for path in files:
        if not path.endswith((".cpp", ".hpp", ".h")) or path.startswith("examples/"):
            continue
        for number, line in text_lines(source, path):
            match = include.match(line)
            if not match:
                continue
            seen += 1
            name = match.group(2)
            if name.startswith("LIEF/") and path not in LIEF_DOOR:
                yield f"{path}:{number}: includes {name}; only {', '.join(sorted(LIEF_DOOR))} may"
            if not path.startswith("audit/") or match.group(1) != '"':
                continue
            if path.startswith("audit/rules/"):
                if Path(name).name not in RULES_MAY_SEE:
                    yield f"{path}:{number}: a rule includes {name}; it may see {', '.join(sorted(RULES_MAY_SEE))}"
                continue
            stem, other = Path(path).stem, Path(name).stem
            if stem == other or stem in TOP or name.endswith(".def"):
                continue
            if stem == "rules":  # the table of all rules
                stem = "report"
            mine, theirs = steps_of(stem), steps_of(other)
            if name.startswith("runtime_static/") or name.startswith("../runtime_static/"):
                continue
            if not mine:
                yield f"{path}:{number}: {stem} has no step in tests/house/house_rules.py"
            elif not theirs:
                yield f"{path}:{number}: includes {name}, which has no step in tests/house/house_rules.py"
            elif not any(side in mine and theirs[side] < mine[side] for side in theirs):
                yield f"{path}:{number}: includes {name}, which does not stand below it"
    assert seen > 20, "hardly any include found: is this the source folder?"


def names_say_what(source: Path, files: list[str]):
    for path in files:
        for part in Path(path).parts:
            if part.split(".")[0].lower() in JUNK_NAMES:
                yield f"{path}:1: a name that says nothing: {part}"


def no_machine_in_files(source: Path, files: list[str]):
    url = re.compile(r"(?:https?|ftp)://(?:[^/@\s]*@)?([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")
    for path in files:
        if path.startswith("tests/house/house_rules"):
            continue
        for number, line in text_lines(source, path):
            for host in url.findall(line):
                if host.lower() not in DOCUMENT_HOSTS:
                    yield f"{path}:{number}: a host that is no document's: {host}"
            for match in MACHINE_PATHS.finditer(line):
                if match.group().startswith("/home/ci/") and path.startswith("tests/audit/"):
                    continue  # somebody's build server, in a case of a rule about such paths
                yield f"{path}:{number}: a path of one machine: {line[match.start():match.start() + 40]}"


def shell_scripts_are_posix(source: Path, files: list[str]):
    scripts = [path for path in files if path.endswith(".sh")]
    assert scripts, "no shell script found"
    for checker in (["dash", "-n"], ["shellcheck", "-x", "-f", "gcc"]):
        if not shutil.which(checker[0]):
            print(f"not tried: {checker[0]} is not installed")
            continue
        for path in scripts:
            result = subprocess.run(checker + [path], cwd=source, capture_output=True, text=True)
            if result.returncode:
                yield from (result.stdout + result.stderr).splitlines()


def changes_name_their_subject(source: Path, files: list[str]):
    rule = r"CD\d{3} [a-z0-9-]+"
    command = r"`?(?:cudeploy(?: [a-z-]+)?|cudeploy_[a-z_]+|cudeploy::[a-z]+|find_package|CUDEPLOY_[A-Z]+|cudeploy/[a-z.]+|sh [a-z/]+\.sh)`?"
    subject = re.compile(rf"- (?:{rule}|{command}): ")
    entries = [(n, line) for n, line in text_lines(source, "CHANGELOG.md") if line.startswith("- ")]
    assert entries, "CHANGELOG.md has no entry"
    for number, line in entries:
        if not subject.match(line):
            yield f"CHANGELOG.md:{number}: begins with no rule, command or function and a colon: {line[:60]}"


def sources(files: list[str]) -> list[str]:
    return [path for path in files if path.endswith((".cpp", ".hpp", ".h", ".cu", ".cuh", ".c"))]


def code_is_formatted(source: Path, files: list[str]):
    tool = next((name for name in ("clang-format-14", "clang-format") if shutil.which(name)), None)
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if " 14." not in version:  # other versions lay some code out differently
        print(f"skipped: clang-format 14 is wanted, here is: {version.strip() or 'none'}")
        sys.exit(77)
    code = [path for path in sources(files) if "/samples/" not in path]
    assert code, "no source found"
    result = subprocess.run([tool, "--dry-run", "-Werror"] + code, cwd=source, capture_output=True, text=True)
    if result.returncode:
        places = [line.split(":")[0] for line in result.stderr.splitlines() if ": error:" in line]
        for path in sorted(set(places)):
            yield f"{path}:1: not laid out as .clang-format says, in {places.count(path)} places (clang-format -i)"


def files_open_with_the_problem(source: Path, files: list[str]):
    """A header, and a source without a header of its own, begins with a comment."""
    seen = 0
    for path in files:
        if not path.startswith(("audit/", "runtime_static/")) or not path.endswith((".cpp", ".hpp", ".h", ".S")):
            continue
        if path.endswith(".cpp") and path[:-4] + ".hpp" in files:
            continue
        seen += 1
        first = next((line for _, line in text_lines(source, path)), "")
        if not first.startswith(("// ", "/* ", "/// ", "# ")):
            yield f"{path}:1: does not open with the problem that it solves"
    assert seen, "no source found"


RULES = {
    "includes_go_down": includes_go_down,
    "names_say_what": names_say_what,
    "no_machine_in_files": no_machine_in_files,
    "shell_scripts_are_posix": shell_scripts_are_posix,
    "changes_name_their_subject": changes_name_their_subject,
    "code_is_formatted": code_is_formatted,
    "files_open_with_the_problem": files_open_with_the_problem,
}


def main() -> int:
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in RULES:
        print(f"usage: house_rules.py RULE [SOURCE_DIR]; rules: {' '.join(RULES)}", file=sys.stderr)
        return 2
    source = Path(sys.argv[2] if len(sys.argv) == 3 else Path(__file__).parents[2]).resolve()
    files = tracked(source)
    broken = list(RULES[sys.argv[1]](source, files))
    for line in broken:
        print(line)
    print(f"{sys.argv[1]}: {len(broken)} broken, in {len(files)} files")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
