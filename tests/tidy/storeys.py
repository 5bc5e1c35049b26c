"""Checks the storeys: a folder of coordinator/ has a namespace of its own, and no storey depends on one that depends on it.

A storey is a folder of coordinator/: a room of layers.txt, or a folder of such rooms. Its code is in the namespace numoe::STOREY or in
one below that; the code of expert_worker/ is in numoe::worker, and that of common/ in none of these. Every room may use
numoe::limits. The tests of a room are in the namespace of that room. check(tidy, edges) reports findings through tidy.say.
"""
import re

NAMESPACE = re.compile(r"^(?:inline )?namespace (numoe(?:::\w+)*) \{", re.M)
WORKER = "numoe::worker"
ANYWHERE = "numoe::limits"


def storey_of(room):
    """The first two folders of a coordinator's room; empty for other rooms, and for coordinator/ itself."""
    folders = room.split("/")
    return "/".join(folders[:2]) if folders[0] == "coordinator" and len(folders) > 1 else ""


def namespace_of(path):
    """The required namespace of a source file; None if it may have any."""
    path = path.removeprefix("tests/unit/")
    if path.startswith("expert_worker/"):
        return WORKER
    if path.startswith("coordinator/") and path.count("/") > 1:
        return "numoe::" + path.split("/")[1]
    return "numoe" if path.startswith("common/") else None


def is_within(namespace, outer):
    return namespace == outer or namespace.startswith(outer + "::")


def check_order(tidy, layers, edges):
    """Reports cycles among storeys; `edges` are the dependencies between rooms."""
    below = {}
    for room, targets in edges.items():
        storey = storey_of(room)
        if storey:
            below.setdefault(storey, set()).update(filter(None, (storey_of(target) for target in targets)))
            below[storey].discard(storey)
    done = set()

    def visit(storey, trail):
        if storey in trail:
            tidy.say(layers, 1, "cycle of storeys: " + " -> ".join([*trail[trail.index(storey):], storey]))
        elif storey not in done:
            for target in sorted(below.get(storey, ())):
                visit(target, [*trail, storey])
            done.add(storey)

    for storey in sorted(below):
        visit(storey, [])


def check_namespaces(tidy, edges):
    reserved = {WORKER, *("numoe::" + storey_of(room).split("/")[1] for room in edges if storey_of(room))}
    for path in tidy.code:
        expected = namespace_of(path)
        if expected is None:
            continue
        text = tidy.blank(path)
        for match in NAMESPACE.finditer(text):
            found = match[1]
            if found == ANYWHERE:
                continue
            line = text.count("\n", 0, match.start()) + 1
            if not is_within(found, expected):
                tidy.say(path, line, f"namespace {found}: expected {expected}, or one below it (tests/tidy/storeys.py)")
            elif expected == "numoe" and any(is_within(found, storey) for storey in reserved):
                tidy.say(path, line, f"namespace {found} is a storey's: expected numoe (tests/tidy/storeys.py)")


def check(tidy, layers, edges):
    check_order(tidy, layers, edges)
    check_namespaces(tidy, edges)
