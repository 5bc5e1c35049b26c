"""Prints the tests that were skipped by a Python test runner, and decides which of these skips are failures.

A reason that begins with "not installed" or "not built" names something that this machine could have. With NUMOE_REQUIRE=1
(which the gate in CI sets) such a skip is a failure. Any other reason names hardware, a kernel or privileges that the
machine lacks, and remains a skip. tests/support/test_main.cc does the same for GoogleTest.

As a program: skips.py MODULE...   runs the modules' tests like `python3 -m unittest` in the current folder.
"""
import os
import sys
import unittest

AVOIDABLE = ("not installed", "not built")


def required():
    return os.environ.get("NUMOE_REQUIRE") == "1"


def status_of(name, reason):
    """Prints that NAME was skipped; -> the exit status for this skip alone."""
    reason = " ".join(reason.split())
    print(f"SKIPPED {name}: {reason}", file=sys.stderr)
    if not (required() and reason.startswith(AVOIDABLE)):
        return 0
    print(f"{name} may not be skipped where NUMOE_REQUIRE=1 is set.", file=sys.stderr)
    return 1


def finish(result):
    """Prints a line for every skipped test of a unittest result; -> the exit status of the run."""
    sys.stdout.flush()
    statuses = [status_of(test.id().removeprefix("__main__."), reason) for test, reason in result.skipped]
    return 1 if any(statuses) or not result.wasSuccessful() else 0


def main():
    sys.path.insert(0, os.getcwd())
    return finish(unittest.main(module=None, argv=["skips.py", *sys.argv[1:]], exit=False).result)


if __name__ == "__main__":
    sys.exit(main())
