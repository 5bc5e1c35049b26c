"""Namespaces in which a node runs and which leave nothing behind: a network, mounts and processes of their own.

run() starts a command in them. Their first process is this file as a program, which makes the network and collects orphans.
The kernel ends every process of the namespaces with the first one, and mounts and devices with the last, so no list is needed of
what a crash or a signal leaves. Only control groups and the folder are outside, and sweep() finds those by name.
"""
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PREFIX = "numoe-node."  # followed by the process id of the run
CGROUPS = "/sys/fs/cgroup"
ADDRESS = "198.18.0.1"  # of the node, in a network that RFC 2544 reserves for benchmarks and that only these namespaces have
NOWHERE = "198.18.0.2"
OWN_FOLDERS = ("/run", "/var/lib", "/var/log")  # folders in which containerd, CNI and the kubelet store their files
ENTER = ("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")


def why_none():
    """-> why a node's namespaces are not possible here, or ''."""
    if os.geteuid() != 0:
        return "needs root (namespaces, control groups)"
    tried = subprocess.run([*ENTER, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"this machine allows no namespaces: {tried.stderr.strip()}"
    try:
        own = make_cgroups()
    except OSError as error:
        return f"this machine allows no control groups: {error}"
    remove_cgroups(own)
    return ""


def make_cgroups():
    """Makes a control group of this run in every hierarchy; returns its name."""
    own = PREFIX + str(os.getpid())
    try:
        add_cgroups(own)
    except OSError:
        remove_cgroups(own)
        raise
    return own


def add_cgroups(own):
    if os.path.exists(f"{CGROUPS}/cgroup.controllers"):
        os.makedirs(f"{CGROUPS}/{own}", exist_ok=True)
        with open(f"{CGROUPS}/cgroup.controllers", encoding="ascii") as f:
            wanted = " ".join("+" + name for name in f.read().split())
        for folder in (CGROUPS, f"{CGROUPS}/{own}"):
            with open(f"{folder}/cgroup.subtree_control", "w", encoding="ascii") as f:
                f.write(wanted)
        return
    for hierarchy in glob.glob(f"{CGROUPS}/*/"):
        if os.path.exists(hierarchy + "cgroup.procs") and not os.path.islink(hierarchy.rstrip("/")):
            os.makedirs(hierarchy + own, exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # it is empty in a new group, which then accepts no process
                if os.path.exists(f"{hierarchy}{own}/{name}"):
                    shutil.copyfile(hierarchy + name, f"{hierarchy}{own}/{name}")


def remove_cgroups(own):
    """A killed process is in its group until the kernel has removed it; sweep() of the next run removes groups that remain longer."""
    end = time.monotonic() + 20
    while (tops := glob.glob(f"{CGROUPS}/{own}") + glob.glob(f"{CGROUPS}/*/{own}")) and time.monotonic() < end:
        for folder in [folder for top in tops for folder, _, _ in os.walk(top, topdown=False)]:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        time.sleep(0.1)


def make_folder():
    return tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}.")


def sweep():
    """Removes what earlier runs have left whose process does not exist any more."""
    folders = glob.glob(f"{tempfile.gettempdir()}/{PREFIX}*")
    for path in folders + glob.glob(f"{CGROUPS}/{PREFIX}*") + glob.glob(f"{CGROUPS}/*/{PREFIX}*"):
        name = os.path.basename(path)
        if not os.path.exists(f"/proc/{name.split('.')[1]}"):
            if path in folders:
                shutil.rmtree(path, ignore_errors=True)
            else:
                remove_cgroups(name)


def run(folder, command):
    """Runs a command in namespaces of its own, with `folder` in place of OWN_FOLDERS; returns its exit status."""
    with subprocess.Popen([*ENTER, sys.executable, os.path.abspath(__file__), folder, *command], env={**os.environ, "TMPDIR": folder}) as first:
        try:
            return first.wait()
        finally:
            first.kill()


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def make_network():
    """Makes a pair of devices as the node's network. Its default route leads nowhere; kubelet, kube-proxy and CNI only need one to exist."""
    ip("link", "set", "lo", "up")
    ip("link", "add", "node0", "type", "veth", "peer", "name", "node1")
    ip("link", "set", "node1", "up")
    ip("addr", "add", f"{ADDRESS}/24", "dev", "node0")
    ip("link", "set", "node0", "up")
    ip("route", "add", "default", "via", NOWHERE, "dev", "node0")
    with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as f:
        f.write("1")


def be_first(folder, command):
    """The first process of the namespaces. It ends when the command ends, and the kernel then ends everything that the command started."""
    for place in OWN_FOLDERS:
        own = folder + place
        os.makedirs(own)
        subprocess.run(["mount", "--bind", own, place], check=True)
    make_network()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command gets the signal as well, and reports its progress
    child = subprocess.Popen(command)  # pylint: disable=consider-using-with
    while True:
        ended, status = os.wait()
        if ended == child.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    code = be_first(sys.argv[1], sys.argv[2:])
    sys.exit(code if code >= 0 else 128 - code)
