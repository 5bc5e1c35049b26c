"""The generator: a seed and a split give an endless stream of conversations, encoded for training.

A conversation is one task, sometimes after other finished tasks, sometimes with declared tools that do not matter. Held-out
cases (held_out.py) come from other seeds, and `held_out` keeps them out of training.
"""
from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from arithmetic import arithmetic
from conversation import LETTERS, Conversation, Turn, segments
from numoe_facts import about_numoe
from recall import recall, recall_talk
from smalltalk import small_talk
from toolcalls import choose, no_fit, tool_call, tool_talk
from unknown import unknown
from wordgames import echo, word_game

if TYPE_CHECKING:  # the held-out cases need no tokeniser, and so no package beyond Python's own
    from tokenizer import Tokenizer

Task = Callable[[random.Random], Conversation]
TASKS: dict[str, Task] = {"arithmetic": arithmetic, "recall": recall, "tool_call": tool_call, "no_fit": no_fit, "small_talk": small_talk, "unknown": unknown,
                          "word_game": word_game, "echo": echo, "about_numoe": about_numoe, "recall_talk": recall_talk, "tool_talk": tool_talk}
SHARES = {"arithmetic": 40, "recall": 14, "tool_call": 10, "no_fit": 8, "small_talk": 14, "unknown": 10, "word_game": 16, "echo": 4, "about_numoe": 12,
          "recall_talk": 12, "tool_talk": 7}
_SHORT = ["arithmetic", "small_talk", "unknown", "word_game", "about_numoe"]


def held_out(talk: Conversation) -> bool:
    """Whether a conversation is kept out of training, as one in 50 is, chosen by everything that the user says in it. (If the last
    message alone decided, the held-out cases would be little else than the few short questions that training never sees.)"""
    told = " ".join(t.text for t in talk.turns if t.role == "user").strip().lower()
    return len(told) > 12 and zlib.crc32(told.encode()) % 50 == 0


def _plain(talk: Conversation) -> list[Turn]:
    """The turns of a conversation without a system message and without the letters mark of scratchpads."""
    return [t for t in talk.turns if t.role != "system"]


def compose(r: random.Random, name: str, long: int = 0) -> Conversation:
    """One conversation of a task; `long` (for recall only) is the number of words between telling and asking."""
    if name == "recall":
        talk = recall(r, long)
    else:
        talk = TASKS[name](r)
    if name in _SHORT or name in ("recall", "tool_call") and not talk.tools and not long:
        if r.random() < 0.18:  # finished business before it
            before = [t for _ in range(r.randint(1, 3)) for t in _plain(TASKS[r.choice(_SHORT)](r))]
            at = 1 if talk.turns[0].role == "system" else 0
            talk.turns[at:at] = before
        if r.random() < 0.12 and not talk.tools:  # tools that do not matter
            tools = choose(r, r.randint(1, 3))
            if name != "unknown" or not any(t.questions or "search" in t.name or "google" in t.name for t in tools):
                talk.tools = [t.schema(r) for t in tools]
    return talk


def encode(tokenizer: Tokenizer, talk: Conversation) -> tuple[list[int], list[int]]:
    """(ids, 1 where the model must say the token)"""
    ids: list[int] = []
    mask: list[int] = []
    for text, said in segments(talk):
        for i, part in enumerate(text.split(LETTERS)):
            new = tokenizer.encode(part) if i % 2 == 0 else [t for c in part for t in tokenizer.encode(c)]
            ids += new
            mask += [int(said)] * len(new)
    return ids, mask


def conversations(seed: int, shares: dict[str, int] = SHARES, long_share: float = 0.0) -> Iterator[Conversation]:
    """Training conversations, for ever. `long_share` of those of recall reach back hundreds to thousands of words."""
    r = random.Random(seed)
    names, weights = list(shares), list(shares.values())
    while True:
        name = r.choices(names, weights)[0]
        long = int(r.choice((60, 150, 300, 600, 1000, 1500)) * r.uniform(0.7, 1.2)) if name == "recall" and r.random() < long_share else 0
        talk = compose(r, name, long)
        if not held_out(talk):
            yield talk


if __name__ == "__main__":
    from collections import Counter

    from tokenizer import Tokenizer

    tok = Tokenizer.load()
    rng, total, count, said = random.Random(5), Counter(), Counter(), Counter()
    for _ in range(4000):
        task = rng.choices(list(SHARES), list(SHARES.values()))[0]
        i, m = encode(tok, compose(rng, task))
        total[task] += len(i)
        said[task] += sum(m)
        count[task] += 1
    for task in SHARES:
        print(f"{task:12} {count[task]:5} mean {total[task] / count[task]:6.1f} said {said[task] / count[task]:6.1f} share {total[task] / sum(total.values()):.2f}")
