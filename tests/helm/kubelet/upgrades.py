"""A release of two hosts that Helm installs, upgrades and scales, while clients use it and a Prometheus scrapes it."""
import contextlib
import sys
import time

import traffic
from prometheus import Prometheus
from release import OnANode, few_cpus

VALUES = {"replicas": 2, "podAntiAffinity": "none", "workers": few_cpus("384Mi"), "coordinator": few_cpus("1Gi"), "router": few_cpus("256Mi")}
TARGETS_OF_A_HOST = 3


class Upgrades(OnANode):
    NAMESPACE = "upgrades"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.settings = ["values-nano.yaml", VALUES]
        cls.helm("install", "numoe", cls.CHART, values=cls.settings)
        cls.prometheus = Prometheus(cls.node, cls.NAMESPACE, *cls.settings)
        cls.addClassCleanup(cls.prometheus.close)
        cls.await_rollout("statefulset/numoe")
        cls.expected = traffic.Stream(cls.service()).result()

    @contextlib.contextmanager
    def traffic(self):
        """Clients that may notice nothing of what is done meanwhile."""
        server, begun = self.service(), time.monotonic()
        with traffic.Streams(server, self.expected) as first, traffic.Streams(server, self.expected) as second, \
                traffic.Poller(server) as poller:
            yield
            poller.await_answers(10)
        self.assertEqual(poller.failed, [])
        self.assertEqual(first.broken + second.broken, [])
        self.assertGreater(min(first.whole, second.whole), 0)
        print(f"{poller.ok} requests and {first.whole + second.whole} streams in {time.monotonic() - begun:.0f} s", file=sys.stderr)

    def upgrade(self, values, *workloads):
        type(self).settings = [*self.settings, values]
        self.helm("upgrade", "numoe", self.CHART, values=self.settings)
        for workload in workloads:
            self.await_rollout(workload)

    def pods(self, component):
        return {p["metadata"]["uid"] for p in self.node.list("pods", self.NAMESPACE, f"app.kubernetes.io/component={component}")}

    def test_1_helm_test_passes(self):
        self.assertRegex(self.helm("test", "numoe"), r"Phase:\s+Succeeded")

    def test_2_an_upgrade_is_not_noticed(self):
        before = self.pods("host")
        with self.traffic():
            self.upgrade({"podAnnotations": {"round": "2"}}, "statefulset/numoe")
        self.assertEqual(before & self.pods("host"), set())

    def test_3_scaling_is_not_noticed(self):
        with self.traffic():
            self.kubectl("scale", "statefulset/numoe", "--replicas=3")
            self.await_rollout("statefulset/numoe")
            self.kubectl("scale", "statefulset/numoe", "--replicas=2")
            self.await_true("the third pod's end", lambda: len(self.pods("host")) == 2)

    def test_4_an_upgrade_behind_the_router_is_not_noticed(self):
        self.upgrade({"router": {"enabled": True}}, "deployment/numoe-router", "statefulset/numoe")
        self.assertIn(traffic.ANSWER, traffic.ask(self.service()))
        before = self.pods("host") | self.pods("router")
        with self.traffic():
            self.upgrade({"podAnnotations": {"round": "3"}}, "deployment/numoe-router", "statefulset/numoe")
        self.await_true("the old pods' end", lambda: not before & (self.pods("host") | self.pods("router")))

    def test_5_prometheus_has_seen_it_all_and_no_alert_has_fired(self):
        self.await_true("every target is scraped", lambda: self.prometheus.answers("sum(up)") == 2 * TARGETS_OF_A_HOST + 1)
        self.assertGreater(self.prometheus.value("sum(sum_over_time(numoe_requests_running[1h]))"), 0)
        rules = [rule for group in self.prometheus.get("rules")["groups"] for rule in group["rules"]]
        self.assertGreater(len(rules), 10)
        self.assertEqual({(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"}, set())
        fired = self.prometheus.get("query", query='count_over_time(ALERTS{alertstate="firing"}[1h])', time=time.time())["result"]
        self.assertEqual([f["metric"] for f in fired], [])
