"""Makes the files that the guests boot: Debian's kernel, a root file system with the tested programs, and an initial ramdisk.

It installs and mounts nothing and needs no privilege: it downloads and unpacks packages, and mke2fs writes the file system
from a folder. Standard library only.
"""
import glob
import gzip
import json
import math
import os
import re
import shutil
import stat
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "bench"))
import make_checkpoint  # noqa: E402

PROGRAMS = ("numoe-expert-worker", "numoe-coordinator")
HOST_PROGRAMS = ("bash", "curl")  # copied from this machine, where tests/run.sh has installed them
GUEST_PACKAGES = ("busybox-static", "numactl", "libnuma1")
# The cloud kernel has ext4 and NUMA built in. It needs these modules to use its disk; each comes after its dependencies.
MODULES = ("virtio/virtio_ring", "virtio/virtio", "virtio/virtio_pci_legacy_dev", "virtio/virtio_pci_modern_dev",
           "virtio/virtio_pci", "block/virtio_blk")
# A model whose slice can fill a node: 10 experts of Kimi-K2's size in one layer, 236 MiB in total.
LARGE_EXPERTS = 10
SPARE_BYTES = 64 << 20

INIT_OF_RAMDISK = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in {modules}; do /bin/busybox insmod /modules/$module.ko; done
/bin/busybox mount -t ext4 /dev/vda /system || /bin/busybox poweroff -f
/bin/busybox mount --move /dev /system/dev
exec /bin/busybox switch_root /system /sbin/init
"""


class Unavailable(Exception):
    """Something is missing that could be installed on this machine; the text says what."""


def newest_kernel():
    """-> the name of the newest package of Debian 12's kernel for virtual machines. Raises Unavailable."""
    names = subprocess.run(["apt-cache", "pkgnames", "linux-image-6.1."], capture_output=True, text=True).stdout.split()
    builds = [name for name in names if re.fullmatch(r"linux-image-6\.1\.[0-9-]+-cloud-amd64", name)]
    if not builds:
        raise Unavailable("a package linux-image-6.1.*-cloud-amd64, which apt does not know; run apt-get update on Debian 12")
    return max(builds, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def download(packages, folder):
    """Downloads the .deb files of the packages into the folder. Raises Unavailable."""
    command = ["apt-get", "download", "-q", *packages]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0 and os.getuid() == 0:  # apt's lists may be older than the mirror
        subprocess.run(["apt-get", "update"], capture_output=True, check=False)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(packages)}, which apt-get cannot download: {done.stderr.strip()[-300:]}")


def fetch(work):
    """-> the folders of the unpacked kernel and of the guest's other packages; it reuses folders of an earlier run."""
    try:
        kernel_package = newest_kernel()
    except FileNotFoundError as error:
        raise Unavailable("apt-cache, because the guest is made of Debian's packages") from error
    folder = os.path.join(work, kernel_package)
    kernel, tools = os.path.join(folder, "kernel"), os.path.join(folder, "tools")
    if not os.path.isdir(folder):
        partial = folder + ".partial"
        shutil.rmtree(partial, ignore_errors=True)
        os.makedirs(partial)
        download([kernel_package, *GUEST_PACKAGES], partial)
        for package in glob.glob(os.path.join(partial, "*.deb")):
            target = "kernel" if os.path.basename(package).startswith("linux-image") else "tools"
            subprocess.run(["dpkg", "-x", package, os.path.join(partial, target)], check=True)
            os.remove(package)
        os.rename(partial, folder)
    return kernel, tools


def libraries_of(program):
    """-> the paths of the libraries that the loader maps for a program on this machine."""
    listing = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", listing)


def add_program(root, program, target):
    """Copies a program of this machine to `target` in the root, and its libraries to the same paths as on this machine."""
    os.makedirs(os.path.dirname(root + target), exist_ok=True)
    shutil.copy(os.path.realpath(program), root + target)
    for library in libraries_of(program):
        if not os.path.exists(root + library):
            os.makedirs(os.path.dirname(root + library), exist_ok=True)
            shutil.copy(os.path.realpath(library), root + library)


def write_large_model(folder):
    """Writes a checkpoint whose weights are zeros in a sparse file, because only the memory matters that they take when loaded."""
    os.makedirs(folder)
    config = {**make_checkpoint.K2, "num_hidden_layers": 2, "n_routed_experts": LARGE_EXPERTS}
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as f:
        json.dump(config, f)
    header, contents, size = {}, [], 0
    for name, dtype, shape, source in make_checkpoint.tensors_k2(config):
        begin, size = size, size + make_checkpoint.BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, size]}
        if isinstance(source, bytes):
            contents.append((begin, source))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for begin, data in contents:
            f.seek(8 + len(text) + begin)
            f.write(data)
        f.truncate(8 + len(text) + size)


def make_root(root, tools, bin_dir):
    for folder in ("proc", "sys", "dev", "tmp", "run", "etc", "sbin"):
        os.makedirs(os.path.join(root, folder))
    shutil.copytree(tools, root, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("share"))
    busybox = os.path.join(root, "bin", "busybox")
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox" and name not in HOST_PROGRAMS:
            os.symlink("busybox", os.path.join(root, "bin", name))
    for name in HOST_PROGRAMS:
        add_program(root, shutil.which(name), "/bin/" + name)
    for name in PROGRAMS:
        add_program(root, os.path.join(bin_dir, name), "/opt/numoe/" + name)
    shutil.copytree(os.path.join(ROOT, "deploy/models/nano"), os.path.join(root, "opt/nano"))
    write_large_model(os.path.join(root, "opt/large"))
    shutil.copytree(os.path.join(HERE, "guest"), os.path.join(root, "opt/test"))
    shutil.copy(os.path.join(HERE, "guest/init"), os.path.join(root, "sbin/init"))
    os.chmod(os.path.join(root, "sbin/init"), 0o755)


def used_bytes(folder):
    paths = [os.path.join(parent, name) for parent, folders, names in os.walk(folder) for name in folders + names]
    return sum(os.lstat(path).st_blocks * 512 for path in paths)


def write_ramdisk(path, files):
    """Writes a compressed cpio archive ("newc") of files and folders, which are {name: bytes, or None for a folder}."""
    with gzip.open(path, "wb", 1) as f:
        def put(number, name, mode, data=b"", device=(0, 0)):
            encoded = name.encode() + b"\0"
            head = "070701" + "".join(f"{value:08X}" for value in (
                number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0))
            f.write(head.encode() + encoded + bytes(-(len(head) + len(encoded)) % 4) + data + bytes(-len(data) % 4))

        for number, (name, data) in enumerate(files.items(), 1):
            put(number, name, stat.S_IFDIR | 0o755 if data is None else stat.S_IFREG | 0o755, data or b"")
        put(len(files) + 1, "dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
        put(0, "TRAILER!!!", 0)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def make_ramdisk(path, kernel, tools):
    (drivers,) = glob.glob(os.path.join(kernel, "lib/modules/*/kernel/drivers"))
    files = {name: None for name in ("bin", "dev", "modules", "system")}
    files["bin/busybox"] = read(os.path.join(tools, "bin/busybox"))
    for module in MODULES:
        files[f"modules/{os.path.basename(module)}.ko"] = read(os.path.join(drivers, module + ".ko"))
    files["init"] = INIT_OF_RAMDISK.format(modules=" ".join(os.path.basename(module) for module in MODULES)).encode()
    write_ramdisk(path, files)


def make(work, bin_dir):
    """-> the paths of kernel, ramdisk and root file system, which it makes below `work`. Raises Unavailable."""
    os.makedirs(work, exist_ok=True)
    kernel, tools = fetch(work)
    root, disk, ramdisk = (os.path.join(work, name) for name in ("root", "root.ext4", "ramdisk.gz"))
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    make_root(root, tools, bin_dir)
    make_ramdisk(ramdisk, kernel, tools)
    mebibytes = (used_bytes(root) * 11 // 10 + SPARE_BYTES) >> 20
    with open(disk, "wb") as f:
        f.truncate(mebibytes << 20)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", root, disk], check=True)
    (vmlinuz,) = glob.glob(os.path.join(kernel, "boot/vmlinuz-*"))
    return vmlinuz, ramdisk, disk
