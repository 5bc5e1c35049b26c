#!/usr/bin/env python3
"""A real kube-apiserver with Pod Security admission accepts what the chart renders, and controllers make pods of it.

Namespaces enforce "restricted", and warnings are errors. Objects of operators are accepted by kinds without schemas. Without KWOK
the tests of running pods are skipped, or fail if NUMOE_REQUIRE=1 is set. Upgrades begin at every rendering in released/.
"""
import glob
import os
import re
import signal
import sys
import unittest

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "support"))
import chart  # noqa: E402
import cluster  # noqa: E402
import schemas  # noqa: E402
import skips  # noqa: E402
import test_refusals  # noqa: E402

OPERATORS = (("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"), ("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"),
             ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"), ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
             ("cert-manager.io", "v1", "Certificate", "certificates"), ("cert-manager.io", "v1", "Issuer", "issuers"),
             ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"), ("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"),
             ("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools"))
SMALL = {"model": {"directory": "m", "sizeGiB": 1}, "networkPolicy": {"enabled": False}}


def definition(group, version, kind, plural):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {
        "name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"}},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                     "versions": [{"name": version, "served": True, "storage": True, "schema": schema}]}}


def moved(text, namespace):
    """Returns a text that was rendered for the namespace numoe, for another namespace."""
    return re.sub(r"^(\s+namespace: )numoe$", rf"\1{namespace}", text, flags=re.MULTILINE)


class ApiServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster()
        cls.enterClassContext(cls.cluster)
        cls.cluster.apply(yaml.safe_dump_all([definition(*o) for o in OPERATORS]), "default")
        for o in OPERATORS:
            cls.cluster.wait(o[2], lambda o=o: cls.cluster.kubectl("get", f"{o[3]}.{o[0]}", "-A") is not None)
        if cluster.KWOK:
            cls.cluster.add_kubelets()

    def namespace(self, name, level="restricted"):
        labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
        self.cluster.apply(yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}), "default")
        self.addCleanup(self.cluster.kubectl, "delete", "namespace", name, "--wait=false")
        return name

    def apply(self, namespace, *values, release="numoe"):
        return self.cluster.apply(chart.template(*values, release=release, namespace=namespace, extra=()), namespace)

    def test_every_rendering_is_taken(self):
        for number, (what, values) in enumerate(schemas.VARIANTS.items()):
            if what == "host path":
                continue
            with self.subTest(what):
                namespace = self.namespace(f"renderings-{number}")
                self.assertRegex(self.apply(namespace, *values), "(statefulset.apps/numoe|leaderworkerset.leaderworkerset.x-k8s.io/numoe-group) serverside-applied")
                # The API server accepts these objects whatever their pods are, so admission is tried with a pod made from each template.
                for o, spec in chart.pod_specs(chart.render(*values, namespace=namespace, extra=())):
                    if o["kind"] in ("Pod", "Job"):
                        continue
                    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec}
                    pod["spec"].pop("runtimeClassName", None)  # this RuntimeClass does not exist here
                    self.cluster.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(pod))

    def test_manifests_are_taken(self):
        folder = os.path.join(chart.ROOT, "deploy", "manifests")
        manifests = sorted(os.path.relpath(path, folder) for path in glob.glob(f"{folder}/**/*.yaml", recursive=True))
        manifests.remove("kustomization.yaml")
        self.assertIn("monitoring/nano.yaml", manifests)
        for name in manifests:
            with self.subTest(name), open(os.path.join(folder, name), encoding="utf-8") as f:
                namespace = self.namespace("manifest-" + name[:-5].replace(".", "-").replace("/", "-"))
                self.cluster.apply(moved(f.read(), namespace), namespace)

    def test_deleting_a_manifest_keeps_the_weights(self):
        namespace = self.namespace("deleted")

        def text(name):
            with open(os.path.join(chart.ROOT, "deploy", "manifests", name), encoding="utf-8") as f:
                return moved(f.read(), namespace)
        for name in ("weights/cpu-only.yaml", "cpu-only.yaml"):
            self.cluster.apply(text(name), namespace)
        self.cluster.kubectl("delete", "-n", namespace, "-f", "-", stdin=text("cpu-only.yaml"))
        self.assertEqual(self.cluster.list("statefulsets", namespace), [])
        self.assertEqual([o["metadata"]["name"] for o in self.cluster.list("pvc", namespace)], ["numoe-weights"])

    def test_host_paths_are_for_other_namespaces(self):
        """The one choice that "restricted" refuses is reported, and another namespace accepts it."""
        values = schemas.VARIANTS["host path"]
        with self.assertRaisesRegex(cluster.Failed, "hostPath"):
            self.apply(self.namespace("strict"), *values)
        self.apply(self.namespace("lenient", "privileged"), *values)

    def test_upgrades(self):
        """Upgrades from every released version, and from one set of values to another, change no immutable field."""
        before = [glob.glob(f"{HERE}/released/*.yaml")]
        self.assertTrue(before[0])
        for path in before[0]:
            namespace = self.namespace("from-" + os.path.basename(path)[:-5].replace(".", "-"))
            with open(path, encoding="utf-8") as f:
                self.cluster.apply(moved(f.read(), namespace), namespace)
            self.apply(namespace, chart.EVERYTHING)
            changes = {"image": {"tag": "next"}, "replicas": 3, "labels": {"team": "other"}, "updatePartition": 1,
                       "model": {"revision": "fedcba9876543210fedcba9876543210fedcba98"}, "remoteWorkers": {"replicas": 3},
                       "coordinator": {"drainSeconds": 300}, "service": {"type": "LoadBalancer"}}
            self.apply(namespace, chart.merged(chart.EVERYTHING, changes))

    def test_an_immutable_change_would_be_seen(self):
        namespace = self.namespace("immutable")
        self.apply(namespace, SMALL)
        objects = chart.render(SMALL, namespace=namespace)
        chart.find(objects, "StatefulSet")["spec"]["serviceName"] = "other"
        with self.assertRaisesRegex(cluster.Failed, "updates to statefulset spec"):
            self.cluster.apply(yaml.safe_dump_all(objects), namespace)

    def test_helm_itself(self):
        """Installs, upgrades, rolls back, uninstalls and installs again: the claim remains and keeps its size whatever the model needs."""
        namespace = self.namespace("helm")

        def helm(*arguments, values=()):
            return chart.helm(*arguments, "--namespace", namespace, "--kubeconfig", self.cluster.config, values=values)

        def claim():
            return self.cluster.get("pvc", "numoe-weights", namespace)["spec"]["resources"]["requests"]["storage"]

        first = chart.merged(test_refusals.DOWNLOAD, {"model": {"sizeGiB": 100}})
        self.assertIn("helm test numoe -n helm", helm("install", "numoe", chart.CHART, values=[first]))
        self.assertEqual(claim(), "115Gi")
        smaller = chart.merged(first, {"model": {"sizeGiB": 50, "revision": "v2"}, "image": {"tag": "next"}})
        helm("upgrade", "numoe", chart.CHART, values=[smaller])
        self.assertEqual(claim(), "115Gi")
        self.assertEqual(len(self.cluster.list("jobs", namespace)), 1, "the old revision's Job is gone")
        helm("rollback", "numoe", "1")
        image = self.cluster.get("statefulset", "numoe", namespace)["spec"]["template"]["spec"]["containers"][0]["image"]
        self.assertEqual(image, f"localhost/numoe:{chart.APP_VERSION}")
        helm("uninstall", "numoe")
        self.assertEqual(self.cluster.list("statefulsets", namespace), [])
        self.assertEqual(claim(), "115Gi")
        helm("install", "numoe", chart.CHART, values=[smaller])
        self.assertEqual(claim(), "115Gi")

    # These tests need controllers and kubelets.

    def settle(self, namespace, what, ready, seconds=180):
        def look():
            self.cluster.scheduler_of_one_node(namespace)
            return ready()
        self.cluster.wait(what, look, seconds)

    def ready(self, namespace, name, replicas):
        status = self.cluster.get("statefulset", name, namespace)["status"]
        return (status.get("readyReplicas", 0) == replicas == status["replicas"]
                and status.get("updatedReplicas", 0) == replicas and status["currentRevision"] == status["updateRevision"])

    @unittest.skipUnless(cluster.KWOK, "not installed: kwok, which KWOK names and which plays the kubelets")
    def test_life_of_a_release(self):
        """Starts a release, adds a host of workers, changes the image, removes a host: pods come and go in order, and all become ready."""
        namespace = self.namespace("life")
        values = chart.merged(SMALL, {"persistence": {"accessModes": ["ReadWriteMany"]}, "podAntiAffinity": "none", "replicas": 2,
                                      "remoteWorkers": {"enabled": True, "replicas": 2}})
        self.apply(namespace, values)
        def remote(hosts):
            return all(self.ready(namespace, f"numoe-workers-{host}", 1) for host in range(hosts))
        self.settle(namespace, "the first version", lambda: self.ready(namespace, "numoe", 2) and remote(2))
        pods = {p["metadata"]["name"] for p in self.cluster.list("pods", namespace, "app.kubernetes.io/component=remote-worker")}
        self.assertEqual(pods, {"numoe-workers-0-0", "numoe-workers-1-0"})
        values = chart.merged(values, {"remoteWorkers": {"replicas": 3}})
        self.apply(namespace, values)
        self.settle(namespace, "a worker host more", lambda: remote(3) and self.ready(namespace, "numoe", 2))
        values = chart.merged(values, {"image": {"tag": "next"}, "remoteWorkers": {"replicas": 2}})
        self.apply(namespace, values)
        self.cluster.kubectl("delete", "statefulset", "-n", namespace, "numoe-workers-2")  # as Helm does it
        self.settle(namespace, "another image", lambda: remote(2) and self.ready(namespace, "numoe", 2)
                    and len(self.cluster.list("pods", namespace, "app.kubernetes.io/component=remote-worker")) == 2)
        for pod in self.cluster.list("pods", namespace):
            self.assertEqual({c["image"] for c in pod["spec"]["containers"]}, {"localhost/numoe:next"})

    @unittest.skipUnless(cluster.KWOK, "not installed: kwok, which KWOK names and which plays the kubelets")
    def test_disruption_budget(self):
        namespace = self.namespace("budget")
        values = chart.merged(SMALL, {"persistence": {"accessModes": ["ReadWriteMany"]}, "podAntiAffinity": "none", "replicas": 2})
        self.apply(namespace, values)
        self.settle(namespace, "two hosts", lambda: self.ready(namespace, "numoe", 2))
        self.cluster.wait("the budget", lambda: self.cluster.get("pdb", "numoe", namespace)["status"].get("disruptionsAllowed") == 1)

    @unittest.skipUnless(cluster.KWOK, "not installed: kwok, which KWOK names and which plays the kubelets")
    def test_download_ends(self):
        namespace = self.namespace("download")
        self.apply(namespace, test_refusals.DOWNLOAD)
        jobs = self.cluster.list("jobs", namespace)
        self.assertEqual(len(jobs), 1)
        name = jobs[0]["metadata"]["name"]
        self.settle(namespace, "the download", lambda: self.cluster.get("job", name, namespace)["status"].get("succeeded") == 1)
        self.apply(namespace, test_refusals.DOWNLOAD)  # the second time the name of the Job is the same


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(skips.finish(unittest.main(exit=False, verbosity=2).result))
    except KeyboardInterrupt:
        ApiServer.doClassCleanups()  # unittest does not call this after a KeyboardInterrupt
        sys.exit("interrupted")
