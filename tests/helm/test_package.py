"""The packed chart, as others get it: its README matches its values, and it has what registries of charts show."""
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

import chart
from test_image import read

HEAD = chart.yaml.safe_load(read("helm", "numoe", "Chart.yaml"))


class Package(unittest.TestCase):
    def test_the_readme_is_current(self):
        done = subprocess.run([sys.executable, os.path.join(chart.ROOT, "helm", "readme.py"), "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_readme_names_every_value(self):
        shown = chart.helm("show", "readme", chart.CHART)
        for key in chart.yaml.safe_load(read("helm", "numoe", "values.yaml")):
            self.assertRegex(shown, rf"\n\| `{key}[`.]", key)
        for name in chart.VALUES:
            self.assertIn(f"`{name}`", shown)

    def test_what_registries_show(self):
        for key in ("description", "home", "icon", "sources", "maintainers", "keywords", "kubeVersion"):
            self.assertTrue(HEAD.get(key), key)
        changes = chart.yaml.safe_load(HEAD["annotations"]["artifacthub.io/changes"])
        for change in changes:
            self.assertIn(change["kind"], ("added", "changed", "deprecated", "removed", "fixed", "security"))
            self.assertTrue(change["description"])

    def test_packing(self):
        with tempfile.TemporaryDirectory() as folder:
            chart.helm("package", chart.CHART, "--destination", folder)
            (name,) = os.listdir(folder)
            self.assertIn(f"`{name}`", read("deploy", "README.md"))
            with tarfile.open(os.path.join(folder, name)) as packed:
                names = set(packed.getnames())
            self.assertLess(os.path.getsize(os.path.join(folder, name)), 1 << 20)
        files = {os.path.join("numoe", os.path.relpath(os.path.join(at, f), chart.CHART)) for at, _, found in os.walk(chart.CHART) for f in found}
        self.assertEqual(names, files - {"numoe/.helmignore"} | ({"numoe/.helmignore"} & names))
        with tempfile.TemporaryDirectory() as folder:
            chart.helm("package", chart.CHART, "--destination", folder)
            rendered = chart.helm("template", "numoe", os.path.join(folder, name), "--namespace", "numoe", "--kube-version", chart.KUBERNETES, "--skip-tests",
                                  values=["values-nano.yaml"])
        self.assertEqual(rendered, chart.template("values-nano.yaml"))

    def test_the_oldest_kubernetes_is_refused_below(self):
        oldest = re.search(r"1\.(\d+)", HEAD["kubeVersion"]).group(1)
        chart.helm("template", "numoe", chart.CHART, "--kube-version", f"1.{oldest}.0", values=["values-nano.yaml"])
        with self.assertRaisesRegex(chart.Refused, "chart requires kubeVersion"):
            chart.helm("template", "numoe", chart.CHART, "--kube-version", f"1.{int(oldest) - 1}.0", values=["values-nano.yaml"])


if __name__ == "__main__":
    unittest.main()
