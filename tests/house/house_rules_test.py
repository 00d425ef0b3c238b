"""A house rule that cannot fail holds nothing: each one is shown a small tree that breaks it, and one that does not."""

import contextlib
import io
import shutil
import tempfile
import unittest
from pathlib import Path

import house_rules

GOOD_HEADER = "// A problem, and how it is solved.\n#pragma once\n#include <vector>\n"


class HouseRules(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        # Enough of a house that no rule says "nothing to look at".
        for number in range(30):
            self.write(f"runtime_static/part{number}.hpp", GOOD_HEADER)

    def write(self, path, text):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def broken(self, rule):
        with contextlib.redirect_stdout(io.StringIO()):
            return list(house_rules.RULES[rule](self.folder, house_rules.tracked(self.folder)))

    def assert_broken(self, rule, *beginnings):
        broken = self.broken(rule)
        self.assertEqual([line[:len(start)] for line, start in zip(broken, beginnings)], list(beginnings), broken)
        self.assertEqual(len(broken), len(beginnings), broken)

    def test_an_include_that_goes_up_is_found(self):
        self.write("audit/bytes.hpp", GOOD_HEADER)
        self.write("audit/fatbin.hpp", GOOD_HEADER + '#include "bytes.hpp"\n')
        self.assert_broken("includes_go_down")
        self.write("audit/bytes.hpp", GOOD_HEADER + '#include "fatbin.hpp"\n')
        self.assert_broken("includes_go_down", "audit/bytes.hpp:4: includes fatbin.hpp")

    def test_a_reader_that_includes_a_judge_is_found(self):
        self.write("audit/fatbin.cpp", '// Why.\n#include "rule.hpp"\n')
        self.assert_broken("includes_go_down", "audit/fatbin.cpp:2: includes rule.hpp")

    def test_a_rule_that_sees_a_parser_is_found(self):
        self.write("audit/rules/missing-ptx.cpp", '// Why.\n#include "fatbin.hpp"\n')
        self.assert_broken("includes_go_down", "audit/rules/missing-ptx.cpp:2: a rule includes fatbin.hpp")

    def test_lief_outside_its_door_is_found(self):
        self.write("audit/binary.cpp", "// Why.\n#include <LIEF/LIEF.hpp>\n")
        self.assert_broken("includes_go_down")
        self.write("audit/cubin.hpp", GOOD_HEADER + "#include <LIEF/ELF.hpp>\n")
        self.assert_broken("includes_go_down", "audit/cubin.hpp:4: includes LIEF/ELF.hpp")

    def test_a_header_without_a_step_is_found(self):
        self.write("audit/novelty.cpp", '// Why.\n#include "bytes.hpp"\n')
        self.assert_broken("includes_go_down", "audit/novelty.cpp:2: novelty has no step")

    def test_a_junk_name_is_found(self):
        self.assert_broken("names_say_what")
        self.write("audit/utils.hpp", GOOD_HEADER)
        self.write("tests/common/CMakeLists.txt", "\n")
        self.assert_broken("names_say_what", "audit/utils.hpp:1:", "tests/common/CMakeLists.txt:1:")

    def test_a_machine_path_and_a_host_are_found(self):
        self.write("a.sh", "cd /usr/lib && cat $HOME/root/x https://docs.nvidia.com/cuda\n")
        self.assert_broken("no_machine_in_files")
        self.write("a.sh", "cd /" + "work/here\ncurl https://packages.example.org/x\n")
        self.assert_broken("no_machine_in_files", "a.sh:1: a path of one machine", "a.sh:2: a host")

    @unittest.skipUnless(shutil.which("dash"), "dash is not here")
    def test_a_script_of_another_shell_is_found(self):
        self.write("a.sh", "#!/bin/sh\necho fine\n")
        self.assert_broken("shell_scripts_are_posix")
        self.write("a.sh", "#!/bin/sh\na=(1 2)\n")
        self.assertTrue(self.broken("shell_scripts_are_posix"))

    def test_a_change_without_a_subject_is_found(self):
        self.write("CHANGELOG.md", "# Changes\n\n- CD401 missing-ptx: new\n- cudeploy inspect: new\n- `cudeploy_target`: new\n")
        self.assert_broken("changes_name_their_subject")
        self.write("CHANGELOG.md", "# Changes\n\n- Various fixes\n")
        self.assert_broken("changes_name_their_subject", "CHANGELOG.md:3:")

    @unittest.skipUnless(shutil.which("clang-format"), "clang-format is not here")
    def test_unformatted_code_is_found(self):
        shutil.copy(Path(__file__).parents[2] / ".clang-format", self.folder)
        self.write("audit/bytes.cpp", "// Why.\nint  a ;\n")
        try:
            self.assert_broken("code_is_formatted", "audit/bytes.cpp:1:")
        except SystemExit:
            self.skipTest("clang-format 14 is not here")

    def test_a_file_without_an_opening_is_found(self):
        self.assert_broken("files_open_with_the_problem")
        self.write("audit/bytes.hpp", "#pragma once\n")
        self.assert_broken("files_open_with_the_problem", "audit/bytes.hpp:1:")


if __name__ == "__main__":
    unittest.main()
