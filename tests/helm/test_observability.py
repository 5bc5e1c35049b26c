"""Monitors, alerts and dashboard of a release: they belong to it, fit each other, and values change only what they should."""
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import chart

PLAIN = {"model": {"directory": "m", "sizeGiB": 100}}
WATCHED = chart.merged(PLAIN, {"metrics": {"monitors": {"enabled": True}, "rules": {"enabled": True}, "dashboards": {"enabled": True}}})
SERIES = re.compile(r"\bnumoe_[a-z_]+\b(\{[^}]*\})?")


def rules_of(changes, **options):
    """{name: alert} of a rendering."""
    objects = chart.render(WATCHED, {"metrics": {"rules": changes}}, **options)
    return {rule["alert"]: rule for group in chart.find(objects, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]}


def file_rules():
    with open(os.path.join(chart.CHART, "files", "alerts.yaml"), encoding="utf-8") as f:
        return {rule["alert"]: rule for group in chart.yaml.safe_load(f)["groups"] for rule in group["rules"]}


class Rules(unittest.TestCase):
    def test_all_alerts_are_of_this_release_alone(self):
        rules = rules_of({}, release="llm", namespace="prod")
        self.assertEqual(list(rules), list(file_rules()))
        for name, rule in rules.items():
            series = list(SERIES.finditer(rule["expr"]))
            self.assertTrue(series, name)
            for one in series:
                self.assertTrue((one[1] or "").startswith('{namespace="prod", release="llm"'), f"{name}: {one[0]}")

    def test_scope_all_is_the_file(self):
        """The rules equal the file, except for the time that a start may take, which depends on the release."""
        ours, theirs = rules_of({"scope": "all"}), file_rules()
        ours["NumoeNeverScraped"].pop("for")
        theirs["NumoeNeverScraped"].pop("for")
        budget = ours["NumoeStartOverdue"].pop("for")
        theirs["NumoeStartOverdue"].pop("for")
        theirs["NumoeBackendDown"]["expr"] = theirs["NumoeBackendDown"]["expr"].replace("offset 30m", f"offset {budget}")
        self.assertEqual(ours, theirs)

    def test_a_start_is_overdue_shortly_before_it_is_ended(self):
        for size in (1, 554):
            values = {"model": {"sizeGiB": size}}
            hosts = chart.find(chart.render(WATCHED, values), "StatefulSet")
            probe = chart.container(hosts, "coordinator")["startupProbe"]
            rules = chart.find(chart.render(WATCHED, values), "PrometheusRule")["spec"]["groups"][0]["rules"]
            seconds = {r["alert"]: int(r["for"].removesuffix("s")) for r in rules if r["alert"] in ("NumoeStartOverdue", "NumoeNeverScraped")}
            given = probe["failureThreshold"] * probe["periodSeconds"]
            self.assertTrue(given - 300 < seconds["NumoeStartOverdue"] < given, (seconds, given))
            self.assertEqual(seconds["NumoeNeverScraped"], seconds["NumoeStartOverdue"] + 600, "and the time in which nodes pull images")

    @unittest.skipUnless(shutil.which("promtool"), "not installed: promtool")
    def test_a_first_start_that_downloads_for_hours_is_no_alert(self):
        values = chart.merged(WATCHED, {"model": {"repository": "moonshotai/Kimi-K2-Thinking", "revision": "0" * 40, "sizeGiB": 554}, "download": {"enabled": True}})
        rules = chart.find(chart.render(values, release="llm", namespace="prod"), "PrometheusRule")["spec"]
        overdue = int(next(r for r in rules["groups"][0]["rules"] if r["alert"] == "NumoeNeverScraped")["for"].removesuffix("s")) // 60
        self.assertGreater(overdue, 120)
        other = {"series": 'numoe_requests_running{namespace="prod", release="other"}', "values": f"0x{overdue + 60}"}
        fired = [{"labels": '{alertname="NumoeNeverScraped", severity="critical"}', "value": 1}]
        self.promtool(rules, [other], [(f"{overdue - 5}m", []), (f"{overdue + 5}m", fired)], "count by (alertname, severity)")

    def test_values_change_an_alert(self):
        plain = rules_of({})
        rules = rules_of({"alertLabels": {"team": "ml", "severity": "info"}, "alertAnnotations": {"dashboard": "d"}, "runbookUrl": "https://wiki/numoe",
                          "alerts": {"NumoeQueueLong": {"threshold": 30, "for": "1h", "labels": {"severity": "critical"}, "annotations": {"summary": "Long"}},
                                     "NumoeKvCacheFull": {"threshold": 0.5}, "NumoeTokensSlow": {"enabled": False}}})
        self.assertEqual(set(plain) - set(rules), {"NumoeTokensSlow"})
        queue = rules["NumoeQueueLong"]
        self.assertEqual(queue["expr"], plain["NumoeQueueLong"]["expr"].replace("> 10", "> 30"))
        self.assertEqual((queue["for"], queue["labels"], queue["annotations"]["summary"]), ("1h", {"severity": "critical", "team": "ml"}, "Long"))
        self.assertEqual(queue["annotations"]["runbook_url"], "https://wiki/numoe#numoequeuelong")
        self.assertEqual(queue["annotations"]["dashboard"], "d")
        self.assertEqual(rules["NumoeKvCacheFull"]["expr"], plain["NumoeKvCacheFull"]["expr"].replace("> 0.95", "> 0.5"))
        self.assertEqual(rules["NumoeRejecting"]["labels"], {"severity": "info", "team": "ml"})
        self.assertNotIn("runbook_url", plain["NumoeQueueLong"]["annotations"])

    def test_every_threshold_can_be_changed(self):
        for name, rule in file_rules().items():
            changes = {"alerts": {name: {"threshold": 12345}}}
            if re.search(r"[<>] [0-9]", rule["expr"]):
                self.assertEqual(len(re.findall(r"[<>] 12345\b", rules_of(changes)[name]["expr"])), 1, name)
            else:
                with self.assertRaisesRegex(chart.Refused, f"{name}.threshold is 12345, but that alert does not compare with a number"):
                    rules_of(changes)

    def test_refusals(self):
        for changes, words in (({"alerts": {"NumoeQueueLogn": {"threshold": 1}}}, "which is not an alert: expected one of NumoeAbsent, "),
                               ({"alerts": {"NumoeAbsent": {"for": "soon"}}}, "for"), ({"runbookUrl": "wiki"}, "runbookUrl"),
                               ({"scope": "cluster"}, "scope")):
            with self.assertRaisesRegex(chart.Refused, words):
                rules_of(changes)

    @unittest.skipUnless(shutil.which("promtool"), "not installed: promtool")
    def test_prometheus_takes_them_and_they_fire_for_their_release_alone(self):
        """With two releases in a namespace and the rules of one: every request of both fails, and neither has workers."""
        series = []
        for release in ("llm", "big"):
            labels = f'job="{release}", namespace="prod", release="{release}", instance="{release}:8080"'
            series += [{"series": f"numoe_requests_running{{{labels}}}", "values": "0x20 _x80"},
                       {"series": f'numoe_requests_finished_total{{{labels}, reason="error"}}', "values": "0+60x100"}]
        fired = [{"labels": f'{{alertname="{name}", release="llm"}}', "value": 1} for name in ("NumoeAbsent", "NumoeRequestsFail")]
        rules = chart.find(chart.render(WATCHED, release="llm", namespace="prod"), "PrometheusRule")["spec"]
        self.promtool(rules, series, [("60m", fired)], "count by (alertname, release)")

    def promtool(self, rules, series, samples, count):
        """Checks the rules, and that with these series the numbers of firing alerts are those of [(time, expected)]."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "rules.yaml"), "w", encoding="utf-8") as f:
                json.dump(rules, f)
            with open(os.path.join(folder, "test.yaml"), "w", encoding="utf-8") as f:
                json.dump({"rule_files": ["rules.yaml"], "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [
                    {"expr": f'{count} (ALERTS{{alertstate="firing"}})', "eval_time": time, "exp_samples": expected} for time, expected in samples]}]}, f)
            for command in (["check", "rules", "rules.yaml"], ["test", "rules", "test.yaml"]):
                done = subprocess.run(["promtool", *command], cwd=folder, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Monitors(unittest.TestCase):
    def test_every_endpoint_names_the_release(self):
        own = {"sourceLabels": ["__meta_kubernetes_node_name"], "targetLabel": "node"}
        changes = {"metrics": {"monitors": {"relabelings": [own], "metricRelabelings": [{"action": "drop", "regex": "vllm:.*", "sourceLabels": ["__name__"]}]}}}
        objects = chart.render(chart.EVERYTHING, changes, release="llm")
        monitors = [o for o in objects if o["kind"] in ("ServiceMonitor", "PodMonitor")]
        self.assertEqual(len(monitors), 3)
        for monitor in monitors:
            for endpoint in monitor["spec"].get("endpoints", []) + monitor["spec"].get("podMetricsEndpoints", []):
                self.assertEqual(endpoint["relabelings"], [{"targetLabel": "release", "replacement": "llm"}, own])
                self.assertEqual(endpoint["metricRelabelings"][0]["action"], "drop")


class Dashboard(unittest.TestCase):
    def rendered(self, release, namespace="prod"):
        """-> (file name in the folder of Grafana's sidecar, dashboard)"""
        data = next(o["data"] for o in chart.render(WATCHED, release=release, namespace=namespace)
                    if o["kind"] == "ConfigMap" and "grafana_dashboard" in o["metadata"]["labels"])
        self.assertEqual(len(data), 1)
        name, text = next(iter(data.items()))
        return name, json.loads(text)

    def test_each_release_has_its_own(self):
        all_of_them = [self.rendered("llm"), self.rendered("llm", "test"), self.rendered("big")]
        for of in (lambda d: d[0], lambda d: d[1]["uid"], lambda d: d[1]["title"]):
            self.assertEqual(len({of(d) for d in all_of_them}), 3)
        self.assertLessEqual(max(len(d[1]["uid"]) for d in all_of_them), 40, "Grafana takes no longer ones")

    def test_only_name_and_first_choice_differ_from_the_file(self):
        paths = glob.glob(os.path.join(chart.CHART, "files", "dashboards", "*.json"))
        self.assertEqual(len(paths), 1)
        with open(paths[0], encoding="utf-8") as f:
            expected = json.load(f)
        dashboard = self.rendered("llm")[1]
        expected.update(uid=dashboard["uid"], title="NUMoE prod/llm")
        for variable in expected["templating"]["list"]:
            chosen = {"namespace": ["prod"], "release": ["llm"]}.get(variable["name"])
            if chosen:
                variable["current"] = {"text": chosen, "value": chosen}
        self.assertEqual(dashboard, expected)


if __name__ == "__main__":
    unittest.main()
