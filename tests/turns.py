#!/usr/bin/env python3
"""Says which parts of tests/parts.txt a run of the gate has, in which order, and why: `turns.py [--commit HASH] [--base COMMIT]`.

Prints a line for each part: NAME, then `run` or `skip`, then the reason, separated by tabs; and to stderr with which commit
it compared the working tree. That is BASE, the commit before the change that is judged (default: NUMOE_BASE, or else the
newest commit that is four hours older than HEAD, because a change may be many commits). Where git cannot say what changed,
everything counts as changed. Parts that run because their files have changed, and not because it is their turn, run while the
whole stays within LIMIT_MINUTES, the shortest first. Parts with a turn come before those of every run for half of the commits.

`turns.py --fits NAME --after SECONDS --took "NAME SECONDS, ..."` is asked before a part begins: on a machine that is slower
than the one of MINUTES, the run leaves parts out rather than that the gate's time ends it. It exits with 1 and prints why,
where SECONDS and the part's minutes, as much longer as what ran (`--took`) was, exceed LIMIT_MINUTES. Standard library only.
"""
import argparse
import os
import re
import subprocess
import sys
from typing import NamedTuple, Optional

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
TURNS = 3
WINDOW_S = 4 * 3600
LIMIT_MINUTES = 77  # the gate may take 90, and machines differ


class Part(NamedTuple):
    name: str
    minutes: float  # on two cores with an empty compiler cache
    when: str  # always, gate or turn
    turn: Optional[int]
    paths: list


def expand(path):
    """The paths that a shell makes of {a,b}; braces do not nest."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [each for word in match[1].split(",") for each in expand(path[:match.start()] + word + path[match.end():])]


def is_below(file, paths):
    return any(file == path or file.startswith(path + "/") for path in paths)


def read_parts(path):
    """The parts of a file like tests/parts.txt; raises ValueError that names the line."""
    parts = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            name, minutes, when, *rest = words + [""] * (3 - len(words))
            known = re.fullmatch(r"\d+(\.\d+)?", minutes) is not None
            if known and when in ("always", "gate") and not rest:
                parts.append(Part(name, float(minutes), when, None, []))
            elif known and when == "turn" and rest and rest[0].isdigit() and int(rest[0]) < TURNS:
                paths = [path for word in rest[1:] for path in expand(word)]
                parts.append(Part(name, float(minutes), when, int(rest[0]), paths))
            else:
                raise ValueError(f"{path}:{number}: expected NAME MINUTES always, NAME MINUTES gate, or "
                                 f"NAME MINUTES turn 0..{TURNS - 1} PATH..., found \"{line.strip()}\"")
    return parts


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout


def changed_files(base):
    """What differs between a commit and the working tree, and that commit: (files, hash); (None, "") where git does not know.

    A file that moved counts where it was and where it is, and one that git does not track yet counts, too.
    """
    try:
        if not base:
            newest = int(git("log", "-1", "--format=%ct").strip())
            base = git("rev-list", "-1", f"--before={newest - WINDOW_S}", "HEAD").strip()
        base = git("rev-parse", "--short", "--verify", base + "^{commit}").strip()
        found = git("diff", "--name-only", "--no-renames", "-z", base, "--") + git("ls-files", "-o", "--exclude-standard", "-z")
        return sorted(set(found.split("\0")) - {""}), base
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None, ""


def comparison(base):
    """What changed_files compared with, as a line for people."""
    if not base:
        return "git does not say what has changed, so nothing is left out"
    count = int(git("rev-list", "--count", f"{base}..HEAD"))
    return f"compared with {base}, {count} commit{'' if count == 1 else 's'} before"


def decide(parts, commit, changed, base):
    """[(name, runs, reason)] of what changed_files says."""
    turn = int(commit[:12], 16) % TURNS if commit else None
    reasons = {}  # of the parts that run
    touched = []  # (minutes, name, reason) of those that only changes ask for
    for part in parts:
        files = [file for file in changed or [] if is_below(file, part.paths)]
        if part.when != "turn":
            reasons[part.name] = "every run has it"
        elif part.turn == turn:
            reasons[part.name] = f"it is its turn: {commit[:12]} modulo {TURNS} is {turn}"
        elif turn is None or changed is None:
            touched.append((part.minutes, part.name, "git does not say what has changed"))
        elif files:
            touched.append((part.minutes, part.name, f"{files[0]} has changed" + (f" and {len(files) - 1} more" if files[1:] else "")))
    minutes = sum(part.minutes for part in parts if part.name in reasons)
    left_out = {}
    for cost, name, reason in sorted(touched):
        if minutes + cost <= LIMIT_MINUTES:
            reasons[name] = reason
            minutes += cost
        else:
            left_out[name] = (f"{reason}, but with it the run would take {minutes + cost:.0f} minutes of at most {LIMIT_MINUTES}; "
                              f"tests/run.sh {name} runs it")
    return [(part.name, part.name in reasons,
             reasons.get(part.name) or left_out.get(part.name) or
             f"its turn is {part.turn}, {commit[:12]} modulo {TURNS} is {turn}, and none of its files in tests/parts.txt has "
             f"changed since {base}") for part in in_order(parts, commit)]


def in_order(parts, commit):
    """As listed, or in another order by the commit's hash, because whichever comes last may not fit: for half of the commits
    parts with a turn before those of every gate run, and of those, for half of the commits, the last first."""
    if not commit:
        return parts
    number = int(commit[:12], 16) // TURNS
    gate = [part for part in parts if part.when == "gate"]
    if number // 2 % 2:  # asan and fuzz stay together: they share a build
        gate = [part for part in gate if part.name not in ("asan", "fuzz")] + [part for part in gate if part.name in ("asan", "fuzz")]
    turn = [part for part in parts if part.when == "turn"]
    return [part for part in parts if part.when == "always"] + (turn + gate if number % 2 else gate + turn)


def slowness(parts, took):
    """How many times as long as their minutes the parts of {name: seconds} took; at least 1. A compiler cache hides a build's."""
    known = {part.name: part.minutes for part in parts if part.name != "build"}
    expected = 60 * sum(known[name] for name in took if name in known)
    return max(1.0, sum(seconds for name, seconds in took.items() if name in known) / expected) if expected else 1.0


def too_long(parts, name, after_s, took):
    """Why a part does not fit into this run any more; empty where it does, and for what every run of tests/run.sh has."""
    part = next(part for part in parts if part.name == name)
    slow = slowness(parts, took)
    minutes = part.minutes
    if name == "fuzz" and "asan" not in took:  # it builds what asan's minutes have
        minutes += sum(each.minutes for each in parts if each.name == "asan")
    ends = after_s / 60 + minutes * slow
    if part.when == "always" or ends <= LIMIT_MINUTES:
        return ""
    return (f"it would end after {ends:.0f} minutes of at most {LIMIT_MINUTES}: {after_s / 60:.0f} have passed, and its "
            f"{minutes:g} take {slow:.1f} times as long on this machine; tests/run.sh {name} runs it")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", default="")
    parser.add_argument("--base", default=os.environ.get("NUMOE_BASE", ""))
    parser.add_argument("--fits", metavar="NAME")
    parser.add_argument("--after", metavar="SECONDS", type=int, default=0)
    parser.add_argument("--took", metavar='"NAME SECONDS, ..."', default="")
    options = parser.parse_args()
    parts = read_parts(os.path.join(ROOT, "tests/parts.txt"))
    if options.fits:
        took = {name: int(seconds) for name, seconds in (row.split() for row in options.took.split(",") if row.strip())}
        reason = too_long(parts, options.fits, options.after, took)
        print(reason, end="\n" if reason else "")
        return 1 if reason else 0
    commit = options.commit
    if not commit:
        try:
            commit = git("rev-parse", "HEAD").strip()
        except (OSError, subprocess.CalledProcessError):
            commit = ""
    changed, base = changed_files(options.base)
    print(comparison(base), file=sys.stderr)
    for name, runs, reason in decide(parts, commit, changed, base):
        print(f"{name}\t{'run' if runs else 'skip'}\t{reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
