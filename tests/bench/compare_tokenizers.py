#!/usr/bin/env python3
"""Compares numoe-bench text with tiktoken and Hugging Face tokenizers: the same text, the same run, one thread each.

  compare_tokenizers.py VOCABULARY --bench BINARY [--json]

VOCABULARY is a folder with Kimi's tiktoken.model and tokenizer_config.json. The Hugging Face tokenisers are made from the same ranks
with the pre-tokenisers of Qwen3 and DeepSeek, so no other vocabulary is needed. In addition to the texts of the benchmark there is one
of random characters of all scripts. Exits with 1 if the ids differ. Prints MB/s and the ratio.
Needs tiktoken, tokenizers, transformers (tests/requirements.txt).
"""
import argparse
import base64
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata

import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden"))
import tokenizer_vectors as golden  # noqa: E402: the published patterns

REQUEST_BYTES = 64 << 10  # as in text_bench.cc


def hostile_text(size):
    """Random characters of every category that all tables know, in runs as patterns care for."""
    r = random.Random(1)
    known = [chr(c) for c in range(0x20000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]
    common = list("abcXYZ 019'_.,!?()\n\r\t\u3000\u00a0") + ["'s", "'LL", "  ", "\r\n", "你好", "か", "é", "e\u0301", "a" * 40, " " * 40]
    parts, length = [], 0
    while length < size:
        part = r.choice(common) if r.random() < 0.7 else r.choice(known) * r.choice([1, 1, 2, 5])
        parts.append(part)
        length += len(part.encode())
    return "".join(parts)


def pieces(data):
    """As text_bench.cc cuts them."""
    at = 0
    while at < len(data):
        end = min(at + REQUEST_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        yield data[at:end].decode()
        at = end


def timed(encode, data):
    """-> ids, MB/s: the median of three."""
    texts, times = list(pieces(data)), []
    for _ in range(3):
        start = time.perf_counter()
        ids = [encode(t) for t in texts]
        times.append(time.perf_counter() - start)
    return [i for part in ids for i in part], len(data) / sorted(times)[1] / 1e6


def read_ranks(folder):
    with open(os.path.join(folder, "tiktoken.model"), "rb") as f:
        return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in f if line.strip())}


def bpe(ranks, token, limit):
    parts = [bytes([b]) for b in token]
    while True:
        best = min(((ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if ranks.get(a + b, limit) < limit),
                   default=None)
        if best is None:
            return parts
        parts[best[1]:best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]


def hugging_face(ranks, folder, splits, nfc):
    """A byte-level tokenizer.json with the merges that the ranks stand for."""
    names = golden_byte_names()
    spell = lambda token: "".join(names[b] for b in token)  # noqa: E731
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda x: x[1]):
        if len(token) > 1:
            parts = bpe(ranks, token, rank)
            if len(parts) == 2:
                merges.append((spell(parts[0]), spell(parts[1])))
    tok = Tokenizer(models.BPE(vocab={spell(t): r for t, r in ranks.items()}, merges=merges))
    if nfc:
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(s), "isolated") for s in splits]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="ascii") as f:
        f.write("{}")
    return tok


def golden_byte_names():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def ours(bench, folder, texts):
    """-> {text: (ids, MB/s)}"""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([bench, "text", "--model", folder, "--json", "--save-tokens", out,
                               *(x for path in texts for x in ("--text", path))], stdout=subprocess.PIPE, text=True, check=True)
        rates = {line["of"]: line["mb_per_s"] for line in map(json.loads, done.stdout.splitlines()) if line["what"] == "tokenise"}
        found = {}
        for name, rate in rates.items():
            with open(os.path.join(out, name + ".ids"), encoding="ascii") as f:
                found[name] = ([int(i) for i in f.read().split()], rate)
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary")
    parser.add_argument("--bench", required=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.bench, "text", "--model", options.vocabulary, "--save-texts", folder], stdout=subprocess.DEVNULL,
                       check=True)
        with open(os.path.join(folder, "hostile.txt"), "w", encoding="utf-8", newline="") as f:
            f.write(hostile_text(2 << 20))
        texts = [os.path.join(folder, name + ".txt") for name in ("english", "chinese", "hostile")]
        ranks = read_ranks(options.vocabulary)
        kimi = tiktoken.Encoding("kimi", pat_str=golden.KIMI, mergeable_ranks=ranks, special_tokens={})
        others = [("kimi", "tiktoken", options.vocabulary, kimi.encode_ordinary)]
        for name, splits, nfc in (("qwen3", [golden.QWEN], True), ("deepseek", golden.DEEPSEEK, False)):
            made = os.path.join(folder, name)
            os.makedirs(made)
            tok = hugging_face(ranks, made, splits, nfc)
            others.append((name, "tokenizers", made, lambda t, tok=tok: tok.encode(t, add_special_tokens=False).ids))
        for name, library, made, encode in others:
            found = ours(options.bench, made, texts)
            for path in texts:
                text = os.path.splitext(os.path.basename(path))[0]
                with open(path, "rb") as f:
                    ids, rate = timed(encode, f.read())
                equal = found[text][0] == ids
                wrong += not equal
                line = dict(tokenizer=name, of=text, library=library, mb_per_s=found[text][1], library_mb_per_s=round(rate, 3),
                            ratio=round(found[text][1] / rate, 2), ids="equal" if equal else "DIFFERENT")
                print(json.dumps(line) if options.json else "  ".join(f"{k} {v}" for k, v in line.items()), flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
