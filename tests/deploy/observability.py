"""Metrics, alerts and dashboard against Debian's Prometheus, which scrapes real daemons under load."""
import concurrent.futures
import gzip
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

from client import TEXT
from containers import ROOT, await_true, free_port
from daemons import Cluster, Daemon

MODEL = os.path.join(ROOT, "deploy/models/nano")
ALERTS = os.path.join(ROOT, "helm/numoe/files/alerts.yaml")
DASHBOARD = os.path.join(ROOT, "helm/numoe/files/dashboards/numoe.json")
BIN = ""
LOAD_SECONDS = 8
RATE_WINDOW = "10s"  # replaces Grafana's $__rate_interval: the duration of the load, scraped every second
# Labels that the Prometheus operator adds with the chart's monitors: coordinators and workers have different jobs.
OPERATOR = {"namespace": "a", "release": "numoe", "pod": "numoe-0"}
# Values of the dashboard's variables: a choice of each, and All, which is the only one outside Kubernetes.
CHOICES = (OPERATOR, dict.fromkeys(OPERATOR, ".*"))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def queries():
    """-> [(panel, query)] of the dashboard, also of collapsed rows"""
    panels = json.loads(read(DASHBOARD))["panels"]
    panels += [inner for panel in panels for inner in panel.get("panels", [])]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]


def chosen(query, choice):
    """A query as Grafana sends it after a user has made this choice."""
    for name, value in choice.items():
        query = query.replace(f"${name}", value)
    return query.replace("$__rate_interval", RATE_WINDOW)


class Words(unittest.TestCase):
    """The tests that need no Prometheus."""

    def test_the_dashboard_is_what_its_source_says(self):
        made = subprocess.run([sys.executable, os.path.join(ROOT, "deploy/observability/dashboard.py")], capture_output=True, text=True, check=True)
        self.assertEqual(made.stdout, read(DASHBOARD), "deploy/observability/dashboard.py >helm/numoe/files/dashboards/numoe.json")

    def test_dashboard_and_alerts_name_metrics_that_exist(self):
        listed = set(re.findall(r"^\| `(numoe_\w+)`", read(os.path.join(ROOT, "deploy/metrics.md")), re.M))
        named = set(re.findall(r"\bnumoe_\w+", " ".join([q for _, q in queries()] + [read(ALERTS)])))
        unknown = {n for n in named if n not in listed and re.sub(r"_(bucket|sum|count)$", "", n) not in listed}
        self.assertEqual(unknown, set())
        shown = {re.sub(r"_(bucket|sum|count)$", "", n) for n in named} | named
        # The worker's /metrics have these by NUMA node, if the kernel knows it; endpoint pickers read the others.
        self.assertEqual(listed - shown, {"numoe_weights_node_ratio", "numoe_kv_cache_info", "numoe_lora_adapters_info"},
                         "metrics that no panel and no alert shows")

    def test_every_alert_has_what_an_operator_needs(self):
        rules = re.split(r"^      - alert: ", read(ALERTS), flags=re.M)[1:]
        self.assertGreater(len(rules), 10)
        tests = read(os.path.join(ROOT, "tests/deploy/alerts_test.yaml"))
        for rule in rules:
            name = rule.split("\n", 1)[0]
            for word in ("labels: {severity: ", "summary: ", "description: "):
                self.assertIn(word, rule, name)
            self.assertIn(f'alertname="{name}"', tests, "no unit test fires it")


@unittest.skipUnless(shutil.which("promtool"), "not installed: promtool")
class Rules(unittest.TestCase):
    def test_the_alerts_fire_when_they_should(self):
        subprocess.run(["promtool", "check", "rules", ALERTS], check=True, capture_output=True)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(read(os.path.join(ROOT, "tests/deploy/alerts_test.yaml")).replace("ALERTS_FILE", ALERTS))
            f.flush()
            done = subprocess.run(["promtool", "test", "rules", f.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Prometheus:
    def __init__(self, jobs, labels, folder):
        """jobs is {name: addresses}; labels are those that each series gets in addition."""
        self.port, self.folder = free_port(), folder
        os.makedirs(folder)
        with open(os.path.join(folder, "prometheus.yml"), "w", encoding="utf-8") as f:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [ALERTS],
                       "scrape_configs": [{"job_name": name, "static_configs": [{"targets": targets, "labels": labels}]}
                                          for name, targets in jobs.items()]}, f)
        with open(os.path.join(folder, "prometheus.log"), "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def up(self):
        try:
            targets = self.get("targets")["activeTargets"]
            return bool(targets) and all(t["health"] == "up" for t in targets)
        except (OSError, AssertionError):  # it answers 503 while it starts
            return False

    def close(self):
        self.process.kill()
        self.process.wait()


@unittest.skipUnless(shutil.which("promtool") and shutil.which("prometheus"), "not installed: prometheus")
class ScrapedDaemons(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="numoe-prometheus.")
        cls.addClassCleanup(shutil.rmtree, folder, True)
        cls.cluster = Cluster(BIN, MODEL).__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)
        port_file = os.path.join(folder, "router-port")
        cls.router = Daemon("router", [os.path.join(BIN, "numoe-router"), "--backends", f"http://127.0.0.1:{cls.cluster.port}",
                                       "--host", "127.0.0.1", "--port", "0", "--port-file", port_file], folder)
        cls.router.start()
        cls.addClassCleanup(cls.router.stop)
        await_true(lambda: os.path.exists(port_file), 30, "the router serves")
        cls.cluster.port_file = port_file  # the load is sent through the router
        cls.cluster.await_health("ready")
        ports = [cls.cluster.port, json.loads(cls.cluster.request("GET", "/health")[2])["backends"][0]["url"].rsplit(":", 1)[1]] + [int(re.findall(r"metrics on port (\d+)", w.log())[-1]) for w in cls.cluster.workers]
        cls.targets = [f"127.0.0.1:{port}" for port in ports]
        cls.prometheus = Prometheus({"numoe": cls.targets[1:2], "numoe-router": cls.targets[:1], "a/numoe": cls.targets[2:]},
                                    {**OPERATOR, "container": "c", "endpoint": "http"}, os.path.join(folder, "operator"))
        cls.plain = Prometheus({"servers": cls.targets}, {}, os.path.join(folder, "plain"))
        for prometheus in (cls.prometheus, cls.plain):
            cls.addClassCleanup(prometheus.close)
        for prometheus in (cls.prometheus, cls.plain):
            await_true(prometheus.up, 30, lambda of=prometheus: "targets are up\n" + read(of.folder + "/prometheus.log")[-2000:])
        end = time.monotonic() + LOAD_SECONDS
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: cls.load(i, end), range(8)))

    @classmethod
    def load(cls, client, end):
        number = 0
        while time.monotonic() < end:
            number += 1
            prompt = f"{'The same beginning for everybody, long enough to fill some blocks. ' * 3} {client} {number}"
            cls.cluster.post(TEXT, {"prompt": prompt, "max_tokens": 100, "ignore_eos": True})
            cls.cluster.post(TEXT, {"prompt": 7}, expect=400)

    def test_promtool_finds_no_fault_in_what_the_daemons_serve(self):
        for target in self.targets:
            with urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as reply:
                text = reply.read().decode()
            # The names of vLLM and SGLang contain a colon, which Prometheus recommends for recorded series only.
            own = "".join(line + "\n" for line in text.splitlines() if not re.search("vllm:|sglang:", line))
            done = subprocess.run(["promtool", "check", "metrics"], input=own, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), target)

    def test_prometheus_scrapes_openmetrics_and_every_series_by_both_names(self):
        """Prometheus asks for OpenMetrics by default; a target with an error in its text would be down."""
        for target in self.targets:
            request = urllib.request.Request(f"http://{target}/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0",
                                                                                  "Accept-Encoding": "gzip"})
            with urllib.request.urlopen(request, timeout=10) as reply:
                self.assertEqual(reply.headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
                self.assertEqual(reply.headers["Content-Encoding"], "gzip")
                self.assertTrue(gzip.decompress(reply.read()).endswith(b"\n# EOF\n"))
        reference = read(os.path.join(ROOT, "deploy/metrics.md"))
        aliases = re.findall(r"^\| `((?:vllm|sglang):\w+)` \| `(numoe_\w+)` ", reference, re.M)
        self.assertGreater(len(aliases), 40)
        for theirs, ours in aliases:
            with self.subTest(theirs):
                count = "_count" if f"`{ours}` | histogram" in reference else ""
                self.assertTrue(self.prometheus.get("query", query=f"sum({theirs}{count}) == sum({ours}{count})")["result"])
        running = [self.prometheus.get("query", query=name)["result"][0]["metric"] for name in ("vllm:num_requests_running", "sglang:num_running_reqs")]
        self.assertEqual([r["model_name"] for r in running], ["nano", "nano"])

    def test_every_query_of_the_dashboard_returns_data(self):
        asked = queries()
        self.assertGreater(len(asked), 40)
        for prometheus, choice in ((self.prometheus, CHOICES[0]), (self.prometheus, CHOICES[1]), (self.plain, CHOICES[1])):
            for panel, query in asked:
                with self.subTest(panel=panel, query=query, choice=choice):
                    numbers = [float(sample["value"][1]) for sample in prometheus.get("query", query=chosen(query, choice))["result"]]
                    self.assertTrue(numbers, "no series")
                    self.assertFalse(any(math.isnan(n) or math.isinf(n) for n in numbers), numbers)

    def test_what_a_coordinator_says_of_a_worker_finds_what_the_worker_says(self):
        joined = self.prometheus.get("query", query="numoe_worker_up * on (namespace, pod, worker) group_left (index, count) numoe_worker_info")["result"]
        self.assertEqual(sorted((r["metric"]["index"], r["metric"]["count"], r["value"][1]) for r in joined), [("0", "2", "1"), ("1", "2", "1")])

    def test_another_choice_shows_nothing_of_this_release(self):
        for name in OPERATOR:
            for panel, query in queries():
                if "vector(0)" not in query:
                    query = chosen(query, {**OPERATOR, name: "other"})
                    self.assertEqual(self.prometheus.get("query", query=query)["result"], [], (panel, query))

    def test_what_must_move_under_load_moves(self):
        values = {panel: [float(sample["value"][1]) for sample in self.prometheus.get(
            "query", query=chosen(query, OPERATOR))["result"]] for panel, query in queries()}
        for panel in ("Load of a worker", "Bandwidth of a worker", "Bandwidth of a NUMA node", "Bandwidth while computing", "Rows of a worker"):
            self.assertEqual(len(values[panel]), 2, panel)
            self.assertGreater(min(values[panel]), 0, panel)
        self.assertLessEqual(max(values["Load of a worker"]), 1.01)
        self.assertLess(0, values["Workers' share of a step"][0])
        self.assertLess(values["Workers' share of a step"][0], 1)
        for panel in ("Time between tokens", "HTTP answers", "Rows of a layer's hottest eighth", "Received from workers"):
            self.assertGreater(max(values[panel]), 0, panel)

    def test_the_alerts_are_evaluated_and_quiet(self):
        for prometheus in (self.prometheus, self.plain):
            await_true(lambda of=prometheus: all(rule["health"] != "unknown" for group in of.get("rules")["groups"] for rule in group["rules"]),
                       20, "every rule is evaluated")
            for group in prometheus.get("rules")["groups"]:
                for rule in group["rules"]:
                    self.assertEqual((rule["name"], rule["health"], rule["state"] == "firing"), (rule["name"], "ok", False), rule.get("lastError"))
