"""Those that build the image and those that use it have the same name for it; a pod has the variant that it needs."""
import os
import re
import unittest

import chart
import test_refusals

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
GPUS = "values-k2.5-2gpu.yaml"


def read(*path):
    with open(os.path.join(chart.ROOT, *path), encoding="utf-8") as f:
        return f.read()


def images(*values):
    """{command of a container: its image}"""
    return {c["command"][-1] if c["command"][-1] != "-c" else "test": c["image"] for _, spec in chart.pod_specs(chart.render(*values, extra=())) for c in spec["containers"]}


class Names(unittest.TestCase):
    def setUp(self):
        self.version = chart.yaml.safe_load(read("helm", "numoe", "Chart.yaml"))["appVersion"]
        self.name = f"localhost/numoe:{self.version}"

    def test_all_say_the_same(self):
        self.assertEqual(set(images("values-nano.yaml").values()), {self.name})
        self.assertIn(f"project(numoe VERSION {self.version}", read("CMakeLists.txt"))
        build = read("deploy", "image", "build.sh")
        self.assertIn("tag=localhost/numoe:$version${cuda:+-cuda}", build)
        self.assertEqual(set(re.findall(r"image: (\S+)", read("deploy", "podman", "numoe.yaml"))), {self.name})
        (renamed,) = chart.yaml.safe_load(read("deploy", "manifests", "kustomization.yaml"))["images"]
        # A tag here would be used for pods with GPUs as well, whose image ends in -cuda.
        self.assertEqual(renamed, {"name": "localhost/numoe", "newName": "localhost/numoe"})
        for text in (read("deploy", "Dockerfile"), read("deploy", "README.md")):
            self.assertIn(f"-t {self.name} .", text)
            self.assertIn(f"-t {self.name}-cuda .", text)
            for tag in re.findall(r"localhost/numoe:([\w.-]+)", text):
                self.assertIn(tag, ("VERSION", self.version, f"{self.version}-cuda"))

    def test_gpus_alone_have_the_large_one(self):
        """The workers beside them use it as well, because they are in the same pod, which then pulls one image."""
        found = images(GPUS)
        for program, image in found.items():
            self.assertEqual(image, self.name + ("-cuda" if program in ("numoe-coordinator", "numoe-expert-worker") else ""), program)
        self.assertLessEqual({"numoe-router", "numoe-download", "test"}, set(found))
        remote = chart.find(chart.render(chart.EVERYTHING), "StatefulSet", "numoe-workers-0")
        self.assertEqual({c["image"] for c in chart.workers(remote)}, {self.name})

    def test_tags_and_digests(self):
        for image, gpu, cpu in (({"tag": "next"}, ":next-cuda", ":next"), ({"tag": "next-cuda"}, ":next-cuda", ":next-cuda"),
                                ({"tag": "a", "cuda": {"tag": "b"}}, ":b", ":a"), ({"digest": DIGEST, "cuda": {"digest": OTHER}}, f"@{OTHER}", f"@{DIGEST}")):
            found = images(GPUS, {"image": image})
            self.assertEqual((found["numoe-coordinator"], found["numoe-router"]), (f"localhost/numoe{gpu}", f"localhost/numoe{cpu}"))

    def test_registries(self):
        for repository, registry, expected in (("localhost/numoe", "reg.local:5000", "reg.local:5000/numoe"), ("numoe", "reg.local", "reg.local/numoe"),
                                               ("reg.io/team/numoe", "mirror.io/proxy/", "mirror.io/proxy/team/numoe"), ("team/numoe", "r.io", "r.io/team/numoe"),
                                               ("reg.io:5000/numoe", "", "reg.io:5000/numoe")):
            found = images("values-nano.yaml", {"image": {"repository": repository}, "global": {"imageRegistry": registry}})
            self.assertEqual(set(found.values()), {f"{expected}:{self.version}"})

    def test_secrets_of_all_charts(self):
        pod = chart.find(chart.render(test_refusals.PLAIN, {"image": {"pullSecrets": [{"name": "own"}]}, "global": {"imagePullSecrets": ["a", {"name": "b"}]}}), "StatefulSet")
        self.assertEqual(pod["spec"]["template"]["spec"]["imagePullSecrets"], [{"name": "own"}, {"name": "a"}, {"name": "b"}])


if __name__ == "__main__":
    unittest.main()
