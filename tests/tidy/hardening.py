#!/usr/bin/env python3
"""Checks that a build is hardened like Debian's own daemons: `hardening.py BUILD` checks the programs numoe-* in BUILD/bin and the
static libraries of the product, as far as they belong to current targets of Ninja.

Programs are position-independent, have read-only relocations that are bound at the start, no executable stack, the stack protector and
fortified calls of the C library, and search libraries only beside the program. In libraries every object has control-flow protection
(IBT and SHSTK); programs cannot show it, because Debian's own C start-up files do not have it. Uses readelf (binutils). Prints
`FILE: what is missing` for each finding, and exits with 1 if there is any.
"""
import os
import re
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
    found = [what for what, holds in checks.items() if not holds]
    for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        # An empty entry means the current directory, where any user may put a library.
        found += [f"it looks for libraries in '{entry}', expected below $ORIGIN/../lib" for entry in path.split(":")
                  if not re.fullmatch(r"\$ORIGIN/\.\./lib(/numoe)?", entry)]
    return found


def targets(listing):
    """(programs, libraries) of the product in the output of `ninja -t targets all`, without aliases, which are not files."""
    files = sorted(path for path, _, rule in (line.rpartition(": ") for line in listing.splitlines()) if "_LINKER__" in rule)
    return ([path for path in files if re.fullmatch(r"bin/numoe-[^/]+", path)],
            [path for path in files if re.fullmatch(r"(common|coordinator|expert_worker)/(.+/)?lib[^/]+\.a", path)])


def main():
    build = sys.argv[1]
    try:
        listing = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"hardening: found no Ninja build in {build}: {error}", file=sys.stderr)
        return 1
    programs, libraries = ([path for path in (os.path.join(build, name) for name in names) if os.path.exists(path)]
                           for names in targets(listing))
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
