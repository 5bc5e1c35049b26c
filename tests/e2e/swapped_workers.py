#!/usr/bin/env python3
"""A worker is killed in the middle of an answer and comes back with other settings: no answer may have another text.

Usage: swapped_workers.py --bin build/release/bin [--swaps 200] [--seed 16]. Each swap kills one of two workers while it computes and
starts it with another slice, another model or another path to the same model, chosen at random with a printed seed; then the right
worker comes back. /health has to name the worker that does not fit and the reason, and every answer must be the undisturbed one or
an error.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemons import Cluster, until  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "deploy/models/nano")
TEXT = "/v1/completions"
LONG = {"prompt": "What is 84 * 3 / 2?", "temperature": 0, "max_tokens": 400, "ignore_eos": True}
ANSWER_SECONDS = 120
LOOKS = 10  # of /health, while there is a worker that does not fit
SEED = 16
SWAPS_OF_A_TEST = 12
BIN = ""

# How a worker comes back: flags(index, models) that differ, and what /health says of it; None if it fits.
Kind = collections.namedtuple("Kind", "name flags reason")
KINDS = [
    Kind("the other worker's slice", lambda index, models: {"--worker-index": str(1 - index)}, "--worker-index"),
    Kind("whole experts", lambda index, models: {"--slice": "expert"}, "--slice"),
    Kind("the only worker", lambda index, models: {"--worker-index": "0", "--worker-count": "1"}, "--worker-count"),
    Kind("the last of four", lambda index, models: {"--worker-index": "3", "--worker-count": "4", "--slice": "expert"}, "--worker-count"),
    Kind("other weights", lambda index, models: {"--model": models["other"]}, "fingerprint"),
    Kind("other weights, packed", lambda index, models: {"--model": models["other packed"]}, "fingerprint"),
    Kind("another format", lambda index, models: {"--format": "int8"}, "--format"),
    Kind("other activations", lambda index, models: {"--activations": "fp32"}, "--activations"),
    Kind("the same weights elsewhere", lambda index, models: {"--model": models["copy"]}, None),
    Kind("the same weights, packed", lambda index, models: {"--model": models["packed"]}, None),
]


def change_experts(path):
    """Changes every weight of the routed experts in a safetensors file, and no byte of its header."""
    with open(path, "r+b") as f:
        length = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(length))
        changed = 0
        for name, tensor in header.items():
            if ".experts." not in name or not name.endswith(".weight_packed"):
                continue
            begin, end = tensor["data_offsets"]
            f.seek(8 + length + begin)
            codes = f.read(end - begin)
            f.seek(8 + length + begin)
            f.write(codes.translate(bytes(code ^ 0x88 for code in range(256))))
            changed += 1
    return changed


def make_models(bin_dir, folder):
    """The models that the swapped workers get: {name: path}."""
    models = {name: os.path.join(folder, name.replace(" ", "-")) for name in ("copy", "other", "packed", "other packed")}
    for name in ("copy", "other"):
        shutil.copytree(MODEL, models[name])
    files = [os.path.join(models["other"], name) for name in sorted(os.listdir(models["other"])) if name.endswith(".safetensors")]
    assert sum(change_experts(path) for path in files) > 0, f"{MODEL} has no packed experts"
    for source, packed in ((MODEL, "packed"), (models["other"], "other packed")):
        subprocess.run([os.path.join(bin_dir, "numoe-pack"), "convert", source, "--out", models[packed], "--workers", "2"],
                       check=True, capture_output=True, timeout=300)
    return models


def ask(cluster, on_event=None):
    """-> (text, error): the text of a stream, and the error that ended it early, or None."""
    connection = cluster.connect(ANSWER_SECONDS)
    text, error, events = "", None, 0
    try:
        connection.request("POST", TEXT, json.dumps({**LONG, "stream": True}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            return "", f"{response.status} {response.read().decode()}"
        for line in response:
            if line.strip() == b"data: [DONE]":
                return text, error
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            error = event.get("error", error)
            text += "".join(choice.get("text") or "" for choice in event.get("choices", []))
            events += 1
            if on_event:
                on_event(events)
        raise AssertionError(f"the stream ended without [DONE] after {text!r}:\n{cluster.coordinator.log()[-3000:]}")
    finally:
        connection.close()


def health(cluster):
    code = cluster.coordinator.process.poll()
    assert code is None, f"the coordinator exited {code}:\n{cluster.coordinator.log()[-3000:]}"
    return json.loads(cluster.request("GET", "/health")[2])


def with_flags(argv, flags):
    argv = list(argv)
    for flag, value in flags.items():
        if flag in argv:
            argv[argv.index(flag) + 1] = value
        else:
            argv += [flag, value]
    return argv


def await_refusal(cluster, index, reason):
    """Waits until /health names worker `index` and the reason, and checks that this does not change afterwards."""
    worker, address = cluster.workers[index], cluster.addresses.split(",")[index]
    seen = {}

    def refused():
        assert worker.process.poll() is None, f"{worker.name} refused itself:\n{worker.log()[-2000:]}"
        seen.update(health(cluster))
        return seen["status"] == "degraded" and address in seen["detail"] and re.search(reason, seen["detail"])
    until(lambda: f"/health says that {address} does not fit by its {reason}: {seen}", refused)
    for _ in range(LOOKS):
        assert health(cluster)["status"] == "degraded", (reason, health(cluster))
        time.sleep(0.02)


def swap(cluster, index, kind, killed_after, models):
    """-> [(text, error)] of the answers that the swap disturbed. The right worker is back at the end."""
    worker = cluster.workers[index]
    right, killed = worker.argv, threading.Event()

    def kill(events):
        if events == killed_after:
            worker.stop(signal.SIGKILL)
            killed.set()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(ask, cluster, kill)]
        until("it is in the middle of an answer", lambda: killed.is_set() or answers[0].done())
        assert killed.is_set(), f"the answer had fewer than {killed_after} events: {answers[0].result()}"
        worker.argv = with_flags(right, kind.flags(index, models))
        worker.start()
        if kind.reason is None:
            cluster.await_health("ready")
        else:
            await_refusal(cluster, index, kind.reason)
        answers.append(pool.submit(ask, cluster))
        if kind.reason is None:
            concurrent.futures.wait(answers)
        worker.stop(signal.SIGKILL)
        worker.argv = right
        worker.start()
        cluster.await_health("ready")
        return [answer.result() for answer in answers]


def play(bin_dir, swaps, seed):
    """Prints a line for each swap; an AssertionError names the swap and the text that differed."""
    print(f"swapped workers: {swaps} swaps with seed {seed}", flush=True)
    draw = random.Random(seed)
    deck, counts = [], collections.Counter()
    with tempfile.TemporaryDirectory(prefix="numoe-swaps.") as folder:
        models = make_models(bin_dir, folder)
        with Cluster(bin_dir, MODEL, coordinator_flags=["--deterministic"]) as cluster:
            events = []
            expected, error = ask(cluster, events.append)
            assert expected and error is None, (expected, error)
            for number in range(1, swaps + 1):
                if not deck:
                    deck = draw.sample(KINDS, len(KINDS))
                kind, index, killed_after = deck.pop(), draw.randrange(2), draw.randint(1, max(1, len(events) // 2))
                what = f"swap {number}: worker {index} killed after {killed_after} events came back as {kind.name}"
                print(what, flush=True)
                disturbed = swap(cluster, index, kind, killed_after, models)
                for text, error in disturbed:
                    counts["identical" if error is None else "errors"] += 1
                    if error is None:
                        assert text == expected, f"{what}: another text: {text!r}, expected {expected!r}"
                    else:
                        assert expected.startswith(text), f"{what}: another text before {error}: {text!r}, expected {expected!r}"
                text, error = ask(cluster)
                assert (text, error) == (expected, None), f"{what}; with the right worker: {text!r}, {error}, expected {expected!r}"
    print(f"swapped workers: {counts['identical']} answers identical, {counts['errors']} errors, no other text", flush=True)


class SwappedWorkers(unittest.TestCase):
    def test_a_worker_that_comes_back_as_another_changes_no_text(self):
        play(BIN, SWAPS_OF_A_TEST, SEED)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    args.add_argument("--swaps", type=int, default=200)
    args.add_argument("--seed", type=int, default=SEED)
    options = args.parse_args()
    play(os.path.abspath(options.bin), options.swaps, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
