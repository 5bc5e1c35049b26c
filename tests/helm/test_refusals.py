"""Values that cannot work are refused before anything is installed, with a message that names the value and says what to do."""
import glob
import unittest

import chart

PINNED = {
    "pinning": "required",
    "model": {"directory": "m", "sizeGiB": 10},
    "workers": {"resources": {"limits": {"cpu": 4, "memory": "16Gi"}}},
    "coordinator": {"resources": {"limits": {"cpu": 2, "memory": "8Gi"}}},
}
PLAIN = {"model": {"directory": "m", "sizeGiB": 10}}
DOWNLOAD = {"model": {"repository": "org/name", "revision": "main", "sizeGiB": 10}, "download": {"enabled": True}}
ROUTER = {"router": {"enabled": True}, "replicas": 2, "persistence": {"accessModes": ["ReadWriteMany"]}}
SHARED = {**PLAIN, "workers": {"shareExperts": True}, "coordinator": {"gpu": {"count": 1}, "flags": {"gpu-prefill-token-threshold": "auto"}}}
REMOTE = {"remoteWorkers": {"enabled": True}, "persistence": {"accessModes": ["ReadWriteMany"]}}

# (what is tried, base values, changes, parts of the message)
CASES = [
    ("no model", {}, {}, ["model.directory is empty", "model.repository"]),
    ("no size", PLAIN, {"model": {"sizeGiB": 0}}, ["persistence.mode is create", "model.sizeGiB is 0", "the time a start may take"]),
    ("no size of what is there", PLAIN, {"model": {"sizeGiB": 0}, "persistence": {"mode": "existing", "existingClaim": "c"}}, ["persistence.mode is existing", "model.sizeGiB is 0"]),
    ("no size of a node's files", PLAIN, {"model": {"sizeGiB": 0}, "persistence": {"mode": "hostPath", "hostPath": "/c"}}, ["persistence.mode is hostPath", "model.sizeGiB is 0"]),
    ("a name that begins with a digit", PLAIN, {"fullnameOverride": "9moe"}, ["\"9moe\"", "begins with a letter", "set fullnameOverride"]),
    ("a name of two parts", PLAIN, {"nameOverride": "a.b"}, ["\"numoe-a.b\"", "another nameOverride"]),
    ("a tag in the repository", PLAIN, {"image": {"repository": "reg/numoe:1"}}, ["image.repository is \"reg/numoe:1\"", "image.tag"]),
    ("a way out of the volume", PLAIN, {"model": {"directory": "../../etc"}}, ["model.directory is \"../../etc\"", "without . and .."]),
    ("a way out of the node's folder", PLAIN, {"persistence": {"mode": "hostPath", "hostPath": "/data/.."}}, ["persistence.hostPath is \"/data/..\""]),
    ("a path with a line's end", PLAIN, {"model": {"directory": "a\nb"}}, ["model.directory is", "spaces"]),
    ("no names", PLAIN, {"dnsPolicy": "None"}, ["dnsPolicy is None", "give dnsConfig.nameservers"]),
    ("a claim that is not used", PLAIN, {"persistence": {"existingClaim": "c"}}, ["persistence.existingClaim is c", "persistence.mode is create", "existing"]),
    ("a node's folder that is not used", PLAIN, {"persistence": {"hostPath": "/c"}}, ["persistence.hostPath is /c", "persistence.mode is create"]),
    ("a volume that is too small", PLAIN, {"persistence": {"size": "9Gi"}}, ["persistence.size is 9Gi", "model.sizeGiB", "leave it empty"]),
    ("a volume without a unit", PLAIN, {"persistence": {"size": "700"}}, ["persistence.size is 700", "less than the 10 GiB"]),
    ("a certificate without TLS", PLAIN, {"tls": {"secretName": "c"}}, ["tls.enabled is false", "plain HTTP"]),
    ("workers' certificates without TLS", PLAIN, {"mtls": {"workerSecretName": "c"}}, ["mtls.workerSecretName", "mtls.enabled is false"]),
    ("GPUs beside the count", PLAIN, {"coordinator": {"resources": {"limits": {"nvidia.com/gpu": 2}}}}, ["coordinator.resources.limits has nvidia.com/gpu", "set coordinator.gpu.count to 2"]),
    ("no address", PLAIN, {"listenHost": "1.2.3.4.5.6"}, ["listenHost is \"1.2.3.4.5.6\"", "an IP address"]),
    ("a name to listen at", PLAIN, {"listenHost": "localhost"}, ["listenHost is \"localhost\""]),
    ("a label of the selectors", PLAIN, {"labels": {"app.kubernetes.io/component": "x"}}, ["labels has app.kubernetes.io/component", "a key of yours"]),
    ("a label twice", PLAIN, {"labels": {"team": "a"}, "metrics": {"monitors": {"labels": {"team": "b"}}}}, ["metrics.monitors.labels has team", "one of them"]),
    ("a variable of the chart", PLAIN, {"coordinator": {"extraEnv": [{"name": "WAIT_FOR", "value": "x"}]}}, ["coordinator.extraEnv has WAIT_FOR", "another name"]),
    ("a variable twice", PLAIN, {"workers": {"extraEnv": [{"name": "A", "value": "x"}, {"name": "A", "value": "y"}]}}, ["workers.extraEnv has A", "twice"]),
    ("a volume of the chart", PLAIN, {"extraVolumes": [{"name": "weights", "emptyDir": {}}]}, ["extraVolumes has weights"]),
    ("memory without a unit", PLAIN, {"workers": {"resources": {"limits": {"memory": "0.5"}}}}, ["workers.resources.limits.memory is 0.5", "is a unit missing"]),
    ("more memory asked for than allowed", PLAIN, {"router": {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}}},
     ["router.resources asks for memory 2Gi", "limit of 1Gi"]),
    ("more CPUs asked for than allowed", PLAIN, {"coordinator": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}}}, ["coordinator.resources asks for cpu 2"]),
    ("a device asked for twice", PLAIN, {"workers": {"overrides": [{"resources": {"requests": {"vendor.com/x": 1}, "limits": {"vendor.com/x": 2}}}]}},
     ["workers.overrides[0].resources asks for vendor.com/x 1", "equal"]),
    ("a balancer's class of no balancer", PLAIN, {"service": {"loadBalancerClass": "x"}}, ["service.loadBalancerClass is set", "ClusterIP"]),
    ("a node's port of no node", PLAIN, {"service": {"nodePort": 30000}}, ["service.nodePort is 30000", "NodePort or LoadBalancer"]),
    ("outside traffic of an inside service", PLAIN, {"service": {"externalTrafficPolicy": "Local"}}, ["service.externalTrafficPolicy is Local"]),
    ("two families in one stack", PLAIN, {"service": {"ipFamilies": ["IPv6", "IPv4"]}}, ["service.ipFamilies is [IPv6 IPv4]", "PreferDualStack"]),
    ("heat without GPUs", PLAIN, {"coordinator": {"heat": {"enabled": True}}}, ["coordinator.heat.enabled", "coordinator.gpu.count is 0"]),
    ("heat without experts on the GPU", PLAIN, {"coordinator": {"gpu": {"count": 1}, "heat": {"enabled": True}, "flags": {"num-gpu-experts": 0}}}, ["set coordinator.flags.num-gpu-experts"]),
    ("heat by a flag as well", PLAIN, {"coordinator": {"gpu": {"count": 1}, "heat": {"enabled": True}, "flags": {"expert-heat-file": "/x"}}}, ["leave coordinator.flags.expert-heat-file out"]),
    ("heat of many hosts in a volume of one", PLAIN, {**ROUTER, "coordinator": {"gpu": {"count": 1}, "heat": {"enabled": True}}}, ["coordinator.heat.accessModes is [ReadWriteOnce]"]),
    ("a worker's port above all", PLAIN, {"workers": {"port": 65535}}, ["port 65536 of worker 1 is above 65535"]),
    ("a coordinator's port above all", PLAIN, {"router": {"enabled": True}, "coordinator": {"gpu": {"count": 3, "nextPort": 65535}}}, ["counts up to 65536"]),
    ("pinned beside a burstable container", PINNED, {"extraContainers": [{"name": "x", "image": "y"}]}, ["extraContainers x: resources.limits.cpu is not set"]),
    ("download of nothing", DOWNLOAD, {"model": {"repository": "", "directory": "m"}}, ["model.repository is \"\"", "ORG/NAME"]),
    ("download without revision", DOWNLOAD, {"model": {"revision": ""}}, ["model.revision is empty", "commit"]),
    ("download without size", DOWNLOAD, {"model": {"sizeGiB": 0}}, ["model.sizeGiB is 0", "give the size"]),
    ("download to the image", DOWNLOAD, {"model": {"directory": "/m"}}, ["model.directory is /m", "relative"]),
    ("download without volume", DOWNLOAD, {"persistence": {"mode": "none"}}, ["persistence.mode is none", "create, existing or hostPath"]),
    ("model of the image without path", PLAIN, {"persistence": {"mode": "none"}}, ["must be an absolute path in the image", "\"m\""]),
    ("existing claim without name", PLAIN, {"persistence": {"mode": "existing"}}, ["persistence.existingClaim is empty", "name the claim"]),
    ("relative host path", PLAIN, {"persistence": {"mode": "hostPath", "hostPath": "data"}}, ["absolute path of the node", "\"data\""]),
    ("host path of many hosts, filled once", DOWNLOAD, {"replicas": 2, "persistence": {"mode": "hostPath", "hostPath": "/data"}},
     ["fills one host's directory", "on every host beforehand"]),
    ("many hosts, volume of one", PLAIN, {"replicas": 2}, ["several hosts read the weights", "ReadWriteMany"]),
    ("remote hosts, volume of one", PLAIN, {"remoteWorkers": {"enabled": True}}, ["several hosts read the weights"]),
    ("scaled hosts, volume of one", PLAIN, {"autoscaling": {"enabled": True}}, ["several hosts read the weights"]),
    ("volume of one pod", PLAIN, {"persistence": {"accessModes": ["ReadWriteOncePod"]}}, ["several pods", "use ReadWriteOnce"]),
    ("download into a read-only volume", DOWNLOAD, {"persistence": {"accessModes": ["ReadOnlyMany"]}}, ["writes to the weights", "add ReadWriteMany"]),
    ("nobody holds the experts", PLAIN, {"workers": {"count": 0}}, ["workers.count is 0", "sockets"]),
    ("more workers than there may be", PLAIN, {**REMOTE, "remoteWorkers": {"enabled": True, "replicas": 40}}, ["82 workers", "at most 64"]),
    ("overrides of nobody", PLAIN, {"workers": {"count": 1, "overrides": [{}, {}]}}, ["2 entries for workers.count 1"]),
    ("overrides of a supervised host", PLAIN, {"workers": {"mode": "supervised", "overrides": [{}]}}, ["workers.mode containers", "workers.resources"]),
    ("ports that meet", PLAIN, {"workers": {"metricsPort": 7071}}, ["port 7071", "keep these 2 apart"]),
    ("the API on a worker's port", PLAIN, {"coordinator": {"port": 7070}}, ["coordinator.port 7070", "choose another"]),
    ("scaling backwards", PLAIN, {**REMOTE, "autoscaling": {"enabled": True, "minReplicas": 5}}, ["minReplicas 5", "maxReplicas 4"]),
    ("pinned without limits", PINNED, {"workers": {"resources": {"limits": {"cpu": None}}}}, ["workers.resources.limits.cpu is not set", "pinning: none"]),
    ("pinned with unequal memory", PINNED, {"workers": {"resources": {"requests": {"memory": "12Gi"}}}}, ["memory 12Gi with a limit of 16Gi", "make them equal"]),
    ("pinned with unequal CPUs", PINNED, {"workers": {"resources": {"requests": {"cpu": 2}}}}, ["cpu 2 with a limit of 4"]),
    ("pinned to parts of CPUs", PINNED, {"workers": {"resources": {"limits": {"cpu": "3500m"}}}}, ["3500m", "integer"]),
    ("pinned beside a burstable coordinator", PINNED, {"coordinator": {"resources": {"requests": {"cpu": 1}}}}, ["coordinator.resources", "cpu 1 with a limit of 2"]),
    ("pinned with a bad override", PINNED, {"workers": {"overrides": [{"resources": {"limits": {"cpu": "1500m", "memory": "16Gi"}}}]}},
     ["workers.overrides[0].resources", "1500m"]),
    ("pinned remote workers without resources", PINNED, REMOTE, ["remoteWorkers.resources.limits.cpu is not set"]),
    ("mutual TLS with nobody elsewhere", PLAIN, {"mtls": {"enabled": True, "certManager": {"enabled": True}}}, ["remoteWorkers.enabled is false", "sockets"]),
    ("mutual TLS without certificates", PLAIN, {**REMOTE, "mtls": {"enabled": True, "workerSecretName": "w"}},
     ["workerSecretName is \"w\"", "coordinatorSecretName \"\"", "name both Secrets", "mtls.certManager.enabled"]),
    ("one Secret for both certificates", PLAIN, {**REMOTE, "mtls": {"enabled": True, "certManager": {"enabled": True}, "workerSecretName": "x",
     "coordinatorSecretName": "x"}}, ["written to Secret x", "different names"]),
    ("an issuer without name", PLAIN, {**REMOTE, "mtls": {"enabled": True, "certManager": {"enabled": True, "issuerRef": {"kind": "ClusterIssuer"}}}},
     ["mtls.certManager.issuerRef has no name"]),
    ("certificates for nothing", PLAIN, {**REMOTE, "mtls": {"certManager": {"enabled": True}}}, ["mtls.enabled is false", "both, or neither"]),
    ("mutual TLS by flags", PLAIN, {"workers": {"flags": {"ssl-certfile": "x"}}}, ["workers.flags.ssl-certfile", "use mtls"]),
    ("mutual TLS by the coordinator's flags", PLAIN, {"coordinator": {"flags": {"worker-ssl-ca-certs": "x"}}},
     ["coordinator.flags.worker-ssl-ca-certs", "use mtls"]),
    ("too little memory", PINNED, {"model": {"sizeGiB": 40}}, ["workers.resources has 16Gi", "needs 21952Mi", "2 workers"]),
    ("too little memory by the experts' size", PINNED, {"model": {"expertsGiB": 60}}, ["needs 32192Mi"]),
    ("too little memory of remote workers", PINNED, {**REMOTE, "remoteWorkers": {"enabled": True, "resources": {"limits": {"cpu": 4, "memory": "2Gi"}}}},
     ["remoteWorkers.resources has 2Gi"]),
    ("too little memory of a supervised host", PINNED, {"model": {"sizeGiB": 14}, "workers": {"mode": "supervised"}}, ["needs 17280Mi"]),
    ("shared memory below a mailbox", PLAIN, {"sharedMemory": {"size": "64Mi"}}, ["sharedMemory.size is 64Mi", "448Mi"]),
    ("shared memory below two mailboxes", PLAIN, {"router": {"enabled": True}, "coordinator": {"gpu": {"count": 2}}, "sharedMemory": {"size": "640Mi"}},
     ["sharedMemory.size is 640Mi", "896Mi"]),
    ("huge pages of unknown number", PLAIN, {"model": {"sizeGiB": 0, "directory": "/m"}, "persistence": {"mode": "none"}, "workers": {"hugepages": "1G", "resources": {"limits": {"memory": "9Gi"}}}},
     ["workers.hugepages is 1G", "set model.expertsGiB"]),
    ("huge pages alone", PLAIN, {"workers": {"hugepages": "2M"}}, ["workers.hugepages is 2M", "neither cpu nor memory"]),
    ("huge pages for mapped weights", PLAIN, {"pack": {"enabled": True}, "workers": {"hugepages": "2M", "resources": {"limits": {"memory": "9Gi"}}}},
     ["workers.hugepages is 2M", "workers.packed: copy"]),
    ("too little memory beside huge pages", PINNED, {"workers": {"hugepages": "1G", "resources": {"limits": {"memory": "1Gi"}}}}, ["needs 1472Mi: the shared-memory mailbox"]),
    ("experts that nobody fetches", PLAIN, {"workers": {"shareExperts": True}}, ["gpu-prefill-token-threshold is off", "workers.shareExperts: false"]),
    ("experts to fetch that nobody shares", PLAIN, {"coordinator": {"flags": {"gpu-prefill-token-threshold": 4096}}},
     ["gpu-prefill-token-threshold is 4096", "set workers.shareExperts: true"]),
    ("shared experts without a GPU", PLAIN, {"workers": {"shareExperts": True}, "coordinator": {"flags": {"gpu-prefill-token-threshold": "auto"}}},
     ["coordinator.gpu.count is 0", "only a GPU"]),
    ("shared experts of other hosts", SHARED, REMOTE, ["remoteWorkers.enabled", "its own host alone"]),
    ("shared experts without shared memory", SHARED, {"workers": {"flags": {"no-shared-memory": True}}}, ["no-shared-memory", "remove one"]),
    ("shared experts in mapped files", SHARED, {"pack": {"enabled": True}}, ["workers.packed: map", "workers.packed: copy"]),
    ("shared experts by a flag", PLAIN, {"workers": {"flags": {"share-experts": True}}}, ["workers.flags.share-experts", "use workers.shareExperts"]),
    ("too little memory beside shared experts", SHARED, {"workers": {"resources": {"limits": {"memory": "6600Mi"}}}}, ["needs 6602Mi"]),
    ("too little memory for the map of the experts", SHARED, {"model": {"sizeGiB": 600}, "coordinator": {"resources": {"limits": {"memory": "1Gi"}}}},
     ["memory is 1Gi", "1200Mi", "workers.hugepages"]),
    ("coordinators that a Service does not reach", PLAIN, {"coordinator": {"gpu": {"count": 2}}}, ["coordinator.gpu.count is 2", "set router.enabled"]),
    ("a further coordinator on a worker's port", PLAIN, {"router": {"enabled": True}, "coordinator": {"gpu": {"count": 3, "nextPort": 8081}}},
     ["coordinator.gpu.nextPort 8081 is a port of workers.healthPort"]),
    ("a further coordinator on the first one's port", PLAIN, {"router": {"enabled": True}, "coordinator": {"gpu": {"count": 4, "nextPort": 8078}}},
     ["coordinator.gpu.nextPort 8080 is a port of coordinator.port"]),
    ("a mailbox for one of two coordinators", PINNED, {"router": {"enabled": True}, "model": {"sizeGiB": 28}, "coordinator": {"gpu": {"count": 4}}},
     ["needs 17152Mi", "mailbox of each coordinator"]),
    ("a flag of the chart", PLAIN, {"coordinator": {"flags": {"port": 1}}}, ["coordinator.flags.port", "use coordinator.port"]),
    ("API keys in the clear", PLAIN, {"coordinator": {"flags": {"api-key": "secret"}}}, ["coordinator.flags.api-key", "apiKeys.secretName"]),
    ("admins' keys by flags", PLAIN, {"coordinator": {"flags": {"admin-api-key-file": "x"}}},
     ["coordinator.flags.admin-api-key-file", "apiKeys.adminKey"]),
    ("admins' keys without a Secret", PLAIN, {"apiKeys": {"adminKey": "admins"}},
     ["apiKeys.adminKey is \"admins\"", "apiKeys.secretName is empty", "name the Secret"]),
    ("one entry for both kinds of keys", PLAIN, {"apiKeys": {"secretName": "s", "key": "admins", "adminKey": "admins"}},
     ["both \"admins\"", "either an admin's or a client's", "another entry of Secret s"]),
    ("workers of a host by a flag", PLAIN, {"workers": {"flags": {"local-workers": 1}}},
     ["workers.flags.local-workers", "workers.count and remoteWorkers.workersPerHost"]),
    ("a worker's flag of the chart", PLAIN, {"workers": {"flags": {"listen": "x"}}}, ["workers.flags.listen", "use workers.port"]),
    ("TLS without certificate", PLAIN, {"tls": {"enabled": True}}, ["there is no certificate", "tls.secretName"]),
    ("TLS without issuer", PLAIN, {"tls": {"enabled": True, "certManager": {"enabled": True}}}, ["issuerRef has no name"]),
    ("a router with one coordinator", PLAIN, {**ROUTER, "replicas": 1}, ["router.enabled, but replicas is 1", "does nothing", "set replicas"]),
    ("a router with too many coordinators", PLAIN, {**ROUTER, "replicas": 65}, ["replicas is 65", "at most 64", "several releases"]),
    ("a router with too many scaled coordinators", PLAIN, {**ROUTER, "coordinator": {"gpu": {"count": 2}}, "autoscaling": {"enabled": True, "maxReplicas": 33}},
     ["autoscaling.maxReplicas is 33", "2 coordinators, 66 in all", "at most 64"]),
    ("a router that scales to one", PLAIN, {**ROUTER, "autoscaling": {"enabled": True, "maxReplicas": 1}}, ["autoscaling.maxReplicas is 1", "does nothing"]),
    ("a router beside the coordinators' CORS", PLAIN, {**ROUTER, "coordinator": {"flags": {"allowed-origins": "https://example.com"}}},
     ["coordinator.flags.allowed-origins is set", "router.flags.allowed-origins"]),
    ("a router's backends by flags", PLAIN, {**ROUTER, "router": {"enabled": True, "flags": {"backends": "http://a"}}},
     ["router.flags.backends", "follows from replicas"]),
    ("keys of the router", PLAIN, {**ROUTER, "router": {"enabled": True, "flags": {"api-key-file": "x"}}},
     ["router.flags.api-key-file", "the router passes on", "use apiKeys"]),
    ("a digest for half of the pods", PLAIN, {"image": {"digest": "sha256:" + "a" * 64}, "coordinator": {"gpu": {"count": 1}}},
     ["image.cuda.digest is empty", "or the same one"]),
    ("groups of coordinators alone", PLAIN, {"remoteWorkers": {"leaderWorkerSet": {"enabled": True}}},
     ["remoteWorkers.leaderWorkerSet.enabled, but remoteWorkers.enabled is false", "set both"]),
    ("a route of no gateway", PLAIN, {"gateway": {"enabled": True}}, ["gateway.parentRefs is empty", "name the Gateway"]),
    ("two that choose", PLAIN, {**ROUTER, "inferencePool": {"enabled": True}}, ["inferencePool.enabled and router.enabled", "use one of them"]),
    ("a pool with TLS", PLAIN, {"inferencePool": {"enabled": True}, "tls": {"enabled": True, "secretName": "s"}}, ["in plain text", "or use the router"]),
    ("a pool of too many ports", PLAIN, {"inferencePool": {"enabled": True}, "coordinator": {"gpu": {"count": 9}}}, ["9 coordinators", "at most 8 ports"]),
    ("a pool without a picker", PLAIN, {"inferencePool": {"enabled": True, "picker": {"enabled": False}}}, ["inferencePool.picker.serviceName is empty", "name the Service"]),
    ("a picker's image of any version", PLAIN, {"inferencePool": {"enabled": True, "picker": {"image": {"tag": ""}}}},
     ["inferencePool.picker.image has neither tag nor digest", "give one of them"]),
    ("ingress without host", PLAIN, {"ingress": {"enabled": True}}, ["ingress.host is empty"]),
]

# Refusals of the schema: (values, what the message names)
SCHEMA = [
    ({"replica": 3}, "replica"),
    ({"workers": {"modes": "containers"}}, "modes"),
    ({"workers": {"mode": "threads"}}, "mode"),
    ({"workers": {"count": -1}}, "count"),
    ({"pinning": "maybe"}, "pinning"),
    ({"workers": {"hugepages": "4M"}}, "hugepages"),
    ({"persistence": {"accessModes": ["RWX"]}}, "accessModes"),
    ({"workers": {"resources": {"limits": {"memory": "16GB"}}}}, "memory"),
    ({"coordinator": {"flags": {"--max-num-seqs": 3}}}, "--max-num-seqs"),
    ({"coordinator": {"gpu": {"count": "two"}}}, "count"),
    ({"model": {"revision": 1234}}, "revision"),
    ({"image": {"digest": "latest"}}, "digest"),
    ({"metrics": {"monitors": {"interval": "soon"}}}, "interval"),
    ({"service": {"type": "Internal"}}, "type"),
    ({"router": {"replicas": 0}}, "replicas"),
    ({"router": {"backends": ["http://a"]}}, "backends"),
]


class Refusals(unittest.TestCase):
    def test_base_values_are_fine(self):
        for base in (PLAIN, PINNED, DOWNLOAD, chart.merged(PLAIN, REMOTE), chart.merged(PLAIN, ROUTER), chart.EVERYTHING):
            self.assertTrue(chart.render(base))

    def test_sentences(self):
        for what, base, changes, parts in CASES:
            with self.subTest(what):
                with self.assertRaises(chart.Refused) as refused:
                    chart.render(chart.merged(base, changes))
                text = str(refused.exception).replace('\\"', '"')
                for part in parts:
                    self.assertIn(part, text)
                self.assertNotIn("nil pointer", text)
                self.assertNotIn("wrong type", text)

    def test_schema(self):
        for values, name in SCHEMA:
            with self.subTest(values):
                with self.assertRaises(chart.Refused) as refused:
                    chart.render(PLAIN, values)
                self.assertIn("values don't meet the specifications of the schema", str(refused.exception))
                self.assertIn(name, str(refused.exception))

    def test_every_sentence_has_a_case(self):
        """Every message in _validate*.tpl has a case here."""
        sentences = 0
        for path in glob.glob(f"{chart.CHART}/templates/_validate*.tpl"):
            with open(path, encoding="utf-8") as f:
                sentences += f.read().count("{{ fail ")
        self.assertLessEqual(sentences, len(CASES))


if __name__ == "__main__":
    unittest.main()
