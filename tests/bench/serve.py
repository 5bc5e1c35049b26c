#!/usr/bin/env python3
"""Runs the load of numoe-bench serve on real daemons on this machine, and prints lines for bench.py.

Usage: serve.py --bin build/release/bin [--model deploy/models/nano] [--loads 8,32,inf] [--prompts 100] [--input 256] [--output 128]
Two expert workers and a coordinator; prompts and answers of random lengths up to --input and --output; the same seed for all.
"""
import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from daemons import Cluster  # noqa: E402

FIGURES = ("request_throughput", "output_throughput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_itl_ms", "mean_e2e_latency_ms")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--bin", required=True)
    args.add_argument("--model", default=os.path.join(ROOT, "deploy/models/nano"))
    args.add_argument("--loads", default="8,32,inf")
    args.add_argument("--prompts", type=int, default=100)
    args.add_argument("--input", type=int, default=256)
    args.add_argument("--output", type=int, default=128)
    a = args.parse_args()
    with Cluster(a.bin, a.model) as cluster:
        lines = os.path.join(cluster.folder, "lines.jsonl")
        subprocess.run([os.path.join(a.bin, "numoe-bench"), "serve", "--port", str(cluster.port), "--request-rate", a.loads,
                        "--num-prompts", str(a.prompts), "--random-input-len", str(a.input), "--random-output-len", str(a.output),
                        "--disable-tqdm", "--output-file", lines], check=True, stdout=subprocess.DEVNULL)
        with open(lines, encoding="utf-8") as f:
            for line in map(json.loads, f):
                if line["completed"] != a.prompts:
                    sys.exit(f"{line['completed']} of {a.prompts} requests succeeded")
                print(json.dumps({"bench": "serve", "model": os.path.basename(a.model), "request_rate": str(line["request_rate"]),
                                  "prompts": a.prompts, "input_len_max": a.input, "output_len_max": a.output,
                                  **{name: float(line[name]) for name in FIGURES}}), flush=True)


if __name__ == "__main__":
    main()
