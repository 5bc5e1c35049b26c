"""Checks the product's classes and names: a class is in one place, and a name has one meaning.

The member functions of a class are defined in one source file beside its declaration, and the lines of both together (the class, and
each function from its head to its end) are at most LINES_MAX. A larger class gives a responsibility to another class.
A nested class is part of the class around it, unless it is defined separately. No two types have the same qualified name, whichever
programs they are linked into; types in unnamed namespaces belong to their file and are left out. check(tidy) reports findings through
tidy.say.

Prints the longest classes. Usage: classes.py [ROOT]
"""
import collections
import os
import re
import sys

import source

LINES_MAX = 400
ROOMS = ("common/", "coordinator/", "expert_worker/", "proto/")
TYPE = re.compile(r"^(?:typedef )?(class|struct|union|enum(?: class| struct)?) (?P<name>[^:=]*(?:::[^:=]*)*)(?<!:)(?::(?!:).*)?$")
ALIAS = re.compile(r"^using (?P<name>\w+) ?=")
NAMESPACE = re.compile(r"^(?:inline )?namespace ?(?P<names>[\w:]*)$")
MEMBER = re.compile(r"(?<![\w:])(?P<names>(?:\w+::)+)~?\w+ ?$")
DEFAULTED = re.compile(r"= ?default$")


def without_arguments(head):
    """`head` without template parameters, template arguments, attributes, and the names of operators."""
    head = re.sub(r"\boperator\s*\(\s*\)", "operator_", head)
    head = re.sub(r"\boperator\b(?!_)[^(]*", "operator_", head)
    head = re.sub(r"\[\[.*?\]\]|\b__attribute__\s*\(\(.*?\)\)|(?<![:\w])[A-Z][A-Z0-9_]+\s*\([^()]*\)|\balignas\s*\([^()]*\)", " ", head)
    head = re.sub(r"^(?:\s*(?:public|private|protected)\s*:)+", "", head)
    while True:
        shorter = re.sub(r"<[^<>;{}]*>", "", head)
        if shorter == head:
            break
        head = shorter
    return re.sub(r"\s+", " ", re.sub(r"\btemplate\b", " ", head)).strip()


def type_name(head):
    """The name in the head of a class, struct, union or enum, perhaps qualified; empty if it has no name, None for another head."""
    match = TYPE.match(without_arguments(head))
    if not match:
        return None
    words = [word for word in match["name"].split() if word != "final"]
    return words[-1] if words else ""


def is_specialised(head):
    """Whether it is a specialisation of a template."""
    return bool(re.match(r"\s*template\s*<", head) and re.search(r"\b(?:class|struct|union)\s+[\w:]+\s*<", head))


class Type:
    def __init__(self, path, line, lines, is_class, is_shared):
        self.path, self.line, self.lines = path, line, lines
        self.is_class, self.is_shared = is_class, is_shared  # not an enum or alias; seen outside of its file
        self.sources = collections.OrderedDict()              # {path: line} where member functions are defined


class Names:
    """The types of a tree, and the places of their member functions."""

    def __init__(self, tidy):
        self.types = collections.defaultdict(list)  # by qualified name
        blocks = [(path, block) for path in tidy.code if path.startswith(ROOMS) for block in source.blocks(tidy.blank(path))]
        scopes = [(path, *block, self.scope_of(block[-1])) for path, block in blocks]
        for path, kind, head, first, last, _, scope in scopes:
            self.add_type(path, kind, head, last - first + 1, first, scope)
        for path, kind, head, first, last, _, scope in scopes:
            if kind == "function" or kind == "statement" and DEFAULTED.search(head):
                self.add_member(path, head, last - first + 1, first, scope)

    @staticmethod
    def scope_of(heads):
        """The names of the namespaces around something ("": an unnamed one), None within a type."""
        names = []
        for head in heads:
            match = NAMESPACE.match(re.sub(r"\s+", " ", head))
            if not match and not head.startswith("extern"):
                return None
            names += match["names"].split("::") if match else []
        return names

    def add_type(self, path, kind, head, lines, first, scope):
        if scope is None or kind == "function" or is_specialised(head):
            return
        alias = ALIAS.match(without_arguments(head)) if kind == "statement" else None
        name = alias["name"] if alias else type_name(head) if kind == "scope" else None
        if not name:
            return
        is_class = not alias and "enum" not in without_arguments(head).split()[:1]
        qualified = "::".join(filter(None, [*scope, name]))
        self.types[qualified].append(Type(path, first, lines, is_class, "" not in scope))

    def add_member(self, path, head, lines, first, scope):
        match = MEMBER.search(without_arguments(head).partition("(")[0]) if scope is not None else None
        if not match:
            return
        outer = [name for name in scope if name]
        inner = match["names"].split("::")[:-1]
        for count in range(len(inner), 0, -1):  # the innermost class that is defined in a namespace
            for depth in range(len(outer), -1, -1):
                found = self.find("::".join(outer[:depth] + inner[:count]), path)
                if found:
                    found.lines += lines
                    found.sources.setdefault(path, first)
                    return

    def find(self, qualified, path):
        """The class of this name that code in `path` means."""
        known = [found for found in self.types.get(qualified, []) if found.is_class]
        own = [found for found in known if found.path == path]
        return next(iter(own or [found for found in known if found.is_shared]), None)


def check(tidy):
    for name, types in Names(tidy).types.items():
        shared = [found for found in types if found.is_shared]
        for other in shared[1:]:
            if other.path != shared[0].path:  # in one file they are alternatives of the preprocessor
                tidy.say(other.path, other.line, f"{name} is a type of {shared[0].path}:{shared[0].line} too: a name means one thing")
        for found in types:
            others = [path for path in found.sources if path != found.path]
            for path in others[1:]:
                tidy.say(path, found.sources[path], f"{name} has member functions in {others[0]} too: a class has one source file, so give "
                                                    "what is here to a class or functions of its own")
            if found.is_class and found.lines > LINES_MAX:
                tidy.say(found.path, found.line, f"class {name} has {found.lines} lines, its member functions included, at most "
                                                 f"{LINES_MAX}: give a responsibility to a class of its own")


def main():
    import tidy as house  # tidy.py imports this module

    names = Names(house.Tidy(*(sys.argv[1:] or [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")])))
    classes = [(found.lines, name, found.path) for name, types in names.types.items() for found in types if found.is_class]
    for lines, name, path in sorted(classes, reverse=True)[:20]:
        print(f"{lines:4}  {name}  {path}")


if __name__ == "__main__":
    main()
