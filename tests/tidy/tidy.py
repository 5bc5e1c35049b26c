#!/usr/bin/env python3
"""Checks the house: layers, header contracts, sizes, raw prints, exceptions, unfinished work, dead files, README paths.

Prints `file:line: problem` for each finding and exits 1 if there is any. Standard library only.
Usage: tidy.py [ROOT]
"""
import os
import re
import subprocess
import sys

FILE_MAX, KERNEL_FILE_MAX, FUNCTION_MAX, KERNEL_FUNCTION_MAX = 500, 800, 70, 150
ROOMS = ("common/", "coordinator/", "expert_worker/", "proto/")
INCLUDE = re.compile(r'^\s*#include "([^"]+)"')
MAY_PRINT = re.compile(r"(^|/)(main|[a-z_]+_main)\.cc$|^common/base/check\.cc$|^tests/")


class Tidy:
    def __init__(self, root):
        self.root, self.found = root, []
        listing = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
        self.files = [f for f in listing.stdout.splitlines() if os.path.isfile(os.path.join(root, f))]
        self.code = [f for f in self.files if f.endswith((".cc", ".h", ".inc", ".cu", ".cuh"))]
        self.text = {f: self.read(f).split("\n") for f in self.code}
        self.ratchet = self.read_ratchet()
        self.used_ratchet = set()

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as f:
            return f.read()

    def say(self, path, line, what):
        self.found.append(f"{path}:{line}: {what}")

    def read_ratchet(self):
        rows = [r.split() for r in self.read("tests/tidy/ratchet.txt").splitlines() if r and not r.startswith("#")]
        return {name: int(size) for name, size in rows}

    def check_size(self, name, path, line, size, limit, what):
        allowed = self.ratchet.get(name)
        if size > limit:
            self.used_ratchet.add(name)
            if allowed is None or size > allowed:
                self.say(path, line, f"{what} has {size} lines, at most {allowed or limit}")
            elif size < allowed:
                self.say("tests/tidy/ratchet.txt", 1, f"{name} shrank to {size}: lower its entry from {allowed}")

    def layers(self):
        allowed = {}
        for row in self.read("tests/tidy/layers.txt").splitlines():
            if row and not row.startswith("#"):
                room, _, edges = row.partition(":")
                allowed[room] = set(edges.split()) | {"common/base", room}

        def room_of(path):
            folder = os.path.dirname(path)
            while folder and folder not in allowed:
                folder = os.path.dirname(folder)
            return folder

        for path in self.code:
            if not path.startswith(ROOMS):
                continue
            room = room_of(path)
            if not room:
                self.say(path, 1, "its room is not in tests/tidy/layers.txt")
                continue
            for number, line in enumerate(self.text[path], 1):
                match = INCLUDE.match(line)
                if match and match[1].startswith(ROOMS) and room_of(match[1]) not in allowed[room]:
                    self.say(path, number, f"{room} may not include {match[1]} (tests/tidy/layers.txt)")

    def headers(self):
        for path in self.code:
            lines = self.text[path]
            if path.endswith(".h"):
                contract = next((i for i, l in enumerate(lines) if not l.startswith("//")), len(lines))
                if contract < 3:
                    self.say(path, 1, "a header begins with a contract of at least 3 lines: what, why, owner, threads, errors")
                if "#pragma once" not in lines:
                    self.say(path, 1, "no #pragma once")
            includes = [l for l in lines if l.startswith("#include")]
            for double in {i for i in includes if includes.count(i) > 1}:
                self.say(path, lines.index(double) + 1, f"included twice: {double}")

    def sizes(self):
        for path in self.code:
            lines = self.text[path]
            kernel = path.startswith("common/kernels/") or path.endswith((".inc", ".cu"))
            self.check_size(path, path, 1, len(lines), KERNEL_FILE_MAX if kernel else FILE_MAX, "file")
            for name, start, length in functions(lines):
                limit = KERNEL_FUNCTION_MAX if kernel else FUNCTION_MAX
                self.check_size(f"{path}:{name}", path, start, length, limit, f"function {name}")
        for name in sorted(set(self.ratchet) - self.used_ratchet):
            self.say("tests/tidy/ratchet.txt", 1, f"{name} is within the limit now: remove its entry")

    def lines(self):
        for path in self.code:
            for number, line in enumerate(self.text[path], 1):
                bare = re.sub(r'"(\\.|[^"\\])*"', '""', line)
                code = bare.split("//")[0]
                if not MAY_PRINT.search(path) and re.search(r"std::(cout|cerr)|\b(f?printf|puts)\(", code):
                    self.say(path, number, "raw print: log with spdlog, or return a Status")
                if path.startswith(ROOMS) and re.search(r"\bthrow\b", code):
                    self.say(path, number, "throw: return a Status")
                if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
                    self.say(path, number, "unfinished work: finish it or file an issue")
                if re.match(r"\s*//.*[;{]\s*$", line) and not re.search(r"[a-z] [a-z]+ [a-z]", line):
                    self.say(path, number, "commented-out code")
                if line != line.rstrip():
                    self.say(path, number, "trailing white space")
                if re.search(r"/(home|root|work)/", line):
                    self.say(path, number, "path of one machine")

    def dead_files(self):
        mentions = "\n".join(self.read(f) for f in self.files if f.endswith("CMakeLists.txt"))
        included = "\n".join("\n".join(lines) for lines in self.text.values())
        for path in self.code:
            name = os.path.basename(path)
            if path.endswith((".h", ".inc")):
                if f'"{path}"' not in included:
                    self.say(path, 1, "nobody includes this header")
            elif name not in mentions and "${isa}" not in mentions:
                self.say(path, 1, "no CMakeLists.txt builds this file")

    def readme(self):
        for number, line in enumerate(self.read("README.md").splitlines(), 1):
            if re.match(r"\| *\d+ *\|", line):
                for path in re.findall(r"`([a-z_/]+)`", line):
                    if not os.path.isdir(os.path.join(self.root, path)):
                        self.say("README.md", number, f"the life of a token names {path}, which does not exist")

    def run(self):
        for check in (self.layers, self.headers, self.sizes, self.lines, self.dead_files, self.readme):
            check()
        for finding in self.found:
            print(finding)
        print(f"tidy: {len(self.code)} files, {len(self.found)} findings")
        return 1 if self.found else 0


def functions(lines):
    """(name, first line, length) of function bodies: a line that ends in '{' after a ')' up to the matching '}'."""
    depth, stack = 0, []
    for number, line in enumerate(lines, 1):
        bare = re.sub(r"'(\\.|[^'\\])'", "''", re.sub(r'"(\\.|[^"\\])*"', '""', line)).split("//")[0]
        opener = re.search(r"([A-Za-z_~][\w:~]*)\([^;]*\)?[^;=]*\{\s*$", bare)
        control = re.match(r"\s*(\}?\s*else|if|for|while|switch|do|namespace|class|struct|enum|return|case)\b", bare)
        for char in bare:
            if char == "{":
                depth += 1
            elif char == "}":
                depth -= 1
                if stack and stack[-1][2] == depth:
                    name, start, _ = stack.pop()
                    if not stack:
                        yield name, start, number - start + 1
        if opener and not control and bare.rstrip().endswith("{") and not stack and not bare.startswith("#"):
            stack.append((opener[1], number, depth - 1))


if __name__ == "__main__":
    sys.exit(Tidy(sys.argv[1] if len(sys.argv) > 1 else ".").run())
