"""Keeps the compile times that were won: who includes heavy headers, how many programs of tests there are (heavy.txt).

check(tidy) says what it finds through tidy.say. Numbers are ratchets: what exceeds one is said, and so is a number that the
tree has left behind, which must be lowered.
"""
import functools
import re

HEAVY = "tests/tidy/heavy.txt"
ROOMS = ("common/", "coordinator/", "expert_worker/", "proto/")
INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
PROGRAMS = ("numoe_tests", "numoe_fuzz")
IN_HEADERS = " in product headers"
LINES_MAX = "preprocessed-lines-max"


def read(tidy):
    """({header: (files, line)}, {name: (number, line)}) of heavy.txt; says which lines are neither."""
    users, numbers = {}, {}
    for number, row in enumerate(tidy.lines(HEAVY), 1):
        if not row.strip() or row.startswith("#"):
            continue
        row = row.partition("  #")[0].rstrip()
        header, colon, files = row.partition(": ")
        name, _, count = row.rpartition(" ")
        if colon and files.split():
            users[header] = ([] if files == "nobody" else files.split(), number)
        elif count.isdigit() and (name in (*PROGRAMS, LINES_MAX) or name.endswith(IN_HEADERS)):
            numbers[name] = (int(count), number)
        else:
            tidy.say(HEAVY, number, f'"{row}": expected HEADER: FILE..., HEADER{IN_HEADERS} N, or one of '
                                    f'{", ".join((*PROGRAMS, LINES_MAX))} and a number')
    return users, numbers


def is_of(include, header):
    return include.startswith(header) if header.endswith("/") else include == header


@functools.lru_cache(maxsize=None)
def includes(tidy, path):
    """[(line, header)] of a file."""
    found = ((number, INCLUDE.match(line)) for number, line in enumerate(tidy.lines(path), 1))
    return [(number, match[1]) for number, match in found if match]


def check_ratchet(tidy, name, found, allowed, line):
    """Compares what was found, a list of (path, line, what to say of one too many), with a number of heavy.txt."""
    if len(found) > allowed:
        for path, where, what in found:
            tidy.say(path, where, f"{what}: one of {len(found)}, at most {allowed} ({HEAVY})")
    elif len(found) < allowed:
        tidy.say(HEAVY, line, f"{name} shrank to {len(found)}: lower its entry from {allowed}")


def check_users(tidy, users):
    for header, (files, line) in users.items():
        real = [path for path in tidy.code for _, include in includes(tidy, path) if is_of(include, header)]
        for path in sorted(set(files) - set(real)):
            tidy.say(HEAVY, line, f"{path} does not include {header}: remove it")
        for path in tidy.code:
            for where, include in includes(tidy, path):
                if is_of(include, header) and path not in files:
                    tidy.say(path, where, f"<{include}> is heavy: only {', '.join(files) or 'nobody'} may include it ({HEAVY})")


def check_headers(tidy, numbers):
    """A header counts once, whatever it includes of a library."""
    headers = [f for f in tidy.code if f.endswith((".h", ".cuh")) and f.startswith(ROOMS) and not f.startswith("common/base/")]
    for name, (allowed, line) in numbers.items():
        if not name.endswith(IN_HEADERS):
            continue
        header, found = name.removesuffix(IN_HEADERS), []
        for path in headers:
            first = next(((where, include) for where, include in includes(tidy, path) if is_of(include, header)), None)
            if first:
                found.append((path, first[0], f"a header that includes <{first[1]}>"))
        check_ratchet(tidy, name, found, allowed, line)


def check_programs(tidy, numbers):
    for program in PROGRAMS:
        if program not in numbers:
            continue
        found = [(path, where, f"a program of {program}") for path in tidy.files if path.endswith("CMakeLists.txt")
                 for where, row in enumerate(tidy.lines(path), 1) if re.match(rf"\s*{program}\(", row)]
        check_ratchet(tidy, program, found, *numbers[program])


def check_tests_are_not_included(tidy):
    for path in tidy.code:
        for where, include in includes(tidy, path) if path.startswith(ROOMS) else ():
            if include.startswith("tests/"):
                tidy.say(path, where, f"the product does not include tests: {include}")


def check(tidy):
    users, numbers = read(tidy)
    check_users(tidy, users)
    check_headers(tidy, numbers)
    check_programs(tidy, numbers)
    check_tests_are_not_included(tidy)
