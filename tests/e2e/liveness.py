"""GET /live fails only for a process that a restart would help, never for one that waits for others."""
import concurrent.futures
import ctypes
import glob
import json
import os
import signal
import unittest

import supervision
from daemons import Cluster, stream_text
from supervision import LONG, MODEL, TEXT, until

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # an option of waitpid that includes threads
SOON = ["--live-deadline-ms", "100", "--worker-deadline-ms", "300000"]


def live(cluster, timeout=60):
    status, _, text = cluster.request("GET", "/live", timeout=timeout)
    report = json.loads(text)
    assert (status == 200) == (report["status"] == "alive"), (status, text)
    return report


class HeldThread:
    """One thread of a running process that is stopped alone. Only one thread of the test may call the methods."""

    libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, pid, name):
        for comm in glob.glob(f"/proc/{pid}/task/*/comm"):
            with open(comm, encoding="ascii") as f:
                if f.read().strip() == name:
                    self.tid = int(comm.split("/")[4])
        if self.ptrace(PTRACE_SEIZE) != 0:
            raise unittest.SkipTest(f"this machine does not let us hold a thread: {os.strerror(ctypes.get_errno())}")

    def ptrace(self, request):
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        return self.libc.ptrace(request, self.tid, None, None)

    def stop(self):
        assert self.ptrace(PTRACE_INTERRUPT) == 0
        os.waitpid(self.tid, WALL)

    def go_on(self):
        assert self.ptrace(PTRACE_DETACH) == 0


class Liveness(unittest.TestCase):
    def test_waiting_for_workers_work_and_the_end_is_life(self):
        cluster = Cluster(supervision.BIN, MODEL, coordinator_flags=SOON)
        try:
            port = str(supervision.free_port())
            cluster.coordinator.argv[cluster.coordinator.argv.index("--port") + 1] = port
            with open(cluster.port_file, "w", encoding="ascii") as f:  # the coordinator writes the file once it serves
                f.write(port)
            cluster.coordinator.start()
            until("waits for the workers", lambda: "workers" in cluster.await_health("starting")["detail"])
            self.assertIn("workers", live(cluster)["detail"])
            self.assertEqual(cluster.request("GET", "/health")[0], 503)
            for worker in cluster.workers:
                worker.start()
            cluster.await_health("ready")
            self.assertEqual(live(cluster)["status"], "alive")
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                running = pool.submit(cluster.post, TEXT, {**LONG, "max_tokens": 2000})
                until("it runs", lambda: supervision.arrived(cluster) == 1)
                cluster.coordinator.process.send_signal(signal.SIGTERM)
                until("draining", lambda: running.done() or cluster.await_health("draining"))
                if not running.done():
                    self.assertEqual(live(cluster)["status"], "alive")
                running.result()
            self.assertEqual(cluster.coordinator.process.wait(30), 0)
        finally:
            cluster.__exit__(None, None, None)

    def test_workers_that_hang_or_die_do_not_make_it_dead(self):
        with Cluster(supervision.BIN, MODEL, coordinator_flags=[*SOON, "--deterministic"]) as cluster, \
                concurrent.futures.ThreadPoolExecutor(1) as pool:
            expected = stream_text(cluster.stream(TEXT, LONG))
            hung = []

            def hang(events):
                if events == 10:
                    for worker in cluster.workers:
                        worker.process.send_signal(signal.SIGSTOP)
                    hung.append(events)
            running = pool.submit(cluster.stream, TEXT, LONG, hang, 300)
            until("they hang", lambda: hung)

            def noticed():
                self.assertEqual(live(cluster)["status"], "alive")
                return json.loads(cluster.request("GET", "/health")[2])["status"] == "degraded"
            until("their calls' deadline has passed", noticed, 120)
            self.assertEqual(live(cluster)["status"], "alive")
            for worker in cluster.workers:
                worker.process.kill()
                worker.process.wait()
            self.assertEqual(live(cluster)["status"], "alive")
            for worker in cluster.workers:
                worker.start()
            self.assertEqual(stream_text(running.result()), expected)
            self.assertEqual(live(cluster)["status"], "alive")

    def test_an_engine_that_does_not_move_is_dead_and_says_so(self):
        with Cluster(supervision.BIN, MODEL, coordinator_flags=[*SOON, "--deterministic"]) as cluster:
            expected = stream_text(cluster.stream(TEXT, LONG))

            def answers(thread):
                """False if the thread was stopped while it holds a lock that every answer needs: then no request is answered."""
                thread.stop()
                try:
                    return bool(live(cluster, timeout=5))
                except TimeoutError:
                    return False

            def hold(events):
                if events != 10:
                    return
                thread = HeldThread(cluster.coordinator.process.pid, "engine")
                while not answers(thread):
                    thread.go_on()
                    thread = HeldThread(cluster.coordinator.process.pid, "engine")
                # While it waits for a call it counts as dead, too, once the call's own deadline has passed.
                until("stuck", lambda: live(cluster)["status"] == "stuck", 120)
                self.assertIn("has made no progress", live(cluster)["detail"])
                thread.go_on()
                until("alive again", lambda: live(cluster)["status"] == "alive")
            self.assertEqual(stream_text(cluster.stream(TEXT, LONG, hold, 300)), expected)
