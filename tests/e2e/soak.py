#!/usr/bin/env python3
"""Mixed load with random disconnects on real daemons: memory, descriptors and KV blocks must return to where they were.

Usage: soak.py --bin build/release/bin [--minutes 30] [--clients 24]. The first tenth of the time warms up caches. What the daemons hold
after it is compared with what they hold at the end, both times idle. Exits with 1 if something grew, a request was not answered, or a
process ended.
"""
import argparse
import http.client
import json
import os
import random
import re
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemons import Cluster  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MEMORY_GROWTH_MAX = 24 << 20  # allocators keep some memory; a leak of 200 bytes per request exceeds this after half an hour
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"]}


def requests(r):
    """An endless mixture of requests: (path, body, expected statuses)."""
    while True:
        words = " ".join(r.choice(("red", "seven", "Paris", "what", "is", "12", "+", "tree", "世界")) for _ in range(r.choice((3, 12, 60, 400))))
        chat = {"messages": [{"role": "user", "content": words}], "max_tokens": r.choice((1, 20, 120)), "stream": r.random() < 0.6,
                "temperature": r.choice((0, 0.8)), "priority": r.randint(-2, 2)}
        kind = r.randrange(12)
        if kind < 4:
            yield "/v1/chat/completions", chat
        elif kind == 4:
            yield "/v1/chat/completions", {**chat, "tools": TOOLS, "tool_choice": r.choice(("auto", "required"))}
        elif kind == 5:
            yield "/v1/chat/completions", {**chat, "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}
        elif kind == 6:
            yield "/v1/completions", {"prompt": [words, "abc"], "n": 2, "max_tokens": 16, "stream": chat["stream"], "logprobs": 2, "stop": ["zz"]}
        elif kind == 7:
            yield "/v1/messages", {"messages": chat["messages"], "max_tokens": 40, "stream": chat["stream"]}
        elif kind == 8:
            yield "/v1/responses", {"input": words, "max_output_tokens": 30, "stream": chat["stream"], "store": r.random() < 0.5}
        elif kind == 9:
            yield "/generate", {"text": words, "sampling_params": {"max_new_tokens": 20}, "stream": chat["stream"]}
        elif kind == 10:
            yield "/tokenize", {"prompt": words}
        else:
            yield "/v1/chat/completions", {"messages": "wrong", "n": words}


class Client(threading.Thread):
    def __init__(self, cluster, seed, until):
        super().__init__(daemon=True)
        self.cluster, self.random, self.until = cluster, random.Random(seed), until
        self.answered = self.left = self.refused = 0
        self.errors = []

    def run(self):
        for path, body in requests(self.random):
            if time.monotonic() > self.until:
                return
            try:
                self.ask(path, body)
            except (OSError, http.client.HTTPException, AssertionError) as error:
                self.errors.append(f"{path}: {error!r}")

    def ask(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port, timeout=120)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            if self.random.random() < 0.15:  # the client disconnects before the answer
                time.sleep(self.random.random() * 0.02)
                self.left += 1
                return
            response = connection.getresponse()
            if self.random.random() < 0.15:  # the client disconnects in the middle of the answer
                response.read(self.random.randint(1, 400))
                self.left += 1
                return
            response.read()
            assert response.status in (200, 400, 429), response.status
            self.refused += response.status == 429
            self.answered += 1
        finally:
            connection.close()


def held(cluster):
    """What the daemons hold while nothing runs: {name: (resident bytes, descriptors)} and the used KV blocks."""
    deadline = time.monotonic() + 60
    while True:
        text = cluster.request("GET", "/metrics")[2]
        busy = {name: float(re.search(rf"^{name} (\S+)", text, re.M)[1]) for name in
                ("numoe_requests_running", "numoe_requests_waiting", "numoe_kv_blocks_used")}
        if not any(busy.values()):
            break
        assert time.monotonic() < deadline, f"not idle after a minute: {busy}"
        time.sleep(0.2)
    sizes = {}
    for daemon in [cluster.coordinator, *cluster.workers]:
        assert daemon.process.poll() is None, f"{daemon.name} ended:\n{daemon.log()[-2000:]}"
        with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as f:
            resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        sizes[daemon.name] = (resident, len(os.listdir(f"/proc/{daemon.process.pid}/fd")))
    return sizes


def load(cluster, clients, seconds, seed):
    threads = [Client(cluster, seed * 1000 + i, time.monotonic() + seconds) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [e for t in threads for e in t.errors]
    print(f"{sum(t.answered for t in threads)} answered, {sum(t.left for t in threads)} left by their clients, "
          f"{sum(t.refused for t in threads)} refused, {len(errors)} failed {errors[:3]}", flush=True)
    return errors


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    args.add_argument("--minutes", type=float, default=30)
    args.add_argument("--clients", type=int, default=24)
    a = args.parse_args()
    seconds = a.minutes * 60
    with Cluster(a.bin, os.path.join(ROOT, "deploy/models/nano"), coordinator_flags=["--max-num-seqs", "16", "--max-total-tokens", "8192"]) as cluster:
        failed = load(cluster, a.clients, seconds / 10, 1)
        before = held(cluster)
        failed += load(cluster, a.clients, seconds * 0.9, 2)
        after = held(cluster)
    grown = False
    for name, (resident, descriptors) in after.items():
        growth = resident - before[name][0]
        print(f"{name}: {before[name][0] / 2**20:.1f} -> {resident / 2**20:.1f} MiB resident, {before[name][1]} -> {descriptors} descriptors")
        grown |= growth > MEMORY_GROWTH_MAX or descriptors > before[name][1] + 2
    return 1 if grown or failed else 0


if __name__ == "__main__":
    sys.exit(main())
