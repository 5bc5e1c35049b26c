"""The daemons of one host plan its memory together: they do not plan with the same memory, and one that does not fit is refused."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

from daemons import Daemon, until

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests/golden/data/tiny-chat")
BIN = ""
GIB = 1 << 30
WAITS = "waiting for the workers at"  # a coordinator logs it when its memory is reserved and none of it is allocated


def write_large_model(folder, weight_bytes):
    """A model with about that many bytes of experts in BF16, all zero: a sparse file, which takes no space on the disk.
    Only the start of a worker can use it.
    """
    with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    del config["quantization_config"]
    width = config["hidden_size"] = config["moe_intermediate_size"] = 2048
    experts, matrix = config["n_routed_experts"], 2 * width * width
    layers = max(1, round(weight_bytes / (experts * 3 * matrix)))
    config["num_hidden_layers"] = layers + config["first_k_dense_replace"]
    header, at = {}, 0
    for layer in range(config["first_k_dense_replace"], config["num_hidden_layers"]):
        for expert in range(experts):
            for part in ("gate", "up", "down"):
                header[f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight"] = {
                    "dtype": "BF16", "shape": [width, width], "data_offsets": [at, at + matrix]}
                at += matrix
    os.mkdir(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    return at


class HostMemory(unittest.TestCase):
    """The first daemon reserves most of the machine's memory and allocates none of it: coordinators wait for workers that never come,
    and a worker is stopped after it has planned.
    """

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="numoe-e2e.")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.started = []
        self.reservations = ["--memory-reservations", os.path.join(self.folder, "reservations")]
        # What the machine has for a single daemon: --plan prints it, and how many tokens the KV cache would hold with all of it.
        text = subprocess.run([*self.coordinator(1 << 31), "--plan"], capture_output=True, text=True, timeout=60).stderr
        available, fitting = re.search(r"([0-9.]+) GiB are available", text), re.search(r"--max-total-tokens=(\d+) fits", text)
        if not available or not fitting or float(available[1]) < 4:
            self.skipTest(f"needs 4 GiB to 1 TiB of memory that is available: {text}")
        self.tokens_of_all = int(fitting[1])
        available = float(available[1]) * GIB
        # Meanwhile other programs of this machine may take or free as much as half of the worker's weights.
        self.weights_share = write_large_model(os.path.join(self.folder, "large"), min(8 * GIB, available / 2)) / available

    def tearDown(self):
        for daemon in self.started:
            if daemon.process is not None:
                daemon.process.kill()
                daemon.process.wait()

    def coordinator(self, tokens):
        return [os.path.join(BIN, "numoe-coordinator"), "--model", MODEL, "--workers", f"unix:{self.folder}/none.sock",
                "--worker-start-timeout-ms", "0", "--host", "127.0.0.1", "--port", "0", "--device", "cpu",
                "--max-total-tokens", str(int(tokens)), *self.reservations]

    def worker(self):
        return [os.path.join(BIN, "numoe-expert-worker"), "--model", os.path.join(self.folder, "large"),
                "--listen", f"unix:{self.folder}/worker.sock", "--metrics-port", "0", *self.reservations]

    def start(self, argv, until_it_says):
        daemon = Daemon(f"daemon{len(self.started)}", argv, self.folder)
        self.started.append(daemon)
        daemon.start()

        def said():
            self.assertIsNone(daemon.process.poll(), daemon.log())
            return until_it_says in daemon.log()
        until(lambda: f"'{until_it_says}' in the log:\n{daemon.log()}", said)
        return daemon

    def refused(self, argv):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        said = [line for line in done.stderr.splitlines() if not re.match(r"\d{4}-\d\d-", line)]  # without the lines of the log
        self.assertEqual(len(said), 1, done.stderr)
        return said[0]

    def preflight(self):
        """The line about the memory that is available."""
        done = subprocess.run([*self.worker(), "--preflight"], capture_output=True, text=True, timeout=60)
        (line,) = [line for line in done.stdout.splitlines() if "are available to this process" in line]
        return line

    def test_two_coordinators_have_the_machine_once(self):
        tokens = 0.75 * self.tokens_of_all
        first = self.start(self.coordinator(tokens), WAITS)
        text = self.refused(self.coordinator(tokens))
        self.assertRegex(text, rf"are available to this process \(of .* that are free .* are reserved by numoe-coordinator, process {first.process.pid}\)")
        fitting = int(re.search(r"--max-total-tokens=(\d+) fits", text)[1])
        self.assertLess(fitting, 0.5 * tokens)
        self.start(self.coordinator(0.9 * fitting), WAITS).stop(signal.SIGKILL)
        first.stop(signal.SIGKILL)  # a killed process cleans nothing up
        self.start(self.coordinator(tokens), WAITS)

    def test_a_worker_that_does_not_fit_beside_a_coordinator_is_refused(self):
        # Half of the worker's weights would fit.
        first = self.start(self.coordinator((1 - self.weights_share / 2) * self.tokens_of_all), WAITS)
        text = self.refused(self.worker())
        self.assertRegex(text, rf"reserved by numoe-coordinator, process {first.process.pid}\), but the worker takes .*: weights ")
        self.assertRegex(text, r"--format=int8 or int4.*--worker-count=\d+ fits here \(now 1\)")
        self.assertRegex(self.preflight(), rf"^check .* reserved by numoe-coordinator, process {first.process.pid}\), but the worker takes .*, mailbox ")
        first.stop(signal.SIGKILL)
        self.assertRegex(self.preflight(), r"^ok .*, the worker takes ")
        self.start(self.worker(), "memory plan: ").stop(signal.SIGKILL)

    def test_a_coordinator_that_does_not_fit_beside_a_worker_is_refused(self):
        tokens = (1 - self.weights_share / 2) * self.tokens_of_all
        worker = self.start(self.worker(), "memory plan: ")
        worker.process.send_signal(signal.SIGSTOP)  # the sum of what it has allocated and what it has still to allocate stays the same
        for argv in (self.coordinator(tokens), [*self.coordinator(tokens), "--plan"]):
            self.assertIn(f"reserved by numoe-expert-worker, process {worker.process.pid})", self.refused(argv))
        worker.stop(signal.SIGKILL)
        self.start(self.coordinator(tokens), WAITS)
