#!/usr/bin/env python3
"""Writes tests/unit/coordinator/text/chat/testdata/typescript_tools.json: tool schemas, and what Kimi-K2.5's own code makes of them.

Usage: typescript_cases.py PATH   (PATH: tool_declaration_ts.py as published with the model, or a copy of it)
A case is {"tools", "text"}; text is null where the published code refuses the schema.
"""
import importlib.util
import json
import os
import random
import sys

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/coordinator/text/chat/testdata/typescript_tools.json")


def sort_keys(value):
    if isinstance(value, dict):
        return {k: sort_keys(v) for k, v in sorted(value.items())}
    return [sort_keys(v) for v in value] if isinstance(value, list) else value


def tool(parameters, **more):
    return {"type": "function", "function": {"name": "f", "parameters": parameters, **more}}


def fields(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


HAND_MADE = [
    [], [{"type": "_plugin"}], [{"type": "function", "function": {}}], [{"function": {"name": "f"}}], [1],
    [{"type": "function", "function": {"name": "noop"}}, tool(None), tool({}), tool({"type": "object"}, description="A\n\nB\n")],
    [tool(fields(["city"], city={"type": "string", "description": "City name", "minLength": 1},
                 days={"type": "integer", "minimum": 1, "maximum": 7}, tags={"type": "array", "items": {"type": "string"}},
                 unit={"enum": ["C", "F"], "default": "C"}), description="Get weather")],
    [tool(fields(["b", "a", "zz"], b={"type": "number", "default": 1.0}, a={"type": "boolean", "default": False}, c={},
                 d=True, e=False, f={"type": "null", "description": "ü \"quoted\""}, g={"type": "string", "default": "a\n\"ü"},
                 h={"type": "string", "default": ["x", 1, {"k": None}]}, i={"type": "integer", "default": 10**15}))],
    [tool(fields(a={"type": ["string", "null", "array", "object", "integer"], "description": "d"},
                 b={"anyOf": [{"type": "string", "minLength": 2}, fields(x={"type": "string"}), {"type": "null"}], "description": "e"},
                 c={"enum": ["a", 1, 1.5, True, None]}, d={"enum": ["x", None], "type": ["string", "null"]},
                 e={"enum": [1, True], "type": "integer"}, f={"enum": [1, 2.5], "type": ["null", "number"]}))],
    [tool(fields(a={"type": "array", "items": {"type": "string", "description": "each", "pattern": "^a+$"}, "minItems": 1, "maxItems": 3},
                 b={"type": "array"}, c={"type": "array", "items": {}}, d={"type": "array", "items": True},
                 e={"type": "array", "items": fields(["p"], p={"type": "array", "items": {"type": "integer", "maximum": 3}}), "description": "deep"}))],
    [tool({**fields(a={"$ref": "#/$defs/Node", "description": "the node"}, b={"$ref": "#/$defs/Kind"}),
           "$defs": {"Node": {**fields(["next"], next={"$ref": "#/$defs/Node"}, k={"$ref": "#/$defs/Kind"}), "description": "A node\nof a list"},
                     "Kind": {"enum": ["x", "y"]}}})],
    [tool({**fields(["v"], v={"type": "string"}, child={"$ref": "#"}, a={"type": "string", "description": "first"}), "additionalProperties": False},
          description="recursive")],
    [tool({**fields(a={"type": "object", "additionalProperties": True}, b={"type": "object", "additionalProperties": {"type": "string"}},
                    c={"type": "object", "additionalProperties": {}}, d={"type": "object", "additionalProperties": fields(q={"type": "string"})},
                    e={"type": "object", "additionalProperties": None}), "additionalProperties": False})],
    [tool(fields(a={"description": "no type"}))], [tool(fields(a={"$ref": "#/$defs/None"}))], [tool(fields(a={"$ref": "other.json"}))],
    [tool(fields(a={"enum": ["x", 1], "type": "string"}))], [tool(fields(a={"enum": [True], "type": "string"}))],
    [tool(fields(a={"enum": ["x"], "type": ["string", "integer"]}))], [tool(fields(a={"enum": [1.5], "type": "integer"}))],
    [tool(fields(a={"type": ["string", "date"]}))], [tool(fields(a="string"))], [tool(fields(a=None))], [tool(fields(a={"anyOf": [{"x": 1}]}))],
    [tool({"properties": {"a": {"type": "string"}}, "required": None})], [tool({"additionalProperties": 3})], [tool([1])],
    [tool({"properties": {"a": {"type": "object", "required": True, "properties": {}}}})],
    [tool(fields(a={"type": "string", "description": ["not", "text"]}))], [tool({}, description=5)],
    [tool(fields(a={"type": "string", "maxLength": None, "minLength": 1.5, "pattern": ["a"]}, b={"type": "date"}))],
    [tool({"$defs": {"A": True}, "properties": {}})], [tool({"$defs": {"A": {"$ref": "#"}}, "properties": {"a": {"$ref": "#/$defs/A"}}})],
]


def schema(r, depth):
    kind = r.choice(["string", "integer", "number", "boolean", "enum", "union", "any"] + ["object", "array", "anyOf", "ref"] * (depth < 3))
    out = {}
    if kind == "object":
        names = r.sample(["a", "b_c", "Zed", "name", "ü", "x1"], r.randint(0, 4))
        out = {"type": "object", "properties": {n: schema(r, depth + 1) for n in names}}
        if r.random() < 0.7:
            out["required"] = r.sample(names, r.randint(0, len(names)))
        if r.random() < 0.3:
            out["additionalProperties"] = r.choice([True, False, {"type": "string"}, schema(r, depth + 1)])
    elif kind == "array":
        out = {"type": "array", **({"items": schema(r, depth + 1)} if r.random() < 0.9 else {})}
        if r.random() < 0.3:
            out[r.choice(["minItems", "maxItems"])] = r.randint(0, 9)
    elif kind == "anyOf":
        out = {"anyOf": [schema(r, depth + 1) for _ in range(r.randint(1, 3))]}
    elif kind == "ref":
        out = {"$ref": r.choice(["#", "#/$defs/D", "#/$defs/D", "#/$defs/E"])}
    elif kind == "enum":
        out = {"enum": r.sample(["a", "b\"c", 1, 2.5, None, True], r.randint(1, 4))}
    elif kind == "union":
        out = {"type": r.sample(["string", "number", "null", "array", "object", "boolean"], r.randint(1, 3))}
    elif kind != "any":
        out = {"type": kind}
        for key, value in (("minLength", 1), ("pattern", "^\\d+$"), ("maximum", 1e16), ("minimum", -2), ("default", 0.1)):
            if r.random() < 0.2:
                out[key] = value
    if out and r.random() < 0.4:
        out["description"] = r.choice(["What it is.", "Two\nlines", "Line\n\n  after a gap\n", "", "世界 // 🎉"])
    if out and r.random() < 0.15:
        out["default"] = r.choice([1, 2.0, 1e-7, True, "x", "", None, [], {"a": [1, "ü"]}, False, 0])
    return out


def main():
    spec = importlib.util.spec_from_file_location("published", sys.argv[1])
    published = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(published)
    r = random.Random(1)
    cases = list(HAND_MADE)
    for _ in range(120):
        root = {"type": "object", "properties": {n: schema(r, 0) for n in r.sample(["one", "Two", "three", "_4"], r.randint(1, 4))}, "required": ["one"]}
        if r.random() < 0.7:
            root["$defs"] = {"D": schema(r, 1), "E": schema(r, 1)}
        cases.append([tool(root, description=r.choice([None, "", "Does\nthings"]))])
    rows, refused = [], 0
    for tools in cases:
        try:
            text = published.encode_tools_to_typescript_style(sort_keys(tools))
        except Exception:
            text, refused = None, refused + 1
        rows.append(json.dumps({"tools": tools, "text": text}, ensure_ascii=False))
    with open(OUT, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(rows) + "\n]\n")
    print(f"{len(rows)} cases, {refused} refused")


if __name__ == "__main__":
    main()
