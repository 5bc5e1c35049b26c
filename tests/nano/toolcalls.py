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


def _wish(r: random.Random, offered: list[Tool], tool: Tool, args: dict[str, Any]) -> tuple[str, list[tuple[Tool, dict[str, Any]]]]:
    """A request for this call, at times with a second one -> (what is said, the calls)"""
    if r.random() >= 0.14:
        return request(r, tool, args), [(tool, args)]
    if len(offered) > 1 and r.random() < 0.5:
        second = next(t for t in offered if t is not tool)
        other = (second, arguments(r, second))
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
    return text, [(tool, args)] + ([other] if other[1] != args or other[0] is not tool else [])


def _returned(r: random.Random, calls: int) -> list[Turn]:
    """What the tools return, and the report of it."""
    pairs = [result(r) for _ in range(calls)]
    return [Turn("tool", returned) for returned, _ in pairs] + [says(" ".join(report for _, report in pairs))]


def tool_call(r: random.Random) -> Conversation:
    offered = choose(r, r.choices((1, 2, 3, 4), (58, 26, 11, 5))[0])
    tool = offered[0]
    args = arguments(r, tool)
    turns: list[Turn] = system(r)
    text, calls = _wish(r, offered, tool, args)
    if r.random() < 0.12:  # an earlier call in the same conversation
        first = offered[-1]
        before = arguments(r, first)
        turns += [user(request(r, first, before)), _call((first, before)), *_returned(r, 1)]
    turns += [user(chatter(r, text, 0.6)), _call(*calls)]
    if r.random() < 0.35:
        turns += _returned(r, len(calls))
    r.shuffle(offered)
    return Conversation(turns, [t.schema(r) for t in offered], r.random() < 0.3)


def tool_talk(r: random.Random) -> Conversation:
    """Many requests with the same tools, half of which no tool fits, so that the declarations are read once for many decisions."""
    offered = choose(r, r.choices((1, 2, 3, 4), (35, 35, 20, 10))[0])
    turns: list[Turn] = system(r)
    for _ in range(r.randint(2, 5)):
        if r.random() < 0.55:
            tool = r.choice(offered)
            text, calls = _wish(r, offered, tool, arguments(r, tool))
            turns += [user(chatter(r, text, 0.6)), _call(*calls), *_returned(r, len(calls))]
        else:
            turns += _refused(r, _absent(r, offered))
    return Conversation(turns, [t.schema(r) for t in offered], r.random() < 0.5)


def _absent(r: random.Random, offered: list[Tool]) -> Tool:
    """A tool of a kind that is not offered."""
    if r.random() < 0.4:
        tool = invented_tool(r)
        if tool.parameters and tool.name not in {o.name for o in offered} and tool.note not in {o.note for o in offered}:
            return tool
    return r.choice([t for t in tools(r) if t.note not in {o.note for o in offered} and not ("eather" in t.note and any("eather" in o.note for o in offered))])


def _refused(r: random.Random, wanted: Tool) -> list[Turn]:
    return [user(chatter(r, request(r, wanted, arguments(r, wanted)), 0.6)), says(UNKNOWN if wanted.questions else CANNOT_DO)]


def no_fit(r: random.Random) -> Conversation:
    """A request for a tool that is not offered; others are, or none at all."""
    offered = choose(r, r.choices((1, 2, 3, 4), (30, 40, 20, 10))[0])
    wanted, rest = offered[0], offered[1:]
    if len(wanted.parameters) == 0 or r.random() < 0.6 and not wanted.questions:
        wanted = r.choice([t for t in tools(r) if t.note not in {o.note for o in rest}
                           and not ("eather" in t.note and any("eather" in o.note for o in rest))])
    return Conversation(system(r) + _refused(r, wanted), [t.schema(r) for t in rest], r.random() < 0.3)


if __name__ == "__main__":
    rng = random.Random(2)
    for _ in range(25):
        talk = rng.choice((tool_call, tool_talk))(rng)
        print(json.dumps(talk.tools)[:300], [(t.role[0], t.text, t.calls) for t in talk.turns])
    for _ in range(8):
        talk = no_fit(rng)
        print([t["function"]["name"] for t in talk.tools], [(t.role[0], t.text, t.calls) for t in talk.turns])
