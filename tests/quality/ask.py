"""Asks a served model (OpenAI API, greedy) cases of tests/nano/held_out.py and probes of probe.json, and judges the answers.

`python ask.py --url http://127.0.0.1:8080 [FILE...]` asks one server by hand; without files, the probes.
"""
import argparse
import json
import os
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


def scores(url: str, cases: list[dict[str, Any]], show: int, parallel: int = 32) -> dict[str, float]:
    """The share of right answers of each kind; prints `show` failures of each kind on stderr."""
    with ThreadPoolExecutor(parallel) as pool:
        choices = list(pool.map(lambda c: ask(url, c), cases))
    good, total = defaultdict(int), defaultdict(int)
    for case, choice in zip(cases, choices):
        kind = case["kind"]
        total[kind] += 1
        if right(case, choice):
            good[kind] += 1
        elif total[kind] - good[kind] <= show:
            message = choice["message"]
            print(f"{kind} {case.get('id', '')}: {case['messages'][-1]['content'][-150:]!r} -> {message.get('content')!r} {message.get('tool_calls') or ''} "
                  f"{choice['finish_reason']} [{(message.get('reasoning_content') or '')[:160]}] wanted {str(case.get('accept') or case['expect'])[:160]}", file=sys.stderr)
    return {kind: good[kind] / n for kind, n in total.items()}


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("files", nargs="*", default=[os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.json")])
    args.add_argument("--url", default="http://127.0.0.1:8080")
    args.add_argument("--show", type=int, default=5, help="failures of each kind to print")
    a = args.parse_args()
    for kind, share in scores(a.url, [case for file in a.files for case in json.load(open(file, encoding="utf-8"))], a.show).items():
        print(f"{kind:12} {share:.3f} (bar {BARS[kind]})")


if __name__ == "__main__":
    main()
