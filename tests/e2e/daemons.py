"""Starts real NUMoE daemons on this machine for tests, sends HTTP requests to them, and cleans up after them.

Standard library only. Sockets and logs are in a temporary folder.
"""
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from ports import free_port  # noqa: E402

START_SECONDS = 60


class Daemon:
    """One process with its log."""

    def __init__(self, name, argv, folder):
        self.name, self.argv, self.folder = name, argv, folder
        self.log_path = os.path.join(folder, name + ".log")
        self.process = None

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self, how=signal.SIGTERM, timeout=20):
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not stop within {timeout} s of signal {how}:\n{self.log()[-2000:]}")
        self.process = None
        return code


class Cluster:
    """`workers` expert workers and a coordinator serving `model`."""

    def __init__(self, bin_dir, model, workers=2, worker_flags=(), coordinator_flags=(), network=False, tls=False):
        self.folder = tempfile.mkdtemp(prefix="numoe-e2e.")
        self.certificate = self.make_certificate() if tls else None
        if tls:
            coordinator_flags = [*coordinator_flags, "--ssl-certfile", self.certificate, "--ssl-keyfile", self.folder + "/key.pem"]
        self.workers, addresses = [], []
        for i in range(workers):
            address = f"127.0.0.1:{free_port()}" if network else f"unix:{self.folder}/worker{i}.sock"
            addresses.append(address)
            self.workers.append(Daemon(f"worker{i}", [
                os.path.join(bin_dir, "numoe-expert-worker"), "--model", model, "--worker-index", str(i),
                "--worker-count", str(workers), "--listen", address, "--metrics-port", "0", *worker_flags], self.folder))
        self.addresses = ",".join(addresses)
        self.port_file = os.path.join(self.folder, "port")
        self.coordinator = Daemon("coordinator", [
            os.path.join(bin_dir, "numoe-coordinator"), "--model", model, "--workers", self.addresses,
            "--host", "127.0.0.1", "--port", "0", "--port-file", self.port_file, *coordinator_flags], self.folder)

    def __enter__(self):
        for daemon in [*self.workers, self.coordinator]:
            daemon.start()
        try:
            self.await_health("ready")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        for daemon in [self.coordinator, *self.workers]:
            if daemon.process is not None:
                daemon.process.kill()
                daemon.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def make_certificate(self):
        """Makes a self-signed certificate for localhost; the key is in a file beside it."""
        path = os.path.join(self.folder, "certificate.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", path,
                        "-keyout", os.path.join(self.folder, "key.pem")], check=True, capture_output=True)
        return path

    def connect(self, timeout):
        if self.certificate:
            return http.client.HTTPSConnection("localhost", self.port, timeout=timeout,
                                               context=ssl.create_default_context(cafile=self.certificate))
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    @property
    def port(self):
        with open(self.port_file, encoding="ascii") as f:
            return int(f.read())

    def await_health(self, status, seconds=START_SECONDS):
        """Waits until /health answers `status` and returns the answer."""
        deadline = time.monotonic() + seconds
        seen = "no answer"
        while time.monotonic() < deadline:
            for daemon in [*self.workers, self.coordinator]:
                if status == "ready" and daemon.process is not None and daemon.process.poll() is not None:
                    raise AssertionError(f"{daemon.name} exited {daemon.process.poll()}:\n{daemon.log()[-3000:]}")
            try:
                code, _, body = self.request("GET", "/health")
                seen = f"{code} {body}"
                if json.loads(body).get("status") == status:
                    return json.loads(body)
            except (OSError, ValueError, http.client.HTTPException) as error:
                seen = repr(error)
            time.sleep(0.02)
        raise AssertionError(f"/health is not '{status}' after {seconds} s: {seen}\n{self.coordinator.log()[-3000:]}")

    def request(self, method, path, body=None, headers=None, timeout=60):
        """-> (status, headers, text)"""
        connection = self.connect(timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body).encode()
            connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def post(self, path, body, expect=200):
        status, _, text = self.request("POST", path, body)
        assert status == expect, f"{path}: expected {expect}, got {status}: {text}"
        return json.loads(text)

    def stream(self, path, body, on_event=None, timeout=60):
        """Posts a streaming request; -> list of the chunks' JSON objects. Checks the SSE framing."""
        connection = self.connect(timeout)
        events = []
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, (response.status, response.read())
            assert response.getheader("Content-Type", "").startswith("text/event-stream"), response.getheaders()
            while True:
                line = response.readline().decode("utf-8").rstrip("\r\n")
                if not line:
                    if response.isclosed():
                        raise AssertionError(f"stream ended without [DONE] after {len(events)} events")
                    continue
                assert line.startswith("data: "), f"not a data line: {line!r}"
                if line == "data: [DONE]":
                    return events
                events.append(json.loads(line[6:]))
                if on_event:
                    on_event(len(events))
        finally:
            connection.close()


def metric(cluster, name):
    """The sum over all series of a metric."""
    _, _, text = cluster.request("GET", "/metrics")
    values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
              if line.split("{")[0].split(" ")[0] == name]
    assert values, f"no metric {name} in /metrics"
    return sum(values)


def until(what, done, seconds=60):
    """Waits for done(). what is a text, or a function that returns one, that says what did not happen in time."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.02)


def until_idle(cluster):
    """Waits until the engine holds no request. A client can have a whole answer a moment before the engine's next step
    gives its sequence back."""
    until("the engine is idle", lambda: all(metric(cluster, name) == 0 for name in
                                            ("numoe_requests_running", "numoe_requests_waiting", "numoe_kv_blocks_used")))


def stream_text(events):
    text = ""
    for event in events:
        for choice in event.get("choices", []):
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
    return text


def stream_calls(events):
    """(id, name, arguments) of each tool call, assembled from the chunks as SDKs do."""
    calls = []
    for event in events:
        for choice in event.get("choices", []):
            for part in choice.get("delta", {}).get("tool_calls", []):
                if part["index"] == len(calls):
                    calls.append((part["id"], part["function"]["name"], ""))
                identity, name, arguments = calls[part["index"]]
                calls[part["index"]] = (identity, name, arguments + part["function"]["arguments"])
    return calls
