"""What the chart renders for every values file, and for choices that no values file makes."""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import chart
import test_refusals
import test_remote

PLAIN, DOWNLOAD, REMOTE = test_refusals.PLAIN, test_refusals.DOWNLOAD, test_refusals.REMOTE
ALL = [(v,) for v in chart.VALUES] + [(chart.EVERYTHING,)]
MODELS = [v for v in chart.VALUES if v != "values-nano.yaml"]
GIB = 1024


def with_tests(*values):
    return chart.render(*values, extra=())


def mib(text):
    number, unit = re.fullmatch(r"([0-9.]+)([KMGT]i)", str(text)).groups()
    return float(number) * {"Ki": 1 / 1024, "Mi": 1, "Gi": GIB, "Ti": GIB * 1024}[unit]


def leaves(value):
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    else:
        yield value


class EveryValuesFile(unittest.TestCase):
    def each(self):
        return [with_tests(*values) for values in ALL]

    def test_the_five_are_there(self):
        self.assertEqual(chart.VALUES, ["values-cpu-only.yaml", "values-k2-thinking-1gpu.yaml", "values-k2.5-2gpu.yaml",
                                        "values-nano.yaml", "values-qwen3-30b-4090.yaml"])

    def test_pods_are_restricted(self):
        """Pod Security "restricted", read-only root, no token, and no NUMOE_PORT from a Service called numoe."""
        for objects in self.each():
            for owner, spec in chart.pod_specs(objects):
                where = owner["metadata"]["name"]
                self.assertIs(spec["automountServiceAccountToken"], False, where)
                self.assertIs(spec["enableServiceLinks"], False, where)
                self.assertNotIn("initContainers", spec, "an init container breaks NUMA admission")
                for key in ("hostNetwork", "hostIPC", "hostPID"):
                    self.assertNotIn(key, spec)
                self.assertTrue(spec["securityContext"]["runAsNonRoot"])
                self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                for c in spec["containers"]:
                    security = c["securityContext"]
                    self.assertEqual((security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"],
                                      security["capabilities"]), (False, True, {"drop": ["ALL"]}), where)
                    self.assertTrue(c["resources"].get("limits", {}).get("memory"), f"{where}: {c['name']} has no memory limit")
                for volume in spec.get("volumes", []):
                    self.assertNotIn("hostPath", volume)
        self.assertIs(chart.find(objects, "ServiceAccount")["automountServiceAccountToken"], False)

    def test_no_two_objects_of_a_name_and_nothing_null(self):
        for objects in self.each():
            names = [(o["kind"], o["metadata"]["name"]) for o in objects]
            self.assertEqual(len(names), len(set(names)))
            for o in objects:
                self.assertNotIn(None, leaves(o), o["metadata"]["name"])
                if o["metadata"]["name"] != "numoe-extra":
                    self.assertEqual(o["metadata"]["namespace"], "numoe")
                    self.assertEqual(o["metadata"]["labels"]["app.kubernetes.io/instance"], "numoe")

    def test_selectors_find_the_pods(self):
        for objects in self.each():
            hosts = chart.find(objects, "StatefulSet", "numoe")
            labels = hosts["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(hosts["spec"]["selector"]["matchLabels"].items() & labels.items(),
                             hosts["spec"]["selector"]["matchLabels"].items())
            service = chart.find(objects, "Service", hosts["spec"]["serviceName"])
            self.assertEqual(service["spec"]["clusterIP"], "None")
            front = chart.find(objects, "Deployment") if "Deployment" in chart.kinds(objects) else hosts
            self.assertEqual(chart.find(objects, "Service", "numoe")["spec"]["selector"], front["spec"]["selector"]["matchLabels"])
            ports = {p["name"] for c in hosts["spec"]["template"]["spec"]["containers"] for p in c["ports"]}
            self.assertTrue(all(len(p) <= 15 for p in ports), ports)

    def test_mounts_have_volumes(self):
        for objects in self.each():
            for owner, spec in chart.pod_specs(objects):
                volumes = {v["name"] for v in spec.get("volumes", [])}
                used = {m["name"] for c in spec["containers"] for m in c.get("volumeMounts", [])}
                self.assertEqual(volumes, used, owner["metadata"]["name"])

    def test_workers_are_the_coordinators(self):
        """Every address in --workers is the address of a worker, and the slices are 0 to N - 1, each once."""
        for values in chart.VALUES:
            with self.subTest(values):
                hosts = chart.find(chart.render(values), "StatefulSet", "numoe")
                addresses = chart.flags(chart.container(hosts, "coordinator"))["workers"].split(",")
                workers = [chart.flags(c) for c in chart.workers(hosts)]
                self.assertEqual([int(w["worker-index"]) for w in workers], list(range(len(addresses))))
                self.assertEqual({w["worker-count"] for w in workers}, {str(len(addresses))})
                self.assertEqual(addresses, [w["listen"] for w in workers])

    def test_probes_fit_the_ports(self):
        for objects in self.each():
            for c in chart.find(objects, "StatefulSet", "numoe")["spec"]["template"]["spec"]["containers"]:
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    if c["name"].startswith("coordinator"):
                        self.assertEqual(c[probe]["httpGet"]["port"], c["ports"][0]["name"])
                        self.assertEqual(str(c["ports"][0]["containerPort"]), chart.flags(c)["port"])
                        self.assertEqual(c[probe]["httpGet"]["path"], "/live" if probe == "livenessProbe" else "/health")
                    else:
                        self.assertEqual(str(c[probe]["grpc"]["port"]), chart.flags(c)["health-listen"].rsplit(":", 1)[1])

    def test_all_flags_exist(self):
        """The programs of this tree know every flag; skips programs that are not built."""
        folder = os.environ.get("NUMOE_BIN", os.path.join(chart.ROOT, "build", "release", "bin"))
        programs = {p: subprocess.run([f"{folder}/{p}", "--help"], capture_output=True, text=True, check=True).stdout
                    for p in ("numoe-coordinator", "numoe-expert-worker", "numoe-router") if os.path.exists(f"{folder}/{p}")}
        if not programs:
            self.skipTest(f"not built: there are no programs in {folder}")
        script = os.path.join(chart.ROOT, "deploy", "download", "numoe-download")
        programs["numoe-download"] = subprocess.run(["bash", script, "--help"], capture_output=True, text=True, check=True).stdout
        for objects in self.each():
            for _, spec in chart.pod_specs(objects):
                for c in spec["containers"]:
                    known = programs.get(c["command"][-1]) if "args" in c else None
                    for flag in set(chart.flags(c)) if known else ():
                        self.assertRegex(known, rf"--{flag}\b", f"{c['command'][-1]} has no --{flag}")


class Numbers(unittest.TestCase):
    def test_memory_holds_the_slices(self):
        for values in MODELS:
            with self.subTest(values):
                hosts = chart.find(chart.render(values), "StatefulSet", "numoe")
                workers = chart.workers(hosts)
                experts = {"values-qwen3-30b-4090.yaml": 48 * 128 * 3 * 2048 * 768 * (1 + 2 / 32)}.get(
                    values, 60 * 384 * 3 * 7168 * 2048 * (0.5 + 2 / 32)) / 2**20
                self.assertGreater(sum(mib(c["resources"]["limits"]["memory"]) for c in workers), experts * 1.001)

    def test_startup_budget_follows_from_the_size(self):
        def periods(**changes):
            c = chart.container(chart.find(chart.render(chart.merged(DOWNLOAD, changes)), "StatefulSet", "numoe"), "coordinator")
            return c["startupProbe"]["failureThreshold"] * c["startupProbe"]["periodSeconds"]
        # 100 GiB at 50 MiB/s and at 250 MiB/s, and 600 s.
        self.assertEqual(periods(model={"sizeGiB": 100}), 2050 + 410 + 600)
        self.assertEqual(periods(model={"sizeGiB": 100}, download={"enabled": False}, persistence={"size": "1Ti"}), 410 + 600)
        self.assertEqual(periods(model={"sizeGiB": 100}, pack={"enabled": True}), 2050 + 3 * 410 + 600 + 0)

    def test_a_start_is_seen_at_once_within_the_same_budget(self):
        """A server that was probed too early is probed again within 2 s, also with the time budget of a large model."""
        for objects in (chart.render(PLAIN), chart.render(chart.merged(DOWNLOAD, {"model": {"sizeGiB": 554}}))):
            containers = chart.find(objects, "StatefulSet", "numoe")["spec"]["template"]["spec"]["containers"]
            budgets = {c["startupProbe"]["failureThreshold"] * c["startupProbe"]["periodSeconds"] for c in containers}
            self.assertEqual(len(budgets), 1, "a worker and its coordinator start together")
            for c in containers:
                self.assertLessEqual(c["startupProbe"]["periodSeconds"], 2, c["name"])

    def test_who_hangs_is_not_given_the_pods_grace(self):
        """The kill after a failed liveness probe does not wait for the pod's grace period, which is for requests that finish and may be hours."""
        servers = 0
        for o, spec in chart.pod_specs(chart.render(chart.EVERYTHING)):
            for c in spec["containers"]:
                if "livenessProbe" in c:
                    servers += 1
                    self.assertEqual(c["livenessProbe"]["terminationGracePeriodSeconds"], 5, (o["metadata"]["name"], c["name"]))
        self.assertGreaterEqual(servers, 6, "a coordinator, local and remote workers, a router")

    def test_shared_memory_is_that_of_the_mailboxes(self):
        volumes = chart.find(chart.render(PLAIN), "StatefulSet", "numoe")["spec"]["template"]["spec"]["volumes"]
        size = next(v for v in volumes if v["name"] == "shm")["emptyDir"]["sizeLimit"]
        self.assertEqual(mib(size), 2 * 2 * 8192 * 7168 * 4 / 2**20 * 1.25)

    def test_claim_has_room(self):
        claim = chart.find(chart.render(chart.merged(DOWNLOAD, {"model": {"sizeGiB": 554}})), "PersistentVolumeClaim")
        self.assertEqual(claim["spec"]["resources"]["requests"]["storage"], "638Gi")
        self.assertEqual(claim["metadata"]["annotations"]["helm.sh/resource-policy"], "keep")

    def test_grace_is_longer_than_what_it_is_for(self):
        """Every worker, also one of another host, serves for longer than the coordinators drain (deploy/DRAIN.md)."""
        slow = {"coordinator": {"drainSeconds": 600, "preStopSeconds": 30}}
        grouped = chart.merged(test_remote.TWO_HOSTS, {"remoteWorkers": {"leaderWorkerSet": {"enabled": True}}})
        for values in (*ALL, (chart.merged(PLAIN, slow),), (chart.merged(test_remote.TWO_HOSTS, slow),), (grouped,)):
            pods = [spec for _, spec in chart.pod_specs(chart.render(*values)) if spec["containers"][0]["command"][-1] in ("numoe-coordinator", "numoe-expert-worker")]
            ends = {"numoe-coordinator": [], "numoe-expert-worker": []}
            for spec in pods:
                for c in spec["containers"]:
                    drain, before = int(chart.flags(c)["drain-timeout-ms"]) / 1000, c["lifecycle"]["preStop"]["sleep"]["seconds"]
                    ends[c["command"][-1]].append((drain, before))
                    self.assertLess(before + drain + 10, spec["terminationGracePeriodSeconds"])
            (coordinators,), (workers,) = set(ends["numoe-coordinator"]), set(ends["numoe-expert-worker"])
            self.assertEqual(coordinators[1], workers[1], "all are told to end at the same time")
            self.assertGreaterEqual(workers[0], coordinators[0] + 5)


class Workers(unittest.TestCase):
    def test_pinned_workers_know_their_own_cpus(self):
        hosts = chart.find(chart.render(chart.EVERYTHING), "StatefulSet", "numoe")
        workers = [chart.flags(chart.container(hosts, w)) for w in ("worker-0", "worker-1")]
        self.assertEqual([w["exclusive-cpus"] for w in workers], ["28", "30"])
        self.assertEqual([w["threads"] for w in workers], ["0", "0"], "one for each core: hyperthreads are CPUs of the cluster, too")
        asked = chart.find(chart.render({**chart.EVERYTHING, "workers": {**chart.EVERYTHING["workers"], "threads": 12}}), "StatefulSet", "numoe")
        self.assertEqual(chart.flags(chart.container(asked, "worker-0"))["threads"], "12")

    def test_pinned_pods_are_guaranteed(self):
        for values in chart.VALUES:
            hosts = chart.find(chart.render(values), "StatefulSet", "numoe")
            for c in hosts["spec"]["template"]["spec"]["containers"]:
                if chart.find(chart.render(values), "StatefulSet") and values in ("values-nano.yaml", "values-qwen3-30b-4090.yaml"):
                    self.assertNotIn("cpu", c["resources"]["limits"], "a limit without pinning is a quota")
                else:
                    self.assertEqual(c["resources"].get("requests", c["resources"]["limits"]), c["resources"]["limits"])

    def test_supervised_host(self):
        hosts = chart.find(chart.render(PLAIN, {"workers": {"mode": "supervised", "count": 6}}), "StatefulSet", "numoe")
        self.assertEqual([c["name"] for c in hosts["spec"]["template"]["spec"]["containers"]], ["coordinator", "workers"])
        workers = chart.flags(chart.container(hosts, "workers"))
        self.assertEqual((workers["supervise"], workers["local-workers"], workers["worker-count"]), (True, "6", "6"))
        self.assertNotIn("worker-index", workers)
        self.assertEqual(workers["listen"], "unix:/run/numoe")
        self.assertEqual(chart.flags(chart.container(hosts, "coordinator"))["workers"],
                         ",".join(f"unix:/run/numoe/worker-{i}.sock" for i in range(6)))
        ports = {p["name"]: p["containerPort"] for p in chart.container(hosts, "workers")["ports"]}
        self.assertEqual(ports["metrics-w5"], 9095)

    def test_whole_cpus_are_a_promise_without_pinning_too(self):
        """The kubelet's static policy gives them to a single container, which does not share them."""
        for cpu, request, promised in ((8, 8, "8"), ("8", None, "8"), (8, 4, None), ("7500m", "7500m", None)):
            resources = {"limits": {"cpu": cpu, "memory": "8Gi"}, "requests": {"memory": "8Gi"}}
            if request is not None:
                resources["requests"]["cpu"] = request
            objects = chart.render(PLAIN, {"pinning": "none", "workers": {"resources": resources}})
            for c in chart.workers(chart.find(objects, "StatefulSet", "numoe")):
                self.assertEqual(chart.flags(c).get("exclusive-cpus"), promised, (cpu, request))


class HugePages(unittest.TestCase):
    def workers(self, values):
        hosts = chart.find(chart.render("values-k2-thinking-1gpu.yaml", values), "StatefulSet", "numoe")
        return chart.workers(hosts)

    def test_none_unless_they_are_wanted(self):
        for c in self.workers({}):
            self.assertNotIn("hugepages", chart.flags(c))
            self.assertEqual(set(c["resources"]["limits"]), {"cpu", "memory"})

    def test_the_slices_are_in_them_and_not_in_the_memory(self):
        small = {"resources": {"limits": {"memory": "2Gi"}}}
        for size, slice_pages, resource in (("1G", "267Gi", "hugepages-1Gi"), ("2M", "272640Mi", "hugepages-2Mi")):
            for c in self.workers({"workers": {"hugepages": size, **small}}):
                self.assertEqual(chart.flags(c)["hugepages"], size)
                self.assertEqual(c["resources"], {"limits": {"cpu": 48, "memory": "2Gi", resource: slice_pages}})

    def test_a_supervised_container_has_those_of_all_its_workers(self):
        (c,) = self.workers({"pinning": "none", "workers": {"mode": "supervised", "hugepages": "1G"}})
        self.assertEqual(c["resources"]["limits"]["hugepages-1Gi"], "534Gi")

    def test_remote_workers_have_them_too(self):
        objects = chart.render(PLAIN, chart.merged(REMOTE, {
            "model": {"expertsGiB": 8}, "workers": {"hugepages": "2M", "resources": {"limits": {"memory": "2Gi"}}},
            "remoteWorkers": {"resources": {"limits": {"memory": "2Gi"}}}}))
        remote = chart.find(objects, "StatefulSet", "numoe-workers-0")
        for c in remote["spec"]["template"]["spec"]["containers"]:
            self.assertEqual(c["resources"]["limits"], {"memory": "2Gi", "hugepages-2Mi": "2304Mi"})


class ShareExperts(unittest.TestCase):
    SHARED = {"workers": {"shareExperts": True}, "coordinator": {"flags": {"gpu-prefill-token-threshold": "auto"}}}

    def test_workers_share_what_the_coordinator_fetches(self):
        pod = chart.find(chart.render("values-k2-thinking-1gpu.yaml", self.SHARED), "StatefulSet", "numoe")["spec"]["template"]["spec"]
        for c in pod["containers"]:
            self.assertEqual("share-experts" in chart.flags(c), c["name"] != "coordinator", c["name"])
        (coordinator,) = (c for c in pod["containers"] if c["name"] == "coordinator")
        self.assertEqual(chart.flags(coordinator)["gpu-prefill-token-threshold"], "auto")
        pod = chart.find(chart.render("values-k2-thinking-1gpu.yaml", {}), "StatefulSet", "numoe")["spec"]["template"]["spec"]
        self.assertFalse([c for c in pod["containers"] if "share-experts" in chart.flags(c)])

    def test_reserved_pages_need_no_tables(self):
        """With pages of 4 KiB the page tables of a slice count (test_refusals); with huge pages they do not."""
        chart.render("values-k2-thinking-1gpu.yaml", chart.merged(self.SHARED, {
            "workers": {"hugepages": "1G", "resources": {"limits": {"memory": "1472Mi"}}}}))


class Storage(unittest.TestCase):
    def weights(self, *values):
        objects = chart.render(*values)
        volumes = chart.find(objects, "StatefulSet", "numoe")["spec"]["template"]["spec"]["volumes"]
        return objects, next((v for v in volumes if v["name"] == "weights"), None)

    def test_a_download_is_of_a_commit(self):
        for values in MODELS:
            job = next(o for o in chart.render(values) if o["kind"] == "Job")
            revision = chart.flags(job["spec"]["template"]["spec"]["containers"][0])["revision"]
            self.assertRegex(revision, "^[0-9a-f]{40}$", values)
            path = chart.flags(chart.container(chart.find(chart.render(values), "StatefulSet", "numoe"), "coordinator"))["model"]
            self.assertTrue(path.endswith("-" + revision[:8]), path)

    def test_a_volume_that_a_job_fills_is_writable_for_whoever_mounts_it_first(self):
        """Local volumes get their group from the first pod, which may be the pod of a host; the mount decides what a container may write."""
        jobs = ({"download": {"enabled": True}, "model": {"repository": "org/name", "revision": "main"}}, {"pack": {"enabled": True}})
        for changes in jobs:
            for o, spec in chart.pod_specs(self.weights(PLAIN, changes)[0]):
                claim = next(v for v in spec["volumes"] if v["name"] == "weights")["persistentVolumeClaim"]
                self.assertFalse(claim["readOnly"], o["metadata"]["name"])
                mounts = [m for c in spec["containers"] for m in c["volumeMounts"] if m["name"] == "weights"]
                self.assertEqual({m["readOnly"] for m in mounts}, {o["kind"] != "Job"}, o["metadata"]["name"])

    def test_modes(self):
        objects, volume = self.weights(PLAIN)
        self.assertEqual(volume["persistentVolumeClaim"], {"claimName": "numoe-weights", "readOnly": True})
        self.assertIn("PersistentVolumeClaim", chart.kinds(objects))
        objects, volume = self.weights(PLAIN, {"persistence": {"mode": "existing", "existingClaim": "nfs"}})
        self.assertEqual(volume["persistentVolumeClaim"]["claimName"], "nfs")
        self.assertNotIn("PersistentVolumeClaim", chart.kinds(objects))
        _, volume = self.weights(PLAIN, {"persistence": {"mode": "hostPath", "hostPath": "/data"}})
        self.assertEqual(volume["hostPath"], {"path": "/data", "type": "Directory"})
        _, volume = self.weights("values-nano.yaml")
        self.assertIsNone(volume)

    def test_servers_wait_for_the_download(self):
        hosts = chart.find(chart.render(DOWNLOAD), "StatefulSet", "numoe")
        for c in hosts["spec"]["template"]["spec"]["containers"]:
            env = {e["name"]: e["value"] for e in c["env"]}
            self.assertEqual(env, {"WAIT_FOR": "/models/name/READY", "WAIT_MIB": "10240"})
            self.assertEqual(chart.flags(c)["model"], "/models/name")

    def test_a_jobs_name_follows_from_its_content(self):
        def name(**changes):
            return chart.find(chart.render(chart.merged(DOWNLOAD, changes)), "Job")["metadata"]["name"]
        self.assertEqual(name(), name(replicas=1, coordinator={"drainSeconds": 77}))
        names = {name(), name(model={"revision": "v2"}), name(image={"tag": "2"}), name(download={"stallSeconds": 9})}
        self.assertEqual(len(names), 4)

    def test_jobs_follow_the_host_to_a_volume_of_one_node(self):
        """A host on another node would have the volume and wait for the Job, which would wait for the volume."""
        existing = {"persistence": {"mode": "existing", "existingClaim": "c"}}
        many = {"persistence": {"accessModes": ["ReadWriteMany"]}}
        terms = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
        for changes, beside in (({}, True), (existing, True), ({"persistence": {**existing["persistence"], **many["persistence"]}}, False), ({"persistence": {"mode": "hostPath", "hostPath": "/data"}}, True), (many, False),
                                ({**existing, "replicas": 2}, False), ({"affinity": terms}, True)):
            objects = chart.render(chart.merged(DOWNLOAD, {"pack": {"enabled": True}}), changes)
            hosts = chart.find(objects, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
            jobs = [spec for o, spec in chart.pod_specs(objects) if o["kind"] == "Job"]
            self.assertEqual(len(jobs), 2)
            for spec in jobs:
                required = spec.get("affinity", {}).get("podAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
                self.assertEqual(required[:-1], [{"topologyKey": "zone"}] if "affinity" in changes else [], changes)
                self.assertEqual([(term["topologyKey"], chart.matches(term["labelSelector"], hosts)) for term in required[-1:]],
                                 [("kubernetes.io/hostname", True)] if beside else [], changes)

    def test_a_commit_has_its_own_directory(self):
        values = chart.merged(DOWNLOAD, {"model": {"revision": "0123456789abcdef0123456789abcdef01234567"}})
        job = chart.find(chart.render(values), "Job")
        self.assertEqual(chart.flags(job["spec"]["template"]["spec"]["containers"][0])["to"], "/models/name-01234567")

    def test_the_token_is_a_file_of_a_secret(self):
        job = next(o for o in chart.render(chart.EVERYTHING) if o["kind"] == "Job" and "download" in o["metadata"]["name"])
        c = job["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(chart.flags(c)["token-file"], "/etc/numoe/token/token")
        self.assertNotIn("env", c)

    def test_pack(self):
        objects = chart.render(chart.EVERYTHING)
        pack = next(o for o in objects if o["kind"] == "Job" and "pack" in o["metadata"]["name"])
        c = pack["spec"]["template"]["spec"]["containers"][0]
        out = "/models/kimi-k2-thinking-01234567-int8-expert-6"
        self.assertEqual(c["command"][-2:], ["/bin/sh", "/etc/numoe/scripts/pack.sh"])
        self.assertEqual(c["args"], ["/models/kimi-k2-thinking-01234567", out, "int8", "expert", "6"])
        self.assertIn("pack.sh", chart.find(objects, "ConfigMap", "numoe-scripts")["data"])
        hosts = chart.find(objects, "StatefulSet", "numoe")
        self.assertEqual(chart.flags(chart.container(hosts, "worker-0"))["model"], out)
        self.assertEqual(chart.flags(chart.container(hosts, "coordinator"))["model"], "/models/kimi-k2-thinking-01234567")
        env = {e["name"]: e["value"] for e in chart.container(hosts, "worker-0")["env"]}
        self.assertEqual(env["WAIT_FOR_PACKED"], f"{out}/READY")


class Around(unittest.TestCase):
    def test_network_policies(self):
        objects = chart.render(chart.EVERYTHING)
        hosts = chart.find(objects, "NetworkPolicy", "numoe")["spec"]
        open_ports = [p for rule in hosts["ingress"] for p in rule["ports"]]
        self.assertEqual([(p["port"], p.get("endPort")) for p in open_ports], [(8080, None), (9090, 9091)])
        remote = chart.find(objects, "NetworkPolicy", "numoe-workers")["spec"]["ingress"][0]
        self.assertEqual((remote["ports"][0]["port"], remote["ports"][0]["endPort"]), (7070, 7071))
        self.assertEqual(remote["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"], "host")
        self.assertEqual(chart.find(objects, "NetworkPolicy", "numoe-jobs")["spec"]["ingress"], [])
        self.assertNotIn("NetworkPolicy", chart.kinds(chart.render(PLAIN, {"networkPolicy": {"enabled": False}})))

    def test_disruption_budget_only_where_another_serves(self):
        self.assertNotIn("PodDisruptionBudget", chart.kinds(chart.render(PLAIN)))
        names = [o["metadata"]["name"] for o in chart.render(chart.EVERYTHING) if o["kind"] == "PodDisruptionBudget"]
        self.assertEqual(names, ["numoe", "numoe-workers", "numoe-router"])

    def test_autoscaling(self):
        scaled = chart.merged(REMOTE, {"workers": {"count": 0}, "autoscaling": {"enabled": True}})
        objects = chart.render(PLAIN, scaled)
        self.assertNotIn("replicas", chart.find(objects, "StatefulSet", "numoe")["spec"], "an upgrade would undo the scaling")
        for trigger in chart.find(objects, "ScaledObject")["spec"]["triggers"]:
            self.assertRegex(trigger["metadata"]["query"], r"^sum\(numoe_requests_\w+\{[^}]*\}\)$")
            self.assertEqual(trigger["metadata"]["ignoreNullValues"], "false", "hosts that nobody scrapes are not hosts without requests")
        objects = chart.render(PLAIN, chart.merged(scaled, {"autoscaling": {"kind": "hpa"}}))
        self.assertEqual(chart.find(objects, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"], "numoe")

    def test_metrics_exist(self):
        """Every metric that a query names is in common/observe/metric_list.h."""
        with open(os.path.join(chart.ROOT, "common", "observe", "metric_list.h"), encoding="utf-8") as f:
            known = set(re.findall(r'"(numoe_\w+)"', f.read()))
        texts = [chart.template(PLAIN, chart.merged(REMOTE, {"autoscaling": {"enabled": True, "kind": kind}})) for kind in ("keda", "hpa")]
        for path in glob.glob(os.path.join(chart.CHART, "files", "alerts.yaml")) + glob.glob(os.path.join(chart.CHART, "files", "dashboards", "*")):
            with open(path, encoding="utf-8") as f:
                texts.append(f.read())
        for name in set(re.findall(r"\bnumoe_[a-z_]+\b", " ".join(texts))):
            if not name.startswith("numoe_api"):
                self.assertIn(re.sub(r"_(bucket|sum|count)$", "", name), known | {re.sub(r"_(bucket|sum|count)$", "", k) for k in known})

    def test_monitors_find_ports(self):
        objects = chart.render(chart.EVERYTHING)
        hosts = chart.find(objects, "StatefulSet", "numoe")
        ports = {p["name"] for c in hosts["spec"]["template"]["spec"]["containers"] for p in c["ports"]}
        wanted = {e["port"] for e in chart.find(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]}
        self.assertEqual(wanted, {p for p in ports if p.startswith("metrics-")})
        objects = chart.render(chart.merged(chart.EVERYTHING, {"router": None}))
        endpoint = chart.find(objects, "ServiceMonitor")["spec"]["endpoints"][0]
        self.assertIn(endpoint["port"], {p["name"] for p in chart.find(objects, "Service", "numoe")["spec"]["ports"]})
        self.assertEqual(endpoint["scheme"], "https")

    def test_ingress_lets_streams_through(self):
        annotations = chart.find(chart.render(chart.EVERYTHING), "Ingress")["metadata"]["annotations"]
        self.assertEqual(annotations["nginx.ingress.kubernetes.io/proxy-buffering"], "off")
        self.assertGreaterEqual(int(annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"]), 3600)
        self.assertEqual(annotations["nginx.ingress.kubernetes.io/backend-protocol"], "HTTPS")

    def test_tls(self):
        objects = chart.render(chart.EVERYTHING)
        hosts = chart.find(objects, "StatefulSet", "numoe")
        c = chart.container(hosts, "coordinator")
        self.assertEqual(chart.flags(c)["ssl-certfile"], "/etc/numoe/tls/tls.crt")
        self.assertEqual(c["readinessProbe"]["httpGet"]["scheme"], "HTTPS")
        certificate = chart.find(objects, "Certificate", "numoe")["spec"]
        volume = next(v for v in hosts["spec"]["template"]["spec"]["volumes"] if v["name"] == "tls")
        self.assertEqual(volume["secret"]["secretName"], certificate["secretName"])
        self.assertIn("numoe.numoe.svc", certificate["dnsNames"])

    def test_mutual_tls(self):
        """Both ends have the three flags, their own Secret and its mount; no other container has them."""
        objects = chart.render(PLAIN, chart.merged(REMOTE, {"mtls": {"enabled": True, "workerSecretName": "w", "coordinatorSecretName": "c"}}))
        self.assertNotIn("Certificate", chart.kinds(objects))
        paths = {"ssl-certfile": "/etc/numoe/mtls/tls.crt", "ssl-keyfile": "/etc/numoe/mtls/tls.key", "ssl-ca-certs": "/etc/numoe/mtls/ca.crt"}
        for workload, end, prefix, secret in (("numoe", "coordinator", "worker-", "c"), ("numoe-workers-0", "worker-0", "", "w"), ("numoe-workers-0", "worker-1", "", "w")):
            stateful = chart.find(objects, "StatefulSet", workload)
            c = chart.container(stateful, end)
            given = chart.flags(c)
            self.assertEqual({name: given[prefix + name] for name in paths}, paths)
            self.assertIn({"name": "mtls", "mountPath": "/etc/numoe/mtls", "readOnly": True}, c["volumeMounts"])
            self.assertIn({"name": "mtls", "secret": {"secretName": secret, "defaultMode": 0o440}}, stateful["spec"]["template"]["spec"]["volumes"])
        local = chart.container(chart.find(objects, "StatefulSet", "numoe"), "worker-0")
        self.assertNotIn("ssl-certfile", chart.flags(local))
        self.assertNotIn("mtls", [m["name"] for m in local["volumeMounts"]])
        self.assertNotIn("ssl-", chart.template(PLAIN, REMOTE))

    def test_mutual_tls_by_cert_manager(self):
        def certificates(values):
            objects = chart.render(PLAIN, chart.merged(REMOTE, {"remoteWorkers": {"replicas": 3}}), {"mtls": {"enabled": True, **values}})
            return objects, {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "Certificate"}
        objects, made = certificates({"certManager": {"enabled": True}})
        self.assertEqual(set(made), {"numoe-mtls-ca", "numoe-mtls", "numoe-workers-mtls"})
        # The addresses of the remote workers are exactly the names in the workers' certificate.
        called = chart.flags(chart.container(chart.find(objects, "StatefulSet", "numoe"), "coordinator"))["workers"].split(",")
        self.assertEqual({a.rpartition(":")[0] for a in called if not a.startswith("unix:")}, set(made["numoe-workers-mtls"]["dnsNames"]))
        self.assertIn("numoe-workers-2-0.numoe-workers.numoe.svc", made["numoe-workers-mtls"]["dnsNames"])
        self.assertIn("server auth", made["numoe-workers-mtls"]["usages"])
        self.assertNotIn("server auth", made["numoe-mtls"]["usages"], "a coordinator cannot use its certificate as a worker")
        self.assertNotIn("client auth", made["numoe-workers-mtls"]["usages"])
        # The release's CA, which its own issuer has signed, issues both certificates.
        issuers = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "Issuer"}
        self.assertEqual(issuers["numoe-mtls-ca"], {"ca": {"secretName": made["numoe-mtls-ca"]["secretName"]}})
        self.assertEqual(issuers[made["numoe-mtls-ca"]["issuerRef"]["name"]], {"selfSigned": {}})
        self.assertTrue(made["numoe-mtls-ca"]["isCA"])
        for name in ("numoe-mtls", "numoe-workers-mtls"):
            self.assertEqual(made[name]["issuerRef"], {"name": "numoe-mtls-ca", "kind": "Issuer"})
        for workload, name in (("numoe", "numoe-mtls"), ("numoe-workers-2", "numoe-workers-mtls")):
            volumes = chart.find(objects, "StatefulSet", workload)["spec"]["template"]["spec"]["volumes"]
            self.assertEqual(next(v for v in volumes if v["name"] == "mtls")["secret"]["secretName"], made[name]["secretName"])
        objects, made = certificates({"certManager": {"enabled": True, "issuerRef": {"name": "shared", "kind": "ClusterIssuer"}}})
        self.assertEqual(set(made), {"numoe-mtls", "numoe-workers-mtls"})
        self.assertNotIn("Issuer", chart.kinds(objects))
        self.assertEqual(made["numoe-mtls"]["issuerRef"], {"name": "shared", "kind": "ClusterIssuer"})

    def test_mutual_tls_changes_no_network_policy(self):
        def policies(values):
            return [o for o in chart.render(PLAIN, REMOTE, values) if o["kind"] == "NetworkPolicy"]
        self.assertEqual(policies({"mtls": {"enabled": True, "certManager": {"enabled": True}}}), policies({}))

    def test_ipv6(self):
        hosts = chart.find(chart.render(PLAIN, {"listenHost": "::"}), "StatefulSet", "numoe")
        self.assertEqual(chart.flags(chart.container(hosts, "worker-0"))["health-listen"], "[::]:8081")
        self.assertEqual(chart.flags(chart.container(hosts, "coordinator"))["host"], "::")

    def test_long_names(self):
        release = "a-release-with-a-name-as-long-as-helm-permits-it-yes"
        for o in chart.render(chart.EVERYTHING, release=release):
            limit = 52 if o["kind"] in ("StatefulSet",) else 63
            if not o["metadata"]["name"].endswith("-extra"):
                self.assertLessEqual(len(o["metadata"]["name"]), limit, o["kind"])
            for value in o["metadata"].get("labels", {}).values():
                self.assertLessEqual(len(value), 63)

    def test_hosts_keep_apart(self):
        def affinity(mode):
            spec = chart.find(chart.render(PLAIN, {"podAntiAffinity": mode}), "StatefulSet")["spec"]["template"]["spec"]
            return spec.get("affinity", {}).get("podAntiAffinity", {})
        self.assertIn("requiredDuringSchedulingIgnoredDuringExecution", affinity("required"))
        self.assertIn("preferredDuringSchedulingIgnoredDuringExecution", affinity("preferred"))
        self.assertEqual(affinity("none"), {})

    def test_test_asks(self):
        pod = chart.find(with_tests("values-nano.yaml"), "Pod")
        self.assertEqual(pod["metadata"]["annotations"]["helm.sh/hook"], "test")
        env = {e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]}
        self.assertEqual((env["URL"], env["EXPECT"]), ("http://numoe:8080", "126"))
        pod = chart.find(with_tests(chart.EVERYTHING), "Pod")
        env = {e["name"]: e for e in pod["spec"]["containers"][0]["env"]}
        self.assertEqual(env["NUMOE_API_KEY"]["valueFrom"]["secretKeyRef"], {"name": "api-keys", "key": "keys"})
        self.assertEqual(env["URL"]["value"], "https://numoe:8080")

    def notes(self, *options, values):
        """The notes, which helm template does not print."""
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(chart.CHART, f"{folder}/numoe")
            with open(f"{copy}/templates/NOTES.txt", encoding="utf-8") as f:
                text = f.read()
            with open(f"{copy}/templates/_notes.tpl", "w", encoding="utf-8") as f:
                f.write('{{- define "notes" -}}' + text + "{{- end -}}")
            with open(f"{copy}/templates/notes.yaml", "w", encoding="utf-8") as f:
                f.write('{kind: Notes, notes: {{ include "notes" . | toJson }}}')
            rendered = chart.helm("template", "numoe", copy, "--namespace", "llm", "--kube-version", chart.KUBERNETES,
                                  "--show-only", "templates/notes.yaml", *options, values=values)
        return chart.yaml.safe_load(rendered)["notes"]

    def test_notes_say_what_to_do_next(self):
        notes = self.notes("--set", "model.revision=v2", values=["values-cpu-only.yaml"])
        self.assertNotIn("router", notes)
        for part in ("helm test numoe -n llm", "logs -f numoe-0 -c coordinator", "--preflight", "may name other files tomorrow"):
            self.assertIn(part, notes)
        notes = self.notes(values=["values-nano.yaml", {"replicas": 3, "router": {"enabled": True}}])
        for part in ("3 coordinators are behind the router", "rollout status deployment/numoe-router", "localhost:8080/health"):
            self.assertIn(part, notes)
        notes = self.notes(values=["values-nano.yaml", {"replicas": 2, "podAntiAffinity": "none", "autoscaling": {"enabled": True}, "networkPolicy": {"apiFrom": [{"podSelector": {}}]}}])
        for part in ("so nothing would be scaled", "must be in one of them", "kubectl -n llm delete pod numoe-0"):
            self.assertIn(part, notes)
        notes = self.notes(values=["values-nano.yaml", {"metrics": {"rules": {"enabled": True}}, "apiKeys": {"secretName": "keys"}}])
        for part in ("NumoeAbsent would fire for ever", 'curl -H "Authorization: Bearer $KEY" http://localhost:8080/v1/chat/completions'):
            self.assertIn(part, notes)
        notes = self.notes(values=["values-k2.5-2gpu.yaml"])
        for part in ("2 coordinators are behind the router", "logs -f numoe-0 -c coordinator\n", "logs -f numoe-0 -c coordinator-1\n"):
            self.assertIn(part, notes)


if __name__ == "__main__":
    unittest.main()
