"""Requests of the tests to a coordinator at some host and port: the part of tests/e2e's Cluster for servers that it did not start."""
import os
import sys
import threading
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
import http.client  # noqa: E402
import json  # noqa: E402

from daemons import Cluster, stream_text  # noqa: E402

TEXT = "/v1/completions"


class Server(Cluster):
    """A coordinator that another program started."""

    def __init__(self, host, port, log=lambda: ""):  # there are no daemons, which Cluster's constructor would start
        self.host, self.address_port, self.server_log = host, port, log

    def connect(self, timeout):
        return http.client.HTTPConnection(self.host, self.address_port, timeout=timeout)

    def health(self):
        try:
            return json.loads(self.request("GET", "/health", timeout=2)[2]).get("status")
        except (OSError, ValueError, http.client.HTTPException):
            return "no answer"

    def await_health(self, status, seconds=60):
        deadline = time.monotonic() + seconds
        while (seen := self.health()) != status:
            if time.monotonic() > deadline:
                raise AssertionError(f"/health is '{seen}', not '{status}' after {seconds} s\n{self.server_log()[-3000:]}")
            time.sleep(0.05)

    def metric(self, name):
        """The sum over all series of a metric."""
        lines = self.request("GET", "/metrics")[2].splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name]
        assert values, f"no metric {name} in /metrics"
        return sum(values)


class Stream:
    """A long streaming answer that a thread reads. Its length and text do not depend on what happens meanwhile."""
    TOKENS = 1500

    def __init__(self, server, prompt="Count", tokens=TOKENS):
        self.server, self.events, self.error = server, 0, None
        self.body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
        self.text = self.finish = None
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            events = self.server.stream(TEXT, self.body, self.count, timeout=180)
            self.text, self.finish = stream_text(events), events[-1]["choices"][0]["finish_reason"]
        except Exception as error:  # passed on to the test's thread
            self.error = error

    def count(self, events):
        self.events = events

    def await_events(self, count, seconds=60):
        deadline = time.monotonic() + seconds
        while self.events < count:
            if self.error:
                raise AssertionError(f"the stream ended after {self.events} events: {self.error!r}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.events} events after {seconds} s")
            time.sleep(0.002)

    def result(self, seconds=120):
        """-> the whole text"""
        self.thread.join(seconds)
        if self.thread.is_alive():
            raise AssertionError(f"the stream still runs after {seconds} s, with {self.events} events")
        if self.error:
            raise AssertionError(f"the stream ended after {self.events} events: {self.error!r}")
        assert self.finish == "length", self.finish
        return self.text
