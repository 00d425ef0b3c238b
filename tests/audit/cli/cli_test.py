"""The command line is what builds and people hold on to: exit codes, words, files. Each test calls the built cudeploy
($CUDEPLOY) on files that it made itself; $CUDEPLOY_SOURCE is the source tree (schemas), $CUDEPLOY_CUDART_STATIC
the runtime of a toolkit, without which some tests are skipped."""

import contextlib
import gzip
import io
import json
import keyword
import lzma
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import zipfile

CUDEPLOY = os.environ["CUDEPLOY"]
ADDRESS_SANITIZER = b"__asan_init" in pathlib.Path(CUDEPLOY).read_bytes()
SOURCE = pathlib.Path(os.environ["CUDEPLOY_SOURCE"])
CUDART = os.environ.get("CUDEPLOY_CUDART_STATIC")  # libcudart_static.a of the toolkit of the tests
PTX = b".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n"


def damaged_fatbin():
    """A container whose one entry says that it is longer than the container."""
    entry = struct.pack("<HHIQIIIIIIQQQQ", 2, 0x101, 64, 1 << 20, 0, 0, 0, 90, 0, 0, 0, 0, 0, 0)[:64]
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry


def ar(members):
    out = b"!<arch>\n"
    for name, content in members:
        out += b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (name.encode(), 0, 0, 0, 0o100644, len(content)) + content
        out += b"\n" if len(content) % 2 else b""
    return out


def tar(members, mode="w:gz"):
    """members: name -> bytes, or ("link", target), or ("name of", target) with or without bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                kind, info.linkname, *content = content
                info.type = tarfile.SYMTYPE if kind == "link" else tarfile.LNKTYPE
                if content:
                    info.pax_headers = {"comment": "a hard link has bytes in this form only"}
                    info.size = len(content[0])
                archive.addfile(info, io.BytesIO(b"".join(content)))
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def elf(dynamic, blobs, notes=()):
    """A shared object of one segment. `dynamic`: (tag, number or the name of a blob); notes: parts of the blob "notes"."""
    count = 2 + len(notes)
    out, place = bytearray(0x2000), {}
    for name, blob in blobs.items():
        out += bytes(-len(out) % 16)
        place[name] = len(out)
        out += blob
    out += bytes(-len(out) % 16)
    at = len(out)
    table = b"".join(struct.pack("<qQ", tag, place.get(value, value)) for tag, value in [*dynamic, (0, 0)])
    out += table
    segments = [(1, 0, len(out)), (2, at, len(table)), *((4, place["notes"] + offset, size) for offset, size in notes)]
    out[:64] = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, count, 64, 0, 0)
    for i, (kind, offset, size) in enumerate(segments):
        struct.pack_into("<IIQQQQQQ", out, 64 + 56 * i, kind, 4, offset, offset, offset, size, size, 8)
    return bytes(out)


class Cli(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory(prefix="cudeploy cli ")
        self.addCleanup(self.home.cleanup)
        self.root = pathlib.Path(self.home.name)

    def write(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def run_it(self, *arguments, **options):
        options.setdefault("env", dict(os.environ, NO_COLOR="1"))
        options.setdefault("cwd", self.root)
        return subprocess.run([CUDEPLOY, *arguments], stdout=options.pop("stdout", subprocess.PIPE),
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=120, **options)

    def code(self, *arguments, **options):
        return self.run_it(*arguments, **options).returncode

    def paths(self, *arguments):
        result = self.run_it("inspect", "--format", "json", *arguments)
        return [file["path"] for file in json.loads(result.stdout)["files"]]

    def problems(self, *arguments):
        result = self.run_it("inspect", "--format", "json", *arguments)
        return [(file["path"], problem["message"]) for file in json.loads(result.stdout)["files"]
                for problem in file["problems"]]

    def cheap(self, *arguments):
        """Standard output of a run that ended with 0 or 1 and took no more than 2 s and 256 MiB in any process."""
        # Asked of a small process between: what is forked from this one counts as large as this one is.
        between = ("import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode;"
                   "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
                   "print(code, used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)")
        result = subprocess.run([sys.executable, "-c", between, CUDEPLOY, *arguments], cwd=self.root, capture_output=True,
                                text=True)
        code, seconds, kibibytes = map(float, result.stderr.split())
        self.assertIn(code, (0, 1))
        # AddressSanitizer surrounds what is allocated and keeps what is freed: what it costs is not what is asked here.
        if not ADDRESS_SANITIZER:
            self.assertLess(seconds, 2)
            self.assertLess(kibibytes, 256 << 10)
        return result.stdout

    def valid(self, document, schema):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        jsonschema.Draft202012Validator(json.loads((SOURCE / "audit" / schema).read_text())).validate(document)

    def library(self, name="libplain.so", *flags):
        if not shutil.which("cc"):
            self.skipTest("no C compiler")
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", name, *flags], cwd=self.root,
                       input=b"int plain(void) { return 1; }\n", check=True)
        return name


class ExitCodes(Cli):
    def setUp(self):
        super().setUp()
        self.good = self.write("good.ptx", PTX)
        self.bad = self.write("bad.fatbin", damaged_fatbin())
        self.text = self.write("text", "hello\n")

    def test_inspect(self):
        for arguments, code in [([self.good], 0), ([self.text], 0), ([self.good, self.text], 0), ([self.bad], 1),
                                ([self.good, self.bad], 1), (["gone"], 2), ([self.good, "gone"], 2),
                                ([self.bad, "gone"], 2), (["."], 1)]:
            with self.subTest(arguments):
                self.assertEqual(self.code("inspect", *arguments), code)

    def test_audit(self):
        for arguments, code in [([self.good], 0), ([self.text], 0), ([self.bad], 1), (["gone"], 2),
                                ([self.bad, "gone"], 2), (["--gpus", "90", self.good], 0),
                                (["--gpus", "80", self.good], 1), (["--gpus", "80", "--", self.good], 0 + 1)]:
            with self.subTest(arguments):
                result = self.run_it("audit", *arguments)
                self.assertEqual(result.returncode, code, result.stdout + result.stderr)

    def test_a_severity_of_the_policy_and_fail_on_decide(self):
        policy = self.write("policy.toml", '[severity]\ngpu-not-covered = "warning"\n')
        audit = ["audit", "--policy", policy, "--gpus", "80", self.good]
        self.assertEqual(self.code(*audit), 0)
        self.assertIn("warning:", self.run_it(*audit).stdout)
        self.assertEqual(self.code(*audit, "--fail-on", "warning"), 1)

    def test_a_policy_comes_before_what_the_build_knows(self):
        wants_80 = ["audit", "--policy", self.write("wants.toml", 'gpus = [80]\ndriver = "580.65.06"\n'), self.good]
        silent = ["audit", self.good]
        for command, more, code in [(silent, ["--default-gpus", "80"], 1), (silent, ["--default-gpus", "90"], 0),
                                    (wants_80, ["--default-gpus", "90"], 1), (wants_80, ["--gpus", "90"], 0),
                                    (silent, ["--default-gpus", "9O"], 2), (silent, ["--default-driver", "new"], 2)]:
            with self.subTest(command + more):
                self.assertEqual(self.code(*command, *more), code)
        for command, more, driver in [(silent, ["--default-driver", "590.44"], "590.44"),
                                      (wants_80, ["--default-driver", "590.44"], "580.65.06"),
                                      (wants_80, ["--driver", "590.44"], "590.44")]:
            with self.subTest(command + more):
                report = json.loads(self.run_it(*command, *more, "--format", "json").stdout)
                self.assertEqual(report["policy"]["driver"], driver)

    def test_the_other_files_are_always_done(self):
        result = self.run_it("inspect", "gone", self.bad, self.good)
        self.assertIn("good.ptx: PTX", result.stdout)
        self.assertIn("gone: error: cannot be read: no such file or directory\n", result.stderr)
        self.assertEqual(result.returncode, 2)
        result = self.run_it("audit", "gone", self.good)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stdout, r"^1 path could not be read \(policy default, stage package\): 0 errors, ")

    def test_where_nothing_is_judged_nothing_is_clean(self):
        os.mkdir(self.root / "empty")
        self.write("texts/a.txt", "hello\n")
        self.write("script.sh", "#!/bin/sh\n")
        self.write("packed.so.gz", gzip.compress(b"text"))
        self.write("behind.so", b"junk\n" + self.elf_file())
        self.write("texts.tar.gz", tar({"a.txt": b"hello\n"}))
        for paths, files in [(["empty"], 0), (["texts"], 0), ([self.text], 1), (["script.sh"], 1), (["packed.so.gz"], 1),
                             (["behind.so"], 1), (["texts.tar.gz"], 1), ([self.text, "script.sh", "empty"], 2)]:
            with self.subTest(paths):
                result = self.run_it("audit", *paths)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertRegex(result.stdout, rf"^nothing to judge \(policy default, stage package\): 0 errors, 0 "
                                                rf"warnings; {files} files? ×")
                counts = json.loads(self.run_it("audit", "--format", "json", *paths).stdout)["counts"]
                self.assertEqual((counts["files"], counts["judged"]), (files, 0))
        result = self.run_it("audit", self.text, self.good)
        self.assertRegex(result.stdout, r"^clean \(policy default, stage package\): .* 2 files ×")
        result = self.run_it("audit", "--format", "json", self.text, self.good)
        self.assertEqual(json.loads(result.stdout)["counts"]["judged"], 1)

    @staticmethod
    def elf_file():
        return elf([(1, 1)], {"strings": b"\0libm.so.6\0"})

    def run_without_rights(self, *arguments):
        """As somebody who may not read everything: root may."""
        prefix, command = [], CUDEPLOY
        if os.geteuid() == 0:
            if not shutil.which("setpriv"):
                self.skipTest("root reads everything, and there is no setpriv")
            prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            os.chmod(self.root, 0o755)
            command = str(self.root / "cudeploy")
            shutil.copy(CUDEPLOY, command)  # the build folder may be closed to others
            os.chmod(command, 0o755)
        return subprocess.run([*prefix, command, *arguments], cwd=self.root, capture_output=True, text=True)

    def test_permission(self):
        self.write("closed.ptx", PTX)
        os.chmod(self.root / "closed.ptx", 0)
        result = self.run_without_rights("inspect", "closed.ptx", "good.ptx")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("closed.ptx: error: cannot be read: permission denied\n", result.stderr)
        self.assertIn("good.ptx: PTX", result.stdout)

    def test_what_cannot_be_looked_at_in_a_folder_is_2(self):
        # Each folder lacks one right; each time there is code in it that nobody may pass over.
        def told(path, words, command="inspect"):
            result = self.run_without_rights(command, "d")
            self.assertEqual((result.returncode, result.stderr), (2, f"{path}: error: cannot be read: {words}\n"))
            if command == "inspect":
                self.assertIn("d/good.ptx: PTX", result.stdout)

        self.write("d/good.ptx", PTX)
        self.write("d/closed/x.ptx", PTX)
        try:
            os.chmod(self.root / "d/closed", 0o444)  # its names can be read, and nothing behind them
            told("d/closed/x.ptx", "permission denied")
            told("d/closed/x.ptx", "permission denied", "audit")
            os.chmod(self.root / "d/closed", 0o111)
            told("d/closed", "permission denied")
            os.rename(self.root / "d/closed", self.root / "closed")
            os.chmod(self.root / "closed", 0)
            os.symlink("../closed/x.ptx", self.root / "d/link")
            told("d/link", "permission denied")
        finally:
            for folder in self.root.glob("**/closed"):
                os.chmod(folder, 0o755)
        # A path of 4096 bytes is one too many for Linux.
        os.unlink(self.root / "d/link")
        here = os.open(self.root / "d", os.O_PATH)
        for depth in range(20):
            os.mkdir("n" * 250, dir_fd=here)
            here, above = os.open("n" * 250, os.O_PATH, dir_fd=here), here
            os.close(above)
        os.close(here)
        try:
            told("d/" + "/".join(["n" * 250] * 17), "file name too long")
        finally:
            subprocess.run(["rm", "-rf", self.root / "d"], check=True)

    def test_special_files(self):
        os.mkfifo(self.root / "fifo")
        result = self.run_it("inspect", "fifo", "/dev/null")
        self.assertEqual(result.returncode, 2)
        self.assertIn("fifo: error: cannot be read: not a regular file", result.stderr)
        self.assertIn("/dev/null: error: cannot be read: not a regular file", result.stderr)

    def test_output_that_does_not_arrive_is_no_clean_run(self):
        with open("/dev/full", "w") as full:
            self.assertEqual(self.code("inspect", self.good, stdout=full), 2)
            self.assertEqual(self.code("--help", stdout=full), 2)


class Usage(Cli):
    def test_wrong_usage_is_2_with_a_hint(self):
        for arguments in [[], ["bogus"], ["inspect"], ["audit"], ["inspect", "--format", "yaml", "x"],
                          ["inspect", "--bogus", "x"], ["audit", "--fail-on", "info", "x"],
                          ["audit", "--stage", "run", "x"], ["audit", "--install-rpath", "$ORIGIN", "x"],
                          ["link-kit"], ["link-kit", "--cudart", "x"], ["explain", "a", "b"]]:
            with self.subTest(arguments):
                result = self.run_it(*arguments)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
                self.assertRegex(result.stderr, r"^cudeploy[a-z -]*: error: .*\nhint: cudeploy[a-z -]* --help\n$")

    def test_a_wrong_command_is_named(self):
        for word, words in [("inspct", "no such command: inspct\nhint: did you mean inspect?"),
                            ("bogus", "no such command: bogus\nhint: cudeploy --help"),
                            ("--bogus", "no such option: --bogus\nhint: cudeploy --help")]:
            with self.subTest(word):
                result = self.run_it(word, "x")
                self.assertEqual((result.returncode, result.stderr), (2, f"cudeploy: error: {words}\n"))
        self.write("a.a", "")
        self.assertIn("--out: error: ", self.run_it("link-kit", "--cudart", "a.a", "-o", "").stderr)

    def test_wrong_values_are_2(self):
        good = self.write("good.ptx", PTX)
        self.write("policy.toml", "gpus = [90]\nseverty = 1\n")
        for arguments, words in [(["--gpus", "ninety"], "--gpus: error: no known GPU"),
                                 (["--gpus", ""], "--gpus: error: expected compute capabilities"),
                                 (["--driver", "new"], "--driver: error: expected a driver"),
                                 (["--driver="], "--driver: error: expected a driver"),
                                 (["--policy", "none-such"], "none-such: error: cannot be opened"),
                                 (["--policy", "policy.toml"], "policy.toml:2: error: unknown key 'severty'")]:
            with self.subTest(arguments):
                result = self.run_it("audit", *arguments, good)
                self.assertEqual(result.returncode, 2)
                self.assertTrue(result.stderr.startswith(words), result.stderr)
                self.assertEqual(result.stderr.count("error: "), 1)
                if arguments != ["--gpus", ""]:
                    self.assertIn("\nhint: ", result.stderr)

    def test_a_misspelt_word_is_answered_by_the_right_one(self):
        good = self.write("good.ptx", PTX)
        for arguments, hint in [(["audt", good], "did you mean audit?"), (["linkkit"], "did you mean link-kit?"),
                                (["audit", "--gpu", "80", good], "did you mean --gpus?"),
                                (["audit", "--polcy=default", good], "did you mean --policy?"),
                                (["frobnicate"], "cudeploy --help"), ([], "cudeploy --help"),
                                (["audit", "--colour", good], "cudeploy audit --help"),
                                (["audit"], "cudeploy audit --help")]:
            with self.subTest(arguments):
                result = self.run_it(*arguments)
                self.assertEqual(result.returncode, 2)
                self.assertIn(f"\nhint: {hint}\n", result.stderr)

    def test_help_and_version(self):
        for arguments in [["--help"], ["-h"], ["inspect", "--help"], ["audit", "--help"], ["explain", "--help"],
                          ["link-kit", "--help"], ["--version"]]:
            with self.subTest(arguments):
                result = self.run_it(*arguments)
                self.assertEqual(result.returncode, 0)
                self.assertEqual(result.stderr, "")
                for line in result.stdout.splitlines():
                    self.assertLessEqual(len(line), 100, line)
        for command in ("inspect", "audit", "explain", "link-kit", "new"):
            self.assertRegex(self.run_it(command, "--help").stdout, rf"\nUsage: cudeploy {command} \[OPTIONS\][ \n]")
        self.assertRegex(self.run_it("--version").stdout, r"^cudeploy \d+\.\d+\.\d+\n$")
        narrow = self.run_it("--help", env={"COLUMNS": "40"}).stdout
        self.assertEqual(narrow, self.run_it("--help", env={"COLUMNS": "200", "TERM": "xterm"}).stdout)

    def test_the_readme_shows_the_help_as_it_is(self):
        readme = (SOURCE / "audit" / "README.md").read_text()
        self.assertIn(self.run_it("--help").stdout.rstrip("\n"), readme)

    def test_explain(self):
        listed = self.run_it("explain")
        self.assertEqual(listed.returncode, 0)
        rules = [line.split()[:2] for line in listed.stdout.splitlines()]
        self.assertGreaterEqual(len(rules), 10)
        for rule, name in rules:
            by_id, by_name = self.run_it("explain", rule), self.run_it("explain", name)
            self.assertEqual((by_id.returncode, by_id.stdout), (0, by_name.stdout))
            self.assertTrue(by_id.stdout.startswith(f"{rule} {name} ("))
        wrong = self.run_it("explain", "missing-ptxx")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("hint: did you mean missing-ptx?", wrong.stderr)

    def test_an_empty_value_is_a_value(self):
        self.write("a.ptx", PTX)
        for rpath in (["--install-rpath="], ["--install-rpath", ""], ["--install-rpath=$ORIGIN/../lib:/opt/x y"]):
            result = self.run_it("audit", "--stage", "link", *rpath, "a.ptx")
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_an_empty_path_has_a_name(self):
        self.write("a.ptx", PTX)
        for command in ("inspect", "audit"):
            result = self.run_it(command, "", "a.ptx")
            self.assertEqual((result.returncode, result.stderr), (2, "'': error: cannot be read: no such file or directory\n"))
            self.assertNotRegex(result.stdout, r"(?m)^:")
        self.assertIn("'': unreadable\n", self.run_it("inspect", "").stdout)
        for option, arguments in [("--policy", ("audit", "a.ptx")), ("--output", ("audit", "a.ptx")),
                                  ("--cudart", ("link-kit", "-o", "kit")), ("--out", ("link-kit", "--cudart", "a.ptx"))]:
            for empty in ([option, ""], [option + "="]):
                result = self.run_it(*arguments, *empty)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, rf"^{option}: error: expected .*, found an empty name\n")

    def test_a_path_may_look_like_an_option(self):
        self.write("--payloads", PTX)
        self.assertEqual(self.paths("--", "--payloads"), ["--payloads"])


class Reports(Cli):
    def test_inspect_json_keeps_the_schema(self):
        self.write("d/a.ptx", PTX)
        self.write("d/bad.fatbin", damaged_fatbin())
        self.library("d/libplain.so", "-Wl,-rpath,/opt/x", "-Wl,-soname,libplain.so.1")
        result = self.run_it("inspect", "--format", "json", "--kernels", "--payloads", "d", "gone")
        document = json.loads(result.stdout)
        self.valid(document, "inspect.schema.json")
        self.assertEqual([file["path"] for file in document["files"]],
                         ["d/a.ptx", "d/bad.fatbin", "d/libplain.so", "gone"])
        plain = document["files"][2]
        self.assertEqual((plain["format"], plain["type"], plain["soname"], plain["runpath"] + plain["rpath"]),
                         ("elf", "shared", "libplain.so.1", ["/opt/x"]))

    def test_audit_json_keeps_the_schema(self):
        self.write("a.ptx", PTX)
        self.write("bad.fatbin", damaged_fatbin())
        result = self.run_it("audit", "--format", "json", "--gpus", "80,90,120", "--driver", "535.54", "a.ptx",
                             "bad.fatbin", "gone")
        document = json.loads(result.stdout)
        self.valid(document, "audit.schema.json")
        self.assertEqual(document["policy"]["gpus"], ["8.0", "9.0", "12.0"])
        self.assertEqual([row["code"] for row in document["coverage"] if row["path"] == "a.ptx"],
                         ["none", "jit", "jit"])
        self.assertIn("malformed-file", [finding["name"] for finding in document["findings"]])
        self.assertEqual([row["path"] for row in document["unreadable"]], ["gone"])
        counts = document["counts"]
        self.assertEqual(counts["clean"] + counts["flagged"] + counts["not_applicable"], len(document["verdicts"]))

    def test_two_runs_are_the_same_byte_for_byte(self):
        for i in range(40):
            self.write(f"d/{i}.ptx", PTX)
        self.write("d/p.tar.gz", tar({"x.ptx": PTX}))
        for command in (["inspect", "--format", "json", "d"], ["inspect", "d"], ["audit", "--gpus", "80", "d"],
                        ["audit", "--format", "json", "--gpus", "80", "d"]):
            self.assertEqual(self.run_it(*command).stdout, self.run_it(*command).stdout)

    def test_findings_and_table_in_text(self):
        self.write("a.ptx", PTX)
        text = self.run_it("audit", "--gpus", "80,90", "a.ptx").stdout
        self.assertRegex(text, r"(?m)^a\.ptx: error: .* \[CD4\d\d gpu-not-covered\]\n  hint: ")
        self.assertRegex(text, r"(?m)^  a\.ptx +none +JIT$")
        self.assertRegex(text.splitlines()[-1], r"^not clean \(policy default, stage package\): 1 error, ")

    def test_gpus_stand_in_their_order(self):
        self.write("a.ptx", PTX.replace(b"sm_90", b"sm_121"))
        findings = json.loads(self.run_it("audit", "--gpus", "120,100,90,75", "--format", "json", "a.ptx").stdout)["findings"]
        told = [re.search(r"nothing for (\d+\.\d)", finding["message"])[1] for finding in findings
                if finding["name"] == "gpu-not-covered"]
        self.assertEqual(told, ["7.5", "9.0", "10.0", "12.0"])

    def test_output_is_written_whole_beside_the_text(self):
        self.write("a.ptx", PTX)
        result = self.run_it("audit", "--format", "json", "--output", "out.json", "--gpus", "80", "a.ptx")
        self.assertEqual(result.returncode, 1)
        self.assertIn("a.ptx: error: ", result.stdout)
        self.valid(json.loads((self.root / "out.json").read_text()), "audit.schema.json")
        self.assertEqual(sorted(os.listdir(self.root)), ["a.ptx", "out.json"])
        self.assertEqual(self.code("audit", "--output", "no/such/folder", "a.ptx"), 2)
        self.assertEqual(self.code("audit", "--output", "out.txt", "a.ptx"), 0)
        self.assertTrue((self.root / "out.txt").read_text().startswith("clean "))

    def test_colour_only_where_it_is_seen(self):
        self.write("bad.fatbin", damaged_fatbin())
        self.assertNotIn("\x1b", self.run_it("inspect", "bad.fatbin", env={"TERM": "xterm"}).stdout)
        for environment, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                                      ({"TERM": "dumb"}, False)):
            try:
                ours, theirs = os.openpty()
            except OSError as error:
                self.skipTest(f"no pseudo-terminal here: {error}")
            subprocess.run([CUDEPLOY, "inspect", "bad.fatbin"], cwd=self.root, stdout=theirs, env=environment)
            os.close(theirs)
            seen = os.read(ours, 1 << 16)
            os.close(ours)
            self.assertEqual(b"\x1b" in seen, coloured, environment)


    def progress(self, terminal):
        """What inspect says on standard error of work that is held up for more than a second; None when it ended before."""
        for i in range(4):
            self.write(f"d/{i}.tar.gz", tar({"zeros": bytes(60 << 20), f"in{i}.ptx": PTX}))
        try:
            ours, theirs = os.openpty() if terminal else os.pipe()
        except OSError as error:
            self.skipTest(f"no pseudo-terminal here: {error}")
        seen, process = b"", subprocess.Popen([CUDEPLOY, "inspect", "d"], cwd=self.root, stdout=subprocess.DEVNULL,
                                              stderr=theirs, env={"TERM": "xterm"})
        os.close(theirs)
        os.set_blocking(ours, False)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.exists():
            self.skipTest("the kernel does not list the children of a process")
        workers = []
        while not workers and process.poll() is None:
            try:
                workers = [int(word) for word in children.read_text().split()]
            except OSError:
                pass
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGSTOP)
        until = time.monotonic() + (20 if terminal else 1.5)
        while b"files read" not in seen and process.poll() is None and time.monotonic() < until:
            seen += self.pending(ours)
            time.sleep(0.05)
        held = process.poll() is None
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)
        while process.poll() is None:
            seen += self.pending(ours)
            time.sleep(0.05)
        seen += self.pending(ours)
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        return seen.decode() if held else None

    @staticmethod
    def pending(descriptor):
        try:
            return os.read(descriptor, 1 << 16)
        except OSError:  # nothing yet, or the other end is closed
            return b""

    def test_long_work_is_told_on_a_terminal_only(self):
        def said(terminal):
            for _ in range(10):
                if (seen := self.progress(terminal)) is not None:
                    return seen
            self.fail("its readers could not be stopped in time")

        seen = said(terminal=True)
        self.assertRegex(seen, r"\r\d of 4 files read, now d/\d\.tar\.gz")
        self.assertTrue(seen.endswith("\r\x1b[K"), repr(seen[-40:]))
        self.assertEqual(said(terminal=False), "")


class SavedRecords(Cli):
    def test_a_saved_record_is_judged_as_the_files_were(self):
        self.write("a.ptx", PTX)
        self.write("bad.fatbin", damaged_fatbin())
        self.write("p.tar.gz", tar({"x.ptx": PTX, "y.ptx": ("link", "x.ptx")}))
        paths = ["a.ptx", "bad.fatbin", "p.tar.gz"]
        saved = self.run_it("inspect", "--format", "json", *paths).stdout
        self.write("elsewhere/saved", saved)
        direct = self.run_it("audit", "--gpus", "80", *paths)
        again = self.run_it("audit", "--gpus", "80", "elsewhere/saved")
        self.assertEqual((again.returncode, again.stdout), (direct.returncode, direct.stdout))
        self.write("sorted", json.dumps(json.loads(saved), sort_keys=True, indent=4))
        self.assertEqual(self.run_it("audit", "--gpus", "80", "sorted").stdout, direct.stdout)

    def test_what_could_not_be_read_there_is_2_here(self):
        self.write("saved", self.run_it("inspect", "--format", "json", "gone").stdout)
        result = self.run_it("audit", "saved")
        self.assertEqual(result.returncode, 2)
        self.assertIn("gone: error: cannot be read", result.stderr)

    def test_a_damaged_record_is_no_clean_run(self):
        self.write("a.ptx", PTX)
        saved = self.run_it("inspect", "--format", "json", "a.ptx").stdout
        for content, words in [(saved[:len(saved) // 2], "no whole JSON document"),
                               (saved.replace("inspect/1", "inspect/9"), "field schema: expected"),
                               (saved.replace('"fat_binaries": [', '"fat_binaries": [3, ', 1),
                                "field files[0].fat_binaries[0]: expected an object, found 3")]:
            self.write("saved", content)
            result = self.run_it("audit", "saved", "a.ptx")
            self.assertEqual(result.returncode, 2)
            self.assertIn("saved: error: ", result.stderr)
            self.assertIn(words, result.stderr)
            self.assertRegex(result.stdout, r"^1 path could not be read \(policy default, stage package\): .* 1 file ×")
            self.assertNotIn("clean (", result.stdout)
            document = json.loads(self.run_it("audit", "--format", "json", "saved", "a.ptx").stdout)
            self.valid(document, "audit.schema.json")
            self.assertEqual([row["path"] for row in document["unreadable"]], ["saved"])
            self.assertIn(words, document["unreadable"][0]["message"])
            self.assertNotIn("hint", document["unreadable"][0]["message"])

    def test_the_report_of_an_audit_is_no_clean_file(self):
        self.write("a.ptx", PTX)
        self.run_it("audit", "--format", "json", "--output", "report.json", "a.ptx")
        whole = (self.root / "report.json").read_bytes()
        for content in (whole, whole[:-20], b"\xef\xbb\xbf" + whole, whole.decode().encode("utf-16-le")):
            self.write("report.json", content)
            result = self.run_it("audit", "report.json")
            self.assertEqual((result.returncode, result.stderr),
                             (2, "report.json: error: expected files to judge or a saved inspect record, found the report "
                                 "of an audit\nhint: give the files that were judged, or a record of them: cudeploy "
                                 "inspect --format json --kernels PATH > FILE\n"))
            self.assertTrue(result.stdout.startswith("1 path could not be read "), result.stdout)
            result = self.run_it("inspect", "report.json", "report.json")
            self.assertEqual((result.returncode, result.stderr),
                             (2, 2 * ("report.json: error: is the report of an audit, with no files in it to inspect\n"
                                      "hint: inspect takes the files that were judged; the report is read as it is\n")))
            # As `*` gives it, beside the file that it is about.
            for command, begin in ("audit", "clean"), ("inspect", "a.ptx: PTX"):
                result = self.run_it(command, "report.json", "a.ptx")
                self.assertEqual((result.returncode, result.stderr),
                                 (0, "report.json: note: is the report of an audit, passed over\n"))
                self.assertTrue(result.stdout.startswith(begin), result.stdout)

    def test_a_record_is_itself_or_an_error(self):
        self.write("a.ptx", PTX)
        saved = self.run_it("inspect", "--format", "json", "a.ptx").stdout.encode()
        for content, words in [(gzip.compress(saved), "it is an inspect record, but compressed"),
                               (lzma.compress(saved), "it is an inspect record, but compressed"),
                               (b"\xef\xbb\xbf" + saved, "begins with a byte order mark"),
                               (b"\xff\xfe" + saved.decode().encode("utf-16-le"), "begins with a byte order mark"),
                               (b"\xfe\xff" + saved.decode().encode("utf-16-be"), "begins with a byte order mark"),
                               (b"\xff\xfe\0\0" + saved.decode().encode("utf-32-le"), "begins with a byte order mark"),
                               (b"\0\0\xfe\xff" + saved.decode().encode("utf-32-be"), "begins with a byte order mark"),
                               *[(saved.decode().encode(letters), "has letters of 16 or 32 bits")
                                 for letters in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")]]:
            self.write("saved", content)
            result = self.run_it("audit", "saved")
            self.assertEqual(result.returncode, 2, content[:4])
            self.assertIn("saved: error: ", result.stderr)
            self.assertIn(words, result.stderr)
        plain = self.run_it("audit", "a.ptx")
        for content in [b"\n" * 5000 + saved, saved.replace(b"cudeploy/inspect/1", b"cudeploy\\/inspect\\/1"),
                        saved.replace(b"cudeploy/inspect/1", b"\\u0063udeploy/inspect/1")]:
            self.write("saved", content)
            self.assertEqual(self.run_it("audit", "saved").stdout, plain.stdout, content[:40])
        self.write("saved", saved.replace(b"cudeploy/inspect/1", b"cudeploy\\/inspect\\/1")[:-9])
        self.assertIn("no whole JSON document", self.run_it("audit", "saved").stderr)
        self.write("other.gz", gzip.compress(b"text"))
        self.assertEqual(self.run_it("audit", "other.gz").returncode, 0)

    def test_what_is_given_twice_counts_once(self):
        self.write("a.ptx", PTX)
        self.write("p.tar.gz", tar({"x.ptx": PTX, "y.ptx": PTX}))
        self.write("saved", self.run_it("inspect", "--format", "json", "a.ptx", "p.tar.gz").stdout)
        self.write("again", self.run_it("inspect", "--format", "json", "a.ptx", "p.tar.gz").stdout)
        once = self.run_it("audit", "saved")
        twice = self.run_it("audit", "saved", "again", "saved")
        self.assertEqual((twice.returncode, twice.stdout), (once.returncode, once.stdout))
        self.write("a.ptx", PTX.replace(b"sm_90", b"sm_80"))
        self.write("again", self.run_it("inspect", "--format", "json", "a.ptx").stdout)
        other = self.run_it("audit", "saved", "again")
        self.assertEqual(other.returncode, 2)
        self.assertIn("a.ptx: error: is in two of the inputs, with different content", other.stderr)
        self.assertRegex(other.stdout, r"^1 path with two contents \(policy default, ")
        document = json.loads(self.run_it("audit", "--format", "json", "saved", "again").stdout)
        self.assertEqual(document["unreadable"],
                         [{"path": "a.ptx", "message": "is in two of the inputs, with different content"}])
        # A record beside the file itself, and a file that nobody else has: it is judged all the same.
        self.write("bad.fatbin", damaged_fatbin())
        other = self.run_it("audit", "saved", "bad.fatbin", "a.ptx")
        self.assertEqual(other.returncode, 2)
        self.assertIn("a.ptx: error: is in two of the inputs, with different content", other.stderr)
        self.assertIn("bad.fatbin: error: ", other.stdout)

    def test_a_document_that_costs_too_much_is_an_error_of_its_own(self):
        if ADDRESS_SANITIZER:
            self.skipTest("not applicable: AddressSanitizer reserves terabytes, and does not start under a limit")
        # A tree of zeros is ten times its text. Whoever has too little memory for it still gets the other files.
        self.write("a.ptx", PTX)
        zeros = b"0," * 6_000_000 + b"0]}"
        self.write("record", b'{"schema":"cudeploy/inspect/1","files":[' + zeros)
        self.write("report", b'{"schema":"cudeploy/runtime-report/1","files":[' + zeros)
        limits = [(resource.RLIMIT_AS, 200 << 20), (resource.RLIMIT_DATA, 100 << 20), (resource.RLIMIT_AS, None)]
        for command, document in [("audit", "record"), ("audit", "report"), ("inspect", "report")]:
            for kind, limit in limits:
                with self.subTest(f"{command} {document} {limit}"):
                    result = self.run_it(command, document, "a.ptx", preexec_fn=limit and (
                        lambda kind=kind, limit=limit: resource.setrlimit(kind, (limit, limit))))
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertIn("1 file ×" if command == "audit" else "a.ptx: PTX", result.stdout)
                    words = ("cannot be read: reader stopped: it needs more than" if limit else
                             "field files[0]: expected an object, found 0" if document == "record" else "field driver_version: ")
                    self.assertRegex(result.stderr, rf"^{document}: error: {re.escape(words)}.*\nhint: .*\n$")
        # Somebody else's is passed over, whatever its size, and costs little.
        self.write("other", b'{"files":[' + zeros)
        self.assertEqual(self.run_it("audit", "other", "a.ptx", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_DATA, (32 << 20, 32 << 20))).returncode, 0)

    def test_text_that_is_no_utf8_is_the_same_in_record_and_file(self):
        self.write("a.ptx", PTX)
        self.library("libodd.so", b"-Wl,-soname,libodd\xff.so")
        self.write("saved", self.run_it("inspect", "--format", "json", "--kernels", "libodd.so").stdout)
        self.assertIn("libodd\ufffd.so", (self.root / "saved").read_text())
        result = self.run_it("audit", "saved", "libodd.so", "a.ptx")
        self.assertEqual((result.returncode, result.stderr), (self.code("audit", "libodd.so", "a.ptx"), ""))
        self.assertIn("a.ptx", self.run_it("audit", "--format", "json", "saved", "libodd.so", "a.ptx").stdout)

    def test_other_json_is_a_plain_file(self):
        for content in ['{"schema": "something/else"}', '{"schema": 1, "about": "cudeploy/inspect/1"}',
                        '{"a": {"schema": "cudeploy/inspect/1"}}', "{" + '"a":[' * 100000]:
            self.write("other.json", content)
            self.assertEqual(self.code("audit", "other.json"), 0, content[:60])


class RuntimeReports(Cli):
    """What a process wrote of its CUDA runtimes, read for people. The process is a real one: a program with a runtime
    of cudeploy's, a plugin that joins it and registers device code, one that is not called, one linked without us."""

    PROGRAM = """
        #include <dlfcn.h>
        int cudaRuntimeGetVersion(int *);
        __attribute__((visibility("default"))) void stub(void) {}
        int main(int count, char **words) {
          int version, i;
          cudaRuntimeGetVersion(&version);
          for (i = 1; i < count; ++i) {
            void *plugin = dlopen(words[i], RTLD_NOW);
            if (!plugin) return i;
            void (*touch)(void) = (void (*)(void))dlsym(plugin, "touch");
            if (touch) touch();
          }
          return 0;
        }"""
    PLUGIN = """
        int cudaRuntimeGetVersion(int *);
        int (*keep)(int *) = cudaRuntimeGetVersion;
        #ifdef CALLS
        #include <stdint.h>
        extern void stub(void);
        void **__cudaRegisterFatBinary(const void *);
        void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *,
                                    int *);
        static const struct { uint32_t magic; uint16_t version, header; uint64_t size; struct {
          uint16_t kind, version; uint32_t header; uint64_t payload; uint64_t rest[6]; } images[2]; } container =
          {0xBA55ED50, 1, 16, 128, {{1, 0x101, 64, 0, {0}}, {2, 0x101, 64, 0, {0}}}};
        static const struct { uint32_t magic, version; const void *data, *unused; } wrapper =
          {0x466243b1, 1, &container, 0};
        void touch(void) {
          int version;
          cudaRuntimeGetVersion(&version);
          __cudaRegisterFatBinary(&wrapper);
          void **handle = __cudaRegisterFatBinary(&wrapper);
          __cudaRegisterFunction(handle, (const char *)stub, "_Z4stubv", "_Z4stubv", -1, 0, 0, 0, 0, 0);
        }
        #endif"""

    def process(self):
        """The report that a real process left, as JSON."""
        if not CUDART:
            self.skipTest("no libcudart_static.a")
        if not shutil.which("g++"):
            self.skipTest("no C++ compiler")
        self.assertEqual(self.code("link-kit", "--cudart", CUDART, "-o", "kit"), 0)
        kit = json.loads((self.root / "kit/link-kit.json").read_text())

        def compiler(*words, text=None):
            subprocess.run(["g++", *words], cwd=self.root, input=text, text=True, check=True)

        objects = []
        for source in kit["sources"]:
            objects.append(pathlib.Path(source).stem + ".o")
            compiler(*kit["compile_options"], *(f"-I{folder}" for folder in kit["include_directories"]), "-c", source,
                     "-o", objects[-1])
        for name, flags in (("app", ["-rdynamic"]), ("libjoins.so", ["-shared", "-DCALLS"]),
                            ("libidle.so", ["-shared"]), ("libother.so", ["-shared"])):
            part = ["-x", "c", "-fPIC", "-", "-x", "none"]
            libraries = [f"-l{word}" if "/" not in word else word for word in kit["libraries"]]
            ours = [] if name == "libother.so" else objects + kit["link_options"]
            compiler("-o", name, *flags, *part, *ours, *libraries, text=self.PROGRAM if name == "app" else self.PLUGIN)
        subprocess.run(["./app", "./libjoins.so", "./libidle.so", "./libother.so"], cwd=self.root, check=True,
                       env=dict(os.environ, CUDEPLOY_REPORT="report.json"))
        return json.loads((self.root / "report.json").read_text())

    def test_a_report_of_a_process_is_text_for_people(self):
        report = self.process()
        result = self.run_it("inspect", "report.json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        lines = result.stdout.splitlines()
        app = str(self.root.resolve() / "app")
        number = report["copies"][0]["runtime_version"]
        version = f"CUDA {number // 1000}.{number % 1000 // 10}"
        api = next(copy["api_level"] for copy in report["copies"] if copy["role"] == "foreign-static")
        driver = report["driver_version"]  # some machines have one
        self.assertEqual(lines[0], "report.json: report of a process, 4 copies of the CUDA runtime, 2 states")
        if driver == 0:
            self.assertEqual(lines[1], "  driver        not found, or not loaded when the process ended")
        else:
            self.assertTrue(lines[1].startswith(f"  driver        supports CUDA {driver // 1000}."), lines[1])
        self.assertEqual(sorted(line for line in lines if line.startswith("  runtime ")), sorted([
            f"  runtime       {app}: {version}, answers for itself and 1 other, stays loaded",
            f"  runtime       ./libjoins.so: {version}, joined {app}",
            f"  runtime       ./libidle.so: {version}, not called so far",
            f"  runtime       ./libother.so: CUDA {api // 1000}.{api % 1000 // 10} or newer, linked without cudeploy, "
            "a state of its own"]))
        self.assertIn("  device code   ./libjoins.so: 2 fat binaries, 4 images", lines)
        self.assertIn(f"  stub twice    _Z4stubv of {app}, registered by ./libjoins.so too", lines)
        self.assertEqual([line for line in lines if line.startswith("  note ")],
                         ["  note          " + note for note in report["notes"]])
        self.assertGreater(len(report["notes"]), 0)
        self.assertEqual(len(lines), 2 + 4 + 2 + len(report["notes"]))
        # Beside it other files are read as ever; in order and indented anew it says the same.
        self.write("a.ptx", PTX)
        self.write("sorted", json.dumps(report, sort_keys=True, indent=4))
        self.assertTrue(self.run_it("inspect", "report.json", "a.ptx").stdout.startswith(result.stdout + "a.ptx: PTX"))
        self.assertEqual(self.run_it("inspect", "sorted").stdout, result.stdout.replace("report.json", "sorted", 1))

    def document(self, **changes):
        """A whole report as the schema has it, with some fields changed; None takes one away."""
        copy = {"object": "/a", "address": "0x1", "role": "serving", "runtime_version": 13000, "api_level": 0,
                "cuda_major": 13, "anchor_abi": 1, "server": 0, "kept_names": 0, "pinned": True}
        copy.update(changes.pop("copy", {}))
        report = {"schema": "cudeploy/runtime-report/1", "driver_version": 12020, "driver_error": 100,
                  "loader_namespace": 0, "states": 1,
                  "copies": [{key: value for key, value in copy.items() if value is not None}],
                  "fat_binaries": [{"object": "/a", "address": "0x2", "images": -1, "copy": 0}],
                  "shared_stubs": [], "notes": ["one \x1b[31mred\nand \u00e4"]}
        report.update(changes)
        return {key: value for key, value in report.items() if value is not None}

    def test_the_reports_here_are_as_the_schema_has_them(self):
        self.valid(self.document(), "../runtime_static/report.schema.json")

    def test_every_word_of_a_report(self):
        self.write("report", json.dumps(self.document()))
        result = self.run_it("inspect", "report")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, "report: report of a process, 1 copy of the CUDA runtime, 1 state\n"
                                        "  driver        supports CUDA 12.2, cuInit answered 100\n"
                                        "  runtime       /a: CUDA 13.0, answers for itself, stays loaded\n"
                                        "  device code   /a: 1 fat binary, 0 images, 1 not readable\n"
                                        "  note          one \\x1b[31mred\\x0aand ä\n")
        for changes, words in [
            ({"driver_version": 0, "driver_error": -1}, "  driver        not found, or not loaded when"),
            ({"driver_error": 0}, "supports CUDA 12.2, works\n"),
            ({"driver_error": -1}, "supports CUDA 12.2, not asked for a GPU\n"),
            ({"driver_version": 0, "driver_error": 35}, "of unknown version, cuInit answered 35\n"),
            ({"loader_namespace": 2}, "report of loader namespace 2, "),
            ({"copy": {"runtime_version": 0, "pinned": False}}, "/a: CUDA 13, answers for itself\n"),
            ({"copy": {"role": "joined", "server": -1}}, "joined a copy that is gone, stays loaded\n"),
            ({"copy": {"role": "joined", "kept_names": 1}}, ", 1 function stays with its own copy, "),
            ({"copy": {"role": "joined", "kept_names": 7}}, ", 7 functions stay with its own copy, "),
            ({"copy": {"role": "other-abi", "anchor_abi": 2}}, "made by a cudeploy with anchor ABI 2, "),
            ({"copy": {"role": "foreign-shared"}}, "shared library, a state of its own"),
            ({"copies": [], "fat_binaries": [], "states": 0}, "0 copies of the CUDA runtime, 0 states"),
        ]:
            self.write("report", json.dumps(self.document(**changes)))
            result = self.run_it("inspect", "report")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn(words, result.stdout)
        guests = self.document()
        guests["copies"][0]["role"] = "foreign-shared"
        guests["copies"] += [dict(guests["copies"][0], role="joined", object="/b"),
                             dict(guests["copies"][0], role="joined", object="/c")]
        self.write("report", json.dumps(guests))
        self.assertIn("/a: CUDA 13.0, shared library, answers for itself and 2 others",
                      self.run_it("inspect", "report").stdout)

    def test_a_damaged_report_is_an_error_with_its_field(self):
        whole = json.dumps(self.document())
        no_integer = "expected an integer from 0 to 2147483647, found"
        cases = [(whole[:-20], "is meant to be the report of a process, but is no whole JSON document"),
                 (whole.replace("/a", "\udc80"), "no whole JSON document"),
                 ("\ufeff" + whole, "begins with a byte order mark"),
                 (whole.replace("report/1", "report/2"), 'field schema: expected "cudeploy/runtime-report/1", found '
                                                         '"cudeploy/runtime-report/2"')]
        for changes, words in [
            ({"copies": None}, "field copies: expected, but it is not there"),
            ({"copies": {}}, "field copies: expected an array, found object"),
            ({"copies": [3]}, "field copies[0]: expected an object, found 3"),
            ({"driver_version": "12020"}, f'field driver_version: {no_integer} "12020"'),
            ({"driver_version": 1.5}, f"field driver_version: {no_integer} 1.5"),
            ({"states": -1}, f"field states: {no_integer} -1"),
            ({"states": 2**31}, f"field states: {no_integer} 2147483648"),
            ({"states": 2**63}, f"field states: {no_integer} 9223372036854775808"),
            ({"states": -2**63}, f"field states: {no_integer} -9223372036854775808"),
            ({"driver_error": -2}, "field driver_error: expected an integer from -1 to 2147483647"),
            ({"copy": {"role": "boss"}}, "field copies[0].role: expected one of serving, joined, idle"),
            ({"copy": {"role": None}}, "field copies[0].role: expected, but it is not there"),
            ({"copy": {"server": 1}}, "field copies[0].server: expected an integer from -1 to 0, found 1"),
            ({"copy": {"pinned": 1}}, "field copies[0].pinned: expected true or false, found 1"),
            ({"copy": {"object": "\x1b"}, "notes": [7]}, "field notes[0]: expected a string, found 7"),
            ({"notes": [["deep"]]}, "field notes[0]: expected a string, found array"),
            ({"fat_binaries": [{"object": "/a", "address": "0x2", "images": 1, "copy": 1}]},
             "field fat_binaries[0].copy: expected an integer from 0 to 0, found 1"),
            ({"shared_stubs": [{"name": "k", "defined_in": "/a"}]},
             "field shared_stubs[0].registered_by: expected, but it is not there"),
        ]:
            cases.append((json.dumps(self.document(**changes)), words))
        cases += [(json.dumps(self.document(**{key: None})), f"field {key}: expected, but it is not there")
                  for key in self.document() if key != "schema"]
        self.write("good.ptx", PTX)
        for content, words in cases:
            with self.subTest(words):
                self.write("report", content.encode(errors="surrogateescape"))
                result = self.run_it("inspect", "report", "good.ptx")
                self.assertEqual(result.returncode, 2)
                self.assertTrue(result.stderr.startswith("report: error: "), result.stderr)
                self.assertIn(words, result.stderr)
                self.assertRegex(result.stderr, r"\nhint: .*CUDEPLOY_REPORT=FILE PROGRAM\n$")
                self.assertEqual(result.stderr.count("\n"), 2, result.stderr)
                self.assertTrue(result.stdout.startswith("good.ptx: PTX"), result.stdout)

    def test_what_a_report_is_not(self):
        self.write("report", json.dumps(self.document()))
        result = self.run_it("inspect", "--format", "json", "report")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("report: error: is the report of a process, and JSON already\nhint: ", result.stderr)
        self.write("good.ptx", PTX)
        result = self.run_it("audit", "report", "good.ptx")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, "report: error: expected files to judge or a saved inspect record, found the "
                                        "report of a process\nhint: cudeploy inspect shows it; audit judges the "
                                        "program and its libraries themselves\n")
        self.assertRegex(result.stdout, r"^1 path could not be read .* 1 file ×")
        # Names in paths do not make one kind of document of the other.
        self.write("report", json.dumps(self.document(copy={"object": "/cudeploy/inspect/app"})))
        self.assertIn("found the report of a process", self.run_it("audit", "report").stderr)
        self.write("cudeploy/runtime-report/a.ptx", PTX)
        self.write("saved", self.run_it("inspect", "--format", "json", "cudeploy/runtime-report/a.ptx").stdout)
        self.assertNotIn("report of a process", self.run_it("inspect", "saved").stdout)
        self.assertEqual((self.code("inspect", "saved"), self.code("audit", "saved")), (0, 0))
        schema = str(SOURCE / "runtime_static/report.schema.json")
        self.assertEqual((self.code("inspect", schema), self.code("audit", schema)), (0, 0))


class Packages(Cli):
    def test_every_kind(self):
        members = {"lib/x.ptx": PTX, "readme": b"hello"}
        self.write("a.tar.gz", tar(members))
        self.write("a.tgz", tar(members))
        self.write("a.tar.xz", tar(members, "w:xz"))
        self.write("a.tar.bz2", tar(members, "w:bz2"))
        self.write("a.tar", tar(members, "w:"))
        for name in ("a.zip", "a.whl"):
            with zipfile.ZipFile(self.root / name, "w", zipfile.ZIP_DEFLATED) as archive:
                for member, content in members.items():
                    archive.writestr(member, content)
        for name in ("a.tar.gz", "a.tgz", "a.tar.xz", "a.tar.bz2", "a.tar", "a.zip", "a.whl"):
            with self.subTest(name):
                self.assertEqual(self.paths(name), [f"{name}!/lib/x.ptx"])

    def test_every_method_of_zip(self):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            with self.subTest(method):
                with zipfile.ZipFile(self.root / "a.zip", "w", method) as archive:
                    with archive.open("lib/x.ptx", "w", force_zip64=True) as member:
                        member.write(PTX)
                self.assertEqual(self.paths("a.zip"), ["a.zip!/lib/x.ptx"])

    def test_every_format_of_tar(self):
        self.write("tree/" + "a" * 60 + "/" + "b" * 120 + "/x.ptx", PTX)
        for form in ("gnu", "oldgnu", "pax"):
            with self.subTest(form):
                subprocess.run(["tar", f"--format={form}", "-C", "tree", "-cf", "a.tar", "."], cwd=self.root, check=True)
                (name,) = self.paths("a.tar")
                self.assertTrue(name.endswith("b" * 120 + "/x.ptx"), name)

    def test_one_file_counts_once(self):
        os.makedirs(self.root / "d")
        self.write("d/libx.ptx.1.2", PTX)
        os.symlink("libx.ptx.1.2", self.root / "d/libx.ptx.1")
        os.symlink("libx.ptx.1", self.root / "d/libx.ptx")
        os.link(self.root / "d/libx.ptx.1.2", self.root / "hard.ptx")
        names = ["d/libx.ptx", "d/libx.ptx.1", "d/libx.ptx.1.2"]  # what a shell makes of d/libx.ptx*
        for arguments, paths in [(names, names[2:]), (names[:1], names[:1]),
                                 (["d/libx.ptx", "./d/libx.ptx"], ["./d/libx.ptx"]),
                                 (["d", *names], names[2:]), (["d", "./d"], names[2:]), (["d", "hard.ptx"], names[2:]),
                                 ([str(self.root / names[0]), "hard.ptx"], ["hard.ptx"])]:
            with self.subTest(arguments):
                self.assertEqual(self.paths(*arguments), paths)
                counts = json.loads(self.run_it("audit", "--format", "json", *arguments).stdout)["counts"]
                self.assertEqual(counts["files"], 1)
                self.assertEqual(counts["clean"] + counts["flagged"] + counts["not_applicable"], counts["rules"])
        bundle = json.loads(self.run_it("inspect", "--format", "json", *names).stdout)["bundles"][0]
        self.assertEqual((bundle["files"], bundle["links"]),
                         (names[2:], {"d/libx.ptx": "libx.ptx.1.2", "d/libx.ptx.1": "libx.ptx.1.2"}))

    def test_the_bytes_of_a_hard_link(self):
        # pax -o linkdata writes them with each name; then no file may hide behind the name of a harmless one.
        for first in (b"text", b"", PTX):
            self.write("a.tar", tar({"x": first, "y.ptx": ("name of", "x", PTX), "z.ptx": ("name of", "x")}, "w:"))
            record = json.loads(self.run_it("inspect", "--format", "json", "a.tar").stdout)
            self.assertEqual({(file["path"], file["size"]) for file in record["files"]}, {("a.tar!/x", len(PTX))})
            self.assertEqual(record["bundles"][0]["links"], {"a.tar!/y.ptx": "x", "a.tar!/z.ptx": "x"})

    def test_zstandard_and_conda(self):
        if not shutil.which("zstd"):
            self.skipTest("zstd is not installed")
        packed = subprocess.run(["zstd", "-c"], input=tar({"lib/x.ptx": PTX}, "w:"), capture_output=True,
                                check=True).stdout
        self.write("a.tar.zst", packed)
        self.assertEqual(self.paths("a.tar.zst"), ["a.tar.zst!/lib/x.ptx"])
        with zipfile.ZipFile(self.root / "a.conda", "w") as archive:
            archive.writestr("metadata.json", "{}")
            archive.writestr("pkg-a.tar.zst", packed)
        self.assertEqual(self.paths("a.conda"), ["a.conda!/pkg-a.tar.zst!/lib/x.ptx"])

    def test_deb(self):
        if not shutil.which("dpkg-deb"):
            self.skipTest("dpkg-deb is not installed")
        self.write("tree/usr/lib/x.ptx", PTX)
        self.write("tree/DEBIAN/control", "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n")
        for compression, data in (("xz", "data.tar.xz"), ("gzip", "data.tar.gz"), ("zstd", "data.tar.zst"),
                                  ("none", "data.tar")):
            with self.subTest(compression):
                subprocess.run(["dpkg-deb", f"-Z{compression}", "-b", "tree", "a.deb"], cwd=self.root, check=True,
                               stdout=subprocess.DEVNULL)
                self.assertEqual(self.paths("a.deb"), [f"a.deb!/{data}!/usr/lib/x.ptx"])
        # dpkg-deb does not write this one any more, and reads it for ever; the last data was not compressed.
        subprocess.run(["ar", "x", "a.deb"], cwd=self.root, check=True)
        members = {name: (self.root / name).read_bytes() for name in ("debian-binary", "control.tar", "data.tar")}
        members["data.tar.lzma"] = lzma.compress(members.pop("data.tar"), lzma.FORMAT_ALONE)
        self.write("a.deb", ar(members.items()))
        listed = subprocess.run(["dpkg-deb", "-c", "a.deb"], cwd=self.root, check=True, capture_output=True, text=True).stdout
        self.assertIn("./usr/lib/x.ptx\n", listed)
        self.assertEqual(self.paths("a.deb"), ["a.deb!/data.tar.lzma!/usr/lib/x.ptx"])

    def test_rpm(self):
        if not shutil.which("rpmbuild"):
            self.skipTest("rpmbuild is not installed")
        # rpmbuild takes no path with a space.
        top = tempfile.TemporaryDirectory(prefix="cudeploy-rpm-")
        self.addCleanup(top.cleanup)
        self.root = pathlib.Path(top.name)
        self.write("x.ptx", PTX)
        self.write("a.spec", f"""Name: a
Version: 1
Release: 1
Summary: a
License: Apache-2.0
BuildArch: noarch
%description
a
%install
install -D '{self.root}/x.ptx' %{{buildroot}}/usr/lib/x.ptx
ln %{{buildroot}}/usr/lib/x.ptx %{{buildroot}}/usr/lib/y.ptx
ln %{{buildroot}}/usr/lib/x.ptx %{{buildroot}}/usr/z.ptx
%files
/usr/lib/x.ptx
/usr/lib/y.ptx
/usr/z.ptx
""")
        for payload in ("w9.gzdio", "w9.bzdio", "w2.xzdio", "w2.lzdio", "w3.zstdio"):
            with self.subTest(payload):
                subprocess.run(["rpmbuild", "-bb", "--define", f"_topdir {self.root}/top", "--define",
                                f"_binary_payload {payload}", "a.spec"], cwd=self.root, check=True, capture_output=True)
                package = str(next((self.root / "top").rglob("*.rpm")).relative_to(self.root))
                record = json.loads(self.run_it("inspect", "--format", "json", package).stdout)
                self.assertEqual([(file["path"], file["size"], len(file["fat_binaries"])) for file in record["files"]],
                                 [(f"{package}!/usr/lib/x.ptx", len(PTX), 1)])
                self.assertEqual(record["bundles"][0]["links"], {f"{package}!/usr/lib/y.ptx": "x.ptx",
                                                                 f"{package}!/usr/z.ptx": "lib/x.ptx"})
                # Wherever it is cut, and where the payload has the form of those over 4 GiB.
                whole = (self.root / package).read_bytes()
                for end in [4, 50, 96, 120, 1000, len(whole) // 2, *range(len(whole) - 700, len(whole), 100)]:
                    self.write("cut.rpm", whole[:end])
                    self.assertEqual((end, self.code("inspect", "cut.rpm"), self.code("audit", "cut.rpm")), (end, 1, 1))
                if payload == "w9.gzdio":
                    begin = whole.rindex(b"\x1f\x8b")
                    self.write("large.rpm", whole[:begin] + gzip.compress(b"07070X" + bytes(1000)))
                    self.assertEqual(self.problems("large.rpm"), [
                        ("large.rpm", "cannot be unpacked: begins as an RPM does, but holds nothing that can be read as one")])

    def test_the_libraries_of_a_package_ship_together(self):
        self.library("tree/lib/libdep.so.1.2", "-Wl,-soname,libdep.so.1")
        os.symlink("libdep.so.1.2", self.root / "tree/lib/libdep.so.1")
        os.symlink("libdep.so.1", self.root / "tree/lib/libdep.so")
        self.library("tree/lib/libtop.so", "-Wl,--no-as-needed", "-Ltree/lib", "-ldep", "-Wl,-rpath,$ORIGIN",
                     "-Wl,--enable-new-dtags")
        with tarfile.open(self.root / "whole.tar.gz", "w:gz") as archive:
            archive.add(self.root / "tree", "tree")
        with tarfile.open(self.root / "lacking.tar.gz", "w:gz") as archive:
            archive.add(self.root / "tree/lib/libtop.so", "tree/lib/libtop.so")
        whole = self.run_it("audit", "whole.tar.gz")
        self.assertEqual(whole.returncode, 0, whole.stdout)
        lacking = self.run_it("audit", "whole.tar.gz", "lacking.tar.gz")
        self.assertEqual(lacking.returncode, 1, lacking.stdout)
        self.assertIn("lacking.tar.gz!/tree/lib/libtop.so: error: ", lacking.stdout)
        self.assertIn("needed-unresolved]", lacking.stdout)
        self.assertNotIn("whole.tar.gz!/", lacking.stdout)
        self.assertEqual(self.run_it("audit", "tree").returncode, 0)


class Hostile(Cli):
    def test_of_two_packages_one_is_damaged(self):
        whole = tar({"a.ptx": PTX, "noise": os.urandom(300_000), "b.ptx": PTX})
        self.write("good.tar.gz", whole)
        self.write("bad.tar.gz", whole[:100_000])
        self.assertEqual(self.paths("good.tar.gz", "bad.tar.gz"),
                         ["bad.tar.gz", "bad.tar.gz!/a.ptx", "good.tar.gz!/a.ptx", "good.tar.gz!/b.ptx"])
        (path, message), = self.problems("good.tar.gz", "bad.tar.gz")
        self.assertEqual(path, "bad.tar.gz")
        self.assertIn("member noise cannot be unpacked", message)
        result = self.run_it("audit", "good.tar.gz", "bad.tar.gz")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"(?m)^bad\.tar\.gz: error: .* malformed-file\]$")

    def test_a_zip_bomb(self):
        # 320 MiB of zeros in about 0.3 MB.
        with zipfile.ZipFile(self.root / "bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            elf = b"\x7fELF" + bytes((320 << 20) - 4)
            archive.writestr("a.so", elf)
        result = self.run_it("inspect", "bomb.zip")
        self.assertEqual(result.returncode, 1)
        self.assertIn("bomb.zip", result.stdout)
        self.assertIn("unpacks to more than 200 times its size", result.stdout)

    def test_tables_that_lead_to_themselves_cost_what_their_bytes_tell(self):
        # 16 bytes that are both an entry and its part: each of 16384 entries has all that lie behind it.
        both = struct.pack("<HHIII", 1, 0xFFFF, 1, 16, 16) * (1 << 14)
        strings = b"\0libx.so.6\0"
        versions = [(5, "s"), (10, len(strings)), (0x6FFFFFFE, "v"), (0x6FFFFFFF, 1_000_000_000), (1, 1)]
        self.write("versions.so", elf(versions, {"s": strings, "v": both}))
        self.assertIn("at most 32768 versions", self.cheap("inspect", "versions.so"))
        # 900 needs, each of them named by most of a megabyte.
        long = b"\0" + b"A" * (1 << 20) + b"\0"
        needs = [(5, "s"), (10, len(long)), *((1, i + 1) for i in range(900))]
        self.write("names.so", elf(needs, {"s": long}))
        self.assertIn("names and search paths of at most 1048576 bytes", self.cheap("inspect", "names.so"))
        # 64 segments of notes that are one.
        note = struct.pack("<III", 4, 0, 5) + b"GNU\0"
        parts = [(16 * i, (1 << 20) - 1024) for i in range(64)]
        self.write("notes.so", elf([(5, "s"), (10, len(strings)), (1, 1)], {"s": strings, "notes": note * (1 << 16)},
                                  parts))
        self.assertRegex(self.cheap("inspect", "notes.so"), r"needs +libx\.so\.6")

        # 10000 exports that do the same, of a file that calls itself NVIDIA's, so that its exports are read.
        long = b"\0libnvidia-ml.so.1\0" + b"A" * (1 << 20) + b"\0"
        symbols = b"".join(struct.pack("<IBBHQQ", 19 + i, 0x12, 0, 1, 0, 0) for i in range(10_000))
        table = [(5, "s"), (10, len(long)), (14, 1), (6, "y"), (11, 24), (4, "h")]
        self.write("symbols.so", elf(table, {"s": long, "y": symbols, "h": struct.pack("<II", 0, 10_000)}))
        self.assertIn("expected names of not much more than the 1048596 bytes", self.cheap("inspect", "symbols.so"))

    def test_links_in_circles_are_followed_once(self):
        strings = b"\0libx.so.1\0"
        program = elf([(5, "s"), (10, len(strings)), (1, 1)], {"s": strings})
        with tarfile.open(self.root / "circle.tar", "w") as archive:
            for i in range(200):
                member = tarfile.TarInfo(f"bin/{i}.so")
                member.size = len(program)
                archive.addfile(member, io.BytesIO(program))
            for i in range(4000):
                member = tarfile.TarInfo(f"x/{i}/libx.so.1")
                member.type, member.linkname = tarfile.SYMTYPE, f"../{(i + 1) % 4000}/libx.so.1"
                archive.addfile(member)
        self.assertIn("200 errors", self.cheap("audit", "circle.tar"))

    def test_a_static_archive_with_one_endless_name(self):
        # 16 MB without an end of line, that each of 20,000 members names its own part of.
        members = ar([*((f"/{i}", b"") for i in range(20_000)), ("x.ptx/", PTX)])
        self.write("names.a", ar([("//", b"n" * (16 << 20))]) + members[8:])
        self.assertIn("names.a!/x.ptx: PTX", self.cheap("inspect", "names.a"))

    def test_packages_that_claim_a_billion_of_everything(self):
        with zipfile.ZipFile(self.root / "a.zip", "w") as archive:
            archive.writestr("x.ptx", PTX)
        content = bytearray((self.root / "a.zip").read_bytes())
        end = content.rfind(b"PK\5\6")
        directory, = struct.unpack_from("<I", content, end + 16)
        entries = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 10**9, 10**9, end - directory, directory)
        locator = struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
        struct.pack_into("<HHI", content, end + 8, 0xFFFF, 0xFFFF, 0xFFFFFFFF)
        self.write("entries.zip", bytes(content[:end]) + entries + locator + bytes(content[end:]))
        long = bytearray(tar({"x.ptx": PTX, "y.ptx": PTX}, "w:"))
        long[124:136] = b"\x80" + (10**18).to_bytes(11, "big")  # the first member's size
        long[148:156] = b" " * 8
        long[148:155] = b"%06o\0" % sum(long[:512])
        self.write("size.tar", bytes(long))
        self.write("size.a", ar([("x.ptx", PTX)]).replace(b"%-10d`" % len(PTX), b"%-10d`" % 1_000_000_000))
        struct.pack_into("<HHI", content, end + 8, 60_000, 60_000, directory)
        self.write("entries16.zip", bytes(content))
        for path, words, found in [
            ("entries.zip", "cannot be unpacked: its end claims 1000000000 members, found 1", True),
            ("entries16.zip", "cannot be unpacked: its end claims 60000 members, found 1", True),
            ("size.tar", "member x.ptx cannot be unpacked: truncated tar archive", False),
            ("size.a", f"archive member size: expected at most {len(PTX)} bytes, found 1000000000", True)]:
            with self.subTest(path):
                out = self.cheap("inspect", path)
                self.assertRegex(out, rf"(?m)^{re.escape(path)}: .*\n  problem +.*{words}$")
                self.assertEqual("PTX 9.0 compute_90" in out, found)
                self.assertEqual(self.code("audit", path), 1)

    def test_zips_that_claim_what_they_have(self):
        # The count is of 16 bits; what has more members has a larger form of it, which some writers leave out.
        for count, comment in [(0, b""), (1, b"PK\5\6 is how it ends" + b"x" * 9000), (65_535, b""), (70_000, b"")]:
            with zipfile.ZipFile(self.root / "a.zip", "w") as archive:
                for i in range(count):
                    archive.writestr(f"{i}", b"")
                archive.comment = comment
            self.assertEqual((count, self.problems("a.zip")), (count, []))
        content = (self.root / "a.zip").read_bytes()
        end = content.rindex(b"PK\5\6")
        directory, = struct.unpack_from("<Q", content, content.rindex(b"PK\6\6") + 48)
        small = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count % 65536, count % 65536,
                            content.rindex(b"PK\6\6") - directory, directory, 0)
        self.write("a.zip", content[:content.rindex(b"PK\6\6")] + small)
        self.assertEqual(self.problems("a.zip"), [])

    def test_a_tar_with_a_hundred_thousand_members(self):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
            info = tarfile.TarInfo("x")
            info.size = 1
            for i in range(100_000):
                info.name = f"folder/{i}"
                archive.addfile(info, io.BytesIO(b"x"))
            last = tarfile.TarInfo("last.ptx")
            last.size = len(PTX)
            archive.addfile(last, io.BytesIO(PTX))
        self.write("many.tar.gz", buffer.getvalue())
        result = self.run_it("inspect", "--format", "json", "many.tar.gz")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([file["path"] for file in json.loads(result.stdout)["files"]], ["many.tar.gz!/last.ptx"])

    def test_what_is_a_package_its_content_tells(self):
        # The program finds its library where only an installed package has it. Names say what they like.
        self.library("tree/usr/lib/x86_64-linux-gnu/libf.so.1", "-Wl,-soname,libf.so.1")
        os.symlink("libf.so.1", self.root / "tree/usr/lib/x86_64-linux-gnu/libf.so")
        link = ["-Wl,--no-as-needed", "-Ltree/usr/lib/x86_64-linux-gnu", "-lf"]
        self.library("tree/usr/bin/libapp.so", *link)
        self.library("tree/a!/b/libin.so", *link, "-Wl,-rpath,$ORIGIN/../../usr/lib/x86_64-linux-gnu")
        subprocess.run(["tar", "-C", "tree", "-czf", "data.tar.gz", "."], cwd=self.root, check=True)
        files = (self.root / "data.tar.gz").read_bytes()
        deb = ar([("debian-binary", b"2.0\n"), ("control.tar.gz", tar({"control": b"Package: a\n"})),
                  ("data.tar.gz", files)])
        for name in ("x.deb", "x.udeb", "package", "x.tar", "x.rpm"):
            self.write(name, deb)
        self.write("outer.tar", tar({"a!/packed": deb}, "w:"))
        self.write("in.deb", files)  # a tar, whatever it is called
        self.write("inner.tar", tar({"x.deb": b"text", "data.tar": files}, "w:"))
        shutil.copytree(self.root / "tree", self.root / "x.deb!", symlinks=True)
        shutil.copytree(self.root / "tree", self.root / "y!/data.tar!", symlinks=True)
        unresolved = {}
        for path in ("x.deb", "x.udeb", "package", "x.tar", "x.rpm", "outer.tar", "in.deb", "inner.tar", "tree", "x.deb!", "y!",
                     "y!/data.tar!"):
            report = json.loads(self.run_it("audit", "--format", "json", path).stdout)
            unresolved[path] = [finding["path"].rsplit("/")[-1] for finding in report["findings"]
                                if finding["name"] == "needed-unresolved"]
            self.write("saved", self.run_it("inspect", "--format", "json", "--kernels", path).stdout)
            self.assertEqual(self.run_it("audit", "saved").stdout, self.run_it("audit", path).stdout)
        nowhere = ["libapp.so"]  # without a search path, in a folder that may lie anywhere
        self.assertEqual(unresolved, {
            "x.deb": [], "x.udeb": [], "package": [], "x.tar": [], "x.rpm": [], "outer.tar": [], "in.deb": nowhere,
            "inner.tar": nowhere, "tree": nowhere, "x.deb!": nowhere, "y!": nowhere, "y!/data.tar!": nowhere})

    def test_names_that_lead_out(self):
        # Where a member would land, from the folder of work as well as from that of the package, is looked at too.
        absolute = str(self.root / "absolute.ptx")
        self.write("root/in/a.tar.gz", tar({"../escaped.ptx": PTX, "../../above.ptx": PTX, absolute: PTX, "x.ptx": PTX}))
        before = sorted(os.walk(self.root))
        result = self.run_it("inspect", "--format", "json", "--kernels", "a.tar.gz", cwd=self.root / "root/in")
        self.assertEqual(sorted(os.walk(self.root)), before)
        self.assertEqual(result.returncode, 1)
        files = json.loads(result.stdout)["files"]
        self.assertEqual([(file["path"], problem["message"]) for file in files for problem in file["problems"]],
                         [("a.tar.gz", f"member {name} has a name that leads out of the package")
                          for name in ("../escaped.ptx", "../../above.ptx")] +
                         [("a.tar.gz", f"member {absolute} has an absolute name: some unpack it there, some elsewhere, "
                                       "some not at all")])
        self.assertEqual(sorted(file["path"] for file in files if file["fat_binaries"]),
                         sorted(f"a.tar.gz!/{name}" for name in ("../escaped.ptx", "../../above.ptx", absolute[1:], "x.ptx")))

    def test_a_starved_reader_is_a_problem_not_a_crash(self):
        # The whole process tree gets little memory; a large member cannot be held, the small one behind can.
        if ADDRESS_SANITIZER:
            self.skipTest("not applicable: AddressSanitizer reserves terabytes, and does not start under a limit")
        noise = bytes(60 << 20)
        self.write("a.tar", tar({"big.so": b"\x7fELF" + noise, "x.ptx": PTX}, "w:"))
        self.write("good.ptx", PTX)
        limit = 48 << 20

        def starved(command):
            result = self.run_it(command, "a.tar", "good.ptx",
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
            self.assertEqual(result.returncode, 1, result.stderr)
            return result.stdout

        inspected = starved("inspect")
        self.assertIn("good.ptx: PTX", inspected)
        self.assertRegex(inspected, r"problem +reader (stopped|died)")
        self.assertRegex(starved("audit"), r"(?m)^a\.tar.*: error: .*reader (stopped|died).* \[CD001 malformed-file\]$")

    def test_a_large_member_goes_to_a_file_and_not_into_memory(self):
        # Where no byte can be written to any file, only the member that has to be written cannot be read.
        def told(size, limit):
            self.write("a.tar", tar({"large.ptx": PTX + b"//".ljust(size - len(PTX), b"x"), "y.ptx": PTX}, "w:"))
            result = self.run_it("inspect", "--format", "json", "a.tar",
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            files = json.loads(result.stdout)["files"]
            self.assertIn(["a.tar!/y.ptx", []], [[file["path"], file["problems"]] for file in files])
            return [problem["message"] for file in files for problem in file["problems"]]

        self.assertEqual(told(64 << 20, 0), [])
        problem, = told((64 << 20) + 1, 0)
        self.assertEqual(problem, "member large.ptx cannot be kept: temporary file: file too large")
        self.assertEqual(told((64 << 20) + 1, 128 << 20), [])

    def test_a_file_that_is_cut_while_it_is_read(self):
        # 64 MB of containers, cut and made whole again and again while it is read. A crash or a hang of the reader is
        # wrong; that the file ended too soon is a problem of the file, and is seen sooner or later. It is cut between two
        # containers, so nothing is wrong with it where it stays as it was opened.
        payload = PTX + bytes(4016 - len(PTX))
        entry = struct.pack("<HHIQIIIIIIQQQQ", 1, 0x101, 64, len(payload), 0, 0, 9 << 16, 90, 0, 0, 0, 0, 0, 0)[:64]
        container = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 4080) + entry + payload
        content = container * 16384
        path = self.root / self.write("cut.fatbin", content)
        self.assertEqual(self.problems("--payloads", "cut.fatbin"), [])
        left, stop = len(container) * 5000, threading.Event()

        def cut():
            with open(path, "r+b") as stream:
                while not stop.wait(0.005):
                    stream.truncate(left)
                    stop.wait(0.005)
                    os.pwrite(stream.fileno(), content[left:], left)

        thread = threading.Thread(target=cut)
        thread.start()
        try:
            problems, end = [], time.monotonic() + 60
            while not problems and time.monotonic() < end:
                result = self.run_it("inspect", "--payloads", "--format", "json", "cut.fatbin")
                [file] = json.loads(result.stdout)["files"]
                problems = [problem["message"] for problem in file["problems"]]
                self.assertEqual((file["path"], result.returncode), ("cut.fatbin", 1 if problems else 0), result.stderr)
            self.assertTrue(problems)
            for problem in problems:
                self.assertNotRegex(problem, "^reader ")
        finally:
            stop.set()
            thread.join()

    def test_every_prefix_and_many_flips_of_an_elf_file(self):
        name = self.library()
        content = (self.root / name).read_bytes()
        (self.root / "d").mkdir()
        for i in range(0, len(content), max(1, len(content) // 150)):
            self.write(f"d/cut{i:06}", content[:i])
        state = 12345
        for i in range(300):
            flipped = bytearray(content)
            for _ in range(8):
                state = (state * 1103515245 + 12345) & 0x7FFFFFFF
                flipped[state % min(len(flipped), 4096)] ^= 1 << (state >> 20) % 8
            self.write(f"d/flip{i:03}", bytes(flipped))
        result = self.run_it("inspect", "--format", "json", "d", name)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        document = json.loads(result.stdout)
        self.valid(document, "inspect.schema.json")
        self.assertEqual(document["files"][-1]["path"], name)
        self.assertEqual(document["files"][-1]["problems"], [])

    def test_standard_streams_may_be_closed(self):
        self.write("a.ptx", PTX)
        for redirect in ("<&-", "2>&-", "<&- 2>&-"):
            result = subprocess.run(["sh", "-c", f'"$0" inspect a.ptx {redirect}', CUDEPLOY], cwd=self.root,
                                    capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, redirect)
            self.assertIn("a.ptx: PTX", result.stdout)
        result = subprocess.run(["sh", "-c", '"$0" inspect a.ptx >&-', CUDEPLOY], cwd=self.root, capture_output=True)
        self.assertIn(result.returncode, (0, 2))

    def test_no_process_is_left(self):
        if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            self.skipTest("this kernel does not tell the children of a process")
        self.write("a.tar.gz", tar({f"{i}.ptx": PTX for i in range(20_000)}))
        found = []
        for _ in range(20):  # it may be done before anybody looks
            process = subprocess.Popen([CUDEPLOY, "inspect", "a.tar.gz"], cwd=self.root, stdout=subprocess.DEVNULL)
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while not found and process.poll() is None:
                found = children.read_text().split()
            killed = process.poll() is None
            process.kill()
            process.wait()
            if found and killed:
                break
            found = []
        self.assertTrue(found, "no reader was ever seen")
        for _ in range(100):
            left = [child for child in found if pathlib.Path(f"/proc/{child}").exists()
                    and " Z " not in pathlib.Path(f"/proc/{child}/stat").read_text()]
            if not left:
                break
            time.sleep(0.1)
        self.assertEqual(left, [])


class LinkKit(Cli):
    def test_writes_a_kit_and_says_what(self):
        if not CUDART:
            self.skipTest("no libcudart_static.a")
        result = self.run_it("link-kit", "--cudart", CUDART, "-o", "kit")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout.splitlines()[0], r": CUDA \d+ runtime for \w+, generation \d+_\d+, \d+ names routed$")
        kit = json.loads((self.root / "kit/link-kit.json").read_text())
        self.assertEqual(kit["schema"], "cudeploy/link-kit/1")

    def test_no_archive_is_2(self):
        self.write("libcudart_static.a", "hello")
        for archive in ("gone.a", "libcudart_static.a"):
            result = self.run_it("link-kit", "--cudart", archive, "-o", "kit")
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"{archive}: error: ", result.stderr)


class NewProject(Cli):
    def files(self, folder):
        return {str(path.relative_to(self.root / folder)): path.read_text()
                for path in (self.root / folder).rglob("*") if path.is_file()}

    def test_each_kind_is_its_template_with_the_name_in_it(self):
        kinds = sorted(path.name for path in (SOURCE / "templates/project").iterdir())
        self.assertGreater(len(kinds), 3)
        for kind in kinds:
            result = self.run_it("new", f"below_{kind}", "--kind", kind)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            template = SOURCE / "templates/project" / kind
            expected = {str(path.relative_to(template)).replace("starter", f"below_{kind}"):
                        path.read_text().replace("starter", f"below_{kind}")
                        for path in template.rglob("*") if path.is_file()}
            self.assertEqual(self.files(f"below_{kind}"), expected)
            self.assertIn(f"below_{kind}: a {kind} of {len(expected)} files: ", result.stdout)

    def test_a_program_is_the_default_and_a_path_is_taken(self):
        (self.root / "some where").mkdir()
        self.assertEqual(self.code("new", "some where/Mine2/"), 0)
        self.assertIn("project(Mine2 ", self.files("some where/Mine2")["CMakeLists.txt"])
        self.assertIn("Mine2.cu", self.files("some where/Mine2"))

    def test_nothing_is_written_over(self):
        self.write("there/CMakeLists.txt", "mine")
        self.write("file", "mine")
        os.symlink("nowhere", self.root / "link")
        (self.root / "empty").mkdir()
        for name in ("there", "file", "link", "empty"):
            result = self.run_it("new", name)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(result.stderr, f"{name}: error: exists already\nhint: another name; nothing is ever written over\n")
        self.assertEqual(self.files("there"), {"CMakeLists.txt": "mine"})
        self.assertEqual(list((self.root / "empty").iterdir()), [])

    def test_wrong_names_and_kinds(self):
        for name, hint in (("my-app", "did you mean my_app?"), ("3d", "did you mean d?"), ("", "cudeploy new my_app"),
                           ("..", "cudeploy new my_app"), ("/", "cudeploy new my_app"), ("a\x1bb", "did you mean a_b?"),
                           ("test", "cudeploy new my_test"), ("cudeploy", "cudeploy new my_cudeploy")):
            result = self.run_it("new", name)
            self.assertEqual(result.returncode, 2, name)
            self.assertIn(f"hint: {hint}\n", result.stderr)
            self.assertNotIn("\x1b", result.stderr)
        words = [*keyword.kwlist, "class", "int", "namespace", "co_await", "xor_eq", "alignas", "wchar_t", "linux"]
        for name in words:
            result = self.run_it("new", name, "--kind", "library")
            self.assertEqual((result.returncode, result.stderr), (
                2, f"{name}: error: expected a name for code, found {name}, a word of C++ or Python\n"
                   f"hint: cudeploy new my_{name}\n"))
        result = self.run_it("new", "x", "--kind", "plugn")
        self.assertEqual(result.returncode, 2)
        self.assertIn("library,plugin,program,python", result.stderr)
        result = self.run_it("new", "gone/x")
        self.assertEqual((result.returncode, result.stderr), (2, "gone/x: error: cannot be made: No such file or directory\n"))
        self.assertEqual(list(self.root.iterdir()), [])

    def test_what_cannot_be_finished_is_taken_away(self):
        # A file of 512 bytes is the largest that can be written, as on a disk that is nearly full.
        result = subprocess.run(["sh", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" new x --kind python", CUDEPLOY], cwd=self.root,
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("cannot be written: File too large", result.stderr)
        self.assertEqual(list(self.root.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
