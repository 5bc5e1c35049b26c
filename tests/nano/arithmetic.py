"""Arithmetic with a scratchpad: it restates the expression in digits, then computes one operation after the other in columns.

A column is `digit digit carry>carry' digit'`, with the least significant digit first. A division begins at the left, with
`remainder digit>quotient remainder'`. The reduced expression follows the columns of each operation, so no step needs more than one
table entry.
"""
import random
from dataclasses import dataclass

from conversation import Conversation, chatter, says, system, user
from words import ANIMALS, FIRST_NAMES, FOODS, JOBS, RELATIONS, THINGS, invented, number_words, pick

Expression = list[int | str]  # integers and + - * / ( )


@dataclass
class Worked:
    scratch: str
    answer: str  # "126", "-5", "3 remainder 1" or "" for a division by zero


def _columns(x: int, y: int, op: str) -> str:
    out, carry = [], 0
    a, b = str(x)[::-1], str(y)[::-1]
    for i in range(max(len(a), len(b)) if op == "+" else len(a)):
        p, q = int(a[i]) if i < len(a) else 0, int(b[i]) if i < len(b) else 0
        if op == "+":
            total = p + q + carry
            high, low = divmod(total, 10)
        else:
            total = p - q - carry
            high, low = int(total < 0), total % 10
        out.append(f"{p}{q}{carry}>{high}{low}")
        carry = high
    return " ".join(out)


def _times_digit(x: int, d: int) -> str:
    out, carry = [], 0
    for c in str(x)[::-1]:
        high, low = divmod(int(c) * d + carry, 10)
        out.append(f"{c}{d}{carry}>{high}{low}")
        carry = high
    return " ".join(out)


def _natural(x: int, op: str, y: int) -> str:
    """Scratch of x op y for naturals (x >= y for -)."""
    if op in "+-":
        return f"{x}{op}{y}:{_columns(x, y, op)}={x + y if op == '+' else x - y}"
    if len(str(y)) > len(str(x)):
        x, y = y, x
    if y < 10:
        return f"{x}*{y}:{_times_digit(x, y)}={x * y}"
    parts, total = [], 0
    for i, c in enumerate(str(y)[::-1]):
        if c == "0":
            continue
        row = x * int(c)
        parts.append(f"{x}*{c}:{_times_digit(x, int(c))}={row}")
        row *= 10**i
        parts.append(f"{total}+{row}:{_columns(total, row, '+')}={total + row}" if total else str(row))
        total += row
    return f"{x}*{y}:" + ";".join(parts) + f"={total}"


def _divide(x: int, y: int) -> str:
    """Long division of naturals; a divisor of two digits first lists its multiples."""
    out, rest = [], 0
    head = ""
    if y > 9:
        head = "(" + " ".join(str(y * i) for i in range(1, 10)) + ")"
    for c in str(x):
        whole = rest * 10 + int(c)
        q, new = divmod(whole, y)
        out.append(f"{rest}{c}{y}>{q}{new}" if y < 10 else f"{whole}-{y * q}>{q} {new}")
        rest = new
    return f"{x}/{y}:{head}{' '.join(out)}={x // y}" + (f"r{x % y}" if x % y else "")


def step(x: int, op: str, y: int) -> tuple[str, int, int]:
    """(scratch, value, remainder) of one operation on integers; signs are settled first."""
    if op in "+-":
        if y < 0:
            text, value, _ = step(x, "-" if op == "+" else "+", -y)
            return text, value, 0
        value = x + y if op == "+" else x - y
        if x >= 0 and (op == "+" or x >= y):
            return _natural(x, op, y), value, 0
        inner = _natural(y, "-", x) if x >= 0 else (_natural(-x, "+", y) if op == "-" else
                                                     _natural(max(-x, y), "-", min(-x, y)))
        return f"{x}{op}{y}:" + (f"-({inner})={value}" if value < 0 else f"{inner}"), value, 0
    a, b, negative = abs(x), abs(y), (x < 0) != (y < 0)
    if op == "*":
        inner, value = _natural(a, "*", b), -a * b if negative else a * b
    else:
        inner, value = _divide(a, b), -(a // b) if negative else a // b
    if x < 0 or y < 0:
        shown = f"({y})" if y < 0 else str(y)
        return f"{x}{op}{shown}:({inner})={value}", value, a % b if op == "/" else 0
    return inner, value, a % b if op == "/" else 0


def show(e: Expression) -> str:
    """The canonical spelling: no spaces, negatives in parentheses unless first."""
    return "".join(f"({t})" if isinstance(t, int) and t < 0 and i and e[i - 1] != "(" else str(t) for i, t in enumerate(e))


def _next(e: Expression) -> int:
    """Index of the operator to work out next: inside the first innermost parentheses, * and / before + and -."""
    close = e.index(")") if ")" in e else len(e)
    start = max([i for i in range(close) if e[i] == "("], default=-1)
    ops = [i for i in range(start + 1, close) if e[i] in ("+", "-", "*", "/")]
    return next((i for i in ops if e[i] in "*/"), ops[0])


def work_out(e: Expression) -> Worked | None:
    """Returns None if it is outside of what nano is taught (a fraction in the middle, or too large a number)."""
    e, lines = list(e), [show(e)]
    while len(e) > 1:
        i = _next(e)
        x, op, y = e[i - 1], e[i], e[i + 1]
        if op == "/" and y == 0:
            return Worked(";".join(lines + ["/0"]), "")
        if abs(x) > 9_999_999 or abs(y) > 9_999_999:
            return None
        if op == "*" and (min(len(str(abs(x))), len(str(abs(y)))) > 2 or abs(x * y) > 9_999_999):
            return None
        if op == "/" and abs(y) > 99:
            return None
        text, value, rest = step(x, op, y)
        if rest and len(e) > 3:
            if i + 2 < len(e) and e[i + 2] == "*" and len(e) == 5:  # a/b*c: multiply first
                lines.append(text)
                e = [x, "*", e[4], "/", y]
                lines.append(show(e))
                continue
            return None
        if rest and (x < 0 or y < 0):
            return None
        if text.startswith(lines[-1] + ":"):
            lines.pop()
        lines.append(text)
        e[i - 1:i + 2] = [value]
        for k in range(len(e) - 2):  # parentheses around a number go
            if e[k] == "(" and e[k + 2] == ")":
                e[k:k + 3] = [e[k + 1]]
                break
        if rest:
            return Worked(";".join(lines), f"{value} remainder {rest}")
        if len(e) > 1:
            lines.append(show(e))
    if abs(e[0]) > 99_999_999:
        return None
    return Worked(";".join(lines), str(e[0]))


def number(r: random.Random) -> int:
    digits = r.choices((1, 2, 3, 4, 5), (38, 42, 14, 4, 2))[0]
    return r.randint(0 if digits == 1 else 10**(digits - 1), 10**digits - 1)


def random_expression(r: random.Random) -> Expression:
    while True:
        count = r.choices((1, 2, 3), (28, 67, 5))[0]
        ops = ["*", "/"] if count == 2 and r.random() < 0.12 else [r.choice("+-*/") for _ in range(count)]
        values = [number(r) for _ in range(count + 1)]
        if r.random() < 0.04:
            values[0] = -values[0]
        for i, op in enumerate(ops):
            if op == "/" and values[i + 1] != 0 or (op == "/" and r.random() < 0.95):
                small = r.random() < 0.94
                values[i + 1] = r.randint(2, 9) if small else r.randint(10, 60)
                if i == 0 and r.random() < 0.85:
                    values[0] = values[1] * r.randint(0, 999 if r.random() < 0.4 else 40)
                elif i and ops[i - 1] in "+-" and r.random() < 0.8:
                    values[i] = values[i + 1] * r.randint(0, 120)
        e: Expression = [values[0]]
        for op, v in zip(ops, values[1:]):
            e += [op, v]
        if count > 1 and r.random() < 0.22:
            at = r.choice(range(0, len(e) - 2, 2))
            e[at:at + 3] = ["(", *e[at:at + 3], ")"]
        if ops[-1] == "/" and count == 2 and r.random() < 0.8:  # whole results more often than chance gives them
            whole = work_out(e)
            if whole is None or "remainder" in whole.answer:
                continue
        worked = work_out(e)
        size = len(worked.scratch) if worked else 999
        if size < 110 or size < 220 and r.random() < 0.3:  # long ones cost the most and teach the least
            return e


_OPERATOR = {"+": ["+", "+", "+", "plus", "plus", "added to", "and"], "-": ["-", "-", "-", "minus", "minus", "take away", "less", "−"],
             "*": ["*", "*", "*", "times", "times", "x", "×", "multiplied by", "·"],
             "/": ["/", "/", "/", "divided by", "divided by", "÷", "over", ":"]}
_STYLES = {"+": ["+", "plus"], "-": ["-", "minus"], "*": ["*", "times", "x", "×"], "/": ["/", "divided by", "÷", ":"]}


def spoken(r: random.Random, e: Expression) -> str:
    """The expression as a person may write it."""
    words = {op: r.choice(_OPERATOR[op] if len(e) == 3 else _STYLES[op]) for op in "+-*/"}
    if r.random() < 0.6:
        words = {op: op for op in "+-*/"}
    elif r.random() < 0.3:
        words["*"] = "x"
    as_words = r.random() < 0.12
    tight = r.random() < 0.3
    odd = r.random() < 0.06
    out = ""
    for i, t in enumerate(e):
        if isinstance(t, int):
            size = abs(t)
            text = number_words(size) if as_words and size < (1000 if r.random() < 0.3 else 100) else str(size)
            if size >= 1000 and r.random() < 0.08:
                text = f"{size:,}"
            if t < 0:
                text = ("minus " if as_words else "-") + text
            out += text
        elif t in "()":
            out += t
        else:
            w = words[t]
            if w.isalpha() and len(w) > 1 or " " in w or as_words and w == "x":
                out += f" {w} "
            elif odd:
                out += r.choice((w + " ", " " + w, "  " + w + " ", w))
            else:
                out += w if tight else f" {w} "
    return out


ASK = ["What is {}?", "What is {}?", "What is {}?", "{}", "{} = ?", "{}=", "{} =", "{}?", "Calculate {}.", "Compute {}.", "How much is {}?",
       "Please work out {}.", "What's {}?", "whats {}", "Can you compute {}?", "Solve {}.", "Solve: {}", "Evaluate {}.", "What does {} equal?",
       "What does {} give?", "What do you get for {}?", "Find {}.", "Work out {} for me.", "I need the value of {}.", "Tell me what {} is.",
       "{} is what?", "{} equals?", "{} equals what?", "What is the result of {}?", "Give me the result of {}.", "Do you know what {} is?",
       "How much does {} make?", "What would {} be?", "Could you calculate {} for me?", "Do the math: {}", "Math: {}", "Determine {}.",
       "I want to know {}.", "What is the value of {}?", "What is the answer to {}?", "Answer this: {}", "calc {}", "Simplify {}.",
       "My homework says {}. What is it?", "If I type {} in a calculator, what do I see?", "How many is {}?", "what is {} ?",
       "Let me test you: {}", "Can you tell me {}?", "Quick maths: {}", "the answer to {}", "{}, what is that?", "Figure out {}."]


_BOXES = "crate bag tray basket carton jar pack sack bucket drawer shelf truck row bundle chest tin case pallet".split()


def _story(r: random.Random, op: str, a: str, b: str) -> str:
    """A little story put together from parts, so that what happens in it tells the operation and not its wording."""
    n, t = pick(r, FIRST_NAMES, 0.3), r.choice((pick(r, THINGS, 0.2) + "s", pick(r, FOODS, 0.2), pick(r, ANIMALS, 0.2) + "s"))
    who, has, had, do, they = r.choice((("I", "have", "had", "do", "I"), (n, "has", "had", "does", n), (f"My {r.choice(RELATIONS)}", "has", "had", "does", "that person"),
                                        ("We", "have", "had", "do", "we"), (f"The {r.choice(JOBS)}", "has", "had", "does", "that person")))
    low = "we" if who == "We" else they
    ask = r.choice((f"How many {t} {do} {low} {r.choice(('have', 'own'))} {r.choice(('now', 'in the end', 'then', 'after that'))}?", f"How many {t} are that?",
                    f"What is the number of {t} {r.choice(('now', 'then', 'in the end'))}?", f"How many {t} is that {r.choice(('in all', 'altogether', 'in total'))}?"))
    join = r.choice((". Then", ", then", " and", ". Later", ". After that", ". Today", ". On Sunday"))
    if op == "+":
        more = r.choice((f"{low} found {b} more", f"{low} bought {b} more", f"{b} more came", f"somebody gave {b} more", f"{low} got another {b}", f"{low} made {b} more"))
        return r.choice((f"{who} {r.choice((has, had, 'bought', 'found', 'got', 'made', 'took'))} {a} {t}{join} {more}. {ask}",
                         f"{who} {had} {a} {t}, {n} {r.choice(('had', 'brought', 'got'))} {b}. How many together?", f"{a} {t} in one place, {b} in another. {ask}"))
    if op == "-":
        if r.random() < 0.45:  # the price may come before or after what is paid
            price = r.choice((f"The {r.choice(('price', 'ticket', 'meal', 'fare', 'rent', 'fee', pick(r, THINGS)))} {r.choice(('is', 'costs', 'comes to', 'was'))} {b}",
                              f"{who} must pay {b}", f"Something costs {b}", f"The cost is {b}"))
            paid = r.choice((f"{low} gave {a}", f"{low} paid with {a}", f"{low} handed over {a}", f"a note of {a} was given", f"{low} put down {a}"))
            back = r.choice(("How much comes back?", "What comes back?", "How much money is returned?", "What is the change?", "How much will be given back?", "How much change is that?"))
            return r.choice((f"{price} and {paid}. {back}", f"{price}, {paid}. {back}", f"{price}. {paid[0].upper()}{paid[1:]}. {back}"))
        less = r.choice((f"{low} lost {b}", f"{low} sold {b}", f"{b} broke", f"{low} gave {b} away", f"{b} were stolen", f"{low} used {b} of them", f"{n} took {b}"))
        rest = r.choice((ask, f"How many {t} are left?", f"How many {t} remain?", "How many are left over?", "What is left?"))
        return f"{who} {r.choice((has, had, 'bought', 'found', 'got'))} {a} {t}{join} {less}. {rest}"
    box = r.choice(_BOXES)
    if op == "*":
        return r.choice((f"How many {t} are {r.choice(('in', 'there in'))} {a} {box}s {r.choice(('of', 'with', 'of', 'holding'))} {b} {t}?", f"{a} {box}s of {b} {t}. {ask}",
                         f"{who} {r.choice((has, had, 'bought', 'found'))} {a} {box}s of {b} {t}. {ask}", f"There are {a} {box}s, each {r.choice(('with', 'holding', 'of'))} {b} {t}. {ask}",
                         f"If one {box} has {b} {t}, how many {t} are in {a} {box}s?", f"One {t[:-1]} costs {b}. What {r.choice(('is the price of', 'do you pay for'))} {a}?",
                         f"{a} {r.choice(('days', 'weeks', 'times', 'people'))}, {b} {t} each. {ask}"))
    people = r.choice(("friends", "guests", "cousins", "students", "workers", "players", "neighbours", "girls", "boys", "people", box + "s"))
    each = r.choice(("How many for each?", "How many does each one get?", f"How many {t} has each then?", "What is one part?", "What does one of them get?"))
    return r.choice((f"{who} {r.choice(('divided', 'shared', 'put', 'split', 'gave'))} {a} {t} {r.choice(('between', 'among', 'to', 'over'))} {b} {people}. {each}",
                     f"If {a} {t} are {r.choice(('split', 'shared', 'divided'))} {r.choice(('between', 'among'))} {b} {people}, {each[0].lower()}{each[1:]}",
                     f"{b} {people} {r.choice(('share', 'divide', 'split'))} {a} {t}. {each}", f"{a} {t}, {b} {people}. {each}"))


def asked(r: random.Random, e: Expression) -> str:
    """A whole request, sometimes in words only ("add 5 to 6", a little story)."""
    if len(e) == 3 and r.random() < 0.3 and e[0] >= 0 and e[2] >= 0:
        return _story(r, e[1], *(number_words(v) if v < 100 and r.random() < 0.15 else str(v) for v in (e[0], e[2])))
    if len(e) == 3 and r.random() < 0.3 and e[0] >= 0 and e[2] >= 0:
        a, op, b = e
        a, b = (number_words(v) if v < 100 and r.random() < 0.25 else str(v) for v in (a, b))
        name, thing = pick(r, FIRST_NAMES, 0.4), pick(r, r.choice((FOODS, [t + "s" for t in THINGS[:60]])), 0.2)
        more = {"+": ["Add {a} and {b}.", "Add {b} to {a}.", "What is the sum of {a} and {b}?", "Sum {a} and {b}.", "{a} plus {b}, how much is it?",
                      "What do {a} and {b} make together?", "Increase {a} by {b}.", "What is {b} more than {a}?", "Total of {a} and {b}?",
                      "{n} has {a} {t} and gets {b} more. How many {t} does {n} have?", "I have {a} {t} and buy {b} more. How many do I have?",
                      "A {t} costs {a} and another costs {b}. What do both cost?", "I walk {a} steps and then {b} more. How many steps is that?",
                      "{n} is {a} years old. How old is {n} in {b} years?", "At first there were {a} {t}, then {b} more came. How many are there now?",
                      "what do you get when you add {a} to {b}", "{n} read {a} pages on Monday and {b} on Tuesday. How many pages in all?",
                      "There are {a} {t} here and {b} there. How many {t} in total?", "{n} picks {a} {t} today and {b} {t} later. How many does {n} have then?",
                      "First {n} found {a} {t}, after that another {b}. How many {t} are that?", "We got {a} {t} and then {b} further ones. How many have we got?",
                      "My {a} {t} and your {b} {t}: how many together?", "{a} {t} arrived, later {b}. What is the number of {t} now?"],
                "-": ["Subtract {b} from {a}.", "Take {b} away from {a}.", "What is the difference between {a} and {b}?", "What is {a} less {b}?",
                      "Reduce {a} by {b}.", "What is {b} less than {a}?", "What is left of {a} if I take {b} away?", "Remove {b} from {a}.",
                      "{n} pays {b} euros with {a} euros. How much change is there?", "I have {a} {t}. I use {b}. How many do I have left?",
                      "The bill is {b} and I give {a}. How much do I get back?", "How much more is {a} than {b}?", "There were {a} {t}, {b} broke. How many are whole?",
                      "what do I have left when I take {b} from {a}", "{n} had {a} {t}, ate {b}. What remains?",
                      "{n} has {a} {t} and loses {b}. How many {t} are left?", "I had {a} {t} and gave away {b}. How many do I still have?",
                      "Out of {a} {t}, {n} sells {b}. How many remain?", "From {a} subtract {b}.",
                      "It costs {b}, and {n} hands over {a}. What comes back?", "{n} owes {b} and gives {a}. What is returned?",
                      "With {a} euros in the purse {n} spends {b}. What is in it then?", "The price is {b}, I put {a} on the table. What is my change?"],
                "*": ["Multiply {a} by {b}.", "What is the product of {a} and {b}?", "Multiply {a} and {b}.", "What is {a} multiplied with {b}?",
                      "There are {a} boxes with {b} {t} each. How many {t} are there?", "One ticket costs {b} euros. What do {a} tickets cost?",
                      "How many {t} are in {a} boxes with {b} {t} each?", "{a} rows of {b} {t}: how many {t}?", "Each of {a} people has {b} {t}. How many {t} in total?",
                      "{n} works {a} hours a day for {b} days. How many hours is that?", "what number is {a} multiplied by {b}", "{a} packs with {b} {t} in each. How many {t}?",
                      "{n} buys {a} bags of {b} {t} each. How many {t} is that?", "How much is {a} times {b}?", "Product of {a} and {b}?"],
                "/": ["Divide {a} by {b}.", "What is the quotient of {a} and {b}?", "How many times does {b} go into {a}?", "Split {a} into {b} equal parts.",
                      "{n} shares {a} {t} equally among {b} people. How many does each get?", "Split {a} {t} among {b} friends.",
                      "{a} {t} go into {b} boxes. How many are in each box?", "If {b} people share {a} {t}, how many does each one get?", "what is {a} when divided by {b}",
                      "We cut {a} meters into {b} pieces. How long is each?", "{b} tickets cost {a} euros. What is the price of one?",
                      "What is {a} shared by {b}?", "{a} divided into {b} parts?", "{a} {t} for {b} children: how many for each?",
                      "Share {a} {t} between {b} people. What does everybody receive?", "When {b} girls divide {a} {t} fairly, how many has each?",
                      "Give {a} {t} to {b} guests in equal parts. How many per guest?"]}[op]
        extra = []
        if e[2] == 2:
            extra = {"*": ["What is twice {a}?", "Double {a}.", "What is two times {a}?"], "/": ["What is half of {a}?", "Halve {a}."]}.get(op, [])
        if e[2] == 3 and op == "*":
            extra = ["What is three times {a}?", "Triple {a}."]
        return r.choice(extra if extra and r.random() < 0.6 else more).format(a=a, b=b, n=name, t=thing)
    return r.choice(ASK).format(spoken(r, e))


def reply(worked: Worked) -> str:
    return f"The answer is {worked.answer}." if worked.answer else "I cannot divide by zero."


def arithmetic(r: random.Random) -> Conversation:
    e = random_expression(r)
    if r.random() < 0.05 and len(e) == 3 and 0 <= e[0] < 1000:  # what equals what, with the square or the special forms
        x = e[0] % 100
        e, text = [x, "*", x], r.choice(("What is {} squared?", "{} squared", "the square of {}", "{}^2")).format(x)
    elif r.random() < 0.04:  # a list to add up
        values = [number(r) for _ in range(r.randint(2, 4))]
        e = [t for v in values for t in (v, "+")][:-1]
        given = ", ".join(map(str, values[:-1])) + r.choice((" and ", ", ", ", and ")) + str(values[-1])
        text = r.choice(("What is the sum of {}?", "Add {}.", "Add up {}.", "Sum up {}.", "Sum of {}?", "Add these numbers: {}", "The total of {}?",
                         "How much are {} together?", "What do {} add up to?", "sum {}")).format(given)
    elif r.random() < 0.01:
        e = [number(r), "/", 0]
        text = asked(r, e)
    else:
        text = asked(r, e)
    worked = work_out(e)
    if r.random() < 0.03:  # somebody's opinion first, right or wrong
        shown, other = spoken(r, e), number(r)
        text = r.choice((f"Is it right that {shown} is {other}? {text}", f"I think that {shown} = {other}. {text}", f"{r.choice(FIRST_NAMES)} says {shown} = {other}. {text}",
                         f"Somebody wrote {shown} = {worked.answer or other}. {text}", f"Does {shown} make {worked.answer or other}? {text}"))
    return Conversation(system(r) + [user(chatter(r, text)), says(reply(worked), worked.scratch)])


def check(n: int = 20000) -> None:
    """Compares the scratchpad with Python."""
    r = random.Random(1)
    for _ in range(n):
        e = random_expression(r)
        worked = work_out(e)
        text = show(e)
        if "remainder" in worked.answer:
            q, rest = map(int, worked.answer.split(" remainder "))
            assert abs(eval(text) - q) < 1 and rest > 0, (text, worked)
        elif worked.answer:
            assert abs(eval(text) - int(worked.answer)) < 1e-6, (text, worked)


if __name__ == "__main__":
    check()
    rng = random.Random(3)
    for _ in range(40):
        talk = arithmetic(rng)
        print(repr(talk.turns[-2].text), "->", talk.turns[-1].think, "|", talk.turns[-1].text)
