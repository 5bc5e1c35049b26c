"""Renders the chart as Helm does, for the tests. HELM names the program; values are names of files beside the chart, or dicts."""
import functools
import json
import os
import subprocess
import tempfile

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHART = os.path.join(ROOT, "helm", "numoe")
HELM = os.environ.get("HELM", "helm")
with open(os.path.join(CHART, "Chart.yaml"), encoding="utf-8") as chart_file:
    APP_VERSION = yaml.safe_load(chart_file)["appVersion"]
VALUES = sorted(f for f in os.listdir(CHART) if f.startswith("values-") and f.endswith(".yaml"))
KUBERNETES = "1.34.0"
PLATFORM = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}  # whose programs are in the image

# A release that uses everything at once.
EVERYTHING = {
    "pinning": "required",
    "model": {"repository": "moonshotai/Kimi-K2-Thinking", "revision": "0123456789abcdef0123456789abcdef01234567", "sizeGiB": 554},
    "download": {"enabled": True, "tokenSecret": {"name": "hf"}},
    "pack": {"enabled": True, "format": "int8"},
    "persistence": {"accessModes": ["ReadWriteMany"], "storageClass": "shared"},
    "replicas": 2,
    "workers": {"resources": {"limits": {"cpu": 30, "memory": "300Gi"}},
                "overrides": [{"resources": {"limits": {"cpu": 28, "memory": "300Gi"}}}], "flags": {"log-level": "debug"}},
    "remoteWorkers": {"enabled": True, "replicas": 2, "resources": {"limits": {"cpu": 30, "memory": "300Gi"}}},
    "coordinator": {"flags": {"max-total-tokens": 50000000, "deterministic": True, "request-timeout-s": 1.5},
                    "gpu": {"count": 1, "runtimeClassName": "nvidia"}, "resources": {"limits": {"cpu": 4, "memory": "64Gi"}}},
    "router": {"enabled": True, "replicas": 2, "flags": {"log-level": "debug"}},
    "apiKeys": {"secretName": "api-keys", "adminKey": "admins"},
    "tls": {"enabled": True, "certManager": {"enabled": True, "issuerRef": {"name": "ca", "kind": "ClusterIssuer"}}},
    "mtls": {"enabled": True, "certManager": {"enabled": True}},
    "ingress": {"enabled": True, "host": "llm.example.com", "className": "nginx", "tlsSecretName": "llm"},
    "metrics": {"monitors": {"enabled": True}, "rules": {"enabled": True}, "dashboards": {"enabled": True}},
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-extra"}}],
    "labels": {"team": "inference"},
}


class Refused(Exception):
    """An error that Helm reports."""


def helm(*arguments, values=(), check=True):
    """Runs helm with values (names of files beside the chart, or dicts) and returns its output."""
    files, made = [], []
    try:
        for value in values:
            if isinstance(value, dict):
                with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as f:
                    json.dump(value, f)
                made.append(f.name)
                value = f.name
            files += ["-f", os.path.join(CHART, value)]
        done = subprocess.run([HELM, *arguments, *files], capture_output=True, text=True, check=False)
    finally:
        for name in made:
            os.unlink(name)
    if check and done.returncode != 0:
        raise Refused(done.stderr.strip())
    return done.stdout


@functools.lru_cache(maxsize=None)
def _template(values, release, namespace, extra):
    return helm("template", release, CHART, "--namespace", namespace, "--kube-version", KUBERNETES, *extra,
                values=[json.loads(v) for v in values])


def template(*values, release="numoe", namespace="numoe", extra=("--skip-tests",)):
    """The rendered text."""
    return _template(tuple(json.dumps(v) for v in values), release, namespace, tuple(extra))


def render(*values, **options):
    """The rendered objects."""
    return [o for o in yaml.safe_load_all(template(*values, **options)) if o]


def merged(base, changes):
    """A copy of base with changes; None removes."""
    out = dict(base)
    for key, value in changes.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key, {}), value) if isinstance(value, dict) else value
    return out


def find(objects, kind, name=None):
    """The only object of a kind (and name)."""
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} of {kind} {name}: {[(o['kind'], o['metadata']['name']) for o in objects]}"
    return found[0]


def kinds(objects):
    return sorted({o["kind"] for o in objects})


def pods(objects):
    """(object, its pod template) of everything that makes pods."""
    for o in objects:
        if o["kind"] == "Pod":
            yield o, o
        elif o["kind"] in ("StatefulSet", "Job", "Deployment", "DaemonSet"):
            yield o, o["spec"]["template"]
        elif o["kind"] == "LeaderWorkerSet":
            for template in ("leaderTemplate", "workerTemplate"):
                yield o, o["spec"]["leaderWorkerTemplate"][template]


def pod_specs(objects):
    """(object, spec of its pods) of everything that makes pods."""
    for o, pod in pods(objects):
        yield o, pod["spec"]


def matches(selector, labels):
    """Whether a label selector (matchLabels and matchExpressions) selects these labels."""
    for each in selector.get("matchExpressions", []):
        here = labels.get(each["key"])
        fits = {"Exists": here is not None, "DoesNotExist": here is None, "In": here in each.get("values", []),
                "NotIn": here not in each.get("values", [])}[each["operator"]]
        if not fits:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def container(workload, name):
    spec = workload["spec"]["template"]["spec"]
    return next(c for c in spec["containers"] if c["name"] == name)


def coordinators(workload):
    return [c for c in workload["spec"]["template"]["spec"]["containers"] if c["command"][-1] == "numoe-coordinator"]


def workers(workload):
    return [c for c in workload["spec"]["template"]["spec"]["containers"] if c["command"][-1] == "numoe-expert-worker"]


def flags(c):
    """Flags of a container as a dict; a switch is True."""
    out = {}
    for argument in c["args"]:
        name, equals, value = argument.removeprefix("--").partition("=")
        assert argument.startswith("--") and name not in out, c["args"]
        out[name] = value if equals else True
    return out
