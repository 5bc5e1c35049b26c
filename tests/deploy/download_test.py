#!/usr/bin/env python3
"""Tests deploy/download/numoe-download with a server that fails as servers of 600 GB do: it stalls, cuts connections, sends
wrong bytes, redirects to other hosts, and asks clients to wait. Usage: download_test.py [TEST...]
"""
import collections
import hashlib
import http.server
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROGRAM = os.path.join(ROOT, "deploy/download/numoe-download")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secretsecret"
REPO = "org/model"


def random_bytes(size, seed):
    return hashlib.shake_256(seed.encode()).digest(size)


FILES = {"config.json": b'{"a": 1}\n', "model-00001-of-00002.safetensors": random_bytes(700_000, "one"),
         "model-00002-of-00002.safetensors": random_bytes(300_000, "two"), "sub folder/empty.txt": b"",
         "tokenizer.json": random_bytes(40_000, "tokens")}
LARGE = "model-00001-of-00002.safetensors"


class Handler(http.server.BaseHTTPRequestHandler):
    """Handles one request. The faults are taken from the server's `trouble`, by path."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, value, headers=()):
        self.answer(200, json.dumps(value).encode(), headers)

    def do_HEAD(self):
        name = self.path[len("/plain/"):]
        self.send_response(200)
        self.send_header("Content-Length", str(len(FILES[urllib.parse.unquote(name)])))
        self.end_headers()

    def do_GET(self):
        hub = self.server.hub
        with hub.lock:
            hub.seen.append((self.server.name, self.path, dict(self.headers)))
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        path = urllib.parse.unquote(url.path)
        if hub.token_needed and self.server.name == "hub" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, b"{}")
        if path == f"/api/models/{REPO}/revision/main":
            return self.json({"sha": COMMIT})
        if path == f"/api/models/{REPO}/tree/{COMMIT}":
            return self.tree(query)
        if path == f"/api/v1/models/{REPO}/repo/files":
            return self.json({"Code": 200, "Data": {"Files": [{"Type": "tree", "Path": "sub folder"}] + [
                {"Type": "blob", "Path": name, "Size": len(data), "Sha256": hashlib.sha256(data).hexdigest()}
                for name, data in FILES.items()]}})
        if path == "/plain/SHA256SUMS":
            return self.answer(200, "".join(f"{hashlib.sha256(d).hexdigest()}  {n}\n" for n, d in FILES.items()).encode())
        for prefix in (f"/{REPO}/resolve/{COMMIT}/", "/plain/", "/cdn/"):
            if path.startswith(prefix):
                return self.file(path[len(prefix):])
        if path == f"/api/v1/models/{REPO}/repo" and query.get("Revision") == "v1":
            return self.file(query["FilePath"])
        return self.answer(404, b"nothing")

    def tree(self, query):
        """The list comes in pages of two entries; the real server's pages have a thousand."""
        hub = self.server.hub
        names = sorted([*FILES, *hub.extra])
        entries = []
        for name in names:
            data = FILES.get(name, b"x")
            entry = {"type": "file", "path": name, "size": len(data),
                     "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
            if name.endswith("safetensors"):
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
                entry["oid"] = "0" * 40
            entries.append(entry)
        first = int(query.get("cursor", 0))
        more = [] if first + 2 >= len(entries) else [
            ("Link", f'<{hub.next_page or hub.url}/api/models/{REPO}/tree/{COMMIT}?recursive=true&cursor={first + 2}>; rel="next"')]
        self.json([{"type": "directory", "path": "sub folder", "oid": "1" * 40}] * (first == 0) + entries[first:first + 2], more)

    def file(self, name):
        hub = self.server.hub
        data = FILES[name]
        with hub.lock:
            trouble = hub.trouble[name].popleft() if hub.trouble[name] else ""
        if trouble == "redirect":
            return self.answer(302, b"", [("Location", f"{hub.cdn_url}/cdn/{urllib.parse.quote(name)}")])
        if trouble == "busy":
            return self.answer(429, b"", [("Retry-After", "2")])
        if trouble == "broken":
            return self.answer(503)
        if trouble == "wrong":
            data = bytes(len(data))
        begin = 0
        asked = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and trouble != "no ranges":
            begin = int(asked[1])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        if trouble in ("cut", "stall"):
            self.wfile.write(data[begin:begin + 150_000])
            self.wfile.flush()
            if trouble == "stall":
                hub.release.wait(60)
            self.close_connection = True
            return None
        for at in range(begin, len(data), 20_000):
            self.wfile.write(data[at:at + 20_000])
            time.sleep(hub.slow)
        return None


class Hub:
    """Two servers: one that gets the requests, and one to which it redirects."""

    def __init__(self):
        self.lock, self.release = threading.Lock(), threading.Event()
        self.seen, self.trouble = [], collections.defaultdict(collections.deque)
        self.token_needed, self.slow, self.extra, self.next_page = False, 0, [], ""
        self.servers = [self.serve("hub"), self.serve("cdn")]
        self.url = f"http://127.0.0.1:{self.servers[0].server_port}"
        self.cdn_url = f"http://localhost:{self.servers[1].server_port}"

    def serve(self, name):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads, server.hub, server.name = True, self, name
        server.handle_error = lambda *_: None  # clients that disconnect are part of these tests
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def close(self):
        self.release.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def requests(self, name):
        return [seen for seen in self.seen if name in urllib.parse.unquote(seen[1])]


class Download(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.folder = tempfile.TemporaryDirectory()
        self.to = os.path.join(self.folder.name, "model")

    def tearDown(self):
        self.hub.close()
        self.folder.cleanup()

    def argv(self, *extra, revision=COMMIT):
        return [PROGRAM, "--endpoint", self.hub.url, "--repo", REPO, "--revision", revision, "--to", self.to,
                "--stall-seconds", "1", *extra]

    def run_program(self, *extra, expect=0, revision=COMMIT, environment=None, argv=None):
        done = subprocess.run(argv or self.argv(*extra, revision=revision), capture_output=True, text=True, timeout=120,
                              env={"PATH": os.environ["PATH"], **(environment or {})})
        self.assertEqual(done.returncode, expect, done.stderr)
        self.assertNotIn(TOKEN, done.stderr + done.stdout)
        return done.stderr

    def check_files(self, names=tuple(FILES)):
        for name in names:
            with open(os.path.join(self.to, name), "rb") as f:
                self.assertEqual(f.read(), FILES[name], name)
        with open(os.path.join(self.to, "READY"), encoding="ascii") as f:
            self.assertRegex(f.read(), r"^sha256:[0-9a-f]{64}\n")
        self.assertFalse(os.path.exists(os.path.join(self.to, ".download/parts")))

    def test_a_second_run_asks_nobody(self):
        self.run_program()
        self.check_files()
        requests = len(self.hub.seen)
        self.assertIn("is ready: 5 files", self.run_program())
        self.assertEqual(len(self.hub.seen), requests)

    def test_a_changed_size_is_repaired_and_only_that(self):
        self.run_program()
        os.truncate(os.path.join(self.to, LARGE), 10)
        self.hub.seen.clear()
        self.assertIn("is not as it was", self.run_program())
        self.check_files()
        self.assertEqual([p for _, p, _ in self.hub.seen if "/resolve/" in p and LARGE not in p], [])

    def test_a_branch_is_resolved_to_its_commit(self):
        self.assertIn(f"main of {REPO} is commit {COMMIT}", self.run_program(revision="main"))
        self.check_files()

    def test_the_mirror_of_the_environment_is_asked_unless_a_flag_names_another(self):
        plain = [PROGRAM, "--repo", REPO, "--revision", COMMIT, "--to", self.to]
        self.run_program(argv=plain, environment={"HF_ENDPOINT": self.hub.url})
        self.check_files()
        other = [*plain[:-1], self.to + "2", "--endpoint", self.hub.url]
        self.run_program(argv=other, environment={"HF_ENDPOINT": "http://127.0.0.1:9"})

    def test_modelscope(self):
        self.run_program("--source=modelscope", revision="v1")
        self.check_files()

    def test_a_mirror_with_sums(self):
        self.run_program(argv=[PROGRAM, "--url", self.hub.url + "/plain", "--to", self.to])
        self.check_files()

    def test_patterns_choose_files(self):
        self.run_program("--include", "*.json", "--include", "*-00002-of-*")
        self.check_files(("config.json", "tokenizer.json", "model-00002-of-00002.safetensors"))
        self.assertFalse(os.path.exists(os.path.join(self.to, LARGE)))
        self.run_program()  # another request was made, so READY of the former one does not count
        self.check_files()
        self.run_program("--include", "config.json")
        self.assertEqual(sorted(n for n in os.listdir(self.to) if os.path.isfile(os.path.join(self.to, n))), ["READY", "config.json"])

    def test_a_cut_connection_goes_on_where_it_was(self):
        self.hub.trouble[LARGE].extend(["cut"] * 3)
        self.run_program()
        self.check_files()
        ranges = [headers.get("Range") for _, _, headers in self.hub.requests(LARGE)]
        self.assertEqual(ranges, [None, "bytes=150000-", "bytes=300000-", "bytes=450000-"])

    def test_a_stall_is_noticed(self):
        self.hub.trouble[LARGE].append("stall")
        began = time.monotonic()
        self.assertIn("continuing at byte 150000", self.run_program())
        self.assertLess(time.monotonic() - began, 50, "the server held it for 60 s")
        self.check_files()

    def test_a_server_without_ranges_is_asked_for_the_whole(self):
        self.hub.trouble[LARGE].extend(["cut", "no ranges"])
        self.run_program()
        self.check_files()

    def test_wrong_bytes_are_fetched_again_and_never_named(self):
        self.hub.trouble[LARGE].append("wrong")
        self.assertIn(f"{LARGE}: wrong checksum", self.run_program())
        self.check_files()

    def test_bytes_that_stay_wrong_are_an_error(self):
        for name in ("config.json", LARGE):  # the checksum of a git object, and a sha256
            with self.subTest(name=name):
                subprocess.run(["rm", "-rf", self.to], check=True)
                self.hub.trouble[name].extend(["wrong"] * 3)
                self.assertIn(f"{name}: found the checksum", self.run_program(expect=2))
                self.assertFalse(os.path.exists(os.path.join(self.to, name)))
                self.assertFalse(os.path.exists(os.path.join(self.to, "READY")))

    def test_retry_after_is_waited_for(self):
        self.hub.trouble["config.json"].append("busy")
        began = time.monotonic()
        self.run_program()
        self.assertGreaterEqual(time.monotonic() - began, 2)
        self.check_files()

    def test_a_server_that_never_answers_well_is_given_up(self):
        self.hub.trouble[LARGE].extend(["broken"] * 9)
        self.assertIn(f"{LARGE}: ", self.run_program("--tries", "2", expect=3))
        self.hub.trouble.clear()
        self.run_program()
        self.check_files()

    def test_the_token_goes_to_the_endpoint_alone(self):
        self.hub.token_needed = True
        token_file = os.path.join(self.folder.name, "token")
        with open(token_file, "w", encoding="ascii") as f:
            f.write(TOKEN + "\n")
        for how in ({"HF_TOKEN": TOKEN}, None):
            with self.subTest(how=how):
                self.hub.seen.clear()
                subprocess.run(["rm", "-rf", self.to], check=True)
                for name in FILES:
                    self.hub.trouble[name].append("redirect")
                self.run_program(*(() if how else ("--token-file", token_file)), environment=how)
                self.check_files()
                redirected = [headers for server, _, headers in self.hub.seen if server == "cdn"]
                self.assertGreaterEqual(len(redirected), 4)
                for headers in redirected:
                    self.assertNotIn("Authorization", headers)

    def test_the_token_is_in_no_argument_and_no_environment_of_a_child(self):
        self.hub.trouble[LARGE].append("stall")
        running = subprocess.Popen([a if a != "1" else "30" for a in self.argv()], stderr=subprocess.PIPE, text=True,
                                   env={"PATH": os.environ["PATH"], "HF_TOKEN": TOKEN}, start_new_session=True)
        try:
            while not self.hub.requests(LARGE):
                time.sleep(0.02)
            found = 0
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if os.getsid(int(pid)) != running.pid or int(pid) == running.pid:
                        continue
                    with open(f"/proc/{pid}/cmdline", "rb") as cmdline, open(f"/proc/{pid}/environ", "rb") as environ:
                        command, variables = cmdline.read(), environ.read()
                except (OSError, ProcessLookupError):
                    continue
                self.assertNotIn(TOKEN.encode(), command)
                if command.startswith(b"curl"):
                    found += 1
                    self.assertNotIn(TOKEN.encode(), variables)
            self.assertGreater(found, 0)
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()

    def test_without_a_token_it_says_what_is_needed(self):
        self.hub.token_needed = True
        said = self.run_program(expect=2)
        self.assertEqual(len(said.strip().splitlines()), 1, said)
        self.assertIn("--token-file", said)

    def test_pages_of_another_host_are_refused(self):
        self.hub.next_page = self.hub.cdn_url
        self.assertIn("sends to another host", self.run_program(expect=2))

    def test_names_that_leave_the_folder_are_refused(self):
        for name in ("../evil", "/etc/evil", "a/../../evil", "READY", ".download/manifest", "a\nb", "a//b"):
            with self.subTest(name=name):
                self.hub.extra = [name]
                self.assertIn("not safe to write", self.run_program(expect=2))

    def test_what_is_wrong_is_one_line(self):
        for extra, words in ((["--parallel", "0"], "expected a whole number"), (["--what"], "--what"), (["--to"], "without a value"),
                             (["--repo", "nothing"], "ORG/NAME"), (["--source", "ftp"], "--source=ftp"),
                             (["--repo", "org/other"], "are --repo and --revision right?"),
                             (["--token-file", "/nonexistent"], "/nonexistent"), (["--to", "/proc/x"], "--to=/proc/x")):
            with self.subTest(extra=extra):
                said = self.run_program(*extra, expect=2)
                self.assertEqual(len(said.strip().splitlines()), 1, said)
                self.assertIn(words, said)

    def test_too_little_space_is_said_before_anything_is_fetched(self):
        FILES["huge"] = b"x"
        try:
            real = len
            hub = self.hub

            def tree(handler, query):
                data = json.dumps([{"type": "file", "path": "huge.safetensors", "size": 1, "oid": "0" * 40,
                                    "lfs": {"oid": "0" * 64, "size": 10 ** 15 - 1}}]).encode()
                handler.answer(200, data)
                return real(query)
            original, Handler.tree = Handler.tree, tree
            said = self.run_program(expect=2)
            Handler.tree = original
            self.assertIn("GiB are free", said)
            self.assertEqual(hub.requests("huge.safetensors"), [])
        finally:
            del FILES["huge"]

    def test_sigterm_keeps_what_is_there(self):
        self.hub.slow = 0.1
        running = subprocess.Popen(self.argv("--progress-seconds", "1"), stderr=subprocess.PIPE, text=True)
        seen = []
        for line in running.stderr:
            seen.append(line)
            if "MB/s" in line:
                break
        self.assertRegex(seen[-1], r"numoe-download: 0\.00 of 0\.00 GiB \(\d+ %\), \d+\.\d MB/s, (\d+:\d\d:\d\d left|stalled)")
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=10)
        self.assertEqual(running.returncode, 143)
        self.hub.seen.clear()
        self.hub.slow = 0
        for _ in range(50):  # a process that was ended releases the folder a moment later
            done = subprocess.run(self.argv(), capture_output=True, text=True, timeout=60)
            if done.returncode != 3:
                break
            time.sleep(0.1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_files()
        self.assertTrue(any("Range" in headers for _, _, headers in self.hub.requests(LARGE)))

    def test_two_runs_do_not_meet(self):
        self.hub.slow = 0.1
        first = subprocess.Popen(self.argv(), stderr=subprocess.DEVNULL)
        while not self.hub.requests(LARGE):
            time.sleep(0.02)
        self.assertIn("another download", self.run_program(expect=3))
        self.assertEqual(first.wait(60), 0)
        self.check_files()

    def test_memory_is_constant(self):
        # The peak memory of each program does not depend on the size of a file.
        usage = "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); " \
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
        FILES["big.safetensors"] = random_bytes(80_000_000, "big")
        try:
            done = subprocess.run(["python3", "-c", usage, *self.argv()], capture_output=True, text=True, timeout=120)
        finally:
            del FILES["big.safetensors"]
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(int(done.stdout.split()[-1]), 40_000, "KiB")


if __name__ == "__main__":
    unittest.main()
