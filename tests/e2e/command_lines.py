"""Every program told something wrong: one line on stderr that names it, exit code 2, and soon. And what each of them says of
itself: --version and --help."""
import os
import re
import socket
import subprocess
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests/golden/data/tiny-chat")
BIN = ""
WORKERS = ["--workers", "unix:/tmp/numoe-e2e-nobody.sock"]  # who is never waited for in these
NOBODY = "http://127.0.0.1:1"


def coordinator(*flags):
    return ["numoe-coordinator", "--model", MODEL, *WORKERS, *flags]


def worker(*flags):
    return ["numoe-expert-worker", "--model", MODEL, "--metrics-port", "0", *flags]


# (command line, words that its one line has)
CASES = [
    (["numoe-coordinator", "--modle", "x"], ["--modle", "did you mean --model?"]),
    (["numoe-coordinator"], ["--model is required"]),
    (["numoe-coordinator", "--model", "/nonexistent", *WORKERS], ["/nonexistent"]),
    (["numoe-coordinator", "--model", "/proc", *WORKERS], ["/proc", "expected"]),
    (["numoe-coordinator", "--model", "", *WORKERS], ["--model is empty"]),
    (["numoe-coordinator", "--model", MODEL, "--workers", "nonsense"], ["--workers", "nonsense", "HOST:PORT"]),
    (coordinator("--no-such-flag"), ["--no-such-flag"]),
    (coordinator("stray"), ["stray"]),
    (coordinator("--port", "70000"), ["--port=70000", "65535"]),
    (coordinator("--host", "nohost"), ["--host=nohost"]),
    (coordinator("--tool-call-parser", "hermes"), ["<tool_call>"]),
    (coordinator("--lock-sampling", "temperature"), ["NAME=NUMBER", "temperature"]),
    (coordinator("--lock-sampling", "temperature="), ["NAME=NUMBER"]),
    (coordinator("--lock-sampling", "temperature=1..0.5"), ["temperature=1..0.5", "LOW..HIGH", "thinking:temperature=1.0"]),
    (coordinator("--lock-sampling", "tmperature=1"), ["tmperature", "top_p"]),
    (coordinator("--lock-sampling", "temperature=7"), ["temperature", "0 to 2"]),
    (coordinator("--ssl-certfile", "/etc/hostname"), ["--ssl-certfile", "without --ssl-keyfile"]),
    (coordinator("--ssl-keyfile", "/etc/hostname"), ["--ssl-keyfile", "without --ssl-certfile"]),
    (coordinator("--ssl-certfile", "/nonexistent", "--ssl-keyfile", "/nonexistent"), ["--ssl-certfile", "/nonexistent"]),
    (coordinator("--worker-ssl-keyfile", "x"), ["--worker-ssl-keyfile without --worker-ssl-certfile, --worker-ssl-ca-certs", "all three"]),
    (coordinator("--worker-ssl-certfile", "/nonexistent", "--worker-ssl-keyfile", "x", "--worker-ssl-ca-certs", "x"),
     ["--worker-ssl-certfile=/nonexistent", "PEM"]),
    (coordinator("--api-key-file", "/nonexistent"), ["--api-key-file", "/nonexistent"]),
    (coordinator("--max-total-tokens", "99999999999999999999"), ["--max-total-tokens"]),
    (coordinator("--max-total-tokens", "1000000000000"), ["--max-total-tokens", "expected"]),
    (coordinator("--max-total-tokens", "2147483648", "--log-level", "error"), ["--max-total-tokens="]),
    (coordinator("--threads", "-3"), ["--threads=-3"]),
    (coordinator("--live-deadline-ms", "0"), ["--live-deadline-ms=0", "expected more than 0"]),
    (coordinator("--api-key", "k1", "--admin-api-key", "k1"), ["--api-key and --admin-api-key: a key comes twice"]),
    (coordinator("--share-prefix-cache", "--disable-prefix-caching"), ["--share-prefix-cache with --disable-prefix-caching", "expected one"]),
    (coordinator("--device", "cpu", "--memory-reservations", "/"), ["--memory-reservations: /", "name a folder that has no other use"]),
    (coordinator("--isa", "neon"), ["neon", "avx512"]),
    (coordinator("--max-num-seqs", "64", "--max-num-batched-tokens", "8"), ["--max-num-batched-tokens=8"]),
    (coordinator("--max-deferred-experts-per-token", "4"), ["--max-deferred-experts-per-token=4", "4 experts per token", "0 to 3"]),
    (coordinator("--max-deferred-experts-per-token", "-1"), ["--max-deferred-experts-per-token=-1"]),
    (coordinator("--max-deferred-experts-per-token", "1", "--deterministic", "--max-num-batched-tokens", "5000"),
     ["--max-num-batched-tokens=5000", "--max-deferred-experts-per-token=1", "4096"]),
    (coordinator("--two-batch-overlap", "on"), ["--two-batch-overlap", "\"on\"", "auto, off or a number of tokens from 2 on"]),
    (coordinator("--two-batch-overlap", "1"), ["--two-batch-overlap", "from 2 on"]),
    (coordinator("--config", "/nonexistent"), ["--config=/nonexistent"]),
    (coordinator("--otlp-endpoint", "ftp://x"), ["--otlp-endpoint", "ftp://x"]),
    (coordinator("--device", "cpu", "--memory-reservations", "/proc/nonexistent"), ["--memory-reservations: /proc/nonexistent", "can write"]),
    (coordinator("--device", "cpu", "--log-level", "error", "--chat-template", "/nonexistent"), ["--chat-template: /nonexistent"]),
    (coordinator("--device", "cpu", "--log-level", "error", "--chat-template", os.path.join(ROOT, "tests/e2e/broken.jinja")),
     ["--chat-template", "broken.jinja", "line 2"]),
    (coordinator("--trace-ratio", "2"), ["--trace-ratio=2", "0 to 1"]),
    (coordinator("--gpu-prefill-token-threshold", "many"), ["--gpu-prefill-token-threshold", "many", "off"]),
    (coordinator("--gpu-prefill-token-threshold", "64", "--deterministic"), ["--deterministic"]),
    (coordinator("--gpu-prefill-token-threshold", "64", "--data-path", "grpc"), ["--data-path=grpc"]),
    (coordinator("--gpu-prefill-token-threshold", "64", "--device", "cpu", "--log-level", "error"),
     ["--gpu-prefill-token-threshold=64", "needs a GPU", "--device=cpu", "--device=cuda"]),
    (coordinator("--num-gpu-experts", "8", "--device", "cpu", "--log-level", "error"),
     ["--num-gpu-experts=8", "needs a GPU", "leave the flag out"]),
    (["numoe-expert-worker"], ["--model is required"]),
    (["numoe-expert-worker", "--modle", "x"], ["--modle"]),
    (["numoe-expert-worker", "--model", "/nonexistent", "--metrics-port", "0"], ["/nonexistent"]),
    (worker("--worker-index", "5", "--worker-count", "2"), ["--worker-index=5"]),
    (worker("--listen", "nonsense"), ["--listen=nonsense", "HOST:PORT"]),
    (worker("--listen", "unix:/nonexistent/w.sock"), ["/nonexistent"]),
    (worker("--format", "int3"), ["int3", "int8"]),
    (worker("--hugepages", "4M"), ["--hugepages=4M", "2M"]),
    (worker("--share-experts", "--no-shared-memory"), ["--share-experts", "--no-shared-memory"]),
    (worker("--shared-memory-group", "no-such-group"), ["--shared-memory-group=no-such-group", "expected a group's name or number"]),
    (coordinator("--shared-memory-group", "no-such-group"), ["--shared-memory-group=no-such-group", "expected a group's name or number"]),
    (worker("--numa-nodes", "777"), ["--numa-nodes=777"]),
    (worker("--local-workers", "2"), ["--local-workers=2", "--worker-count=1"]),
    (worker("--hung-after-ms", "0"), ["--hung-after-ms=0", "expected more than 0"]),
    (worker("--load-stalled-after-ms", "-1"), ["--load-stalled-after-ms=-1"]),
    (worker("--memory-reservations", "/proc/nonexistent"), ["--memory-reservations: /proc/nonexistent", "can write"]),
    (worker("--memory-reservations", ""), ["--memory-reservations: found no value", "auto or a folder"]),
    (worker("--pinning", "strict"), ["--pinning=strict", "required"]),
    (worker("--ssl-certfile", "x", "--ssl-keyfile", "x"), ["--ssl-certfile, --ssl-keyfile without --ssl-ca-certs"]),
    (worker("--ssl-certfile", "/nonexistent", "--ssl-keyfile", "x", "--ssl-ca-certs", "x"), ["--ssl-certfile=/nonexistent", "PEM"]),
    (worker("--listen", "unix:/tmp/w.sock", "--ssl-certfile", "x", "--ssl-keyfile", "x", "--ssl-ca-certs", "x"), ["--listen=unix:/tmp/w.sock", "plain text"]),
    (worker("--health-listen", "nonsense"), ["--health-listen=nonsense", "HOST:PORT"]),
    (["numoe-router"], ["--backends is required"]),
    (["numoe-router", "--backend", "http://a"], ["--backend", "did you mean --backends?"]),
    (["numoe-router", "--backends", "ftp://a"], ["--backends", "ftp://a"]),
    (["numoe-router", "--backends", "http://a:8000,a:8000"], ["--backends", "http://a:8000 comes twice"]),
    (["numoe-router", "--backends", "http://a:0"], ["--backends", "http://a:0"]),
    (["numoe-router", "--backends", NOBODY, "--port", "70000"], ["--port=70000"]),
    (["numoe-router", "--backends", NOBODY, "--ssl-keyfile", "/etc/hostname"], ["--ssl-keyfile", "without --ssl-certfile"]),
    (["numoe-router", "--backends", NOBODY, "--api-key-file", "/nonexistent"], ["--api-key-file", "/nonexistent"]),
    (["numoe-chat", "--modle", "x", "hello"], ["--modle"]),
    (["numoe-chat", "--url", NOBODY, "hello"], [NOBODY, "--url"]),
    (["numoe-chat", "--url", "ftp://x", "hello"], ["ftp://x"]),
    (["numoe-chat", "--tools", "/nonexistent", "hello"], ["/nonexistent"]),
    (["numoe-chat", "--set", "temperature", "hello"], ["--set", "NAME=VALUE"]),
    (["numoe-bench"], ["a command is missing", "serve"]),
    (["numoe-bench", "sevre"], ["sevre", "did you mean serve?"]),
    (["numoe-bench", "serve", "--num-promts", "3"], ["--num-promts", "--num-prompts"]),
    (["numoe-bench", "serve", "--base-url", NOBODY], [NOBODY, "--base-url"]),
    (["numoe-bench", "serve", "--dataset-name", "custom"], ["--dataset-path"]),
    (["numoe-bench", "serve", "--request-rate", "fast"], ["--request-rate", "fast"]),
    (["numoe-bench", "model"], ["--model is required"]),
    (["numoe-bench", "model", "--model", "/nonexistent"], ["/nonexistent"]),
    (["numoe-bench", "text", "--model", "/nonexistent"], ["/nonexistent"]),
    (["numoe-bench", "device", "--shape", "huge"], ["--shape=huge", "k2"]),
    (["numoe-perplexity", "--model", "/nonexistent", "--text", "/nonexistent"], ["/nonexistent"]),
    (["numoe-perplexity", "--model", MODEL, "--text", "/nonexistent"], ["/nonexistent"]),
    (["numoe-perplexity", "--model", MODEL, "--text", "/proc/version", "--max-deferred-experts-per-token", "-1"], ["--max-deferred-experts-per-token=-1"]),
    (["numoe-pack"], ["a command is missing", "inspect"]),
    (["numoe-pack", "inspect", "/nonexistent"], ["/nonexistent"]),
    (["numoe-pack", "inspect", "/proc"], ["/proc", "expected"]),
    (["numoe-pack", "inspect", MODEL, "--wokers", "2"], ["--wokers", "did you mean --workers?"]),
    (["numoe-pack", "convert", MODEL], ["--out is required"]),
    (["numoe-pack", "convert", MODEL, "--out", "/proc/nonexistent"], ["/proc/nonexistent", "--out"]),
    (["numoe-kernel-bench", "moo"], ["moo", "did you mean moe?"]),
    (["numoe-kernel-bench", "moe", "--shape", "k9"], ["--shape=k9"]),
    (["numoe-kernel-bench", "moe", "--shape", "tiny", "--threads", "-2"], ["--threads=-2"]),
    (["numoe-kernel-bench", "load", "--model", "/nonexistent"], ["/nonexistent"]),
    (["numoe-grammar-bench", "--model", "/nonexistent"], ["/nonexistent"]),
    (["numoe-grammar-bench", "--model", MODEL, "--compiles", "0"], ["--compiles=0"]),
    (["numoe-scheduler-bench", "--steps", "0"], ["--steps=0"]),
]


# numoe-gpu-bench is there only where CUDA is.
PROGRAMS = sorted({argv[0] for argv, _ in CASES} | {"numoe-gpu-bench"})


def run(argv):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMOE_")}
    return subprocess.run([os.path.join(BIN, argv[0]), *argv[1:]], capture_output=True, text=True, timeout=30,
                          stdin=subprocess.DEVNULL, env=environment)


class CommandLines(unittest.TestCase):
    def refused(self, argv, words):
        done = run(argv)
        self.assertEqual(done.returncode, 2, done.stderr)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith(argv[0]), lines[0])
        for word in words:
            self.assertIn(word, lines[0])

    def test_what_is_wrong_is_named_in_one_line(self):
        for argv, words in CASES:
            with self.subTest(argv=" ".join(argv)):
                self.refused(argv, words)

    def test_every_program_says_its_version(self):
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as f:
            version = re.search(r"project\(numoe VERSION ([0-9.]+)", f.read())[1]
        for program in PROGRAMS:
            if program == "numoe-gpu-bench" and not os.path.exists(os.path.join(BIN, program)):
                continue
            with self.subTest(program=program):
                done = run([program, "--version"])
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{program} {version}\n", ""))
                explained = run([program, "--help"])
                self.assertEqual((explained.returncode, explained.stderr), (0, ""))
                self.assertIn("--version", explained.stdout)

    def test_a_taken_port_is_named_before_anything_is_loaded(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.refused(coordinator("--host", "127.0.0.1", "--port", port), [f"--port={port}"])
            self.refused(worker("--listen", f"127.0.0.1:{port}"), [f"--listen=127.0.0.1:{port}"])
            self.refused(["numoe-expert-worker", "--model", MODEL, "--metrics-port", port,
                          "--listen", "127.0.0.1:0"], ["--metrics-port", port])

    def test_files_are_named_and_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "precious.toml")
            with open(path, "w", encoding="utf-8") as f:
                f.write('modle = "x"\n')
            self.refused(["numoe-coordinator", "--config", path], ["--config", "modle", "--model"])
            self.refused(worker("--listen", f"unix:{path}"), [path, "no socket"])
            self.assertTrue(os.path.exists(path))

    def test_sigterm_ends_a_coordinator_that_waits_for_its_workers(self):
        with subprocess.Popen([os.path.join(BIN, "numoe-coordinator"), *coordinator("--port", "0")[1:]],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as waiting:
            while "waiting for the workers" not in waiting.stdout.readline():
                self.assertIsNone(waiting.poll())
            waiting.terminate()
            self.assertEqual(waiting.wait(10), 128 + 15)
