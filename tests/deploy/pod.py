"""The image and the pod: what the image contains, what the pod may do, and what happens to streams when its containers end."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from client import TEXT, Server, Stream
from containers import IMAGE, ROOT, Pod, Podman, await_true, free_port, why_no_containers

MODEL = os.path.join(ROOT, "deploy/models/nano")
IMAGE_BYTES_MAX = 120 << 20  # 94 MB when this was written; a larger image needs a reason or is a mistake
BIN = ""


@unittest.skipIf(why_no_containers(), why_no_containers())
class ThePod(unittest.TestCase):
    """The tests run in the order of their names; the last ones end the pod."""

    @classmethod
    def setUpClass(cls):
        cls.podman = Podman(BIN)
        cls.addClassCleanup(cls.podman.close)
        probe = cls.podman.run("run", "--rm", IMAGE, "true", check=False)
        if probe.returncode in (125, 126):  # these are errors of podman and of the runtime
            raise unittest.SkipTest("this machine cannot run containers: " + probe.stderr.strip()[-300:])
        cls.pod = Pod(cls.podman, MODEL)
        cls.pod.start()
        cls.addClassCleanup(cls.pod.stop)
        cls.server = Server("127.0.0.1", cls.pod.port, lambda: cls.pod.logs("coordinator") + cls.pod.logs("worker-1"))
        cls.server.await_health("ready")

    def test_1_it_answers(self):
        asked = {"messages": [{"role": "user", "content": "What is 84 * 3 / 2?"}], "temperature": 0}
        reply = self.server.post("/v1/chat/completions", asked)
        self.assertIn("126", reply["choices"][0]["message"]["content"])
        # The mailboxes of both workers, although all three processes are process 1 of their containers.
        self.assertEqual(self.pod.logs("coordinator").count("through shared memory"), 2)

    def test_1_the_image_is_small_and_says_what_is_in_it(self):
        image = self.podman.inspect(IMAGE)
        self.assertLess(image["Size"], IMAGE_BYTES_MAX)
        labels = image["Labels"]
        self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0")
        self.assertRegex(labels["org.opencontainers.image.version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(image["User"], "10001:10001")
        sbom = json.loads(self.podman.run("exec", "numoe-coordinator", "cat", labels["io.numoe.sbom"]).stdout)
        self.assertEqual((sbom["spdxVersion"], sbom["dataLicense"], sbom["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        names = {package["name"] for package in sbom["packages"]}
        self.assertLessEqual({"numoe-coordinator", "numoe-expert-worker", "libc6", "libgrpc++1.51", "libssl3"}, names)
        listed = self.podman.run("exec", "numoe-coordinator", "ls", "/var/lib/dpkg/status.d").stdout.split()
        self.assertLessEqual(set(listed), names)
        for package in sbom["packages"]:
            self.assertRegex(package["checksums"][0]["checksumValue"], "^[0-9a-f]{64}$", package["name"])
            self.assertRegex(package["SPDXID"], "^SPDXRef-[A-Za-z0-9.-]+$")
        self.assertEqual(len({package["SPDXID"] for package in sbom["packages"]}), len(sbom["packages"]))

    def test_1_the_same_programs_make_the_same_image(self):
        self.podman.build(BIN, "--tag", "localhost/numoe:again")
        first, again = self.podman.inspect(IMAGE), self.podman.inspect("localhost/numoe:again")
        self.assertEqual((first["Id"], first["RootFS"]), (again["Id"], again["RootFS"]))
        for label in ("created", "source", "url", "revision", "vendor"):
            self.assertTrue(first["Labels"]["org.opencontainers.image." + label], label)

    def test_1_build_sh_hands_the_image_over(self):
        """kind and k3s cannot run here: programs of their names write down what they are called with."""
        folder = self.podman.folder
        for name in ("kind", "k3s"):
            with open(os.path.join(folder, name), "w", encoding="ascii") as f:
                f.write(f'#!/bin/sh\necho "{name} $*" >>{folder}/calls\n')
            os.chmod(os.path.join(folder, name), 0o755)
        path = {"PATH": folder + ":" + self.podman.environment["PATH"]}
        file = os.path.join(folder, "image.tar")
        self.podman.build(BIN, "--load", file, "--load", "kind:two", "--load", "k3s", more=path)
        with open(os.path.join(folder, "calls"), encoding="ascii") as f:
            calls = [re.sub(r"/\S*/image.tar", "image.tar", line) for line in f.read().splitlines()]
        self.assertEqual(calls, ["kind load image-archive image.tar --name two", "k3s ctr images import image.tar"])
        self.podman.run("rmi", "localhost/numoe:again", check=False)
        loaded = self.podman.run("load", "--input", file).stdout
        self.assertIn(IMAGE, loaded, "by the name that the chart asks for")

    def test_1_it_may_do_little(self):
        for container in ("coordinator", "worker-0", "worker-1"):
            with open(f"/proc/{self.pod.process(container)}/status", encoding="ascii") as f:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
            self.assertEqual(set(status["Uid"].split() + status["Gid"].split()), {"10001"}, container)
            self.assertEqual({int(status[c], 16) for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}, {0}, container)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), container)
            refused = self.podman.run("exec", "numoe-" + container, "sh", "-c", "echo x >/usr/bin/x", check=False)
            self.assertIn("Read-only file system", refused.stderr, container)
        kept = self.podman.run("exec", "numoe-coordinator", "sh", "-c", "command -v apt dpkg perl python3 mount || echo none").stdout
        self.assertEqual(kept.strip(), "none")
        setuid = self.podman.run("exec", "numoe-coordinator", "find", "/usr", "-xdev", "-perm", "/6000").stdout
        self.assertEqual(setuid, "")
        tools = self.podman.run("exec", "numoe-coordinator", "sh", "-c", "command -v awk cut curl du flock jq sed sha256sum sort xargs | wc -l").stdout
        self.assertEqual(tools.strip(), "10", "what scripts in the image use")
        self.podman.run("exec", "numoe-coordinator", "numoe-download", "--help")

    def test_2_its_memory_is_limited(self):
        for container, limit in (("coordinator", 2 << 30), ("worker-0", 1 << 30)):
            self.assertEqual(memory_limit(self.pod.process(container)), limit, container)

    def test_3_a_killed_worker_comes_back_and_the_stream_goes_on(self):
        expected = Stream(self.server).result()
        replayed = self.server.metric("numoe_steps_replayed_total")
        stream = Stream(self.server, "Count")
        stream.await_events(20)
        before = self.pod.process("worker-1")
        os.kill(before, signal.SIGKILL)
        self.assertEqual(stream.result(), expected, "the answer changed")
        self.assertNotIn(self.pod.process("worker-1"), (0, before))
        self.assertEqual(self.server.metric("numoe_worker_lost_total"), 1)
        self.assertGreater(self.server.metric("numoe_steps_replayed_total"), replayed)
        self.server.await_health("ready")

    def test_4_a_terminated_coordinator_finishes_its_stream_and_refuses_new_ones(self):
        expected = Stream(self.server).result()
        stream = Stream(self.server)
        stream.await_events(10)
        before = self.pod.process("coordinator")
        os.kill(before, signal.SIGTERM)
        await_true(lambda: self.server.health() != "ready", 10, "health stays 'ready' after SIGTERM")
        status, _, body = self.server.request("POST", TEXT, {"prompt": "x", "max_tokens": 1})
        self.assertEqual(status, 503, body)
        self.assertTrue(stream.thread.is_alive(), "the stream had ended before the new request was refused")
        self.assertEqual(stream.result(), expected)
        self.server.await_health("ready")  # the pod has restartPolicy: Always
        self.assertNotEqual(self.pod.process("coordinator"), before)

    def test_5_containers_that_are_stopped_together_finish_their_stream(self):
        expected = Stream(self.server).result()
        stream = Stream(self.server)
        stream.await_events(10)
        containers = ["numoe-coordinator", "numoe-worker-0", "numoe-worker-1"]
        # Stops the containers as Kubernetes does; podman's own `pod stop` removes the network first.
        stop = subprocess.Popen(self.podman.argv("stop", "--time", "50", *containers), env=self.podman.environment,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(stop.wait)
        begun = time.monotonic()
        self.assertEqual(stream.result(), expected, "workers have to outlive the coordinator's drain")
        self.assertEqual(stop.wait(60), 0)
        self.assertLess(time.monotonic() - begun, 35, "a drain waited for its timeout")
        # The exit codes are not checked: podman 4 may start a container again just when its stop succeeds.
        for container in containers:
            log = self.pod.logs(container.removeprefix("numoe-"))
            self.assertIn("signal 15: draining", log)
            self.assertNotIn("drain timeout", log)

    def test_6_one_container_of_workers_serves(self):
        """A worker for each NUMA node under one supervisor, as without a pod."""
        port = free_port()
        common = ["--read-only", "--cap-drop=ALL", "-v", f"{MODEL}:/models/model:ro", "-v", "numoe-supervised:/run/numoe"]
        self.podman.run("run", "-d", "--name", "workers", "-p", f"127.0.0.1:{port}:8080", *common, IMAGE, "numoe-expert-worker", "--supervise",
                        "--local-workers=2", "--model=/models/model", "--listen=unix:/run/numoe", "--health-listen=127.0.0.1:8081")
        self.podman.run("run", "-d", "--name", "alone", "--network=container:workers", *common, IMAGE, "numoe-coordinator",
                        "--model=/models/model", "--workers=unix:/run/numoe/worker-0.sock,unix:/run/numoe/worker-1.sock")
        Server("127.0.0.1", port, lambda: self.podman.run("logs", "workers").stderr).await_health("ready")
        self.podman.run("exec", "workers", "numoe-expert-worker", "--probe=127.0.0.1:8081")
        asked = self.podman.run("exec", "alone", "sh", "-c", "echo 'What is 84 * 3 / 2?' | numoe-chat")
        self.assertIn("126", asked.stdout)
        for container in ("alone", "workers"):
            self.podman.run("stop", "--time", "30", container)
            self.assertEqual(self.podman.inspect(container)["State"]["ExitCode"], 0, container)



def memory_limit(pid):
    """The limit in bytes of the process's memory cgroup, of either version."""
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
        for line in f:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == "" and os.path.exists(f"/sys/fs/cgroup{path}/memory.max"):
                with open(f"/sys/fs/cgroup{path}/memory.max", encoding="ascii") as limit:
                    return int(re.sub("max", "-1", limit.read()))
            if "memory" in controllers.split(","):
                with open(f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes", encoding="ascii") as limit:
                    return int(limit.read())
    raise AssertionError(f"no memory cgroup in /proc/{pid}/cgroup")
