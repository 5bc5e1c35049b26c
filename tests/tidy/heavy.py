"""Keeps compile times short: limits how many files include heavy headers, and how many test programs there are (heavy.txt).

check(tidy) reports findings through tidy.say. A number may only shrink; a new room may add its one test program and gives the
reason in heavy.txt. The check reports everything that exceeds a number, and every number that is larger than necessary.
"""
import functools
import re

HEAVY = "tests/tidy/heavy.txt"
ROOMS = ("common/", "coordinator/", "expert_worker/", "proto/")
INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
PROGRAMS = ("numoe_tests", "numoe_fuzz")
IN_HEADERS = " in product headers"
LINES = " preprocessed-lines"  # preprocessed.py compares these
RULE = f"may only shrink; a new room may add its one test program and gives the reason in {HEAVY}"


def read(tidy):
    """({header or command(): (files, line)}, {name: (number, line)}) of heavy.txt; reports lines that are neither."""
    users, numbers = {}, {}
    for number, row in enumerate(tidy.lines(HEAVY), 1):
        if not row.strip() or row.startswith("#"):
            continue
        row = row.partition("  #")[0].rstrip()
        header, colon, files = row.partition(": ")
        name, _, count = row.rpartition(" ")
        if colon and files.split():
            users[header] = ([] if files == "nobody" else files.split(), number)
        elif count.isdigit() and (name in PROGRAMS or name.endswith((IN_HEADERS, LINES))):
            numbers[name] = (int(count), number)
        else:
            tidy.say(HEAVY, number, f'"{row}": expected HEADER: FILE..., COMMAND(): FILE..., HEADER{IN_HEADERS} N, '
                                    f'UNIT{LINES} N, {" N or ".join(PROGRAMS)} N')
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
            tidy.say(path, where, f"{what}: one of {len(found)}, at most {allowed}, which {RULE}")
    elif len(found) < allowed:
        tidy.say(HEAVY, line, f"{name} shrank to {len(found)}: lower its entry from {allowed}")


def calls(tidy, command):
    """[(path, line)] of a command in all files of CMake, also in upper case and with spaces before the bracket."""
    call = re.compile(rf"\s*{command}\s*\(", re.I)
    return [(path, where) for path in tidy.files if path.endswith(("CMakeLists.txt", ".cmake"))
            for where, row in enumerate(tidy.lines(path), 1) if call.match(row)]


def check_users(tidy, users):
    for name, (files, line) in users.items():
        who = ", ".join(files) or "nobody"
        if name.endswith("()"):
            found = [(path, where, f"{name} is for {who} alone: declare a program of tests with numoe_tests or numoe_fuzz")
                     for path, where in calls(tidy, name.removesuffix("()"))]
        else:
            found = [(path, where, f"<{include}> is heavy: only {who} may include it") for path in tidy.code
                     for where, include in includes(tidy, path) if is_of(include, name)]
        for path in sorted(set(files) - {path for path, _, _ in found}):
            tidy.say(HEAVY, line, f"{path} does not {'call' if name.endswith('()') else 'include'} {name}: remove it")
        for path, where, what in found:
            if path not in files:
                tidy.say(path, where, f"{what} ({HEAVY})")


def check_headers(tidy, numbers):
    """A header counts once, whatever it includes of a library."""
    headers = [f for f in tidy.code if f.endswith((".h", ".cuh")) and f.startswith(ROOMS)]
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
        found = [(path, where, f"a program of {program}") for path, where in calls(tidy, program)]
        check_ratchet(tidy, program, found, *numbers[program])


def check_units(tidy, numbers):
    for name, (_, line) in numbers.items():
        if name.endswith(LINES) and name.removesuffix(LINES) not in tidy.code:
            tidy.say(HEAVY, line, f"{name.removesuffix(LINES)} does not exist: remove it")


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
    check_units(tidy, numbers)
    check_tests_are_not_included(tidy)
