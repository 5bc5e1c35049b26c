#!/usr/bin/env python3
"""Writes the tokeniser test data: a small tiktoken vocabulary, two tokenizer.json files, and golden encodings.

Oracles: tiktoken with Kimi's published pattern, and Hugging Face tokenizers with Qwen3's and DeepSeek's pre-tokenisers,
each trained on the text below. Usage: tokenizer_vectors.py   (needs tiktoken, tokenizers; see tests/requirements.txt)
"""
import base64
import json
import os
import random

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit/coordinator/text/tokenizer/testdata")
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""]
WORDS = ["the", "worker", "Worker", "expert", "memory", "NUMA", "node", "tokens", "reads", "It's", "DON'T", "you'll", "we'd",
         "fooBar", "XMLHttpRequest", "12345", "7", "2024-05-06", "3.14", "你好", "世界", "日本語テキスト", "가나다", "naïve",
         "Ünïcödé", "ПРИВЕТ", "мир", "résumé", "emoji🙂🚀", "a_b", "x=1;", "(y)", "::", "->", "\t", "\n", "\r\n", "  ", "   \n  ",
         "\u3000", "…", "«q»", "e\u0301", "ﬁ", "々", "〇", "ǅ", "ʰ", "𝔘", "١٢٣", "<|im_end|>", "if (x) {\n\treturn;\n}"]
SPECIALS = ["[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>"]


def texts(count, seed):
    r = random.Random(seed)
    return ["".join(r.choice(WORDS) + r.choice([" ", " ", "", "\n", "  "]) for _ in range(r.randint(1, 12))) for _ in range(count)]


def train_ranks(corpus, size):
    """Plain byte-pair training over Kimi's pieces; ids 0-255 are bytes in GPT-2's order."""
    enc = tiktoken.Encoding("split", pat_str=KIMI, mergeable_ranks={bytes([b]): b for b in range(256)}, special_tokens={})
    order = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order += [b for b in range(256) if b not in order]
    ranks = {bytes([b]): i for i, b in enumerate(order)}
    import regex  # only to get pieces; its set operations are those of the published pattern
    pieces = {}
    for text in corpus:
        for piece in regex.findall(KIMI, text, flags=regex.V1):
            key = tuple(bytes([b]) for b in piece.encode())
            pieces[key] = pieces.get(key, 0) + 1
    del enc
    while len(ranks) < size:
        pairs = {}
        for piece, n in pieces.items():
            for a, b in zip(piece, piece[1:]):
                pairs[a, b] = pairs.get((a, b), 0) + n
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], p))
        if best[0] + best[1] not in ranks:
            ranks[best[0] + best[1]] = len(ranks)
        merged = {}
        for piece, n in pieces.items():
            out, i = [], 0
            while i < len(piece):
                if i + 1 < len(piece) and (piece[i], piece[i + 1]) == best:
                    out.append(piece[i] + piece[i + 1])
                    i += 2
                else:
                    out.append(piece[i])
                    i += 1
            merged[tuple(out)] = merged.get(tuple(out), 0) + n
        pieces = merged
    return ranks


def write_kimi():
    folder = os.path.join(OUT, "kimi")
    os.makedirs(folder, exist_ok=True)
    ranks = train_ranks(texts(400, 1), 700)
    with open(os.path.join(folder, "tiktoken.model"), "w", encoding="ascii") as f:
        f.writelines(f"{base64.b64encode(t).decode()} {r}\n" for t, r in sorted(ranks.items(), key=lambda x: x[1]))
    base = len(ranks)
    added = {str(base + i): dict(content=s, special=True, lstrip=False, rstrip=False, normalized=False, single_word=False)
             for i, s in enumerate(SPECIALS)}
    added[str(base + len(SPECIALS))] = dict(content="<think>", special=False)
    dump(os.path.join(folder, "tokenizer_config.json"), dict(added_tokens_decoder=added, bos_token="[BOS]", eos_token="[EOS]"))
    names = {a["content"]: int(i) for i, a in added.items()}
    enc = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks, special_tokens=names)
    cases = [dict(text=t, plain=enc.encode(t, disallowed_special=()), parsed=enc.encode(t, allowed_special="all"))
             for t in texts(150, 2) + ["", "<think>hi<|im_end|>", "a" * 300, " " * 40 + "x", "\n\n\n"]]
    dump(os.path.join(folder, "golden.json"), cases)


def write_hf(name, splits, nfc):
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    tok = Tokenizer(models.BPE())
    if nfc:
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(s), "isolated") for s in splits]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(texts(400, 3), trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tok.add_special_tokens([AddedToken("<|im_end|>", special=True, normalized=False)])
    tok.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    tok.save(os.path.join(folder, "tokenizer.json"))
    cases = [dict(text=t, parsed=tok.encode(t, add_special_tokens=False).ids)
             for t in texts(150, 4) + ["", "<tool_call>x<|im_end|>", "a" * 300]]
    dump(os.path.join(folder, "golden.json"), cases)


def dump(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    write_kimi()
    write_hf("qwen3", [QWEN], nfc=True)
    write_hf("deepseek", DEEPSEEK, nfc=False)
