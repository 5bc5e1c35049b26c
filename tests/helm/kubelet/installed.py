"""Applies the manifest deploy/manifests/nano.yaml unchanged, and checks what its pods are on a node and how they recover."""
import os
import signal
from datetime import datetime, timezone

import chart
import traffic
from release import OnANode

GRACE_S = 60  # the grace period of the manifest's pods, which a hung process would get if its probe did not have one of its own, of 5 s
YOUNG_S = 15  # a container that has run for 10 s when a kubelet starts remains ready; a younger one has to pass its probe first


def seconds_between(first, last):
    return (datetime.fromisoformat(last.replace("Z", "+00:00")) - datetime.fromisoformat(first.replace("Z", "+00:00"))).total_seconds()


class Installed(OnANode):
    NAMESPACE = "numoe"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kubectl("apply", "--server-side", "-f", os.path.join(chart.ROOT, "deploy/manifests/nano.yaml"))
        cls.await_rollout("statefulset/numoe")
        cls.server = cls.service()
        cls.expected = traffic.Stream(cls.server).result()

    def test_1_all_are_ready_by_their_probes_and_a_question_is_answered_through_the_service(self):
        containers = self.containers()
        self.assertEqual(set(containers), {"coordinator", "worker-0", "worker-1"})
        for name, status in containers.items():
            self.assertTrue(status["started"] and status["ready"], name)
            self.assertEqual(status["restartCount"], 0, name)
        self.assertIn(traffic.ANSWER, traffic.ask(self.server))

    def test_2_what_a_process_may_do(self):
        for container in ("coordinator", "worker-0"):
            process = self.process_of(container)
            with self.subTest(container), open(f"/proc/{process}/status", encoding="ascii") as f:
                status = dict(line.split(":\t", 1) for line in f.read().splitlines())
                self.assertEqual(status["Uid"].split(), ["10001"] * 4)
                self.assertEqual({status[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")}, {"0" * 16})
                self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
            with open(f"/proc/{process}/mountinfo", encoding="ascii") as f:
                options = {line.split()[4]: line.split()[5].split(",") for line in f}
            self.assertIn("ro", options["/"])
            self.assertIn("rw", options["/run/numoe"])

    def stream_while(self, what):
        """Runs a stream while `what` is done; its text is that of an undisturbed one."""
        stream = traffic.Stream(self.server)
        stream.await_events(20)
        what()
        self.assertLess(stream.events, stream.TOKENS - 1, "the stream had ended before")
        self.assertEqual(stream.result(240), self.expected)

    def test_3_a_killed_worker_is_started_again_and_its_streams_go_on(self):
        before = self.containers()["worker-0"]["restartCount"]
        self.stream_while(lambda: os.kill(self.process_of("worker-0"), signal.SIGKILL))
        self.await_restarted("worker-0", before + 1, 120)
        self.assertEqual(self.containers()["worker-0"]["lastState"]["terminated"]["exitCode"], 128 + signal.SIGKILL)
        self.assertEqual(self.containers()["coordinator"]["restartCount"], 0)

    def test_4_a_hung_worker_is_ended_by_its_probe_without_the_pods_grace(self):
        before = self.containers()["worker-1"]["restartCount"]
        self.stream_while(lambda: os.kill(self.process_of("worker-1"), signal.SIGSTOP))
        self.await_restarted("worker-1", before + 1, 240)
        kills = [e for e in self.node.list("events", self.NAMESPACE) if e["reason"] == "Killing" and "worker-1" in e["message"]]
        self.assertRegex(kills[-1]["message"], "failed liveness probe, will be restarted")
        ended = self.containers()["worker-1"]["lastState"]["terminated"]["finishedAt"]
        self.assertLess(seconds_between(kills[-1]["lastTimestamp"], ended), GRACE_S / 2)

    def age_s(self):
        """The time of the youngest container."""
        started = [status["state"]["running"]["startedAt"] for status in self.containers().values()]
        return min(seconds_between(s, datetime.now(timezone.utc).isoformat()) for s in started)

    def test_5_kubelet_and_containerd_restart_under_the_pods(self):
        before = {name: status["restartCount"] for name, status in self.containers().items()}
        self.await_true("containers that a kubelet does not take for new ones", lambda: self.age_s() > YOUNG_S)
        with traffic.Poller(self.server) as poller:
            for process in (self.node.kubelet, self.node.containerd):
                self.node.kill(process)
            poller.await_answers(10)
            self.node.start_containerd()
            self.node.start_kubelet()
            # Kubelet and containerd manage the pods again, because a command in a pod needs both.
            self.await_true("a command in the pod", lambda: "numoe" in self.kubectl("exec", "numoe-0", "-c", "worker-0", "--", "ls", "/run"))
            self.await_true("readiness", lambda: all(s["ready"] for s in self.containers().values()))
            poller.await_answers(10)
        self.assertEqual(poller.failed, [])
        self.assertEqual({name: status["restartCount"] for name, status in self.containers().items()}, before)
