"""Two hosts as network namespaces: an expert worker over the network, and the effects of a failing network."""
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from client import Server, Stream
from containers import ROOT, await_true, find_tool

MODEL = os.path.join(ROOT, "deploy/models/nano")
BIN = ""
HEARTBEAT_S = 6  # a second between two heartbeats, and five without an answer: LinkOptions::heartbeat_*
CALL_DEADLINE_S = 30  # the deadline of a layer call: LinkOptions::call_deadline_ms


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def why_no_namespaces():
    """-> why network namespaces are not possible here, or ''."""
    missing = [tool for tool in ("ip", "iptables") if not find_tool(tool)]
    if missing:
        return "not installed: " + ", ".join(missing)
    if os.geteuid() != 0:
        return "needs root (network namespaces)"
    name = f"numoe-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
        return "this machine allows no network namespaces"
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return ""


class Network:
    """Namespaces a (the coordinator's host) and b, joined by a cable; a is joined to this namespace as well.

    The networks are 10.213.N.0/30 between here and a, and 10.213.N.4/30 between a and b. N depends on the process id and a count, so that
    neither two runs nor two networks of a run have the same: the kernel releases names and addresses only after some time.
    """
    made = itertools.count()

    def __init__(self):
        count = next(self.made)
        number = (os.getpid() * 7 + count) % 250
        tag = f"{os.getpid() % 1000000}.{count}"
        self.a, self.b, self.here = f"numoe-{tag}-a", f"numoe-{tag}-b", f"nh{tag}"
        self.here_ip, self.a_ip = f"10.213.{number}.1", f"10.213.{number}.2"
        self.a_to_b_ip, self.b_ip = f"10.213.{number}.5", f"10.213.{number}.6"
        self.folder = tempfile.mkdtemp(prefix="numoe-hosts.")
        self.processes = []
        try:
            self.join()
        except BaseException:
            self.close()
            raise

    def join(self):
        for name in (self.a, self.b):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", self.here, "type", "veth", "peer", "name", "up0", "netns", self.a)
        ip("-n", self.a, "link", "add", "cable0", "type", "veth", "peer", "name", "cable0", "netns", self.b)
        ip("addr", "add", self.here_ip + "/30", "dev", self.here)
        ip("link", "set", self.here, "up")
        for name, device, address in ((self.a, "up0", self.a_ip), (self.a, "cable0", self.a_to_b_ip), (self.b, "cable0", self.b_ip)):
            ip("-n", name, "addr", "add", address + "/30", "dev", device)
            ip("-n", name, "link", "set", device, "up")

    def start(self, host, name, *argv):
        with open(os.path.join(self.folder, name + ".log"), "ab") as log:
            process = subprocess.Popen(["ip", "netns", "exec", host, os.path.join(BIN, argv[0]), *argv[1:]],
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def log(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def cut(self, on=True):
        """The cable loses all packets in both directions, and neither end is told."""
        for chain in ("INPUT", "OUTPUT"):
            subprocess.run(["ip", "netns", "exec", self.b, "iptables", "-w", "-A" if on else "-D", chain, "!", "-i" if chain == "INPUT" else "-o",
                            "lo", "-j", "DROP"], check=True, capture_output=True)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        subprocess.run(["ip", "link", "delete", self.here], check=False, capture_output=True)
        for name in (self.a, self.b):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def worker_metric(net, port, name):
    """The sum over all series of a metric of the remote worker, requested on its own host, so that it works while the cable is cut."""
    code = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{port}/metrics', timeout=10).read().decode())"
    text = subprocess.run(["ip", "netns", "exec", net.b, sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name)


def certificates(folder, names):
    """Makes a CA, a worker's certificate with these names, and a coordinator's certificate; -> their flags."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    ca = f"{folder}/ca"
    openssl("req", "-x509", *key, "-days", "1", "-subj", "/CN=ca", "-keyout", f"{ca}.key", "-out", f"{ca}.crt")
    flags = []
    for who, prefix, use in (("worker", "--", "serverAuth"), ("coordinator", "--worker-", "clientAuth")):
        own = f"{folder}/{who}"
        openssl("req", "-new", *key, "-subj", f"/CN={who}", "-addext", f"subjectAltName={names}", "-addext", f"extendedKeyUsage={use}",
                "-keyout", f"{own}.key", "-out", f"{own}.csr")
        openssl("x509", "-req", "-in", f"{own}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-days", "1", "-copy_extensions", "copy",
                "-out", f"{own}.crt")
        flags.append([f"{prefix}ssl-certfile", f"{own}.crt", f"{prefix}ssl-keyfile", f"{own}.key", f"{prefix}ssl-ca-certs", f"{ca}.crt"])
    return flags


@unittest.skipIf(why_no_namespaces(), why_no_namespaces())
class TwoHosts(unittest.TestCase):
    TLS = False
    METRICS_PORT = 9190

    @classmethod
    def setUpClass(cls):
        cls.net = Network()
        cls.addClassCleanup(cls.net.close)
        worker_tls, coordinator_tls = certificates(cls.net.folder, f"IP:{cls.net.b_ip}") if cls.TLS else ([], [])
        local = f"unix:{cls.net.folder}/w0.sock"
        cls.remote = f"{cls.net.b_ip}:7070"
        flags = ["--model", MODEL, "--worker-count", "2", "--metrics-port"]
        cls.net.start(cls.net.a, "worker0", "numoe-expert-worker", *flags, "0", "--worker-index", "0", "--listen", local)
        cls.remote_argv = ["numoe-expert-worker", *flags, str(cls.METRICS_PORT), "--worker-index", "1", "--listen", cls.remote, *worker_tls]
        cls.worker = cls.net.start(cls.net.b, "worker1", *cls.remote_argv)
        cls.net.start(cls.net.a, "coordinator", "numoe-coordinator", "--model", MODEL, "--host", cls.net.a_ip, "--port", "8080",
                      "--workers", f"{local},{cls.remote}", "--worker-deadline-ms", "120000", *coordinator_tls)
        cls.server = Server(cls.net.a_ip, 8080, lambda: cls.net.log("coordinator"))
        cls.server.await_health("ready")
        cls.expected = Stream(cls.server).result()

    def test_1_the_remote_worker_serves_over_grpc(self):
        asked = {"messages": [{"role": "user", "content": "What is 84 * 3 / 2?"}], "temperature": 0}
        self.assertIn("126", self.server.post("/v1/chat/completions", asked)["choices"][0]["message"]["content"])
        lines = [line for line in self.net.log("coordinator").splitlines() if ": slice " in line]
        self.assertEqual([line.endswith("through shared memory") for line in lines], [True, False], lines)
        self.assertIn(f"{self.remote}: slice 1/2", lines[1])

    def test_2_a_short_cut_costs_time_and_nothing_else(self):
        lost = self.server.metric("numoe_worker_lost_total")
        stream = Stream(self.server)
        stream.await_events(20)
        self.net.cut()
        time.sleep(1)  # TCP tries again within 1.4 s; after 2 s a busy machine could reach the heartbeat's deadline
        seen = stream.events
        self.net.cut(False)
        self.assertLess(seen, stream.TOKENS - 1, "the stream had ended before the cut")
        self.assertEqual(stream.result(), self.expected)
        self.assertEqual(self.server.metric("numoe_worker_lost_total"), lost)

    def cut_until_noticed(self):
        """-> seconds until /health names the worker"""
        self.net.cut()
        begun = time.monotonic()
        self.server.await_health("degraded", CALL_DEADLINE_S)
        seconds = time.monotonic() - begun
        self.assertGreater(seconds, 1, "noticed by something else than the cut")
        detail = self.server.request("GET", "/health")[2]
        self.assertIn(self.remote, detail)
        self.assertIn("no sign of life", detail)
        print(f"a cut link was noticed after {seconds:.2f} s, expected at most about {HEARTBEAT_S}", file=sys.stderr)
        return seconds

    def test_3_a_long_cut_is_noticed_and_healed_and_the_step_replayed(self):
        lost, replayed = (self.server.metric(f"numoe_{name}_total") for name in ("worker_lost", "steps_replayed"))
        stream = Stream(self.server)
        stream.await_events(20)
        self.assertLess(self.cut_until_noticed(), CALL_DEADLINE_S - 5, "it was the call's own deadline that ended it")
        self.assertEqual(self.server.metric("numoe_worker_lost_total"), lost + 1)
        self.net.cut(False)
        self.server.await_health("ready", 30)
        self.assertEqual(stream.result(), self.expected, "the answer changed")
        self.assertGreater(self.server.metric("numoe_steps_replayed_total"), replayed)

    def test_3a_a_cut_is_noticed_where_nobody_asks_anything_and_by_the_worker_too(self):
        lost = self.server.metric("numoe_worker_lost_total")
        self.cut_until_noticed()
        self.assertEqual(self.server.metric("numoe_worker_lost_total"), lost + 1)
        self.assertEqual(self.server.metric("numoe_worker_up"), 1)
        await_true(lambda: worker_metric(self.net, self.METRICS_PORT, "numoe_expert_sessions") == 0, 60,
                   "the worker still counts the session of a coordinator that it cannot reach")
        self.net.cut(False)
        self.server.await_health("ready", 30)
        self.assertEqual(self.server.metric("numoe_worker_up"), 2)
        self.assertEqual(Stream(self.server).result(), self.expected)

    def test_4_a_remote_worker_that_restarts_is_taken_back(self):
        stream = Stream(self.server)
        stream.await_events(20)
        self.worker.send_signal(signal.SIGKILL)
        self.worker.wait()
        await_true(lambda: self.server.health() == "degraded", 10, "a killed remote worker is not noticed within 10 s")
        type(self).worker = self.net.start(self.net.b, "worker1", *self.remote_argv)
        self.assertEqual(stream.result(), self.expected, "the answer changed")
        self.server.await_health("ready")


class TwoHostsWithTls(TwoHosts):
    """The whole test again, with mutual TLS over the cable."""
    TLS = True

    def test_0_a_coordinator_without_certificate_gets_nothing(self):
        plain = subprocess.run(["ip", "netns", "exec", self.net.a, os.path.join(BIN, "numoe-coordinator"), "--model", MODEL, "--host", self.net.a_ip,
                                "--port", "0", "--workers", self.remote], capture_output=True, text=True, timeout=60)
        self.assertEqual(plain.returncode, 2, plain.stderr)
        self.assertIn("it speaks TLS, expected plain text", plain.stderr)
