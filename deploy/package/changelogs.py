#!/usr/bin/env python3
"""Writes the two changelogs of a Debian package: changelog.gz, which is deploy/CHANGELOG.md, and changelog.Debian.gz.

Usage: changelogs.py --version TEXT --out DIR. The date comes from SOURCE_DATE_EPOCH; without it, it is today. Standard library only.
"""
import argparse
import email.utils
import gzip
import os
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def write(path, text):
    with open(path, "wb") as f:
        f.write(gzip.compress(text.encode(), mtime=0))
    os.chmod(path, 0o644)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    with open(os.path.join(HERE, "..", "CHANGELOG.md"), encoding="utf-8") as f:
        write(os.path.join(options.out, "changelog.gz"), f.read())
    with open(os.path.join(HERE, "debian", "changelog.in"), encoding="utf-8") as f:
        text = f.read()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or time.time()
    for name, value in (("name", "numoe"), ("version", options.version), ("date", email.utils.formatdate(epoch))):
        text = text.replace(f"@{name}@", value)
    write(os.path.join(options.out, "changelog.Debian.gz"), text)


if __name__ == "__main__":
    main()
