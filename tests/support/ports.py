"""TCP ports for the daemons of tests. Standard library only.

A port is drawn from outside the kernel's ephemeral range: a port inside it (what bind to port 0 gives) may be taken as
the source port of anybody's connection between its choice here and the daemon's own bind. Where the range is nearly
everything, as on some tuned servers, a port inside it has to do.
"""
import random
import socket

_PORTS = range(10000, 65536)
_ENOUGH = 1000
_reserved = []  # while this process lives, no other test process is given the same ports


def _candidates():
    """-> the ports to draw from."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first, last = map(int, f.read().split())
    outside = [port for port in _PORTS if not first <= port <= last]
    return outside if len(outside) >= _ENOUGH else _PORTS


def _reserve(port):
    """-> whether port is free and now this process's; other processes see the name of an abstract socket."""
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
