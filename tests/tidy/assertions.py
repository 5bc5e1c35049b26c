"""Counts the assertions in every 1000 lines of each room of the product: NUMOE_CHECK, NUMOE_DCHECK and static_assert.

A line of code is neither blank nor a comment alone. Every room has at least SHARE assertions in 1000 lines, except those of
assertions.txt, which may not fall below their number there. SLACK lines of a room need no assertion, so that a small change does not
need one at once. check(tidy, edges) reports findings through tidy.say. Code asserts what no input can violate; input from outside
gets an error instead (common/base/check.h).

Prints the table of all rooms. Usage: assertions.py [ROOT]
"""
import collections
import os
import re
import sys

SHARES = "tests/tidy/assertions.txt"
SHARE, SLACK = 15, 20
ROOMS = ("common/", "coordinator/", "expert_worker/", "proto/")
ASSERTION = re.compile(r"\b(?:NUMOE_D?CHECK(?:_[A-Z]{2})?|static_assert)\s*\(")
DEFINITION = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*", re.M)


class Count:
    def __init__(self):
        self.lines = self.assertions = 0

    @property
    def share(self):
        return 1000 * self.assertions / max(self.lines, 1)

    def add(self, lines, assertions):
        self.lines += lines
        self.assertions += assertions


def count(tidy, edges):
    """{room: Count} of the product's code; the definition of a macro counts as lines, and asserts nothing."""
    rooms = collections.defaultdict(Count)
    for path in tidy.code:
        if path.startswith(ROOMS):
            code = tidy.blank(path)
            rooms[tidy.room_of(edges, path)].add(sum(1 for line in code.splitlines() if line.strip()),
                                                 len(ASSERTION.findall(DEFINITION.sub("", code))))
    return rooms


def read(tidy):
    """{room: (share, line)} of assertions.txt."""
    entries = {}
    for number, row in enumerate(tidy.lines(SHARES), 1):
        if not row.strip() or row.startswith("#"):
            continue
        room, _, share = row.rpartition(" ")
        if not room or not share.isdigit() or int(share) >= SHARE:
            tidy.say(SHARES, number, f'"{row}": expected ROOM SHARE, with a whole number below {SHARE}')
            continue
        entries[room.strip()] = (int(share), number)
    return entries


def check(tidy, edges):
    rooms, entries = count(tidy, edges), read(tidy)
    for room, found in rooms.items():
        share, line = entries.get(room, (SHARE, 0))
        if 1000 * found.assertions < share * (found.lines - SLACK):
            tidy.say(room or ".", 1, f"{found.assertions} assertions in {found.lines} lines of code are {found.share:.2f} in 1000, "
                                     f"at least {share}: assert what the new code believes")
        elif line and found.share >= SHARE:
            tidy.say(SHARES, line, f"{room} has {found.share:.2f} assertions in 1000 lines now: remove its entry")
        elif line and found.share >= share + 1:
            tidy.say(SHARES, line, f"{room} has {found.share:.2f} assertions in 1000 lines now: raise its entry from {share}")
    for room in sorted(set(entries) - set(rooms)):
        tidy.say(SHARES, entries[room][1], f"{room} has no code: remove its entry")


def table(rooms):
    """The printed lines: a room's lines of code, assertions, and assertions in 1000 lines; then those of all rooms."""
    whole = Count()
    for found in rooms.values():
        whole.add(found.lines, found.assertions)
    rows = [f"{'room':26}   lines  assertions  in 1000 lines"]
    rows += [f"{room:26}  {found.lines:6}  {found.assertions:10}  {found.share:13.2f}"
             for room, found in [*sorted(rooms.items()), ("all", whole)]]
    return rows


def main():
    import tidy as house  # tidy.py imports this module

    tidy = house.Tidy(*(sys.argv[1:] or [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")]))
    print("\n".join(table(count(tidy, tidy.read_layers()))))


if __name__ == "__main__":
    main()
