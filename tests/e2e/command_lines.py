"""Every program with wrong arguments: it prints one line on stderr that names the argument, and exits soon with code 2. And the
output of --version and --help of each.
"""
import os
import re
import socket
import subprocess
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests/golden/data/tiny-chat")
BIN = ""
WORKERS = ["--workers", "unix:/tmp/numoe-e2e-nobody.sock"]  # no test waits for these workers
NOBODY = "http://127.0.0.1:1"


def coordinator(*flags):
    return ["numoe-coordinator", "--model", MODEL, *WORKERS, *flags]


def worker(*flags):
    return ["numoe-expert-worker", "--model", MODEL, "--metrics-port", "0", *flags]


# (command line, words of its only line)
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
    (["numoe-coordinator", "--model", MODEL, "--workers", "127.0.0.1:1", "--worker-ssl-certfile", "/nonexistent", "--worker-ssl-keyfile", "x",
      "--worker-ssl-ca-certs", "x"], ["--worker-ssl-certfile=/nonexistent", "PEM"]),
    (coordinator("--worker-ssl-certfile", "x", "--worker-ssl-keyfile", "x", "--worker-ssl-ca-certs", "x"),
     ["--worker-ssl-certfile does nothing", "unix:PATH", "leave it out"]),
    (coordinator("--api-key-file", "/nonexistent"), ["--api-key-file", "/nonexistent"]),
    (coordinator("--max-total-tokens", "99999999999999999999"), ["--max-total-tokens"]),
    (coordinator("--max-total-tokens", "1000000000000"), ["--max-total-tokens", "expected"]),
    (coordinator("--max-total-tokens", "2147483648", "--log-level", "error"), ["--max-total-tokens="]),
    (coordinator("--threads", "-3"), ["--threads=-3"]),
    (coordinator("--live-deadline-ms", "0"), ["--live-deadline-ms=0", "expected more than 0"]),
    (coordinator("--api-key", "k1", "--admin-api-key", "k1"), ["--api-key and --admin-api-key: a key comes twice"]),
    (coordinator("--share-prefix-cache", "--disable-prefix-caching"), ["--share-prefix-cache with --disable-prefix-caching", "expected one"]),
    (coordinator("--device", "cpu", "--memory-reservations", "/"), ["--memory-reservations: /", "name a folder that is used for nothing else"]),
    (coordinator("--isa", "neon"), ["neon", "avx512"]),
    (coordinator("--max-num-seqs", "64", "--max-num-batched-tokens", "8"), ["--max-num-batched-tokens=8"]),
    (coordinator("--max-deferred-experts-per-token", "4"), ["--max-deferred-experts-per-token=4", "4 experts per token", "0 to 3"]),
    (coordinator("--max-deferred-experts-per-token", "-1"), ["--max-deferred-experts-per-token=-1"]),
    (coordinator("--max-deferred-experts-per-token", "1", "--deterministic", "--max-num-batched-tokens", "5000"),
     ["--max-num-batched-tokens=5000", "--max-deferred-experts-per-token=1", "4096"]),
    (coordinator("--two-batch-overlap", "on"), ["--two-batch-overlap", "\"on\"", "auto, off or a number of tokens, 2 or more"]),
    (coordinator("--two-batch-overlap", "1"), ["--two-batch-overlap", "2 or more"]),
    (coordinator("--config", "/nonexistent"), ["--config=/nonexistent"]),
    (coordinator("--otlp-endpoint", "ftp://x"), ["--otlp-endpoint", "ftp://x"]),
    (coordinator("--device", "cpu", "--memory-reservations", "/proc/nonexistent"), ["--memory-reservations: /proc/nonexistent", "can create a folder"]),
    (coordinator("--device", "cpu", "--log-level", "error", "--chat-template", "/nonexistent"), ["--chat-template: /nonexistent"]),
    (coordinator("--device", "cpu", "--log-level", "error", "--chat-template", os.path.join(ROOT, "tests/e2e/broken.jinja")),
     ["--chat-template", "broken.jinja", "line 2"]),
    (coordinator("--trace-ratio", "2"), ["--trace-ratio=2", "0 to 1"]),
    (coordinator("--trace-ratio", "0.5"), ["--trace-ratio does nothing without --otlp-endpoint", "leave the flag out"]),
    (coordinator("--max-requests-per-key", "3"), ["--max-requests-per-key does nothing without API keys", "--api-key-file"]),
    (coordinator("--share-prefix-cache"), ["--share-prefix-cache does nothing without API keys"]),
    (coordinator("--expert-heat-file", "/x"), ["--expert-heat-file does nothing with --num-gpu-experts=0"]),
    (coordinator("--deterministic", "--decode-stretch-max", "1"), ["--decode-stretch-max does nothing with --deterministic"]),
    (coordinator("--two-batch-overlap", "9999"), ["--two-batch-overlap=9999", "at most --max-num-batched-tokens=2048"]),
    (coordinator("--log-level", "loud"), ["--log-level=loud", "warning"]),
    (coordinator("-m", "x"), ["unknown flag -m: --model"]),
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
    (worker("--worker-per", "package"), ["--worker-per does nothing without --supervise", "leave the flag out"]),
    (worker("--hung-after-ms", "5000"), ["--hung-after-ms does nothing without --supervise"]),
    (worker("--supervise", "--cpuinfer", "64"), ["--cpuinfer with --supervise", "--threads"]),
    (worker("--port", "7070"), ["unknown flag --port: --listen sets the address"]),
    (["numoe-expert-worker", "--probe", "unix:/x", "--ssl-certfile", "x"], ["--ssl-certfile does nothing with --probe"]),
    (worker("--hung-after-ms", "0"), ["--hung-after-ms=0", "expected more than 0"]),
    (worker("--load-stalled-after-ms", "-1"), ["--load-stalled-after-ms=-1"]),
    (worker("--memory-reservations", "/proc/nonexistent"), ["--memory-reservations: /proc/nonexistent", "can create a folder"]),
    (worker("--memory-reservations", ""), ["--memory-reservations: found no value", "auto or a folder"]),
    (worker("--pinning", "strict"), ["--pinning=strict", "required"]),
    (worker("--ssl-certfile", "x", "--ssl-keyfile", "x"), ["--ssl-certfile, --ssl-keyfile without --ssl-ca-certs"]),
    (worker("--ssl-certfile", "/nonexistent", "--ssl-keyfile", "x", "--ssl-ca-certs", "x"), ["--ssl-certfile=/nonexistent", "PEM"]),
    (worker("--listen", "unix:/tmp/w.sock", "--ssl-certfile", "x", "--ssl-keyfile", "x", "--ssl-ca-certs", "x"), ["--listen=unix:/tmp/w.sock", "does not use TLS"]),
    (worker("--health-listen", "nonsense"), ["--health-listen=nonsense", "HOST:PORT"]),
    (["numoe-router"], ["--backends is required"]),
    (["numoe-router", "--backend", "http://a"], ["--backend", "did you mean --backends?"]),
    (["numoe-router", "--backends", "ftp://a"], ["--backends", "ftp://a"]),
    (["numoe-router", "--backends", "http://a:8000,a:8000"], ["--backends", "http://a:8000 comes twice"]),
    (["numoe-router", "--backends", "http://a:0"], ["--backends", "http://a:0"]),
    (["numoe-router", "--backends", NOBODY, "--port", "70000"], ["--port=70000"]),
    (["numoe-router", "--backends", NOBODY, "--dns-refresh-ms", "5"], ["--dns-refresh-ms does nothing", "dns+http://HOST:PORT"]),
    (["numoe-router", "--backends", NOBODY, "--max-requests-per-key", "5"], ["--max-requests-per-key does nothing without API keys"]),
    (["numoe-router", "--backends", NOBODY, "--ssl-keyfile", "/etc/hostname"], ["--ssl-keyfile", "without --ssl-certfile"]),
    (["numoe-router", "--backends", NOBODY, "--api-key-file", "/nonexistent"], ["--api-key-file", "/nonexistent"]),
    (["numoe-chat", "--modle", "x", "hello"], ["--modle"]),
    (["numoe-chat", "--url", NOBODY, "hello"], [NOBODY, "--url"]),
    (["numoe-chat", "--base-url", NOBODY, "hello"], [NOBODY, "--url"]),
    (["numoe-chat", "--url", "ftp://x", "hello"], ["ftp://x"]),
    (["numoe-chat", "--tools", "/nonexistent", "hello"], ["/nonexistent"]),
    (["numoe-chat", "--set", "temperature", "hello"], ["--set", "NAME=VALUE"]),
    (["numoe-bench"], ["a command is missing", "serve"]),
    (["numoe-bench", "sevre"], ["sevre", "did you mean serve?"]),
    (["numoe-bench", "serve", "--num-promts", "3"], ["--num-promts", "--num-prompts"]),
    (["numoe-bench", "serve", "--base-url", NOBODY], [NOBODY, "--base-url"]),
    (["numoe-bench", "serve", "--url", NOBODY], [NOBODY, "--base-url"]),
    (["numoe-bench", "serve", "--dataset-name", "custom"], ["--dataset-path"]),
    (["numoe-bench", "serve", "--base-url", NOBODY, "--port", "1"], ["--port does nothing with --base-url"]),
    (["numoe-bench", "serve", "--sharegpt-output-len", "9"], ["--sharegpt-output-len does nothing with --dataset-name=random"]),
    (["numoe-bench", "serve", "--dataset-name", "custom", "--dataset-path", "/x", "--random-input-len", "9"], ["--random-input-len does nothing"]),
    (["numoe-bench", "serve", "--output-details"], ["--output-details does nothing without --output-file"]),
    (["numoe-bench", "serve", "--burstiness", "2"], ["--burstiness does nothing without --request-rate"]),
    (["numoe-bench", "model", "--model", MODEL, "--context", "5"], ["--context=5", "at least --prefill=512"]),
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
    (["numoe-pack", "inspect", MODEL, "--verify"], ["--verify does nothing for a checkpoint"]),
    (["numoe-pack", "inspect", MODEL, "--threads", "2"], ["--threads does nothing for a checkpoint"]),
    (["numoe-pack", "convert", MODEL], ["--out is required"]),
    (["numoe-pack", "convert", MODEL, "--out", "/proc/nonexistent"], ["/proc/nonexistent", "--out"]),
    (["numoe-kernel-bench", "moo"], ["moo", "did you mean moe?"]),
    (["numoe-kernel-bench", "moe", "--shape", "k9"], ["--shape=k9"]),
    (["numoe-kernel-bench", "moe", "--shape", "tiny", "--threads", "-2"], ["--threads=-2"]),
    (["numoe-kernel-bench", "load", "--model", "/nonexistent"], ["/nonexistent"]),
    (["numoe-kernel-bench", "load", "--model", MODEL, "--packed", "copy"], ["--packed does nothing for a checkpoint"]),
    (["numoe-kernel-bench", "transport", "--threads", "2"], ["unknown flag --threads"]),
    (["numoe-grammar-bench", "--model", "/nonexistent"], ["/nonexistent"]),
    (["numoe-grammar-bench", "--model", MODEL, "--compiles", "0"], ["--compiles=0"]),
    (["numoe-scheduler-bench", "--steps", "0"], ["--steps=0"]),
]


# numoe-gpu-bench is built only with CUDA.
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
            self.refused(worker("--listen", f"unix:{path}"), [path, "is not a socket"])
            self.assertTrue(os.path.exists(path))

    def test_sigterm_ends_a_coordinator_that_waits_for_its_workers(self):
        with subprocess.Popen([os.path.join(BIN, "numoe-coordinator"), *coordinator("--port", "0")[1:]],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as waiting:
            while "waiting for the workers" not in waiting.stdout.readline():
                self.assertIsNone(waiting.poll())
            waiting.terminate()
            self.assertEqual(waiting.wait(10), 128 + 15)
