#!/usr/bin/env python3
"""Checks the order of the source tree: layers, header contracts, sizes, raw prints, exceptions, unfinished work, dead files, README
paths; heavy headers (heavy.py), the libraries of targets (targets.py), commits of benchmarks and subjects of commits (commits.py),
the number of assertions in each room (assertions.py), sources without a test of the same name (pairs.py), one place for a class and
one meaning for a name (classes.py), a namespace for each storey (storeys.py), idioms that only this project uses (idioms.py).

Prints `file:line: problem` for each finding, and exits with 1 if there is any. With --files it prints the C++ sources instead, with
--pairs how many sources of each room have a test of the same name. Standard library only.
Usage: tidy.py [--files|--pairs] [ROOT]
"""
import functools
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import assertions  # noqa: E402
import classes  # noqa: E402
import commits  # noqa: E402
import heavy  # noqa: E402
import idioms  # noqa: E402
import pairs  # noqa: E402
import source  # noqa: E402
import storeys  # noqa: E402
import targets  # noqa: E402

FILE_LINES_MAX, FUNCTION_LINES_MAX = 500, 70
KERNEL_FILE_LINES_MAX, KERNEL_FUNCTION_LINES_MAX = 800, 150
CONTRACT_LINES_MIN = 3
LIFE_OF_A_TOKEN_STEPS = 12
LAYERS, RATCHET = "tests/tidy/layers.txt", "tests/tidy/ratchet.txt"
ROOMS = ("common/", "coordinator/", "expert_worker/", "proto/")
CODE = (".cc", ".h", ".inc", ".cu", ".cuh")
PAGE = (".js", ".css", ".html")
TEXT = CODE + PAGE + (".py", ".sh", ".md", ".txt", ".cmake", ".json", ".yaml", ".yml", ".proto", ".def")
KERNEL = re.compile(r"^common/kernels/|\.(inc|cu|cuh)$|_(avx2|avx512|amx)\.cc$")
MAY_PRINT = re.compile(r"(^|/)(main|[a-z0-9_]+_main)\.cc$|^common/base/(check|flags)\.cc$|/(tools|bench)/|^tests/")
BOTH_DAEMONS = ("/tools", "/bench")
RAW_PRINT = re.compile(r"std::(cout|cerr|clog)\b|(?<![\w:.>])(std::)?(v?f?printf|puts|fputs|perror)\s*\(")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
DEAD_CODE = re.compile(
    r"^\s*//\s*(([\w:<>,&*]+\s+)?[\w:.\[\]>-]+\s*[-+*/|&]?=[^=].*;|[\w:.>-]+\(.*\);|(return|delete|throw|auto|const|break)\b.*;"
    r"|\}?\s*(else\s+)?(if|for|while|switch)\s*\(.*[{;]|#\s*(include|if|ifdef|define|endif)\b.*|\}[;)]*)\s*$")
MACHINE_PATH = re.compile(r"(?<![\w.$}~])/(home|root|work|Users|mnt)/\w")


class Tidy:
    def __init__(self, root):
        self.root, self.found, self.used_ratchet = root, [], set()
        self.files = self.list_files()
        self.code = [f for f in self.files if f.endswith(CODE)]
        self.page = [f for f in self.files if f.endswith(PAGE)]
        self.ratchet = self.read_ratchet()

    def list_files(self):
        """The existing files that git tracks or would add; without a git repository every file outside build/."""
        files = set()
        try:
            listing = subprocess.run(["git", "-C", self.root, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True,
                                     text=True, check=True)
            files.update(set(listing.stdout.split("\0")) - {""})
        except (FileNotFoundError, subprocess.CalledProcessError):
            pass
        if not files:
            for folder, folders, names in os.walk(self.root):
                folders[:] = [f for f in folders if f not in ("build", ".git", "__pycache__")]
                files.update(os.path.relpath(os.path.join(folder, name), self.root) for name in names)
        return sorted(f for f in files if os.path.isfile(os.path.join(self.root, f)))

    @functools.lru_cache(maxsize=None)
    def read(self, path):
        if not os.path.isfile(os.path.join(self.root, path)):
            return ""
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as f:
            return f.read()

    @functools.lru_cache(maxsize=None)
    def blank(self, path):
        return source.blank(self.read(path))

    def lines(self, path):
        return self.read(path).splitlines()

    def say(self, path, line, what):
        self.found.append((path, line, what))

    # Layers.

    def read_layers(self):
        edges = {}
        for number, row in enumerate(self.lines(LAYERS), 1):
            room, colon, targets = row.partition(":")
            if not row.strip() or row.startswith("#"):
                continue
            if not colon:
                self.say(LAYERS, number, "expected ROOM: ROOM...")
            edges[room] = targets.split()
        return edges

    def check_table(self, edges):
        state = {}

        def visit(room, trail):
            if state.get(room) == "done":
                return
            if room in trail:
                self.say(LAYERS, 1, "cycle: " + " -> ".join(trail[trail.index(room):] + [room]))
                return
            for target in edges.get(room, []):
                visit(target, trail + [room])
            state[room] = "done"

        for room, targets in edges.items():
            for target in targets:
                if target not in edges:
                    self.say(LAYERS, 1, f"{room} may include {target}, which is no room of the table")
                one_house = {room.split("/")[0], target.split("/")[0]} != {"coordinator", "expert_worker"}
                if not one_house and not room.endswith(BOTH_DAEMONS):  # a benchmark may run both in one process
                    self.say(LAYERS, 1, f"{room} may include {target}: the daemons never include each other")
            visit(room, [])

    def check_layers(self):
        edges = self.read_layers()
        self.check_table(edges)
        room_of = functools.partial(self.room_of, edges)
        targets.check(self, edges, room_of)
        assertions.check(self, edges)
        storeys.check(self, LAYERS, edges)
        for path in self.code:
            if not path.startswith(ROOMS):
                continue
            room, folder = room_of(path), self.room_folder(edges, path)
            if not room or (folder not in edges and not path.startswith("proto/")):  # it would have the rights of the folder above
                self.say(path, 1, f"its room, {folder}, is not in {LAYERS}")
                continue
            for number, line in enumerate(self.lines(path), 1):
                match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                if not match:
                    continue
                target = room_of(match[1])
                if match[1].startswith(ROOMS) and target not in (room, "common/base") and target not in edges[room]:
                    self.say(path, number, f"{room} may not include {match[1]} ({LAYERS})")
                elif not match[1].startswith(ROOMS) and "/" not in match[1] and self.sibling(path, match[1]):
                    self.say(path, number, f"include {match[1]} by its path from the repository's root")

    @staticmethod
    def room_folder(edges, path):
        """The folder that must be a room of the table: two names deep, or three if the folder contains rooms."""
        folders = os.path.dirname(path).split("/")
        two = "/".join(folders[:2])
        return "/".join(folders[:3]) if two not in edges and any(room.startswith(two + "/") for room in edges) else two

    @staticmethod
    def room_of(edges, path):
        """The innermost folder above it that is in the table; empty if there is none."""
        folder = os.path.dirname(path)
        while folder and folder not in edges:
            folder = os.path.dirname(folder)
        return folder

    def sibling(self, path, name):
        return os.path.join(os.path.dirname(path), name) in self.files

    # Sizes: a ratchet.

    def read_ratchet(self):
        entries = {}
        for number, row in enumerate(self.lines(RATCHET), 1):
            if row.strip() and not row.startswith("#"):
                name, _, size = row.rpartition(" ")
                if not name or not size.isdigit():
                    self.say(RATCHET, number, f'"{row}": expected PATH LINES or PATH:FUNCTION LINES')
                    continue
                entries[name.strip()] = (int(size), number)
        return entries

    def check_size(self, name, path, line, size, limit):
        allowed, entry_line = self.ratchet.get(name, (limit, 0))
        if size <= limit:
            return
        self.used_ratchet.add(name)
        what = "file" if name == path else f"function {name.rpartition(':')[2]}"
        if size > allowed:
            self.say(path, line, f"{what} has {size} lines, at most {allowed}")
        elif size < allowed:
            self.say(RATCHET, entry_line, f"{name} shrank to {size} lines: lower its entry from {allowed}")

    def check_sizes(self):
        for path in self.code:
            kernel = KERNEL.search(path)
            self.check_size(path, path, 1, len(self.lines(path)), KERNEL_FILE_LINES_MAX if kernel else FILE_LINES_MAX)
            for name, first, last in source.functions(self.blank(path)):
                self.check_size(f"{path}:{name}", path, first, last - first + 1,
                                KERNEL_FUNCTION_LINES_MAX if kernel else FUNCTION_LINES_MAX)
        for path in self.page:
            self.check_size(path, path, 1, len(self.lines(path)), FILE_LINES_MAX)
        for name in sorted(set(self.ratchet) - self.used_ratchet):
            self.say(RATCHET, self.ratchet[name][1], f"{name} is within the limit now: remove its entry")

    # Single files.

    def check_headers(self):
        for path in self.code:
            lines = self.lines(path)
            if path.endswith((".h", ".cuh")):
                contract = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
                if contract < CONTRACT_LINES_MIN:
                    self.say(path, 1, f"a header begins with a contract of at least {CONTRACT_LINES_MIN} lines: what, why, "
                                      "owner, threads, errors")
                if "#pragma once" not in lines:
                    self.say(path, 1, "no #pragma once")
            seen = set()
            for number, line in enumerate(lines, 1):
                match = re.match(r'#include ([<"].*\.h[">])', line)
                if match and match[1] in seen:
                    self.say(path, number, f"{match[1]} is included twice")
                seen.add(match[1] if match else None)
        for path in self.page:
            if not re.match(r"//|/\*|<!doctype html>\n<!--", self.read(path)):
                self.say(path, 1, "a file of the page begins with a comment that says what it is")

    def check_code_lines(self):
        for path in self.code:
            bare = self.blank(path).splitlines()
            for number, (line, code) in enumerate(zip(self.lines(path), bare), 1):
                if not MAY_PRINT.search(path) and RAW_PRINT.search(code):
                    self.say(path, number, "raw print: log with spdlog, or return a Status")
                if path.startswith(ROOMS) and re.search(r"\bthrow\b", code):
                    self.say(path, number, "throw: return a Status")
                if DEAD_CODE.match(line):
                    self.say(path, number, "commented-out code")

    def check_text_lines(self):
        for path in self.files:
            if not path.endswith(TEXT) or "/testdata/" in path or path.startswith(("tests/tidy/", "tests/golden/data/")):
                continue
            for number, line in enumerate(self.lines(path), 1):
                if UNFINISHED.search(line):
                    self.say(path, number, "unfinished work: finish it, or file an issue")
                if line != line.rstrip():
                    self.say(path, number, "trailing white space")
                if MACHINE_PATH.search(line):
                    self.say(path, number, "a path of one machine")

    # The tree.

    def check_dead_files(self):
        included = set(re.findall(r'#\s*include\s*"([^"]+)"', "\n".join(self.read(f) for f in self.code)))
        for path in self.code:
            if path.endswith((".h", ".cuh", ".inc")):
                if path not in included and not self.is_named_by_rule(path):
                    self.say(path, 1, "nobody includes this file")
            elif not self.is_built(path):
                self.say(path, 1, "no CMakeLists.txt builds this file")

    def is_built(self, path):
        """Whether a CMakeLists.txt above it names it, perhaps with ${variables} for parts of the name."""
        folder, name = os.path.split(path)
        rest = name
        while True:
            for word in re.findall(r"[^\s()\"]+", self.read(os.path.join(folder, "CMakeLists.txt"))):
                parts = [re.escape(part) for part in re.split(r"\$\{\w+\}", word)]
                if any(parts) and re.fullmatch("[a-z0-9_]+".join(parts), rest):
                    return True
            if not folder:
                return self.is_named_by_rule(path)
            folder, last = os.path.split(folder)
            rest = f"{last}/{rest}"

    def is_named_by_rule(self, path):
        """Whether a rule of a .cmake file compiles or includes it for every user of the rule."""
        return any(re.search(rf"[/<]{re.escape(path)}\b", self.read(f)) for f in self.files if f.endswith(".cmake"))

    def check_readme(self):
        steps = 0
        for number, line in enumerate(self.lines("README.md"), 1):
            if not re.match(r"\| *\d+ *\|", line):
                continue
            steps += 1
            for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)*)`", line):
                if not any(f.startswith(path + "/") for f in self.files):
                    self.say("README.md", number, f"the life of a token names {path}, which does not exist")
        if steps < LIFE_OF_A_TOKEN_STEPS:
            self.say("README.md", 1, f"the life of a token has {steps} steps, expected {LIFE_OF_A_TOKEN_STEPS}")

    def run(self):
        for check in (self.check_layers, self.check_sizes, self.check_headers, self.check_code_lines, self.check_text_lines,
                      self.check_dead_files, self.check_readme):
            check()
        heavy.check(self)
        classes.check(self)
        pairs.check(self)
        commits.check(self)
        idioms.check(self)
        return sorted(self.found)


def main():
    arguments = sys.argv[1:]
    option = arguments[0] if arguments[:1] in (["--files"], ["--pairs"]) else ""
    roots = arguments[bool(option):] or [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")]
    tidy = Tidy(roots[0])
    if not tidy.code:
        print("tidy: found no source files at all", file=sys.stderr)
        return 1
    if option:
        print("\n".join(tidy.code if option == "--files" else pairs.table(tidy)))
        return 0
    findings = tidy.run()
    for path, line, what in findings:
        print(f"{path}:{line}: {what}")
    print(f"tidy: {len(tidy.code)} source files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
