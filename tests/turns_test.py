#!/usr/bin/env python3
"""Tests of turns.py and of tests/parts.txt: which parts a run of the gate has. Usage: turns_test.py"""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import turns  # noqa: E402

PARTS = [turns.Part("unit", 1, "always", None, []), turns.Part("tsan", 1, "gate", None, []),
         turns.Part("images", 1, "turn", 1, ["deploy/image", "tests/deploy"])]


def runs(commit, changed):
    return [name for name, runs, _ in turns.decide(PARTS, commit, changed, "f3d58fd") if runs]


def paths_of(part):
    return next(p.paths for p in turns.read_parts(os.path.join(turns.ROOT, "tests/parts.txt")) if p.name == part)


def read(path):
    with open(os.path.join(turns.ROOT, path), encoding="utf-8") as f:
        return f.read()


def rooms_without_boundary():
    """The folders below tests/ of the rooms whose tests only asan-compute runs under ASan."""
    rooms = set()
    for path in glob.glob("tests/**/CMakeLists.txt", root_dir=turns.ROOT, recursive=True):
        for call in re.findall(r"^\s*numoe_tests\s*\(([^()]*)\)", re.sub("#.*", "", read(path)), re.M | re.I):
            if "BOUNDARY" not in call.split():
                rooms.add(os.path.dirname(path))
    return rooms


class Turns(unittest.TestCase):
    def test_a_part_with_a_turn_runs_when_it_is_its_turn_or_its_files_changed(self):
        self.assertEqual(runs("000000000001", []), ["unit", "tsan", "images"])
        self.assertEqual(runs("000000000002", []), ["unit", "tsan"])
        self.assertEqual(runs("000000000002", ["deploy/image/build.sh"]), ["unit", "tsan", "images"])
        self.assertEqual(runs("000000000002", ["deploy/images/build.sh"]), ["unit", "tsan"])
        self.assertIn("none of its files in tests/parts.txt has changed since f3d58fd",
                      turns.decide(PARTS, "000000000002", [], "f3d58fd")[2][2])

    def test_what_changed_runs_while_the_run_stays_within_its_limit(self):
        parts = [turns.Part("unit", 60, "always", None, []), turns.Part("long", 12, "turn", 0, ["a"]),
                 turns.Part("short", 8, "turn", 1, ["a"]), turns.Part("its_turn", 5, "turn", 2, ["a"])]
        for changed in (["a/b"], None):
            decisions = {name: (runs, reason) for name, runs, reason in turns.decide(parts, "000000000002", changed, "f3d58fd")}
            self.assertEqual([name for name, (runs, _) in decisions.items() if runs], ["unit", "short", "its_turn"])
            self.assertIn("would take 85 minutes of at most 77; tests/run.sh long runs it", decisions["long"][1])

    def test_the_gate_fits_with_any_turn(self):
        parts = turns.read_parts(os.path.join(turns.ROOT, "tests/parts.txt"))
        for turn in range(turns.TURNS):
            runs = {name for name, runs, _ in turns.decide(parts, f"{turn:012x}", None, "") if runs}
            self.assertLessEqual(sum(part.minutes for part in parts if part.name in runs), turns.LIMIT_MINUTES)
            self.assertLessEqual({part.name for part in parts if part.when != "turn" or part.turn == turn}, runs)

    def test_parts_with_a_turn_come_first_for_half_of_the_commits(self):
        for number, names in ((1, ["unit", "tsan", "images"]), (4, ["unit", "images", "tsan"]), (7, ["unit", "tsan", "images"])):
            self.assertEqual([name for name, _, _ in turns.decide(PARTS, f"{number:012x}", [], "f3d58fd")], names)

    def test_a_slow_machine_leaves_parts_out_before_the_time_is_over(self):
        parts = [turns.Part("build", 10, "always", None, []), turns.Part("unit", 10, "always", None, []),
                 turns.Part("page", 10, "always", None, []), turns.Part("asan", 30, "gate", None, []),
                 turns.Part("images", 20, "turn", 1, ["a"])]
        quick, slow = {"build": 60, "unit": 500}, {"build": 60, "unit": 1500}
        self.assertEqual(turns.slowness(parts, {}), 1)
        self.assertEqual(turns.slowness(parts, quick), 1)
        self.assertEqual(turns.slowness(parts, slow), 2.5)
        self.assertEqual(turns.too_long(parts, "asan", 46 * 60, quick), "")
        self.assertEqual(turns.too_long(parts, "asan", 51 * 60, quick),
                         "it would end after 81 minutes of at most 77: 51 have passed, and its 30 take 1.0 times as long on this machine; "
                         "tests/run.sh asan runs it")
        self.assertIn("after 81 minutes", turns.too_long(parts, "asan", 6 * 60, slow))
        self.assertEqual(turns.too_long(parts, "images", 6 * 60, slow), "")
        self.assertEqual(turns.too_long(parts, "page", 90 * 60, slow), "", "every run has it")

    def test_run_sh_asks_with_what_the_parts_took(self):
        def fits(name, after, took):
            done = subprocess.run([sys.executable, turns.__file__, "--fits", name, "--after", str(after), "--took", took],
                                  capture_output=True, text=True)
            return done.returncode, done.stdout
        self.assertEqual(fits("asan", 1200, "build 60,unit 200,"), (0, ""))
        code, reason = fits("asan", 1200, "build 60,unit 2000,e2e 1000,")
        self.assertEqual(code, 1)
        self.assertRegex(reason, r"^it would end after \d+ minutes of at most 77: 20 have passed, .* tests/run.sh asan runs it\n$")

    def test_paths_have_the_braces_of_a_shell(self):
        self.assertEqual(turns.expand("a/{b,c}.{h,cc}"), ["a/b.h", "a/b.cc", "a/c.h", "a/c.cc"])
        self.assertEqual(turns.expand("{,t/}a/{b,c}"), ["a/b", "a/c", "t/a/b", "t/a/c"])

    def test_nothing_is_left_out_where_git_does_not_know(self):
        self.assertEqual(runs("", []), ["unit", "tsan", "images"])
        self.assertEqual(runs("000000000002", None), ["unit", "tsan", "images"])

    def test_every_part_has_its_turn_within_three_consecutive_numbers(self):
        parts = turns.read_parts(os.path.join(turns.ROOT, "tests/parts.txt"))
        for first in range(5):
            seen = {name for n in range(first, first + turns.TURNS)
                    for name, runs, _ in turns.decide(parts, f"{n:012x}", [], "") if runs}
            self.assertEqual(seen, {part.name for part in parts})

    def test_a_wrong_line_is_named(self):
        for line in ("unit 1 sometimes", "images 1 turn 7 deploy", "images 1 turn", "unit 1 always deploy", "unit always", "unit"):
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
                f.write("# parts\n" + line + "\n")
                f.flush()
                with self.assertRaisesRegex(ValueError, f":2: expected NAME MINUTES always.*\"{line}\""):
                    turns.read_parts(f.name)

    def test_parts_that_depend_on_files_name_some_that_exist(self):
        for part in turns.read_parts(os.path.join(turns.ROOT, "tests/parts.txt")):
            for path in part.paths:
                self.assertTrue(os.path.exists(os.path.join(turns.ROOT, path)), f"{part.name}: {path}")

    def test_asan_compute_names_every_room_whose_tests_no_other_part_has_under_asan(self):
        paths, rooms = paths_of("asan-compute"), rooms_without_boundary()
        self.assertGreater(len(rooms), 10)
        for folder in rooms:
            room = folder.removeprefix("tests/unit/")
            for place in (folder, room):
                self.assertTrue(turns.is_below(place, paths), f"tests/parts.txt: asan-compute lacks {place}")

    def test_device_code_names_every_header_that_nvcc_reads(self):
        paths, seen = paths_of("device-code"), set()
        waiting = [path for room in ("common", "coordinator")
                   for path in glob.glob(room + "/**/*.cu", root_dir=turns.ROOT, recursive=True)]
        self.assertGreater(len(waiting), 10)
        while waiting:
            path = waiting.pop()
            if path not in seen:
                seen.add(path)
                self.assertTrue(turns.is_below(path, paths), f"tests/parts.txt: device-code lacks {path}")
                waiting += re.findall(r'^\s*#\s*include\s*"([^"]+)"', read(path), re.M)

    def test_run_sh_and_the_handbook_know_every_part(self):
        listed = subprocess.run([os.path.join(turns.ROOT, "tests/run.sh"), "--list"], capture_output=True, text=True)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        names = [line.split()[0] for line in listed.stdout.splitlines()]
        parts = turns.read_parts(os.path.join(turns.ROOT, "tests/parts.txt"))
        self.assertEqual(names, [part.name for part in parts])
        for name in names:
            self.assertIn(f"| `{name}` |", read("tests/README.md"))


class ChangedFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patch = mock.patch.object(turns, "ROOT", folder.name)
        patch.start()
        self.addCleanup(patch.stop)
        try:
            self.git("init", "-q")
        except FileNotFoundError:
            self.skipTest("not installed: git")
        self.write(".gitignore", "build/\n")
        self.first = self.commit("old/a.sh", hour=1)
        self.second = self.commit("old/b.sh", hour=2)
        self.third = self.commit("old/c.sh", hour=7)

    def git(self, *arguments, hour=0):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        date = f"2026-01-01T{hour:02}:00:00Z"
        return subprocess.run(["git", "-C", turns.ROOT, *who, *arguments], capture_output=True, text=True, check=True,
                              env={**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}).stdout

    def write(self, path, text):
        os.makedirs(os.path.join(turns.ROOT, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(turns.ROOT, path), "w", encoding="utf-8") as f:
            f.write(text)

    def commit(self, path, hour):
        self.write(path, f"{path}\n" * 20)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", path, hour=hour)
        return self.git("rev-parse", "--short", "HEAD").strip()

    def test_the_last_four_hours_of_commits_or_since_a_base(self):
        self.assertEqual(turns.changed_files(""), (["old/c.sh"], self.second))
        self.assertEqual(turns.comparison(self.second), f"compared with {self.second}, 1 commit before")
        self.assertEqual(turns.changed_files("HEAD~2"), (["old/b.sh", "old/c.sh"], self.first))
        self.assertEqual(turns.comparison(self.first), f"compared with {self.first}, 2 commits before")

    def test_what_moved_counts_where_it_was_and_so_does_what_is_not_committed(self):
        os.makedirs(turns.ROOT + "/new")
        self.git("mv", "old/a.sh", "new/a.sh")
        self.git("commit", "-q", "-m", "moved", hour=8)
        self.write("old/b.sh", "other\n")
        self.write("new/with space \u00e9", "untracked\n")
        self.write("build/ignored", "ignored\n")
        self.assertEqual(turns.changed_files(self.third)[0], ["new/a.sh", "new/with space \u00e9", "old/a.sh", "old/b.sh"])

    def test_nothing_is_known_of_a_commit_that_git_lacks(self):
        self.assertEqual(turns.changed_files("0123abc"), (None, ""))
        self.git("checkout", "-q", self.first)
        self.assertEqual(turns.changed_files(""), (None, ""))
        self.assertIn("nothing is left out", turns.comparison(""))


if __name__ == "__main__":
    unittest.main()
