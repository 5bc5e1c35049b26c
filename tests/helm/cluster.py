"""A Kubernetes without nodes for the tests: etcd, kube-apiserver, kube-controller-manager, and kwok, which acts as the kubelets.

CLUSTER names the program of tests/helm/cluster, KWOK the program kwok, KWOK_STAGES the folder stage/ of kwok's module, which says what
happens to pods. All files are in a folder of its own, and all ports are free ones.
"""
import glob
import json
import os
import shutil
import subprocess
import tempfile
import time

from ports import free_port

PROGRAM = os.environ.get("CLUSTER", "")
KWOK = os.environ.get("KWOK", "")
STAGES = os.environ.get("KWOK_STAGES", "")
TOKEN, NODE = "test", "host"


class Failed(Exception):
    """A command failed; the text is what kubectl printed."""


class Cluster:
    API_FLAGS = ()  # further ones of kube-apiserver

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="numoe-cluster.")
        self.processes = []
        self.config = os.path.join(self.folder, "kubeconfig")

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.last_words()
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, name, *command):
        """Starts a process whose output goes to the log of that name, and returns it."""
        # Debian's etcd 3.4 cannot report the progress of a watch, so clients list before they watch.
        with open(self.path(f"{name}.log"), "ab") as log:
            # pylint: disable=consider-using-with
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder,
                                       env={**os.environ, "KUBE_FEATURE_WatchListClient": "false"})
        self.processes.append(process)
        return process

    def last_words(self):
        for path in sorted(glob.glob(self.path("*.log"))):
            with open(path, encoding="utf-8", errors="replace") as f:
                print(f"== the end of {os.path.basename(path)}", *f.read().splitlines()[-15:], sep="\n")

    def begin(self):
        etcd, peer, port = free_port(), free_port(), free_port()
        self.run("etcd", "etcd", "--data-dir", self.path("etcd"), "--listen-client-urls", f"http://127.0.0.1:{etcd}",
                 "--advertise-client-urls", f"http://127.0.0.1:{etcd}", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                 "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}", "--initial-cluster", f"default=http://127.0.0.1:{peer}",
                 "--unsafe-no-fsync")
        subprocess.run(["openssl", "genrsa", "-out", self.path("sa.key"), "2048"], check=True, capture_output=True)
        with open(self.path("tokens.csv"), "w", encoding="utf-8") as f:
            f.write(f'{TOKEN},admin,1,"system:masters"\n')
        self.run("kube-apiserver", PROGRAM, "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1",
                 f"--secure-port={port}", f"--cert-dir={self.path('certificates')}", "--service-account-issuer=https://numoe.test",
                 f"--service-account-key-file={self.path('sa.key')}", f"--service-account-signing-key-file={self.path('sa.key')}",
                 f"--token-auth-file={self.path('tokens.csv')}", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
                 "--feature-gates=WatchList=false", *self.API_FLAGS)
        cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        with open(self.config, "w", encoding="utf-8") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "test",
                       "clusters": [{"name": "test", "cluster": cluster}], "users": [{"name": "test", "user": {"token": TOKEN}}],
                       "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}, f)
        self.wait("the API server", lambda: "ok" in self.kubectl("get", "--raw=/readyz"))
        self.run("kube-controller-manager", PROGRAM, "kube-controller-manager", f"--kubeconfig={self.config}", "--leader-elect=false",
                 f"--service-account-private-key-file={self.path('sa.key')}", f"--root-ca-file={self.path('certificates')}/apiserver.crt",
                 "--kube-api-qps=200", "--kube-api-burst=400", "--secure-port=0")
        self.wait("service accounts", lambda: self.kubectl("get", "serviceaccount", "default", "-n", "default"))

    def add_kubelets(self):
        stages = [f"--config={path}" for path in sorted(glob.glob(f"{STAGES}/node/fast/*-*.yaml") + glob.glob(f"{STAGES}/pod/fast/*-*.yaml"))]
        self.run("kwok", KWOK, f"--kubeconfig={self.config}", "--manage-all-nodes=true", *stages)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}}
        self.apply(json.dumps(node), "default")

    def kubectl(self, *arguments, stdin=None):
        done = subprocess.run([PROGRAM, "kubectl", f"--kubeconfig={self.config}", *arguments], input=stdin, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        return done.stdout

    def apply(self, text, namespace):
        """Applies server-side, as the operator's handbook does. kubectl's warnings are errors, because they are about Pod Security."""
        done = subprocess.run([PROGRAM, "kubectl", f"--kubeconfig={self.config}", "-n", namespace, "apply", "--server-side",
                               "--warnings-as-errors", "-f", "-"], input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        return done.stdout

    def get(self, kind, name, namespace):
        return json.loads(self.kubectl("get", kind, name, "-n", namespace, "-o", "json"))

    def list(self, kind, namespace, selector=""):
        return json.loads(self.kubectl("get", kind, "-n", namespace, "-l", selector, "-o", "json"))["items"]

    def wait(self, what, ready, seconds=120):
        last = None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for process in self.processes:
                if process.poll() is not None:
                    self.last_words()
                    raise Failed(f"{process.args[0:2]} ended with {process.returncode} while waiting for {what}")
            try:
                if ready():
                    return
            except Failed as error:
                last = error
            time.sleep(0.3)
        raise Failed(f"{what}: not after {seconds} s; {last}")

    def scheduler_of_one_node(self, namespace):
        """Binds waiting pods to the node; the real scheduler would require real capacities."""
        for pod in self.list("pods", namespace):
            if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]},
                           "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}}
                self.kubectl("create", "--raw", f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/binding", "-f", "-",
                             stdin=json.dumps(binding))
