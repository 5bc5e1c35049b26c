#!/usr/bin/env python3
"""Measures what --two-batch-overlap gains if coordinator and worker have CPUs of their own and a network between them.

Usage: overlap.py --bin build/release/bin --model DIR [--load prefill] [--format int8] [--coordinator-cpus 0-1] [--worker-cpus 2-3]
       [--ways off,auto,32] [--rounds 4]
One worker serves a coordinator for each value of the flag; the coordinators get the same load in turn, one at a time. Prints the median
over the rounds for each value, as lines for bench.py. The load `prefill` has prompts of 512 tokens, one after the other; `decode` has 128
answers at once. DIR comes from make_checkpoint.py with --tokenizer; both sides should have about the same amount of work.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from daemons import Daemon, free_port  # noqa: E402

START_SECONDS = 60
# Each load: the requests of a round, the requests before the first round (auto tries both ways on 8 steps), and their lengths.
LOADS = {"prefill": {"prompts": 3, "before": 9, "at_once": 1, "input_len": 512, "output_len": 1},
         "decode": {"prompts": 128, "before": 128, "at_once": 128, "input_len": 2, "output_len": 12}}
FIGURES = {"prefill": ("input_throughput", "mean_ttft_ms"), "decode": ("output_throughput", "median_tpot_ms")}


class Coordinator(Daemon):
    """A coordinator with one value of the flag."""

    def __init__(self, a, way, worker, folder):
        self.way, self.bin = way, a.bin
        self.port_file, self.lines = os.path.join(folder, f"port.{way}"), os.path.join(folder, f"lines.{way}")
        super().__init__(f"coordinator.{way}", [
            "taskset", "-c", a.coordinator_cpus, os.path.join(a.bin, "numoe-coordinator"), "--model", a.model, "--workers", worker,
            "--host", "127.0.0.1", "--port", "0", "--port-file", self.port_file, "--device", "cpu", "--data-path", "grpc",
            "--two-batch-overlap", way, "--max-num-seqs", "128", "--max-num-batched-tokens", "1024", "--max-total-tokens", "32768",
            "--disable-prefix-caching", "--decode-stretch-max", "0"], folder)  # all prompts at once, then all decode together

    def await_port(self):
        deadline = time.monotonic() + START_SECONDS
        while not (os.path.exists(self.port_file) and os.path.getsize(self.port_file)):
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit(f"{self.name} does not serve:\n{self.log()[-3000:]}")
            time.sleep(0.05)
        with open(self.port_file, encoding="ascii") as f:
            self.port = int(f.read())

    def halves(self):
        """-> (steps in halves, all steps)"""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            text = answer.read().decode()
        steps = {way: float(n) for way, n in re.findall(r'numoe_steps_by_way_total\{.*way="(\w+)".*\} (\S+)', text)}
        return steps["halves"], sum(steps.values())

    def run(self, load, prompts):
        """-> the report of numoe-bench serve"""
        subprocess.run([os.path.join(self.bin, "numoe-bench"), "serve", "--port", str(self.port), "--num-prompts", str(prompts),
                        "--random-input-len", str(load["input_len"]), "--random-output-len", str(load["output_len"]),
                        "--random-range-ratio", "1", "--max-concurrency", str(load["at_once"]), "--warmup-requests", "0",
                        "--disable-tqdm", "--output-file", self.lines], check=True, stdout=subprocess.DEVNULL)
        with open(self.lines, encoding="utf-8") as f:
            report = json.loads(f.readlines()[-1])
        if report["completed"] != prompts:
            sys.exit(f"{report['completed']} of {prompts} requests succeeded")
        return report


def measure(a, coordinators):
    load = LOADS[a.load]
    for c in coordinators:
        c.run(load, load["before"] if c.way == "auto" else 1)
    before = {c.way: c.halves() for c in coordinators}
    reports = {c.way: [] for c in coordinators}
    for round_number in range(a.rounds):  # in both orders, so that a drift favours none of them
        for c in coordinators[::-1 if round_number % 2 else 1]:
            reports[c.way].append(c.run(load, load["prompts"]))
    for c in coordinators:
        halves, steps = (now - then for now, then in zip(c.halves(), before[c.way]))
        figures = {name: float(statistics.median(r[name] for r in reports[c.way])) for name in FIGURES[a.load]}
        print(json.dumps({"bench": "overlap", "load": a.load, "two_batch_overlap": c.way, "model": os.path.basename(a.model),
                          "format": a.format, "coordinator_cpus": a.coordinator_cpus, "worker_cpus": a.worker_cpus,
                          "rounds": a.rounds, **load, **figures, "halved_steps": halves / steps}), flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--bin", required=True)
    args.add_argument("--model", required=True)
    args.add_argument("--load", choices=LOADS, default="prefill")
    args.add_argument("--format", default="int8")
    args.add_argument("--coordinator-cpus", default="0-1")
    args.add_argument("--worker-cpus", default="2-3")
    args.add_argument("--ways", default="off,auto,32")
    args.add_argument("--rounds", type=int, default=4)
    a = args.parse_args()
    with tempfile.TemporaryDirectory(prefix="numoe-overlap.") as folder:
        address = f"127.0.0.1:{free_port()}"
        worker = Daemon("worker", ["taskset", "-c", a.worker_cpus, os.path.join(a.bin, "numoe-expert-worker"), "--model", a.model,
                                   "--format", a.format, "--listen", address, "--metrics-port", "0"], folder)
        coordinators = [Coordinator(a, way, address, folder) for way in a.ways.split(",")]
        try:
            for daemon in [worker, *coordinators]:
                daemon.start()
            for coordinator in coordinators:
                coordinator.await_port()
            measure(a, coordinators)
        finally:
            for daemon in [*coordinators, worker]:
                daemon.stop()


if __name__ == "__main__":
    main()
