#!/usr/bin/env python3
"""Prints how many lines the compiler reads of the units that include the most, each compiled alone: preprocessed.py COMMANDS

COMMANDS is the compile_commands.json of a build; its folders of headers and its definitions are used. Empty lines and lines of the
preprocessor do not count. The units and their numbers are those of heavy.txt ("UNIT preprocessed-lines N"): a number
may only shrink, and the check fails if a unit has 2 % more lines. The numbers were counted with Debian 12's libraries; on other
systems the check does nothing, because another version of Boost has other headers.
"""
import concurrent.futures
import json
import os
import platform
import re
import shlex
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HEAVY = "tests/tidy/heavy.txt"
SLACK = 0.02


def flags_of(path):
    """The folders of headers and the first definition of every macro in a compile_commands.json, in their order."""
    with open(path, encoding="utf-8") as f:
        commands = json.load(f)
    flags = {}
    for command in commands:
        words = command.get("arguments") or shlex.split(command["command"])
        for word, following in zip(words, words[1:] + [""]):
            if word == "-isystem":
                flags.setdefault(("folder", following), ["-isystem", following])
            elif word.startswith("-I"):
                flags.setdefault(("folder", word[2:]), [word])
            elif word.startswith("-D"):
                flags.setdefault(("macro", word.partition("=")[0]), [word])
    return [word for words in flags.values() for word in words]


def lines_of(unit, flags):
    """Raises CalledProcessError with what the compiler says."""
    done = subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-E", "-P", *flags, unit], capture_output=True, text=True,
                          check=True, cwd=ROOT)
    return sum(1 for line in done.stdout.splitlines() if line.strip())


def limits():
    """{unit: lines} of heavy.txt."""
    with open(os.path.join(ROOT, HEAVY), encoding="utf-8") as f:
        return {unit: int(lines) for unit, lines in re.findall(r"^(\S+) preprocessed-lines (\d+)", f.read(), re.M)}


def system():
    """(ID, VERSION_ID) of os-release, empty if the file does not exist."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return release.get("ID", ""), release.get("VERSION_ID", "")


def verdicts(counts, allowed):
    """What is wrong with {unit: lines}, as lines that name the unit."""
    return [f"{unit}:1: {counts[unit]:,} lines when compiled alone, found {counts[unit] / most - 1:.1%} more than the {most:,} of "
            f"{HEAVY}, which may only shrink (slack {SLACK:.0%}): include less"
            for unit, most in allowed.items() if counts[unit] > most * (1 + SLACK)]


def main():
    if len(sys.argv) != 2:
        print("usage: preprocessed.py COMPILE_COMMANDS", file=sys.stderr)
        return 2
    flags, allowed = flags_of(sys.argv[1]), limits()
    if not allowed:
        print(f"preprocessed: {HEAVY} names no unit, expected lines like UNIT preprocessed-lines N", file=sys.stderr)
        return 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            counts = dict(zip(allowed, pool.map(lambda unit: lines_of(unit, flags), allowed)))
        except subprocess.CalledProcessError as error:
            print(error.stderr[-2000:], file=sys.stderr)
            return 1
    print("preprocessed lines: " + ", ".join(f"{unit} {count:,} of {allowed[unit]:,}" for unit, count in counts.items()))
    if system() != ("debian", "12"):
        print(f"preprocessed lines: not judged on {' '.join(system())}: the numbers of {HEAVY} are Debian 12's")
        return 0
    for unit, count in counts.items():
        if count < allowed[unit] * (1 - SLACK):
            print(f"{unit}: {1 - count / allowed[unit]:.1%} fewer lines than in {HEAVY}: lower its number to {count}")
    found = verdicts(counts, allowed)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
