"""A cluster with one real node: containerd, kubelet, kube-proxy and kube-scheduler beside cluster.py's control plane.

NODE names the program of tests/helm/cluster/node, NODE_CGROUP the control group that contains those of the pods, NODE_IMAGES the
archives of their images. It runs in the namespaces of namespaces.py, where the folders that these programs use are its own.
"""
import json
import os
import ssl
import subprocess
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "support")]
import cluster  # noqa: E402
import image  # noqa: E402
from namespaces import ADDRESS  # noqa: E402

NODE = os.environ["NODE"]
PODS = "10.244.7.0/24"
STATE = ("/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state")
CONTAINERD = f"""version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image.PAUSE}"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "/var/lib/cni/conf"
"""
# Each pod has a pair of devices with routes between them, so that traffic to a Service passes the node's own rules.
CNI = {"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "ptp", "ipMasq": False, "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": ADDRESS,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}, "authorization": {"mode": "AlwaysAllow"},
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock", "cgroupDriver": "cgroupfs", "failCgroupV1": False,
    "failSwapOn": False, "makeIPTablesUtilChains": False, "resolvConf": "", "clusterDNS": [ADDRESS], "clusterDomain": "cluster.local",
    "volumePluginDir": "/var/lib/kubelet/volume-plugins", "imageGCHighThresholdPercent": 100,
    # The disk belongs to the developer's machine, and may be nearly full.
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "100Mi", "imagefs.available": "100Mi"}}
# The policies that pin. Reserving 0.3 CPUs removes a whole one from those that may be exclusive, and leaves 1.7 of two.
STATIC = {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "300m"}, "memoryManagerPolicy": "Static",
          "systemReserved": {"memory": "924Mi"}, "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
          "topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container"}


class Node(cluster.Cluster):
    API_FLAGS = ("--kubelet-preferred-address-types=InternalIP",)

    def __init__(self):
        super().__init__()
        self.containerd = self.kubelet = None
        self.kubelet_config = KUBELET

    def begin(self):
        self.write("containerd.toml", CONTAINERD)
        os.makedirs("/var/lib/cni/conf")
        self.write("/var/lib/cni/conf/10-pods.conflist", json.dumps(CNI))
        self.start_containerd()
        super().begin()
        for archive in os.environ["NODE_IMAGES"].split(":"):
            self.ctr("images", "import", archive)
        common = (f"--kubeconfig={self.config}",)
        self.run("kube-scheduler", NODE, "kube-scheduler", *common, "--leader-elect=false", "--secure-port=0")
        self.run("kube-proxy", NODE, "kube-proxy", *common, f"--hostname-override={cluster.NODE}", "--proxy-mode=iptables",
                 f"--cluster-cidr={PODS}", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0",
                 "--conntrack-tcp-timeout-close-wait=0")
        self.start_kubelet()
        self.wait("the node", self.is_ready)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def start_containerd(self):
        self.containerd = self.run("containerd", "containerd", "--config", self.path("containerd.toml"))
        self.wait("containerd", lambda: self.ctr("version"))

    def start_kubelet(self):
        self.write("kubelet.json", json.dumps(self.kubelet_config))
        self.kubelet = self.run("kubelet", NODE, "kubelet", f"--config={self.path('kubelet.json')}", f"--kubeconfig={self.config}",
                                f"--hostname-override={cluster.NODE}", f"--node-ip={ADDRESS}", f"--cgroup-root=/{os.environ['NODE_CGROUP']}")
        self.wait("the kubelet", self.kubelet_is_healthy)

    def kill(self, process):
        """Kills a program without a signal that it could handle, as a crash does."""
        self.processes.remove(process)
        process.kill()
        process.wait()

    def restart_kubelet(self, policies):
        """Starts the kubelet with these policies and without the state of its managers."""
        self.kill(self.kubelet)
        for path in STATE:
            if os.path.exists(path):
                os.unlink(path)
        self.kubelet_config = {**KUBELET, **policies}
        self.start_kubelet()

    def kubelet_is_healthy(self):
        try:
            with urllib.request.urlopen("http://127.0.0.1:10248/healthz", timeout=5) as reply:
                return reply.read() == b"ok"
        except OSError:
            return False

    def ask_api(self, path):
        """Asks the API server by HTTP, which is faster than a process of kubectl for each question."""
        with open(self.config, encoding="utf-8") as f:
            server = json.load(f)["clusters"][0]["cluster"]["server"]
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(f"{server}/{path}", headers={"Authorization": f"Bearer {cluster.TOKEN}"})
        with urllib.request.urlopen(request, timeout=10, context=trust) as reply:
            return json.load(reply)

    def allocatable(self):
        return self.get("node", cluster.NODE, "default")["status"]["allocatable"]

    def is_ready(self):
        conditions = self.get("node", cluster.NODE, "default")["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def ctr(self, *arguments):
        done = subprocess.run(["ctr", "--namespace", "k8s.io", *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise cluster.Failed(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def process_of(self, namespace, pod, container):
        """-> the process id of a pod's container"""
        statuses = self.get("pod", pod, namespace)["status"]["containerStatuses"]
        own = next(s["containerID"] for s in statuses if s["name"] == container).removeprefix("containerd://")
        for line in self.ctr("tasks", "ls").splitlines():
            if line.split()[0] == own:
                return int(line.split()[1])
        raise cluster.Failed(f"{pod} has no process of {container}")

    def service_address(self, namespace, name):
        return self.get("service", name, namespace)["spec"]["clusterIP"]
