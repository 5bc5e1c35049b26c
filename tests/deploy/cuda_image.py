"""The image's CUDA variant on a machine without a GPU: what it contains, what it refuses, and that it serves on CPUs."""
import json
import os
import re
import tempfile
import unittest

from client import Server
from containers import IMAGE, ROOT, Podman, free_port, why_no_containers

BIN = ""
CUDA_COORDINATOR, TOOLKIT = "", ""  # empty without nvcc
CUDA_IMAGE = IMAGE + "-cuda"
MODEL = "/usr/share/numoe/models/nano"
IMAGE_BYTES_MAX = 720 << 20  # 515 MiB of these are cuBLASLt, for all GPUs of NVIDIA
WORKERS = "--workers=unix:/run/numoe/worker-0.sock,unix:/run/numoe/worker-1.sock"


@unittest.skipIf(why_no_containers(), why_no_containers())
class TheCudaImage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not TOOLKIT:
            raise unittest.SkipTest("not installed: nvcc of CUDA 13 (tests/gpu/toolkit.sh gets one), so the CUDA image is not built")
        cls.podman = Podman(BIN)
        cls.addClassCleanup(cls.podman.close)
        probe = cls.podman.run("run", "--rm", IMAGE, "true", check=False)
        if probe.returncode in (125, 126):  # these are errors of podman and of the runtime
            raise unittest.SkipTest("this machine cannot run containers: " + probe.stderr.strip()[-300:])
        with tempfile.TemporaryDirectory() as programs:
            for name in os.listdir(BIN):
                os.symlink(os.path.join(BIN, name), os.path.join(programs, name))
            os.remove(os.path.join(programs, "numoe-coordinator"))
            os.symlink(CUDA_COORDINATOR, os.path.join(programs, "numoe-coordinator"))
            cls.podman.build(programs, "--cuda", TOOLKIT)
        # Two coordinators use the same workers, one from each image; both must give the same answers.
        cls.ports = [free_port(), free_port()]
        cls.container("workers", "-p", f"127.0.0.1:{cls.ports[0]}:8000", "-p", f"127.0.0.1:{cls.ports[1]}:8001", IMAGE,
                      "numoe-expert-worker", "--supervise", "--local-workers=2", "--model=" + MODEL, "--listen=unix:/run/numoe")
        cls.container("cuda", "--network=container:workers", CUDA_IMAGE, "numoe-coordinator", "--model=" + MODEL, WORKERS, "--port=8000")
        cls.container("cpu", "--network=container:workers", IMAGE, "numoe-coordinator", "--model=" + MODEL, WORKERS, "--port=8001")

    @classmethod
    def container(cls, name, *arguments):
        cls.podman.run("run", "-d", "--name", name, "--read-only", "--read-only-tmpfs=false", "--tmpfs=/tmp", "--cap-drop=ALL",
                       "--security-opt=no-new-privileges", "-v", "numoe-cuda:/run/numoe", *arguments)

    def coordinator(self, *flags):
        """-> the exit code and the output of a program that runs beside the serving one"""
        done = self.podman.run("exec", "cuda", "numoe-coordinator", "--model=" + MODEL, *flags, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_it_plans_for_a_gpu_that_is_elsewhere(self):
        code, said = self.coordinator("--plan", "--gpu-memory=80GiB", "--num-gpu-experts=auto")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"memory plan of the GPU; .*(?s:.*) of 78\.50 GiB available")  # the driver has 1.5

    def test_it_refuses_a_gpu_that_is_not_there(self):
        for device in ("cuda", "cuda:1"):
            code, said = self.coordinator("--device=" + device, WORKERS, "--port=8002")
            self.assertNotEqual(code, 0, said)
            self.assertRegex(said, f"--device={device}: found no NVIDIA .*, expected .*use --device=cpu")

    def test_it_serves_on_the_cpu_and_answers_as_the_other_image(self):
        servers = [Server("127.0.0.1", port, lambda: self.podman.run("logs", name).stderr)
                   for port, name in zip(self.ports, ("cuda", "cpu"))]
        answers = []
        for server in servers:
            server.await_health("ready")
            asked = {"messages": [{"role": "user", "content": "What is 84 * 3 / 2?"}], "temperature": 0, "logprobs": True}
            answers.append(server.post("/v1/chat/completions", asked)["choices"])
        self.assertIn("126", answers[0][0]["message"]["content"])
        self.assertEqual(answers[0], answers[1])
        self.assertRegex(self.podman.run("logs", "cuda").stderr, "the model runs on the CPU: found no NVIDIA ")

    def test_it_has_what_its_device_loads_and_says_so(self):
        image = self.podman.inspect(CUDA_IMAGE)
        self.assertLess(image["Size"], IMAGE_BYTES_MAX)
        self.assertEqual((image["Labels"]["io.numoe.variant"], image["User"]), ("cuda", "10001:10001"))
        self.assertIn("(cuda)", image["Labels"]["org.opencontainers.image.description"])
        # The dynamic linker finds it by its name, with everything that it needs.
        loaded = self.podman.run("exec", "--env=LD_BIND_NOW=1", "--env=LD_PRELOAD=libcublasLt.so.13", "cuda", "cat", "/proc/self/maps")
        self.assertRegex(loaded.stdout, r"r-xp .* /usr/lib/x86_64-linux-gnu/libcublasLt\.so\.13\n")
        self.assertEqual(loaded.stderr, "")
        found = self.podman.run("exec", "cuda", "find", "/usr", "-name", "lib*.so*").stdout.split()
        nvidias = {path for path in found if re.match(r"lib(cu(?!rl)|nv|npp)", os.path.basename(path))}
        self.assertEqual(nvidias, {"/usr/lib/x86_64-linux-gnu/libcublasLt.so.13"})
        sbom = json.loads(self.podman.run("exec", "cuda", "cat", image["Labels"]["io.numoe.sbom"]).stdout)
        nvidia = {p["name"]: p for p in sbom["packages"] if p["supplier"] == "Organization: NVIDIA"}
        self.assertEqual(set(nvidia), {"libcublasLt.so.13", "libcudart_static.a"})
        self.assertRegex(nvidia["libcublasLt.so.13"]["versionInfo"], r"^13\.\d+\.\d+\.\d+$")
        self.assertRegex(nvidia["libcudart_static.a"]["versionInfo"], r"^13\.\d+$")
        self.assertEqual({p["licenseDeclared"] for p in nvidia.values()}, {sbom["hasExtractedLicensingInfos"][0]["licenseId"]})
        self.assertIn("End User License Agreement", sbom["hasExtractedLicensingInfos"][0]["extractedText"])
        links = {(r["spdxElementId"], r["relationshipType"]) for r in sbom["relationships"]
                 if r["relatedSpdxElement"] in {p["SPDXID"] for p in nvidia.values()}}
        self.assertEqual(links, {("SPDXRef-program-numoe-coordinator", kind) for kind in ("DEPENDS_ON", "STATIC_LINK")})

    def test_it_may_do_little(self):
        refused = self.podman.run("exec", "cuda", "sh", "-c", "echo x >/usr/bin/x", check=False)
        self.assertIn("Read-only file system", refused.stderr)
        self.assertEqual(self.podman.run("exec", "cuda", "id", "-u").stdout.strip(), "10001")
