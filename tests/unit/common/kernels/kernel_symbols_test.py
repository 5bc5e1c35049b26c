#!/usr/bin/env python3
"""Kernel objects define one thing each for other objects: their table. Usage: kernel_symbols_test.py --nm NM ARCHIVE...

An inline or template function compiled there would be a weak symbol, built for an instruction set that the machine may
lack, and the linker could keep that copy for the whole program.
"""
import argparse
import re
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--nm", default="nm")
parser.add_argument("archives", nargs="+")
args = parser.parse_args()

failures = []
for archive in args.archives:
    nm = subprocess.run([args.nm, "-C", "--defined-only", archive], capture_output=True, text=True, check=True)
    tables = 0
    for line in nm.stdout.splitlines():
        match = re.match(r"[0-9a-f]+ (\w) (.+)", line)
        if not match or match[1].islower() and match[1] not in "vwu":
            continue  # local to its object
        if re.fullmatch(r"numoe::kKernels\w+", match[2]):
            tables += 1
        elif match[2].startswith(("DW.ref.", "__odr_asan.")):
            pass  # data of sanitizer builds, no code: a pointer for unwinding, a mark of each global
        else:
            failures.append(f"{archive}: defines {match[2]} ({match[1]}) for every object")
    if tables == 0:
        failures.append(f"{archive}: defines no kernel table")
print("\n".join(failures) or f"{len(args.archives)} archives define their tables and nothing else")
sys.exit(bool(failures))
