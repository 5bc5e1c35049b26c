#!/usr/bin/env python3
"""Says which parts of tests/parts.txt a run of the gate has, and why: `turns.py [--commit HASH] [--base COMMIT]`.

Prints a line for each part: NAME, then `run` or `skip`, then the reason, separated by tabs; and to stderr with which commit
it compared the working tree. That is BASE, the commit before the change that is judged (default: NUMOE_BASE, or else the
newest commit that is four hours older than HEAD, because a change may be many commits). Where git cannot say what changed,
every part runs. Standard library only.
"""
import argparse
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
TURNS = 3
WINDOW_S = 4 * 3600


def expand(path):
    """The paths that a shell makes of {a,b}; braces do not nest."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [each for word in match[1].split(",") for each in expand(path[:match.start()] + word + path[match.end():])]


def is_below(file, paths):
    return any(file == path or file.startswith(path + "/") for path in paths)


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
                parts.append((name, when, int(words[2]), [path for word in words[3:] for path in expand(word)]))
            else:
                raise ValueError(f"{path}:{number}: expected NAME always, NAME gate, or NAME turn 0..{TURNS - 1} PATH..., "
                                 f"found \"{line.strip()}\"")
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
    decisions = []
    for name, when, its_turn, paths in parts:
        touched = [file for file in changed or [] if is_below(file, paths)]
        if when != "turn":
            decisions.append((name, True, "every run has it"))
        elif turn is None or changed is None:
            decisions.append((name, True, "git does not say what changed, so nothing is left out"))
        elif its_turn == turn:
            decisions.append((name, True, f"it is its turn: {commit[:12]} modulo {TURNS} is {turn}"))
        elif touched:
            decisions.append((name, True, f"{touched[0]} has changed" + (f" and {len(touched) - 1} more" if touched[1:] else "")))
        else:
            decisions.append((name, False, f"its turn is {its_turn}, {commit[:12]} modulo {TURNS} is {turn}, and none of its "
                                           f"files in tests/parts.txt has changed since {base}"))
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
    changed, base = changed_files(options.base)
    print(comparison(base), file=sys.stderr)
    for name, runs, reason in decide(read_parts(os.path.join(ROOT, "tests/parts.txt")), commit, changed, base):
        print(f"{name}\t{'run' if runs else 'skip'}\t{reason}")


if __name__ == "__main__":
    sys.exit(main())
