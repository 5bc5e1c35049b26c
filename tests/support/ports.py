"""TCP ports for the daemons of tests. Standard library only.

A port is drawn from below the kernel's ephemeral range: a port inside it (what bind to port 0 gives) may be taken as
the source port of anybody's connection between its choice here and the daemon's own bind.
"""
import random
import socket

_FIRST = 10000
_reserved = []  # while this process lives, no other test process is given the same ports


def _ephemeral_from():
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        return int(f.read().split()[0])


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
    end = _ephemeral_from() - count
    if end <= _FIRST:
        raise RuntimeError(f"the ephemeral ports of this machine begin at {end + count}; expected above {_FIRST + count}, "
                           "so that tests can listen below them: set net.ipv4.ip_local_port_range")
    for _ in range(1000):
        first = random.randrange(_FIRST, end)
        if all(_reserve(port) for port in range(first, first + count)):
            return first
    raise RuntimeError(f"no {count} consecutive free ports were found between {_FIRST} and {end + count}")


def free_port():
    """-> a free TCP port of 127.0.0.1."""
    return free_ports(1)
