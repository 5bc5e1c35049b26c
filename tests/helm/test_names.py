"""Names that users choose: YAML readers take each for a string whatever it is, and shortened names remain different."""
import functools
import json
import os
import re
import unittest

import chart
import schemas
import test_refusals
from test_image import read

yaml = chart.yaml
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PLAIN = test_refusals.PLAIN
# A reader of YAML 1.1 or 1.2 takes each for something other than a string unless it is quoted; Kubernetes accepts them all as names.
WORDS = ("on", "null", "y", "no", "off", "1e3", "0x1f", "123", "0o17", "08", "2024-01-01")
HARMLESS = "w0rd"
SIZES = {"persistence.size", "coordinator.heat.size", "sharedMemory.size"}  # these have a test of their own
# Values whose words the chart refuses (an address, a path, a key that must differ from another), and values that decide what is rendered.
LEFT_OUT = {"listenHost", *SIZES, "persistence.hostPath", "persistence.mode", "workers.format", "apiKeys.adminKey", "fullnameOverride"}
# Four renderings have everything, as some features exclude each other. Each has its values, and a set of values that it leaves out beside
# LEFT_OUT: values that the rendering does not use, and one of the two Secrets of mutual TLS, which may not be the same.
# rendering does not use, and one of the two Secrets of mutual TLS, which may not be the same.
SECRETS = {"tls.secretName", "mtls.workerSecretName", "mtls.coordinatorSecretName"}
RENDERINGS = {
    "router": (chart.merged(chart.EVERYTHING, {
        "autoscaling": {"enabled": True}, "coordinator": {"heat": {"enabled": True, "accessModes": ["ReadWriteMany"]}}, "gateway": {"enabled": True}}),
               {"persistence.existingClaim", "mtls.workerSecretName"}),
    "pool": (chart.merged(schemas.VARIANTS["a pool behind a gateway"][0], {
        **schemas.VARIANTS["a pool behind a gateway"][1], "persistence": {"mode": "existing"}, "ingress": {"enabled": True}}), SECRETS),
    "a picker of yours": ({**schemas.VARIANTS["a pool behind a gateway"][0], "inferencePool": {"enabled": True, "picker": {"enabled": False}}},
                          {*SECRETS, "persistence.existingClaim"}),
    "groups": (chart.merged(chart.EVERYTHING, {
        "remoteWorkers": {"leaderWorkerSet": {"enabled": True}}, "autoscaling": {"enabled": True, "kind": "hpa"}, "mtls": {"certManager": {"issuerRef": {"name": "x"}}}}),
               {"persistence.existingClaim", "mtls.coordinatorSecretName"}),
}


class Yaml11(LOADER):
    """PyYAML's reader, with y and n as booleans, which YAML 1.1 has in addition."""
    bool_values = {**LOADER.bool_values, "y": True, "n": False}


Yaml11.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))


class Yaml12(LOADER):
    """The core schema of YAML 1.2, which has numbers that 1.1 does not have; 0x1f and 1e3 are numbers for Go as well."""
    yaml_implicit_resolvers = {}


for tag, pattern, first in (("bool", "^(true|True|TRUE|false|False|FALSE)$", "tTfF"), ("null", "^(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
                            ("int", "^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789"),
                            ("float", r"^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$", "-+.0123456789")):
    Yaml12.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))
Yaml12.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value, 0 if node.value[1:2] in ("o", "x") else 10))
READERS = (Yaml11, Yaml12)


def same_for_all(value, word):
    """The value without the word, the harmless word and their hashes in its strings."""
    if isinstance(value, dict):
        return {same_for_all(k, word): same_for_all(v, word) for k, v in value.items()}
    if isinstance(value, list):
        return [same_for_all(v, word) for v in value]
    if isinstance(value, str):
        return re.sub(r"(?<=-)([0-9a-f]{8}$|[0-9a-f]{16}(?=\"))", "#", value).replace(word, "*").replace(HARMLESS, "*")
    return value


def differences(one, other, path=""):
    """Yields where two values differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [d for key in one for d in differences(one[key], other[key], f"{path}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [d for i, pair in enumerate(zip(one, other)) for d in differences(*pair, f"{path}[{i}]")]
    return [] if one == other and isinstance(one, type(other)) else [f"{path}: {one!r} and {other!r}"]


def accepts(schema, value, definitions):
    if "$ref" in schema:
        return accepts(definitions[schema["$ref"].rpartition("/")[2]], value, definitions)
    if "enum" in schema or "const" in schema:
        return value in schema.get("enum", [schema.get("const")])
    if "anyOf" in schema:
        return any(accepts(part, value, definitions) for part in schema["anyOf"])
    if "allOf" in schema:
        return all(accepts(part, value, definitions) for part in schema["allOf"])
    return schema.get("type") == "string" and re.search(schema.get("pattern", ""), value) is not None


def texts(schema, value, defaults, definitions):
    """-> values in which every text of values.yaml that may be `value` is that."""
    found = {}
    for key, default in defaults.items():
        if key == "resources":  # the amounts in these maps are numbers and texts of Kubernetes
            continue
        part = schema["properties"].get(key, {})
        part = definitions[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        if isinstance(default, dict) and "properties" in part:
            found[key] = texts(part, value, default, definitions)
        elif isinstance(default, str) and accepts(part, value, definitions):
            found[key] = value
    return found


def without(values, paths, before=""):
    return {k: without(v, paths, f"{before}{k}.") if isinstance(v, dict) else v for k, v in values.items() if before + k not in paths}


def spelled(left_out, word):
    """Values that have the word wherever a user may write it: by the schema, and in lists and maps."""
    schema, defaults = json.loads(read("helm", "numoe", "values.schema.json")), yaml.safe_load(read("helm", "numoe", "values.yaml"))
    scalars = without(texts(schema, word, defaults, schema["$defs"]), LEFT_OUT | left_out)
    mapped, toleration = {"w": word, word: word}, [{"key": word, "value": word, "effect": "NoSchedule"}]
    place = {"nodeSelector": mapped, "tolerations": toleration}
    return chart.merged(scalars, {
        "labels": mapped, "annotations": mapped, "podAnnotations": mapped, **place, "image": {"pullSecrets": [{"name": word}]}, "global": {"imagePullSecrets": [word]},
        "remoteWorkers": place, "router": {**place, "flags": {"allowed-origins": word}}, "tests": place, "workers": {"extraEnv": [{"name": "W", "value": word}]},
        "inferencePool": {"picker": {**place, "flags": {"w": word}}}, "coordinator": {"extraEnv": [{"name": word if word[0].isalpha() else HARMLESS, "value": word}], "flags": {"w": word}},
        "dnsConfig": {"searches": [word]}, "hostAliases": [{"ip": "10.0.0.1", "hostnames": [word]}], "tls": {"dnsNames": [word], "certManager": {"issuerRef": {"name": word}}},
        "gateway": {"parentRefs": [{"name": word, "namespace": word}], "hostnames": [word]}, "persistence": {"annotations": mapped}, "serviceAccount": {"annotations": mapped},
        "service": {"type": "LoadBalancer", "annotations": mapped}, "ingress": {"annotations": mapped}, "metrics": {
            "monitors": {"labels": {"m": word}, "relabelings": [{"targetLabel": "w", "replacement": word}]}, "rules": {"labels": {"r": word}, "alertLabels": mapped},
            "dashboards": {"labels": {"d": word}}},
        "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}", "namespace": "{{ .Release.Namespace }}"}, "data": {"w": word}}]})


def release_of(word):
    """Values that name objects after the release; a name of theirs begins with a letter."""
    return {"fullnameOverride": word if word[0].isalpha() else HARMLESS}


class Strings(unittest.TestCase):
    """All readers read the same objects, whatever the release, its namespace and what it uses are called."""

    def compare(self, word, *values):
        def objects(of, reader):
            text = chart.template(*(v(of) if callable(v) else v for v in values), release_of(of), release=of, namespace=of, extra=())
            return [same_for_all(o, word) for o in yaml.load_all(text, reader) if o]
        for reader in READERS:
            found, expected = objects(word, reader), objects(HARMLESS, reader)
            self.assertEqual(differences(found, expected), [], f"{word} as {reader.__name__} reads it")

    def test_the_readers_see_what_is_not_quoted(self):
        for word in WORDS:
            self.assertTrue(any(not isinstance(yaml.load(word, reader), str) for reader in READERS), word)
        self.assertEqual([yaml.load(f'"{word}"', reader) for word in WORDS for reader in READERS], [word for word in WORDS for _ in READERS])

    def test_releases_of_every_values_file(self):
        for values in chart.VALUES:
            for word in ("on", "null", "1e3", "123"):
                with self.subTest(values=values, word=word):
                    self.compare(word, values)

    def test_a_release_gives_its_name_to_its_objects(self):
        for word in ("on", "null", "y"):
            objects = [o for reader in READERS for o in yaml.load_all(chart.template(PLAIN, release=word, namespace="no", extra=()), reader) if o]
            for o in objects:
                self.assertEqual((o["metadata"]["name"].split("-")[:2], o["metadata"]["namespace"]), ([word, "numoe"], "no"))
                self.assertEqual(o["metadata"]["labels"]["app.kubernetes.io/instance"], word)

    def test_everything_that_has_a_name(self):
        for name, (base, left_out) in RENDERINGS.items():
            for word in WORDS:
                with self.subTest(rendering=name, word=word):
                    self.compare(word, base, functools.partial(spelled, left_out))

    def test_sizes_that_are_texts(self):
        sizes = {"persistence": {"size": "20000000000"}, "sharedMemory": {"size": "1000000000"}, "coordinator": {"gpu": {"count": 1}, "heat": {"enabled": True, "size": "100000000"}}}
        objects = chart.render(PLAIN, sizes)
        claims = {o["metadata"]["name"]: o["spec"]["resources"]["requests"]["storage"] for o in objects if o["kind"] == "PersistentVolumeClaim"}
        self.assertEqual(claims, {"numoe-weights": "20000000000", "numoe-heat": "100000000"})
        volumes = chart.find(objects, "StatefulSet")["spec"]["template"]["spec"]["volumes"]
        self.assertEqual([v["emptyDir"]["sizeLimit"] for v in volumes if v["name"] == "shm"], ["1000000000"])

    def test_a_text_of_a_user_is_where_it_was_put(self):
        """The compared renderings contain the words, so the comparison leaves nothing out."""
        found = set()
        for base, left_out in RENDERINGS.values():
            for o in chart.render(base, spelled(left_out, "on"), release_of("on"), release="on", namespace="on", extra=()):
                found |= {path for path, value in leaves(o) if value == "on"}
        for field in ("metadata.name", "metadata.namespace", "metadata.labels.app.kubernetes.io/instance", "metadata.labels.app.kubernetes.io/name", "serviceAccountName",
                      "priorityClassName", "schedulerName", "runtimeClassName", "claimName", "storageClassName", "secretName", "imagePullSecrets.name", "hostnames", "host",
                      "hosts", "ingressClassName", "loadBalancerClass", "matchLabels.app.kubernetes.io/instance", "secretKeyRef.name", "secretKeyRef.key",
                      "endpointPickerRef.name", "backendRefs.name", "authenticationRef.name", "scaleTargetRef.name", "replacement", "issuerRef.name", "commonName",
                      "service.name", "subjects.namespace", "dnsNames", "nodeSelector.on", "tolerations.key", "annotations.on", "env.value"):
            self.assertTrue([p for p in found if p == field or p.endswith(f".{field}")], f"no {field} is compared")


def leaves(value, path=""):
    """Yields (path without indices of lists, value) of every string."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, path)
    elif isinstance(value, str):
        yield path, value


class CutNames(unittest.TestCase):
    BEGINNING = "a-release-with-a-name-as-long-as-helm-pe"  # 40 characters
    LONG = f"{BEGINNING}rmits-it-1", f"{BEGINNING}rmits-it-2"

    def name(self, release="numoe", **values):
        return chart.find(chart.render(PLAIN, values, release=release), "StatefulSet")["metadata"]["name"]

    def objects(self, release, **values):
        """(kind, name) of each rendering's objects."""
        return [{(o["kind"], o["metadata"]["name"]) for o in chart.render(base, values, release=release, extra=()) if not o["metadata"]["name"].endswith("-extra")}
                for base in (chart.EVERYTHING, RENDERINGS["groups"][0])]

    def test_what_has_room_is_not_cut(self):
        """An upgrade renames no object."""
        self.assertEqual(len(self.BEGINNING), 40)
        for release, values, expected in (("llm", {}, "llm-numoe"), ("numoe", {}, "numoe"), ("a-numoe-b", {}, "a-numoe-b"), ("llm", {"nameOverride": "moe"}, "llm-moe"),
                                          ("llm", {"fullnameOverride": self.BEGINNING}, self.BEGINNING), ("l" * 34, {}, "l" * 34 + "-numoe"),
                                          (self.BEGINNING, {"nameOverride": "as-long"}, self.BEGINNING)):
            self.assertEqual(self.name(release, **values), expected)

    def test_a_cut_name_ends_in_a_hash_of_the_whole(self):
        for release, values in ((self.LONG[0], {}), ("l" * 35, {}), ("llm", {"fullnameOverride": "f" * 41}), ("llm", {"nameOverride": "n" * 37}),
                                ("l" * 31 + "-" * 8 + "-and-more", {}), ("l" * 30 + "--and-something-more", {})):
            name = self.name(release, **values)
            self.assertRegex(name, "^[a-z]([-a-z0-9]*[a-z0-9])?$")
            self.assertRegex(name, "^.*[a-z0-9]-[0-9a-f]{8}$")
            self.assertLessEqual(len(name), 40)
            self.assertTrue(values.get("fullnameOverride", release).startswith(name[:20]) or "nameOverride" in values)

    def test_two_releases_have_no_object_in_common(self):
        for pair in (({"release": self.LONG[0]}, {"release": self.LONG[1]}), ({"release": self.LONG[0]}, {"release": "llm", "fullnameOverride": self.LONG[1]}),
                     ({"release": self.BEGINNING, "fullnameOverride": self.BEGINNING}, {"release": self.LONG[0]}),
                     ({"release": "llm", "nameOverride": "n" * 50}, {"release": "llm", "nameOverride": "n" * 51})):
            one, other = (self.objects(**values) for values in pair)
            for ours, theirs in zip(one, other):
                self.assertEqual(ours & theirs, set(), pair)
                self.assertEqual(len(ours), len(theirs))

    def test_labels_that_are_cut(self):
        found = set()
        for end in "12":
            for o in chart.render(PLAIN, {"fullnameOverride": "x", "nameOverride": "n" * 53 + "." + "n" * 9 + end}):
                label = o["metadata"]["labels"]["app.kubernetes.io/name"]
                self.assertRegex(label, "^[A-Za-z0-9][-._A-Za-z0-9]{0,61}[A-Za-z0-9]$")
                found.add(label)
        self.assertEqual(len(found), 2)

    def test_what_is_added_to_a_name_has_room(self):
        """Labels and DNS names have at most 63 characters; a StatefulSet's pods need 11 of them for a hash, and a group's pods as many for two numbers."""
        for objects in self.objects(self.LONG[0], remoteWorkers={"replicas": 20}, autoscaling={"enabled": True, "maxReplicas": 20}, router={"enabled": False}, coordinator={"gpu": {"count": 1}}):
            for kind, name in objects:
                self.assertLessEqual(len(name), {"StatefulSet": 52, "LeaderWorkerSet": 46}.get(kind, 63), (kind, name))
                self.assertRegex(name, "^[a-z]([-a-z0-9]*[a-z0-9])?$", kind)

    def test_every_cut_ends_in_a_hash(self):
        """A template that shortened a name in another way would give two releases the same name."""
        for folder, _, files in os.walk(os.path.join(chart.CHART, "templates")):
            for file in files:
                for line in read(folder, file).splitlines():
                    if re.search(r"\btrunc\b", line):
                        self.assertRegex(line, "sha256sum|trunc 8 .Values.model.revision", file)

    def test_dashboards_of_all_namespaces_are_in_one_folder(self):
        """When two names are joined, it is clear where the first ends."""
        def file(release, namespace):
            objects = chart.render(PLAIN, {"metrics": {"dashboards": {"enabled": True}}}, release=release, namespace=namespace)
            return next(name for o in objects if o["kind"] == "ConfigMap" for name in o["data"] if name.endswith(".json"))
        self.assertNotEqual(file("numoe", "llm-prod"), file("numoe-llm", "prod"))


if __name__ == "__main__":
    unittest.main()
