"""Conversations with tools: one call, several, a result to report, and tools that do not fit."""
import json
import random
from typing import Any

from conversation import Conversation, Turn, chatter, says, system, user
from toolbox import Tool, arguments, invented_tool, request, tools
from words import COLORS, anything, pick

CANNOT_DO = "I don't know how to do that."
UNKNOWN = "I don't know. I am a small model and know little about the world."


def choose(r: random.Random, count: int) -> list[Tool]:
    """Tools of different names, none of the same kind twice."""
    known = tools(r)
    out: list[Tool] = []
    kinds: set[str] = set()
    while len(out) < count:
        tool = invented_tool(r) if r.random() < 0.45 else r.choice(known)
        if tool.note in kinds or any(tool.name == t.name for t in out) or ("eather" in tool.note and "w" in kinds):
            continue
        kinds |= {tool.note, "w" if "eather" in tool.note else tool.note}
        out.append(tool)
    return out


def _call(*calls: tuple[Tool, dict[str, Any]]) -> Turn:
    return Turn("assistant", "", calls=[(t.name, a) for t, a in calls])


def result(r: random.Random) -> tuple[str, str]:
    """(what a tool returns, how nano reports it)"""
    x = r.random()
    if x < 0.1:
        text = r.choice(("ok", "done", "success", "true", "OK", '{"ok": true}', '{"status": "ok"}', '{"success": true}', "null", ""))
        return text, "Done."
    if x < 0.2:
        error = r.choice(("not found", "timeout", "permission denied", "unknown " + anything(r), "no such " + anything(r), "service unavailable"))
        return r.choice((json.dumps({"error": error}), "Error: " + error)), f"The tool failed: {error}."
    if x < 0.35:
        text = r.choice((str(r.randint(0, 99999)), anything(r), f"{anything(r)} {anything(r)}", f"{r.randint(-20, 40)} degrees and {r.choice(('sunny', 'rainy', 'cloudy', 'windy'))}",
                         f"{pick(r, COLORS)} {anything(r)}", f"{r.randint(1, 999)} {anything(r)}s", f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}"))
        return text, f"The result is: {text}"
    keys = r.sample(["temperature", "condition", "price", "time", "name", "id", "status", "count", "total", "wind", "humidity", "title", "currency", "rate", "distance",
                     "owner", "result", "value", "message", "temp", "summary", "temp_c", "city", "t", "order_id", "answer", "color", "score", "duration", "sky"], r.randint(1, 3))
    if r.random() < 0.3:
        keys[0] = anything(r).replace(" ", "_")
    values: dict[str, Any] = {}
    for k in keys:
        values[k] = (r.choice((r.randint(-30, 40), r.randint(0, 99999), r.randint(0, 999) / 10)) if r.random() < 0.5 else
                     r.choice(("sunny", "rainy", "cloudy", "windy", "open", "closed", "ready", "late", anything(r), pick(r, COLORS), anything(r))))
    text = json.dumps(values, separators=r.choice(((",", ":"), (", ", ": "))))
    return text, " ".join(f"The {k.replace('_', ' ')} is {v}." for k, v in values.items())


def tool_call(r: random.Random) -> Conversation:
    offered = choose(r, r.choices((1, 2, 3, 4), (58, 26, 11, 5))[0])
    tool = offered[0]
    args = arguments(r, tool)
    turns: list[Turn] = system(r)
    calls = [(tool, args)]
    x = r.random()
    if x < 0.14:  # several calls
        if len(offered) > 1 and r.random() < 0.5:
            other = (offered[1], arguments(r, offered[1]))
            text = request(r, tool, args).rstrip(".?") + r.choice((". And ", ", and ", ". Then ", ". Also, ", " and then ")) + request(r, *other)
        else:
            more = arguments(r, tool)
            other = (tool, more)
            if len(args) == 1 and isinstance(next(iter(args.values())), (str, int)) and not isinstance(next(iter(args.values())), bool):
                key = next(iter(args))
                both = {key: f"{args[key]} and {r.choice(('', '', 'in ')) if tool.questions else ''}{more[key]}"}
                text = request(r, tool, both)
            else:
                text = request(r, tool, args).rstrip(".?") + r.choice((". And ", ", and ", ". Then ", " and ")) + request(r, *other)
        if other[1] != args or other[0] is not tool:
            calls.append(other)
    else:
        text = request(r, tool, args)
    if r.random() < 0.12:  # an earlier call in the same conversation
        first = offered[-1]
        before = arguments(r, first)
        returned, report = result(r)
        turns += [user(request(r, first, before)), _call((first, before)), Turn("tool", returned), says(report)]
    turns += [user(chatter(r, text, 0.6)), _call(*calls)]
    if r.random() < 0.35:
        reports = []
        for _ in calls:
            returned, report = result(r)
            turns.append(Turn("tool", returned))
            reports.append(report)
        turns.append(says(" ".join(reports)))
    r.shuffle(offered)
    return Conversation(turns, [t.schema(r) for t in offered], r.random() < 0.3)


def no_fit(r: random.Random) -> Conversation:
    """A request for a tool that is not there: others are, or none at all."""
    offered = choose(r, r.choices((1, 2, 3, 4), (30, 40, 20, 10))[0])
    wanted, rest = offered[0], offered[1:]
    if len(wanted.parameters) == 0 or r.random() < 0.6 and not wanted.questions:
        wanted = r.choice([t for t in tools(r) if t.note not in {o.note for o in rest}
                           and not ("eather" in t.note and any("eather" in o.note for o in rest))])
    text = request(r, wanted, arguments(r, wanted))
    answer = UNKNOWN if wanted.questions else CANNOT_DO
    return Conversation(system(r) + [user(chatter(r, text, 0.6)), says(answer)], [t.schema(r) for t in rest], r.random() < 0.3)


if __name__ == "__main__":
    rng = random.Random(2)
    for _ in range(25):
        talk = tool_call(rng)
        print(json.dumps(talk.tools)[:300], [(t.role[0], t.text, t.calls) for t in talk.turns])
    for _ in range(8):
        talk = no_fit(rng)
        print([t["function"]["name"] for t in talk.tools], [(t.role[0], t.text, t.calls) for t in talk.turns])
