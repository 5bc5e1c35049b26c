#!/usr/bin/env python3
"""Tests of what is deployed: images, pod, hosts, dashboards, units.

Usage: run.py --bin build/release/bin [--cuda-coordinator FILE --cuda TOOLKIT] [TEST...]
With NUMOE_REQUIRE=1 a test that is skipped because a program is not installed counts as failed.
"""
import argparse
import os
import signal
import sys
import traceback
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # these are for ip and iptables
import cuda_image  # noqa: E402
import hosts  # noqa: E402
import observability  # noqa: E402
import pod  # noqa: E402
import skips  # noqa: E402
import units  # noqa: E402
from cuda_image import TheCudaImage  # noqa: E402,F401
from hosts import TwoHosts, TwoHostsWithTls  # noqa: E402,F401
from observability import Rules, ScrapedDaemons, Words  # noqa: E402,F401
from pod import ThePod  # noqa: E402,F401
from units import SystemdUnits, UnitCommands  # noqa: E402,F401


def end_interrupted():
    """Runs the cleanups of its classes, which unittest does not do after an interruption."""
    for how in (signal.SIGINT, signal.SIGTERM):
        signal.signal(how, signal.SIG_IGN)
    for case in (c for c in list(globals().values()) if isinstance(c, type) and issubclass(c, unittest.TestCase)):
        case.doClassCleanups()
        for error in case.tearDown_exceptions:
            traceback.print_exception(*error)
    sys.exit("interrupted")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--cuda-coordinator", default="")
    parser.add_argument("--cuda", default="")
    options, rest = parser.parse_known_args()
    cuda_image.CUDA_COORDINATOR, cuda_image.TOOLKIT = os.path.abspath(options.cuda_coordinator), options.cuda
    pod.BIN = cuda_image.BIN = units.BIN = hosts.BIN = observability.BIN = os.path.abspath(options.bin)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(skips.finish(unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result))
    except KeyboardInterrupt:
        end_interrupted()
