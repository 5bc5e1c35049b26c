"""Counting, spelling, reversing, sorting, comparing, days and months: small tasks with exact answers."""
import random

from conversation import LETTERS, Conversation, chatter, says, system, user
from words import (ANIMALS, CITIES, COLORS, COMMON, DAYS, FIRST_NAMES, FOODS, MONTH_DAYS, MONTHS, THINGS, invented, number_words, pick)

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth""".split()


def _word(r: random.Random, longest: int = 9) -> str:
    while True:
        word = pick(r, r.choice((COMMON, COMMON, THINGS, ANIMALS, FOODS, COLORS)), 0.4)
        if r.random() < 0.15:
            word = pick(r, r.choice((FIRST_NAMES, CITIES)), 0.3)
        if " " not in word and len(word) <= longest:
            return word


def _quoted(r: random.Random, word: str) -> str:
    return r.choice((word, word, f"'{word}'", f'"{word}"', word.upper() if r.random() < 0.2 else word))


def _ask(r: random.Random, forms: tuple[str, ...], **fill: object) -> str:
    return r.choice(forms).format(**fill)


def spelling(r: random.Random) -> tuple[str, str, str]:
    word = _quoted(r, _word(r))
    bare = word.strip("'\"")
    text = _ask(r, ("Spell {w}.", "Spell the word {w}.", "How do you spell {w}?", "Can you spell {w}?", "Please spell {w} for me.", "What are the letters of {w}?",
                    "Write {w} letter by letter.", "spell {w}", "Give me the letters in {w}.", "What is the spelling of {w}?", "{w}, letter by letter please",
                    "Spell out {w}.", "How is {w} spelled?", "Say {w} one letter at a time.", "Separate the letters of {w}."), w=word)
    return text, "", "-".join(bare)


def reversing(r: random.Random) -> tuple[str, str, str]:
    word = _quoted(r, _word(r, 8))
    bare = word.strip("'\"")
    text = _ask(r, ("Reverse {w}.", "Reverse the word {w}.", "What is {w} backwards?", "Write {w} backwards.", "Spell {w} backwards.", "Turn {w} around.",
                    "How do you write {w} backward?", "What is {w} in reverse?", "Can you reverse {w}?", "reverse the letters of {w}", "Say {w} from back to front.",
                    "Flip the word {w}.", "{w} reversed?", "Give me {w} in reverse order.", "What do you get if you reverse {w}?"), w=word)
    return text, "-".join(bare) + ";" + "-".join(bare[::-1]), LETTERS + bare[::-1] + LETTERS


def letters(r: random.Random) -> tuple[str, str, str]:
    word = _word(r)
    k = r.randrange(len(word))
    kind = r.random()
    numbered = " ".join(f"{c}{i + 1}" for i, c in enumerate(word))
    if kind < 0.4:
        text = _ask(r, ("How many letters does {w} have?", "How many letters are in {w}?", "Count the letters in {w}.", "How long is the word {w}?",
                        "Number of letters in {w}?", "What is the length of {w}?", "how many letters has the word {w}"), w=_quoted(r, word))
        return text, numbered, f"{word} has {len(word)} letters."
    if kind < 0.6:
        text = _ask(r, ("What is the first letter of {w}?", "First letter of {w}?", "Which letter does {w} start with?", "What letter does {w} begin with?"), w=_quoted(r, word))
        return text, numbered, f"The first letter is {word[0]}."
    if kind < 0.8:
        text = _ask(r, ("What is the last letter of {w}?", "Last letter of {w}?", "Which letter does {w} end with?", "What letter does {w} end in?"), w=_quoted(r, word))
        return text, numbered, f"The last letter is {word[-1]}."
    if kind < 0.9:
        text = _ask(r, ("What is the {o} letter of {w}?", "Which letter is the {o} one in {w}?", "Tell me the {o} letter in {w}."), w=_quoted(r, word), o=ORDINALS[k])
        return text, numbered, f"The {ORDINALS[k]} letter is {word[k]}."
    letter = r.choice(word.lower()) if r.random() < 0.8 else r.choice("abcdefghij")
    count = word.lower().count(letter)
    text = _ask(r, ("How many times does {c} occur in {w}?", "How many {c}s are in {w}?", "How many {c}'s are there in {w}?", "Count the letter {c} in {w}."), w=word, c=letter)
    return text, "-".join(word) + ";" + " ".join(c for c in word.lower() if c == letter), f"{count}."


def counting(r: random.Random) -> tuple[str, str, str]:
    low, step = r.choice((1, 1, 1, 0, r.randint(0, 60))), r.choice((1, 1, 1, 1, 2, 3, 5, 10))
    steps = r.randint(2, 14)
    high = low + step * steps
    if r.random() < 0.25:
        text = _ask(r, ("Count down from {b} to {a}{s}.", "Count backwards from {b} to {a}{s}.", "Count from {b} down to {a}{s}.", "Countdown from {b} to {a}{s}"),
                    a=low, b=high, s=f" by {step}" if step > 1 else "")
        return text, "", ", ".join(map(str, range(high, low - 1, -step)))
    if step > 1:
        text = _ask(r, ("Count from {a} to {b} by {s}.", "Count from {a} to {b} in steps of {s}.", "Count by {s}s from {a} to {b}.", "Every {s} from {a} to {b}, please count."),
                    a=low, b=high, s=step)
    elif low == 1:
        text = _ask(r, ("Count to {b}.", "Count up to {b}.", "Count from 1 to {b}.", "Can you count to {b}?", "Please count to {b}.", "List the numbers from 1 to {b}.",
                        "count to {b}", "Show me how you count to {b}.", "List the first {b} numbers.", "Count from one to {b}."),
                    b=high if high > 20 or r.random() < 0.7 else number_words(high))
    else:
        text = _ask(r, ("Count from {a} to {b}.", "List the numbers from {a} to {b}.", "Write the numbers {a} to {b}.", "Start at {a} and count to {b}.",
                        "Which numbers are there from {a} to {b}?", "Numbers between {a} and {b} inclusive?"), a=low, b=high)
    return text, "", ", ".join(map(str, range(low, high + 1, step)))


def _list(r: random.Random, items: list[str]) -> str:
    if r.random() < 0.3:
        return ", ".join(items[:-1]) + " and " + items[-1]
    return r.choice((", ", ", ", " ", ",")).join(items)


def sorting(r: random.Random) -> tuple[str, str, str]:
    count = r.randint(2, 6)
    if r.random() < 0.6:
        top = r.choice((9, 20, 100, 100, 1000))
        values = r.sample(range(top + 1), count)
        given = _list(r, list(map(str, values)))
        down = r.random() < 0.25
        text = _ask(r, ("Sort {l} in descending order.", "Sort these from largest to smallest: {l}", "Put {l} in decreasing order.", "Order {l} from high to low.") if down else
                    ("Sort {l}.", "Sort these numbers: {l}", "Put {l} in order.", "Order these numbers: {l}", "Sort the list {l}.", "Arrange {l} from smallest to largest.",
                     "sort {l} please", "Sort {l} in ascending order.", "Can you sort {l}?", "What is {l} sorted?", "Order {l} from low to high.", "Sort [{l}]"), l=given)
        return text, "", ", ".join(map(str, sorted(values, reverse=down)))
    words: dict[str, str] = {}
    while len(words) < count:
        w = _word(r).lower()
        words.setdefault(w[0], w)  # first letters differ
    items = list(words.values())
    r.shuffle(items)
    text = _ask(r, ("Sort {l} alphabetically.", "Put {l} in alphabetical order.", "Sort these words: {l}", "Order {l} by the alphabet.", "Alphabetize {l}.",
                    "Arrange these words alphabetically: {l}", "Sort the words {l}."), l=_list(r, items))
    return text, "", ", ".join(sorted(items))


def comparing(r: random.Random) -> tuple[str, str, str]:
    count = r.choice((2, 2, 3, 4, 5))
    top = r.choice((10, 100, 1000, 10000))
    values = r.sample(range(top), count)
    kind = r.random()
    if kind < 0.2:
        x = values[0]
        even = r.random() < 0.5
        text = _ask(r, ("Is {x} even?", "Is {x} an even number?") if even else ("Is {x} odd?", "Is {x} an odd number?"), x=x) if r.random() < 0.6 else f"Is {x} even or odd?"
        if "or odd" in text:
            return text, "", f"{x} is {'odd' if x % 2 else 'even'}."
        return text, "", f"{'Yes' if (x % 2 == 0) == even else 'No'}, {x} is {'odd' if x % 2 else 'even'}."
    if kind < 0.35:
        a, b = values[0], values[1]
        text, truth = r.choice(((f"Is {a} bigger than {b}?", a > b), (f"Is {a} larger than {b}?", a > b), (f"Is {a} greater than {b}?", a > b), (f"Is {a} smaller than {b}?", a < b),
                                (f"Is {a} less than {b}?", a < b), (f"Is {a} more than {b}?", a > b), (f"{a} > {b}?", a > b), (f"{a} < {b}?", a < b)))
        return text, "", "Yes." if truth else "No."
    if kind < 0.5:
        after = r.random() < 0.5
        text = _ask(r, ("What number comes after {x}?", "Which number follows {x}?", "What is the next number after {x}?") if after else
                    ("What number comes before {x}?", "Which number is right before {x}?"), x=values[0] + 1)
        return text, "", f"{values[0] + 2 if after else values[0]}."
    big = r.random() < 0.6
    given = f"{values[0]} or {values[1]}" if count == 2 else _list(r, list(map(str, values)))
    text = _ask(r, ("Which is bigger, {l}?", "Which number is larger: {l}?", "What is the largest of {l}?", "What is the maximum of {l}?", "Which is more: {l}?", "Biggest of {l}?",
                    "Which one is the greatest: {l}?", "max of {l}", "What is bigger: {l}?") if big else
                ("Which is smaller, {l}?", "Which number is smaller: {l}?", "What is the smallest of {l}?", "What is the minimum of {l}?", "Which is less: {l}?", "Smallest of {l}?", "min of {l}"),
                l=given)
    return text, "", f"{max(values) if big else min(values)}."


def calendar(r: random.Random) -> tuple[str, str, str]:
    if r.random() < 0.5:
        i, k = r.randrange(7), r.randint(1, 8)
        d = DAYS[i]
        kind = r.randrange(6)
        if kind == 0:
            return _ask(r, ("What day comes after {d}?", "Which day follows {d}?", "What is the day after {d}?", "Today is {d}. What day is tomorrow?",
                            "If today is {d}, what is tomorrow?", "Next day after {d}?"), d=d), "", f"{DAYS[(i + 1) % 7]}."
        if kind == 1:
            return _ask(r, ("What day comes before {d}?", "Which day is before {d}?", "What is the day before {d}?", "Today is {d}. What day was yesterday?",
                            "If today is {d}, what was yesterday?"), d=d), "", f"{DAYS[i - 1]}."
        if kind == 2:
            path = " ".join(f"{j}{DAYS[(i + j) % 7]}" for j in range(1, k + 1))
            return _ask(r, ("What day is {k} days after {d}?", "Today is {d}. What day is it in {k} days?", "If today is {d}, which day is it {k} days later?"), d=d, k=k), path, f"{DAYS[(i + k) % 7]}."
        if kind == 3:
            return _ask(r, ("List the days of the week.", "What are the days of the week?", "Name the days of the week.", "Tell me all weekdays.", "Days of the week?",
                            "Say the seven days of the week.", "list all days of a week", "name all the days in the week", "give me the weekdays", "write down the days of one week",
                            "Which days are there in a week?", "What days does a week have?", "enumerate the days of the week")), "", ", ".join(DAYS)
        if kind == 4:
            return _ask(r, ("How many days are in a week?", "How many days does a week have?", "How many days has a week?", "Number of days in a week?")), "", "7."
        return _ask(r, ("What is the {o} day of the week?", "Which day is the {o} of the week?"), o=ORDINALS[i]), "", f"{d}."
    i = r.randrange(12)
    m, kind = MONTHS[i], r.randrange(7)
    if kind == 0:
        return _ask(r, ("What month comes after {m}?", "Which month follows {m}?", "What is the month after {m}?", "Next month after {m}?", "It is {m}. Which month is next?"), m=m), "", f"{MONTHS[(i + 1) % 12]}."
    if kind == 1:
        return _ask(r, ("What month comes before {m}?", "Which month is before {m}?", "What is the month before {m}?"), m=m), "", f"{MONTHS[i - 1]}."
    if kind == 2:
        return _ask(r, ("What number is {m}?", "Which month number is {m}?", "What is the number of the month {m}?"), m=m), "", f"{i + 1}."
    if kind == 3:
        return _ask(r, ("What is the {o} month?", "Which month is the {o} of the year?", "What is the {o} month of the year?"), o=ORDINALS[i]), "", f"{m}."
    if kind == 4:
        return _ask(r, ("List the months of the year.", "list all months in a year", "name the months in the year", "Which months are there in a year?", "What are the months?", "Name all months.", "Tell me the twelve months.", "Months of the year?", "What are the months of the year?")), "", ", ".join(MONTHS)
    if kind == 5:
        return _ask(r, ("How many months are in a year?", "How many months does a year have?", "How many months has a year?")), "", "12."
    return _ask(r, ("How many days does {m} have?", "How many days are in {m}?", "How long is {m}?"), m=m), "", f"{MONTH_DAYS[i]}."


def copying(r: random.Random) -> tuple[str, str, str]:
    kind = r.random()
    words = [_word(r) for _ in range(r.randint(1, 5))]
    text = " ".join(words)
    if kind < 0.5:
        return _ask(r, ("Repeat after me: {t}", "Say {t}.", "Repeat: {t}", "Repeat the words {t}.", "Write {t}.", "Please say {t}", "Echo {t}", "Say exactly: {t}", "Copy this: {t}", "say {t}", "say: {t}", "just say {t}", "now write {t}",
                        "please repeat {t}", "repeat {t}", "Say the word {t}." if len(words) == 1 else "Say this: {t}"), t=text), "", text
    if kind < 0.65:
        a = r.randrange(25)
        return _ask(r, ("What letter comes after {c}?", "Which letter follows {c}?", "What is the letter after {c} in the alphabet?", "Next letter after {c}?"), c=ALPHABET[a]), "", f"{ALPHABET[a + 1]}."
    if kind < 0.75:
        a = r.randrange(1, 26)
        return _ask(r, ("What letter comes before {c}?", "Which letter is before {c}?"), c=ALPHABET[a]), "", f"{ALPHABET[a - 1]}."
    if kind < 0.8:
        return _ask(r, ("Say the alphabet.", "What is the alphabet?", "Recite the alphabet.", "List the letters of the alphabet.")), "", " ".join(ALPHABET)
    if kind < 0.83:
        return _ask(r, ("How many letters are in the alphabet?", "How many letters does the alphabet have?")), "", "26."
    if kind < 0.92:
        return _ask(r, ("How many words are in: {t}", "Count the words: {t}", "How many words do you see here: {t}"), t=text), " ".join(f"{w}{i + 1}" for i, w in enumerate(words)), f"{len(words)}."
    n = r.randint(0, 120)
    return _ask(r, ("Write {n} in words.", "How do you write {n} in words?", "Spell the number {n}.", "What is {n} in words?"), n=n), "", f"{number_words(n)}."


def echo(r: random.Random) -> Conversation:
    """Long texts to repeat: the densest lesson in copying."""
    parts = [r.choice((_word(r), _word(r), invented(r), invented(r).capitalize(), pick(r, FIRST_NAMES + CITIES, 0.2), str(r.randint(0, 99999)),
                       "".join(r.sample("ABCDEFGHKLMNPRSTXZ0123456789-_", 4)))) for _ in range(r.randint(6, 26))]
    text = r.choice((" ", " ", " ", ", ")).join(parts)
    ask = _ask(r, ("Repeat after me: {t}", "Say {t}", "Repeat: {t}", "Write {t}", "Echo {t}", "Say exactly: {t}", "Copy this: {t}", "Print {t}", "{t}\nRepeat this.",
                   "Repeat the following text. {t}", "Say this again: {t}"), t=text)
    return Conversation(system(r) + [user(ask), says(text)])


KINDS = {spelling: 5, reversing: 6, letters: 5, counting: 4, sorting: 7, comparing: 6, calendar: 7, copying: 6}


def word_game(r: random.Random) -> Conversation:
    kind = r.choices(list(KINDS), list(KINDS.values()))[0]
    text, think, answer = kind(r)
    exact = kind in (spelling, reversing, letters, sorting, copying)
    return Conversation(system(r) + [user(chatter(r, text, 0.5 if exact else 1.0)), says(answer, think)])


if __name__ == "__main__":
    rng = random.Random(1)
    for _ in range(40):
        t = word_game(rng).turns
        print(repr(t[-2].text), "->", t[-1].think, "|", repr(t[-1].text))
