"""Controls a program on a pseudo terminal as a person would: it types, and waits for output. Standard library only."""
import os
import pty
import select
import signal
import time


class Terminal:
    """`argv` on a terminal of its own, which is also its controlling terminal, so that Ctrl-C reaches it."""

    def __init__(self, argv, environment=None):
        self.seen = ""  # all output so far
        self.read_to = 0  # how much of it expect() has passed
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, {**os.environ, "TERM": "xterm", **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text, seconds=60):
        """Waits until `text` appears after what was expected before; -> the output before it."""
        deadline = time.monotonic() + seconds
        while text not in self.seen[self.read_to:]:
            if not self.read(deadline):
                raise AssertionError(f"{text!r} did not appear; seen: {self.seen[-2000:]!r}")
        end = self.seen.index(text, self.read_to)
        before, self.read_to = self.seen[self.read_to:end], end + len(text)
        return before

    def wait(self, seconds=20):
        """-> the exit code."""
        deadline = time.monotonic() + seconds
        while self.read(deadline):
            pass
        ended, status = 0, 0
        while ended == 0:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended == 0 and time.monotonic() > deadline:
                raise AssertionError(f"the program did not end within {seconds} s; seen: {self.seen[-2000:]!r}")
            time.sleep(0.01)
        self.pid = None
        return os.waitstatus_to_exitcode(status)

    def read(self, deadline):
        ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
        try:
            piece = os.read(self.fd, 65536) if ready else b""
        except OSError:  # the program has closed its side
            piece = b""
        self.seen += piece.decode("utf-8", "replace")
        return bool(piece)
