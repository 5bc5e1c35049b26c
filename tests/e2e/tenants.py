"""Several API keys: no key can abort, flush, find or delay what belongs to another key, and an empty key in any spelling does not
open the port.
"""
import concurrent.futures
import json
import os
import subprocess
import tempfile
import unittest

from daemons import Cluster, metric, until, until_idle

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests/golden/data/tiny-chat")
TEXT = "/v1/completions"
BIN = ""
A, B, ADMIN = "first-key-0123456789", "second-key-0123456789", "admin-key-0123456789"
PROMPT = "the prefix of this prompt is long enough to fill several blocks of the cache. " * 2
LONG = {"prompt": "once upon a time", "temperature": 0, "max_tokens": 1900, "ignore_eos": True}


def bearer(key, **headers):
    return {"Authorization": "Bearer " + key, **headers}


def key_files(folder, keys=f"{A} name=team-a\n{B} name=team-b\n"):
    """Flags of a coordinator that accepts the three keys."""
    paths = [os.path.join(folder, name) for name in ("keys", "admins")]
    for path, text in zip(paths, (keys, ADMIN + "\n")):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
    return ["--api-key-file", paths[0], "--admin-api-key-file", paths[1]]


class Tenants(unittest.TestCase):
    """One cluster with three keys, in which two sequences run at once."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.cluster = Cluster(BIN, MODEL, coordinator_flags=[*key_files(cls.folder.name), "--max-num-seqs", "2"])
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)
        cls.folder.cleanup()

    def ask(self, key, path, body, expect=200, cluster=None, **headers):
        status, _, text = (cluster or self.cluster).request("POST", path, body, bearer(key, **headers), 300)
        self.assertEqual(status, expect, text)
        return json.loads(text)

    def cached(self, key, cluster=None):
        body = {"prompt": PROMPT, "temperature": 0, "max_tokens": 2}
        return self.ask(key, TEXT, body, cluster=cluster)["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_a_key_ends_its_own_requests_and_no_others(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            for who, command in ((A, {"rid": "victim"}), (A, {"abort_all": True}), (ADMIN, {"rid": "victim"}), (ADMIN, {"abort_all": True})):
                until_idle(self.cluster)
                running = pool.submit(self.ask, A, TEXT, LONG, **{"x-request-id": "victim"})
                until("it runs", lambda: running.done() or metric(self.cluster, "numoe_requests_running") == 1)
                for mischief in ({"rid": "victim"}, {"abort_all": True}):
                    self.assertEqual(self.ask(B, "/abort_request", mischief), {"aborted": 0})
                self.assertFalse(running.done())
                self.assertEqual(self.ask(who, "/abort_request", command), {"aborted": 1})
                self.assertEqual(running.result()["choices"][0]["finish_reason"], "abort")

    def test_prefixes_are_each_keys_own(self):
        self.ask(ADMIN, "/flush_cache", {})
        self.assertEqual(self.cached(A), 0)
        self.assertGreater(self.cached(A), 0)
        self.assertEqual(self.cached(B), 0, "what one has asked shortens another's prompt")
        self.assertGreater(self.cached(B), 0)
        self.ask(B, "/flush_cache", {})
        self.assertGreater(self.cached(A), 0, "one empties another's cache")
        self.assertEqual(self.cached(B), 0)
        self.ask(ADMIN, "/reset_prefix_cache", {})
        self.assertEqual(self.cached(A), 0)

    def test_shared_prefixes_are_found_by_all_and_emptied_by_an_admin_alone(self):
        with tempfile.TemporaryDirectory() as folder, \
                Cluster(BIN, MODEL, coordinator_flags=[*key_files(folder), "--share-prefix-cache"]) as cluster:
            self.assertEqual(self.cached(A, cluster), 0)
            self.assertGreater(self.cached(B, cluster), 0)
            self.assertIn("--admin-api-key-file", self.ask(B, "/flush_cache", {}, 403, cluster)["error"]["message"])
            self.assertGreater(self.cached(B, cluster), 0)
            self.ask(ADMIN, "/flush_cache", {}, cluster=cluster)
            self.assertEqual(self.cached(A, cluster), 0)

    def test_one_request_passes_forty_of_another_key_whatever_their_priority(self):
        body = {"prompt": "many", "temperature": 0, "max_tokens": 400, "ignore_eos": True, "priority": -2147483648}
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            many = [pool.submit(self.ask, A, TEXT, body) for _ in range(40)]
            until("some wait", lambda: metric(self.cluster, "numoe_requests_waiting") >= 30)
            before = sum(request.done() for request in many)
            self.ask(B, TEXT, {"prompt": "one", "temperature": 0, "max_tokens": 2, "priority": 2147483647})
            self.assertLessEqual(sum(request.done() for request in many) - before, 15)
            for request in many:
                self.assertEqual(request.result()["usage"]["completion_tokens"], 400)

    def test_metrics_have_names_and_no_keys(self):
        for key in (A, B):
            self.ask(key, TEXT, {"prompt": "x", "max_tokens": 1})
        for name in ("team-a", "team-b"):  # a client that asks often gets the text of the last tenth of a second again
            until(f"{name} is there",
                  lambda: f'numoe_tenant_tokens_total{{tenant="{name}"}}' in self.cluster.request("GET", "/metrics")[2])
        text = self.cluster.request("GET", "/metrics")[2]
        for key in (A, B, ADMIN):
            self.assertNotIn(key, text + self.cluster.coordinator.log())


class Keys(unittest.TestCase):
    def test_requests_that_compute_are_capped_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder, \
                Cluster(BIN, MODEL, coordinator_flags=[*key_files(folder), "--max-requests-per-key", "1"]) as cluster, \
                concurrent.futures.ThreadPoolExecutor(1) as pool:
            short = {"prompt": "x", "max_tokens": 1}
            ask = lambda method, path, body, key: cluster.request(method, path, body, bearer(key), 300)[0]
            running = pool.submit(ask, "POST", TEXT, LONG, A)
            until("it runs", lambda: running.done() or metric(cluster, "numoe_requests_running") == 1)
            self.assertEqual(ask("POST", TEXT, short, A), 429)
            self.assertEqual(ask("POST", TEXT, short, B), 200)
            for method, path, body in (("GET", "/health", None), ("GET", "/metrics", None), ("GET", "/v1/models", None),
                                       ("GET", "/health_generate", None), ("POST", "/tokenize", {"prompt": "x"})):
                self.assertEqual(ask(method, path, body, A), 200, path)
            self.assertFalse(running.done())
            self.assertEqual(ask("POST", "/abort_request", {"abort_all": True}, A), 200)
            self.assertEqual(running.result(), 200)

    def test_a_request_with_many_answers_takes_as_many_places(self):
        with tempfile.TemporaryDirectory() as folder, \
                Cluster(BIN, MODEL, coordinator_flags=[*key_files(folder), "--max-requests-per-key", "4"]) as cluster, \
                concurrent.futures.ThreadPoolExecutor(1) as pool:
            ask = lambda body, key: cluster.request("POST", TEXT, body, bearer(key), 300)[0]
            running = pool.submit(ask, {**LONG, "n": 3}, A)
            until("they run", lambda: running.done() or metric(cluster, "numoe_requests_running") == 3)
            self.assertEqual(ask({"prompt": "x", "max_tokens": 1, "n": 2}, A), 429)
            self.assertEqual(ask({"prompt": "x", "max_tokens": 1}, A), 200)
            self.assertEqual(ask({"prompt": "x", "max_tokens": 1, "n": 8}, B), 200, "more than may be, but alone")
            self.assertFalse(running.done())
            self.assertEqual(cluster.request("POST", "/abort_request", {"abort_all": True}, bearer(A))[0], 200)
            self.assertEqual(running.result(), 200)

    def test_an_emptied_file_revokes_all_keys_and_a_missing_one_none(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = os.path.join(folder, "keys")

            def write(text):
                with open(keys + ".new", "w", encoding="ascii") as f:
                    f.write(text)
                os.rename(keys + ".new", keys)
            write(A + "\n")
            with Cluster(BIN, MODEL, coordinator_flags=["--api-key-file", keys]) as cluster:
                status = lambda headers: cluster.request("GET", "/v1/models", headers=headers)[0]
                for scheme in ("Bearer", "bearer", "BEARER"):
                    self.assertEqual(status({"Authorization": f"{scheme} {A}"}), 200)
                write("")
                until("the key is revoked", lambda: status(bearer(A)) == 401)
                for nobody in ({}, {"x-api-key": ""}, {"Authorization": "Bearer "}):
                    self.assertEqual(status(nobody), 401)
                self.assertIn("no longer accepted", cluster.coordinator.log())
                write(A + "\n")
                until("the key is back", lambda: status(bearer(A)) == 200)
                os.remove(keys)

                def told():
                    self.assertEqual(status(bearer(A)), 200)
                    return "does not exist any more" in cluster.coordinator.log()
                until("the log says that the file has gone", told)
                self.assertEqual(status(bearer(A)), 200)

    def test_no_spelling_of_an_empty_key_opens_the_port(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {}
            for name, text in (("empty", ""), ("blank", " \t\n\n"), ("comment", "# first-key\n"), ("config", 'api-key = ""\n'),
                               ("config-file", 'api-key-file = ""\n')):
                files[name] = os.path.join(folder, name)
                with open(files[name], "w", encoding="ascii") as f:
                    f.write(text)
            cases = [(flags, {}) for flags in (
                ["--api-key", ""], ["--api-key="], ["--api-key", " "], ["--api-key", ","], ["--api-key-file", ""], ["--api-key-file="],
                ["--api-key", A, "--admin-api-key", ""], ["--api-key", A, "--admin-api-key-file", ""], ["--admin-api-key", A],
                ["--api-key-file", files["empty"]], ["--api-key-file", files["blank"]], ["--api-key-file", files["comment"]],
                ["--config", files["config"]], ["--config", files["config-file"]], ["--api-key=", "--log-format=json"],
                ["--api-key", ",", "--log-format=json"], ["--api-key-file=", "--log-format=json"])]
            cases += [([], {name: value, **other}) for name in ("NUMOE_API_KEY", "NUMOE_API_KEY_FILE") for value in ("", " ", ",")
                      for other in ({}, {"NUMOE_LOG_FORMAT": "json"}) if (name, value) != ("NUMOE_API_KEY_FILE", ",")]
            outside = {name: value for name, value in os.environ.items() if not name.startswith("NUMOE_")}
            for program in (["numoe-coordinator", "--model", MODEL, "--workers", f"unix:{folder}/nobody.sock"],
                            ["numoe-router", "--backends", "http://127.0.0.1:1"]):
                for flags, environment in cases:
                    with self.subTest(program=program[0], flags=flags, environment=environment):
                        done = subprocess.run([os.path.join(BIN, program[0]), *program[1:], "--port", "0", *flags], capture_output=True,
                                              text=True, timeout=30, env={**outside, **environment})
                        self.assertEqual(done.returncode, 2, done.stderr)
                        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                        self.assertIn("api-key", done.stderr)
                        self.assertNotIn(A, done.stderr)
