"""Checks deploy/README.md: its tables are the computed ones, its flags, values and alerts exist, and every alert has a section."""
import os
import re
import subprocess
import sys
import unittest

import chart

sys.path.insert(0, os.path.join(chart.ROOT, "deploy"))
import sizing  # noqa: E402

with open(os.path.join(chart.ROOT, "deploy", "README.md"), encoding="utf-8") as handbook:
    TEXT = handbook.read()


class Handbook(unittest.TestCase):
    def test_sizing_tables(self):
        for table in (sizing.memory_table(), sizing.speed_table()):
            self.assertIn("\n".join(table), TEXT, "run deploy/sizing.py and copy its tables")

    def test_values_exist(self):
        with open(os.path.join(chart.CHART, "values.yaml"), encoding="utf-8") as f:
            values = chart.yaml.safe_load(f)
        top = "|".join(values)
        for path in set(re.findall(rf"`((?:{top})(?:\.[a-zA-Z]+)+)", TEXT)):
            at = values
            for key in path.split("."):
                if key in ("limits", "requests", "nodeSelector"):
                    break
                self.assertIn(key, at, path)
                at = at[key]

    def test_every_alert_has_a_section(self):
        path = os.path.join(chart.CHART, "files", "alerts.yaml")
        with open(path, encoding="utf-8") as f:
            alerts = re.findall(r"alert: (\w+)", f.read())
        self.assertTrue(alerts)
        self.assertEqual(sorted(re.findall(r"^### (Numoe\w+)$", TEXT, re.MULTILINE)), sorted(alerts))

    def test_paths_exist(self):
        for path in set(re.findall(r"`((?:deploy|helm|tests|common)/[\w./-]+)`", TEXT)):
            self.assertTrue(os.path.exists(os.path.join(chart.ROOT, path)), path)

    def test_flags_exist(self):
        folder = os.environ.get("NUMOE_BIN", os.path.join(chart.ROOT, "build", "release", "bin"))
        programs = [p for p in ("numoe-coordinator", "numoe-expert-worker", "numoe-pack", "numoe-chat", "numoe-router") if os.path.exists(f"{folder}/{p}")]
        if len(programs) < 5:
            self.skipTest(f"not built: not all programs are in {folder}")
        calls = [[p, "--help"] for p in programs] + [["numoe-pack", command, "--help"] for command in ("convert", "inspect")]
        known = "".join(subprocess.run([f"{folder}/{c[0]}", *c[1:]], capture_output=True, text=True, check=True).stdout for c in calls)
        others = {"--server-side", "--set", "--wait", "--sign", "--apiserver", "--check", "--from-literal", "--from-file", "--previous", "--build-arg", "--cuda", "--load", "--bin", "--raw", "--health-cmd"}  # options of helm, kubectl and scripts
        for flag in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) - others:
            self.assertRegex(known, rf"{flag}\b")


if __name__ == "__main__":
    unittest.main()
