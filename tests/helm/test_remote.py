"""Workers on further hosts: StatefulSets of one pod, which are all replaced at once, or groups of a LeaderWorkerSet."""
import unittest

import chart
import test_refusals

PLAIN, REMOTE = test_refusals.PLAIN, test_refusals.REMOTE
TWO_HOSTS = chart.merged(PLAIN, chart.merged(REMOTE, {"remoteWorkers": {"replicas": 2}}))
GROUPED = {"remoteWorkers": {"leaderWorkerSet": {"enabled": True}}}


def remote_hosts(objects):
    return [o for o in objects if o["kind"] == "StatefulSet" and o["metadata"]["name"].startswith("numoe-workers-")]


def given(template, name="coordinator"):
    return chart.flags(next(c for c in template["spec"]["containers"] if c["name"] == name))


class EachHostAStatefulSet(unittest.TestCase):
    def test_slices_and_addresses(self):
        objects = chart.render(chart.EVERYTHING)
        addresses = given(chart.find(objects, "StatefulSet", "numoe")["spec"]["template"])["workers"].split(",")
        self.assertEqual(addresses[2:], [f"numoe-workers-{host}-0.numoe-workers.numoe.svc:{port}" for host in (0, 1) for port in (7070, 7071)])
        slices = []
        for o in remote_hosts(objects):
            self.assertEqual(o["spec"]["replicas"], 1, "the others would have the same slices")
            service = chart.find(objects, "Service", o["spec"]["serviceName"])
            self.assertTrue(service["spec"]["publishNotReadyAddresses"])
            for c in chart.workers(o):
                slices.append(int(chart.flags(c)["worker-index"]))
                self.assertEqual((chart.flags(c)["worker-count"], chart.flags(c)["slice"]), ("6", "expert"))
        self.assertEqual(slices, [2, 3, 4, 5])

    def test_each_has_its_own_pod(self):
        """A selector that matched another host's pod would adopt it."""
        selectors = []
        for o in remote_hosts(chart.render(TWO_HOSTS)):
            selector, labels = o["spec"]["selector"]["matchLabels"], o["spec"]["template"]["metadata"]["labels"]
            self.assertLessEqual(selector.items(), labels.items())
            selectors.append(selector)
        self.assertEqual(len(selectors), 2)
        self.assertNotEqual(*selectors)

    def test_workers_divide_their_own_host_alone(self):
        """Without pinning a worker takes its share of the CPUs by the number of workers on its host, not by the number of all workers."""
        objects = chart.render(PLAIN, chart.merged(REMOTE, {"remoteWorkers": {"replicas": 3, "workersPerHost": 4}}))
        for name, of_host in (("numoe", 2), *((f"numoe-workers-{host}", 4) for host in range(3))):
            containers = chart.workers(chart.find(objects, "StatefulSet", name))
            self.assertEqual([chart.flags(c)["local-workers"] for c in containers], [str(of_host)] * of_host)
            self.assertEqual({(chart.flags(c)["worker-count"], chart.flags(c)["threads"]) for c in containers}, {("14", "0")})

    def test_coordinators_share_them(self):
        objects = chart.render(PLAIN, chart.merged(REMOTE, {"replicas": 3, "workers": {"count": 0}}))
        hosts = chart.find(objects, "StatefulSet", "numoe")
        self.assertEqual([c["name"] for c in hosts["spec"]["template"]["spec"]["containers"]], ["coordinator"])
        self.assertEqual(given(hosts["spec"]["template"])["workers"], "numoe-workers-0-0.numoe-workers:7070,numoe-workers-0-0.numoe-workers:7071")


class Groups(unittest.TestCase):
    def render(self, **changes):
        objects = chart.render(TWO_HOSTS, chart.merged(GROUPED, changes))
        return objects, chart.find(objects, "LeaderWorkerSet", "numoe-group")["spec"]

    def test_a_group_is_a_whole_copy(self):
        objects, spec = self.render(replicas=3, updatePartition=1)
        self.assertNotIn("StatefulSet", chart.kinds(objects))
        self.assertEqual((spec["replicas"], spec["leaderWorkerTemplate"]["size"]), (3, 3))
        self.assertEqual(spec["rolloutStrategy"]["rollingUpdateConfiguration"], {"partition": 1, "maxUnavailable": 1, "maxSurge": 0})
        # The restart of one worker must not restart the others, which have loaded, and a leader waits for its workers.
        self.assertEqual((spec["leaderWorkerTemplate"]["restartPolicy"], spec["startupPolicy"]), ("None", "LeaderCreated"))
        leader = spec["leaderWorkerTemplate"]["leaderTemplate"]
        self.assertEqual(chart.find(objects, "Service", "numoe")["spec"]["selector"].items() - leader["metadata"]["labels"].items(), set())

    def test_slices_follow_from_the_pods_name(self):
        """Kubernetes puts the leader's name into the coordinator's flag; pods 1 and 2 of a group are the workers' hosts."""
        _, spec = self.render()
        leader, worker = spec["leaderWorkerTemplate"]["leaderTemplate"], spec["leaderWorkerTemplate"]["workerTemplate"]
        self.assertEqual(given(leader)["workers"].split(",")[2:], [f"$(POD_NAME)-{pod}.numoe-group:{port}" for pod in (1, 2) for port in (7070, 7071)])
        env = leader["spec"]["containers"][0]["env"]
        self.assertIn({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, env)
        slices = []
        for pod in (1, 2):
            for c in worker["spec"]["containers"]:
                self.assertNotIn("worker-index", chart.flags(c))
                values = {e["name"]: int(e["value"]) for e in c["env"]}
                slices.append(values["INDEX_BASE"] + values["INDEX_STEP"] * (pod - 1))  # test_scripts.py checks that start.sh does it
        self.assertEqual(slices, [2, 3, 4, 5])

    def test_certificates_have_every_groups_names(self):
        mtls = {"mtls": {"enabled": True, "certManager": {"enabled": True}}}
        for changes, groups in (({"replicas": 2}, 2), ({"autoscaling": {"enabled": True, "maxReplicas": 3}}, 3)):
            objects, spec = self.render(**mtls, **changes)
            names = chart.find(objects, "Certificate", "numoe-workers-mtls")["spec"]["dnsNames"]
            self.assertEqual(names, [f"numoe-group-{group}-{pod}.numoe-group.numoe.svc" for group in range(groups) for pod in (1, 2)])
            called = given(spec["leaderWorkerTemplate"]["leaderTemplate"])["workers"].split(",")[2].replace("$(POD_NAME)", "numoe-group-0")
            self.assertIn(called.rpartition(":")[0], names)

    def test_scaling_is_of_groups(self):
        for kind, made in (("keda", "ScaledObject"), ("hpa", "HorizontalPodAutoscaler")):
            objects, spec = self.render(autoscaling={"enabled": True, "kind": kind})
            self.assertNotIn("replicas", spec)
            self.assertEqual(chart.find(objects, made)["spec"]["scaleTargetRef"],
                             {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "numoe-group"})


if __name__ == "__main__":
    unittest.main()
