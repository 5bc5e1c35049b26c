"""Measures the effect of each expert format on the trained model of the repository, through the real daemons.

Two workers and a coordinator serve the model in each format; the held-out cases of tests/nano/held_out.py and the probes
written by hand (probe.json) are asked through the OpenAI API with greedy decoding. numoe-perplexity adds the perplexity of
what the model must say in held-out conversations and the mean KL divergence (nats per token) of the next-token distributions from BF16 experts.
Exits with 1 if a share is below its bar (ask.BARS), so that a change which damages the model is noticed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(HERE, "../nano"), os.path.join(HERE, "../e2e")]
import ask  # noqa: E402
import held_out  # noqa: E402
from daemons import Cluster  # noqa: E402

FORMATS = ["raw_int4", "int4", "int8", "bf16"]  # fp8 holds checkpoints that are FP8 already, which this one is not
COLUMNS = [*held_out.KINDS, "sensible", "unknowable"]


def divergence(a: argparse.Namespace, formats: list[str]) -> dict[str, dict[str, float]]:
    """{format: {"perplexity", "kl"}} on held-out conversations."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as text:
        for document in held_out.documents(a.documents):
            text.write(json.dumps({"parts": document}) + "\n")
        text.flush()
        out = subprocess.run([os.path.join(a.bin, "numoe-perplexity"), "--model", a.model, "--text", text.name, "--format", ",".join(formats),
                              "--kv-cache-dtype", a.kv_cache_dtype, "--max-deferred-experts-per-token", str(a.deferred), "--json"],
                             stdout=subprocess.PIPE, text=True, check=True).stdout
    return {row["format"]: row for row in map(json.loads, out.splitlines())}


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    args.add_argument("--model", default=os.path.join(ROOT, "deploy/models/nano"))
    args.add_argument("--format", action="append", choices=FORMATS, help="expert format, may be given several times; default: all")
    args.add_argument("--kv-cache-dtype", default="auto", help="the coordinator's; the divergence is from bf16")
    args.add_argument("--max-deferred-experts-per-token", dest="deferred", type=int, default=0,
                      help="the coordinator's; the divergence, of all tokens, is from none")
    args.add_argument("--count", type=int, default=200, help="held-out cases of each kind")
    args.add_argument("--documents", type=int, default=200, help="conversations for perplexity and divergence")
    args.add_argument("--show", type=int, default=3, help="failures of each kind to print on stderr")
    args.add_argument("--slack", type=float, default=0.0, help="how far below its bar a share may be: other instruction sets round otherwise")
    args.add_argument("--json", action="store_true", help="one JSON object for each format")
    a = args.parse_args()
    formats = a.format or FORMATS
    with open(os.path.join(HERE, "probe.json"), encoding="utf-8") as f:
        cases: list[dict[str, Any]] = held_out.cases(a.count) + json.load(f)
    text = divergence(a, formats)
    low = False
    if not a.json:
        print("format    " + " ".join(f"{c:>10}" for c in COLUMNS) + "  perplexity  KL nats/token")
    for name in formats:
        flags = ["--max-num-seqs", "64", "--kv-cache-dtype", a.kv_cache_dtype, "--max-deferred-experts-per-token", str(a.deferred)]
        with Cluster(a.bin, a.model, worker_flags=["--format", name], coordinator_flags=flags) as cluster:
            shares = ask.scores(f"http://127.0.0.1:{cluster.port}", cases, a.show)
        low |= any(share < ask.BARS[kind] - a.slack for kind, share in shares.items())
        measured = dict(perplexity=text[name]["perplexity"], kl=text[name]["kl"])
        if a.json:
            print(json.dumps(dict(format=name, **{k: round(v, 4) for k, v in shares.items()}, **measured)), flush=True)
        else:
            print(f"{name:9} " + " ".join(f"{shares[c]:10.3f}" for c in COLUMNS) + f" {measured['perplexity']:11.4f} {measured['kl']:14.6f}", flush=True)
    if low:
        print("below a bar: " + ", ".join(f"{k} {v}" for k, v in ask.BARS.items()), file=sys.stderr)
    sys.exit(low)


if __name__ == "__main__":
    main()
