"""Runs the pods' command lines with real daemons: they start, answer, report their state on their probes, and drain.

There are no containers: paths of the pod become paths of a folder here, and ports become free ones. Skipped if the programs of this
tree are not built.
"""
import json
import os
import signal
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import chart
from ports import free_ports

BIN = os.environ.get("NUMOE_BIN", os.path.join(chart.ROOT, "build", "release", "bin"))
PROGRAMS = ("numoe-coordinator", "numoe-expert-worker", "numoe-router", "numoe-chat")
# Pods have addresses of their own. These stand for two coordinators; their router has 127.0.0.1.
COORDINATORS = ("127.0.0.2", "127.0.0.3")
# Instead of the cluster's DNS the router reads names from a file of its own, in a mount that no other process sees.
WITH_NAMES = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"')


def why_no_names():
    """-> the reason why a program cannot have its own names here, or ''."""
    done = subprocess.run([*WITH_NAMES, "/etc/hosts", "true"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no mount namespaces: {done.stderr.strip()}"
NANO = os.path.join(chart.ROOT, "deploy", "models", "nano")


@unittest.skipUnless(all(os.path.exists(os.path.join(BIN, p)) for p in PROGRAMS), f"not built: not all of {', '.join(PROGRAMS)} are in {BIN}")
class Daemons(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="numoe.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.port = free_ports(10)
        self.processes = {}
        self.mtls = ""  # the folder that replaces the mTLS Secret of the next container to start
        self.tls = ""  # the same for the Secret of the API's certificate
        self.address, self.sockets = "127.0.0.1", self.folder  # these replace the pod's address and its folder of sockets
        self.names = f"{self.folder}/hosts"
        self.name_hosts()
        self.addCleanup(self.kill)

    def kill(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def here(self, text):
        for pod, local in (("127.0.0.1", self.address), ("/etc/numoe/scripts", os.path.join(chart.CHART, "files")), ("/usr/share/numoe/models/nano", NANO),
                           ("/run/numoe", self.sockets), ("/etc/numoe/tls", self.tls), ("/etc/numoe/keys", self.folder), ("numoe-workers-0-0.numoe-workers.numoe.svc", "127.0.0.1"),
                           ("numoe-workers-0-0.numoe-workers", "127.0.0.1"), ("/etc/numoe/mtls", self.mtls)):
            text = text.replace(pod, local)
        return text

    def start(self, workload, pod, only=None):
        for c in workload["spec"]["template"]["spec"]["containers"]:
            if only and c["name"] not in only:
                continue
            env = {e["name"]: self.here(e["value"]) for e in c.get("env", [])}
            names = [*WITH_NAMES, self.names] if c["name"] == "router" else []
            with open(f"{self.folder}/{pod}.{c['name']}.log", "wb") as log:
                # Where the chart asks for a GPU, the daemon uses CPUs here.
                self.processes[f"{pod}/{c['name']}"] = subprocess.Popen(
                    names + [self.here(part) for part in c["command"] + c["args"] if part != "--device=cuda"], stdout=log, stderr=subprocess.STDOUT,
                    env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOSTNAME": pod, **env})

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as f:
                    text += f"== {name}\n{f.read()[-1500:]}\n"
        return text

    def values(self, **changes):
        ports = {"coordinator": {"port": self.port}, "workers": {"healthPort": self.port + 1, "metricsPort": self.port + 4, "port": self.port + 7},
                 "listenHost": "127.0.0.1"}
        return ("values-nano.yaml", ports, changes)

    def probe(self, container):
        """The result of the container's readiness probe, as the kubelet sees it."""
        ready = container["readinessProbe"]
        if "grpc" in ready:
            done = subprocess.run([f"{BIN}/numoe-expert-worker", "--probe", f"127.0.0.1:{ready['grpc']['port']}"], capture_output=True, check=False)
            return done.returncode == 0
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{ready['httpGet']['path']}", timeout=5) as reply:
                return reply.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def await_ready(self, *workloads):
        containers = [c for w in workloads for c in w["spec"]["template"]["spec"]["containers"]]
        end = time.monotonic() + 120
        while not all(self.probe(c) for c in containers):
            for name, process in self.processes.items():
                self.assertIsNone(process.poll(), f"{name} ended\n{self.logs()}")
            self.assertLess(time.monotonic(), end, f"not ready\n{self.logs()}")
            time.sleep(0.2)

    def ask(self, **extra):
        """Runs the script of helm test."""
        pod = chart.find(chart.render(*self.values(), extra=()), "Pod")
        c = pod["spec"]["containers"][0]
        env = {e["name"]: e["value"] for e in c["env"]} | {"URL": f"http://127.0.0.1:{self.port}", "PATH": f"{BIN}:{os.environ['PATH']}", **extra}
        done = subprocess.run([*c["command"], *c["args"]], env=env, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        self.assertIn("126", done.stdout)

    def end(self):
        """Sends SIGTERM to all at once, as the kubelet does after the preStop hooks; all must end by themselves with exit code 0."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.processes.items():
            self.assertEqual(process.wait(timeout=60), 0, f"{name}\n{self.logs()}")

    def test_a_host(self):
        hosts = chart.find(chart.render(*self.values()), "StatefulSet", "numoe")
        self.start(hosts, "numoe-0")
        self.ask()  # helm test right after helm install waits until the service exists and is ready
        self.await_ready(hosts)
        self.end()

    def test_helm_test_gives_up(self):
        with self.assertRaisesRegex(AssertionError, "not ready after 1 s"):
            self.ask(WAIT_SECONDS="1")

    def test_a_coordinator_before_its_workers_is_alive_and_says_what_it_waits_for(self):
        hosts = chart.find(chart.render(*self.values()), "StatefulSet", "numoe")
        coordinator = chart.container(hosts, "coordinator")
        self.start(hosts, "numoe-0", only=["coordinator"])
        url = f"http://127.0.0.1:{self.port}"
        end, detail = time.monotonic() + 60, ""
        while "workers" not in detail:
            self.assertLess(time.monotonic(), end, f"{detail}\n{self.logs()}")
            try:
                with urllib.request.urlopen(url + coordinator["readinessProbe"]["httpGet"]["path"], timeout=5) as reply:
                    self.fail(f"ready without workers: {reply.read()}")
            except urllib.error.HTTPError as error:
                detail = json.load(error)["detail"]
            except OSError:
                time.sleep(0.05)
        with urllib.request.urlopen(url + coordinator["livenessProbe"]["httpGet"]["path"], timeout=30) as reply:
            self.assertEqual(json.load(reply)["status"], "alive")
        self.start(hosts, "numoe-0", only=["worker-0", "worker-1"])
        self.await_ready(hosts)
        self.ask()
        self.end()

    def test_a_coordinator_that_cannot_start_says_so_before_any_worker_has_loaded(self):
        hosts = chart.find(chart.render(*self.values(coordinator={"flags": {"max-total-tokens": 2000000000}})), "StatefulSet", "numoe")
        self.start(hosts, "numoe-0", only=["coordinator"])
        self.assertEqual(self.processes["numoe-0/coordinator"].wait(timeout=60), 2, self.logs())
        self.assertIn("--max-total-tokens=", self.logs())

    def test_a_host_with_keys(self):
        hosts = chart.find(chart.render(*self.values(apiKeys={"secretName": "keys"})), "StatefulSet", "numoe")
        with open(f"{self.folder}/keys", "w", encoding="utf-8") as f:
            f.write("first-key-0123456789\nsecond-key-0123456789\n")
        self.start(hosts, "numoe-0")
        self.await_ready(hosts)
        self.ask(NUMOE_API_KEY="# of two\n\nfirst-key-0123456789 name=first weight=3\nsecond-key-0123456789\n")
        with self.assertRaises(AssertionError):
            self.ask(NUMOE_API_KEY="no-key-0123456789")
        self.end()

    def test_a_stream_survives_the_shutdown(self):
        hosts = chart.find(chart.render(*self.values()), "StatefulSet", "numoe")
        self.start(hosts, "numoe-0")
        self.await_ready(hosts)
        body = {"messages": [{"role": "user", "content": "Count from 1 to 30."}], "max_tokens": 120, "stream": True, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            first = reply.readline()
            self.assertTrue(first.startswith(b"data: "), first)
            for process in self.processes.values():
                process.send_signal(signal.SIGTERM)
            rest = reply.read().decode()
        self.assertIn('"finish_reason":"length"', rest)
        self.assertTrue(rest.endswith("data: [DONE]\n\n"), rest[-200:])
        for name, process in self.processes.items():
            self.assertEqual(process.wait(timeout=60), 0, f"{name}\n{self.logs()}")

    def test_required_pinning_that_is_not_there_is_said(self):
        """CPUs that other processes may use are not exclusive: the worker ends, and its log says why and what to do."""
        amounts = {"cpu": 333, "memory": "1Gi"}
        resources = {"resources": {"limits": amounts, "requests": amounts}}
        hosts = chart.find(chart.render(*self.values(pinning="required", workers=resources, coordinator=resources)), "StatefulSet", "numoe")
        self.start(hosts, "numoe-0", only=["worker-0"])
        self.assertEqual(self.processes["numoe-0/worker-0"].wait(timeout=60), 2)
        self.assertRegex(self.logs(), r"--pinning[= ]required")

    def test_a_supervised_host(self):
        hosts = chart.find(chart.render(*self.values(workers={"mode": "supervised", "count": 2})), "StatefulSet", "numoe")
        self.start(hosts, "numoe-0")
        self.await_ready(hosts)
        self.ask()
        self.end()

    def remote(self, **changes):
        """Starts the pods of a coordinator's host and of a remote worker's host, with different ports, because both run on this machine."""
        values = self.values(workers={"count": 1}, remoteWorkers={"enabled": True, "workersPerHost": 1, "resources": {"limits": {"memory": "384Mi"}}}, **changes)
        objects = chart.render(*values)
        hosts, remote = chart.find(objects, "StatefulSet", "numoe"), chart.find(objects, "StatefulSet", "numoe-workers-0")
        # Pods have addresses of their own; here the remote worker's ports follow those of the host.
        text = json.dumps(remote)
        for port, other in ((self.port + 1, self.port + 3), (self.port + 4, self.port + 6)):
            text = text.replace(f":{port}", f":{other}").replace(f"={port}", f"={other}").replace(f"\"port\": {port}", f"\"port\": {other}")
        return hosts, json.loads(text)

    def name_hosts(self, *addresses):
        """Writes the pods' addresses for the headless Service's name, into the same file, because that one is mounted."""
        with open(self.names, "w", encoding="utf-8") as f:
            f.write("127.0.0.1 localhost\n" + "".join(f"{address} numoe-hosts numoe-hosts.numoe.svc\n" for address in addresses))

    def need_names(self):
        why = why_no_names()
        if why:
            self.skipTest(why)

    def start_coordinators(self, hosts):
        for number, self.address in enumerate(COORDINATORS):
            self.sockets = f"{self.folder}/{number}"
            os.mkdir(self.sockets)
            self.start(hosts, f"numoe-{number}")
        self.address = "127.0.0.1"

    def of_router(self, path, context=None):
        """Status and text of the router's answer; 0 if there is none."""
        try:
            with urllib.request.urlopen(f"{'https' if context else 'http'}://127.0.0.1:{self.port}{path}", timeout=5, context=context) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def await_router(self, what, context=None):
        """Waits until its readiness probe has this status and its answer says this of each coordinator."""
        end, said = time.monotonic() + 240, (0, "")
        while said[0] == 0 or (said[0], [b["ready"] for b in json.loads(said[1])["backends"]]) != what:
            self.assertLess(time.monotonic(), end, f"{said}\n{self.logs()}")
            time.sleep(0.2)
            said = self.of_router("/health", context)

    def test_a_router_before_two_hosts(self):
        """The router is alive before any coordinator exists; it passes keys on, and follows hosts that are added and removed."""
        self.need_names()
        objects = chart.render(*self.values(replicas=2, router={"enabled": True}, apiKeys={"secretName": "keys"}))
        router = chart.find(objects, "Deployment", "numoe-router")
        with open(f"{self.folder}/keys", "w", encoding="utf-8") as f:
            f.write("first-key-0123456789\n")
        self.start(router, "numoe-router")
        self.await_router((503, []))
        self.assertEqual(self.of_router(chart.container(router, "router")["livenessProbe"]["httpGet"]["path"])[0], 200)
        self.name_hosts(COORDINATORS[0])
        self.await_router((503, [False]))
        self.start_coordinators(chart.find(objects, "StatefulSet", "numoe"))
        self.await_router((200, [True]))
        self.name_hosts(*COORDINATORS)  # One more host.
        self.await_router((200, [True, True]))
        self.ask(NUMOE_API_KEY="first-key-0123456789")
        with self.assertRaises(AssertionError):
            self.ask(NUMOE_API_KEY="no-key-0123456789")
        # One host less: the name keeps its address while it drains, and then loses it.
        key = {"Authorization": "Bearer first-key-0123456789"}
        running = [self.stream("127.0.0.1", self.port, f"Count from {n} to 30.", key) for n in (1, 2)]
        first = {name: process for name, process in self.processes.items() if name.startswith("numoe-0/")}
        for process in first.values():
            process.send_signal(signal.SIGTERM)
        self.ask(NUMOE_API_KEY="first-key-0123456789")
        for reply in running:
            self.assertTrue(reply.read().decode().endswith("data: [DONE]\n\n"))
        for name, process in first.items():
            self.assertEqual(process.wait(timeout=60), 0, f"{name}\n{self.logs()}")
        self.name_hosts(COORDINATORS[1])
        self.await_router((200, [True]))
        self.ask(NUMOE_API_KEY="first-key-0123456789")
        self.end()

    def stream(self, address, port, question="Count from 1 to 30.", headers=None):
        """Starts an answer of 200 tokens."""
        body = {"messages": [{"role": "user", "content": question}], "max_tokens": 200, "stream": True, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(f"http://{address}:{port}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", **(headers or {})})
        reply = urllib.request.urlopen(request, timeout=120)
        self.addCleanup(reply.close)
        self.assertTrue(reply.readline().startswith(b"data: "))
        return reply

    def test_a_host_with_two_gpus(self):
        """Two coordinators in one pod use the same workers: one is killed, one hangs, and the other continues to serve; both drain."""
        self.need_names()
        self.name_hosts(COORDINATORS[0])
        objects = chart.render(*self.values(router={"enabled": True}, coordinator={"gpu": {"count": 2, "nextPort": self.port + 9}}))
        hosts, at = chart.find(objects, "StatefulSet", "numoe"), COORDINATORS[0]
        self.start(chart.find(objects, "Deployment", "numoe-router"), "numoe-router")
        self.address = at
        self.start(hosts, "numoe-0")
        self.address = "127.0.0.1"
        self.await_router((200, [True, True]))
        self.ask()
        coordinators = [self.processes[f"numoe-0/{c['name']}"] for c in chart.coordinators(hosts)]
        for process in coordinators:
            with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
                self.assertGreaterEqual(maps.read().count("memfd:numoe-mailbox"), 2, "a mailbox of each worker")
        # Out of memory: only the requests of the killed coordinator end.
        staying = self.stream(at, self.port)
        coordinators[1].kill()
        self.assertEqual(coordinators[1].wait(), -signal.SIGKILL)
        self.assertTrue(staying.read().decode().endswith("data: [DONE]\n\n"))
        self.await_router((200, [True, False]))
        self.ask()
        # The kubelet would start the container again; the workers have kept their weights.
        self.address = at
        self.start(hosts, "numoe-0", only=["coordinator-1"])
        self.address = "127.0.0.1"
        self.await_router((200, [True, True]))
        # One coordinator hangs: the other continues on the same workers.
        coordinators[0].send_signal(signal.SIGSTOP)
        self.await_router((200, [False, True]))
        self.ask()
        coordinators[0].send_signal(signal.SIGCONT)
        self.await_router((200, [True, True]))
        # The pod ends: all containers get SIGTERM at the same time, and both coordinators finish their requests.
        running = [self.stream(at, port) for port in (self.port, self.port + 9)]
        ending = {name: process for name, process in self.processes.items() if name.startswith("numoe-0/")}
        for process in ending.values():
            process.send_signal(signal.SIGTERM)
        for reply in running:
            self.assertTrue(reply.read().decode().endswith("data: [DONE]\n\n"))
        for name, process in ending.items():
            self.assertEqual(process.wait(timeout=60), 0, f"{name}\n{self.logs()}")
        self.await_router((503, [False, False]))

    def test_a_router_with_tls(self):
        self.need_names()
        self.name_hosts(*COORDINATORS)
        objects = chart.render(*self.values(replicas=2, router={"enabled": True}, tls={"enabled": True, "secretName": "tls"}))
        self.tls = self.secret("tls", "serverAuth", "DNS:numoe-hosts.numoe.svc")  # as the handbook says
        self.start(chart.find(objects, "Deployment", "numoe-router"), "numoe-router")
        self.start_coordinators(chart.find(objects, "StatefulSet", "numoe"))
        self.await_router((200, [True, True]), ssl.create_default_context(cafile=f"{self.tls}/ca.crt"))
        self.ask(URL=f"https://127.0.0.1:{self.port}", SSL_CERT_FILE=f"{self.tls}/ca.crt")
        self.end()

    def test_a_remote_worker(self):
        hosts, remote = self.remote()
        self.start(hosts, "numoe-0")
        self.start(remote, "numoe-workers-0-0")
        self.await_ready(hosts, remote)
        self.ask()
        self.end()

    def secret(self, name, use, *more):
        """A folder like the mount of a Secret from cert-manager."""
        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], check=True, capture_output=True)
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        folder, ca = f"{self.folder}/{name}", f"{self.folder}/ca"
        names = ",".join(("IP:127.0.0.1", *more))
        os.mkdir(folder)
        if not os.path.exists(f"{ca}.crt"):
            openssl("req", "-x509", *key, "-days", "1", "-subj", "/CN=ca", "-keyout", f"{ca}.key", "-out", f"{ca}.crt")
        openssl("req", "-new", *key, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}", "-addext", f"extendedKeyUsage={use}",
                "-keyout", f"{folder}/tls.key", "-out", f"{folder}/csr")
        openssl("x509", "-req", "-in", f"{folder}/csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-days", "1", "-copy_extensions", "copy",
                "-out", f"{folder}/tls.crt")
        os.symlink(f"{ca}.crt", f"{folder}/ca.crt")
        return folder

    def test_a_remote_worker_with_mutual_tls(self):
        hosts, remote = self.remote(mtls={"enabled": True, "certManager": {"enabled": True}})
        self.mtls = self.secret("coordinator", "clientAuth")
        self.start(hosts, "numoe-0")
        self.mtls = self.secret("workers", "serverAuth")
        self.start(remote, "numoe-workers-0-0")
        self.await_ready(hosts, remote)  # the worker's health port remains plain text
        self.ask()
        for log, words in (("numoe-0.coordinator", "--worker-ssl-certfile: CN=coordinator"), ("numoe-workers-0-0.worker-0", "--ssl-certfile: CN=workers")):
            with open(f"{self.folder}/{log}.log", encoding="utf-8", errors="replace") as f:
                self.assertIn(words, f.read())
        self.end()


if __name__ == "__main__":
    unittest.main()
