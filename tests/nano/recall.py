"""Facts told earlier in the conversation: told in many ways, asked for in many ways, and some never told."""
import random
from collections.abc import Callable
from dataclasses import dataclass

from conversation import Conversation, Turn, chatter, says, user
from words import (ADJECTIVES, ANIMALS, CITIES, COLORS, COUNTRIES, DAYS, FIRST_NAMES, FOODS, HOBBIES, JOBS, MONTHS, PLACES, RELATIONS, THINGS, anything,
                   article, invented, person, pick)

NOT_TOLD = "I don't know. You have not told me."


@dataclass
class Fact:
    key: str  # two facts of one key would contradict each other
    told: str
    question: str
    answer: str
    value: str


def _code(r: random.Random) -> str:
    kind = r.random()
    if kind < 0.5:
        return str(r.randint(10, 99999))
    if kind < 0.7:
        return "".join(r.choice("ABCDEFGHKLMNPRSTXZ0123456789") for _ in range(r.randint(3, 6)))
    if kind < 0.85:
        return invented(r)
    return f"{r.choice(COLORS)} {anything(r)}"


def _favourite(r: random.Random) -> Fact:
    kinds: list[tuple[str, Callable[[], str]]] = [
        ("color", lambda: pick(r, COLORS)), ("colour", lambda: pick(r, COLORS)), ("food", lambda: pick(r, FOODS)), ("animal", lambda: pick(r, ANIMALS)),
        ("city", lambda: pick(r, CITIES)), ("country", lambda: pick(r, COUNTRIES)), ("sport", lambda: pick(r, HOBBIES)), ("hobby", lambda: pick(r, HOBBIES)),
        ("number", lambda: str(r.randint(0, 999))), ("day", lambda: r.choice(DAYS)), ("month", lambda: r.choice(MONTHS)), ("book", lambda: invented(r).title()),
        ("band", lambda: "the " + anything(r) + "s"), ("movie", lambda: "The " + anything(r).title()), ("drink", lambda: pick(r, FOODS, 0.6)),
        ("word", lambda: anything(r)), ("place", lambda: "the " + pick(r, PLACES)), ("season", lambda: r.choice(("spring", "summer", "autumn", "winter"))),
        (anything(r), lambda: anything(r))]
    kind, draw = r.choice(kinds)
    v, fav = draw(), r.choice(("favorite", "favourite"))
    told = r.choice(("My {f} {k} is {v}.", "My {f} {k} is {v}.", "{V} is my {f} {k}.", "I like the {k} {v} most.", "The {k} I like best is {v}.",
                     "As for my {f} {k}, it is {v}.", "If you ask me for my {f} {k}: {v}.", "I'd say my {f} {k} is {v}.", "my {f} {k}: {v}"))
    ask = r.choice(("What is my {f} {k}?", "What is my {f} {k}?", "Which {k} do I like most?", "Do you remember my {f} {k}?", "Tell me my {f} {k}.",
                    "What's my {f} {k}?", "Which {k} is my {f}?", "What did I say is my {f} {k}?", "Name my {f} {k}.", "Which {k} do I like best?",
                    "Can you recall my {f} {k}?", "my {f} {k}?", "Remind me of my {f} {k}."))
    return Fact("fav " + kind, told.format(f=fav, k=kind, v=v, V=v[0].upper() + v[1:]), ask.format(f=fav, k=kind), f"Your favorite {kind} is {v}.", v)


def _name(r: random.Random) -> Fact:
    v = person(r)
    told = r.choice(("My name is {v}.", "I am {v}.", "I'm {v}.", "I am called {v}.", "Call me {v}.", "This is {v}.", "You can call me {v}.", "{v} here.",
                     "They call me {v}.", "my name's {v}", "People call me {v}.", "Let me introduce myself: {v}."))
    ask = r.choice(("What is my name?", "What is my name?", "Who am I?", "Do you remember my name?", "What's my name?", "What am I called?", "How am I called?",
                    "Do you know who I am?", "Can you tell me my name?", "Say my name.", "Which name did I give you?", "Remember me? What is my name?"))
    return Fact("name", told.format(v=v), ask, f"Your name is {v}.", v)


def _about_me(r: random.Random) -> Fact:
    age, born = str(r.randint(5, 99)), str(r.randint(1930, 2015))
    city, job, pet = pick(r, CITIES, 0.4), pick(r, JOBS), pick(r, ANIMALS)
    rows = [
        ("home", ("I live in {v}.", "My home is in {v}.", "I moved to {v}.", "My house is in {v}.", "I am living in {v} now."),
         ("Where do I live?", "In which city do I live?", "Where is my home?", "What city do I live in?", "Where's my house?"), "You live in {v}.", city),
        ("origin", ("I come from {v}.", "I am from {v}.", "I was born in {v}.", "I grew up in {v}."),
         ("Where do I come from?", "Where am I from?", "Which place am I from?"), "You are from {v}.", pick(r, CITIES + COUNTRIES, 0.4)),
        ("age", ("I am {v} years old.", "My age is {v}.", "I'm {v}.", "I turned {v} this year.", "I just turned {v}."),
         ("How old am I?", "What is my age?", "What's my age?", "Do you know how old I am?"), "You are {v} years old.", age),
        ("job", ("I work as {a}.", "I am {a}.", "My job: {v}.", "I'm {a} by profession.", "My job is being {a}.", "I earn my money as {a}."),
         ("What is my job?", "What do I work as?", "What do I do for a living?", "What's my profession?", "Which job do I have?"), "You work as {a}.", job),
        ("born", ("I was born in {v}.", "My year of birth is {v}."), ("When was I born?", "In which year was I born?", "What is my year of birth?"),
         "You were born in {v}.", born),
        ("pet", ("I have {a}.", "My pet is {a}.", "I own {a}.", "I keep {a} at home."), ("What pet do I have?", "Which animal do I own?", "What is my pet?"),
         "You have {a}.", pet),
        ("like", ("I like {v}.", "I love {v}.", "I really enjoy {v}.", "I am fond of {v}."), ("What do I like?", "What do I love?", "What do I enjoy?"),
         "You like {v}.", pick(r, r.choice((HOBBIES, FOODS)))),
        ("hate", ("I hate {v}.", "I cannot stand {v}.", "I dislike {v}.", "I don't like {v}."), ("What do I hate?", "What do I dislike?", "What don't I like?"),
         "You don't like {v}.", pick(r, FOODS)),
        ("trip", ("I am going to {v} next week.", "I will travel to {v}.", "My next trip goes to {v}.", "I am flying to {v}."),
         ("Where am I going?", "Where will I travel?", "Where does my next trip go?", "What is my destination?"), "You are going to {v}.", pick(r, CITIES + COUNTRIES, 0.4)),
        ("buy", ("I want to buy {a}.", "I need to buy {a}.", "I must buy {a}."), ("What do I want to buy?", "What do I need to buy?", "What must I buy?"),
         "You want to buy {a}.", pick(r, THINGS)),
    ]
    key, told, ask, answer, v = r.choice(rows)
    a = article(v)
    return Fact(key, r.choice(told).format(v=v, a=a), r.choice(ask), answer.format(v=v, a=a), v)


def _named(r: random.Random) -> Fact:
    """The name of my dog, my sister, my boat ..."""
    kind = pick(r, r.choice((ANIMALS, RELATIONS, THINGS, RELATIONS)), 0.1)
    v = person(r)
    told = r.choice(("My {k} is called {v}.", "My {k}'s name is {v}.", "I have {ak} named {v}.", "The name of my {k} is {v}.", "My {k} {v} is here.",
                     "I have {ak} called {v}.", "{v} is my {k}.", "We named our {k} {v}.", "My {k} goes by the name {v}.",
                     "We call our {k} {v}.", "Listen: my {k} is named {v}.", "Just to tell you: my {k} is {v}.", "Everybody calls my {k} {v}."))
    ask = r.choice(("How do I call my {k}?", "Which name does my {k} have?", "What is my {k} called?", "What is my {k}'s name?", "What is the name of my {k}?", "Who is my {k}?", "How is my {k} called?",
                    "What's the name of my {k}?", "Do you remember my {k}'s name?", "What did I name my {k}?", "What's my {k}'s name?"))
    return Fact("named " + kind, told.format(k=kind, ak=article(kind), v=v), ask.format(k=kind), f"Your {kind} is called {v}.", v)


def _secret(r: random.Random) -> Fact:
    kind = r.choice(("code", "password", "number", "secret number", "secret word", "pin", "key", "token", "room number", "order number", "phone number",
                     "magic word", "door code", "wifi password", "ticket number", "secret", "passphrase", "flight number", "code word", f"{anything(r)} code",
                     f"code for the {anything(r)}", f"{anything(r)} number", f"price of the {anything(r)}", f"{invented(r)} code", "id", "serial number"))
    v = _code(r)
    told = r.choice(("The {k} is {v}.", "Remember: the {k} is {v}.", "Please remember that the {k} is {v}.", "The {k}: {v}.", "Note the {k} {v}.",
                     "Keep in mind that the {k} is {v}.", "Let the {k} be {v}.", "Don't forget, the {k} is {v}.", "{v} is the {k}.", "Remember the {k} {v}.",
                     "Store this: {k} = {v}", "Here is the {k}: {v}."))
    ask = r.choice(("What is the {k}?", "What was the {k}?", "Tell me the {k}.", "Do you remember the {k}?", "What's the {k}?", "Repeat the {k}.",
                    "Which {k} did I give you?", "Give me the {k}.", "Can you repeat the {k}?", "What {k} did I tell you?", "I forgot the {k}. What is it?"))
    return Fact("secret " + kind, told.format(k=kind, v=v), ask.format(k=kind), f"The {kind} is {v}.", v)


def _third(r: random.Random) -> Fact:
    """Facts about other people and things."""
    n, o, c = person(r), pick(r, THINGS), pick(r, COLORS)
    place = r.choice(("", "", "", r.choice(ADJECTIVES) + " ", c + " ")) + pick(r, PLACES + THINGS, 0.2)
    d, m = r.choice(DAYS), f"{r.randint(1, 12)} o'clock" if r.random() < 0.5 else f"{r.randint(0, 23)}:{r.choice(('00', '15', '30', '45'))}"
    rows = [
        ("keep " + o, ("I keep my {o} in the {v}.", "My {o} is in the {v}.", "I hid my {o} in the {v}.", "I have put my {o} into the {v}.", "I store my {o} in the {v}."),
         ("Where is my {o}?", "Where do I keep my {o}?", "Where did I put my {o}?", "Where can my {o} be found?", "In which place is my {o}?"), "Your {o} is in the {v}.", place),
        ("keep many " + o, ("I keep my {p} in the {v}.", "My {p} are in the {v}.", "I have put the {p} into the {v}.", "The {p} lie in the {v}.", "All my {p} are in the {v}."),
         ("Where are my {p}?", "Where are the {p}?", "Where do I keep my {p}?", "Where can I find my {p}?", "In which place are my {p}?"), "Your {p} are in the {v}.", place),
        ("meet", ("We will meet on {v}.", "We meet on {v}.", "Let us meet on {v}.", "I will meet you on {v}.", "Our meeting is on {v}."),
         ("When will we meet?", "On which day do we meet?", "When do we meet?", "When is our meeting?", "What day will we meet?"), "We will meet on {v}.", d),
        ("train", ("My train leaves at {v}.", "The train goes at {v}.", "I have to be there at {v}.", "My appointment is at {v}."),
         ("At what time is it?", "What time did I tell you?", "When does it start?", "Which time did I mention?"), "At {v}.", m),
        ("gave " + o, ("I gave my {o} to {v}.", "I lent the {o} to {v}.", "{v} has my {o}.", "{v} borrowed my {o}."),
         ("Who has my {o}?", "To whom did I give my {o}?", "Who borrowed my {o}?", "Who got my {o}?"), "{v} has your {o}.", n),
        ("bought", ("I bought {a} {t}.", "{t} I bought {a}.", "I got myself {a} {t}."), ("What did I buy?", "What did I get myself?", "Which thing did I buy?"), "You bought {a}.",
         pick(r, THINGS)),
        ("saw", ("I saw {a} {t}.", "{t} I saw {a}.", "I met {a} on my way."), ("What did I see?", "Which animal did I see?", "What did I meet?"), "You saw {a}.", pick(r, ANIMALS)),
        ("older " + n, ("{n} is my {v}.", "My {v} is {n}.", "{n}, my {v}, says hello."), ("Who is {n}?", "What is {n} to me?", "How do I know {n}?"), "{n} is your {v}.",
         r.choice(RELATIONS)),
        ("lives " + n, ("{n} lives in {v}.", "{n}'s home is in {v}.", "{n} has a flat in {v}."), ("Where does {n} live?", "In which city does {n} live?"),
         "{n} lives in {v}.", pick(r, CITIES, 0.4)),
        ("works " + n, ("{n} works as {a}.", "{n} is {a}.", "{n} has a job as {a}."), ("What is {n}'s job?", "What does {n} do for a living?", "What does {n} work as?"),
         "{n} works as {a}.", pick(r, JOBS)),
        ("age " + n, ("{n} is {v} years old.", "{n} is {v}.", "The age of {n} is {v}."), ("How old is {n}?", "What is {n}'s age?"), "{n} is {v} years old.", str(r.randint(1, 99))),
        ("where " + o, ("The {o} is in the {v}.", "I put the {o} in the {v}.", "I left the {o} in the {v}.", "You can find the {o} in the {v}."),
         ("Where is the {o}?", "Where did I put the {o}?", "Where can I find the {o}?", "Where's the {o}?"), "The {o} is in the {v}.", pick(r, PLACES)),
        ("color " + o, ("The {o} is {v}.", "The color of the {o} is {v}.", "My {o} is {v}.", "I painted the {o} {v}."),
         ("What color is the {o}?", "Which color does the {o} have?", "What is the color of the {o}?"), "The {o} is {v}.", c),
        ("has " + n, ("{n} has {a}.", "{n} owns {a}.", "{n} got {a} as a present."), ("What does {n} have?", "What does {n} own?"), "{n} has {a}.", pick(r, THINGS + ANIMALS)),
        ("likes " + n, ("{n} likes {v}.", "{n} loves {v}.", "{n} is fond of {v}."), ("What does {n} like?", "What does {n} love?"), "{n} likes {v}.",
         pick(r, FOODS + HOBBIES)),
        ("day " + o, ("The {e} is on {v}.", "The {e} takes place on {v}.", "We have the {e} on {v}."), ("When is the {e}?", "On which day is the {e}?", "What day is the {e}?"),
         "The {e} is on {v}.", r.choice(DAYS)),
        ("costs " + o, ("The {o} costs {v} euros.", "I paid {v} euros for the {o}.", "The price of the {o} is {v} euros."),
         ("How much does the {o} cost?", "What does the {o} cost?", "What is the price of the {o}?"), "The {o} costs {v} euros.", str(r.randint(1, 2000))),
        ("count " + o, ("I have {v} {p}.", "There are {v} {p}.", "We own {v} {p}."), ("How many {p} do I have?", "How many {p} are there?", "How many {p} did I say?"),
         "{v} {p}.", str(r.randint(2, 99))),
    ]
    key, told, ask, answer, v = r.choice(rows)
    event = r.choice(("meeting", "party", "exam", "wedding", "concert", "match", "appointment", "lecture", "dinner", "interview"))
    fill = dict(n=n, v=v, a=article(v), o=o, e=event, p=o + "s", t=r.choice(("yesterday", "today", "last week", "this morning", "on Sunday")))
    sentence = r.choice(told).format(**fill)
    return Fact(key, sentence[0].upper() + sentence[1:], r.choice(ask).format(**fill), answer.format(**fill), v)


MAKERS = [_favourite, _favourite, _name, _about_me, _about_me, _named, _secret, _secret, _third, _third, _third]
ACKNOWLEDGED = "Got it."
# What other assistants said in a conversation that goes on here: read, never learnt.
_ELSEWHERE = ["Okay.", "Noted.", "Thanks for telling me.", "I see.", "Sure!", "Alright, I will remember that.", "Understood.", "Good to know!", "Interesting.",
              "Nice.", "OK, noted!", "That is good to hear.", "Great, thank you.", "I will keep it in mind.", "Right."]
_LEAD = ["Remember this: ", "Please remember: ", "I want to tell you something. ", "Note: ", "FYI: ", "By the way, ", "Let me tell you about me. ", "Hello! ", "Hi! "]
_RECALL_HEAD = ["Earlier I told you something. ", "Now tell me: ", "Do you remember? ", "Let's see if you remember. ", "Back to me: ", "So, ", "And now: ", "Quiz: ",
                "From what I told you: ", "Let us test your memory. ", "OK. ", "Now, "]


def facts(r: random.Random, count: int) -> list[Fact]:
    out: dict[str, Fact] = {}
    while len(out) < count:
        fact = r.choice(MAKERS)(r)
        out.setdefault(fact.key, fact)
    return list(out.values())


def _never_told(r: random.Random, told: list[Fact]) -> Fact:
    """A fact about a subject that no told fact has."""
    subjects = {f.key.split()[0] for f in told}
    while (fact := r.choice(MAKERS)(r)).key.split()[0] in subjects:
        pass
    return fact


def remark(r: random.Random) -> str:
    """A sentence that asks for nothing."""
    n, o, p, d = person(r), anything(r), pick(r, PLACES), r.choice(DAYS)
    return r.choice((f"Yesterday {n} went to the {p} with {article(o)}.", f"The {o} near the {p} looked {r.choice(('old', 'new', 'fine', 'strange', 'nice'))}.",
                     f"On {d} we saw {article(o)} and talked to {n}.", f"It was a long day in {pick(r, CITIES)}.", f"{n} bought {article(o)} for {r.randint(2, 90)} dollars.",
                     f"We walked from the {p} to the {pick(r, PLACES)}.", f"I read about {o} and {anything(r)}.", f"Some say that {o} is better than {anything(r)}.",
                     f"{n} told a story about {article(o)} and {article(anything(r))}.", f"Then it rained for {r.randint(2, 30)} hours.", f"They sold {r.randint(2, 500)} {o}s on {d}."))


def _heard(r: random.Random) -> Turn:
    return Turn("assistant", r.choice(_ELSEWHERE), learnt=False)


def _about_somebody(r: random.Random, text: str) -> str:
    """The facts that "I" tell, as an author of system messages tells them about a user."""
    who = r.choice(("The person you talk to", "Your customer", "The customer", "The human", "This person", "The one who asks", "Our guest", "The client"))
    for mine, theirs in (("My ", who + "'s "), (" my ", " their "), ("I am ", who + " is "), ("I'm ", who + " is "), ("I have ", who + " has "), ("I live ", who + " lives "),
                         ("I work ", who + " works "), ("I ", who + " "), (" me ", " them "), ("me ", "them ")):
        text = text.replace(mine, theirs)
    return r.choice(("", "", "Facts: ", "You help people. ", "Known about them: ")) + text


def recall(r: random.Random, filler: int = 0) -> Conversation:
    """`filler` is about the number of words between the telling and the question."""
    told = facts(r, r.choices((1, 2, 3, 4, 5), (28, 28, 20, 14, 10))[0])
    target = r.choice(told)
    turns: list[Turn] = []
    missing = r.random() < 0.14
    if missing:
        question, answer = _never_told(r, told).question, NOT_TOLD
    else:
        question, answer = target.question, target.answer
    if not filler and r.random() < 0.3:  # all in one message, or in the system message
        text = " ".join(f.told for f in told)
        if r.random() < 0.4:
            turns = [Turn("system", _about_somebody(r, text) if r.random() < 0.6 else text), user(chatter(r, question, 0.5))]
        else:
            if r.random() < 0.25:
                text = " ".join(remark(r) if r.random() < 0.5 else f.told for f in told for _ in range(2))
                if target.told not in text:
                    text += " " + target.told
            turns = [user((r.choice(_LEAD) if r.random() < 0.3 else "") + text + r.choice((" ", " ", "\n")) + question)]
    else:
        groups = [[f] for f in told] if r.random() < 0.6 else [told]
        for group in groups:
            text = " ".join(f.told for f in group)
            if r.random() < 0.3:
                text = r.choice(_LEAD) + text
            turns += [user(text), says(ACKNOWLEDGED) if r.random() < 0.8 else _heard(r)]
        if filler:
            while filler > 0:
                text = " ".join(remark(r) for _ in range(r.randint(3, 14)))
                filler -= len(text.split())
                if r.random() < 0.5:
                    turns += [user(text), says(ACKNOWLEDGED)]
                else:
                    turns[-2] = user(turns[-2].text + " " + text)
        if r.random() < 0.25:
            question = r.choice(_RECALL_HEAD) + question
        turns.append(user(chatter(r, question, 0.5)))
    if r.random() < 0.15 and turns[0].role != "system":
        turns.insert(0, Turn("system", r.choice(("You are a helpful assistant.", "Remember what the user says.", "Be brief."))))
    return Conversation(turns + [says(answer)])


def recall_talk(r: random.Random) -> Conversation:
    """Telling and asking alternate, so that the facts are read once for many questions."""
    told: list[Fact] = []
    turns: list[Turn] = []
    for _ in range(r.randint(1, 3)):
        new = [f for f in facts(r, r.randint(1, 4)) if f.key not in {g.key for g in told}]
        told += new
        if new:
            text = " ".join(s for f in new for s in ([f.told, remark(r)] if r.random() < 0.15 else [f.told]))
            turns += [user((r.choice(_LEAD) if r.random() < 0.3 else "") + text), says(ACKNOWLEDGED) if r.random() < 0.8 else _heard(r)]
        for _ in range(r.randint(1, 4)):
            fact = r.choice(told) if r.random() < 0.7 else _never_told(r, told)
            turns += [user(chatter(r, fact.question, 0.5)), says(fact.answer if fact in told else NOT_TOLD)]
    return Conversation(turns)


if __name__ == "__main__":
    rng = random.Random(1)
    for _ in range(12):
        print([(t.role[0], t.text) for t in recall(rng).turns])
