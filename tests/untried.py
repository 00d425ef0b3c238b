"""What a run of the tests did not try, in the tests' own words, which ctest keeps to itself where all passed:
python3 untried.py RESULTS [--all]; RESULTS is what ctest --output-junit wrote.

A test that lacks something says "skipped: WHY" and ends with 77, GoogleTest's and unittest's skips count as that, and
"not tried: WHY" is a part of a test that passed otherwise. Some reasons are no gap in the run: see MAY. With --all any
other is an error, and so is a skip without a reason: a judge that is not there has not agreed. Exit code 1 then.
"""

import itertools
import re
import sys
import xml.etree.ElementTree as ElementTree

MAY = {
    "real part not available": "its download failed (tests/real_parts.sh)",
    "no GPU": "the test needs one",
    "needs root": "to change the root; an ordinary user, and a container that may not, run all the rest",
    "not applicable": "there is nothing to try with this machine, this toolkit or these options of the build",
}
EXCUSED = rf"(?:{'|'.join(MAY)}): "
LINE = re.compile(rf"(?:(?:covered|not tried|skipped): |{EXCUSED}).*")


def told_by(output: str) -> list[str]:
    """The lines of a test's output that say what it covered and what it did not try."""
    lines = output.splitlines()
    told = [line for line in lines if LINE.fullmatch(line)]
    for number, line in enumerate(lines):
        if line.endswith(": Skipped"):  # GoogleTest; a tool's own errors may stand before the reason
            reasons = list(itertools.takewhile(str.strip, lines[number + 1:]))
            if not any(re.match(EXCUSED, one) for one in reasons):
                told += [f"skipped: {reason}" for reason in reasons[:1]]
    for line in lines:
        if match := re.search(r"\.\.\. skipped (['\"])(.*)\1$", line):  # unittest -v
            told.append(f"skipped: {match[2]}")
        elif re.fullmatch(r"OK \(.*skipped=\d+.*\)", line) and not any("... skipped " in other for other in lines):
            told.append("skipped: unittest was not asked for the reason (-v)")
    return sorted({re.sub(rf"^skipped: (?={EXCUSED})", "", line) for line in told})


def main() -> int:
    results, every = sys.argv[1], "--all" in sys.argv[2:]
    seen: dict[str, list[str]] = {}  # line -> tests
    for test in ElementTree.parse(results).getroot().iter("testcase"):
        told = told_by(test.findtext("system-out") or "")
        if test.find("skipped") is not None and all(line.startswith("covered: ") for line in told):
            told.append("skipped: no reason was given")
        for line in told:
            seen.setdefault(line, []).append(test.get("name"))
    gaps = 0
    for line, tests in sorted(seen.items()):
        of = tests[0] if len(tests) == 1 else f"{tests[0]} and {len(tests) - 1} more"
        print(line if line.startswith("covered: ") else f"{line} ({of})")
        gaps += re.match(rf"(?:skipped|not tried): (?!{EXCUSED})", line) is not None
    if every and gaps:
        print(f"error: --all tries everything, and {gaps} reasons above are no excuse: only "
              f"{', '.join(f'{word!r}' for word in MAY)} are", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
