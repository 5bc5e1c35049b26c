"""Traces of requests as a collector receives them: the JSON's form, the order of spans, and the continuation of the client's trace."""
import http.server
import json
import os
import re
import threading
import time
import unittest

from daemons import Cluster

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests/golden/data/tiny-chat")
CHAT = "/v1/chat/completions"
BIN = ""
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Receives what is posted to /v1/traces and checks each request against the JSON mapping of opentelemetry-proto."""

    def __init__(self, status=200):
        self.spans, self.wrong, self.status = [], [], status
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/json"), self.path
                    outer.take(json.loads(body))
                except Exception as error:  # the test sets it, not this thread
                    outer.wrong.append(f"{error!r} in {body[:500]}")
                self.send_response(outer.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def take(self, request):
        assert set(request) == {"resourceSpans"}
        for resource in request["resourceSpans"]:
            about = self.attributes(resource["resource"]["attributes"])
            assert about["service.name"] == "numoe-coordinator", about
            for scope in resource["scopeSpans"]:
                assert scope["scope"]["name"] == "numoe"
                for span in scope["spans"]:
                    self.spans.append(self.check(span))

    @staticmethod
    def check(span):
        assert set(span) <= {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano",
                             "attributes", "status"}, span
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"]), span
        assert re.fullmatch("[0-9a-f]{16}", span.get("parentSpanId", "0" * 16)), span
        begin, end = span["startTimeUnixNano"], span["endTimeUnixNano"]
        assert isinstance(begin, str) and isinstance(end, str) and 0 <= int(end) - int(begin) < 600e9, span
        assert abs(int(end) / 1e9 - time.time()) < 600, "nanoseconds since 1970"
        return {**span, "attributes": Collector.attributes(span["attributes"]), "begin": int(begin), "end": int(end)}

    @staticmethod
    def attributes(pairs):
        read = {}
        for pair in pairs:
            assert set(pair) == {"key", "value"} and len(pair["value"]) == 1, pair
            (kind, value), = pair["value"].items()
            if kind == "arrayValue":
                value = [one["stringValue"] for one in value["values"]]
            elif kind == "intValue":
                assert isinstance(value, str), "64-bit numbers are strings in JSON"
                value = int(value)
            else:
                assert isinstance(value, {"stringValue": str, "doubleValue": (int, float), "boolValue": bool}[kind]), pair
            assert pair["key"] not in read, "twice: " + pair["key"]
            read[pair["key"]] = value
        return read

    def await_spans(self, count):
        deadline = time.monotonic() + 30
        while len(self.spans) < count:
            assert time.monotonic() < deadline, f"{len(self.spans)} of {count} spans; {self.wrong}"
            time.sleep(0.02)
        assert not self.wrong, self.wrong
        return self.spans


class Tracing(unittest.TestCase):
    def setUp(self):
        self.collector = Collector()
        self.addCleanup(self.collector.close)

    def cluster(self, *flags):
        return Cluster(BIN, MODEL, coordinator_flags=["--otlp-endpoint", self.collector.url, *flags])

    def test_a_request_is_queue_prefill_and_decode(self):
        with self.cluster() as cluster:
            body = {"messages": [{"role": "user", "content": "a secret"}], "temperature": 0.5, "seed": 7, "max_tokens": 12,
                    "ignore_eos": True}
            reply = cluster.post(CHAT, body)
            root, queue, prefill, decode = self.collector.await_spans(4)
            self.assertEqual([s["name"] for s in (root, queue, prefill, decode)], ["chat tiny-chat", "queue", "prefill", "decode"])
            self.assertEqual((root["kind"], queue["kind"]), (2, 1))
            self.assertNotIn("parentSpanId", root)
            for span in (queue, prefill, decode):
                self.assertEqual((span["traceId"], span["parentSpanId"]), (root["traceId"], root["spanId"]))
            self.assertEqual(len({s["spanId"] for s in self.collector.spans}), 4)
            times = [root["begin"], queue["begin"], queue["end"], prefill["begin"], prefill["end"], decode["begin"], decode["end"],
                     root["end"]]
            self.assertEqual(times, sorted(times))
            about = root["attributes"]
            expected = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "numoe", "gen_ai.request.model": "tiny-chat",
                        "gen_ai.response.model": "tiny-chat", "gen_ai.response.id": reply["id"], "gen_ai.request.max_tokens": 12,
                        "gen_ai.request.temperature": 0.5, "gen_ai.request.seed": 7, "gen_ai.request.stream": False,
                        "gen_ai.usage.input_tokens": reply["usage"]["prompt_tokens"],
                        "gen_ai.usage.output_tokens": 12, "gen_ai.response.finish_reasons": ["length"],
                        "http.request.method": "POST", "url.path": CHAT, "http.response.status_code": 200}
            self.assertEqual({key: about.get(key) for key in expected}, expected)
            self.assertNotIn("secret", json.dumps(self.collector.spans))
            scraped = cluster.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})[2]
            for histogram in ("time_to_first_token", "request_duration"):
                found = re.findall(rf'^numoe_{histogram}_seconds_bucket{{le="[^"]+"}} \d+ # {{trace_id="(\w+)"}} ', scraped, re.M)
                self.assertEqual(found, [root["traceId"]], histogram)

    def test_the_clients_trace_is_gone_on_with(self):
        with self.cluster("--trace-ratio", "0") as cluster:
            body = {"prompt": "x", "max_tokens": 2, "ignore_eos": True, "n": 2}
            for header in (None, f"00-{TRACE}-{PARENT}-00", "nonsense"):  # not recorded, by the ratio and by the client
                cluster.request("POST", "/v1/completions", body, {"traceparent": header} if header else None)
            cluster.request("POST", "/v1/completions", body, {"traceparent": f"00-{TRACE}-{PARENT}-01"})
            spans = self.collector.await_spans(7)
            cluster.coordinator.stop()  # sends the remaining spans
            self.assertEqual(len(self.collector.spans), 7)
            self.assertEqual({s["traceId"] for s in spans}, {TRACE})
            self.assertEqual(spans[0]["parentSpanId"], PARENT)
            self.assertEqual(spans[0]["name"], "text_completion tiny-chat")
            self.assertEqual(spans[0]["attributes"]["gen_ai.request.choice.count"], 2)
            self.assertEqual([s["attributes"]["numoe.choice.index"] for s in spans[1:]], [0, 0, 0, 1, 1, 1])

    def test_errors_and_clients_that_leave_end_their_spans(self):
        with self.cluster() as cluster:
            cluster.post(CHAT, {"messages": "secret"}, expect=400)
            span, = self.collector.await_spans(1)
            self.assertEqual((span["attributes"]["http.response.status_code"], span["status"]["code"]), (400, 2))
            self.assertNotIn("secret", json.dumps(span))
            connection = cluster.connect(30)
            connection.request("POST", "/v1/completions", json.dumps({
                "prompt": "x", "max_tokens": 5000, "ignore_eos": True, "stream": True}), {"Content-Type": "application/json"})
            connection.getresponse().readline()
            connection.close()
            spans = self.collector.await_spans(5)
            self.assertEqual([s["name"] for s in spans[1:]], ["text_completion tiny-chat", "queue", "prefill", "decode"])
            self.assertEqual(spans[1]["attributes"]["http.response.status_code"], 499)
            self.assertEqual(spans[1]["status"]["message"], "cancelled")

    def test_a_collector_that_is_not_there_fails_nothing(self):
        with Cluster(BIN, MODEL, coordinator_flags=["--otlp-endpoint", "http://127.0.0.1:1"]) as cluster:
            for _ in range(20):
                cluster.post(CHAT, {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2})
            began = time.monotonic()
            self.assertEqual(cluster.coordinator.stop(), 0)
            self.assertLess(time.monotonic() - began, 15)
            self.assertEqual(cluster.coordinator.log().count("traces do not reach"), 1)
