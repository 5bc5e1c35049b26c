"""Unusual values are either used literally or refused with a message; and values for the pods' environment."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import chart
import test_refusals
from test_gateway import POOL
from test_router import HOST, ROUTER, TEST, TWO, sources

PLAIN, DOWNLOAD, REMOTE = test_refusals.PLAIN, test_refusals.DOWNLOAD, test_refusals.REMOTE
# Together these two releases have every pod of the chart.
ALL_PODS = (chart.EVERYTHING, chart.merged(POOL, chart.merged(REMOTE, {"remoteWorkers": {"leaderWorkerSet": {"enabled": True}}})))
KINDS_OF_PODS = {"host", "remote-worker", "router", "picker", "test", "download", "pack"}
NANO = "values-nano.yaml"
GPU = {"coordinator": {"gpu": {"count": 1}}}
HOSTILE = "it's \"x\": {{ y }} # $(id) $$ é `z` \\"

# Refused by the schema, which names the path: (values, what the message names).
OUTSIDE = [
    ({"model": {"sizeGiB": 1e9}}, "/model/sizeGiB"), ({"model": {"expertsGiB": 1e15}}, "/model/expertsGiB"), ({"probes": {"marginSeconds": 1 << 40}}, "/probes/marginSeconds"),
    ({"model": {"servedName": "a\nb"}}, "/model/servedName"), ({"model": {"repository": "or'g/name"}}, "/model/repository"), ({"model": {"repository": "../.."}}, "/model/repository"),
    ({"model": {"revision": "-x"}}, "/model/revision"), ({"model": {"endpoint": "https://a b"}}, "/model/endpoint"),
    ({"podDisruptionBudget": {"maxUnavailable": "0%"}}, "/podDisruptionBudget/maxUnavailable"), ({"ingress": {"host": "A_b c"}}, "/ingress/host"),
    ({"labels": {"a": "x y"}}, "/labels/a"), ({"labels": {"a b": "x"}}, "invalid propertyName 'a b'"), ({"labels": {"a": "x" * 64}}, "/labels/a"), ({"nodeSelector": {"a": 1}}, "/nodeSelector/a"),
    ({"priorityClassName": "a..b"}, "/priorityClassName"), ({"persistence": {"storageClass": "--"}}, "/persistence/storageClass"), ({"workers": {"format": "int8 --x"}}, "/workers/format"),
    ({"replicas": 1 << 31}, "/replicas"), ({"updatePartition": 1 << 31}, "/updatePartition"), ({"download": {"backoffLimit": 1 << 31}}, "/download/backoffLimit"),
    ({"pack": {"ttlSecondsAfterFinished": 1 << 31}}, "/pack/ttlSecondsAfterFinished"), ({"podSecurity": {"runAsUser": 0}}, "/podSecurity/runAsUser"),
    ({"tls": {"dnsNames": ["a b"]}}, "/tls/dnsNames/0"), ({"dnsPolicy": "Cluster"}, "/dnsPolicy"), ({"extraVolumeMounts": [{"name": "x"}]}, "mountPath"),
    ({"global": {"imageRegistry": "https://r.io"}}, "/global/imageRegistry"), ({"autoscaling": {"prometheusAddress": "http://a'b"}}, "/autoscaling/prometheusAddress"),
    ({"hostAliases": [{"ip": "here", "hostnames": ["a"]}]}, "/hostAliases/0/ip"), ({"service": {"ipFamilies": ["IPv5"]}}, "/service/ipFamilies/0"),
]


def paths(values, before=()):
    for key, value in values.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from paths(value, (*before, key))


def nested(path, value):
    for key in reversed(path):
        value = {key: value}
    return value


def all_pods(*values):
    """(component, pod's metadata, its spec) of every pod that the chart can make."""
    return [(pod["metadata"]["labels"]["app.kubernetes.io/component"], pod["metadata"], pod["spec"])
            for release in ALL_PODS for _, pod in chart.pods(chart.render(release, *values, extra=()))]


def coordinator_of(*values):
    return chart.container(chart.find(chart.render(*values), "StatefulSet", "numoe"), "coordinator")


def pod_of(*values):
    return chart.find(chart.render(*values), "StatefulSet", "numoe")["spec"]["template"]["spec"]


class Odd(unittest.TestCase):
    def test_outside_of_the_schema(self):
        for values, where in OUTSIDE:
            with self.subTest(values):
                with self.assertRaises(chart.Refused) as refused:
                    chart.render(PLAIN, values)
                self.assertIn(where, str(refused.exception))

    def test_null_for_any_value(self):
        """Helm removes null values: each is refused with its path, or means the same as an empty one."""
        with open(os.path.join(chart.CHART, "values.yaml"), encoding="utf-8") as f:
            defaults = chart.yaml.safe_load(f)
        for path in paths(defaults):
            with self.subTest(".".join(path)):
                try:
                    self.assertTrue(chart.render(PLAIN, nested(path, None)))
                except chart.Refused as refused:
                    self.assertRegex(str(refused), f"missing propert(y|ies) .*'{path[-1]}'")

    def test_texts_arrive_as_they_are(self):
        """Kubernetes reads $$ as $ and replaces $(NAME); the program must get exactly the text of the value."""
        self.assertIn("--served-model-name=" + HOSTILE.replace("$", "$$"), coordinator_of(PLAIN, {"model": {"servedName": HOSTILE}})["args"])
        objects = chart.render(PLAIN, {"model": {"directory": "a'b$(x);c\"`d`"}, "pack": {"enabled": True}})
        self.assertIn("--model=/models/a'b$$(x);c\"`d`", chart.container(chart.find(objects, "StatefulSet", "numoe"), "coordinator")["args"])
        self.assertEqual(chart.find(objects, "Job")["spec"]["template"]["spec"]["containers"][0]["args"][0], "/models/a'b$$(x);c\"`d`")
        for c in chart.workers(chart.find(objects, "StatefulSet", "numoe")):
            self.assertEqual(c["env"][-1]["value"], "/models/a'b$$(x);c\"`d`-auto-intermediate-2/READY")
        annotations = {"metadata": chart.find(chart.render(PLAIN, {"annotations": {"a": HOSTILE}, "podAnnotations": {"b": HOSTILE}}), "StatefulSet")}["metadata"]
        self.assertEqual(annotations["metadata"]["annotations"], {"a": HOSTILE})
        self.assertEqual(annotations["spec"]["template"]["metadata"]["annotations"]["b"], HOSTILE)

    def test_the_largest_sizes_fit_into_kubernetes_numbers(self):
        slow = {"model": {"sizeGiB": 65536}, "probes": {"loadFloorMiBps": 1}, "download": {"floorMiBps": 1}, "pack": {"enabled": True}}
        probe = coordinator_of(DOWNLOAD, slow)["startupProbe"]
        self.assertLess(probe["failureThreshold"] * probe["periodSeconds"], 1 << 31)

    def test_addresses(self):
        for address in ("0.0.0.0", "127.0.0.1", "::", "::1", "fd00::1:2", "1:2:3:4:5:6:7:8", "1::", "255.255.255.255"):
            self.assertEqual(chart.flags(coordinator_of(PLAIN, {"listenHost": address}))["host"], address)
        for address in ("256.0.0.1", "1.2.3", ":::", "1:2:3:4:5:6:7:8:9", "12345::", ""):
            with self.assertRaisesRegex(chart.Refused, "an IP address"):
                chart.render(PLAIN, {"listenHost": address})

    def test_the_pod_annotation_of_the_chart_can_be_changed(self):
        values = {"podAnnotations": {"kubectl.kubernetes.io/default-container": "worker-0"}}
        template = chart.find(chart.render(PLAIN, values), "StatefulSet")["spec"]["template"]
        self.assertEqual(template["metadata"]["annotations"], values["podAnnotations"])


class Surroundings(unittest.TestCase):
    def test_openshift(self):
        """With null the namespace chooses these numbers; everything else remains."""
        for values in ({"podSecurity": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}, {"podSecurity": None}):
            for _, spec in chart.pod_specs(chart.render(DOWNLOAD, values, extra=())):
                self.assertEqual(spec["securityContext"], {"runAsNonRoot": True, "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}})

    def test_storage_without_a_class(self):
        for given, rendered in (("-", ""), ("fast", "fast"), ("", None)):
            claim = chart.find(chart.render(PLAIN, {"persistence": {"storageClass": given}}), "PersistentVolumeClaim")
            self.assertEqual(claim["spec"].get("storageClassName"), rendered)

    def test_every_pod_is_where_its_programs_run(self):
        for component, _, spec in all_pods():
            self.assertLessEqual(chart.PLATFORM.items(), spec["nodeSelector"].items(), component)
        self.assertEqual(pod_of(PLAIN, {"nodeSelector": {"kubernetes.io/arch": "arm64"}})["nodeSelector"]["kubernetes.io/arch"], "arm64")

    def test_gpu_nodes_that_are_marked(self):
        for values in chart.VALUES:
            pod = pod_of(values)
            gpus = any("nvidia.com/gpu" in c["resources"].get("limits", {}) for c in pod["containers"])
            self.assertEqual({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod.get("tolerations", []), gpus, values)

    def test_everybody_listens_where_others_reach_it(self):
        """Daemons listen only on 127.0.0.1 unless an address is given."""
        flag = {"numoe-coordinator": "host", "numoe-router": "host", "numoe-expert-worker": "metrics-host"}
        for values in (NANO, chart.EVERYTHING):
            for _, spec in chart.pod_specs(chart.render(values)):
                for c in spec["containers"]:
                    if c["command"][-1] in flag:
                        self.assertEqual(chart.flags(c)[flag[c["command"][-1]]], "0.0.0.0", c["name"])
        with open(os.path.join(chart.ROOT, "deploy", "podman", "numoe.yaml"), encoding="utf-8") as f:
            for c in chart.yaml.safe_load(f)["spec"]["containers"]:
                self.assertEqual(chart.flags(c)[flag[c["command"][-1]]], "0.0.0.0", c["name"])
        with open(os.path.join(chart.ROOT, "deploy", "Dockerfile"), encoding="utf-8") as f:
            self.assertIn("NUMOE_HOST=0.0.0.0 NUMOE_METRICS_HOST=0.0.0.0", f.read())
        with open(os.path.join(chart.ROOT, "deploy", "systemd", "coordinator.env"), encoding="utf-8") as f:
            self.assertNotIn("NUMOE_HOST", f.read(), "a package that was just installed serves nobody else without keys")

    def test_names_and_schedulers_of_all_pods(self):
        given = {"schedulerName": "topology", "priorityClassName": "high", "dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.10"]},
                 "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["mirror"]}]}
        pods = all_pods(given, {"image": {"pullSecrets": [{"name": "own"}], "pullPolicy": "Always"}, "global": {"imagePullSecrets": ["all"], "imageRegistry": "mirror.io"},
                                "podAnnotations": {"sidecar.istio.io/inject": "false"}})
        self.assertEqual({component for component, _, _ in pods}, KINDS_OF_PODS)
        for component, metadata, spec in pods:
            self.assertLessEqual(given.items(), spec.items(), component)
            self.assertEqual(spec["imagePullSecrets"], [{"name": "own"}, {"name": "all"}], component)
            self.assertEqual(metadata.get("annotations", {}).get("sidecar.istio.io/inject"), "false", component)
            for c in spec["containers"]:
                self.assertEqual((c["image"].split("/")[0], c["imagePullPolicy"]), ("mirror.io", "Always"), component)

    def test_every_pod_has_a_place(self):
        """Each kind of pod has its nodeSelector, tolerations and affinity in the values; the Jobs use the hosts'."""
        def place(name):
            return {"nodeSelector": {"pool": name}, "tolerations": [{"key": name, "operator": "Exists"}],
                    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": [name]}]}}]}}}
        own = {"remote-worker": "remoteWorkers", "router": "router", "picker": "picker", "test": "tests"}
        pods = all_pods(place("hosts"), {"remoteWorkers": place("remoteWorkers"), "router": place("router"), "inferencePool": {"picker": place("picker")}, "tests": place("tests")})
        self.assertEqual({component for component, _, _ in pods}, KINDS_OF_PODS)
        for component, _, spec in pods:
            given = place(own.get(component, "hosts"))
            self.assertEqual(spec["nodeSelector"], {**chart.PLATFORM, **given["nodeSelector"]}, component)
            self.assertEqual(spec["affinity"]["nodeAffinity"], given["affinity"]["nodeAffinity"], component)
            self.assertEqual(spec["tolerations"], (place("hosts")["tolerations"] if component == "test" else []) + given["tolerations"], component)

    def test_the_test_goes_where_hosts_are_the_only_nodes(self):
        """It tolerates the taints of the hosts' nodes, but is not forced to run there."""
        for values in chart.VALUES:
            objects = chart.render(values, {"nodeSelector": {"gpu": "x"}}, extra=())
            hosts, test = chart.find(objects, "StatefulSet", "numoe")["spec"]["template"]["spec"], chart.find(objects, "Pod")["spec"]
            self.assertEqual((test.get("tolerations"), test["nodeSelector"]), (hosts.get("tolerations"), chart.PLATFORM), values)
        twice = [{"key": "a", "operator": "Exists"}]
        self.assertEqual(chart.find(chart.render(PLAIN, {"tolerations": twice, "tests": {"tolerations": twice}}, extra=()), "Pod")["spec"]["tolerations"], twice)

    def test_volumes_and_containers_of_yours(self):
        volume, mount = {"name": "ca", "configMap": {"name": "ca"}}, {"name": "ca", "mountPath": "/etc/ca"}
        values = {"extraVolumes": [volume], "extraVolumeMounts": [mount], "extraContainers": [{"name": "log", "image": "log:1", "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}}]}
        objects = chart.render(chart.EVERYTHING, values)
        for name in ("numoe", "numoe-workers-1"):
            pod = chart.find(objects, "StatefulSet", name)["spec"]["template"]["spec"]
            self.assertIn(volume, pod["volumes"])
            for c in pod["containers"]:
                self.assertEqual(mount in c.get("volumeMounts", []), c["name"] != "log")
        log = pod_of(chart.EVERYTHING, values)["containers"][-1]
        self.assertEqual((log["name"], log["securityContext"]["capabilities"]), ("log", {"drop": ["ALL"]}), "Pod Security restricted wants it")
        job = chart.find(chart.render(DOWNLOAD, {"download": {"extraVolumes": [volume], "extraVolumeMounts": [mount]}}), "Job")["spec"]["template"]["spec"]
        self.assertIn(volume, job["volumes"])
        self.assertIn(mount, job["containers"][0]["volumeMounts"])

    def test_annotations_of_all_objects(self):
        objects = chart.render(chart.EVERYTHING, {"annotations": {"owner": "team"}, "service": {"annotations": {"a": "b"}}}, extra=())
        for o in objects:
            if o["metadata"]["name"] != "numoe-extra":
                self.assertEqual(o["metadata"]["annotations"]["owner"], "team", o["kind"])
        self.assertEqual(chart.find(objects, "Service", "numoe")["metadata"]["annotations"]["a"], "b")

    def test_the_service_of_a_balancer(self):
        given = {"type": "LoadBalancer", "loadBalancerClass": "example.com/fast", "loadBalancerSourceRanges": ["10.0.0.0/8"], "externalTrafficPolicy": "Local",
                 "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]}
        spec = chart.find(chart.render(PLAIN, {"service": {**given, "nodePort": 30080}}), "Service", "numoe")["spec"]
        self.assertLessEqual(given.items(), spec.items())
        self.assertEqual(spec["ports"][0]["nodePort"], 30080)
        self.assertEqual(set(chart.find(chart.render(PLAIN), "Service", "numoe")["spec"]), {"type", "selector", "ports"})

    def test_heat_is_kept(self):
        values = chart.merged(PLAIN, {"router": {"enabled": True}, "coordinator": {"gpu": {"count": 2}, "heat": {"enabled": True}}})
        objects = chart.render(values)
        hosts = chart.find(objects, "StatefulSet", "numoe")
        for c, file in zip(chart.coordinators(hosts), ("$(POD_NAME).heat", "$(POD_NAME).heat.1")):
            self.assertEqual(chart.flags(c)["expert-heat-file"], f"/var/lib/numoe/{file}")
            self.assertEqual(chart.flags(c)["num-gpu-experts"], "auto", "the file is about these")
            self.assertIn({"name": "heat", "mountPath": "/var/lib/numoe"}, c["volumeMounts"])
            self.assertIn("POD_NAME", [e["name"] for e in c["env"]])
        self.assertIn({"name": "heat", "persistentVolumeClaim": {"claimName": "numoe-heat"}}, hosts["spec"]["template"]["spec"]["volumes"])
        self.assertEqual(chart.find(objects, "PersistentVolumeClaim", "numoe-heat")["spec"]["resources"]["requests"]["storage"], "64Mi")
        self.assertNotIn("POD_NAME", chart.template(PLAIN, GPU))


class Policies(unittest.TestCase):
    CLIENTS, SCRAPERS = [{"podSelector": {"matchLabels": {"app": "web"}}}], [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]

    def test_a_narrowed_api_lets_metrics_and_the_test_in(self):
        """The coordinators' metrics are on the API's port."""
        test = [{"podSelector": {"matchLabels": TEST}}]
        for policy, expected in (({}, None), ({"metricsFrom": self.SCRAPERS}, None), ({"apiFrom": self.CLIENTS}, self.CLIENTS + test),
                                 ({"apiFrom": self.CLIENTS, "metricsFrom": self.SCRAPERS}, self.CLIENTS + self.SCRAPERS + test)):
            self.assertEqual(sources(chart.find(chart.render(PLAIN, {"networkPolicy": policy}), "NetworkPolicy", "numoe"), 8080), expected)

    def test_further_destinations_are_every_pods(self):
        """Exactly one policy applies to each pod, and each policy allows these addresses in addition to its own."""
        further = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 4317, "protocol": "TCP"}]}, {"ports": [{"port": 3128, "protocol": "TCP"}]}]
        seen = set()
        for release in ALL_PODS:
            plain, changed = ([o for o in chart.render(release, {"networkPolicy": {"extraEgress": egress}}, extra=()) if o["kind"] == "NetworkPolicy"] for egress in ([], further))
            for before, after in zip(plain, changed):
                name = after["metadata"]["name"]
                self.assertIn("Egress", after["spec"]["policyTypes"], name)
                for rule in further:
                    self.assertIn(rule, after["spec"]["egress"], name)
                self.assertEqual([rule for rule in after["spec"]["egress"] if rule not in further], before["spec"]["egress"], name)
                selector = after["spec"]["podSelector"]
                component = selector["matchLabels"].get("app.kubernetes.io/component")
                seen |= {component} if component else set(selector["matchExpressions"][0]["values"])
        self.assertEqual(seen, KINDS_OF_PODS)

    def test_the_test_reaches_the_api_and_nothing_else(self):
        for values, front in ((PLAIN, HOST), (TWO, ROUTER)):
            objects = chart.render(values, extra=())
            policy = chart.find(objects, "NetworkPolicy", "numoe-test")["spec"]
            self.assertLessEqual(policy["podSelector"]["matchLabels"].items(), chart.find(objects, "Pod")["metadata"]["labels"].items())
            self.assertEqual((policy["ingress"], policy["egress"][1]), ([], {"ports": [{"port": 8080, "protocol": "TCP"}], "to": [{"podSelector": {"matchLabels": front}}]}))

    def test_the_test_reaches_an_address_of_its_own(self):
        for url, port in (("https://llm.example.com", 443), ("http://llm.example.com", 80), ("https://llm.example.com:8443", 8443), ("http://[fd00::1]:81", 81)):
            policy = chart.find(chart.render(PLAIN, {"tests": {"url": url}}, extra=()), "NetworkPolicy", "numoe-test")["spec"]
            self.assertEqual(policy["egress"][1:], [{"ports": [{"port": port, "protocol": "TCP"}]}], url)

    def test_names_are_found_where_pods_answer(self):
        """OpenShift's network checks the port of the DNS pods, not that of their Service."""
        for policy in [o for values in ALL_PODS for o in chart.render(values, extra=()) if o["kind"] == "NetworkPolicy"]:
            self.assertEqual({port["port"] for port in policy["spec"]["egress"][0]["ports"]}, {53, 5353}, policy["metadata"]["name"])


class TestPod(unittest.TestCase):
    def script(self, **env):
        """Runs the test's script with programs of ours in place of curl and numoe-chat; returns the environment of numoe-chat."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("curl", "exit 0"), ("numoe-chat", 'echo "126 ca=${SSL_CERT_FILE:-none}"')):
                with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
                    f.write(f"#!/bin/sh\n{text}\n")
                os.chmod(f"{folder}/{name}", 0o755)
            ca = f"{folder}/ca.crt"
            if env.pop("ca", None) is not None:
                shutil.copy(__file__, ca)
            c = chart.find(chart.render(NANO, extra=()), "Pod")["spec"]["containers"][0]
            values = {e["name"]: e["value"] for e in c["env"]} | {"CA_FILE": ca, "PATH": f"{folder}:{os.environ['PATH']}"}
            done = subprocess.run([*c["command"], *c["args"]], env=values, capture_output=True, text=True, check=False)
            return done.stdout.replace(folder, "") + done.stderr

    def test_a_certificate_without_its_ca_is_a_public_ones(self):
        self.assertEqual(self.script(), "126 ca=none\n")
        self.assertEqual(self.script(ca=True), "126 ca=/ca.crt\n")
        pod = chart.find(chart.render(NANO, {"tls": {"enabled": True, "secretName": "acme"}, "tests": {"url": "https://llm.example.com"}}, extra=()), "Pod")
        self.assertIs(pod["spec"]["volumes"][0]["secret"]["optional"], True)
        self.assertIn({"name": "URL", "value": "https://llm.example.com"}, json.loads(json.dumps(pod["spec"]["containers"][0]["env"])))


if __name__ == "__main__":
    unittest.main()
