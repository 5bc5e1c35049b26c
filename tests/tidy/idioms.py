"""Counts the idioms that only this project uses, which a reader from outside has to puzzle out.

The check searches what people read: comments and string literals of sources, docstrings, and the whole text of other files.
IDIOMS has a pattern for each idiom, with what to write instead. A file may contain as many idioms as its row of idioms.txt
says, and none if it has no row. A number may only shrink: check(tidy) reports every idiom of a file that has too many, and
every number that is larger than what its file contains.

Prints how often each idiom occurs; with --files how many idioms each file contains; with --lower it prints nothing and writes
the smaller numbers into idioms.txt. Usage: idioms.py [--files|--lower] [ROOT]
"""
import bisect
import collections
import os
import re
import sys

import source

ALLOWED = "tests/tidy/idioms.txt"
C_LIKE = (".cc", ".h", ".inc", ".cu", ".cuh", ".js", ".css", ".proto")
OTHER = (".md", ".sh", ".html", ".txt", ".cmake", ".yaml", ".yml", ".def", ".tpl")
# Not searched: generated manifests, data of tests, and the check itself, which has to name the idioms.
NOT_PROSE = re.compile(r"^(tests/(tidy|golden/data)|deploy/manifests)/|/testdata/|(^|/)requirements\.txt$")

BEGIN = r"(?:\x00|\n[ \t]*\n)\s*"  # where a comment, a literal or a paragraph begins
IDIOMS = [(name, re.compile(pattern), instead) for name, pattern, instead in (
    ("Of ... (first word)", BEGIN + r"Of\s(?!course\b)", 'begin with the subject or a verb: "The block\'s bytes", "Returns the ..."'),
    ("so many (a number's name)", r"\b[Ss]o\s+(?:many|much)\b(?!\s+(?:that|as)\b)", 'name the number: "at most `count` tokens"'),
    ("hangs on", r"\b[Hh]ang(?:s|ing)?\s+on\b", '"depends on"'),
    ("of which (before its part)",
     r"\b(?=[Oo]f\s)(?<!all )(?<!each )(?<!half )(?<!most )(?<!none )(?<!one )(?<!some )[Oo]f\s+which\s+"
     r"(?:the|its|it|an?|each|every|no|nothing|none|only|nobody|one|there)\b",
     'two sentences, or "with": "a tenant with no running sequence"'),
    ("is no ... (is not a)",
     r"(?<![Tt]here )\b(?:is|are|was|were|be)\s+no\s+(?!(?:longer|such|other|different|good|need|less)\b|more\s+than\b)\w", '"is not a ..."'),
    ("is the X's (belongs to)",
     r"\b(?:is|are|was|were|be)\s+(?:\w+\s+)?(?!nobody's)\w+(?:'s|s')(?=\s*(?:[.,;:)\"\x00]|\Z))|\b(?:is|are|was|were)\s+(?:theirs|ours)\b",
     '"belongs to", "comes from", "is the same as ..."'),
    ("is of (belongs to)", r"\b(?:is|are|was|were)\s+of\s+(?:one|an?|the|its|their|no|which|whose|another)\b(?!\s+same\b)",
     '"belongs to", "comes from", "has"'),
    ("from N on", r"\b[Ff]rom\s+(?!(?:now|then|here|there|this|that)\b)[\w.`]+\s+on\b", '"N or more", "beginning with N"'),
    ("goes on with (continues)", r"\b(?:go|goes|going|gone|went)\s+on\s+(?:with|from|behind|as|by|where)\b", '"continues"'),
    ("lies in (is stored in)", r"\b(?:lie|lies|lain)\s+(?:in|on|at|there|beside|behind|where)\b", '"is in", "is stored in", "is allocated on"'),
    ("comes to lie, as it lies", r"\b(?:come|comes|came)\s+to\s+lie\b|\b[Aa]s\s+(?:it|they)\s+(?:lie|lies|lay)\b", '"is placed", "ends up"; "as stored"'),
    ("but for (except)", r"\b[Bb]ut\s+for\b", '"except"'),
    ("anew", r"\b[Aa]new\b", '"again", "from the beginning"'),
    ("behind it (after)",
     r"\b[Bb]ehind\s+(?:it|them|this|that|those|which|each|all|what|where|one\s+another|the|an?|its|their|\d|`)"
     r"(?!\s+(?:[\w-]+\s+)?(?:[\w-]*router|gateway|proxy|balancer|address|port|mutex|interface|name)\b)",
     '"after", "follows"; "behind" is for routers and proxies'),
    ("nobody's", r"\b[Nn]obody's\b", '"belongs to none", "unused"'),
    ("meets (is multiplied by)",
     r"\b[Mm]eets?\s+(?:it|them|INT8|INT4|BF16|FP8|W_\w+|weights|any|all\s+rows|more\s+rows|one\s+expert|several\s+tokens"
     r"|the\s+(?:weights|keys|shared|next)|an?\s+(?:run|few|head's|piece|matrix))\b"
     r"|\b(?:weights|matrices|scales)\s+(?:that\s+)?(?:it|they)\s+meets?\b",
     '"is multiplied by", "is routed to"'),
    ("to be had", r"\b(?:can|cannot|could|to|not|may)\s+be\s+had\b", '"is available", "can be obtained"'),
    ("none: ... (null if)",
     r"(?:" + BEGIN + r"|[;.,]\s+)(?:none|null|nullptr|nullopt|empty|None|Null|Nullptr|Nullopt|Empty):\s+[a-z\"`]", '"null if ...", "empty if ..."'),
    ("who, whoever (headless)", r"\b(?:by|for|from|to|only|of)\s+who\b|\b[Ww]hoever\b", 'name who: "the caller that ...", "a thread that ..."'),
    ("hears of", r"\b(?:hear|hears|heard)\s+(?:of|from|nothing|it)\b", '"learns", "receives"'),
    ("says nothing of", r"\b(?:say|says|said|saying)\s+nothing\s+of\b", '"does not mention", "leaves out"'),
    ("by turns", r"\b[Bb]y\s+turns\b", '"alternately", "in turn"'),
    ("of equals", r"\b(?:[Oo]f|[Aa]mong)\s+equals\b", '"ties go to ..."'),
    ("frees them not", r"\b(?!(?:this|as|was|is|does|has)\b)\w+s\s+(?:it|them)\s+not\b", '"does not free them"'),
    ("whence, amiss, let be",
     r"\b(?:[Ww]hence|[Ww]hither|[Tt]hither|[Aa]miss|[Ww]ithal|[Hh]enceforth|[Tt]hereof|[Ww]hereof)\b|\b(?:is|are|be)\s+let\s+be\b"
     r"|\b[Mm]akes?\s+nothing\s+of\b",
     'today\'s word: "where ... from", "wrong", "left alone"'),
)]

PYTHON_TOKEN = re.compile(r'#[^\n]*|[rbf]*("""|\'\'\')(?:\\.|.)*?\1|[rbf]*"(?:\\.|[^"\\\n])*"|[rbf]*\'(?:\\.|[^\'\\\n])*\'', re.S)
MARK = re.compile(r"^[ \t]*(?://+<?|/?\*+/?|#+|[*-] |\|)", re.M)

Found = collections.namedtuple("Found", "line words name instead")


def same_length(text, pattern):
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def without_marks(token):
    """A comment or literal with blanks in place of its marks or quotes, so that its length stays the same."""
    if token[0] in "/#*":
        return same_length(token, MARK)
    return re.sub(r"^[rRbfL]*[\"']+|[\"']+$", lambda match: " " * len(match[0]), token)


def tokens_of(text, pattern):
    """[(offset, text)] of comments and literals; a comment of several lines is one block, and so are adjacent literals."""
    blocks, end, kind = [], 0, ""
    for match in pattern.finditer(text):
        token = match[0]
        if token.startswith("'") and len(token) < 5:  # a character of C++
            continue
        this = "comment" if token[0] in "/#" else "literal"
        between = text[end:match.start()]
        if blocks and kind == this and not between.strip() and between.count("\n") <= 1:
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + between + without_marks(token))
        else:
            blocks.append((match.start(), without_marks(token)))
        end, kind = match.end(), this
    return blocks


def paragraphs_of(text):
    """[(offset, text)] of paragraphs, which end at a blank line and between a comment and another line."""
    blocks, offset, kind = [], 0, ""
    for line in text.splitlines(keepends=True):
        this = "#" if line.lstrip().startswith("#") else "text" if line.strip() else ""
        if this and this == kind:
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + same_length(line, MARK))
        elif this:
            blocks.append((offset, same_length(line, MARK)))
        offset, kind = offset + len(line), this
    return blocks


def is_searched(path):
    return path.endswith((*C_LIKE, ".py", *OTHER)) and not NOT_PROSE.search(path)


def prose_of(path, text):
    """(the blocks of a file, a NUL before each so that no match extends over two of them; [(position in that, line)] of its lines)"""
    blocks = (tokens_of(text, source.TOKEN) if path.endswith(C_LIKE) else
              tokens_of(text, PYTHON_TOKEN) if path.endswith(".py") else paragraphs_of(text))
    prose, places, end, line = [], [], 0, 1
    at = 0
    for offset, block in blocks:
        line += text.count("\n", end, offset)
        for row in block.splitlines(keepends=True):
            places.append((at + 1, line))
            line += row.endswith("\n")
            at += len(row)
        prose.append("\0" + block)
        at += 1
        end = offset + len(block)
    return "".join(prose), places


def search(path, text):
    """[Found] of a file, sorted by line."""
    prose, places = prose_of(path, text)
    found = []
    for name, pattern, instead in IDIOMS:
        for match in pattern.finditer(prose):
            words = match[0].lstrip(" \t\n;.,:\0")
            _, line = places[bisect.bisect_right(places, (match.end() - len(words), sys.maxsize)) - 1]
            found.append(Found(line, " ".join(words.split()), name, instead))
    return sorted(found)


def read(tidy):
    """{path: (number, line)} of idioms.txt; reports rows of another form."""
    rows = {}
    for number, row in enumerate(tidy.lines(ALLOWED), 1):
        if not row.strip() or row.startswith("#"):
            continue
        path, _, count = row.rpartition(" ")
        if not path or not count.isdigit() or int(count) < 1 or path in rows:
            tidy.say(ALLOWED, number, f'"{row}": expected PATH N, each path once, N at least 1')
            continue
        rows[path] = (int(count), number)
    return rows


def search_all(tidy):
    """{path: [Found]} of all files with at least one idiom."""
    found = {path: search(path, tidy.read(path)) for path in tidy.files if is_searched(path)}
    return {path: places for path, places in found.items() if places}


def check(tidy):
    rows, found = read(tidy), search_all(tidy)
    for path, places in found.items():
        allowed, line = rows.get(path, (0, 0))
        for place in places if len(places) > allowed else ():
            tidy.say(path, place.line, f'"{place.words}" is an idiom that only this project uses: write {place.instead}. The file has '
                                       f"{len(places)} idioms, at most {allowed}, which may only shrink ({ALLOWED})")
        if len(places) < allowed:
            tidy.say(ALLOWED, line, f"{path} shrank to {len(places)}: lower its number from {allowed} (idioms.py --lower does that)")
    for path in sorted(set(rows) - set(found)):
        tidy.say(ALLOWED, rows[path][1], f"{path} has no idioms now: remove its row (idioms.py --lower does that)")


def lowered(text, found):
    """The text of idioms.txt with every number lowered to what its file contains; no number is raised."""
    lines = []
    for line in text.splitlines():
        path, _, count = line.rpartition(" ")
        if not line.startswith("#") and path and count.isdigit():
            now = min(int(count), len(found.get(path, ())))
            if not now:
                continue
            line = f"{path} {now}"
        lines.append(line + "\n")
    return "".join(lines)


def table(found):
    """The printed lines: how often each idiom occurs, then the sum."""
    counts = collections.Counter(place.name for places in found.values() for place in places)
    rows = [f"{counts[name]:5}  {name}" for name, _, _ in IDIOMS]
    return [*rows, f"{sum(counts.values()):5}  in {len(found)} files"]


def main():
    import tidy as house  # tidy.py imports this module

    arguments = sys.argv[1:]
    option = arguments[0] if arguments[:1] in (["--files"], ["--lower"]) else ""
    roots = arguments[bool(option):] or [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")]
    tidy = house.Tidy(roots[0])
    found = search_all(tidy)
    if option == "--lower":
        text = lowered(tidy.read(ALLOWED), found)
        with open(os.path.join(tidy.root, ALLOWED), "w", encoding="utf-8") as f:
            f.write(text)
    elif option == "--files":
        print("\n".join(f"{path} {len(places)}" for path, places in sorted(found.items())))
    else:
        print("\n".join(table(found)))


if __name__ == "__main__":
    main()
