#!/usr/bin/env python3
"""Writes the man pages and shell completions of the programs, from what they print for --help.

Usage: from_help.py --bin DIR --out SHARE --version TEXT [PROGRAM...]
Writes SHARE/man/man1/PROGRAM.1.gz, SHARE/bash-completion/completions/PROGRAM and SHARE/fish/vendor_completions.d/PROGRAM.fish. The
same programs and SOURCE_DATE_EPOCH give the same bytes. Ends with an error if a line of a help text is not understood: a flag that
the man page leaves out would be missed by nobody. Standard library only.
"""
import argparse
import datetime
import gzip
import os
import re
import subprocess
import sys

# A section's header in a help text, what its entries are, and its title in the man page.
SECTIONS = {"Options:": ("flags", "OPTIONS"), "Subcommands:": ("commands", "COMMANDS"), "Positionals:": ("words", "ARGUMENTS"),
            "Names of flags in other programs that are accepted as well:": ("aliases", "FLAGS OF OTHER PROGRAMS")}
ENTRY = re.compile(r"  (\S.*?)(?:\s{2,}(.*)|\s*)$")
MODELS = ("model", "tokenizer", "chat-template")  # flags without a kind whose values are paths


class Entry:
    """A flag, a command, a positional or an alias: its name as printed, what the help says of its value, and its text."""

    def __init__(self, head, text):
        self.head, self.text = head, text
        name, _, value = head.partition(" ")
        self.names = name.split(",")
        self.value = value.strip()

    def long_names(self):
        return [name for name in self.names if name.startswith("--")]

    def choices(self):
        found = re.search(r"\{([^{}]+)\}", self.value)
        return found[1].split(",") if found else []

    def takes_path(self):
        name = self.names[-1].lstrip("-")
        return ":FILE" in self.value or ":DIR" in self.value or ":PATH" in self.value or name in MODELS or \
            name.endswith(("file", "certs", "config", "to", "out"))

    def takes_value(self):
        return bool(re.match(r"(TEXT|INT|UINT|FLOAT|[A-Z]{1,8}\b)", self.value)) or self.names[-1] == "--config"


class Help:
    """The help text of a program or of one of its commands, divided into its sections."""

    def __init__(self, argv):
        run = subprocess.run([*argv, "--help"], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"], "COLUMNS": "80"})
        self.name = " ".join([os.path.basename(argv[0]), *argv[1:]])
        self.description, self.usage = [], []
        self.sections = {kind: [] for kind, _ in SECTIONS.values()}
        kind = ""
        for line in run.stdout.splitlines():
            if line in SECTIONS:
                kind = SECTIONS[line][0]
            elif line.startswith("Usage:") or (self.usage and not kind and re.match(r"\s+numoe-", line)):
                self.usage.append(line.replace("Usage:", "").strip())
            elif line.startswith("  -") and not kind:  # a script's help has no headers
                kind = "flags"
                self.add(kind, line)
            elif line.startswith("  ") and kind:
                self.add(kind, line)
            elif line.strip() and not kind:
                self.description.append(line.strip())
            elif line.strip():
                sys.exit(f"{self.name} --help: the line {line!r} belongs to no section; expected one of {', '.join(SECTIONS)}")
        if not self.usage or not self.description:
            sys.exit(f"{self.name} --help: expected a description and a line that begins with 'Usage:'")

    def add(self, kind, line):
        entry = ENTRY.match(line)
        if line.startswith("   ") and self.sections[kind]:  # the text of an entry continues, or begins below a long one
            last = self.sections[kind][-1]
            last.text = f"{last.text} {line.strip()}".strip()
        elif entry:
            self.sections[kind].append(Entry(entry[1], entry[2] or ""))
        else:
            sys.exit(f"{self.name} --help: the line {line!r} is not understood")


def roff(text):
    """Escapes what roff would read as its own: backslashes, hyphens that must stay ASCII, lines that begin with a dot or a quote."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def sections_of(text):
    yield from ((kind, title, text.sections[kind]) for kind, title in SECTIONS.values() if text.sections[kind])


def man_page(texts, version, day):
    top = texts[0]
    summary = " ".join(top.description)
    first = re.split(r"(?<=[a-z)])[.:] ", summary)[0].rstrip(".")
    lines = [f'.TH {top.name.upper()} 1 "{day}" "NUMoE {version}" "User Commands"', ".SH NAME",
             f"{roff(top.name)} \\- {roff(first if first[:2].isupper() else first[0].lower() + first[1:])}", ".SH SYNOPSIS"]
    for usage in [use for text in texts for use in text.usage]:
        lines += [".br" if lines[-1] != ".SH SYNOPSIS" else ".nh", f".B {roff(usage)}"]
    lines += [".SH DESCRIPTION", roff(summary)]
    if any("(Env:" in entry.value for entry in top.sections["flags"]):
        lines += [".PP", roff("A flag that has (Env:NAME) can also be set by that environment variable, and by its own name in the file of "
                              "--config. The command line takes precedence, then the environment.")]
    for text in texts:
        if text is not top:
            lines += [f".SH COMMAND {roff(text.name.upper())}", roff(" ".join(text.description))]
        for kind, title, entries in sections_of(text):
            lines.append(f".SH {title}" if text is top else f".SS {title.capitalize()}")
            for entry in entries:
                names = ", ".join(f"\\fB{roff(name)}\\fR" for name in entry.names)
                lines += [".TP", f"{names} {roff(entry.value)}".strip(), roff(entry.text) or "\\&"]
    others = [".BR " + roff(name) + " (1)" for name in PROGRAMS if name != top.name]
    lines += [".SH SEE ALSO", *[line + "," for line in others[:-1]], others[-1]]
    return "\n".join(lines) + "\n"


def bash(texts):
    """The words of each command, and what follows a flag: its choices, files, or anything."""
    name = texts[0].name
    function = "_" + name.replace("-", "_")
    out = [f"# Completion of {name} for bash, made from its --help.", f"{function}() {{",
           "  local current=$2 previous=$3 command=\"\" word words=\"\"",
           "  # The words break at '=': --flag=VALUE is three of them.",
           "  [ \"$previous\" != = ] || previous=${COMP_WORDS[COMP_CWORD-2]}",
           "  [ \"$current\" != = ] || { previous=${COMP_WORDS[COMP_CWORD-1]}; current=\"\"; }"]
    commands = [text.name.split()[1] for text in texts[1:]]
    if commands:
        out += ["  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do",
                f"    case $word in {' | '.join(commands)}) command=$word; break ;; esac", "  done"]
    out.append("  case $command:$previous in")
    for text in texts:
        command = text.name.split()[1] if " " in text.name else ""
        for entry in text.sections["flags"]:
            flags = " | ".join(f"{command}:{flag}" for flag in entry.names if flag.startswith("-"))
            if entry.choices():
                out.append(f"    {flags}) COMPREPLY=($(compgen -W '{' '.join(entry.choices())}' -- \"$current\")); return ;;")
            elif entry.takes_path():
                out.append(f"    {flags}) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\")); return ;;")
            elif entry.takes_value():
                out.append(f"    {flags}) return ;;")
    out += ["  esac", "  case $command in"]
    for text in texts:
        command = text.name.split()[1] if " " in text.name else "''"
        words = [flag for entry in text.sections["flags"] for flag in entry.long_names()]
        out.append(f"    {command}) words='{' '.join(words + (commands if text is texts[0] else []))}' ;;")
    out += ["  esac", "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))",
            "  [[ $current == -* ]] || { compopt -o filenames; COMPREPLY+=($(compgen -f -- \"$current\")); }",
            "}", f"complete -F {function} {name}"]
    return "\n".join(out) + "\n"


def fish(texts):
    name = texts[0].name
    commands = [text.name.split()[1] for text in texts[1:]]
    quote = lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"  # noqa: E731
    out = [f"# Completion of {name} for fish, made from its --help."]
    for text in texts:
        command = text.name.split()[1] if " " in text.name else ""
        when = f" -n '__fish_seen_subcommand_from {command}'" if command else ""
        for entry in text.sections["flags"]:
            for flag in entry.long_names():
                value = f" -x -a {quote(' '.join(entry.choices()))}" if entry.choices() else " -r" if entry.takes_path() else \
                    " -x" if entry.takes_value() else ""
                out.append(f"complete -c {name}{when} -l {flag[2:]}{value} -d {quote(re.split(r'[.;:,] ', entry.text)[0])}")
        for entry in text.sections["commands"]:
            out.append(f"complete -c {name} -n 'not __fish_seen_subcommand_from {' '.join(commands)}' -a {entry.names[0]} -d {quote(entry.text)}")
    return "\n".join(out) + "\n"


PROGRAMS = ["numoe-coordinator", "numoe-expert-worker", "numoe-router", "numoe-pack", "numoe-chat", "numoe-bench", "numoe-download"]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    data = text.encode()
    with open(path, "wb") as f:
        f.write(gzip.compress(data, mtime=0) if path.endswith(".gz") else data)
    os.chmod(path, 0o644)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    options = parser.parse_args()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or datetime.datetime.now(datetime.timezone.utc).timestamp()
    day = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%d")
    for name in options.programs:
        program = os.path.join(options.bin, name)
        top = Help([program])
        texts = [top, *[Help([program, command.names[0]]) for command in top.sections["commands"]]]
        write(os.path.join(options.out, "man/man1", name + ".1.gz"), man_page(texts, options.version, day))
        write(os.path.join(options.out, "bash-completion/completions", name), bash(texts))
        write(os.path.join(options.out, "fish/vendor_completions.d", name + ".fish"), fish(texts))


if __name__ == "__main__":
    main()
