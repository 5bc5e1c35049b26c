#!/usr/bin/env python3
"""Prints how many lines the compiler reads of the units that include the most, each compiled alone: preprocessed.py COMMANDS

COMMANDS is the compile_commands.json of a build, whose folders of headers and whose definitions count. Fails where a unit has
more lines than the number "preprocessed-lines-max" of heavy.txt. Empty lines and the preprocessor's own do not count.
Whoever finds a unit that has more than these names it here.
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HEAVY = "tests/tidy/heavy.txt"
UNITS = ("coordinator/client/http_client.cc", "coordinator/http/connection.cc", "coordinator/router/router_service.cc",
         "coordinator/router/backends.cc", "coordinator/serving_load/load_requests.cc", "coordinator/main.cc",
         "coordinator/api/generation_task.cc", "expert_worker/service/worker_service.cc")


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


def limit():
    with open(os.path.join(ROOT, HEAVY), encoding="utf-8") as f:
        return int(re.search(r"^preprocessed-lines-max (\d+)", f.read(), re.M)[1])


def main():
    if len(sys.argv) != 2:
        print("usage: preprocessed.py COMPILE_COMMANDS", file=sys.stderr)
        return 2
    flags, allowed = flags_of(sys.argv[1]), limit()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            counts = sorted(zip(pool.map(lambda unit: lines_of(unit, flags), UNITS), UNITS), reverse=True)
        except subprocess.CalledProcessError as error:
            print(error.stderr[-2000:], file=sys.stderr)
            return 1
    print("preprocessed: " + ", ".join(f"{unit} {count:,}" for count, unit in counts) + f" lines, at most {allowed:,}")
    for count, unit in counts:
        if count > allowed:
            print(f"{unit}:1: {count} lines when compiled alone, at most {allowed} ({HEAVY}): include less", file=sys.stderr)
    return 1 if counts[0][0] > allowed else 0


if __name__ == "__main__":
    sys.exit(main())
