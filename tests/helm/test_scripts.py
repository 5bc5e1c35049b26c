"""The script in the pods waits for the model, prints its progress, derives the slice from the pod's name, and passes signals on."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

import chart

START = os.path.join(chart.CHART, "files", "start.sh")


class Start(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, *command, **env):
        return subprocess.Popen(["/bin/sh", START, *command], env={"PATH": os.environ["PATH"], "WAIT_SECONDS": "1", **env},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, process):
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process.communicate(timeout=60)[0]

    def test_starts_at_once_where_nothing_is_awaited(self):
        self.assertEqual(self.finish(self.start("echo", "a b", "c")), "a b c\n")

    def test_slices_from_the_pods_name(self):
        for pod, base, step, index in (("numoe-group-0-1", 2, 2, 2), ("numoe-group-3-8", 3, 2, 17), ("a-b-12", 0, 1, 11)):
            process = self.start("echo", "worker", HOSTNAME=pod, INDEX_BASE=str(base), INDEX_STEP=str(step))
            self.assertEqual(self.finish(process), f"worker --worker-index={index}\n")

    def test_waits_and_says_how_far_it_is(self):
        model = os.path.join(self.folder, "model")
        os.mkdir(model)
        with open(os.path.join(model, "part"), "wb") as f:
            f.write(os.urandom(3 << 20))
        process = self.start("echo", "started", WAIT_FOR=f"{model}/READY", WAIT_MIB="12")
        self.assertEqual(process.stdout.readline(), f"waiting for {model}: 3 of 12 MiB (25 %)\n")
        with open(os.path.join(model, "more"), "wb") as f:
            f.write(os.urandom(3 << 20))
        lines = [process.stdout.readline(), process.stdout.readline()]
        self.assertTrue(any("6 of 12 MiB (50 %)" in line and "s left" in line for line in lines), lines)
        with open(f"{model}/READY", "w", encoding="utf-8"):
            pass
        rest = self.finish(process).splitlines()
        self.assertEqual(rest[-2:], [f"{model}/READY exists now", "started"])
        self.assertEqual(process.returncode, 0)

    def test_waits_for_a_directory_that_is_not_there_yet(self):
        process = self.start("echo", "started", WAIT_FOR=f"{self.folder}/later/READY", WAIT_FOR_PACKED=f"{self.folder}/packed/READY")
        self.assertIn("0 of 0 MiB", process.stdout.readline())
        for name in ("later", "packed"):
            os.mkdir(f"{self.folder}/{name}")
            with open(f"{self.folder}/{name}/READY", "w", encoding="utf-8"):
                pass
        self.assertTrue(self.finish(process).endswith("started\n"))

    def test_ends_while_it_waits(self):
        process = self.start("echo", "started", WAIT_FOR=f"{self.folder}/never")
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        self.assertNotIn("started", self.finish(process))
        self.assertEqual(process.returncode, 143)

    def test_the_program_gets_the_signal(self):
        """exec makes the program process 1, not a shell that would keep the signal."""
        process = self.start("sh", "-c", "trap 'echo drained; exit 0' TERM; echo up; while :; do sleep 0.1; done")
        self.assertEqual(process.stdout.readline(), "up\n")
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process), "drained\n")
        self.assertEqual(process.returncode, 0)

    def test_packing_takes_names_as_they_are(self):
        """READY is removed first and written last, and no shell interprets the names."""
        out = os.path.join(self.folder, "out $(touch x) 'y")
        program = os.path.join(self.folder, "numoe-pack")
        with open(program, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\n[ ! -e "$4/READY" ] || exit 9\nprintf "%s|" "$@"\nexit "${END:-0}"\n')
        os.chmod(program, 0o755)
        os.mkdir(out)
        for end in (0, 2):
            with open(f"{out}/READY", "w", encoding="utf-8"):
                pass
            done = subprocess.run(["/bin/sh", os.path.join(chart.CHART, "files", "pack.sh"), "a b", out, "int8", "expert", "6"], capture_output=True, text=True,
                                  check=False, env={"PATH": f"{self.folder}:{os.environ['PATH']}", "END": str(end)}, cwd=self.folder)
            self.assertEqual(done.stdout, f"convert|a b|--out|{out}|--format|int8|--slice|expert|--workers|6|")
            self.assertEqual((done.returncode, os.path.exists(f"{out}/READY")), (end, end == 0), "exit code 2 ends the Job for good")
        self.assertFalse(os.path.exists(f"{self.folder}/x"))


if __name__ == "__main__":
    unittest.main()
