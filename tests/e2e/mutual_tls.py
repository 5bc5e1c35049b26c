"""Mutual TLS between a coordinator and workers at HOST:PORT, with certificates from openssl: real daemons that are refused and accepted."""
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from daemons import Cluster, Daemon, free_port, stream_text, until
from ports import free_ports

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests/golden/data/tiny-chat")
TEXT = "/v1/completions"
BIN = ""
ASK = {"prompt": "once upon a time", "temperature": 0, "max_tokens": 20, "ignore_eos": True}
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate, self.key = (os.path.join(folder, f"{name}.ca.{end}") for end in ("crt", "key"))
        openssl("req", "-x509", *KEY, "-days", "1", "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)

    def issue(self, name, use, names="DNS:localhost,IP:127.0.0.1", days=1):
        """-> the paths of certificate, key and CA"""
        certificate, key, request = (os.path.join(self.folder, f"{self.name}.{name}.{end}") for end in ("crt", "key", "csr"))
        openssl("req", "-new", *KEY, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}", "-addext", f"extendedKeyUsage={use}",
                "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-days", str(days), "-copy_extensions", "copy",
                "-out", certificate)
        return certificate, key, self.certificate

    def worker(self, name="worker", **options):
        return self.issue(name, "serverAuth", **options)

    def coordinator(self, name="coordinator", **options):
        return self.issue(name, "clientAuth", **options)


def flags(files, prefix="--"):
    return [word for flag, path in zip(("ssl-certfile", "ssl-keyfile", "ssl-ca-certs"), files) for word in (prefix + flag, path)]


def put(files, places):
    """Replaces each file in a single step."""
    for source, place in zip(files, places):
        shutil.copy(source, place + ".new")
        os.replace(place + ".new", place)


class MutualTls(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="numoe-tls.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.ours, self.other = Authority(self.folder, "ours"), Authority(self.folder, "other")

    def cluster(self, worker, coordinator, **options):
        return Cluster(BIN, MODEL, network=True, worker_flags=flags(worker), coordinator_flags=flags(coordinator, "--worker-"), **options)

    def refused(self, worker, coordinator_flags, *words):
        """Starts a worker that serves, and a coordinator that ends with one line that contains the words; -> the worker's log."""
        address = f"127.0.0.1:{free_port()}"
        health = f"127.0.0.1:{free_port()}"
        daemon = Daemon("worker", [os.path.join(BIN, "numoe-expert-worker"), "--model", MODEL, "--listen", address, "--metrics-port", "0",
                                   "--health-listen", health, *(flags(worker) if worker else [])], tempfile.mkdtemp(dir=self.folder))
        daemon.start()
        try:
            probe = [os.path.join(BIN, "numoe-expert-worker"), "--probe", health]
            until(daemon.log, lambda: subprocess.run(probe, capture_output=True).returncode == 0)
            done = subprocess.run([os.path.join(BIN, "numoe-coordinator"), "--model", MODEL, "--workers", address, "--host", "127.0.0.1",
                                   "--port", "0", *coordinator_flags], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            last = done.stderr.strip().splitlines()[-1]
            for word in (f"worker {address}", *words):
                self.assertIn(word, last)
            return daemon.log()
        finally:
            daemon.stop(signal.SIGKILL)

    def test_the_same_text_and_what_is_used_in_log_and_metrics(self):
        with Cluster(BIN, MODEL) as plain:
            expected = plain.post(TEXT, ASK)["choices"][0]["text"]
        with self.cluster(self.ours.worker(), self.ours.coordinator()) as cluster:
            self.assertEqual(cluster.post(TEXT, ASK)["choices"][0]["text"], expected)
            self.assertEqual(stream_text(cluster.stream(TEXT, ASK)), expected)
            for log, who in ((cluster.coordinator.log(), "--worker-ssl-certfile: CN=coordinator"), (cluster.workers[0].log(), "--ssl-certfile: CN=worker")):
                self.assertRegex(log, re.escape(who) + r" for localhost, 127\.0\.0\.1; issued by CN=ours; valid from .* to 20\d\d-")
            found = re.search(r'^numoe_certificate_expiry_timestamp_seconds\{flag="worker-ssl-certfile"\} (\S+)',
                              cluster.request("GET", "/metrics")[2], re.M)
            self.assertAlmostEqual(float(found.group(1)), time.time() + 86400, delta=3600)

    def test_certificates_are_renewed_while_it_serves(self):
        """Replaces the CA as an operator would: first both ends trust both CAs, then the certificates change."""
        places = {who: [os.path.join(self.folder, f"{who}.{end}") for end in ("crt", "key", "ca")] for who in ("worker", "coordinator")}
        put(self.ours.worker(), places["worker"])
        put(self.ours.coordinator(), places["coordinator"])
        with self.cluster(places["worker"], places["coordinator"], workers=1) as cluster:
            expected = cluster.post(TEXT, ASK)["choices"][0]["text"]
            put(self.other.worker("renewed-worker"), places["worker"])
            put(self.other.coordinator("renewed-coordinator"), places["coordinator"])
            self.assertEqual(cluster.post(TEXT, ASK)["choices"][0]["text"], expected, "the session that was there goes on")
            until(cluster.coordinator.log, lambda: "the changed file is used from now on: CN=renewed-coordinator" in cluster.coordinator.log())
            until(cluster.workers[0].log, lambda: "the changed file is used from now on: CN=renewed-worker" in cluster.workers[0].log())
            with socket.create_connection(("127.0.0.1", int(cluster.addresses.rpartition(":")[2]))):
                pass  # a client that disconnects without sending anything has no effect
            cluster.workers[0].stop(signal.SIGKILL)
            cluster.workers[0].start()
            cluster.await_health("ready")
            self.assertEqual(cluster.post(TEXT, ASK)["choices"][0]["text"], expected)
            # The same with a worker that continues to run, checked by a client that trusts only the new CA.
            put(self.ours.worker("third"), places["worker"])
            cluster_port = cluster.addresses.rpartition(":")[2]

            def shown():
                done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{cluster_port}"], stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=30)
                return "CN = third" in done.stdout
            until(cluster.workers[0].log, shown)

    def test_broken_renewals_leave_the_coordinators_old_certificate(self):
        places = [os.path.join(self.folder, f"c.{end}") for end in ("crt", "key", "ca")]
        put(self.ours.coordinator(), places)
        with self.cluster(self.ours.worker(), places, workers=1) as cluster:
            put((self.ours.worker()[0],), places[:1])  # the key belongs to another certificate
            until(cluster.coordinator.log, lambda: "the files that were read before stay in use" in cluster.coordinator.log())
            cluster.workers[0].stop(signal.SIGKILL)
            cluster.workers[0].start()
            cluster.await_health("ready")

    def test_a_worker_of_another_ca_or_name_is_refused(self):
        coordinator = flags(self.ours.coordinator(), "--worker-")
        self.refused((*self.other.worker()[:2], self.ours.certificate), coordinator, "issued by CN=other", "no CA of --worker-ssl-ca-certs")
        self.refused(self.ours.worker(names="DNS:elsewhere.example"), coordinator, "is for elsewhere.example, expected 127.0.0.1")

    def test_a_coordinator_of_another_ca_is_refused(self):
        mine = (*self.other.coordinator()[:2], self.ours.certificate)
        log = self.refused(self.ours.worker(), flags(mine, "--worker-"), "refuses this coordinator's certificate", "issued by CN=other")
        self.assertIn("is not from one of our CAs", log)

    def test_plain_text_and_tls_tell_each_other_apart(self):
        log = self.refused(self.ours.worker(), [], "it speaks TLS, expected plain text", "--worker-ssl-certfile")
        self.assertIn("a peer without TLS was refused", log)
        self.refused(None, flags(self.ours.coordinator(), "--worker-"), "it does not speak TLS", "--ssl-certfile")

    def test_a_client_without_certificate_is_refused(self):
        port = free_port()
        folder = tempfile.mkdtemp(dir=self.folder)
        daemon = Daemon("worker", [os.path.join(BIN, "numoe-expert-worker"), "--model", MODEL, "--listen", f"127.0.0.1:{port}", "--metrics-port",
                                   "0", *flags(self.ours.worker())], folder)
        daemon.start()
        try:
            until(daemon.log, lambda: " at 127.0.0.1" in daemon.log())
            client = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", self.ours.certificate, "-verify_return_error", "-ign_eof"]
            done = subprocess.run(client, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
            self.assertIn("Verify return code: 0", done.stdout, "the client trusts the worker")
            self.assertRegex(done.stderr, "unexpected eof|certificate required", "the connection did not end")
            until(daemon.log, lambda: "a client without a certificate was refused" in daemon.log())
            probe = subprocess.run([os.path.join(BIN, "numoe-expert-worker"), "--probe", f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=30)
            self.assertEqual(probe.returncode, 1, "the plain text of a probe is refused as well")
        finally:
            daemon.stop(signal.SIGKILL)

    def test_a_supervisor_sees_its_workers_health(self):
        health, first = f"127.0.0.1:{free_port()}", free_ports(2)
        daemon = Daemon("supervisor", [os.path.join(BIN, "numoe-expert-worker"), "--model", MODEL, "--supervise", "--local-workers", "2",
                                       "--listen", f"127.0.0.1:{first}", "--metrics-port", "0", "--health-listen", health,
                                       *flags(self.ours.worker())], self.folder)
        daemon.start()
        try:
            probe = [os.path.join(BIN, "numoe-expert-worker"), "--probe", health]
            until(daemon.log, lambda: subprocess.run(probe, capture_output=True).returncode == 0)
            self.assertEqual(daemon.stop(), 0)
        finally:
            daemon.stop(signal.SIGKILL)

    def test_files_that_cannot_be_used_are_named_at_the_start(self):
        good, other = self.ours.worker(), self.ours.worker("second")
        expired = self.ours.worker("expired", days=0)
        time.sleep(2)  # the validity ends with the second in which it began
        coordinator = ["numoe-coordinator", "--model", MODEL, "--workers", "127.0.0.1:1"]
        worker = ["numoe-expert-worker", "--model", MODEL, "--listen", "127.0.0.1:0", "--metrics-port", "0"]
        for argv, words in (
                ([*worker, *flags((good[0], other[1], good[2]))], [f"--ssl-keyfile={other[1]}", "is not the key of", "CN=worker"]),
                ([*worker, *flags(expired)], [f"--ssl-certfile={expired[0]}", "has expired at", "renew it"]),
                ([*worker, *flags(self.ours.coordinator())], ["extended key usage", "serverAuth"]),
                ([*worker, "--supervise", *flags(expired)], ["has expired at"]),
                ([*coordinator, *flags(good, "--worker-")], ["--worker-ssl-certfile=", "clientAuth"]),
                ([*coordinator, *flags((*self.ours.coordinator()[:2], good[1]), "--worker-")], [f"--worker-ssl-ca-certs={good[1]}", "no certificate"])):
            done = subprocess.run([os.path.join(BIN, argv[0]), *argv[1:]], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
