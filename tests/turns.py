#!/usr/bin/env python3
"""Says which parts of tests/parts.txt a run of the gate has, and why: `turns.py [--commit HASH] [--base COMMIT]`.

Prints a line for each part: NAME, then `run` or `skip`, then the reason, separated by tabs. BASE is the commit before the
change that is judged (default: NUMOE_BASE, or else the newest commit that is four hours older than HEAD, because a change
may be many commits). Where git cannot say what changed, every part runs. Standard library only.
"""
import argparse
import os
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
TURNS = 3


def read_parts(path):
    """[(name, when, turn or None, paths)] of a file like tests/parts.txt; raises ValueError that names the line."""
    parts = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            name, when = words[0], words[1] if len(words) > 1 else ""
            if when in ("always", "gate") and len(words) == 2:
                parts.append((name, when, None, []))
            elif when == "turn" and len(words) > 2 and words[2].isdigit() and int(words[2]) < TURNS:
                parts.append((name, when, int(words[2]), words[3:]))
            else:
                raise ValueError(f"{path}:{number}: expected NAME always, NAME gate, or NAME turn 0..{TURNS - 1} PATH..., "
                                 f"found \"{line.strip()}\"")
    return parts


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout


def changed_files(base):
    """The files that differ between base and HEAD; None where git does not know."""
    try:
        if not base:
            newest = int(git("log", "-1", "--format=%ct").strip())
            base = git("rev-list", "-1", f"--before={newest - 4 * 3600}", "HEAD").strip()
        return git("diff", "--name-only", base, "HEAD").splitlines() if base else None
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None


def decide(parts, commit, changed):
    """[(name, runs, reason)]."""
    turn = int(commit[:12], 16) % TURNS if commit else None
    decisions = []
    for name, when, its_turn, paths in parts:
        touched = [f for f in changed or [] if any(f == p or f.startswith(p + "/") for p in paths)]
        if when != "turn":
            decisions.append((name, True, "every run has it"))
        elif turn is None or changed is None:
            decisions.append((name, True, "git does not say what changed, so nothing is left out"))
        elif its_turn == turn:
            decisions.append((name, True, f"it is its turn: {commit[:12]} modulo {TURNS} is {turn}"))
        elif touched:
            decisions.append((name, True, f"{touched[0]} has changed" + (f" and {len(touched) - 1} more" if touched[1:] else "")))
        else:
            decisions.append((name, False, f"its turn is {its_turn}, {commit[:12]} modulo {TURNS} is {turn}, and nothing that "
                                           "it depends on has changed"))
    return decisions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", default="")
    parser.add_argument("--base", default=os.environ.get("NUMOE_BASE", ""))
    options = parser.parse_args()
    commit = options.commit
    if not commit:
        try:
            commit = git("rev-parse", "HEAD").strip()
        except (OSError, subprocess.CalledProcessError):
            commit = ""
    for name, runs, reason in decide(read_parts(os.path.join(ROOT, "tests/parts.txt")), commit, changed_files(options.base)):
        print(f"{name}\t{'run' if runs else 'skip'}\t{reason}")


if __name__ == "__main__":
    sys.exit(main())
