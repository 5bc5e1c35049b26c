"""Hosts with several GPUs: each GPU has a coordinator in a container of its own, and all use the same workers."""
import unittest

import chart
import test_refusals

VALUES = "values-k2.5-2gpu.yaml"
THREE = chart.merged(test_refusals.PLAIN, {"coordinator": {"gpu": {"count": 3}}, "router": {"enabled": True}})
MONITORED = {"metrics": {"monitors": {"enabled": True}}}


def hosts_of(*values):
    return chart.find(chart.render(*values), "StatefulSet", "numoe")


def ports_of(rule):
    return {(p["port"], p.get("endPort", p["port"])) for p in rule["ports"]}


class Gpus(unittest.TestCase):
    def test_a_host_with_one_is_as_it_was(self):
        """An upgrade changes no name and no port; nothing for further GPUs is rendered."""
        text = chart.template("values-k2-thinking-1gpu.yaml")
        for other in ("coordinator-1", "http-1", "8090"):
            self.assertNotIn(other, text)
        c = chart.container(hosts_of("values-k2-thinking-1gpu.yaml"), "coordinator")
        self.assertEqual((chart.flags(c)["port"], c["ports"]), ("8080", [{"name": "http", "containerPort": 8080}]))
        self.assertEqual(c["resources"]["limits"]["nvidia.com/gpu"], "1")
        self.assertTrue(c["image"].endswith("-cuda"))

    def test_each_has_a_coordinator_and_a_coordinator_one(self):
        for values, count in ((VALUES, 2), (THREE, 3)):
            coordinators = chart.coordinators(hosts_of(values))
            self.assertEqual([c["name"] for c in coordinators], ["coordinator", "coordinator-1", "coordinator-2"][:count])
            self.assertEqual({c["resources"]["limits"]["nvidia.com/gpu"] for c in coordinators}, {"1"})
            self.assertEqual([chart.flags(c)["device"] for c in coordinators], ["cuda"] * count)

    def test_they_differ_in_names_and_ports_alone(self):
        """Every coordinator has the probes, limits, mounts and drain of the first."""
        first, *others = chart.coordinators(hosts_of(THREE))
        for place, c in enumerate(others, 1):
            expected = repr(first).replace("'coordinator'", f"'coordinator-{place}'").replace("--port=8080", f"--port={8089 + place}")
            expected = expected.replace("'http'", f"'http-{place}'").replace("'containerPort': 8080", f"'containerPort': {8089 + place}")
            self.assertEqual(repr(c), expected)

    def test_they_share_the_hosts_workers(self):
        hosts = hosts_of(VALUES)
        workers = [chart.flags(c)["listen"] for c in chart.workers(hosts)]
        self.assertEqual(len(workers), 2)
        for c in chart.coordinators(hosts):
            self.assertEqual(chart.flags(c)["workers"].split(","), workers)
            self.assertIn({"name": "shm", "mountPath": "/dev/shm"}, c["volumeMounts"])
            self.assertIn({"name": "sockets", "mountPath": "/run/numoe"}, c["volumeMounts"])

    def test_workers_come_before_the_second_coordinator(self):
        """The kubelet assigns CPUs in this order: two coordinators first could take the CPUs of one socket's worker."""
        names = [c["name"] for c in hosts_of(THREE)["spec"]["template"]["spec"]["containers"]]
        self.assertEqual(names, ["coordinator", "worker-0", "worker-1", "coordinator-1", "coordinator-2"])

    def test_a_socket_has_room(self):
        """A worker and a coordinator on each of two sockets: 64 CPUs minus 2, and 384 GiB minus what the node keeps."""
        hosts = hosts_of(VALUES)
        for worker, coordinator in zip(chart.workers(hosts), chart.coordinators(hosts)):
            limits = [c["resources"]["limits"] for c in (worker, coordinator)]
            self.assertLessEqual(sum(x["cpu"] for x in limits), 64 - 2)
            self.assertLessEqual(sum(int(x["memory"].removesuffix("Gi")) for x in limits), 384 * 0.97)

    def test_a_mailbox_for_each(self):
        volumes = hosts_of(THREE)["spec"]["template"]["spec"]["volumes"]
        size = next(v for v in volumes if v["name"] == "shm")["emptyDir"]["sizeLimit"]
        self.assertEqual(size, f"{448 * 2 * 3 * 5 // 4}Mi")
        # 5 GiB, three mailboxes and 1 GiB.
        limits = {"workers": {"resources": {"limits": {"memory": f"{5 * 1024 + 3 * 448 + 1024}Mi"}}}}
        self.assertTrue(chart.render(THREE, limits))
        limits["workers"]["resources"]["limits"]["memory"] = f"{5 * 1024 + 3 * 448 + 1023}Mi"
        with self.assertRaisesRegex(chart.Refused, "mailbox of each coordinator"):
            chart.render(THREE, limits)

    def test_pinned_ones_are_guaranteed(self):
        values = chart.merged(test_refusals.PINNED, {"router": {"enabled": True}, "coordinator": {
            "gpu": {"count": 2}, "resources": {"requests": {"cpu": 2, "memory": "8Gi"}}}})
        for c in chart.coordinators(hosts_of(values)):
            self.assertEqual(c["resources"]["requests"], c["resources"]["limits"])

    def test_the_router_asks_all_of_all_hosts(self):
        values = chart.merged(THREE, {"replicas": 2, "persistence": {"accessModes": ["ReadWriteMany"]}})
        objects = chart.render(values)
        backends = chart.flags(chart.container(chart.find(objects, "Deployment"), "router"))["backends"].split(",")
        self.assertEqual(backends, [f"dns+http://numoe-hosts:{port}" for port in (8080, 8090, 8091)])

    def test_services_and_policies_have_their_ports(self):
        objects = chart.render(THREE, MONITORED)
        ports = {(p["name"], p["port"], p["targetPort"]) for p in chart.find(objects, "Service", "numoe-hosts")["spec"]["ports"]}
        self.assertEqual(ports, {("http", 8080, "http"), ("http-1", 8090, "http-1"), ("http-2", 8091, "http-2")})
        self.assertEqual([p["targetPort"] for p in chart.find(objects, "Service", "numoe")["spec"]["ports"]], ["http"], "the router's")
        numbers = {(8080, 8080), (8090, 8090), (8091, 8091)}
        of_hosts = chart.find(objects, "NetworkPolicy", "numoe")["spec"]["ingress"][0]
        self.assertEqual((ports_of(of_hosts), "from" in of_hosts), (numbers, True))
        self.assertEqual(ports_of(chart.find(objects, "NetworkPolicy", "numoe-router")["spec"]["egress"][1]), numbers)

    def test_each_is_scraped(self):
        """Prometheus labels a series with its container and instance, which distinguish the coordinators of a pod."""
        for count, ports in ((1, ["https"]), (2, ["http", "http-1"])):
            values = chart.merged(THREE, {"coordinator": {"gpu": {"count": count}}, "router": {"enabled": count > 1}})
            tls = {"tls": {"enabled": True, "secretName": "tls"}}
            endpoints = chart.find(chart.render(values, MONITORED, tls), "ServiceMonitor", "numoe")["spec"]["endpoints"]
            self.assertEqual([e["port"] for e in endpoints], ports)
            self.assertEqual({e["scheme"] for e in endpoints}, {"https"})

    def test_each_of_a_pool_is_scraped_and_counted(self):
        """With a pool there is no router, and the Service with an address has only the first coordinator of each pod."""
        pool = {"router": {"enabled": False}, "inferencePool": {"enabled": True}, "autoscaling": {"enabled": True}, "persistence": {"accessModes": ["ReadWriteMany"]}}
        objects = chart.render(chart.merged(THREE, {"coordinator": {"gpu": {"count": 2}}}), MONITORED, pool)
        monitor = chart.find(objects, "ServiceMonitor")
        self.assertEqual(len(monitor["spec"]["endpoints"]), 2)
        self.assertEqual(monitor["spec"]["selector"]["matchExpressions"], [{"key": "numoe/headless", "operator": "Exists"}])
        self.assertIn('service="numoe-hosts"', str(chart.find(objects, "ScaledObject")))

    def test_what_they_write_is_their_own(self):
        values = chart.merged(THREE, {"coordinator": {"flags": {"expert-heat-file": "/tmp/heat", "num-gpu-experts": 8, "max-total-tokens": 50000000}}})
        coordinators = [chart.flags(c) for c in chart.coordinators(hosts_of(values))]
        self.assertEqual([c["expert-heat-file"] for c in coordinators], ["/tmp/heat", "/tmp/heat.1", "/tmp/heat.2"])
        self.assertEqual({c["max-total-tokens"] for c in coordinators}, {"50000000"})


if __name__ == "__main__":
    unittest.main()
