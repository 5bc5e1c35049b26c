"""Images as archives for containerd, made without a registry: NUMoE's by deploy/image/build.sh, and pause, which every pod has."""
import os
import re
import shutil
import subprocess

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PAUSE = "numoe.test/pause:1"


def name():
    """The image of the chart's pods by its name in containerd, which adds Docker's registry to names without one."""
    with open(os.path.join(ROOT, "deploy/manifests/nano.yaml"), encoding="utf-8") as f:
        asked = re.search(r"^ +image: (\S+)$", f.read(), re.M)[1]
    return asked if "/" in asked else f"docker.io/library/{asked}"


def make_archives(folder, programs, pause):
    """-> archives of the images of NUMoE and pause, under the names by which pods refer to them. Needs the network for apt."""
    store = ["--root", f"{folder}/store", "--runroot", f"{folder}/store-run", "--storage-driver", "vfs"]
    numoe = name()
    said(os.path.join(ROOT, "deploy/image/build.sh"), "--bin", programs, "--tag", numoe, "--", *store)
    os.makedirs(f"{folder}/pause")
    shutil.copy(pause, f"{folder}/pause/pause")
    with open(f"{folder}/pause/Dockerfile", "w", encoding="ascii") as f:
        f.write('FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n')
    said("buildah", *store, "bud", "--quiet", "--isolation", "chroot", "--tag", PAUSE, f"{folder}/pause")
    archives = []
    for tag in (numoe, PAUSE):
        archives.append(f"{folder}/image-{len(archives)}.tar")
        said("buildah", *store, "push", "--quiet", tag, f"docker-archive:{archives[-1]}:{tag}")
    shutil.rmtree(f"{folder}/store", ignore_errors=True)
    return archives


def said(*command):
    """Runs a command, and prints its output only if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-3000:]}")
