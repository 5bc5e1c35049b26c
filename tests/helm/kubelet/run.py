#!/usr/bin/env python3
"""Runs the tests of the chart on a real node: run.py [TEST...]; tests/helm/run.sh --kubelet starts it.

CLUSTER, NODE, PAUSE and HELM name programs, NUMOE_BIN the folder of this tree's programs. Builds the images while there is a network,
then runs cases.py in namespaces of their own and removes what is left outside them.
"""
import os
import shutil
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "support"))
import image  # noqa: E402
import namespaces  # noqa: E402
import skips  # noqa: E402

PROGRAMS = ("containerd", "ctr", "runc", "buildah", "iptables", "ip", "etcd", "prometheus", "promtool", "setpriv", "unshare",
            "/usr/lib/cni/ptp", "/usr/lib/cni/host-local", "/usr/lib/cni/loopback")


def why_not():
    """-> what is missing, or ''."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return "not installed: " + ", ".join(missing)
    missing = [name for name in ("numoe-coordinator", "numoe-expert-worker", "numoe-router", "numoe-pack", "numoe-chat")
               if not os.path.exists(os.path.join(os.environ["NUMOE_BIN"], name))]
    if missing:
        return f"not built: {', '.join(missing)} in {os.environ['NUMOE_BIN']}"
    return namespaces.why_none()


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # these are for ip and iptables
    reason = why_not()
    if reason:
        return skips.status_of("the kubelet", reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    namespaces.sweep()
    folder, cgroup = namespaces.make_folder(), namespaces.make_cgroups()
    try:
        print("building the images", file=sys.stderr)
        archives = image.make_archives(folder, os.environ["NUMOE_BIN"], os.environ["PAUSE"])
        os.environ.update(NODE_CGROUP=cgroup, NODE_IMAGES=":".join(archives))
        return namespaces.run(folder, [sys.executable, os.path.join(HERE, "cases.py"), *sys.argv[1:]])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        for how in (signal.SIGINT, signal.SIGTERM):
            signal.signal(how, signal.SIG_IGN)
        namespaces.remove_cgroups(cgroup)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
