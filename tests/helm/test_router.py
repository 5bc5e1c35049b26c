"""The router in front of several coordinators: its flags, who may call it and what it may call, and what refers to it."""
import os
import re
import unittest

import chart
import test_refusals

TWO = chart.merged(test_refusals.PLAIN, {"persistence": {"accessModes": ["ReadWriteMany"]}, "replicas": 2, "router": {"enabled": True}})
TLS = {"tls": {"enabled": True, "certManager": {"enabled": True, "issuerRef": {"name": "ca"}}}}
PEER = {"app.kubernetes.io/name": "numoe", "app.kubernetes.io/instance": "numoe"}
ROUTER, HOST, TEST = ({**PEER, "app.kubernetes.io/component": component} for component in ("router", "host", "test"))


def deployment(*values):
    return chart.find(chart.render(*values), "Deployment", "numoe-router")


def router_of(*values):
    return chart.container(deployment(*values), "router")


def sources(policy, port):
    """The `from` of the rule that opens a port; None if everyone may call it."""
    return next(rule.get("from") for rule in policy["spec"]["ingress"] if {"port": port, "protocol": "TCP"} in rule["ports"])


class Router(unittest.TestCase):
    def test_not_without_being_asked_for(self):
        for values in set(chart.VALUES) - {"values-k2.5-2gpu.yaml"}:
            self.assertNotIn("Deployment", chart.kinds(chart.render(values)))
            self.assertNotIn("router", chart.template(values))

    def test_backends_are_the_coordinators(self):
        """It finds them by the StatefulSet's headless Service, whose name has the addresses of its pods, at the port where they serve."""
        for values in (TWO, chart.merged(TWO, {"replicas": 5, "coordinator": {"port": 8000}})):
            objects = chart.render(values)
            hosts = chart.find(objects, "StatefulSet", "numoe")
            port = chart.flags(chart.container(hosts, "coordinator"))["port"]
            headless = chart.find(objects, "Service", hosts["spec"]["serviceName"])
            self.assertEqual([str(p["port"]) for p in headless["spec"]["ports"]], [port])
            self.assertTrue(headless["spec"]["publishNotReadyAddresses"], "a coordinator that drains has its name")
            self.assertEqual(chart.flags(router_of(values))["backends"], f"dns+http://{headless['metadata']['name']}:{port}")
            self.assertEqual(headless["spec"]["clusterIP"], "None", "its name has the pods' addresses and none of its own")
            self.assertNotIn("ipFamilyPolicy", headless["spec"], "one family: a pod with two addresses is one backend")

    def test_as_many_as_the_router_takes(self):
        with open(os.path.join(chart.ROOT, "coordinator", "router", "router_limits.h"), encoding="utf-8") as f:
            most = int(re.search(r"kRouterBackendsMax = (\d+);", f.read()).group(1))
        gpus = {"coordinator": {"gpu": {"count": 4}}}
        for count, more in ((most, {}), (most // 4, gpus), (most, {"autoscaling": {"enabled": True}})):
            def values(replicas, more=more):
                scaled = {"autoscaling": {"enabled": True, "maxReplicas": replicas}} if "autoscaling" in more else {"replicas": replicas}
                return chart.merged(TWO, {**more, **scaled})
            self.assertTrue(chart.render(values(count)))
            with self.assertRaisesRegex(chart.Refused, f"at most {most} "):
                chart.render(values(count + 1))

    def test_coordinators_are_not_restarted_for_it(self):
        """Pods that took half an hour to load are not replaced when the router is added, removed, or gets another coordinator."""
        def pods(changes):
            return chart.find(chart.render(chart.merged(TWO, changes)), "StatefulSet", "numoe")["spec"]["template"]
        for changes in ({"router": {"enabled": False}}, {"replicas": 3}, {"router": {"replicas": 2, "flags": {"log-level": "debug"}}}):
            self.assertEqual(pods(changes), pods({}))
            self.assertEqual(pods(chart.merged(TLS, changes)), pods(TLS))

    def test_it_is_not_restarted_for_more_coordinators(self):
        for base in ({}, TLS):
            for changes in ({"replicas": 5}, {"autoscaling": {"enabled": True}}):
                before, after = (chart.render(chart.merged(TWO, chart.merged(base, c))) for c in ({}, changes))
                self.assertEqual(chart.find(before, "Deployment"), chart.find(after, "Deployment"))
                if base:
                    self.assertEqual(chart.find(before, "Certificate"), chart.find(after, "Certificate"))

    def test_scaled_coordinators(self):
        """Scaling asks for the coordinators' series, which have the label of the Service that their monitor selects."""
        values = chart.merged(TWO, {"replicas": 1, "autoscaling": {"enabled": True}, "metrics": {"monitors": {"enabled": True}},
                                    "coordinator": {"gpu": {"count": 2}}})
        objects = chart.render(values)
        self.assertNotIn("replicas", chart.find(objects, "StatefulSet", "numoe")["spec"])
        for trigger, metric in zip(chart.find(objects, "ScaledObject")["spec"]["triggers"], ("waiting", "running")):
            self.assertEqual(trigger["metadata"]["query"], f'sum(numoe_requests_{metric}{{namespace="numoe",service="numoe-hosts"}})')
        without = chart.render(chart.merged(values, {"router": {"enabled": False}, "coordinator": {"gpu": {"count": 1}}}))
        self.assertIn('service="numoe"', chart.find(without, "ScaledObject")["spec"]["triggers"][0]["metadata"]["query"])
        self.assertEqual(chart.flags(router_of(values))["backends"], "dns+http://numoe-hosts:8080,dns+http://numoe-hosts:8090")

    def test_backends_with_tls(self):
        objects = chart.render(chart.merged(TWO, TLS))
        d = chart.find(objects, "Deployment")
        c = chart.container(d, "router")
        self.assertEqual(chart.flags(c)["backends"], "dns+https://numoe-hosts.numoe.svc:8080")
        certificate = chart.find(objects, "Certificate")["spec"]
        self.assertIn("numoe-hosts.numoe.svc", certificate["dnsNames"], "the name by which the router calls coordinators")
        self.assertIn("numoe.numoe.svc", certificate["dnsNames"], "the router's own name")
        # It serves with the certificate, and trusts its CA.
        self.assertEqual(chart.flags(c)["ssl-certfile"], "/etc/numoe/tls/tls.crt")
        self.assertEqual(chart.flags(c)["ssl-keyfile"], "/etc/numoe/tls/tls.key")
        self.assertEqual(c["env"], [{"name": "SSL_CERT_FILE", "value": "/etc/numoe/tls/ca.crt"}])
        self.assertEqual(d["spec"]["template"]["spec"]["volumes"],
                         [{"name": "tls", "secret": {"secretName": certificate["secretName"], "defaultMode": 0o440}}])
        for probe in ("readinessProbe", "livenessProbe"):
            self.assertEqual(c[probe]["httpGet"]["scheme"], "HTTPS")
        without = chart.find(chart.render(chart.merged(TWO, {**TLS, "router": {"enabled": False}})), "Certificate")["spec"]
        self.assertEqual([n for n in without["dnsNames"] if "-hosts" in n], [])

    def test_keys_are_the_coordinators(self):
        """The router passes keys on: it has no Secret with them, and no access to the coordinators' one."""
        objects = chart.render(chart.merged(TWO, {"apiKeys": {"secretName": "keys"}, "coordinator": {"gpu": {"count": 1}}}))
        d = chart.find(objects, "Deployment")
        self.assertNotIn("volumes", d["spec"]["template"]["spec"])
        c = chart.container(d, "router")
        self.assertEqual(set(chart.flags(c)), {"backends", "host", "port", "drain-timeout-ms", "log-format"})
        self.assertNotIn("nvidia.com/gpu", c["resources"]["limits"])
        self.assertFalse(c["image"].endswith("-cuda"), "it has no GPU")

    def test_probes_are_its_own(self):
        c = router_of(TWO)
        self.assertEqual({c[p]["httpGet"]["path"] for p in ("readinessProbe", "livenessProbe")}, {"/health", "/version"})
        self.assertEqual(c["livenessProbe"]["httpGet"]["path"], "/version", "it must not be killed for coordinators that load")
        self.assertNotIn("startupProbe", c)

    def test_it_waits_as_long_as_a_coordinator_may_load(self):
        values = chart.merged(TWO, {"model": {"sizeGiB": 500}})
        objects = chart.render(values)
        start = chart.container(chart.find(objects, "StatefulSet"), "coordinator")["startupProbe"]
        self.assertGreater(chart.find(objects, "Deployment")["spec"]["progressDeadlineSeconds"],
                           start["failureThreshold"] * start["periodSeconds"])

    def test_it_ends_as_the_coordinators_do(self):
        values = chart.merged(TWO, {"coordinator": {"drainSeconds": 600, "preStopSeconds": 30}})
        d, hosts = deployment(values), chart.find(chart.render(values), "StatefulSet", "numoe")
        c, coordinator = chart.container(d, "router"), chart.container(hosts, "coordinator")
        self.assertEqual(chart.flags(c)["drain-timeout-ms"], chart.flags(coordinator)["drain-timeout-ms"])
        self.assertEqual(c["lifecycle"], coordinator["lifecycle"])
        self.assertLess(30 + 600 + 10, d["spec"]["template"]["spec"]["terminationGracePeriodSeconds"])
        self.assertEqual(d["spec"]["strategy"]["rollingUpdate"], {"maxUnavailable": 0, "maxSurge": 1})

    def test_clients_reach_the_router(self):
        objects = chart.render(chart.merged(TWO, {"ingress": {"enabled": True, "host": "llm.example.com"}}), extra=())
        service = chart.find(objects, "Service", "numoe")
        labels = chart.find(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(service["spec"]["selector"], ROUTER)
        self.assertLessEqual(ROUTER.items(), labels.items())
        self.assertEqual(chart.find(objects, "Deployment")["spec"]["selector"]["matchLabels"], ROUTER)
        self.assertEqual(service["spec"]["ports"][0]["targetPort"], router_of(TWO)["ports"][0]["name"])
        self.assertEqual(chart.find(objects, "Service", "numoe-hosts")["spec"]["selector"], HOST)
        backend = chart.find(objects, "Ingress")["spec"]["rules"][0]["http"]["paths"][0]["backend"]
        self.assertEqual(backend["service"], {"name": "numoe", "port": {"name": service["spec"]["ports"][0]["name"]}})
        env = {e["name"]: e["value"] for e in chart.find(objects, "Pod")["spec"]["containers"][0]["env"]}
        self.assertEqual(env["URL"], "http://numoe:8080", "helm test asks the Service")

    def test_network_policies(self):
        clients, scrapers = [{"podSelector": {"matchLabels": {"app": "web"}}}], [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
        asked, test = [{"podSelector": {"matchLabels": ROUTER}}], [{"podSelector": {"matchLabels": TEST}}]
        for values, of_router, of_hosts in (
                ({}, None, asked),
                ({"networkPolicy": {"apiFrom": clients}}, clients + test, asked),
                ({"networkPolicy": {"apiFrom": clients, "metricsFrom": scrapers}}, clients + scrapers + test, asked + scrapers),
                ({"metrics": {"monitors": {"enabled": True}}}, None, asked + [{"namespaceSelector": {}}]),
                ({"metrics": {"monitors": {"enabled": True}}, "networkPolicy": {"apiFrom": clients}}, clients + test, asked + clients)):
            with self.subTest(values):
                objects = chart.render(chart.merged(TWO, values))
                policy = chart.find(objects, "NetworkPolicy", "numoe-router")
                self.assertEqual(policy["spec"]["podSelector"]["matchLabels"], ROUTER)
                self.assertEqual(sources(policy, 8080), of_router)
                self.assertEqual(sources(chart.find(objects, "NetworkPolicy", "numoe"), 8080), of_hosts)
                names, coordinators = policy["spec"]["egress"]
                self.assertEqual({p["port"] for p in names["ports"]}, {53, 5353})
                self.assertEqual(coordinators, {"ports": [{"port": 8080, "protocol": "TCP"}], "to": [{"podSelector": {"matchLabels": HOST}}]})
        self.assertNotIn("NetworkPolicy", chart.kinds(chart.render(TWO, {"networkPolicy": {"enabled": False}})))

    def test_several_routers(self):
        def made(replicas):
            objects = chart.render(chart.merged(TWO, {"router": {"replicas": replicas}}))
            return chart.find(objects, "Deployment")["spec"], [o for o in objects if o["kind"] == "PodDisruptionBudget"]
        spec, budgets = made(1)
        self.assertEqual((spec["replicas"], [b["metadata"]["name"] for b in budgets]), (1, ["numoe"]))
        self.assertNotIn("affinity", spec["template"]["spec"])
        spec, budgets = made(3)
        self.assertEqual((spec["replicas"], [b["metadata"]["name"] for b in budgets]), (3, ["numoe", "numoe-router"]))
        self.assertEqual(budgets[1]["spec"]["selector"]["matchLabels"], ROUTER)
        # If different nodes were required, a rolling update might find no node for the new pod.
        apart = spec["template"]["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        self.assertEqual(apart[0]["podAffinityTerm"]["labelSelector"]["matchLabels"], ROUTER)

    def test_monitors_see_both(self):
        """Exactly one monitor selects each Service, and the monitor's port is a port of the Service."""
        for tls in ({}, TLS):
            objects = chart.render(chart.merged(TWO, {**tls, "metrics": {"monitors": {"enabled": True}}}))
            seen = {}
            for monitor in (o for o in objects if o["kind"] == "ServiceMonitor"):
                selector, endpoint = monitor["spec"]["selector"], monitor["spec"]["endpoints"][0]
                for service in (o for o in objects if o["kind"] == "Service"):
                    if chart.matches(selector, service["metadata"]["labels"]):
                        self.assertIn(endpoint["port"], {p["name"] for p in service["spec"]["ports"]})
                        seen.setdefault(service["metadata"]["name"], []).append(monitor["metadata"]["name"])
                self.assertEqual(endpoint.get("scheme", "http"), "https" if tls else "http")
            self.assertEqual(seen, {"numoe": ["numoe-router"], "numoe-hosts": ["numoe"]})

    def test_flags_and_placement(self):
        values = chart.merged(TWO, {"nodeSelector": {"gpu": "yes"}, "router": {
            "flags": {"allowed-origins": "https://example.com", "log-level": "debug"}, "nodeSelector": {"pool": "small"},
            "resources": {"limits": {"memory": "2Gi"}}}})
        d = deployment(values)
        self.assertEqual(d["spec"]["template"]["spec"]["nodeSelector"], {**chart.PLATFORM, "pool": "small"})
        c = chart.container(d, "router")
        self.assertEqual((chart.flags(c)["allowed-origins"], chart.flags(c)["log-level"]), ("https://example.com", "debug"))
        self.assertEqual(c["resources"]["limits"]["memory"], "2Gi")
        other = deployment(chart.merged(values, {"router": {"nodeSelector": None}}))
        self.assertEqual(other["spec"]["template"]["spec"]["nodeSelector"], chart.PLATFORM)

    def test_coordinators_that_share_workers(self):
        """One coordinator for each GPU, all on the same remote workers, at one address."""
        objects = chart.render(chart.merged(TWO, {"workers": {"count": 0}, "coordinator": {"gpu": {"count": 1}},
                                                  "remoteWorkers": {"enabled": True, "replicas": 2}}))
        policy = chart.find(objects, "NetworkPolicy", "numoe-workers")
        self.assertEqual(policy["spec"]["ingress"][0]["from"], [{"podSelector": {"matchLabels": HOST}}], "the router asks no worker")
        self.assertEqual(chart.flags(chart.container(chart.find(objects, "Deployment"), "router"))["backends"], "dns+http://numoe-hosts:8080")


if __name__ == "__main__":
    unittest.main()
