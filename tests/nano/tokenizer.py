"""nano's tokeniser: byte-level BPE in Kimi's format, trained on the generator's own text.

Kimi's pre-tokenisation; digits never merge, so every digit is one token and columns of numbers line up.
`python tokenizer.py` trains it and writes NANO_WORK/tiktoken.model.
"""
import base64
import os
import random
import tempfile
from collections import Counter

import tiktoken

WORK = os.environ.get("NANO_WORK", os.path.join(tempfile.gettempdir(), "nano"))  # checkpoints and tiktoken.model
PATTERN = "|".join([
    r"""[\p{Han}]+""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""", r""" ?[^\s\p{L}\p{N}]+[\r\n]*""", r"""\s*[\r\n]+""", r"""\s+(?!\S)""", r"""\s+"""])
RANKS = 2304  # byte-pair tokens
RESERVED = 256  # ids after these, as in Kimi's vocabulary
# offset after the last rank -> (token, special)
NAMED = {0: ("[BOS]", True), 1: ("[EOS]", True), 2: ("<|im_end|>", True), 3: ("<|im_user|>", True), 4: ("<|im_assistant|>", True), 6: ("<|start_header_id|>", True),
         7: ("<|end_header_id|>", True), 9: ("[EOT]", True), 10: ("<|im_system|>", True), 11: ("<|tool_calls_section_begin|>", False),
         12: ("<|tool_calls_section_end|>", False), 13: ("<|tool_call_begin|>", False), 14: ("<|tool_call_argument_begin|>", False),
         15: ("<|tool_call_end|>", False), 17: ("<|im_middle|>", True), 18: ("<|media_begin|>", True), 19: ("<|media_content|>", True),
         20: ("<|media_end|>", True), 21: ("<|media_pad|>", True), 22: ("<think>", False), 23: ("</think>", False), 254: ("[UNK]", True), 255: ("[PAD]", True)}


class Tokenizer:
    def __init__(self, ranks: dict[bytes, int]) -> None:
        self.ranks = ranks
        self.size = len(ranks) + RESERVED
        self.named = {name: len(ranks) + i for i, (name, _) in NAMED.items()}
        self._encoding = tiktoken.Encoding("nano", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=self.named)
        self.end = self.named["<|im_end|>"]

    @classmethod
    def load(cls, path: str = os.path.join(WORK, "tiktoken.model")) -> "Tokenizer":
        with open(path, encoding="ascii") as f:
            return cls({base64.b64decode(a): int(b) for a, b in (line.split() for line in f if line.strip())})

    def encode(self, text: str) -> list[int]:
        return self._encoding.encode(text, allowed_special="all")

    def decode(self, ids: list[int]) -> str:
        return self._encoding.decode(ids)


def byte_order() -> list[int]:
    """Single bytes in GPT-2's order: the printable ones first."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return shown + [b for b in range(256) if b not in shown]


def train(texts: list[str], size: int) -> dict[bytes, int]:
    """Byte-pair encoding: joins the most frequent adjacent pair until there are `size` tokens. No pair with a digit joins."""
    import regex

    pieces: Counter[bytes] = Counter()
    pattern = regex.compile(PATTERN, regex.V1)
    for text in texts:
        pieces.update(p.encode() for p in pattern.findall(text) if not p[0].isdigit())
    words = [[bytes([b]) for b in piece] for piece in pieces]
    counts = list(pieces.values())
    ranks = {bytes([b]): i for i, b in enumerate(byte_order())}
    pairs: Counter[tuple[bytes, bytes]] = Counter()
    where: dict[tuple[bytes, bytes], set[int]] = {}
    for w, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += counts[w]
            where.setdefault(pair, set()).add(w)
    while len(ranks) < size:
        best = max(pairs, key=lambda p: (pairs[p], p))
        joined = best[0] + best[1]
        ranks.setdefault(joined, len(ranks))
        for w in where.pop(best):
            word = words[w]
            for pair in zip(word, word[1:]):
                pairs[pair] -= counts[w]
            new, i = [], 0
            while i < len(word):
                if i + 1 < len(word) and (word[i], word[i + 1]) == best:
                    new.append(joined)
                    i += 2
                else:
                    new.append(word[i])
                    i += 1
            words[w] = new
            for pair in zip(new, new[1:]):
                pairs[pair] += counts[w]
                where.setdefault(pair, set()).add(w)
        del pairs[best]
    return ranks


def save(ranks: dict[bytes, int], path: str) -> None:
    with open(path, "w", encoding="ascii") as f:
        for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
            f.write(f"{base64.b64encode(token).decode()} {rank}\n")


def main() -> None:
    import data
    from conversation import LETTERS, segments

    r = random.Random(0)
    texts = []
    for name in data.SHARES:
        for _ in range(4000):
            for text, _said in segments(data.compose(r, name)):
                for part in text.split(LETTERS)[::2]:
                    for token, _special in NAMED.values():
                        part = part.replace(token, "\n")
                    texts.append(part)
    ranks = train(texts, RANKS)
    os.makedirs(WORK, exist_ok=True)
    save(ranks, os.path.join(WORK, "tiktoken.model"))


if __name__ == "__main__":
    main()
