"""Checks which sources of the product have a test of the same name, so that a developer who changes X/Y.cc finds its test at once.

The test of X/Y.cc is tests/unit/X/Y_test.cc, or Y_test.cc of a folder of tests/unit above that (one program of tests may
serve several folders). If X/Y.h exists, the test includes it, because it would otherwise test something else.

Two kinds of sources are not counted: programs (main.cc, *_main.cc, which tests/e2e runs), and sources that compile an algorithm for
one instruction set (*_scalar.cc, *_avx2.cc, ..., because one test runs all of them).

check(tidy) compares the share with the number in pairs.txt, which may only grow; table(tidy) prints it room by room.
"""
import os
import re

PAIRS = "tests/tidy/pairs.txt"
ROOMS = ("common/", "coordinator/", "expert_worker/")
NOT_COUNTED = re.compile(r"(^|/)(main|\w+_main|\w+_(scalar|avx2|avx512|amx))\.cc$")


def counted(tidy):
    return [f for f in tidy.code if f.startswith(ROOMS) and f.endswith(".cc") and not NOT_COUNTED.search(f)]


def test_of(tidy, path):
    """The test file of a source, or None."""
    folder, name = os.path.split(path)
    header = path.removesuffix(".cc") + ".h"
    while folder:
        test = f"tests/unit/{folder}/{name.removesuffix('.cc')}_test.cc"
        if test in tidy.code and (header not in tidy.code or f'#include "{header}"' in tidy.lines(test)):
            return test
        folder = os.path.dirname(folder)
    return None


def per_room(tidy):
    """{folder: (sources with a test of their name, sources without)}"""
    rooms = {}
    for path in counted(tidy):
        paired, unpaired = rooms.setdefault(os.path.dirname(path), ([], []))
        (paired if test_of(tidy, path) else unpaired).append(os.path.basename(path))
    return rooms


def totals(rooms):
    """(paired sources, all sources)"""
    paired = sum(len(paired) for paired, _ in rooms.values())
    return paired, paired + sum(len(unpaired) for _, unpaired in rooms.values())


def table(tidy):
    rooms = per_room(tidy)
    rows = [(room, len(paired), len(paired) + len(unpaired), " ".join(unpaired)) for room, (paired, unpaired) in sorted(rooms.items())]
    rows.append(("all", *totals(rooms), ""))
    return [f"{room:36}{paired:4} of {count:3} {100 * paired // count:4} %  {unpaired}".rstrip() for room, paired, count, unpaired in rows]


def check(tidy):
    rows = [(number, row) for number, row in enumerate(tidy.lines(PAIRS), 1) if row.strip() and not row.startswith("#")]
    if len(rows) != 1 or not rows[0][1].isdigit():
        tidy.say(PAIRS, rows[0][0] if rows else 1, "expected one number, the percentage of sources with a test of their name")
        return
    line, least = rows[0][0], int(rows[0][1])
    paired, count = totals(per_room(tidy))
    share = 100 * paired // count if count else 0
    if share < least:
        tidy.say(PAIRS, line, f"{paired} of {count} sources of the product have a test of their name, {share} %, expected at least "
                              f"{least} %: tidy.py --pairs prints which have none")
    elif share > least:
        tidy.say(PAIRS, line, f"{share} % of the product's sources have a test of their name: raise the number from {least}")
