"""Runs NUMoE's image with podman in a folder of its own, so that nothing of it remains on the machine. Standard library only."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from daemons import free_port  # noqa: E402

with open(os.path.join(ROOT, "deploy/podman/numoe.yaml"), encoding="utf-8") as pod_file:
    IMAGE = re.search(r"image: (\S+)", pod_file.read()).group(1)  # the name that build.sh uses by default
# A configuration that works also as root in a container or in a virtual machine without systemd.
CONTAINERS_CONF = """[containers]
default_ulimits=["nofile=20000:20000","nproc=20000:20000"]
log_driver="k8s-file"
[engine]
cgroup_manager="cgroupfs"
events_logger="file"
runtime="runc"
[network]
network_backend="netavark"
"""


def why_no_containers():
    """-> why containers cannot run here, or ''."""
    missing = [tool for tool in ("podman", "buildah", "runc", "netavark") if not find_tool(tool)]
    if missing:
        return "not installed: " + ", ".join(missing)
    return "" if os.geteuid() == 0 else "needs root (cgroup limits, networks)"


def find_tool(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/lib/podman")


def command(argv, environment, timeout):
    """Like subprocess.run, but an interruption ends the command gently: a killed podman leaves half of a network's rules."""
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            said = process.communicate(timeout=timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(argv, process.returncode, *said)


class Podman:
    """A store of images of its own, with the image built from programs in `bin_dir`."""

    def __init__(self, bin_dir):
        self.folder = tempfile.mkdtemp(prefix="numoe-deploy.")
        conf = os.path.join(self.folder, "containers.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(CONTAINERS_CONF)
        storage = os.path.join(self.folder, "storage.conf")
        with open(storage, "w", encoding="ascii") as f:
            f.write(f'[storage]\ndriver="vfs"\nrunroot="{self.folder}/run"\ngraphroot="{self.folder}/store"\n')
        self.environment = {**os.environ, "CONTAINERS_CONF": conf, "CONTAINERS_STORAGE_CONF": storage}
        self.store = ["--root", self.folder + "/store", "--runroot", self.folder + "/run"]
        try:
            self.build(bin_dir)
        except BaseException:
            self.remove_folder()
            raise

    def build(self, bin_dir, *options, more=None):
        """Runs deploy/image/build.sh for the programs in `bin_dir`; returns the name that it gives the image."""
        build = [os.path.join(ROOT, "deploy/image/build.sh"), "--bin", bin_dir, *options, "--", *self.store]
        built = command(build, {**self.environment, **(more or {})}, 600)
        if built.returncode != 0:
            raise AssertionError(f"deploy/image/build.sh failed:\n{built.stdout}{built.stderr}")

    def argv(self, *arguments):
        return ["podman", *self.store, *arguments]

    def run(self, *arguments, check=True, timeout=120):
        done = command(self.argv(*arguments), self.environment, timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"podman {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def inspect(self, name):
        return json.loads(self.run("inspect", name).stdout)[0]

    def close(self):
        # A container that is left keeps the rules of its published ports in the host's firewall, so that no server at such a port can be reached.
        self.run("pod", "rm", "--all", "--force")
        for container in self.run("ps", "--all", "--quiet").stdout.split():  # `rm --all` does not remove a container whose network others use
            self.run("rm", "--force", "--time=0", "--depend", "--ignore", container)
        self.run("network", "rm", "podman-default-kube-network", check=False)
        self.remove_folder()

    def remove_folder(self):
        mounts = subprocess.run(["findmnt", "-rno", "TARGET"], capture_output=True, text=True).stdout.splitlines()
        for target in reversed([m for m in mounts if m.startswith(self.folder + "/")]):
            subprocess.run(["umount", "-l", target], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Pod:
    """The pod of deploy/podman/numoe.yaml with another model and free ports; sends HTTP requests as tests/e2e's Cluster does."""

    def __init__(self, podman, model):
        self.podman = podman
        self.port, self.worker_ports = free_port(), [free_port(), free_port()]
        with open(os.path.join(ROOT, "deploy/podman/numoe.yaml"), encoding="utf-8") as f:
            text = f.read()
        for old, new in (("/var/lib/numoe/model", model), ("hostPort: 8080", f"hostPort: {self.port}"),
                         ("hostPort: 9090", f"hostPort: {self.worker_ports[0]}"),
                         ("hostPort: 9091", f"hostPort: {self.worker_ports[1]}")):
            assert old in text, f"deploy/podman/numoe.yaml has no '{old}'"
            text = text.replace(old, new)
        self.path = os.path.join(podman.folder, "pod.yaml")
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text)

    def start(self):
        self.podman.run("kube", "play", self.path)

    def stop(self):
        self.podman.run("kube", "down", self.path, check=False)

    def logs(self, container):
        done = self.podman.run("logs", "numoe-" + container, check=False)
        return done.stdout + done.stderr

    def process(self, container):
        """-> the process id on this machine, 0 while it is not running"""
        return self.podman.inspect("numoe-" + container)["State"]["Pid"]


def await_true(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s still not: {what() if callable(what) else what}")
        time.sleep(0.05)
