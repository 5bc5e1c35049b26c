"""The tests of the chart on a real node, which run inside its namespaces: cases.py [TEST...]; run.py starts it."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "support")]
import names  # noqa: E402
import skips  # noqa: E402
from claim import OnAClaim  # noqa: E402,F401
from installed import Installed  # noqa: E402,F401
from node import Node  # noqa: E402
from pinned import Pinned  # noqa: E402,F401
from release import OnANode  # noqa: E402
from upgrades import Upgrades  # noqa: E402,F401


def main():
    with Node() as node:
        dns = names.Names(node)
        OnANode.node = node
        try:
            return skips.finish(unittest.main(argv=sys.argv, exit=False, verbosity=2).result)
        finally:
            dns.ended.set()


if __name__ == "__main__":
    sys.exit(main())
