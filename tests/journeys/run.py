#!/usr/bin/env python3
"""Does what README.md tells a newcomer to do, with small models: run.py [--bin DIR] [TEST...]

The quickstart with a GGUF file, with a repository that it downloads from a server on this machine, and with one in Hugging
Face's cache; daemons started by hand with a supervisor and a router; and every command of README.md, whose flags and files must exist.
Standard library only.
"""
import argparse
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "deploy")]
import download_test  # noqa: E402
import skips  # noqa: E402
from daemons import Daemon, until  # noqa: E402
from ports import free_port  # noqa: E402

BIN = os.path.join(ROOT, "build", "release", "bin")
NANO = os.path.join(ROOT, "deploy", "models", "nano")
GGUF = os.path.join(ROOT, "tests", "golden", "data", "tiny-chat-gguf", "tiny-chat.gguf")
QUESTION, ANSWER = "What is 84 * 3 / 2?", "126"
START_SECONDS = 300  # seconds, enough for a busy machine


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(tempfile.TemporaryDirectory(prefix="numoe-journey."))

    def ask(self, *options, **environment):
        """-> (exit code, stdout, stderr) of a quickstart with a home of its own, started from another folder."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_"))}
        # The compiler cache remains where it is, although its default folder depends on HOME.
        kept.setdefault("CCACHE_DIR", os.path.join(os.path.expanduser("~"), ".cache", "ccache"))
        done = subprocess.run([os.path.join(ROOT, "deploy/quickstart.sh"), "--ask", QUESTION, *options], capture_output=True, text=True,
                              timeout=START_SECONDS, cwd=self.home, check=False, env={**kept, "HOME": self.home, **environment})
        return done.returncode, done.stdout, done.stderr

    def test_a_gguf_file(self):
        os.symlink(GGUF, os.path.join(self.home, "model.gguf"))
        code, said, log = self.ask("--model", "model.gguf")
        self.assertEqual(code, 0, log)
        self.assertTrue(said)
        self.assertIn("one expert worker for each NUMA node", log)

    def test_a_repository_is_downloaded_once(self):
        files = {}
        for name in os.listdir(NANO):
            with open(os.path.join(NANO, name), "rb") as f:
                files[name] = f.read()
        hub = download_test.Hub()
        options = ("--model", download_test.REPO, "--download", "--include", "*")
        with unittest.mock.patch.object(download_test, "FILES", files):
            try:
                code, said, log = self.ask(*options, HF_ENDPOINT=hub.url)
            finally:
                hub.close()
        self.assertEqual((code, ANSWER in said), (0, True), said + log)
        self.assertTrue(os.path.exists(os.path.join(self.home, ".cache/numoe/org--model--_/READY")))
        code, said, log = self.ask(*options, HF_ENDPOINT="http://127.0.0.1:9")  # the second time there is no server, and none is needed
        self.assertEqual((code, ANSWER in said), (0, True), said + log)

    def test_a_repository_of_hugging_faces_cache(self):
        cached = os.path.join(self.home, ".cache/huggingface/hub/models--org--nano")
        snapshot = os.path.join(cached, "snapshots", download_test.COMMIT)
        os.makedirs(snapshot)
        os.makedirs(os.path.join(cached, "refs"))
        for name in os.listdir(NANO):
            os.symlink(os.path.join(NANO, name), os.path.join(snapshot, name))
        with open(os.path.join(cached, "refs/main"), "w", encoding="ascii") as f:
            f.write(download_test.COMMIT)
        code, said, log = self.ask("--model", "org/nano")
        self.assertEqual((code, ANSWER in said), (0, True), said + log)

    def test_what_is_not_there_is_said_with_what_to_do(self):
        code, said, log = self.ask("--model", "org/nothing")
        self.assertEqual((code, said), (1, ""))
        self.assertIn("numoe-download --repo org/nothing --to FOLDER", log)
        for options, words in ((("--include", "x"), "--include is for --download"),
                               (("--model", "/x", "--download"), "expected ORG/NAME"), (("--modle", "x"), "unknown option '--modle'")):
            code, said, log = self.ask(*options)
            self.assertEqual((code, said), (2, ""), log)
            self.assertIn(words, log)


class ByHand(unittest.TestCase):
    def test_a_supervisor_a_coordinator_and_a_router(self):
        """The journey of the server with two sockets, with as many NUMA nodes as this machine has."""
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="numoe-journey."))
        port, front = free_port(), free_port()
        workers = self.daemon(folder, "numoe-expert-worker", "--supervise", "--model", NANO, "--listen", f"unix:{folder}", "--metrics-port", "0")
        until(workers.log, lambda: " supervising " in workers.log())
        addresses = re.findall(r"worker \d+ at (unix:\S+) on", workers.log())
        self.assertTrue(addresses, workers.log())
        coordinator = self.daemon(folder, "numoe-coordinator", "--model", NANO, "--workers", ",".join(addresses), "--port", str(port),
                                  "--dense-format", "int8", "--kv-cache-dtype", "fp8_e4m3")
        router = self.daemon(folder, "numoe-router", "--backends", f"http://127.0.0.1:{port}", "--port", str(front))
        chat = [os.path.join(BIN, "numoe-chat"), "--url", f"http://127.0.0.1:{front}"]
        until(lambda: router.log() + coordinator.log(), lambda: self.healthy(front))
        done = subprocess.run(chat, input=QUESTION, capture_output=True, text=True, timeout=START_SECONDS, check=False)
        self.assertIn(ANSWER, done.stdout, done.stderr)
        for each in (router, coordinator, workers):
            self.assertEqual(each.stop(signal.SIGTERM, timeout=60), 0, each.log())

    def daemon(self, folder, program, *flags):
        daemon = Daemon(program, [os.path.join(BIN, program), *flags], folder)
        daemon.start()
        self.addCleanup(daemon.stop, signal.SIGKILL)
        return daemon

    @staticmethod
    def healthy(port):
        with contextlib.suppress(OSError):
            done = subprocess.run(["curl", "--noproxy", "*", "-sf", "-o", os.devnull, f"http://127.0.0.1:{port}/health"], check=False)
            return done.returncode == 0
        return False


class FullSize(unittest.TestCase):
    """Checks README.md's commands: their programs have the flags, and the files exist."""

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="numoe-full-size."))
        cls.k2, cls.qwen3 = os.path.join(cls.folder, "k2"), os.path.join(cls.folder, "qwen3.gguf")
        make = [sys.executable, os.path.join(ROOT, "tests/bench/make_checkpoint.py")]
        subprocess.run([*make, "k2", cls.k2, "--layers", "61", "--experts", "384", "--holes"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*make, "qwen3-30b", cls.qwen3, "--layers", "48", "--holes"], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
            cls.readme = f.read()

    def run_program(self, program, *flags):
        done = subprocess.run([os.path.join(BIN, program), *flags], capture_output=True, text=True, timeout=START_SECONDS, check=False)
        return done.returncode, done.stdout + done.stderr

    def slice_gib(self, model, workers):
        """-> what `numoe-pack inspect` says that one worker holds in the format that is chosen for it."""
        code, said = self.run_program("numoe-pack", "inspect", model, "--workers", str(workers))
        self.assertEqual(code, 0, said)
        return float(re.search(r"auto +by intermediate +([\d.]+) GiB", said)[1])

    def plan_gib(self, *flags):
        """-> what `numoe-coordinator --plan` says that the coordinator takes, whether it fits here or not."""
        _, said = self.run_program("numoe-coordinator", "--plan", "--device", "cpu", *flags)
        found = re.search(r"(?:total +|takes )([\d.]+) GiB", said)
        self.assertTrue(found, said)
        return float(found[1])

    def test_qwen3_takes_what_the_readme_says(self):
        said = float(re.search(r"the daemons take about (\d+) GiB", self.readme)[1])
        self.assertAlmostEqual(self.slice_gib(self.qwen3, 1) + self.plan_gib("--model", self.qwen3), said, delta=1)

    def test_kimi_k2_takes_what_the_readme_says(self):
        (said,) = set(re.findall(r"Kimi-K2-Thinking, INT4 \| (\d+) \|", self.readme))
        self.assertAlmostEqual(2 * self.slice_gib(self.k2, 2), float(said), delta=1)
        self.assertGreater(self.plan_gib("--model", self.k2, "--dense-format", "int8", "--kv-cache-dtype", "fp8_e4m3"), 15)

    def test_what_does_not_fit_is_refused_before_it_is_read(self):
        with open("/proc/meminfo", encoding="ascii") as f:
            if int(re.search(r"MemTotal: +(\d+)", f.read())[1]) > 500 << 20:
                self.skipTest("this machine has the memory for Kimi-K2")
        listen = "unix:" + os.path.join(self.folder, "w0.sock")
        code, said = self.run_program("numoe-expert-worker", "--model", self.k2, "--listen", listen, "--metrics-port", "0")
        self.assertNotEqual(code, 0)
        self.assertRegex(said, r"[\d.]+ GiB are available to this process.*, but the worker takes 532\.\d+ GiB")
        self.assertRegex(said, r"the slice of --worker-count=\d+ fits here")


class Readme(unittest.TestCase):
    """README.md's commands: their programs have the flags, and the files exist."""
    FILES = ("deploy/", "tests/", "helm/", "build/release/bin/", ".ci/")

    @classmethod
    def setUpClass(cls):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
            text = f.read()
        cls.lines = text.splitlines()
        blocks = re.findall(r"^```\n(.*?)^```$", text, re.M | re.S)
        cls.commands = [words for block in blocks for line in block.splitlines() for words in cls.commands_of(line)]

    @staticmethod
    def commands_of(line):
        """The commands of a line, as words; lines of a drawing and comments have none."""
        words = shlex.split(re.sub(r"\s#\s.*|^#.*", "", line.replace("$W", "unix:w").replace("$PWD", ".")), posix=True) if re.match(r"[a-z]", line) else []
        commands, current = [], []
        for word in [*words, ";"]:
            if word in (";", "&&", "|", "&"):
                commands += [current] if current else []
                current = []
            else:
                current.append(word.rstrip(";"))
        return commands

    def test_it_has_at_most_150_lines(self):
        self.assertLessEqual(len(self.lines), 150)

    def test_there_are_commands(self):
        self.assertGreater(len(self.commands), 25, self.commands)

    def test_files_exist(self):
        for command in self.commands:
            for word in command:
                path = word.removeprefix("$PWD/").removeprefix("./")
                if path.startswith(self.FILES) and "*" not in path:
                    self.assertTrue(os.path.exists(os.path.join(ROOT, path)), f"{' '.join(command)}: {path}")

    def test_programs_have_the_flags(self):
        helps = {}
        checked = 0
        for command in self.commands:
            program = os.path.basename(command[0])
            path = {"numoe-download": os.path.join(ROOT, "deploy/download/numoe-download"),
                    "quickstart.sh": os.path.join(ROOT, "deploy/quickstart.sh")}.get(program, os.path.join(BIN, program))
            if not os.path.exists(path):
                continue
            key = (path, *command[1:2]) if program == "numoe-bench" else (path,)
            if key not in helps:
                done = subprocess.run([*key, "--help"], capture_output=True, text=True, timeout=60, check=True)
                helps[key] = done.stdout + done.stderr
            for word in command[1:]:
                if word.startswith("--"):
                    checked += 1
                    self.assertRegex(helps[key], rf"(?m)(^|\s){re.escape(word.split('=')[0])}\b", " ".join(command))
        self.assertGreater(checked, 25)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=BIN)
    options, rest = parser.parse_known_args()
    BIN = os.path.abspath(options.bin)
    begin = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    sys.exit(skips.finish(result))
