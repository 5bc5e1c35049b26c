"""Two coordinators that share their expert workers, behind numoe-router."""
import concurrent.futures
import http.client
import json
import os
import re
import signal
import subprocess
import time
import unittest

from daemons import Cluster, Daemon, START_SECONDS, free_port, metric, stream_text

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
TRAINED = os.path.join(ROOT, "deploy/models/nano")
CHAT = "/v1/chat/completions"
BIN = ""
# The number of sequences in a step must not change an answer, otherwise answers could not be compared.
FLAGS = ("--deterministic", "--threads", "1", "--drain-timeout-ms", "300000")
ENDLESS = {"max_tokens": 3500, "ignore_eos": True}  # seconds that it takes even on an idle machine


class Door(Cluster):
    """The port of one daemon, with the requests of a Cluster."""

    def __init__(self, daemon, port_file, address="127.0.0.1"):
        self.daemon, self.port_file, self.address, self.certificate = daemon, port_file, address, None

    def connect(self, timeout):
        return http.client.HTTPConnection(self.address, self.port, timeout=timeout)


class House(Cluster):
    """Two workers, two coordinators that both use them - one by shared memory, one by gRPC - and a router."""
    ready_at_start = [True, True]

    def __init__(self, router_flags=()):
        super().__init__(BIN, TRAINED, coordinator_flags=FLAGS)
        self.router_flags = router_flags
        self.doors = [Door(self.coordinator, self.port_file)]
        self.port_file = os.path.join(self.folder, "router-port")
        second = os.path.join(self.folder, "second-port")
        self.doors.append(Door(Daemon("second", [
            os.path.join(BIN, "numoe-coordinator"), "--model", TRAINED, "--workers", self.addresses, "--host", "127.0.0.1",
            "--port", "0", "--port-file", second, "--data-path", "grpc", *FLAGS], self.folder), second))
        self.router = None

    def __enter__(self):
        try:
            for daemon in [*self.workers, *(door.daemon for door in self.doors)]:
                daemon.start()
            self.wait_for(lambda: all(os.path.exists(door.port_file) for door in self.doors))
            self.urls = [f"http://127.0.0.1:{door.port}" for door in self.doors]
            self.router = Daemon("router", self.router_argv(",".join(self.urls)), self.folder)
            self.router.start()
            self.wait_for(lambda: os.path.exists(self.port_file))
            self.await_backends(self.ready_at_start)
        except BaseException:
            self.__exit__()
            raise
        return self

    def router_argv(self, backends):
        return [os.path.join(BIN, "numoe-router"), "--backends", backends, "--host", "127.0.0.1", "--port", "0", "--port-file",
                self.port_file, *self.router_flags]

    def __exit__(self, *_):
        for daemon in [self.router, *(door.daemon for door in self.doors)]:
            if daemon is not None and daemon.process is not None:
                daemon.process.kill()
                daemon.process.wait()
        super().__exit__()

    def wait_for(self, condition):
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "\n".join(
                d.log()[-1500:] for d in [self.router, *(door.daemon for door in self.doors)] if d is not None)
            time.sleep(0.02)

    def await_backends(self, ready):
        self.wait_for(lambda: [b["ready"] for b in json.loads(self.request("GET", "/health")[2])["backends"]] == ready)

    def talks(self):
        """The numbers of tokens that each coordinator has been asked to compute."""
        return [metric(door, "numoe_prefix_cache_query_tokens_total") for door in self.doors]

    def start_again(self, index):
        """Starts it again at the port that it had."""
        door = self.doors[index]
        port = str(door.port)
        door.daemon.argv[door.daemon.argv.index("--port") + 1] = port
        door.daemon.start()
        self.await_backends([True, True])


# Runs a program with another file in place of /etc/hosts, by a mount that no other process sees.
WITH_NAMES = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"')


def why_no_names():
    """-> the reason why a program cannot have its own names here, or ''."""
    done = subprocess.run([*WITH_NAMES, "/etc/hosts", "true"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no mount namespaces: {done.stderr.strip()}"


class NamedHouse(House):
    """The coordinators have the same port at two addresses. The router knows them by a name with as many addresses as names() says."""
    ready_at_start = []

    def __init__(self):
        super().__init__(router_flags=["--dns-refresh-ms", "100"])
        self.names_file, shared_port = os.path.join(self.folder, "names"), str(free_port())
        self.names()
        for door, door.address in zip(self.doors, ("127.0.0.2", "127.0.0.3")):
            argv = door.daemon.argv
            argv[argv.index("--host") + 1], argv[argv.index("--port") + 1] = door.address, shared_port

    def names(self, *doors):
        """Writes the names into the same file, because that one is mounted."""
        with open(self.names_file, "w", encoding="ascii") as f:
            f.write("127.0.0.1 localhost\n" + "".join(f"{door.address} coordinators\n" for door in doors))

    def router_argv(self, _):
        argv = super().router_argv(f"dns+http://coordinators:{self.doors[0].port}")
        return [*WITH_NAMES, self.names_file, *argv]

    def series(self):
        """The backends whose metrics say whether they are up."""
        return set(re.findall(r'numoe_router_backend_up\{backend="http://([0-9.]+):', self.request("GET", "/metrics")[2]))


def ask(messages, **extra):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return {"messages": messages, "temperature": 0, "max_tokens": 60, **extra}


def text_of(reply):
    message = reply["choices"][0]["message"]
    return (message.get("reasoning_content") or "") + "|" + (message.get("content") or "")


def place_of(house, body):
    """Which coordinator computes a request that is sent through the router."""
    before = house.talks()
    reply = house.post(CHAT, body)
    grown = [after - was for was, after in zip(before, house.talks())]
    assert sorted(grown)[0] == 0 < sorted(grown)[1], grown
    return grown.index(max(grown)), reply


class OpenStream:
    """A streamed answer that is read while the test continues."""

    def __init__(self, cluster, body, headers=None):
        self.connection = cluster.connect(60)
        self.connection.request("POST", CHAT, json.dumps({**body, "stream": True}),
                                {"Content-Type": "application/json", **(headers or {})})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        self.events = []

    def close(self):
        self.response.close()
        self.connection.close()

    def read(self, count=None):
        """Reads that many further events; without a number all until [DONE]."""
        while count is None or count > 0:
            line = self.response.readline().decode()
            assert line, "the stream broke off"
            if line.startswith("data: [DONE]"):
                self.close()
                return stream_text(self.events)
            if line.startswith("data: "):
                self.events.append(json.loads(line[6:]))
                count = None if count is None else count - 1
        return ""


class Routing(unittest.TestCase):
    """A healthy cluster for the tests that do not break it."""

    @classmethod
    def setUpClass(cls):
        cls.house = House()
        cls.house.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.house.__exit__()

    def test_both_coordinators_answer_alike_alone_and_together(self):
        questions = [f"What is {a} + {b}?" for a in (12, 31, 57) for b in (7, 26)]
        alone = {q: text_of(self.house.doors[0].post(CHAT, ask(q))) for q in questions}
        self.assertIn("38", alone["What is 12 + 26?"])
        jobs = [(door, q) for q in questions for door in (*self.house.doors, self.house)]
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:  # the workers serve both at the same time
            answers = list(pool.map(lambda job: text_of(job[0].post(CHAT, ask(job[1]))), jobs))
        for (_, question), answer in zip(jobs, answers):
            self.assertEqual(answer, alone[question], question)

    def test_a_conversation_stays_and_finds_its_prefix(self):
        places = []
        for name in ("Ada", "Grace", "Edsger", "Barbara"):
            # With deterministic steps prefixes that can be found again begin at multiples of 128 tokens, as the steps do.
            words = " ".join(f"{name} counts {n}." for n in range(60))
            talk = [{"role": "user", "content": f"My name is {name} and the door code is 4711. {words}"}]
            turns = []
            for question in ("What is the door code?", "What is my name?", "Who are you?"):
                place, reply = place_of(self.house, ask(talk))
                turns.append((place, reply["usage"]["prompt_tokens_details"]["cached_tokens"]))
                talk += [{"role": "assistant", "content": reply["choices"][0]["message"]["content"] or ""},
                         {"role": "user", "content": question}]
            self.assertEqual(len({place for place, _ in turns}), 1, turns)
            self.assertGreater(turns[-1][1], 0, turns)
            places.append(turns[0][0])
        self.assertEqual(set(places), {0, 1}, "new conversations spread")

    def test_metrics_say_who_got_what_and_why(self):
        self.house.post(CHAT, ask("Count to five, and then count to seven."))
        self.house.post(CHAT, ask("Count to five, and then count to seven."))
        text = self.house.request("GET", "/metrics")[2]
        self.assertRegex(text, r'numoe_router_requests_total\{backend="http://[^"]+",by="prefix"\} [1-9]')
        for url in self.house.urls:
            self.assertIn(f'numoe_router_backend_up{{backend="{url}"}} 1', text)
        self.assertRegex(text, r'numoe_http_requests_total\{path="/v1/chat/completions",status="200"\} [1-9]')

    def test_kept_answers_are_found_and_gone_on_from(self):
        kept = [self.house.post("/v1/responses", {"input": f"My name is {name}.", "max_output_tokens": 30})
                for name in ("Ada Lovelace, Countess", "Grace Hopper, Admiral")]
        for reply in kept:
            path = f"/v1/responses/{reply['id']}"
            self.assertEqual(json.loads(self.house.request("GET", path)[2])["id"], reply["id"])
            more = self.house.post("/v1/responses", {"input": "What is my name?", "max_output_tokens": 30,
                                                     "previous_response_id": reply["id"]})
            self.assertEqual(more["previous_response_id"], reply["id"])
            self.assertEqual(self.house.request("DELETE", path)[0], 200)
            self.assertEqual(self.house.request("GET", path)[0], 404)
        self.assertEqual(self.house.request("GET", "/v1/responses/resp_nobody")[0], 404)

    def test_an_abort_finds_its_request(self):
        stream = OpenStream(self.house, ask("Count to one hundred.", **ENDLESS),
                            {"X-Request-Id": "abort-me"})
        stream.read(3)
        self.assertEqual(self.house.post("/abort_request", {"rid": "abort-me"}), {"aborted": 1})
        stream.read()
        self.assertEqual(stream.events[-1]["choices"][0]["finish_reason"], "abort")

    def test_a_client_that_leaves_stops_the_coordinator(self):
        stream = OpenStream(self.house, ask("Count to one hundred.", **ENDLESS))
        stream.read(3)
        stream.close()
        self.house.wait_for(lambda: sum(metric(door, "numoe_requests_running") for door in self.house.doors) == 0)

    def test_lists_errors_and_the_page_come_through(self):
        models = json.loads(self.house.request("GET", "/v1/models")[2])["data"]
        self.assertEqual([m["id"] for m in models], ["nano"])
        self.assertEqual(len(json.loads(self.house.request("GET", "/server_info")[2])["internal_states"]), 2)
        status, headers, body = self.house.request("POST", CHAT, b"{", headers={"X-Request-Id": "mine"})
        self.assertEqual((status, headers["x-request-id"]), (400, "mine"))
        self.assertIn("not valid JSON", body)
        self.assertEqual(self.house.request("GET", CHAT)[0], 405)
        self.assertEqual(self.house.request("GET", "/nowhere")[0], 404)
        self.assertIn("<title>", self.house.request("GET", "/")[2])
        self.assertEqual(self.house.post("/tokenize", {"prompt": "a"})["count"], self.house.doors[0].post("/tokenize", {"prompt": "a"})["count"])


@unittest.skipIf(why_no_names(), why_no_names())
class RouterNames(unittest.TestCase):
    def test_coordinators_of_a_name_come_and_go_and_no_request_is_lost(self):
        with NamedHouse() as house:
            first, second = house.doors
            house.names(first)
            house.await_backends([True])
            stream = OpenStream(house, ask("Count to one hundred.", **ENDLESS), {"X-Request-Id": "long"})
            stream.read(2)
            house.names(first, second)
            house.await_backends([True, True])
            reply = house.post(CHAT, ask("What is 12 + 26?"))  # by load, so it goes to the coordinator that was added
            self.assertIn("38", text_of(reply))
            self.assertGreater(metric(second, "numoe_prefix_cache_query_tokens_total"), 0)
            self.assertEqual(house.series(), {first.address, second.address})
            house.names(second)  # the first one is removed: it finishes the requests that it has
            house.await_backends([False, True])
            self.assertIn("its running requests are finished", house.request("GET", "/health")[2])
            self.assertEqual(house.series(), {second.address}, "nobody is alarmed")
            stream.read(5)
            for n in range(5):
                self.assertEqual(house.request("POST", CHAT, ask(f"What is {n} + 1?", max_tokens=4))[0], 200)
            self.assertEqual(metric(first, "numoe_requests_running"), 1, "and gets nothing new")
            self.assertEqual(house.post("/abort_request", {"rid": "long"}), {"aborted": 1}, "it is still reached")
            stream.read()
            self.assertEqual(stream.events[-1]["choices"][0]["finish_reason"], "abort")
            house.await_backends([True])
            house.names()  # the name does not exist any more, so the router keeps the addresses that it knew
            house.wait_for(lambda: "its name is not known" in house.request("GET", "/health")[2])
            self.assertEqual(house.request("POST", CHAT, ask("Who are you?", max_tokens=4))[0], 200)
            house.names(first, second)
            house.await_backends([True, True])
            self.assertEqual(house.request("POST", CHAT, ask("Who are you?", max_tokens=4))[0], 200)


class RouterFaults(unittest.TestCase):
    LONG = {"max_tokens": 700, "ignore_eos": True}

    def test_a_coordinator_that_dies_takes_only_its_own_streams(self):
        with House() as house:
            questions = [ask(f"Count from {n} to one hundred, please.", **self.LONG) for n in ("three", "seventeen")]
            places = [place_of(house, {**q, "max_tokens": 1})[0] for q in questions]
            self.assertEqual(sorted(places), [0, 1])
            expected = stream_text(house.doors[places[0]].stream(CHAT, questions[0]))
            dying, staying = OpenStream(house, {**questions[1], **ENDLESS}), OpenStream(house, questions[0])
            staying.read(2)
            dying.read(2)
            house.doors[places[1]].daemon.stop(signal.SIGKILL)
            dying.read()  # a client that does not understand chunks notices that the answer is not complete
            self.assertEqual(dying.events[-1]["error"]["code"], "backend_lost")
            self.assertRegex(house.router.log(), r"status=200 ms=[0-9.]+ failure=backend http")
            self.assertEqual(staying.read(), expected)
            for _ in range(3):
                self.assertEqual(place_of_living(house, places[0], questions[1]), 200)
            house.await_backends([place == places[0] for place in (0, 1)])
            self.assertEqual(json.loads(house.request("GET", "/health")[2])["status"], "ready")
            house.start_again(places[1])
            self.assertEqual(house.request("POST", CHAT, ask("Who are you?"))[0], 200)

    def test_a_coordinator_that_drains_gets_no_more_and_nobody_is_refused(self):
        with House() as house:
            stream = OpenStream(house, ask("Count to one hundred.", **ENDLESS))
            stream.read(2)
            busy = [metric(door, "numoe_requests_running") for door in house.doors].index(1)
            house.doors[busy].daemon.process.send_signal(signal.SIGTERM)
            for n in range(20):
                status, _, body = house.request("POST", CHAT, ask(f"What is {n} + 1?", max_tokens=4))
                self.assertEqual(status, 200, body)
            stream.read()
            self.assertEqual(house.doors[busy].daemon.process.wait(60), 0)

    def test_the_router_ends_with_its_last_answer(self):
        with House() as house:
            stream = OpenStream(house, ask("Count to one hundred.", **self.LONG))
            stream.read(2)
            house.router.process.send_signal(signal.SIGTERM)
            stream.read()
            self.assertEqual(house.router.process.wait(60), 0)
            self.assertRegex(house.router.log(), re.compile("draining"))


def place_of_living(house, living, body):
    """The status of an answer of the only remaining coordinator."""
    before = metric(house.doors[living], "numoe_prefix_cache_query_tokens_total")
    status, _, text = house.request("POST", CHAT, {**body, "max_tokens": 4})
    assert metric(house.doors[living], "numoe_prefix_cache_query_tokens_total") > before, text
    return status
