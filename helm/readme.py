#!/usr/bin/env python3
"""Writes helm/numoe/README.md, which `helm show readme` prints, from the chart's own files.

Usage: readme.py writes the file; readme.py --check compares it and fails if it differs. The values come from values.yaml with the
comments above them, what each may be from values.schema.json, and the rest from Chart.yaml. Needs python3-yaml.
"""
import json
import os
import re
import sys

import yaml

CHART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "numoe")
HEAD = """# {name}

{description}. Programs {appVersion}, chart {version}, Kubernetes {kubeVersion}.

```
helm install numoe . --namespace numoe --create-namespace -f values-nano.yaml --wait
helm test numoe --namespace numoe
```

Pods use the image `localhost/numoe:{appVersion}`, with GPUs `localhost/numoe:{appVersion}-cuda`. Put it on the nodes, or name your
registry in `image.repository`. Values that cannot work are refused before anything is installed, with a message that says what to do.

| complete examples | serve |
|---|---|
{examples}

Each pod of the StatefulSet is a host: a coordinator (attention, shared experts and the OpenAI API) and an expert worker for each of its
sockets. The weights are in a claim that a Job fills; it remains when the release is removed.

## Values

| value | default | may be | what it is |
|---|---|---|---|
{values}
"""


def read(name):
    with open(os.path.join(CHART, name), encoding="utf-8") as f:
        return f.read()


def comments(text):
    """-> {path of a key: the comment above it}. A comment above an empty line is about a section, not about a key."""
    found, above, path = {}, [], []
    for line in text.splitlines():
        key = re.match(r"( *)([A-Za-z]\w*):", line)
        note = re.match(r" *# ?(.*)", line)
        if note:
            above.append(note.group(1))
            continue
        if key:
            path = path[:len(key.group(1)) // 2] + [key.group(2)]
            found[".".join(path)] = " ".join(above)
        above = []
    return found


def rows(values, noted, schema, before=""):
    """Yields (path, default, schema) of every value with a comment and of all leaves; a map without a comment has no row of its own."""
    for key, value in values.items():
        path = f"{before}{key}"
        part = schema["properties"][key]
        nested = "properties" in part and any(p.startswith(path + ".") for p in noted)
        if not nested or noted.get(path):
            yield path, None if nested else value, part
        if nested:
            yield from rows(value, noted, part, path + ".")


def allowed(schema, definitions):
    """Describes in a few words what a value may be."""
    name = schema.get("$ref", "").rpartition("/")[2]
    schema = definitions.get(name, schema)
    for several in ("anyOf", "allOf"):
        if several in schema:
            parts = [allowed(part, definitions) for part in schema[several]]
            return schema.get("description") or ", ".join(dict.fromkeys(p for p in parts if p))
    if "enum" in schema:
        return ", ".join(f"`{v}`" if v != "" else "nothing" for v in schema["enum"])
    kind = schema.get("type", "")
    text = " or ".join(kind) if isinstance(kind, list) else kind
    if "minimum" in schema and "maximum" in schema:
        text += f" {schema['minimum']} to {schema['maximum']}"
    elif "minimum" in schema:
        text += f", at least {schema['minimum']}"
    if "description" in schema:
        text = schema["description"] if kind == "string" else f"{text}: {schema['description']}"
    return text


def cell(text):
    return text.replace("|", "\\|").replace("{{", "{ {")


def readme():
    head, text = yaml.safe_load(read("Chart.yaml")), read("values.yaml")
    values, noted, schema = yaml.safe_load(text), comments(text), json.loads(read("values.schema.json"))
    table = []
    for path, default, part in rows(values, noted, schema):
        shown = f"`{json.dumps(default)}`" if default is not None else ""
        table.append(f"| `{path}` | {cell(shown)} | {cell(allowed(part, schema['$defs']))} | {cell(noted.get(path, ''))} |")
    examples = []
    for name in sorted(f for f in os.listdir(CHART) if f.startswith("values-") and f.endswith(".yaml")):
        first = " ".join(re.match(r"((?:#.*\n)+)", read(name)).group(1).replace("# ", "").split())
        examples.append(f"| `{name}` | {cell(re.split(r'[.:] ', first)[0])} |")
    return HEAD.format(**head, examples="\n".join(examples), values="\n".join(table))


def main():
    path, wanted = os.path.join(CHART, "README.md"), readme()
    if sys.argv[1:] == ["--check"]:
        if not os.path.exists(path) or read("README.md") != wanted:
            sys.exit("helm/numoe/README.md differs from the chart's values: run helm/readme.py, which writes it again")
        return
    if sys.argv[1:]:
        sys.exit(f"unknown arguments {sys.argv[1:]}: expected --check or nothing")
    with open(path, "w", encoding="utf-8") as f:
        f.write(wanted)


if __name__ == "__main__":
    main()
