"""The kubelet's static policies and `pinning: required`: the processes get what the chart asks for."""
import json
import os
import unittest

import traffic
from node import STATIC
from release import OnANode

# A worker with a CPU of its own, and a coordinator on the rest of two CPUs.
WORKER, COORDINATOR = {"cpu": 1, "memory": "384Mi"}, {"cpu": "500m", "memory": "1Gi"}
VALUES = {"pinning": "required", "workers": {"count": 1, "resources": {"requests": WORKER, "limits": WORKER}},
          "coordinator": {"resources": {"requests": COORDINATOR, "limits": COORDINATOR}}}
QUOTA_PERIODS = {"cpu.cfs_quota_us": lambda text: int(text) != -1, "cpu.max": lambda text: text.split()[0] != "max"}


def cpus(process):
    """-> the CPUs that a process may use"""
    with open(f"/proc/{process}/status", encoding="ascii") as f:
        text = next(line.split()[1] for line in f if line.startswith("Cpus_allowed_list:"))
    ranges = [[int(n) for n in part.split("-")] for part in text.split(",")]
    return {cpu for r in ranges for cpu in range(r[0], r[-1] + 1)}


def has_quota(process):
    """Whether a CPU quota limits a process, by control groups of version 1 or 2."""
    with open(f"/proc/{process}/cgroup", encoding="ascii") as f:
        groups = {name: path for _, names, path in (line.strip().split(":", 2) for line in f) for name in names.split(",")}
    # In version 1 every hierarchy has a folder below /sys/fs/cgroup with the names of its controllers.
    folder = f"/sys/fs/cgroup/cpu{groups['cpu']}" if "cpu" in groups else f"/sys/fs/cgroup{groups['']}"
    for name, limits in QUOTA_PERIODS.items():
        if os.path.exists(f"{folder}/{name}"):
            with open(f"{folder}/{name}", encoding="ascii") as f:
                return limits(f.read())
    raise AssertionError(f"{folder} has none of {list(QUOTA_PERIODS)}")


@unittest.skipIf(os.cpu_count() < 2, "needs two CPUs: one is kept back for the system")
class Pinned(OnANode):
    NAMESPACE = "pinned"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.node.restart_kubelet(STATIC)
        cls.addClassCleanup(cls.node.restart_kubelet, {})
        kept = f"{os.cpu_count() * 1000 - 300}m"
        cls.node.wait("the node's new size", lambda: cls.node.allocatable()["cpu"] == kept)
        cls.helm("install", "numoe", cls.CHART, values=["values-nano.yaml", VALUES])
        cls.await_rollout("statefulset/numoe")

    def test_the_worker_has_a_cpu_of_its_own_and_no_quota(self):
        self.assertEqual(self.node.get("pod", "numoe-0", self.NAMESPACE)["status"]["qosClass"], "Guaranteed")
        worker, coordinator = self.process_of("worker-0"), self.process_of("coordinator")
        self.assertEqual(len(cpus(worker)), 1)
        self.assertEqual(cpus(worker) & cpus(coordinator), set())
        self.assertFalse(has_quota(worker), "a quota would stop what has its CPU to itself")
        self.assertTrue(has_quota(coordinator))

    def test_the_memory_manager_has_a_node_for_it(self):
        with open("/var/lib/kubelet/memory_manager_state", encoding="utf-8") as f:
            entries = list(json.load(f)["entries"].values())
        self.assertEqual([set(e) for e in entries], [{"coordinator", "worker-0"}])

    def test_it_starts_and_answers(self):
        """A ready worker has passed its own check of its CPUs (--pinning=required)."""
        self.assertIn(traffic.ANSWER, traffic.ask(self.service()))
        for name, status in self.containers().items():
            self.assertEqual(status["restartCount"], 0, name)
