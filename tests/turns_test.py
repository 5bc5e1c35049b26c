#!/usr/bin/env python3
"""Tests of turns.py: which parts a run of the gate has. Usage: turns_test.py"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import turns  # noqa: E402

PARTS = [("unit", "always", None, []), ("tsan", "gate", None, []), ("images", "turn", 1, ["deploy/image", "tests/deploy"])]


def runs(commit, changed):
    return [name for name, runs, _ in turns.decide(PARTS, commit, changed) if runs]


class Turns(unittest.TestCase):
    def test_a_part_with_a_turn_runs_when_it_is_its_turn_or_its_files_changed(self):
        self.assertEqual(runs("000000000001", []), ["unit", "tsan", "images"])
        self.assertEqual(runs("000000000002", []), ["unit", "tsan"])
        self.assertEqual(runs("000000000002", ["deploy/image/build.sh"]), ["unit", "tsan", "images"])
        self.assertEqual(runs("000000000002", ["deploy/images/build.sh"]), ["unit", "tsan"])

    def test_nothing_is_left_out_where_git_does_not_know(self):
        self.assertEqual(runs("", []), ["unit", "tsan", "images"])
        self.assertEqual(runs("000000000002", None), ["unit", "tsan", "images"])

    def test_every_part_has_its_turn_within_three_consecutive_numbers(self):
        parts = turns.read_parts(os.path.join(turns.ROOT, "tests/parts.txt"))
        for first in range(5):
            seen = {name for n in range(first, first + turns.TURNS)
                    for name, runs, _ in turns.decide(parts, f"{n:012x}", []) if runs}
            self.assertEqual(seen, {name for name, _, _, _ in parts})

    def test_a_wrong_line_is_named(self):
        for line in ("unit sometimes", "images turn 7 deploy", "images turn", "unit always deploy"):
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
                f.write("# parts\n" + line + "\n")
                f.flush()
                with self.assertRaisesRegex(ValueError, f":2: expected NAME always.*\"{line}\""):
                    turns.read_parts(f.name)

    def test_parts_that_depend_on_files_name_some_that_exist(self):
        for name, _, _, paths in turns.read_parts(os.path.join(turns.ROOT, "tests/parts.txt")):
            for path in paths:
                self.assertTrue(os.path.exists(os.path.join(turns.ROOT, path)), f"{name}: {path}")

    def test_run_sh_and_the_handbook_know_every_part(self):
        listed = subprocess.run([os.path.join(turns.ROOT, "tests/run.sh"), "--list"], capture_output=True, text=True, check=True)
        names = [line.split()[0] for line in listed.stdout.splitlines()]
        parts = turns.read_parts(os.path.join(turns.ROOT, "tests/parts.txt"))
        self.assertEqual(names, [name for name, _, _, _ in parts])
        with open(os.path.join(turns.ROOT, "tests/README.md"), encoding="utf-8") as f:
            handbook = f.read()
        for name in names:
            self.assertIn(f"| `{name}` |", handbook)


if __name__ == "__main__":
    unittest.main()
