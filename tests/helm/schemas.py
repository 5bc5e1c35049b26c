#!/usr/bin/env python3
"""Validates everything that the chart renders against the schemas of three Kubernetes versions, strictly.

kubectl-validate contains those of 1.30, the oldest version that the chart supports. For the other versions KUBERNETES_MODULES names a
folder with the published modules (run.sh downloads them), whose OpenAPI documents are arranged as kubectl-validate needs them. Kinds of
KEDA, the Prometheus operator, cert-manager and LeaderWorkerSets are validated against their CustomResourceDefinitions in OPERATOR_CRDS.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

import chart
import test_refusals

CRDS = os.environ.get("OPERATOR_CRDS", "")
# For each kind a change that makes an object invalid: an unknown field, or a value of the wrong type.
WRONG = {"ScaledObject": {"spec": {"triggers": [{"type": 7, "metadata": {}}]}}, "ServiceMonitor": {"spec": {"endpoint": []}},
         "PodMonitor": {"spec": {"podMetricsEndpoints": [{"interval": "soon"}]}}, "PrometheusRule": {"spec": {"groups": [{"rules": []}]}},
         "HTTPRoute": {"spec": {"rules": [{"backendRefs": [{"port": 80}]}]}}, "InferencePool": {"spec": {"targetPorts": []}},
         "LeaderWorkerSet": {"spec": {"leaderWorkerTemplate": {"restartPolicy": "Never"}}},
         "Certificate": {"spec": {"dnsName": ["x"]}}, "Issuer": {"spec": {"selfSigned": 7}}}
VALIDATE = os.environ.get("KUBECTL_VALIDATE", "kubectl-validate")
OLDEST = "1.30"
OF_GATEWAYS = ("gateway.networking.k8s.io", "inference.networking.k8s.io")  # these have their own CustomResourceDefinitions
VARIANTS = {
    "everything": (chart.EVERYTHING,),
    "supervised": (test_refusals.PLAIN, {"workers": {"mode": "supervised", "count": 6}}),
    "shared workers, hpa": (test_refusals.PLAIN, chart.merged(test_refusals.REMOTE, {
        "workers": {"count": 0}, "autoscaling": {"enabled": True, "kind": "hpa"}})),
    "keda": (test_refusals.PLAIN, chart.merged(test_refusals.REMOTE, {"workers": {"count": 0}, "autoscaling": {"enabled": True}})),
    "groups": (chart.EVERYTHING, {"remoteWorkers": {"leaderWorkerSet": {"enabled": True}}, "autoscaling": {"enabled": True}, "metrics": {"rules": {"enabled": False}}}),
    "a pool behind a gateway": (test_refusals.PLAIN, {
        "persistence": {"accessModes": ["ReadWriteMany"]}, "coordinator": {"gpu": {"count": 2}}, "autoscaling": {"enabled": True, "authentication": {"name": "a"}},
        "inferencePool": {"enabled": True}, "gateway": {"enabled": True, "parentRefs": [{"name": "public", "namespace": "gateways"}], "hostnames": ["llm.example.com"]}}),
    "a gateway": (test_refusals.PLAIN, {"gateway": {"enabled": True, "parentRefs": [{"name": "public"}]}}),
    "surroundings": (test_refusals.PLAIN, {
        "schedulerName": "topology", "dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.10"], "options": [{"name": "ndots", "value": "2"}]},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["mirror"]}], "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}], "extraContainers": [{"name": "log", "image": "log:1"}], "annotations": {"owner": "team"},
        "podSecurity": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}, "persistence": {"storageClass": "-"},
        "coordinator": {"gpu": {"count": 1}, "heat": {"enabled": True}},
        "service": {"type": "LoadBalancer", "loadBalancerClass": "example.com/fast", "loadBalancerSourceRanges": ["10.0.0.0/8"], "externalTrafficPolicy": "Local",
                    "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"], "nodePort": 30080}}),
    "huge pages": ("values-k2-thinking-1gpu.yaml", {"workers": {"hugepages": "1G", "resources": {"limits": {"memory": "2Gi"}}}}),
    "router": (test_refusals.PLAIN, {"persistence": {"accessModes": ["ReadWriteMany"]}, "replicas": 2, "router": {"enabled": True},
                                     "networkPolicy": {"apiFrom": [{"podSelector": {}}], "metricsFrom": [{"namespaceSelector": {}}]}}),
    "router, scaled hosts of two GPUs": (test_refusals.PLAIN, {
        "persistence": {"accessModes": ["ReadWriteMany"]}, "router": {"enabled": True}, "autoscaling": {"enabled": True},
        "coordinator": {"gpu": {"count": 2}}, "metrics": {"monitors": {"enabled": True}}}),
    "host path": (test_refusals.PLAIN, {"persistence": {"mode": "hostPath", "hostPath": "/data"}, "podAntiAffinity": "preferred"}),
    **{values: (values,) for values in chart.VALUES},
}


def foreign(o):
    """Whether the kind is not one of Kubernetes itself."""
    group = o["apiVersion"].rpartition("/")[0]
    return "." in group and (not group.endswith(".k8s.io") or group.endswith(".x-k8s.io") or group in OF_GATEWAYS)


def lay_out(module, folder):
    """Arranges the OpenAPI documents of a kubernetes module as FOLDER/apis/GROUP/VERSION.json."""
    for path in glob.glob(f"{module}/api/openapi-spec/v3/api*__*_openapi.json"):
        parts = os.path.basename(path).removesuffix("_openapi.json").split("__")
        if parts[0] == "apis" and len(parts) < 3:  # this document only lists the group's versions
            continue
        target = os.path.join(folder, *parts) + ".json"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(path, target)


def check(files, schemas, crds=""):
    local = (["--local-schemas", schemas] if schemas else []) + (["--local-crds", crds] if crds else [])
    done = subprocess.run([VALIDATE, "--version", OLDEST, *local, *files], capture_output=True, text=True, check=False,
                          env={**os.environ, "KUBECONFIG": os.devnull})
    return done.returncode == 0, done.stdout + done.stderr


def check_operators(objects, folder):
    """-> (how many of these objects were validated, what is wrong): every object must be valid, and each kind must be refused after its wrong change."""
    known = set()
    for path in glob.glob(f"{CRDS}/*.yaml"):
        with open(path, encoding="utf-8") as f:
            known.update(re.findall(r"^    kind: (\w+)$", f.read(), re.MULTILINE))  # the kind in spec.names
    checked = [o for o in objects if o["kind"] in known]
    wrong = []

    def validate(name, which):
        path = os.path.join(folder, name + ".yaml")
        with open(path, "w", encoding="utf-8") as f:
            yaml.safe_dump_all(which, f)
        return check([path], None, CRDS)
    if checked:
        good, said = validate("operators", checked)
        wrong += [] if good else [said]
    for kind in sorted({o["kind"] for o in checked}):
        one = next(o for o in checked if o["kind"] == kind)
        if validate("wrong-" + kind, [chart.merged(one, WRONG[kind])])[0]:
            wrong.append(f"a wrong {kind} is not seen")
    return checked, wrong


def write(folder):
    """Writes a file for each variant; returns the objects of other programs' kinds."""
    files, others, count = [], [], 0
    for name, values in VARIANTS.items():
        objects = chart.render(*values, extra=())
        others += [o for o in objects if foreign(o)]
        native = [o for o in objects if not foreign(o)]
        count += len(native)
        files.append(os.path.join(folder, f"{name.replace(' ', '-')}.yaml"))
        with open(files[-1], "w", encoding="utf-8") as f:
            yaml.safe_dump_all(native, f)
    # Written as the text that Helm prints, because our YAML writer would quote what Helm did not quote.
    files.append(os.path.join(folder, "a-release-called-on.yaml"))
    text = chart.template("values-cpu-only.yaml", release="on", namespace="null", extra=())
    with open(files[-1], "w", encoding="utf-8") as f:
        f.write(text)
    return files, others, count + len(re.findall("^kind:", text, re.MULTILINE))


def main():
    modules = sorted(glob.glob(os.path.join(os.environ.get("KUBERNETES_MODULES", os.devnull), "kubernetes@v*")))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        files, others, count = write(folder)
        for module in [None, *modules]:
            version = module.rpartition("@v")[2] if module else OLDEST
            schemas = None
            if module:
                schemas = os.path.join(folder, version)
                lay_out(module, schemas)
            good, said = check(files, schemas)
            print(f"{'ok    ' if good else 'FAILED'} {count} objects of {len(files)} renderings against Kubernetes {version}")
            if not good:
                failed += 1
                print(said)
        # A validator that accepts this file would prove nothing.
        bad = os.path.join(folder, "bad.yaml")
        with open(bad, "w", encoding="utf-8") as f:
            f.write("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x}\nspec: {serviceNam: y, replicas: many}\n")
        good, said = check([bad], schemas)
        if good or "serviceNam" not in said:
            failed += 1
            print(f"FAILED the validator does not see an unknown field:\n{said}")
        checked, wrong = check_operators(others, folder)
        if checked:
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok    '} {len(checked)} objects of operators against their CustomResourceDefinitions")
            print("".join(wrong), end="")
    left = [o["kind"] for o in others if o not in checked]
    if left:
        print(f"not validated here: {', '.join(f'{left.count(kind)} {kind}' for kind in sorted(set(left)))}")
    print(f"{1 + len(modules) + bool(checked) - failed} passed, {failed} failed")
    return 1 if failed or len(modules) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
