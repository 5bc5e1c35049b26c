"""Reads C++ sources for tidy.py: the text without comments and literals, and its scopes, functions and statements."""
import re

TOKEN = re.compile(
    r'//[^\n]*'                                        # line comment
    r'|/\*.*?\*/'                                      # block comment
    r'|R"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)     # not a digit separator
SCOPE = re.compile(r"(^|[\s;}>])(namespace|class|struct|union|enum|extern)\b[^()=]*$")
CONTROL = re.compile(r"^\s*(if|for|while|switch|do|else|catch|return)\b")
MEMBER_INITIALISER = re.compile(r"\)[^()]*(?<!:):(?!:).*[\w>]$|,\s*[\w:<>]+$", re.S)


def blank(text):
    """The text with comments and the insides of literals removed; line numbers stay."""
    def replace(match):
        found = match[0]
        quote = '""' if found[0] in 'R"' else "''" if found[0] == "'" else ""
        return quote + "\n" * found.count("\n")
    return TOKEN.sub(replace, text)


def without_preprocessor(text):
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), text, flags=re.M)


def function_name(head):
    """The name in front of the parameter list; for a test macro, SUITE.CASE."""
    head = re.sub(r"^\s*template\s*<[^{}]*?>\s*(?=\S)", "", head)
    test = re.search(r"\bTEST(?:_[FP])?\(\s*(\w+)\s*,\s*(\w+)\s*\)", head)
    if test:
        return f"{test[1]}.{test[2]}"
    match = re.search(r"((?:[\w~]+::)*(?:operator\s*\S{1,3}?|[\w~]+))\s*\(", head)
    return match[1] if match else "?"


def kind_of(head):
    head = re.sub(r"\balignas\s*\([^()]*\)|\b__attribute__\s*\(\(.*?\)\)", "", head)
    if SCOPE.search(head):
        return "scope"
    if "(" not in head or re.search(r"(=|\breturn)\s*$", head) or CONTROL.match(head):
        return "other"
    if head.count("(") != head.count(")") or MEMBER_INITIALISER.search(head):
        return "other"
    return "function"


def blocks(text):
    """(kind, head, first line, last line, heads of the scopes around it) of every "scope" (a namespace, a class and the like),
    every "function" body and every "statement" that is within scopes alone; an inner one before the outer. `text` is blank()ed."""
    text = without_preprocessor(text)
    stack, head_start, head = [], 0, ""

    def block(kind, opened, first, at):
        return kind, opened.strip(), first, text.count("\n", 0, at) + 1, [outer.strip() for _, outer, _ in stack]

    def first_line(at):
        return text.count("\n", 0, at - len(head.lstrip())) + 1

    for match in re.finditer(r"[{};]", text):
        mark, at = match[0], match.start()
        head += text[head_start:at]
        head_start = at + 1
        inside = any(kind != "scope" for kind, _, _ in stack)
        if mark == "{":
            kind = "other" if inside else kind_of(head.strip())
            stack.append((kind, head, first_line(at) if kind != "other" else 0))
            head = ""
        elif mark == "}":
            kind, opened, first = stack.pop() if stack else ("scope", "", 0)
            if kind != "other" and first:
                yield block(kind, opened, first, at)
            # A brace inside a declaration (an initialiser, a default argument) does not end it.
            head = opened + "''" if kind == "other" and not any(k != "scope" for k, _, _ in stack) else ""
        elif head.count("(") <= head.count(")"):
            if not inside and head.strip():
                yield block("statement", head, first_line(at), at)
            head = ""
        else:
            head += mark


def functions(text):
    """(name, first line, last line) of every function body outside any other; `text` is blank()ed."""
    for kind, head, first, last, _ in blocks(text):
        if kind == "function":
            yield function_name(head), first, last
