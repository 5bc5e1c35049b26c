#!/usr/bin/env python3
"""Baselines of the benchmarks: JSON lines with the machine they were measured on.

  bench.py record FILE.jsonl -- COMMAND...    runs COMMAND --runs times, appends the medians with machine and commit
  bench.py compare FILE.jsonl -- COMMAND...   runs it, prints each figure beside this machine's last baseline

COMMAND prints one JSON object in each line. Strings and whole numbers identify a line, the other numbers are its figures.
Timings never decide a test: compare exits with 1 only with --tolerance, if a figure differs by more than that.
A baseline may carry a "commit_note" that qualifies its commit; compare does not take it for part of the identity.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys


def machine():
    """The properties of the machine on which the figures depend."""
    facts = {}
    with open("/proc/cpuinfo", encoding="ascii") as f:
        for line in f:
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    flags = set(facts.get("flags", "").split())
    isa = [f for f in ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16") if f in flags]
    return {"cpu": facts.get("model name", "?"), "cpus": len(os.sched_getaffinity(0)), "isa": isa,
            "kernel": platform.release().split("-")[0]}


def commit():
    if os.environ.get("NUMOE_COMMIT"):  # measured where there is no git: tests/gpu/run.sh
        return os.environ["NUMOE_COMMIT"]
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False,
                          cwd=os.path.dirname(os.path.abspath(__file__)))
    return done.stdout.strip() or "unknown"


def identity(line):
    return tuple(sorted((k, v) for k, v in line.items() if isinstance(v, (str, int)) and not isinstance(v, bool)))


def measure(command, runs):
    """-> {identity: {figure: median}}, in the order printed."""
    samples = {}
    for _ in range(runs):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for text in done.stdout.splitlines():
            line = json.loads(text)
            figures = samples.setdefault(identity(line), {})
            for name, value in line.items():
                if isinstance(value, float):
                    figures.setdefault(name, []).append(value)
    return {key: {name: statistics.median(values) for name, values in figures.items()}
            for key, figures in samples.items()}


def record(path, command, runs):
    head = {"machine": machine(), "commit": commit(), "runs": runs}
    with open(path, "a", encoding="utf-8") as f:
        for key, figures in measure(command, runs).items():
            f.write(json.dumps({**dict(key), **figures, **head}) + "\n")


def compare(path, command, runs, tolerance):
    baseline = {}
    with open(path, encoding="utf-8") as f:
        for text in f:
            line = json.loads(text)
            if line.pop("machine")["cpu"] != machine()["cpu"]:
                continue
            line.pop("commit"), line.pop("commit_note", None), line.pop("runs")
            baseline[identity(line)] = line
    if not baseline:
        print(f"{path}: no baseline from a {machine()['cpu']}; bench.py record makes one", file=sys.stderr)
        return 0
    worst = 0.0
    for key, figures in measure(command, runs).items():
        print(" ".join(f"{k}={v}" for k, v in key))
        for name, value in figures.items():
            before = baseline.get(key, {}).get(name)
            ratio = value / before if before else None
            print(f"  {name:24} {value:12.3f}" + (f"  was {before:12.3f}  x {ratio:.2f}" if ratio else "  (new)"))
            worst = max(worst, abs(ratio - 1) if ratio else 0)
    return int(tolerance is not None and worst > tolerance)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["record", "compare"])
    parser.add_argument("file")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tolerance", type=float, help="largest accepted change of a figure, as a share")
    parser.add_argument("command", nargs="+", help="after --")
    options = parser.parse_args()
    if options.mode == "record":
        record(options.file, options.command, options.runs)
    else:
        sys.exit(compare(options.file, options.command, options.runs, options.tolerance))
