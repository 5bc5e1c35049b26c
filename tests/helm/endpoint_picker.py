#!/usr/bin/env python3
"""The endpoint picker of the Gateway API Inference Extension chooses among real coordinators, by their /metrics.

The picker and the CustomResourceDefinitions come from its module, and the API server is real. The chart renders the pool, the picker's
arguments, its configuration and its permissions, and the picker has the token of the chart's ServiceAccount. A small gateway
calls it by Envoy's ext_proc and forwards requests (picker/main.go). The test acts as the kubelet: a pod is ready while /health of its
coordinator is 200. PICKER, PICKER_CRDS and CLUSTER name the programs and the folder (run.sh --endpoint-picker).
"""
import concurrent.futures
import glob
import http.client
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import unittest
import uuid

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "e2e")]
import chart  # noqa: E402
import cluster  # noqa: E402
import skips  # noqa: E402
from daemons import Daemon, until  # noqa: E402
from ports import free_port  # noqa: E402

BIN = os.environ.get("NUMOE_BIN", os.path.join(chart.ROOT, "build", "release", "bin"))
NANO = os.path.join(chart.ROOT, "deploy", "models", "nano")
PICKER, CRDS = os.environ.get("PICKER", ""), os.environ.get("PICKER_CRDS", "")
ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
NAMESPACE = "models"
ASKED = 12  # number of requests; by chance they would all avoid one of three coordinators once in 129 times, and all go to one in 531441


def ask(address, port, method, path, body=None, timeout=60):
    """-> (status, headers, text)"""
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        connection.request(method, path, json.dumps(body).encode() if body else None, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode("utf-8", "replace")
    finally:
        connection.close()


class EndpointPicker(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(cluster.Cluster())
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="numoe-picker."))
        cls.daemons, cls.pods, cls.ready, cls.done = {}, {}, {}, threading.Event()
        cls.port = free_port()
        cls.start_model_servers()
        cls.declare()
        kubelet = threading.Thread(target=cls.play_kubelet, daemon=True)
        kubelet.start()
        cls.addClassCleanup(kubelet.join)
        cls.addClassCleanup(cls.done.set)
        cls.start_picker()

    @classmethod
    def start(cls, name, *command):
        daemon = cls.daemons[name] = Daemon(name, list(command), cls.folder)
        daemon.start()
        cls.addClassCleanup(daemon.stop, signal.SIGKILL)

    @classmethod
    def start_model_servers(cls):
        workers = f"unix:{cls.folder}/worker.sock"
        cls.start("worker", f"{BIN}/numoe-expert-worker", "--model", NANO, "--listen", workers, "--metrics-port", "0")
        for i, address in enumerate(ADDRESSES):
            # Each coordinator computes one request at a time, so others wait, as they do with a large model under load.
            cls.start(f"numoe-{i}", f"{BIN}/numoe-coordinator", "--model", NANO, "--workers", workers, "--host", address, "--port", str(cls.port),
                      "--max-num-seqs", "1")
            cls.pods[address] = f"numoe-{i}"
        for address in ADDRESSES:
            until(lambda a=address: cls.daemons[cls.pods[a]].log()[-2000:], lambda a=address: cls.healthy(a))

    @classmethod
    def healthy(cls, address):
        try:
            return ask(address, cls.port, "GET", "/health", timeout=5)[0] == 200
        except OSError:
            return False

    @classmethod
    def declare(cls):
        """Applies what the chart makes for a pool, except the pods: the test makes the coordinators' pods, and runs the picker as a process."""
        for path in sorted(glob.glob(f"{CRDS}/*.yaml")):
            with open(path, encoding="utf-8") as f:
                cls.cluster.apply(f.read(), "default")
        cls.cluster.wait("InferencePools", lambda: cls.cluster.kubectl("get", "inferencepools.inference.networking.k8s.io", "-A") is not None)
        cls.cluster.kubectl("create", "namespace", NAMESPACE)
        cls.ports = {"port": free_port(), "healthPort": free_port(), "metricsPort": free_port()}
        pool = {"enabled": True, "picker": {**cls.ports, "flags": {"v": 2}}}
        objects = chart.render("values-nano.yaml", {"coordinator": {"port": cls.port}, "inferencePool": pool}, namespace=NAMESPACE)
        labels = chart.find(objects, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
        cls.picker = chart.find(objects, "Deployment", "numoe-picker")["spec"]["template"]["spec"]
        # The pods have no node, because controllers would delete pods whose node does not exist.
        pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
                 "spec": {"containers": [{"name": "coordinator", "image": "numoe"}]}} for name in cls.pods.values()]
        declared = [o for o in objects if o["kind"] in ("InferencePool", "Service", "ServiceAccount", "Role", "RoleBinding")]
        cls.cluster.apply(yaml.safe_dump_all([*declared, *pods]), NAMESPACE)

    @classmethod
    def play_kubelet(cls):
        """Checks the coordinator with the chart's readiness probe."""
        while not cls.done.wait(0.2):
            for address, pod in cls.pods.items():
                ready = cls.healthy(address)
                if cls.ready.get(pod) != ready:
                    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                              "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": None}]}
                    cls.cluster.kubectl("patch", "pod", pod, "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
                    cls.ready[pod] = ready

    @classmethod
    def start_picker(cls):
        cls.metrics, cls.gateway = cls.ports["metricsPort"], free_port()
        # in the arguments of a pod $$ stands for $
        arguments = [argument.replace("$$", "$") for argument in cls.picker["containers"][0]["args"]]
        cls.start("picker", "env", f"KUBECONFIG={cls.config_of_the_service_account()}", PICKER, "picker", *arguments)
        cls.start("gateway", PICKER, "gateway", f"127.0.0.1:{cls.gateway}", f"127.0.0.1:{cls.ports['port']}")
        until(lambda: cls.daemons["picker"].log()[-3000:], lambda: cls.seen("inference_pool_ready_pods") == {"numoe": 3})
        until("the gateway listens", cls.gateway_listens)

    @classmethod
    def config_of_the_service_account(cls):
        """-> the path of a kubeconfig with only the permissions of the chart's Role"""
        with open(cls.cluster.config, encoding="utf-8") as f:
            config = json.load(f)
        token = cls.cluster.kubectl("create", "token", cls.picker["serviceAccountName"], "-n", NAMESPACE).strip()
        config["users"] = [{"name": "test", "user": {"token": token}}]
        path = os.path.join(cls.folder, "kubeconfig")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        return path

    @classmethod
    def gateway_listens(cls):
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", cls.gateway)) == 0

    @classmethod
    def seen(cls, name, label="name"):
        """{label: value} of a metric of the picker, which shows what it knows of the coordinators."""
        try:
            text = ask("127.0.0.1", cls.metrics, "GET", "/metrics")[2]
        except OSError:
            return {}
        lines = [line for line in text.splitlines() if line.startswith(name + "{")]
        return {line.split(f'{label}="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in lines}

    def through_the_gateway(self):
        """-> the addresses that answered. Every prompt is different, so no coordinator has its beginning."""
        chosen = []
        for _ in range(ASKED):
            body = {"model": "nano", "prompt": str(uuid.uuid4()), "max_tokens": 2}
            status, headers, text = ask("127.0.0.1", self.gateway, "POST", "/v1/completions", body)
            self.assertEqual(status, 200, text + self.daemons["picker"].log()[-2000:])
            self.assertEqual(json.loads(text)["usage"]["completion_tokens"], 2, "a coordinator has answered")
            chosen.append(headers["x-gateway-destination-endpoint"].rsplit(":", 1)[0])
        return chosen

    def busy(self, addresses):
        """A context in which these coordinators have waiting requests, as far as the picker sees."""
        return Busy(self, addresses)

    def test_busy_coordinators_are_spared(self):
        first, *others = ADDRESSES
        with self.busy([first]):
            self.assertNotIn(first, self.through_the_gateway())
        with self.busy(others):
            self.assertEqual(set(self.through_the_gateway()), {first})

    def test_by_sglangs_names_as_well(self):
        """Labels of pods tell the picker whose metric names to read; without them it reads vLLM's names."""
        first, *others = ADDRESSES
        for engine in ("sglang", "vllm"):
            for pod in self.pods.values():
                self.cluster.kubectl("label", "pod", pod, "-n", NAMESPACE, "--overwrite", f"inference.networking.k8s.io/engine-type={engine}")
            with self.busy([first]):
                self.assertNotIn(first, self.through_the_gateway())

    def test_the_picker_finds_every_metric_that_it_asks_for(self):
        self.through_the_gateway()
        log = self.daemons["picker"].log()
        self.assertIn("starting collection", log)
        self.assertNotIn("extract failed", log)

    def test_its_role_lets_it_read_what_it_asks_for_and_nothing_else(self):
        self.assertNotIn("is forbidden", self.daemons["picker"].log())
        who = f"--as=system:serviceaccount:{NAMESPACE}:{self.picker['serviceAccountName']}"
        for verb, what, allowed in (("list", "pods", True), ("delete", "pods", False), ("get", "secrets", False)):
            try:
                answer = self.cluster.kubectl("auth", "can-i", verb, what, "-n", NAMESPACE, who).strip()
            except cluster.Failed:  # kubectl reports "no" as an error
                answer = "no"
            self.assertEqual(answer, "yes" if allowed else "no", f"{verb} {what}")

    def test_a_coordinator_that_is_down_is_left_out(self):
        gone = self.daemons[self.pods[ADDRESSES[0]]]
        gone.stop(signal.SIGKILL)
        until("the picker notices it", lambda: self.seen("inference_pool_ready_pods") == {"numoe": 2})
        self.assertNotIn(ADDRESSES[0], self.through_the_gateway())
        gone.start()
        until("the picker takes it back", lambda: self.seen("inference_pool_ready_pods") == {"numoe": 3})
        with self.busy(ADDRESSES[1:]):
            self.assertEqual(set(self.through_the_gateway()), {ADDRESSES[0]})

    def test_streams_pass_and_refusals_are_the_coordinators(self):
        body = {"model": "nano", "messages": [{"role": "user", "content": "Count."}], "max_tokens": 5, "stream": True}
        status, headers, text = ask("127.0.0.1", self.gateway, "POST", "/v1/chat/completions", body)
        self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, "text/event-stream"))
        self.assertTrue(text.endswith("data: [DONE]\n\n"), text)
        status, _, text = ask("127.0.0.1", self.gateway, "POST", "/v1/completions", {"model": "other", "prompt": "x"})
        self.assertEqual(status, 404, text)


class Busy:
    CLIENTS = 4

    def __init__(self, test, addresses):
        self.test, self.addresses, self.end = test, addresses, threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(self.CLIENTS * len(addresses))

    def __enter__(self):
        self.clients = [self.pool.submit(self.ask_again_and_again, address) for address in self.addresses for _ in range(self.CLIENTS)]
        # One request runs; between two answers there may be one more.
        pods = [self.test.pods[address] for address in self.addresses]
        until(lambda: f"requests wait: {self.waiting(pods)}", lambda: min(self.waiting(pods)) >= self.CLIENTS - 2)
        return self

    def waiting(self, pods):
        seen = self.test.seen("inference_pool_per_pod_queue_size", "model_server_pod")
        return [seen.get(f"{pod}-rank-0", seen.get(pod, 0)) for pod in pods]

    def ask_again_and_again(self, address):
        while not self.end.is_set():
            status, _, text = ask(address, self.test.port, "POST", "/v1/completions", {"prompt": "x", "max_tokens": 300, "ignore_eos": True})
            assert status == 200, text

    def __exit__(self, *_):
        self.end.set()
        for client in self.clients:
            client.result()
        self.pool.shutdown()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(skips.finish(unittest.main(exit=False, verbosity=2).result))
    except KeyboardInterrupt:
        EndpointPicker.doClassCleanups()  # unittest does not call this after a KeyboardInterrupt
        sys.exit("interrupted")
