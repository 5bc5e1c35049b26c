#!/usr/bin/env python3
"""Measures what a traced request costs the coordinator in CPU time, as a line for bench.py.

Usage: trace_cost.py --bin build/release/bin [--model deploy/models/nano] [--pairs 20] [--requests 200] [--tokens 8]
One coordinator with --otlp-endpoint gets the same requests with a traceparent that asks for a trace and with one that does not,
alternately in random order. The difference is the cost of making, queueing and sending spans. It counts the threads that do this:
those of the connections, which have nothing else to do, and the tracer's; it does not count the model, the clients and the collector.
"""
import argparse
import http.client
import json
import os
import random
import statistics
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from daemons import Cluster  # noqa: E402
from tracing import Collector  # noqa: E402

SETTLE_SECONDS = 1.5  # until the last spans are sent
THREADS = ("http", "tracer")


def cpu_seconds(pid):
    """-> CPU seconds by the threads' names"""
    seconds = dict.fromkeys(THREADS, 0)
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as f:
            name = f.read().strip().split("-")[0]
        if name not in seconds:
            continue
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
            seconds[name] += int(f.read().split()[0]) / 1e9
    return seconds


def batch(port, pid, a, traced):
    """-> CPU seconds of a request, by thread"""
    before = cpu_seconds(pid)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"prompt": "Count", "max_tokens": a.tokens, "ignore_eos": True, "temperature": 0})
    for _ in range(a.requests):
        context = f"00-{random.getrandbits(128) | 1:032x}-{random.getrandbits(64) | 1:016x}-0{int(traced)}"
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json", "traceparent": context})
        answer = connection.getresponse()
        if answer.status != 200:
            sys.exit(f"status {answer.status}: {answer.read()[:500]}")
        answer.read()
    connection.close()
    time.sleep(SETTLE_SECONDS)
    return {name: (seconds - before[name]) / a.requests for name, seconds in cpu_seconds(pid).items()}


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--bin", required=True)
    args.add_argument("--model", default=os.path.join(ROOT, "deploy/models/nano"))
    args.add_argument("--pairs", type=int, default=20)
    args.add_argument("--requests", type=int, default=200)
    args.add_argument("--tokens", type=int, default=8)
    a = args.parse_args()
    collector = Collector()
    with Cluster(a.bin, a.model, workers=1, coordinator_flags=["--threads", "1", "--otlp-endpoint", collector.url]) as cluster:
        pid, port = cluster.coordinator.process.pid, cluster.port
        batch(port, pid, a, True)  # warms up
        pairs = []
        for _ in range(a.pairs):
            order = random.sample([False, True], 2)
            spent = {traced: batch(port, pid, a, traced) for traced in order}
            pairs.append((spent[False], spent[True]))
    if collector.wrong or len(collector.spans) < (a.pairs + 1) * a.requests:
        sys.exit(f"the collector got {len(collector.spans)} spans; wrong: {collector.wrong[:1]}")
    micro = lambda values: round(statistics.median(values) * 1e6, 1)  # noqa: E731
    differences = [sum(on.values()) - sum(off.values()) for off, on in pairs]
    print(json.dumps({
        "bench": "trace_cost", "model": os.path.basename(a.model), "pairs": a.pairs, "requests": a.requests, "tokens": a.tokens,
        "spans_per_request": round(len(collector.spans) / ((a.pairs + 1) * a.requests), 2),
        "untraced_us": micro([sum(off.values()) for off, _ in pairs]), "traced_more_us": micro(differences),
        "quartiles_us": [round(q * 1e6, 1) for q in statistics.quantiles(differences, n=4)[::2]],
        "by_thread_us": {name: micro([on[name] - off[name] for off, on in pairs]) for name in THREADS}}))


if __name__ == "__main__":
    main()
