"""A gap in a run must not look like a pass: made-up tests are run by the real ctest, some of them real tests of
GoogleTest and unittest, and untried.py says what it makes of each: python3 untried_test.py CTEST GOOGLETEST-PROGRAM
The program has tests that skip with "not applicable", as SliceOfBuild.
"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CTEST, GTEST = sys.argv[1:3]
UNTRIED = Path(__file__).resolve().parents[1] / "untried.py"
REAL_PARTS = UNTRIED.with_name("real_parts.sh")
PYTHON_TEST = """
import unittest
class Case(unittest.TestCase):
    def test_skip(self):
        self.skipTest({why!r})
    def test_pass(self):
        pass
unittest.main()
"""


class Untried(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.tests = []

    def add(self, *command):
        name = f"test{len(self.tests)}"
        words = " ".join(f"[==[{word}]==]" for word in command)
        self.tests.append(f"add_test({name} {words})\nset_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77 "
                          r'SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")')

    def shell(self, text):
        self.add("sh", "-c", text)

    def python(self, why, *words):
        path = self.folder / f"case{len(self.tests)}.py"
        path.write_text(PYTHON_TEST.format(why=why))
        self.add(sys.executable, str(path), *words)

    def judge(self, *words):
        (self.folder / "CTestTestfile.cmake").write_text("\n".join(self.tests) + "\n")
        results = self.folder / "results.xml"
        subprocess.run([CTEST, "--output-junit", results], cwd=self.folder, capture_output=True)
        done = subprocess.run([sys.executable, UNTRIED, results, *words], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    def assert_gap(self, line):
        """All but this is no gap."""
        self.assertEqual(self.judge(), (0, [line]))
        self.assertEqual(self.judge("--all"), (1, [line]))

    def test_a_run_without_gaps(self):
        self.shell("echo covered: much; echo all is well")
        self.shell("echo covered: much")
        self.assertEqual(self.judge("--all"), (0, ["covered: much"]))

    def test_a_judge_that_is_not_there(self):
        self.shell("echo skipped: no wine here; exit 77")
        self.shell("echo skipped: no wine here; exit 77")
        self.assert_gap("skipped: no wine here (test0 and 1 more)")

    def test_a_part_of_a_test(self):
        self.shell("echo not tried: mold is not installed; exit 0")
        self.assert_gap("not tried: mold is not installed (test0)")

    def test_a_skip_without_a_reason(self):
        self.shell("echo covered: much; exit 77")
        self.assertEqual(self.judge("--all"), (1, ["covered: much", "skipped: no reason was given (test0)"]))

    def test_a_test_that_could_not_be_started(self):
        self.add("NOT_AVAILABLE")
        self.assert_gap("skipped: no reason was given (test0)")

    def test_what_is_no_gap(self):
        reasons = ["real part not available: nvcc-13.5", "no GPU: none", "needs root: a chroot", "not applicable: x"]
        for reason in reasons:
            self.shell(f"echo '{reason}' >&2; exit 77")
            self.shell(f"echo 'skipped: {reason}'; exit 77")
        code, lines = self.judge("--all")
        self.assertEqual(code, 0)
        self.assertEqual([line.rsplit(" (", 1)[0] for line in lines], sorted(reasons))

    def fetch(self, part, python="exit 1"):
        """Adds a test that wants a real part where python3 is this script and nothing else can download."""
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        for tool in ("awk", "dirname", "flock", "head", "mkdir", "mktemp", "rm", "sed", "sh"):
            (tools / tool).unlink(missing_ok=True)
            (tools / tool).symlink_to(shutil.which(tool))
        (tools / "python3").write_text(f"#!/bin/sh\n{python}\n")
        (tools / "python3").chmod(0o755)
        self.shell(f"PATH='{tools}' CUDEPLOY_CACHE='{self.folder}/cache' sh '{REAL_PARTS}' {part}")

    def test_a_download_that_failed_is_excused_and_no_other_reason_for_a_real_part(self):
        why = "skipped: real parts are fetched with what is missing here: "
        self.fetch("nvcc-13.0")
        self.assert_gap(f"{why}pip of python3 (test0)")
        self.tests.clear()
        self.fetch("lief-1.0")
        self.assert_gap(f"{why}pip of python3 (test0)")
        self.tests.clear()
        self.fetch("libcuda-535")
        self.assert_gap(f"{why}apt-get (test0)")
        self.tests.clear()
        self.fetch("cudart-13.5", 'case "$*" in *--version*) ;; *) exit 1 ;; esac')
        said = "real part not available: the Python index did not give: nvidia-cuda-runtime==13.5.* (test0)"
        self.assertEqual(self.judge("--all"), (0, [said]))

    def test_unittest(self):
        self.python("no C compiler", "-v")
        self.assert_gap("skipped: no C compiler (test0)")
        self.tests.clear()
        self.python("it's \"not\" there", "-v")
        self.assertEqual(self.judge("--all")[0], 1)
        self.tests.clear()
        self.python("needs root: to be another", "-v")
        self.assertEqual(self.judge("--all"), (0, ["needs root: to be another (test0)"]))

    def test_unittest_that_was_not_asked_for_reasons(self):
        self.python("needs root: to be another")
        self.assert_gap("skipped: unittest was not asked for the reason (-v) (test0)")

    def test_googletest(self):
        self.add(GTEST, "--gtest_filter=*SliceOfBuild.NeedsNoSectionHeaders*")
        self.assertEqual(self.judge("--all"), (0, ["not applicable: an object is nothing but sections (test0)"]))
        self.tests.clear()
        self.shell(f"'{GTEST}' '--gtest_filter=*SliceOfBuild.NeedsNoSectionHeaders*' | sed 's/not applicable: //'")
        self.assert_gap("skipped: an object is nothing but sections (test0)")
        self.tests.clear()
        said = r"s/.*not applicable: .*/ERROR: 404\nreal part not available: x/"
        self.shell(f"'{GTEST}' '--gtest_filter=*SliceOfBuild.NeedsNoSectionHeaders*' | sed '{said}'")
        self.assertEqual(self.judge("--all"), (0, ["real part not available: x (test0)"]))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
