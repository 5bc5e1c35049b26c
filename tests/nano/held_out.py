"""Held-out cases for the served API (messages, tools, and what counts as right), and held-out text for perplexity.

tests/quality/quality.py uses `cases(count, seed)` and `documents(count, seed)`. The kinds are arithmetic, recall, tool_calls, no_call
and clean_stop. The seed differs from that of training, and the conversations are those that `data.held_out` keeps out of training.
A case: {"kind", "messages", "tools", "expect"} with expect one of {"regex": pattern the content matches}, {"calls": [{"name",
"arguments"}]}, {"no_call": true}, {"stop": true}. Every case must also end by itself (finish_reason stop or tool_calls).
"""
import json
import random
import re
from typing import Any

import data
from conversation import LETTERS, Conversation, Turn, segments
from toolcalls import choose, no_fit
from wordgames import word_game

Case = dict[str, Any]


def messages(turns: list[Turn]) -> list[dict[str, Any]]:
    """In the OpenAI API's form."""
    out: list[dict[str, Any]] = []
    number, pending = 0, []
    for t in turns:
        if t.calls:
            calls = []
            for name, arguments in t.calls:
                call = f"functions.{name}:{number}"
                number += 1
                pending.append(call)
                calls.append(dict(id=call, type="function", function=dict(name=name, arguments=json.dumps(arguments))))
            out.append(dict(role="assistant", content=t.text or None, tool_calls=calls))
        elif t.role == "tool":
            out.append(dict(role="tool", tool_call_id=pending.pop(0), content=t.text))
        else:
            out.append(dict(role=t.role, content=t.text.replace(LETTERS, "")))
    return out


def _case(kind: str, talk: Conversation, turns: list[Turn], expect: dict[str, Any]) -> Case:
    return dict(kind=kind, messages=messages(turns), tools=talk.tools, expect=expect)


def make(kind: str, r: random.Random) -> Case | None:
    """One case, or None if the draw is not fit (in training, or no such turn)."""
    if kind == "arithmetic":
        talk = data.compose(r, "arithmetic")
        answer = talk.turns[-1].text
        pattern = re.escape(answer.removeprefix("The answer is ").removesuffix(".")) if "answer is" in answer else "zero"
        expect: dict[str, Any] = dict(regex=rf"(?<![\d-]){pattern}(?!\d)")
    elif kind == "recall":
        talk = data.compose(r, "recall", 1100 if r.random() < 0.1 else 0)
        expect = dict(regex=re.escape(talk.turns[-1].text.rstrip(".")))
    elif kind == "tool_calls":
        talk = data.compose(r, "tool_call")
        at = max(i for i, t in enumerate(talk.turns) if t.calls)
        if not data.held_out(talk):
            return None
        calls = [dict(name=n, arguments=a) for n, a in talk.turns[at].calls]
        return _case(kind, talk, talk.turns[:at], dict(calls=calls))
    elif kind == "no_call":
        talk = no_fit(r) if r.random() < 0.5 else data.compose(r, r.choice(("small_talk", "arithmetic", "word_game", "unknown")))
        if not talk.tools and r.random() < 0.7:
            if r.random() < 0.5 and talk.turns[-1].text.startswith("I don't know"):
                return None
            talk.tools = [] if talk.turns[-1].text.startswith("I don't know") else [t.schema(r) for t in choose(r, 2)]
        expect = dict(no_call=True)
    else:
        talk = word_game(r) if r.random() < 0.4 else data.compose(r, r.choice(list(data.SHARES)))
        if talk.turns[-1].calls:
            return None
        expect = dict(stop=True)
    if not data.held_out(talk):
        return None
    return _case(kind, talk, talk.turns[:-1], expect)


KINDS = ["arithmetic", "recall", "tool_calls", "no_call", "clean_stop"]


def cases(count: int, seed: int = 77) -> list[Case]:
    """`count` of each kind."""
    out: list[Case] = []
    for kind in KINDS:
        r, mine = random.Random(f"{seed} {kind}"), []
        while len(mine) < count:
            case = make(kind, r)
            if case:
                mine.append(case)
        out += mine
    return out


def documents(count: int, seed: int = 77) -> list[list[dict[str, Any]]]:
    """Whole conversations as the template renders them, in parts; numoe-perplexity judges the parts that the model must say.
    Conversations that are encoded letter by letter are left out."""
    r, names = random.Random(f"{seed} documents"), list(data.SHARES)
    out: list[list[dict[str, Any]]] = []
    while len(out) < count:
        talk = data.compose(r, r.choices(names, list(data.SHARES.values()))[0])
        parts = [dict(text=text, judged=said) for text, said in segments(talk)]
        if data.held_out(talk) and not any(LETTERS in part["text"] for part in parts):
            out.append(parts)
    return out
