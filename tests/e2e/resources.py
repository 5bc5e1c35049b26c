"""What clients and files may cost the daemons in memory, connections and time, and that the daemons release it again."""
import concurrent.futures
import ctypes
import json
import os
import resource
import shutil
import socket
import subprocess
import tempfile
import unittest

from daemons import Cluster, Daemon, free_port, metric, until, until_idle

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests/golden/data/tiny-chat")
TRAINED = os.path.join(ROOT, "deploy/models/nano")
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
TOO_LONG = (r"^This model's maximum context length is \d+ tokens\. However, you requested \d+ tokens \(\d+ in the (prompt|messages), \d+ in the "
            r"completion\)\. Please reduce the length of the (prompt|messages) or completion\.")
BIN = ""
ENDLESS = {"prompt": "Count.", "max_tokens": 3500, "ignore_eos": True}  # seconds that it takes even on an idle machine
# The bombs take 328 MiB at their peak. 186 MiB of them remain if the server does not trim its memory, 48 MiB if it does (two cores).
MEMORY_KEPT_MAX = 112 << 20


def head(path, length, *headers):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *headers, "", ""]).encode()


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def all_of(connection):
    """Reads until the other end closes."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def resident_bytes(daemon):
    with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class ClientResources(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN, TRAINED, workers=1, coordinator_flags=["--max-connections", "8"])
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def setUp(self):
        until_idle(self.cluster)

    def running(self):
        return metric(self.cluster, "numoe_requests_running")

    def test_who_sent_a_byte_ahead_and_left_is_noticed(self):
        body = json.dumps(ENDLESS).encode()
        for ahead in (b"", b"G", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"):
            made = metric(self.cluster, "numoe_tokens_generated_total")
            with connect(self.cluster.port) as client:
                client.sendall(head(TEXT, len(body)) + body)
                until("it runs", lambda: self.running() == 1)
                client.sendall(ahead)
            until("its sequence ended", lambda: self.running() == 0)
            self.assertLess(metric(self.cluster, "numoe_tokens_generated_total") - made, ENDLESS["max_tokens"], ahead)

    def test_probes_are_answered_where_no_other_client_is_taken(self):
        """Silent connections are closed for others, so all of these wait for answers."""
        body = json.dumps({**ENDLESS, "stream": True}).encode()
        held = []
        try:
            for _ in range(8):  # one after the other, because a client whose request has not been read is closed for the next one
                held.append(connect(self.cluster.port))
                held[-1].sendall(head(TEXT, len(body)) + body)
                self.assertTrue(held[-1].recv(1))

            def refused():
                status, headers, text = self.cluster.request("POST", TEXT, {"prompt": "x", "max_tokens": 1})
                return status == 503 and headers["Retry-After"] == "1" and json.loads(text)["error"]["code"] == "overloaded"
            until("it is full", refused)
            for path in ("/health", "/live", "/metrics"):
                self.assertEqual(self.cluster.request("GET", path)[0], 200)
        finally:
            for client in held:
                client.close()
        until("there is room", lambda: self.cluster.request("POST", TEXT, {"prompt": "x", "max_tokens": 1})[0] == 200)

    def test_silent_connections_keep_nobody_out(self):
        held = [connect(self.cluster.port) for _ in range(8)]
        try:
            for _ in range(3):
                self.assertEqual(self.cluster.request("POST", TEXT, {"prompt": "x", "max_tokens": 1})[0], 200)
        finally:
            for client in held:
                client.close()

    def test_json_of_very_many_keys_and_large_commands_are_refused(self):
        keys = {"prompt": "x", "a": [{str(i): 0 for i in range(1000)}] * 201}
        self.assertIn("200000 keys", self.cluster.post(TEXT, keys, expect=400)["error"]["message"])
        for path in ("/abort_request", "/v1/responses/resp_x/cancel"):
            self.cluster.post(path, {"rid": "x" * (65 << 10)}, expect=413)

    def test_a_prompt_that_is_too_long_by_its_bytes_is_not_tokenised(self):
        text = "a b " * (7 << 20)
        for path, prompt in ((TEXT, {"prompt": text}), (CHAT, {"messages": [{"role": "user", "content": text}]}), ("/tokenize", {"prompt": text})):
            error = self.cluster.post(path, prompt, expect=400)["error"]
            self.assertRegex(error["message"], TOO_LONG)
            self.assertIn("not tokenised", error["message"])
            self.assertEqual(error["code"], "context_length_exceeded")
        # The limit counts what may be admitted.
        error = self.cluster.post(TEXT, {"prompt": "7 " * 5000}, expect=400)["error"]
        self.assertRegex(error["message"], TOO_LONG + "$")

    def test_memory_of_large_requests_comes_back(self):
        bomb = json.dumps({"messages": [[]] * 2_000_000}).encode()
        before = resident_bytes(self.cluster.coordinator)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: self.cluster.request("POST", CHAT, bomb, timeout=300)[0], range(6)))
        self.assertEqual(set(answers), {400})
        kept = lambda: resident_bytes(self.cluster.coordinator) - before
        until(lambda: f"memory came back, {kept() >> 20} MiB are kept", lambda: kept() < MEMORY_KEPT_MAX, seconds=120)

    def test_no_core_dump_is_allowed_and_proc_stays_readable(self):
        for daemon in [self.cluster.coordinator, *self.cluster.workers]:
            with open(f"/proc/{daemon.process.pid}/limits", encoding="ascii") as f:
                self.assertRegex(f.read(), r"Max core file size\s+1\s+1\s")
            self.assertTrue(os.readlink(f"/proc/{daemon.process.pid}/exe"))


class ForcedEnd(unittest.TestCase):
    def test_what_is_prepared_or_made_in_the_background_ends_with_the_daemon(self):
        """Prepared and background requests hold connections, which must end before the objects that serve them."""
        with Cluster(BIN, TRAINED, workers=1, coordinator_flags=["--drain-timeout-ms", "1"]) as cluster:
            slow = {"input": "a b " * 2_000_000, "background": True}
            quick = {"input": "Count.", "background": True, "max_output_tokens": 3500, "ignore_eos": True}
            clients = []
            for i in range(24):
                body = json.dumps(slow if i % 2 else quick).encode()
                clients.append(connect(cluster.port))
                clients[-1].sendall(head("/v1/responses", len(body)) + body)
            until("some run", lambda: metric(cluster, "numoe_requests_running") >= 1)
            self.assertEqual(cluster.coordinator.stop(), 0, cluster.coordinator.log()[-2000:])
            for client in clients:
                client.close()


class UntrustedClients(unittest.TestCase):
    def test_nobodys_body_is_read(self):
        """Each of these requests would hold its 31 MiB until it is complete."""
        with Cluster(BIN, MODEL, workers=1, coordinator_flags=["--api-key", "secret"]) as cluster:
            for extra in ([], ["Expect: 100-continue"], ["x-api-key: wrong"]):
                with connect(cluster.port) as client:
                    client.sendall(head(CHAT, 31 << 20, *extra))
                    self.assertTrue(all_of(client).startswith("HTTP/1.1 401 "), extra)

    def test_a_refusal_of_the_template_does_not_name_its_place(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "tiny-chat")
            shutil.copytree(MODEL, model)
            with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as f:
                f.write("{{ raise_exception('not today') }}")
            with Cluster(BIN, model, workers=1) as cluster:
                error = cluster.post(CHAT, {"messages": [{"role": "user", "content": "hi"}]}, expect=400)["error"]
                self.assertIn("not today", error["message"])
                self.assertNotIn(folder, json.dumps(error))


class MetricsPort(unittest.TestCase):
    def test_a_scrape_gets_through_while_others_hold_half_a_head(self):
        folder = tempfile.mkdtemp(prefix="numoe-e2e.")
        port = free_port()
        worker = Daemon("worker", [os.path.join(BIN, "numoe-expert-worker"), "--model", MODEL, "--listen", f"unix:{folder}/w.sock",
                                   "--metrics-port", str(port)], folder)

        def scrape():
            try:
                with connect(port) as client:
                    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                    return all_of(client)
            except ConnectionError:
                return ""
        try:
            worker.start()
            until("it serves", lambda: "numoe_weights_bytes" in scrape())
            slow = [connect(port) for _ in range(40)]
            for client in slow:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-")
            for _ in range(3):
                self.assertIn("numoe_weights_bytes", scrape())
            for client in slow:
                client.close()
        finally:
            worker.process.kill()
            worker.process.wait()
            shutil.rmtree(folder)


class CoreDumps(unittest.TestCase):
    def test_what_could_not_be_forbidden_is_said_in_the_logs_format(self):
        """Runs it with a hard limit of 0, which only a privileged process may raise to the daemons' limit of 1 byte."""
        libc = ctypes.CDLL(None)
        drop, sys_resource = 24, 24  # the constants PR_CAPBSET_DROP and CAP_SYS_RESOURCE

        def without_privilege():
            libc.prctl(drop, sys_resource, 0, 0, 0)  # this is refused if the process has no such capability
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with tempfile.TemporaryDirectory() as folder:
            nowhere, empty = os.path.join(folder, "nowhere"), os.path.join(folder, "empty")
            os.mkdir(empty)
            for program, *flags in (
                    ("numoe-expert-worker", "--model", empty, "--listen", f"unix:{folder}/w.sock", "--metrics-port", "0"),
                    ("numoe-coordinator", "--model", empty, "--workers", f"unix:{folder}/w.sock", "--host", "127.0.0.1", "--port", "0"),
                    ("numoe-router", "--backends", "http://127.0.0.1:1", "--host", "127.0.0.1", "--port", "0", "--port-file", f"{nowhere}/port")):
                done = subprocess.run([os.path.join(BIN, program), *flags, "--log-format", "json"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, timeout=60, check=False, preexec_fn=without_privilege)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn("core dumps: the limit cannot be set", json.loads(done.stdout.splitlines()[0])["message"], program)


class OddFiles(unittest.TestCase):
    def refused(self, *argv):
        done = subprocess.run([*argv], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr.strip().splitlines()[-1]

    def test_a_fifo_in_a_files_place_is_refused_at_once(self):
        """Opening a named pipe waits for a process that writes to it."""
        for name in ("config.json", "model.safetensors", "tiktoken.model", "tokenizer_config.json", "chat_template.jinja", "weights.gguf"):
            with tempfile.TemporaryDirectory() as folder:
                model = os.path.join(folder, "model")
                shutil.copytree(MODEL, model)
                path = os.path.join(model, name)
                if os.path.exists(path):
                    os.unlink(path)
                else:
                    model = path
                os.mkfifo(path)
                daemons = [["numoe-coordinator", "--workers", f"unix:{folder}/w.sock", "--host", "127.0.0.1", "--port", "0"]]
                if name in ("config.json", "model.safetensors", "weights.gguf"):
                    daemons.append(["numoe-expert-worker", "--listen", f"unix:{folder}/w.sock", "--metrics-port", "0"])
                for program, *flags in daemons:
                    line = self.refused(os.path.join(BIN, program), "--model", model, *flags)
                    self.assertIn(f"{path}: is a FIFO", line)

    def test_a_port_file_that_cannot_be_written_is_found_before_the_load(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "taken"))
            for place in ("nowhere/port", "taken"):
                path = os.path.join(folder, place)
                # There is no worker for which it could wait.
                line = self.refused(os.path.join(BIN, "numoe-coordinator"), "--model", MODEL, "--workers", f"unix:{folder}/w.sock", "--host",
                                    "127.0.0.1", "--port", "0", "--worker-start-timeout-ms", "0", "--port-file", path)
                self.assertIn(f"--port-file: cannot write {path}", line)
                line = self.refused(os.path.join(BIN, "numoe-router"), "--backends", "http://127.0.0.1:1", "--host", "127.0.0.1", "--port", "0",
                                    "--port-file", path)
                self.assertIn(f"--port-file: cannot write {path}", line)
            self.assertEqual(sorted(os.listdir(folder)), ["taken"])
