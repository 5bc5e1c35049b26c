"""TCP ports for the daemons of tests. Standard library only.

Ports are chosen outside of the kernel's ephemeral range. A port inside it (such as bind to port 0 gives) may become the
source port of any connection between its choice here and the daemon's own bind. If the range has nearly all ports, as on some
tuned servers, a port inside it is used.
"""
import random
import socket

_PORTS = range(10000, 65536)
_ENOUGH = 1000
_reserved = []  # while this process lives, no other test process is given the same ports


def _candidates():
    """-> the ports from which free ones are chosen."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first, last = map(int, f.read().split())
    outside = [port for port in _PORTS if not first <= port <= last]
    return outside if len(outside) >= _ENOUGH else _PORTS


def _reserve(port):
    """-> whether the port is free and is now reserved by this process; other processes see an abstract socket of its name."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0numoe-test-port-{port}")
        with socket.socket() as s:
            s.bind(("127.0.0.1", port))
    except OSError:
        name.close()
        return False
    _reserved.append(name)
    return True


def free_ports(count):
    """-> the first of `count` consecutive free TCP ports of 127.0.0.1."""
    candidates = _candidates()
    allowed = set(candidates)
    for _ in range(1000):
        first = random.choice(candidates)
        if all(port in allowed and _reserve(port) for port in range(first, first + count)):
            return first
    raise RuntimeError(f"no {count} consecutive free ports of 127.0.0.1 were found from {_PORTS.start} on")


def free_port():
    """-> a free TCP port of 127.0.0.1."""
    return free_ports(1)
