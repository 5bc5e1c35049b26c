"""Checks that a reader of a benchmark can get its program: every row of tests/bench/*.jsonl names a commit of the history.

A row with a "commit_note" explains itself what happened to its commit. The check reports nothing if git does not know the whole
history, because there is no repository or the clone is shallow.

The subject of a commit has at most SUBJECT_LENGTH_MAX characters, since longer ones are cut off in git's and GitHub's lists.
This holds for the commits that come after the one that added RATCHET to the history; earlier commits cannot change any more.
"""
import bisect
import json
import re
import subprocess

RATCHET = "tests/tidy/idioms.txt"  # added by the commit that introduced the limit
SUBJECT_LENGTH_MAX = 72
BENCH = re.compile(r"tests/bench/[^/]+\.jsonl$")


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout


def history(root):
    """The ids of all commits from which HEAD descends, sorted; None if git does not know them."""
    try:
        if git(root, "rev-parse", "--is-shallow-repository").strip() != "false":
            return None
        return sorted(git(root, "rev-list", "HEAD").split())
    except (OSError, subprocess.CalledProcessError):
        return None


def is_in(commits, start):
    """Whether one of the sorted ids begins with this text."""
    at = bisect.bisect_left(commits, start)
    return at < len(commits) and commits[at].startswith(start)


def check_subjects(tidy):
    added = git(tidy.root, "log", "--diff-filter=A", "--format=%H", "--", RATCHET).split()
    if not added:
        return
    commits = git(tidy.root, "log", "--no-merges", "--ancestry-path", "--format=%h %s", f"{added[-1]}..HEAD")
    for commit, _, subject in (line.partition(" ") for line in commits.strip().split("\n")):
        if len(subject) > SUBJECT_LENGTH_MAX:
            tidy.say(RATCHET, 1, f'commit {commit}: its subject has {len(subject)} characters, at most {SUBJECT_LENGTH_MAX}: shorten it with '
                                 f'git commit --amend or git rebase ("{subject}")')


def check(tidy):
    commits = history(tidy.root)
    if not commits:
        return
    check_subjects(tidy)
    for path in filter(BENCH.match, tidy.files):
        for number, line in enumerate(tidy.lines(path), 1):
            try:
                row = json.loads(line)
                commit = row["commit"]
            except (ValueError, TypeError, KeyError):
                tidy.say(path, number, "expected a JSON object that names its commit")
                continue
            if not row.get("commit_note") and not (re.fullmatch("[0-9a-f]{7,40}", commit) and is_in(commits, commit)):
                tidy.say(path, number, f"commit {commit} is not in the history: measure again, or say in a commit_note what became of it")
