"""HTTP as RFC 9112 defines it, byte for byte, at a coordinator and at a router in front of it; who may call them, and clients that
have disconnected.
"""
import json
import re
import signal
import socket
import unittest

import routing
from daemons import Cluster, Daemon, metric, until, until_idle

BIN = ""
CHAT = "/v1/chat/completions"
ENDLESS = {"max_tokens": 3500, "ignore_eos": True}
ASK = {"messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 4}


def head(line, *fields):
    return "\r\n".join([line, *fields, "", ""]).encode()


def post(path, body, *fields, version="HTTP/1.1"):
    data = json.dumps(body).encode()
    return head(f"POST {path} {version}", "Host: x", f"Content-Length: {len(data)}", *fields) + data


class Line:
    """One connection on which the test sends and receives bytes."""

    def __init__(self, door, *said):
        self.socket = socket.create_connection(("127.0.0.1", door.port), 60)
        self.heard = b""
        for data in said:
            self.socket.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def until(self, end):
        while end not in self.heard:
            data = self.socket.recv(65536)
            assert data, self.heard
            self.heard += data
        return self.heard

    def all(self):
        while True:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                return self.heard.decode()
            if not data:
                return self.heard.decode()
            self.heard += data


def said_to(door, data):
    with Line(door, data) as line:
        return line.all()


class HttpRules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        routing.BIN = BIN
        cls.house = routing.House()
        cls.house.__enter__()
        cls.doors = [cls.house.doors[0], cls.house]  # the coordinator's own answer, and the router's

    @classmethod
    def tearDownClass(cls):
        cls.house.__exit__()

    def test_one_request_is_never_two(self):
        smuggled = head("GET /v1/models HTTP/1.1", "Host: x", "Connection: close")
        chunk = b"1\r\nx\r\n0\r\n\r\n"
        to = f"POST {CHAT} HTTP/1.1"
        cases = [(head(to, "Host: x", f"Transfer-Encoding: {coding}") + chunk, status) for coding, status in (
            ("xchunked", 400), ("chunked, identity", 400), ("gzip", 400), ('"chunked"', 400), ("chunked, chunked", 400), ("", 400),
            ("gzip, chunked", 501))]
        cases += [(head(to, "Host: x", *fields) + chunk, 400) for fields in (
            ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), ("Transfer-Encoding: chunked", "Content-Length: 1"),
            ("Content-Length: 1", "Content-Length: 1"), ("Content-Length: 1, 1",), ("Content-Length: +1",), ("Content-Length: -1",),
            ("Content-Length: 99999999999999999999",), ("Content-Length : 1",), ("A: b", " c: d"), ("A: b\rC: d",), ("A: b\0",))]
        cases += [(head(to, "Host: x", "Transfer-Encoding: chunked") + data, 400) for data in (
            b"1;a\nb\r\nx\r\n0\r\n\r\n", b"0x1\r\nx\r\n0\r\n\r\n", b"1\nx\n0\n\n", b"1\r\nxy\r\n0\r\n\r\n", b"0\r\nA : b\r\n\r\n")]
        cases += [(head(line, *hosts), status) for line, hosts, status in (
            ("GET /health HTTP/1.1", (), 400), ("GET /health HTTP/1.1", ("Host: x", "Host: x"), 400),
            ("GET /health HTTP/1.1", ("Host: a b",), 400), ("GET x:80 HTTP/1.1", ("Host: x",), 400),
            ("CONNECT x:80 HTTP/1.1", ("Host: x",), 501), ("GET /health HTTP/2.0", ("Host: x",), 505),
            ("GET /health HTTX/1.1", ("Host: x",), 400), ("GET /health", ("Host: x",), 400))]
        cases += [(head(to.replace("1.1", "1.0"), "Transfer-Encoding: chunked") + chunk, 400), (b"GET / HTTP/1.1\nHost: x\n\n", 400)]
        for door in self.doors:
            for data, status in cases:
                reply = said_to(door, data + smuggled)
                self.assertTrue(reply.startswith(f"HTTP/1.1 {status} "), (data, reply))
                self.assertEqual(len(re.findall(r"HTTP/1.1 \d{3} ", reply)), 1, (data, reply))
                self.assertIn("Connection: close", reply)
                json.loads(reply.split("\r\n\r\n", 1)[1])

    def test_whatever_form_the_target_has(self):
        for door in self.doors:
            for target in ("/v1/models", "/models", "http://localhost/v1/models", "/v1/models?a=b"):
                reply = said_to(door, head(f"GET {target} HTTP/1.1", "Host: x", "Connection: close"))
                self.assertTrue(reply.startswith("HTTP/1.1 200 "), (target, reply))
                self.assertIn('"nano"', reply)
                self.assertRegex(reply, r"\r\nDate: \w{3}, \d{2} \w{3} \d{4} [0-9:]{8} GMT\r\n")
            star = said_to(door, head("OPTIONS * HTTP/1.1", "Host: x", "Connection: close"))
            self.assertTrue(star.startswith("HTTP/1.1 204 "), star)
            self.assertIn("Allow: ", star)
            reply = said_to(door, post("/chat/completions", ASK, "Connection: close"))
            self.assertTrue(reply.startswith("HTTP/1.1 200 "), reply)
            self.assertIn('path="/v1/chat/completions",status="200"', door.request("GET", "/metrics")[2])
            self.assertNotIn('path="/chat/completions"', door.request("GET", "/metrics")[2])

    def test_clients_of_http_1_0(self):
        for door in self.doors:
            reply = said_to(door, post(CHAT, {**ASK, "stream": True}, version="HTTP/1.0"))
            top, body = reply.split("\r\n\r\n", 1)
            self.assertNotIn("Transfer-Encoding", top)
            self.assertTrue(body.startswith("data: ") and body.endswith("data: [DONE]\n\n"), body)

    def test_what_the_body_is_coded_as(self):
        for door in self.doors:
            reply = said_to(door, post(CHAT, ASK, "Content-Encoding: gzip"))
            self.assertTrue(reply.startswith("HTTP/1.1 415 "), reply)
            self.assertIn("Accept-Encoding: identity", reply)
            for kind, status in (("text/plain", 415), ("application/x-www-form-urlencoded", 200)):  # the second is what curl -d sends
                reply = said_to(door, post(CHAT, ASK, f"Content-Type: {kind}", "Connection: close"))
                self.assertTrue(reply.startswith(f"HTTP/1.1 {status} "), reply)

    def test_web_pages_of_others_get_no_work_done(self):
        for door in self.doors:
            before = metric(self.house.doors[0], "numoe_prefix_cache_query_tokens_total")
            for fields in (("Origin: https://evil.example",), ("Origin: null",), ("Sec-Fetch-Site: cross-site",)):
                reply = said_to(door, post(CHAT, ASK, "Content-Type: text/plain", *fields))
                self.assertTrue(reply.startswith("HTTP/1.1 403 "), reply)
                self.assertNotIn("Access-Control-Allow-Origin", reply)
            rebound = said_to(door, head("GET /v1/models HTTP/1.1", "Host: evil.example", "Connection: close"))
            self.assertTrue(rebound.startswith("HTTP/1.1 421 "), rebound)
            self.assertEqual(metric(self.house.doors[0], "numoe_prefix_cache_query_tokens_total"), before)
            reply = said_to(door, post(CHAT, ASK, "Origin: http://localhost:3000", "Connection: close"))
            self.assertIn("Access-Control-Allow-Origin: http://localhost:3000", reply)
            self.assertTrue(reply.startswith("HTTP/1.1 200 "), reply)

    def test_who_only_stops_sending_gets_the_answer(self):
        for door in self.doors:
            for extra in ({}, {"stream": True}):
                with Line(door, post(CHAT, {**ASK, "max_tokens": 60, **extra}, "Connection: close")) as line:
                    line.socket.shutdown(socket.SHUT_WR)
                    reply = line.all()
                self.assertIn("HTTP/1.1 200 OK", reply)
                self.assertTrue("data: [DONE]" in reply if extra else '"finish_reason"' in reply, reply)

    def test_who_leaves_stops_the_computation_whatever_was_asked(self):
        for door in self.doors:
            for extra in ({}, {"stream": True}):
                line = Line(door, post(CHAT, {**ASK, **ENDLESS, **extra}))
                running = lambda: sum(metric(one, "numoe_requests_running") for one in self.house.doors)
                until("it runs", lambda: running() == 1)
                line.socket.close()
                until("nothing is computed for the client that disconnected", lambda: running() == 0)
        for door in self.house.doors:
            until_idle(door)

    def test_probes_that_go_well_are_not_in_the_log(self):
        for door in self.doors:
            for path in ("/health", "/metrics", "/version", "/ping"):
                self.assertEqual(door.request("GET", path)[0], 200)
            self.assertEqual(door.request("POST", "/ping")[0], 200)
            door.request("GET", "/nowhere-in-the-log")
        for log in (self.house.doors[1].daemon.log(), self.house.router.log()):
            self.assertNotRegex(log, r"path=/(metrics|version|ping) status=200")
        self.assertIn("path=/nowhere-in-the-log status=404", self.house.router.log())


class WhoIsReached(unittest.TestCase):
    def log_of(self, *flags):
        """What a router prints that was given no address."""
        with Cluster(BIN, routing.TRAINED) as cluster:
            router = Daemon("router", [f"{BIN}/numoe-router", "--backends", f"http://127.0.0.1:{cluster.port}", "--port", "0",
                                       *flags], cluster.folder)
            router.start()
            try:
                until(router.log, lambda: "serving " in router.log())
                return router.log()
            finally:
                router.stop(signal.SIGKILL)

    def test_without_keys_only_this_host(self):
        log = self.log_of()
        self.assertRegex(log, r"on 127\.0\.0\.1:[0-9]+, which only this host reaches; --host 0\.0\.0\.0")
        log = self.log_of("--api-key", "k")
        self.assertRegex(log, r"on 0\.0\.0\.0:[0-9]+\n")

    def test_a_signal_that_comes_as_the_server_is_ready_drains(self):
        for _ in range(5):
            with Cluster(BIN, routing.TRAINED) as cluster:
                cluster.coordinator.process.send_signal(signal.SIGTERM)
                self.assertEqual(cluster.coordinator.process.wait(60), 0, cluster.coordinator.log()[-2000:])
                for worker in cluster.workers:
                    worker.process.send_signal(signal.SIGTERM)
                self.assertEqual([worker.process.wait(60) for worker in cluster.workers], [0, 0])
                self.assertIn("draining", cluster.coordinator.log())
