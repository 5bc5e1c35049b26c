"""The Gateway API: a route to the Service, or to a pool from which an endpoint picker chooses; and the numbers that scaling uses."""
import re
import unittest

import chart
import test_refusals
from test_image import read
from test_router import HOST, PEER, TEST, sources

PLAIN = test_refusals.PLAIN
PARENTS = [{"name": "public", "namespace": "gateways"}]
POOL = chart.merged(PLAIN, {"persistence": {"accessModes": ["ReadWriteMany"]}, "replicas": 2, "inferencePool": {"enabled": True}})
PICKER = {**PEER, "app.kubernetes.io/component": "picker"}


class Routes(unittest.TestCase):
    def rule(self, *values):
        spec = chart.find(chart.render(*values, {"gateway": {"enabled": True, "parentRefs": PARENTS, "hostnames": ["llm.example.com"]}}), "HTTPRoute", "numoe")["spec"]
        self.assertEqual((spec["parentRefs"], spec["hostnames"]), (PARENTS, ["llm.example.com"]))
        (rule,) = spec["rules"]
        self.assertEqual(rule["timeouts"], {"request": "0s"}, "a long answer is not cut")
        return rule

    def test_to_the_service(self):
        self.assertEqual(self.rule(PLAIN, {"service": {"port": 80}})["backendRefs"], [{"name": "numoe", "port": 80}])

    def test_to_the_pool(self):
        self.assertEqual(self.rule(POOL)["backendRefs"], [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "numoe"}])


class Pools(unittest.TestCase):
    def test_members_are_the_coordinators(self):
        for gpus, ports in ((0, [8080]), (3, [8080, 8090, 8091])):
            objects = chart.render(POOL, {"coordinator": {"gpu": {"count": gpus}}})
            spec = chart.find(objects, "InferencePool", "numoe")["spec"]
            pod = chart.find(objects, "StatefulSet", "numoe")["spec"]["template"]
            self.assertLessEqual(spec["selector"]["matchLabels"].items(), pod["metadata"]["labels"].items())
            self.assertEqual([p["number"] for p in spec["targetPorts"]], ports)
            self.assertEqual([c["ports"][0]["containerPort"] for c in chart.coordinators(chart.find(objects, "StatefulSet", "numoe"))], ports)

    def test_the_picker_is_found_and_may_ask(self):
        objects = chart.render(POOL)
        reference = chart.find(objects, "InferencePool")["spec"]["endpointPickerRef"]
        self.assertEqual(reference, {"name": "numoe-picker", "port": {"number": 9002}, "failureMode": "FailOpen"})
        service, picker = chart.find(objects, "Service", reference["name"]), chart.find(objects, "Deployment", "numoe-picker")
        self.assertIn(reference["port"]["number"], [p["port"] for p in service["spec"]["ports"]])
        self.assertEqual(service["spec"]["selector"], picker["spec"]["template"]["metadata"]["labels"])
        (c,) = picker["spec"]["template"]["spec"]["containers"]
        given = {a.split("=", 1)[0]: a.split("=", 1)[1] for a in c["args"]}
        self.assertEqual((given["--pool-name"], given["--pool-namespace"], given["--grpc-port"]), ("numoe", "numoe", "9002"))
        self.assertEqual(chart.yaml.safe_load(given["--config-text"])["kind"], "EndpointPickerConfig")
        # The only pod with a token: it may read pods and its pool in its own namespace.
        spec = picker["spec"]["template"]["spec"]
        self.assertEqual((spec["automountServiceAccountToken"], spec["serviceAccountName"]), (True, "numoe-picker"))
        self.assertEqual(chart.find(objects, "RoleBinding")["subjects"], [{"kind": "ServiceAccount", "name": "numoe-picker", "namespace": "numoe"}])
        self.assertEqual({verb for rule in chart.find(objects, "Role")["rules"] for verb in rule["verbs"]}, {"get", "list", "watch"})
        self.assertNotIn("ClusterRole", chart.kinds(objects))
        for owner, other in chart.pod_specs(chart.render(POOL, extra=())):
            if owner["metadata"]["name"] != "numoe-picker":
                self.assertIs(other["automountServiceAccountToken"], False)

    def test_the_picker_is_restricted(self):
        spec = chart.find(chart.render(POOL), "Deployment", "numoe-picker")["spec"]["template"]["spec"]
        (c,) = spec["containers"]
        self.assertTrue(spec["securityContext"]["runAsNonRoot"])
        self.assertEqual((c["securityContext"]["readOnlyRootFilesystem"], c["securityContext"]["capabilities"]), (True, {"drop": ["ALL"]}))

    def test_policies_let_it_work(self):
        clients = [{"podSelector": {"matchLabels": {"app": "web"}}}]
        objects = chart.render(POOL, {"networkPolicy": {"apiFrom": clients}})
        allowed = [{"podSelector": {"matchLabels": labels}} for labels in (TEST, PICKER)]
        self.assertEqual(sources(chart.find(objects, "NetworkPolicy", "numoe"), 8080), clients + allowed)
        policy = chart.find(objects, "NetworkPolicy", "numoe-picker")["spec"]
        self.assertEqual(policy["ingress"][0], {"ports": [{"port": 9002, "protocol": "TCP"}], "from": clients})
        self.assertEqual(policy["egress"][-1], {"ports": [{"port": 8080, "protocol": "TCP"}], "to": [{"podSelector": {"matchLabels": HOST}}]})

    def test_a_picker_of_yours(self):
        objects = chart.render(POOL, {"inferencePool": {"failureMode": "FailClose", "picker": {"enabled": False, "serviceName": "epp", "port": 9100}}})
        self.assertEqual(chart.find(objects, "InferencePool")["spec"]["endpointPickerRef"], {"name": "epp", "port": {"number": 9100}, "failureMode": "FailClose"})
        self.assertNotIn("Deployment", chart.kinds(objects))
        self.assertNotIn("Role", chart.kinds(objects))

    def test_it_reads_metrics_that_there_are(self):
        """The picker reads vLLM's names, which the coordinators serve beside their own."""
        known = read("common", "observe", "metric_list.h")
        for name in ("vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"):
            self.assertIn(f'"{name}"', known)


class Scaling(unittest.TestCase):
    def test_a_prometheus_that_wants_authentication(self):
        scaled = chart.merged(PLAIN, {"persistence": {"accessModes": ["ReadWriteMany"]}, "autoscaling": {"enabled": True}})
        triggers = chart.find(chart.render(scaled, {"autoscaling": {"authentication": {"name": "thanos", "kind": "ClusterTriggerAuthentication"}}}), "ScaledObject")["spec"]["triggers"]
        for trigger in triggers:
            self.assertEqual(trigger["authenticationRef"], {"name": "thanos", "kind": "ClusterTriggerAuthentication"})
            self.assertEqual(trigger["metadata"]["authModes"], "bearer")
        for trigger in chart.find(chart.render(scaled), "ScaledObject")["spec"]["triggers"]:
            self.assertNotIn("authenticationRef", trigger)

    def test_the_handbooks_adapter_makes_the_metrics_that_are_asked_for(self):
        text = read("deploy", "README.md")
        (rules,) = re.findall(r"```yaml\n(# prometheus-adapter.*?)```", text, re.DOTALL)
        (rule,) = chart.yaml.safe_load(rules)["rules"]["custom"]
        series = re.search(r'__name__=~"([^"]*)"', rule["seriesQuery"]).group(1)
        scaled = chart.merged(PLAIN, {"persistence": {"accessModes": ["ReadWriteMany"]}, "autoscaling": {"enabled": True, "kind": "hpa"}})
        for metric in chart.find(chart.render(scaled), "HorizontalPodAutoscaler")["spec"]["metrics"]:
            self.assertRegex(metric["pods"]["metric"]["name"], f"^{series}$")
        self.assertTrue(rule["metricsQuery"].startswith("sum("), "all the coordinators of a pod")
        self.assertEqual(set(rule["resources"]["overrides"]), {"namespace", "pod"})


if __name__ == "__main__":
    unittest.main()
