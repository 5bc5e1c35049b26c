"""A namespace with a release of the chart in it, and the questions that the tests ask about it."""
import json
import unittest

import chart
import cluster
import traffic


def few_cpus(memory):
    """Resources of a container that are so small that two CPUs have room for dozens."""
    return {"resources": {"requests": {"cpu": "50m", "memory": memory}, "limits": {"memory": memory}}}



class OnANode(unittest.TestCase):
    """Tests in a namespace that enforces Pod Security's "restricted"."""
    NAMESPACE = ""
    CHART = chart.CHART
    node = None  # set by cases.py

    @classmethod
    def setUpClass(cls):
        labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cls.NAMESPACE, "labels": labels}}
        cls.node.apply(json.dumps(own), "default")
        cls.addClassCleanup(cls.node.kubectl, "delete", "namespace", cls.NAMESPACE, "--wait=false")

    @classmethod
    def helm(cls, *arguments, values=()):
        return chart.helm(*arguments, "--namespace", cls.NAMESPACE, "--kubeconfig", cls.node.config, values=values)

    @classmethod
    def kubectl(cls, *arguments):
        return cls.node.kubectl("-n", cls.NAMESPACE, *arguments)

    @classmethod
    def await_rollout(cls, workload, seconds=180):
        try:
            cls.kubectl("rollout", "status", workload, f"--timeout={seconds}s")
        except cluster.Failed as error:
            raise AssertionError(f"{error}\n{cls.last_words()}") from error

    @classmethod
    def last_words(cls):
        """What an operator would look at after a failure."""
        pods = cls.node.list("pods", cls.NAMESPACE)
        events = [f"{e['reason']}: {e['message']}" for e in cls.node.list("events", cls.NAMESPACE)]
        return "\n".join([f"{p['metadata']['name']}: {json.dumps(p['status'].get('containerStatuses'))}" for p in pods] + events[-25:])

    @classmethod
    def service(cls, name="numoe"):
        """Whether the Service answers its clients, which is the case once kube-proxy knows ready pods."""
        server = traffic.server(cls.node.service_address(cls.NAMESPACE, name))
        server.await_health("ready")
        return server

    @classmethod
    def containers(cls, pod="numoe-0"):
        """-> {name of a container: its status}"""
        return {s["name"]: s for s in cls.node.get("pod", pod, cls.NAMESPACE)["status"].get("containerStatuses", ())}

    def await_true(self, what, ready, seconds=120):
        try:
            self.node.wait(what, ready, seconds)
        except cluster.Failed as error:
            raise AssertionError(f"{error}\n{self.last_words()}") from error

    def await_restarted(self, container, restarts, seconds, pod="numoe-0"):
        """Waits until that container has been restarted that often more, and all containers of the pod are ready."""
        self.await_true(f"the restart of {container}", lambda: self.containers(pod)[container]["restartCount"] == restarts
                        and all(s["ready"] for s in self.containers(pod).values()), seconds)

    def process_of(self, container, pod="numoe-0"):
        return self.node.process_of(self.NAMESPACE, pod, container)
