"""What other processes of this host, and workers that come back with other settings, can do to running daemons."""
import array
import fcntl
import json
import mmap
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import unittest

from daemons import START_SECONDS, Cluster, stream_text, until
from supervision import LONG, MODEL, TEXT

ANOTHER, THIRD = 64996, 64995  # numbers of users that own no file of this host
GROUP = "64997"
SESSIONS_MAX = 16  # from common/transport/transport_limits.h
F_GET_SEALS, F_SEAL_FUTURE_WRITE = 1034, 0x10
REQUEST_MAILBOX = 64  # where the counters `published` and `awake` of the segment's first mailbox are; see common/transport/mailbox_segment.h
BIN = ""
ASK = {"prompt": "What is 84 * 3 / 2?", "temperature": 0, "max_tokens": 24, "ignore_eos": True}


def mailbox_of(pid):
    """The name of the abstract socket at which a worker hands out mailboxes."""
    ours = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            ours.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            continue  # it was closed meanwhile
    with open("/proc/net/unix", encoding="ascii") as f:
        for line in f:
            words = line.split()
            if words[-1].startswith("@numoe-mailbox-") and f"socket:[{words[6]}]" in ours and words[3] == "00010000":
                return words[-1][1:]
    raise AssertionError(f"process {pid} listens at no mailbox socket")


def receive_descriptor(connection):
    """-> the descriptor; raises ConnectionError if the worker closed the socket."""
    fds = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(fds.itemsize))
    if not data:
        raise ConnectionError("closed")
    for _, _, content in ancillary:
        fds.frombytes(content[:fds.itemsize])
    return fds[0]


def all_may_read(folder):
    """Whether processes of every user may run it, for which they need access to each folder above it."""
    while folder != os.path.dirname(folder):
        if os.stat(folder).st_mode & 0o005 != 0o005:
            return False
        folder = os.path.dirname(folder)
    return True


class Peer:
    """A session at a worker's mailbox socket, as this process's own user, with every byte of its segment in `memory`."""

    def __init__(self, name, attach=True):
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection.settimeout(60)
        self.connection.connect("\0" + name)
        try:
            fd = receive_descriptor(self.connection)
        except OSError:
            self.connection.close()
            raise
        self.memory = mmap.mmap(fd, os.fstat(fd).st_size)
        os.close(fd)
        if attach:
            self.connection.send(b"A")

    def close(self):
        self.connection.close()


def as_nobody(name):
    """What a process of another user receives at the mailbox socket: a line that begins with `segment` or `refused`."""
    code = ("import os, sys; sys.path.insert(0, sys.argv[1]); import host_peers\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "try:\n"
            "    host_peers.Peer(sys.argv[2], attach=False)\n"
            "    print('segment', os.getuid())\n"
            "except OSError as error:\n"
            "    print('refused', os.getuid(), error)\n")
    done = subprocess.run([sys.executable, "-c", code, os.path.dirname(os.path.abspath(__file__)), name], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sessions_of(process):
    """The number of a worker's threads that serve a mailbox session."""
    found = 0
    for task in os.listdir(f"/proc/{process.pid}/task"):
        try:
            with open(f"/proc/{process.pid}/task/{task}/comm", encoding="ascii") as f:
                found += f.read().strip() == "mailbox-session"
        except OSError:
            continue  # the thread ended meanwhile
    return found


class MailboxPeers(unittest.TestCase):
    """A worker and a coordinator that continue to answer with the same text whatever is done to the mailbox socket."""

    def setUp(self):
        self.cluster = Cluster(BIN, MODEL, workers=1, worker_flags=["--share-experts"], coordinator_flags=["--deterministic"])
        self.cluster.__enter__()
        self.addCleanup(self.cluster.__exit__, None, None, None)
        self.worker = self.cluster.workers[0]
        try:
            self.mailbox = mailbox_of(self.worker.process.pid)
        except PermissionError:
            self.skipTest("needs root to look into the worker's descriptors")
        self.expected = self.text()

    def text(self):
        return self.cluster.post(TEXT, ASK)["choices"][0]["text"]

    def assert_unharmed(self):
        self.assertIsNone(self.worker.process.poll(), self.worker.log()[-2000:])
        self.assertEqual(self.text(), self.expected)
        self.cluster.await_health("ready")

    def test_another_users_process_gets_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        for _ in range(3):
            self.assertRegex(as_nobody(self.mailbox), "^refused 65534")
        self.assertRegex(self.worker.log(), r"shared memory was refused, 1 times .*: the other end of the mailbox socket is process "
                                            r"\d+ of user 65534; expected user 0, root; run coordinator and workers as one user")
        self.assertEqual(sessions_of(self.worker.process), 1, "nothing was made for it")
        self.assert_unharmed()

    def test_forged_words_end_their_own_session_only(self):
        def word(at, value):
            return lambda memory: memory.__setitem__(slice(at, at + len(value)), value)
        length = REQUEST_MAILBOX + 128
        cases = {"pointers where locks once lay": [word(16, b"\x41" * 80)],
                 "a counter that runs ahead": [word(REQUEST_MAILBOX, struct.pack("<I", 77))],
                 "a length beyond the slot": [word(length, struct.pack("<Q", 1 << 40)), word(REQUEST_MAILBOX, struct.pack("<I", 1))],
                 "noise": [word(0, random.Random(1).randbytes(1 << 16))]}
        for what, forge in cases.items():
            with self.subTest(what):
                peer = Peer(self.mailbox)
                for write in forge:
                    write(peer.memory)
                self.assertEqual(peer.connection.recv(1), b"", "the worker ends this session")
                peer.close()
                peer = Peer(self.mailbox)
                for write in forge:
                    write(peer.memory)
                peer.close()  # this is what the peer does
                self.assert_unharmed()

    def test_sessions_are_bounded_and_end_with_their_processes(self):
        peers, refused = [], 0
        for _ in range(SESSIONS_MAX + 8):
            try:
                peers.append(Peer(self.mailbox))
            except ConnectionError:
                refused += 1
        self.assertEqual((len(peers), refused), (SESSIONS_MAX - 1, 9), "the coordinator has one of them")
        self.assertIn(f"{SESSIONS_MAX} coordinators are connected, expected at most {SESSIONS_MAX}", self.worker.log())
        for peer in peers[:2]:  # as if the peer lived for ever and kept the worker awake
            peer.memory[REQUEST_MAILBOX + 4:REQUEST_MAILBOX + 8] = struct.pack("<I", 1)
        self.assert_unharmed()
        for peer in peers:
            peer.close()  # the peer ends and leaves its memory mapped, with what it wrote there
        until("all of them are gone", lambda: sessions_of(self.worker.process) == 1)
        Peer(self.mailbox).close()
        self.assert_unharmed()

    def test_shared_weights_can_be_read_and_not_written(self):
        peer = Peer(self.mailbox, attach=False)
        peer.connection.send(b"E")
        weights = receive_descriptor(peer.connection)
        size = os.fstat(weights).st_size
        self.assertTrue(fcntl.fcntl(weights, F_GET_SEALS) & F_SEAL_FUTURE_WRITE)
        with self.assertRaises(PermissionError):
            mmap.mmap(weights, size)
        with self.assertRaises(PermissionError):
            os.pwrite(weights, b"\x5a" * 4096, 0)
        with self.assertRaises(OSError):
            os.ftruncate(weights, 0)
        self.assertTrue(any(mmap.mmap(weights, size, prot=mmap.PROT_READ)[:4096]), "they are there to be read")
        os.close(weights)
        peer.close()
        self.assert_unharmed()


class ReturningWorkers(unittest.TestCase):
    """A worker that is replaced by one that does not fit is treated as missing, and /health says why."""

    def test_another_slice_is_never_used(self):
        with Cluster(BIN, MODEL, coordinator_flags=["--deterministic", "--worker-deadline-ms", "1000"]) as cluster:
            expected = cluster.post(TEXT, ASK)["choices"][0]["text"]
            worker = cluster.workers[0]
            right = list(worker.argv)
            other = cluster.addresses.split(",")[1]
            index = right.index("--worker-index") + 1
            twin = [*right[:index], "1", *right[index + 1:]]
            for argv, words in ((twin, f"it is slice 1 of 2, which worker {other} serves already"),
                                ([*right, "--slice", "expert"], "--slice=expert, expected --slice=intermediate")):
                worker.stop(signal.SIGKILL)
                worker.argv = argv
                worker.start()

                def says_why(words=words):
                    return words in cluster.await_health("degraded")["detail"]
                until(cluster.coordinator.log, says_why)
                status, _, text = cluster.request("POST", TEXT, ASK)
                self.assertEqual(status, 503, text)
                self.assertIn(words, json.loads(text)["error"]["message"])
                self.assertIsNone(cluster.coordinator.process.poll())
                self.assertEqual(len(re.findall("is not used: .*" + re.escape(words), cluster.coordinator.log())), 1, "it is said once")
                worker.stop(signal.SIGKILL)
                worker.argv = right
                worker.start()
                cluster.await_health("ready")
                self.assertEqual(cluster.post(TEXT, ASK)["choices"][0]["text"], expected)

    def test_a_stopped_worker_is_noticed_while_nobody_asks_anything(self):
        with Cluster(BIN, MODEL, coordinator_flags=["--deterministic"]) as cluster:
            expected = stream_text(cluster.stream(TEXT, LONG))
            worker = cluster.workers[0].process
            worker.send_signal(signal.SIGSTOP)
            detail = cluster.await_health("degraded")["detail"]
            self.assertIn(cluster.addresses.split(",")[0], detail)
            self.assertIn("no sign of life for 5000 ms", cluster.coordinator.log())
            worker.send_signal(signal.SIGCONT)
            cluster.await_health("ready")
            self.assertEqual(stream_text(cluster.stream(TEXT, LONG)), expected)

    def test_a_worker_that_is_stopped_in_a_call_loses_the_call_long_before_its_deadline(self):
        with Cluster(BIN, MODEL, coordinator_flags=["--deterministic"]) as cluster:
            expected = stream_text(cluster.stream(TEXT, LONG))
            worker = cluster.workers[0].process

            def hang(events):
                if events == 10:
                    worker.send_signal(signal.SIGSTOP)
                    cluster.await_health("degraded")
                    worker.send_signal(signal.SIGCONT)
            self.assertEqual(stream_text(cluster.stream(TEXT, LONG, hang, 300)), expected)
            log = cluster.coordinator.log()
            self.assertIn("no sign of life for 5000 ms", log)
            self.assertNotIn("no answer through shared memory for", log)


class SilentCoordinators(unittest.TestCase):
    """A stopped coordinator keeps its sockets open; its worker keeps the mailbox only for the time that a coordinator may be silent."""

    def test_a_stopped_coordinators_mailbox_session_ends_and_begins_anew(self):
        with Cluster(BIN, MODEL, workers=1, coordinator_flags=["--deterministic"]) as cluster:
            expected = cluster.post(TEXT, ASK)["choices"][0]["text"]
            worker, coordinator = cluster.workers[0], cluster.coordinator.process
            self.assertEqual(sessions_of(worker.process), 1)
            coordinator.send_signal(signal.SIGSTOP)
            until("its session is gone", lambda: sessions_of(worker.process) == 0)
            coordinator.send_signal(signal.SIGCONT)
            self.assertIn("gave no sign of life for 10000 ms", worker.log())
            until("it has another", lambda: sessions_of(worker.process) == 1)
            cluster.await_health("ready")
            self.assertEqual(cluster.post(TEXT, ASK)["choices"][0]["text"], expected)


def as_user(user):
    return ["setpriv", "--reuid", str(user), "--regid", str(user), "--groups", GROUP]


class TwoUsers(unittest.TestCase):
    """A worker (of root by default) and a coordinator of another user share memory only if both are given a group."""

    def cluster(self, *flags, worker_user=0, network=True):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        program = [*as_user(ANOTHER), os.path.join(BIN, "numoe-coordinator"), "--version"]
        if subprocess.run(program, capture_output=True).returncode != 0 or not all_may_read(MODEL):
            self.skipTest("another user may not read this folder")
        cluster = Cluster(BIN, MODEL, workers=1, network=network, worker_flags=flags, coordinator_flags=flags)
        os.chmod(cluster.folder, 0o777)  # for the port file and the socket
        cluster.coordinator.argv[:0] = as_user(ANOTHER)
        if worker_user:
            cluster.workers[0].argv[:0] = as_user(worker_user)
        self.addCleanup(cluster.__exit__, None, None, None)
        return cluster

    def test_without_a_group_they_speak_grpc_and_both_say_why(self):
        with self.cluster() as cluster:
            cluster.post(TEXT, ASK)
            self.assertIn("layer calls go through gRPC, which is slower, because shared memory is not available: the worker closed the "
                          "mailbox socket", cluster.coordinator.log())
            self.assertIn(f"of user {ANOTHER}; expected user 0, root;", cluster.workers[0].log())

    def test_with_a_group_of_both_they_share_memory(self):
        with self.cluster("--shared-memory-group", GROUP) as cluster:
            cluster.post(TEXT, ASK)
            self.assertIn("through shared memory", cluster.coordinator.log())

    def test_over_a_socket_file_the_group_alone_gets_in(self):
        for worker_user in (0, THIRD):
            with self.subTest(worker_user=worker_user), \
                    self.cluster("--shared-memory-group", GROUP, worker_user=worker_user, network=False) as cluster:
                cluster.post(TEXT, ASK)
                self.assertIn("through shared memory", cluster.coordinator.log())
                path = os.path.join(cluster.folder, "worker0.sock")
                info = os.stat(path)
                self.assertEqual((info.st_uid, info.st_gid, info.st_mode & 0o7777), (worker_user, int(GROUP), 0o660))
                connect = ("import socket, sys\n"
                           "socket.socket(socket.AF_UNIX).connect(sys.argv[1])")
                stranger = ["setpriv", "--reuid", str(ANOTHER), "--regid", str(ANOTHER), "--clear-groups"]
                for who, code in ((as_user(ANOTHER), 0), (stranger, 1)):
                    done = subprocess.run([*who, sys.executable, "-c", connect, path], capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("PermissionError", done.stderr)

    def test_a_worker_outside_the_group_is_refused_before_it_loads(self):
        cluster = self.cluster("--shared-memory-group", str(THIRD), worker_user=ANOTHER, network=False)
        worker = cluster.workers[0]
        worker.start()
        self.assertEqual(worker.process.wait(START_SECONDS), 2)
        self.assertIn(f"cannot be given to group {THIRD}", worker.log())
        self.assertNotIn("memory plan", worker.log())

    def test_another_users_worker_that_offers_no_memory_is_not_used_either(self):
        """The socket file is in a folder in which every user may create files."""
        cluster = self.cluster(worker_user=THIRD, network=False)
        worker = cluster.workers[0]
        worker.argv[:] = ["sh", "-c", 'umask 0; exec "$@"', "sh", *worker.argv, "--no-shared-memory"]
        for daemon in (worker, cluster.coordinator):
            daemon.start()
        self.assertEqual(cluster.coordinator.process.wait(START_SECONDS), 2)
        self.assertIn(f"its socket file belongs to user {THIRD}, expected user {ANOTHER} or root;", cluster.coordinator.log())

    def test_without_a_group_a_coordinator_does_not_use_another_users_worker(self):
        cluster = self.cluster(worker_user=THIRD)
        for daemon in (cluster.workers[0], cluster.coordinator):
            daemon.start()
        self.assertEqual(cluster.coordinator.process.wait(START_SECONDS), 2)
        self.assertRegex(cluster.coordinator.log(), rf"worker \S+ is not used: the other end of the mailbox socket is process \d+ of "
                                                    rf"user {THIRD}; expected user {ANOTHER}, root;.* --data-path=grpc, which shares no memory")
        cluster.coordinator.argv += ["--data-path", "grpc"]
        cluster.coordinator.start()
        cluster.await_health("ready")
        cluster.post(TEXT, ASK)
        self.assertIn("through gRPC", cluster.coordinator.log())
