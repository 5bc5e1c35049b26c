"""numoe-expert-worker --supervise, and what SIGTERM means to each daemon: what the end and the restarts of a pod depend on."""
import concurrent.futures
import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

from daemons import Cluster, Daemon, free_port, stream_text, until

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests/golden/data/tiny-chat")
TEXT = "/v1/completions"
BIN = ""
LONG = {"prompt": "once upon a time", "temperature": 0, "max_tokens": 200, "ignore_eos": True}


def worker_binary():
    return os.path.join(BIN, "numoe-expert-worker")


def runs_worker(pid):
    """False also if the process ends meanwhile, is a zombie, or its number belongs to another program by now."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", worker_binary())
    except OSError:
        return False


def probe(address):
    return subprocess.run([worker_binary(), "--probe", address], capture_output=True, text=True, timeout=30)


def arrived(cluster):
    """The number of requests that the engine has accepted, the finished ones included."""
    text = cluster.request("GET", "/metrics")[2]
    return sum(int(n) for n in re.findall(r"^numoe_requests_(?:running|waiting|finished_total\{.*\}) (\d+)", text, re.M))


class SupervisedCluster(Cluster):
    """Two workers under one supervisor, on any number of NUMA nodes, and a coordinator."""

    def __init__(self, *supervisor_flags, coordinator_flags=()):
        super().__init__(BIN, MODEL, workers=0, coordinator_flags=coordinator_flags)
        self.health = f"127.0.0.1:{free_port()}"
        self.workers = [Daemon("supervisor", [
            worker_binary(), "--model", MODEL, "--supervise", "--local-workers", "2", "--listen", f"unix:{self.folder}",
            "--metrics-port", "0", "--health-listen", self.health, *supervisor_flags], self.folder)]
        self.addresses = ",".join(f"unix:{self.folder}/worker-{i}.sock" for i in range(2))
        argv = self.coordinator.argv
        argv[argv.index("--workers") + 1] = self.addresses

    @property
    def supervisor(self):
        return self.workers[0]

    def child(self, index):
        """The process that currently is worker `index`."""
        return int(re.findall(rf"worker {index} is process (\d+)", self.supervisor.log())[-1])


class Supervision(unittest.TestCase):
    def test_a_killed_worker_comes_back_and_no_byte_changes(self):
        with SupervisedCluster(coordinator_flags=["--deterministic"]) as cluster:
            before = stream_text(cluster.stream(TEXT, LONG))
            until("ready", lambda: probe(cluster.health).returncode == 0)  # the supervisor checks every quarter of a second
            first = cluster.child(1)

            def kill_once(events):
                if events == 10:
                    os.kill(first, signal.SIGKILL)
            self.assertEqual(stream_text(cluster.stream(TEXT, LONG, kill_once)), before)
            self.assertNotEqual(cluster.child(1), first)
            until("ready again", lambda: probe(cluster.health).returncode == 0)
            self.assertIn("worker 1 ended with signal 9", cluster.supervisor.log())

    def test_health_is_not_serving_until_all_workers_are(self):
        cluster = SupervisedCluster()
        try:
            self.assertEqual(probe(cluster.health).returncode, 1)
            cluster.supervisor.start()
            until("serving", lambda: probe(cluster.health).returncode == 0)
            os.kill(cluster.child(0), signal.SIGSTOP)  # the process is alive, but does nothing
            until("not serving", lambda: probe(cluster.health).returncode == 1)
            self.assertIn("is not serving", probe(cluster.health).stderr)
            os.kill(cluster.child(0), signal.SIGCONT)
            until("serving again", lambda: probe(cluster.health).returncode == 0)
            self.assertEqual(cluster.supervisor.stop(), 0)
            self.assertEqual(probe(cluster.health).returncode, 1)
        finally:
            cluster.__exit__(None, None, None)

    def test_a_hung_worker_is_killed_and_comes_back_and_no_byte_changes(self):
        hung = ["--hung-after-ms", "3000", "--drain-timeout-ms", "0"]
        patient = ["--deterministic", "--worker-deadline-ms", "300000"]
        with SupervisedCluster(*hung, coordinator_flags=patient) as cluster:
            before = stream_text(cluster.stream(TEXT, LONG))
            until("ready", lambda: probe(cluster.health).returncode == 0)
            first = cluster.child(1)

            def stop_once(events):
                if events == 10:
                    os.kill(first, signal.SIGSTOP)
            self.assertEqual(stream_text(cluster.stream(TEXT, LONG, stop_once, 300)), before)
            until("another process", lambda: cluster.child(1) != first)
            until("ready again", lambda: probe(cluster.health).returncode == 0)
            self.assertIn(f"worker 1 hangs: process {first} has not said that it serves", cluster.supervisor.log())
            self.assertFalse(runs_worker(first))
            port = re.findall(r"metrics on port (\d+)", cluster.supervisor.log())[-1]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                self.assertIn('numoe_worker_restarts_total{reason="hung"} 1', answer.read().decode())

    def test_a_loading_worker_tells_its_supervisor_how_far_it_is(self):
        ours, theirs = os.pipe()
        with tempfile.TemporaryDirectory() as folder, os.fdopen(ours, "rb") as lines:
            worker = subprocess.Popen(
                [worker_binary(), "--model", MODEL, "--listen", f"unix:{folder}/w.sock", "--metrics-port", "0", "--log-level", "error"],
                env={**os.environ, "NUMOE_SUPERVISOR_PIPE": str(theirs)}, pass_fds=[theirs])
            try:
                os.close(theirs)
                self.assertRegex(lines.readline(), rb"^progress \d+\n$")
                until("serving", lambda: probe(f"unix:{folder}/w.sock").returncode == 0)
            finally:
                worker.kill()
                worker.wait()

    def test_sigterm_to_all_at_once_finishes_what_runs(self):
        with SupervisedCluster(coordinator_flags=["--max-num-seqs", "2", "--deterministic"]) as cluster, \
                concurrent.futures.ThreadPoolExecutor(6) as pool:
            expected = cluster.post(TEXT, LONG)["choices"][0]["text"]
            running = [pool.submit(cluster.post, TEXT, LONG) for _ in range(6)]
            until("all are there", lambda: arrived(cluster) == 7)
            for daemon in (cluster.supervisor, cluster.coordinator):  # this is what the kubelet does
                daemon.process.send_signal(signal.SIGTERM)
            for request in running:
                self.assertEqual(request.result()["choices"][0]["text"], expected)
            for daemon in (cluster.coordinator, cluster.supervisor):
                self.assertEqual(daemon.process.wait(30), 0, daemon.log()[-2000:])
            self.assertEqual(glob.glob(cluster.folder + "/*.sock"), [])

    def test_process_1_of_a_container_takes_signals_and_reaps(self):
        alone = ["unshare", "--pid", "--fork", "--mount-proc"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
            self.skipTest("this machine does not let us make a PID namespace")
        cluster = SupervisedCluster()
        try:
            cluster.supervisor.argv = [*alone, *cluster.supervisor.argv]
            cluster.supervisor.start()
            until("serving", lambda: probe(cluster.health).returncode == 0)
            self.assertIn(cluster.child(1), range(2, 100))  # its numbers begin at 1
            outer = cluster.supervisor.process.pid
            with open(f"/proc/{outer}/task/{outer}/children", encoding="ascii") as children:
                os.kill(int(children.read().split()[0]), signal.SIGTERM)
            self.assertEqual(cluster.supervisor.process.wait(30), 0, cluster.supervisor.log()[-2000:])
            self.assertEqual(glob.glob(cluster.folder + "/*.sock"), [])
        finally:
            cluster.__exit__(None, None, None)

    def test_a_second_supervisor_is_refused_at_once(self):
        cluster = SupervisedCluster()
        try:
            cluster.supervisor.start()
            until("serving", lambda: probe(cluster.health).returncode == 0)
            argv = [word if word != cluster.health else "none" for word in cluster.supervisor.argv]
            done = subprocess.run([*argv, "--log-level", "error"], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("worker-0.sock is served by another process", done.stderr)
            self.assertEqual(probe(cluster.health).returncode, 0)
        finally:
            cluster.__exit__(None, None, None)

    def test_workers_end_with_a_supervisor_that_is_killed(self):
        cluster = SupervisedCluster()
        try:
            cluster.supervisor.start()
            until("serving", lambda: probe(cluster.health).returncode == 0)
            children = [cluster.child(0), cluster.child(1)]
            cluster.supervisor.stop(signal.SIGKILL)
            until("no child", lambda: not any(runs_worker(pid) for pid in children))
            cluster.supervisor.start()  # no other process prevents it
            until("serving", lambda: probe(cluster.health).returncode == 0)
        finally:
            if cluster.supervisor.process is not None:
                cluster.supervisor.stop()
            cluster.__exit__(None, None, None)

    def test_a_worker_that_cannot_start_ends_it_with_its_line(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([worker_binary(), "--supervise", "--model", empty, "--listen", f"unix:{folder}",
                                   "--metrics-port", "0", "--log-level", "error"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            lines = done.stderr.strip().splitlines()
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertRegex(lines[0], "^numoe-expert-worker: worker 0 could not be started in 4 tries: exit code 2: .*" + re.escape(empty))

    def test_a_refusal_that_another_try_does_not_mend_is_not_tried_again(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([worker_binary(), "--supervise", "--local-workers", "4", "--model", MODEL, "--listen",
                                   f"unix:{folder}", "--metrics-port", "0"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr.strip().splitlines()[-1], "^numoe-expert-worker: worker [0-3] cannot be started: exit code 2: .*64")
        self.assertNotIn("started again", done.stdout + done.stderr)

    def test_what_does_not_fit_is_named_at_once(self):
        for flags, words in ((["--listen", "unix:/nonexistent"], ["/nonexistent", "a folder this process may write to"]),
                             (["--listen", "127.0.0.1:0"], ["--listen=127.0.0.1:0"]),
                             (["--numa-nodes", "0"], ["--numa-nodes", "--supervise"]),
                             (["--health-listen", "nowhere.invalid:1"], ["--health-listen=nowhere.invalid:1"]),
                             (["--worker-index", "3", "--worker-count", "3"], ["--worker-count=3"])):
            done = subprocess.run([worker_binary(), "--supervise", "--model", MODEL, "--log-level", "error", *flags],
                                  capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 2, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr.strip().splitlines()[-1])


class Pinning(unittest.TestCase):
    """One worker at a time with --exclusive-cpus."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.started = folder.name, []
        self.cpus = sorted(os.sched_getaffinity(0))

    def start(self, cpus, *flags):
        """-> the line that says what happened; the worker runs until the end of the test."""
        socket = f"unix:{self.folder}/{len(self.started)}.sock"
        worker = subprocess.Popen(["taskset", "-c", ",".join(map(str, cpus)), worker_binary(), "--model", MODEL, "--pinning",
                                   "required", "--listen", socket, "--metrics-port", "0", *flags], stderr=subprocess.PIPE, text=True)
        self.started.append(worker)
        self.addCleanup(lambda: (worker.kill(), worker.communicate()))
        for line in worker.stderr:
            if "serving" in line or line.startswith("numoe-expert-worker:"):
                return line
        return ""

    def skip_unless_cpus_can_be_own(self):
        quota = "/sys/fs/cgroup/cpu.max"
        limited = False
        if os.path.exists(quota):
            with open(quota, encoding="ascii") as f:
                limited = "max" not in f.read()
        if len(self.cpus) < 3 or limited:
            self.skipTest("this machine has too few CPUs, or a quota, which is what --pinning refuses")

    def test_cpus_that_everything_else_has_too_are_refused(self):
        self.assertIn("--pinning required: ", self.start(range(os.cpu_count())))

    def test_another_number_than_promised_is_refused(self):
        self.assertIn("--pinning required: 1 CPUs", self.start(self.cpus[:1], "--exclusive-cpus", "3"))

    def test_own_cpus_are_taken_and_a_node_has_one_worker(self):
        self.skip_unless_cpus_can_be_own()
        self.assertIn("serving", self.start(self.cpus[:1], "--exclusive-cpus", "1"))
        self.assertIn("another worker runs on node", self.start(self.cpus[:1], "--exclusive-cpus", "1"))
        self.started[0].kill()
        self.started[0].wait()
        self.assertIn("serving", self.start(self.cpus[:1]))

    def test_supervised_workers_have_their_own_nodes_or_none(self):
        done = subprocess.run([worker_binary(), "--supervise", "--model", MODEL, "--pinning", "required", "--listen",
                               f"unix:{self.folder}", "--exclusive-cpus", str(len(self.cpus)), "--local-workers", "33"],
                              capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--pinning required: ", done.stderr)


class Draining(unittest.TestCase):
    """What deploy/DRAIN.md promises."""

    def test_a_coordinator_finishes_what_it_has_and_takes_nothing_new(self):
        with Cluster(BIN, MODEL, coordinator_flags=["--max-num-seqs", "1"]) as cluster, \
                concurrent.futures.ThreadPoolExecutor(20) as pool:
            expected = cluster.post(TEXT, LONG)["choices"][0]["text"]
            running = [pool.submit(cluster.post, TEXT, LONG) for _ in range(20)]
            until("all are there", lambda: arrived(cluster) == 21)
            cluster.coordinator.process.send_signal(signal.SIGTERM)
            until("draining", lambda: json.loads(cluster.request("GET", "/health")[2])["status"] == "draining")
            self.assertEqual(cluster.request("GET", "/health")[0], 503)
            status, headers, text = cluster.request("POST", TEXT, {"prompt": "x", "max_tokens": 1})
            self.assertEqual(status, 503, text)
            self.assertIn("Retry-After", headers)
            self.assertIn("draining", json.loads(text)["error"]["message"])
            for request in running:
                self.assertEqual(request.result()["choices"][0]["text"], expected)
            self.assertEqual(cluster.coordinator.process.wait(30), 0)

    def test_a_worker_stays_while_its_coordinator_computes(self):
        with Cluster(BIN, MODEL) as cluster:
            expected = stream_text(cluster.stream(TEXT, LONG))

            def drain(events):
                if events == 5:
                    for worker in cluster.workers:
                        worker.process.send_signal(signal.SIGTERM)
            self.assertEqual(stream_text(cluster.stream(TEXT, LONG, drain)), expected)
            self.assertEqual(json.loads(cluster.request("GET", "/health")[2])["status"], "ready")
            for worker in cluster.workers:
                self.assertEqual(worker.process.wait(30), 0)
                self.assertNotIn("drain timeout", worker.log())

    def test_a_worker_leaves_at_the_drain_timeout_whoever_computes(self):
        with Cluster(BIN, MODEL, worker_flags=["--drain-timeout-ms", "0"]) as cluster:
            self.assertEqual(cluster.workers[0].stop(timeout=10), 0)
            self.assertIn("drain timeout", cluster.workers[0].log())

    def test_a_workers_health_port_follows_its_life(self):
        with tempfile.TemporaryDirectory() as folder:
            health = f"127.0.0.1:{free_port()}"
            worker = Daemon("worker", [worker_binary(), "--model", MODEL, "--listen", f"unix:{folder}/w.sock",
                                       "--metrics-port", "0", "--health-listen", health], folder)
            worker.start()
            until("serving", lambda: probe(health).returncode == 0)
            self.assertEqual(probe(f"unix:{folder}/w.sock").returncode, 0)
            self.assertEqual(worker.stop(timeout=10), 0)
            self.assertEqual(probe(health).returncode, 1)
