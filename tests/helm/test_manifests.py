"""deploy/manifests: what one deletes as one applied it holds no data, and every claim that its pods use has a file of its own."""
import glob
import os
import unittest

import chart

FOLDER = os.path.join(chart.ROOT, "deploy", "manifests")
MODELS = sorted(os.path.basename(path) for path in glob.glob(f"{FOLDER}/*.yaml") if os.path.basename(path) not in ("kustomization.yaml", "monitoring.yaml"))


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        text = f.read()
    return text, [o for o in chart.yaml.safe_load_all(text) if o]


class Manifests(unittest.TestCase):
    def test_there_is_one_for_each_values_file(self):
        self.assertEqual([f"values-{name}" for name in MODELS], chart.VALUES)

    def test_what_is_deleted_holds_no_data(self):
        """kubectl knows nothing of helm.sh/resource-policy: a claim beside the servers would go with them."""
        for name in [*MODELS, "monitoring.yaml"]:
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
        """The manifest says that the claim is there; the claim's own file has the size that the chart would have made."""
        for name in MODELS:
            made = [o for o in chart.render(f"values-{name}") if o["kind"] == "PersistentVolumeClaim"]
            claims = read(f"weights/{name}")[1] if made else []
            self.assertEqual([o["spec"] for o in claims], [o["spec"] for o in made], name)

    def test_kustomization_names_no_claim(self):
        text, (kustomization,) = read("kustomization.yaml")
        self.assertEqual(kustomization["resources"], ["nano.yaml"])
        self.assertIn("deploy/manifests/weights/", text)


if __name__ == "__main__":
    unittest.main()
