"""Asks a served nano (OpenAI API, greedy) the cases of eval_prompts.py or the probes of tests/quality/probe.json; prints scores.

`python ask.py --url http://127.0.0.1:8080 FILE... [--show 5]`. Exits 1 if a share is below its bar.
"""
import argparse
import json
import re
import sys
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BARS = {"arithmetic": 0.97, "recall": 0.97, "tool_calls": 0.97, "no_call": 0.97, "clean_stop": 1.0, "sensible": 0.85, "unknowable": 0.9}
MARKS = ("<|", "<think>", "</think>", "�")


def ask(url: str, case: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = dict(messages=case["messages"], temperature=0, max_tokens=700)
    if case.get("tools"):
        body["tools"] = case["tools"]
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)["choices"][0]


_CALL = re.compile(r"<\|tool_call_begin\|>functions\.(.*?):\d+<\|tool_call_argument_begin\|>(.*?)<\|tool_call_end\|>", re.S)


def parsed(choice: dict[str, Any]) -> dict[str, Any]:
    """What a server with Kimi's parsers would have answered, from one that passes the text on."""
    think, mark, rest = (choice["message"].get("content") or "").removeprefix("<think>").partition("</think>")
    content, section, calls = (rest if mark else think).partition("<|tool_calls_section_begin|>")
    made = [dict(function=dict(name=n, arguments=a)) for n, a in _CALL.findall(calls)]
    if section and not calls.endswith("<|tool_calls_section_end|>"):
        content += section
    reason = "tool_calls" if made and choice["finish_reason"] == "stop" else choice["finish_reason"]
    return dict(message=dict(content=content, reasoning_content=think if mark else "", tool_calls=made), finish_reason=reason)


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a JSON value satisfies the part of JSON Schema that the cases use."""
    kind = schema.get("type")
    if "enum" in schema and value not in schema["enum"]:
        return False
    if kind == "object":
        return isinstance(value, dict) and set(schema.get("required", [])) <= set(value) <= set(schema.get("properties", {})) and all(
            fits(v, schema["properties"][k]) for k, v in value.items())
    if kind == "array":
        return isinstance(value, list) and all(fits(v, schema.get("items", {})) for v in value)
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    return kind not in kinds or isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool))


def right(case: dict[str, Any], choice: dict[str, Any]) -> bool:
    message, content = choice["message"], choice["message"].get("content") or ""
    calls = message.get("tool_calls") or []
    if choice["finish_reason"] != ("tool_calls" if calls else "stop") or any(m in content for m in MARKS):
        return False
    expect = case.get("expect", {})
    if "accept" in case:  # a probe
        return not calls and any(re.search(p, content, re.I) for p in case["accept"])
    if "calls" in expect:
        try:
            made = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]
        except ValueError:
            return False
        schemas = {t["function"]["name"]: t["function"]["parameters"] for t in case.get("tools", [])}
        return made == [(c["name"], c["arguments"]) for c in expect["calls"]] and all(n in schemas and fits(v, schemas[n]) for n, v in made)
    if "regex" in expect:
        return not calls and re.search(expect["regex"], content) is not None
    return bool(expect.get("stop") or not calls and content.strip())


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("files", nargs="+")
    args.add_argument("--url", default="http://127.0.0.1:8080")
    args.add_argument("--show", type=int, default=5, help="failures of each kind to print")
    args.add_argument("--parallel", type=int, default=16)
    args.add_argument("--raw", action="store_true", help="the server passes <think> and tool sections on as text")
    a = args.parse_args()
    cases = [case for file in a.files for case in json.load(open(file, encoding="utf-8"))]
    with ThreadPoolExecutor(a.parallel) as pool:
        choices = list(pool.map(lambda c: ask(a.url, c), cases))
    if a.raw:
        choices = [parsed(c) for c in choices]
    good, total, low = defaultdict(int), defaultdict(int), False
    for case, choice in zip(cases, choices):
        kind = case["kind"]
        total[kind] += 1
        if right(case, choice):
            good[kind] += 1
        elif total[kind] - good[kind] <= a.show:
            message = choice["message"]
            print(f"{kind}: {case['messages'][-1]['content'][-150:]!r} -> {message.get('content')!r} {message.get('tool_calls') or ''} {choice['finish_reason']}"
                  f" [{(message.get('reasoning_content') or '')[:120]}] wanted {str(case.get('accept') or case['expect'])[:160]}")
    for kind, n in total.items():
        low |= good[kind] / n < BARS[kind]
        print(f"{kind:12} {good[kind]}/{n} = {good[kind] / n:.3f} (bar {BARS[kind]})")
    sys.exit(low)


if __name__ == "__main__":
    main()
