#!/usr/bin/env python3
"""Boots emulated machines with several NUMA nodes and checks that NUMoE's weights, mailboxes and threads are on their nodes.

  run.py --bin build/release/bin [MACHINE...]      all machines, or some of two, four, lopsided

It needs qemu-system-x86_64, but no privilege, KVM or NUMA hardware. QEMU emulates the CPUs, so speeds mean nothing. But a real
kernel decides on which node each page is, and handles cpusets, memory policies, NUMA balancing and CPUs that go offline.
MACHINES describes each machine, and guest/MACHINE.sh contains the checks that run on it. The complete log of a guest is
build/numa/MACHINE.log. The last line is "N passed, N failed"; the exit code is 1 if a check failed. Standard library only.
"""
import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
import image  # noqa: E402
import skips  # noqa: E402

GUEST_SECONDS = 600  # a guest takes one or two minutes on two idle cores
LOG_LINES = 40


class Machine:
    """A machine: its nodes as (MiB, CPUs or ""), and in `near` the pairs of nodes in one package, whose distance is shorter."""

    def __init__(self, nodes, near=()):
        self.nodes, self.near = nodes, near

    def arguments(self):
        sizes = [size for size, _ in self.nodes]
        arguments = ["-smp", "4,sockets=2,cores=2,threads=1", "-m", f"{sum(sizes)}M"]
        for node, (size, cpus) in enumerate(self.nodes):
            arguments += ["-object", f"memory-backend-ram,id=memory{node},size={size}M"]
            arguments += ["-numa", f"node,nodeid={node},memdev=memory{node}" + (f",cpus={cpus}" if cpus else "")]
        for a in range(len(sizes)):
            for b in range(a + 1, len(sizes)):
                arguments += ["-numa", f"dist,src={a},dst={b},val={12 if (a, b) in self.near else 21}"]
        return arguments


MACHINES = {
    "two": Machine([(1024, "0-1"), (1024, "2-3")]),
    "four": Machine([(640, "0"), (640, "1"), (640, "2"), (640, "3")], near=[(0, 1), (2, 3)]),
    "lopsided": Machine([(1536, "0-1"), (192, "2-3"), (256, "")]),
}


def command(name, files):
    kernel, ramdisk, disk = files
    return ["qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max", "-machine", "q35",
            "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio", *MACHINES[name].arguments(),
            "-kernel", kernel, "-initrd", ramdisk,
            "-append", f"console=ttyS0 loglevel=1 mitigations=off tsc=unstable panic=-1 numoe_script={name}",
            "-drive", f"file={disk},format=raw,if=virtio,snapshot=on"]


class Verdict:
    """Counts the checks that a guest reports, and prints each at once; for a failed check it also prints what was found."""

    def __init__(self, name):
        self.name, self.passed, self.failed, self.ended, self.in_failure = name, 0, 0, False, False

    def read(self, line):
        known = line.startswith(("== ", "PASS ", "FAIL "))
        self.passed += line.startswith("PASS ")
        self.failed += line.startswith("FAIL ")
        if known or (self.in_failure and line.startswith("  ")):
            print(line.replace("== ", f"== {self.name}: ", 1) if line.startswith("== ") else line, flush=True)
        if known:
            self.in_failure = line.startswith("FAIL ")
        self.ended |= line.startswith("ENDED ")

    def fail(self, what, expected, found, log):
        self.failed += 1
        print(f"FAIL {what}\n  expected: {expected}\n  found:    {found}\n  the end of the guest's log:")
        for line in log[-LOG_LINES:]:
            print(f"  | {line}")


def read_lines(pipe, lines):
    for line in pipe:
        lines.put(line.decode("utf-8", "replace").rstrip())
    lines.put(None)


def boot(name, files, work):
    """Runs one guest to its end. -> its Verdict."""
    verdict, log, lines, begin = Verdict(name), [], queue.Queue(), time.monotonic()
    qemu = subprocess.Popen(command(name, files), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    threading.Thread(target=read_lines, args=(qemu.stdout, lines), daemon=True).start()
    try:
        with open(os.path.join(work, name + ".log"), "w", encoding="utf-8") as f:
            while (line := lines.get(timeout=max(0.1, begin + GUEST_SECONDS - time.monotonic()))) is not None:
                f.write(f"{time.monotonic() - begin:6.1f} {line}\n")
                log.append(line)
                verdict.read(line)
    except queue.Empty:
        verdict.fail(f"{name}: the guest ends", f"that it ends within {GUEST_SECONDS} s", "it still runs", log)
    else:
        if not verdict.ended:
            verdict.fail(f"{name}: the guest runs its script to the end", "a line ENDED", f"QEMU ended with {qemu.wait()}", log)
    finally:
        qemu.kill()
        qemu.wait()
    print(f"{name}: {verdict.passed} passed, {verdict.failed} failed, {time.monotonic() - begin:.0f} s", flush=True)
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder with the programs to test")
    parser.add_argument("machines", nargs="*", metavar="MACHINE", help=f"one of {', '.join(MACHINES)}; default: all")
    options = parser.parse_args()
    for name in options.machines:
        if name not in MACHINES:
            parser.error(f"unknown machine '{name}': expected one of {', '.join(MACHINES)}")
    for program in image.PROGRAMS:
        if not os.path.exists(os.path.join(options.bin, program)):
            parser.error(f"--bin {options.bin}: there is no {program}; expected the folder of a build (tests/run.sh build)")
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # mke2fs
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for program in ("qemu-system-x86_64", "mke2fs"):
        if shutil.which(program) is None:
            return skips.status_of("tests/numa", f"not installed: {program}; install the packages of tests/numa/packages.txt")
    work = os.path.join(image.ROOT, "build", "numa")
    try:
        files = image.make(work, os.path.abspath(options.bin))
    except image.Unavailable as error:
        return skips.status_of("tests/numa", f"not installed: {error}")
    verdicts = [boot(name, files, work) for name in options.machines or MACHINES]
    passed, failed = sum(v.passed for v in verdicts), sum(v.failed for v in verdicts)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
