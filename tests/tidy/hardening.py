#!/usr/bin/env python3
"""Checks that a build is hardened as Debian's own daemons are: `hardening.py BUILD` looks at the programs numoe-* in BUILD/bin
and at the static libraries of the product.

Programs: position-independent, relocations read-only and bound at start, no executable stack, stack protector and fortified C
library calls in use. Libraries: every object carries control-flow protection (IBT and SHSTK); programs cannot show it, because
Debian's own C start-up files have none. Uses readelf (binutils). Prints `FILE: what is missing` for each finding and exits 1 if
there is any.
"""
import glob
import os
import subprocess
import sys


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


def unprotected(library):
    notes = readelf("-n", library)
    objects, protected = notes.count("File: "), notes.count("IBT, SHSTK")
    if objects == 0 or protected < objects:
        return [f"{protected} of {objects} objects have control-flow protection (-fcf-protection)"]
    return []


def findings(program):
    headers, dynamic = readelf("-hl", program), readelf("-d", program)
    symbols = readelf("--dyn-syms", program)
    checks = {
        "it is not position-independent (-pie)": "Type:                              DYN" in headers,
        "no read-only relocations (-z relro)": "GNU_RELRO" in headers,
        "symbols are bound lazily (-z now)": "BIND_NOW" in dynamic or "NOW" in dynamic,
        "the stack is executable": not any("GNU_STACK" in line and "RWE" in line for line in headers.splitlines()),
        "no stack protector (-fstack-protector-strong)": "__stack_chk_fail" in symbols,
        "no fortified calls (-D_FORTIFY_SOURCE=2)": "_chk@" in symbols.replace("__stack_chk_fail@", ""),
    }
    return [what for what, holds in checks.items() if not holds]


def main():
    build = sys.argv[1]
    programs = sorted(p for p in glob.glob(os.path.join(build, "bin", "numoe-*")) if os.access(p, os.X_OK))
    libraries = [p for room in ("common", "coordinator", "expert_worker")
                 for p in sorted(glob.glob(os.path.join(build, room, "**", "lib*.a"), recursive=True))]
    if not programs or not libraries:
        print(f"hardening: found {len(programs)} programs in {build}/bin and {len(libraries)} libraries, expected some",
              file=sys.stderr)
        return 1
    found = [(os.path.basename(p), what) for p in programs for what in findings(p)]
    found += [(os.path.basename(p), what) for p in libraries for what in unprotected(p)]
    for program, what in found:
        print(f"{program}: {what}")
    print(f"hardening: {len(programs)} programs, {len(libraries)} libraries, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
