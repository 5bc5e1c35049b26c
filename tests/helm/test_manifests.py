"""deploy/manifests: deleting an applied manifest deletes no data, and every claim that its pods use is in a separate file."""
import glob
import os
import unittest

import chart

FOLDER = os.path.join(chart.ROOT, "deploy", "manifests")
MODELS = sorted(os.path.basename(path) for path in glob.glob(f"{FOLDER}/*.yaml") if os.path.basename(path) != "kustomization.yaml")


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        text = f.read()
    return text, [o for o in chart.yaml.safe_load_all(text) if o]


class Manifests(unittest.TestCase):
    def test_there_is_one_for_each_values_file(self):
        self.assertEqual([f"values-{name}" for name in MODELS], chart.VALUES)

    def test_what_is_deleted_holds_no_data(self):
        """kubectl ignores helm.sh/resource-policy: it would delete a claim in the same file as the servers."""
        for name in [*MODELS, *(f"monitoring/{name}" for name in os.listdir(os.path.join(FOLDER, "monitoring")))]:
            for o in read(name)[1]:
                self.assertNotIn(o["kind"], ("PersistentVolumeClaim", "PersistentVolume", "Namespace", "List"), name)
                self.assertNotIn("volumeClaimTemplates", o.get("spec", {}), name)

    def test_every_claim_has_a_file_of_its_own(self):
        for name in MODELS:
            text, objects = read(name)
            used = {v["persistentVolumeClaim"]["claimName"] for _, spec in chart.pod_specs(objects) for v in spec.get("volumes", []) if "persistentVolumeClaim" in v}
            path = os.path.join(FOLDER, "weights", name)
            self.assertEqual(os.path.exists(path), bool(used), name)
            if used:
                claims = read(f"weights/{name}")[1]
                self.assertEqual({(o["kind"], o["metadata"]["name"]) for o in claims}, {("PersistentVolumeClaim", claim) for claim in used})
                self.assertIn(f"-f weights/{name} -f {name}", text.splitlines()[1])

    def test_claims_have_room_for_their_model(self):
        """The manifest assumes that the claim exists; the claim's own file has the size that the chart would have made."""
        for name in MODELS:
            made = [o for o in chart.render(f"values-{name}") if o["kind"] == "PersistentVolumeClaim"]
            claims = read(f"weights/{name}")[1] if made else []
            self.assertEqual([o["spec"] for o in claims], [o["spec"] for o in made], name)

    def test_each_has_monitors_that_find_its_servers(self):
        """The monitors find servers by labels and names of ports, through the network policies, which otherwise admit only the router to coordinators."""
        self.assertEqual(sorted(os.listdir(os.path.join(FOLDER, "monitoring"))), sorted([*MODELS, "dashboard.yaml"]))
        for name in MODELS:
            objects, monitoring = read(name)[1], read(f"monitoring/{name}")[1]
            services = [o for o in objects if o["kind"] == "Service"]
            watched = [o for o in monitoring if o["kind"] == "ServiceMonitor"]
            self.assertEqual(len(watched), 1 + any(o["kind"] == "Deployment" for o in objects), name)
            for monitor in watched:
                selector = monitor["spec"]["selector"]
                found = [s for s in services if chart.matches(selector, s["metadata"]["labels"])]
                self.assertEqual(len(found), 1, name)
                ports = {port["name"] for port in found[0]["spec"]["ports"]}
                self.assertLessEqual({endpoint["port"] for endpoint in monitor["spec"]["endpoints"]}, ports, name)
            hosts = chart.find(objects, "StatefulSet")["spec"]["template"]
            workers = next(o for o in monitoring if o["kind"] == "PodMonitor")["spec"]
            self.assertTrue(chart.matches(workers["selector"], hosts["metadata"]["labels"]), name)
            containers = hosts["spec"]["containers"] + hosts["spec"].get("initContainers", [])
            self.assertEqual({e["port"] for e in workers["podMetricsEndpoints"]},
                             {p["name"] for c in containers for p in c.get("ports", []) if p["name"].startswith("metrics")}, name)
            for policy in (o for o in objects if o["kind"] == "NetworkPolicy"):
                if chart.matches(policy["spec"]["podSelector"], hosts["metadata"]["labels"]):
                    for rule in policy["spec"]["ingress"]:
                        self.assertIn({"namespaceSelector": {}}, rule.get("from", [{"namespaceSelector": {}}]), name)

    def test_the_alerts_wait_as_long_as_this_models_start_may_take(self):
        for name in MODELS:
            probe = chart.container(chart.find(read(name)[1], "StatefulSet"), "coordinator")["startupProbe"]
            given = probe["failureThreshold"] * probe["periodSeconds"]
            rules = chart.find(read(f"monitoring/{name}")[1], "PrometheusRule")["spec"]["groups"][0]["rules"]
            overdue = int(next(r for r in rules if r["alert"] == "NumoeStartOverdue")["for"].removesuffix("s"))
            self.assertTrue(given - 300 < overdue < given, (name, overdue, given))

    def test_kustomization_names_no_claim(self):
        text, (kustomization,) = read("kustomization.yaml")
        self.assertEqual(kustomization["resources"], ["nano.yaml"])
        self.assertIn("deploy/manifests/weights/", text)


if __name__ == "__main__":
    unittest.main()
