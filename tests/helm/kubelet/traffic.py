"""What clients see of a release: short requests one after another, and long streams, while the release is changed."""
import http.client
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "deploy"))
from client import TEXT, Server, Stream  # noqa: E402

QUESTION = {"messages": [{"role": "user", "content": "What is 84 * 3 / 2?"}], "temperature": 0}
ANSWER = "126"
PORT = 8080


def ask(server):
    return server.post("/v1/chat/completions", QUESTION)["choices"][0]["message"]["content"]


class Poller:
    """Sends short requests, from its start to its stop, as a client that does not retry."""

    def __init__(self, server):
        self.server, self.ok, self.failed = server, 0, []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.poll, daemon=True)

    def __enter__(self):
        self.thread.start()
        self.await_answers(3)
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def poll(self):
        while not self.ended.wait(0.1):
            try:
                status, _, text = self.server.request("POST", TEXT, {"prompt": "Count", "max_tokens": 4}, timeout=60)
            except (OSError, http.client.HTTPException) as error:
                status, text = 0, repr(error)
            if status == 200:
                self.ok += 1
            else:
                self.failed.append(f"{time.strftime('%X')} {status} {text[:200]}")

    def await_answers(self, count, seconds=60):
        """Waits for that many further answers."""
        wanted, end = self.ok + count, time.monotonic() + seconds
        while self.ok < wanted:
            if time.monotonic() > end:
                raise AssertionError(f"{self.ok} answers, not {wanted} after {seconds} s; {self.failed[:3]}")
            time.sleep(0.05)


class Streams:
    """Runs long streams one after another until its end; each has to be complete."""

    def __init__(self, server, expected, tokens=Stream.TOKENS):
        self.server, self.expected, self.tokens = server, expected, tokens
        self.whole, self.broken = 0, []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def read(self):
        while not self.ended.is_set():
            try:
                text = Stream(self.server, tokens=self.tokens).result(180)
                if text != self.expected:
                    raise AssertionError(f"another text: {text[:80]!r}..., expected {self.expected[:80]!r}...")
                self.whole += 1
            except AssertionError as error:
                self.broken.append(f"{time.strftime('%X')} {error}")


def server(address):
    return Server(address, PORT)
