"""Debian's Prometheus beside the node, with the alerts as the chart renders them.

It is built without Kubernetes. Its targets, the existing pods, come from a file that is written every second, with the labels
that the chart's monitors give: the coordinators of two hosts have one job, their workers another. Prometheus applies changes of its
targets every 5 s, so there are no samples before that, however short the interval.
"""
import json
import os
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import chart
import yaml
from ports import free_port

RULES = {"metrics": {"rules": {"enabled": True}}}


def is_scraped(port):
    return port["name"] == "http" or port["name"].startswith("metrics-")


class Prometheus:
    def __init__(self, node, namespace, *values):
        self.node, self.namespace = node, namespace
        self.port, self.ended = free_port(), threading.Event()
        self.folder = node.path(f"prometheus-{namespace}")
        os.makedirs(self.folder)
        objects = chart.render(*values, RULES, namespace=namespace)
        self.write("rules.yml", yaml.safe_dump(chart.find(objects, "PrometheusRule")["spec"]))
        self.write("prometheus.yml", json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}, "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "pods", "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "1s"}]}]}))
        self.write_targets()
        checked = subprocess.run(["promtool", "check", "config", f"{self.folder}/prometheus.yml"], capture_output=True, text=True, check=False)
        if checked.returncode != 0:
            raise AssertionError(f"the chart's rules: {checked.stdout}{checked.stderr}")
        self.process = node.run(f"prometheus-{namespace}", "prometheus", f"--config.file={self.folder}/prometheus.yml",
                                f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address=127.0.0.1:{self.port}")
        self.thread = threading.Thread(target=self.follow_pods, daemon=True)
        self.thread.start()

    def close(self):
        self.ended.set()
        self.thread.join()
        self.node.kill(self.process)

    def write(self, name, text):
        with open(f"{self.folder}/{name}.new", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(f"{self.folder}/{name}.new", f"{self.folder}/{name}")

    def write_targets(self):
        targets = []
        for pod in self.node.ask_api(f"api/v1/namespaces/{self.namespace}/pods")["items"]:
            address = pod["status"].get("podIP")
            for container in pod["spec"]["containers"]:
                for port in filter(is_scraped, container.get("ports", ()) if address else ()):
                    component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
                    labels = {"namespace": self.namespace, "release": pod["metadata"]["labels"]["app.kubernetes.io/instance"],
                              "job": component + ("" if port["name"] == "http" else "-workers"), "pod": pod["metadata"]["name"],
                              "container": container["name"]}
                    targets.append({"targets": [f"{address}:{port['containerPort']}"], "labels": labels})
        self.write("targets.json", json.dumps(targets))

    def follow_pods(self):
        while not self.ended.wait(1):
            self.write_targets()

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error

    def value(self, query):
        """The value of a query whose result has no labels; None if there are no series."""
        result = self.get("query", query=query)["result"]
        return float(result[0]["value"][1]) if result else None

    def answers(self, query):
        """Whether the query has a value; false while Prometheus starts."""
        try:
            return self.value(query)
        except (OSError, AssertionError):
            return None
