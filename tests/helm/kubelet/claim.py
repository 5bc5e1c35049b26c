"""Weights on a volume of the node that is bound by the first pod, packed by the chart's Job, and applied and deleted as manifests."""
import os
import shutil

import chart
import traffic
import yaml
from release import OnANode, few_cpus

VOLUME = "/var/lib/numoe-weights"
CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
         "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
HERE_ALONE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]}}
WEIGHTS = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "weights"}, "spec": {
    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "persistentVolumeReclaimPolicy": "Retain",
    "local": {"path": VOLUME}, "nodeAffinity": HERE_ALONE}}
MODEL = {"model": {"servedName": "nano", "directory": "nano", "sizeGiB": 0.02, "expertsGiB": 0.01, "hiddenSize": 256},
         "pack": {"enabled": True, "format": "int8", **few_cpus("256Mi")}, "workers": few_cpus("1100Mi"), "coordinator": few_cpus("1Gi")}
CREATED = {"persistence": {"storageClass": "local", "size": "1Gi"}}
THERE = {"persistence": {"mode": "existing", "existingClaim": "numoe-weights"}}


class OnAClaim(OnANode):
    NAMESPACE = "on-a-claim"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shutil.copytree(os.path.join(chart.ROOT, "deploy/models/nano"), f"{VOLUME}/nano")
        cls.node.apply(yaml.safe_dump_all([CLASS, WEIGHTS]), "default")
        # As in deploy/manifests: the claim in a file of its own, and a manifest that expects it.
        cls.claim = chart.template(MODEL, CREATED, namespace=cls.NAMESPACE, extra=("--show-only", "templates/persistence.yaml"))
        cls.manifest = chart.template(MODEL, THERE, namespace=cls.NAMESPACE)

    def phase(self):
        claims = self.node.list("pvc", self.NAMESPACE)
        self.assertEqual([c["metadata"]["name"] for c in claims], ["numoe-weights"])
        return claims[0]["status"]["phase"]

    def test_1_the_first_pod_binds_the_claim_and_workers_map_what_the_job_has_packed(self):
        self.node.apply(self.claim, self.NAMESPACE)
        self.assertEqual(self.phase(), "Pending")
        self.node.apply(self.manifest, self.NAMESPACE)
        self.await_true("the packing", lambda: [j["status"].get("succeeded") for j in self.node.list("jobs", self.NAMESPACE)] == [1])
        self.await_rollout("statefulset/numoe")
        self.assertEqual(self.phase(), "Bound")
        with open(f"/proc/{self.process_of('worker-0')}/maps", encoding="utf-8") as f:
            self.assertRegex(f.read(), r"/models/nano-int8-\S+")
        self.assertIn(traffic.ANSWER, traffic.ask(self.service()))

    def test_2_deleting_the_manifest_keeps_the_weights(self):
        self.node.kubectl("delete", "-n", self.NAMESPACE, "-f", "-", stdin=self.manifest)
        self.await_true("the pods' end", lambda: not self.node.list("pods", self.NAMESPACE))
        self.assertEqual(self.phase(), "Bound")
        packed = [name for name in os.listdir(VOLUME) if name.startswith("nano-int8-")]
        self.assertEqual(len(packed), 1, os.listdir(VOLUME))
        self.assertTrue(os.path.exists(f"{VOLUME}/{packed[0]}/READY"))
        self.node.apply(self.manifest, self.NAMESPACE)
        self.await_rollout("statefulset/numoe")
        self.assertIn(traffic.ANSWER, traffic.ask(self.service()))
