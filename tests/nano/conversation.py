"""Conversations, their rendering by Kimi-K2-Thinking's template, and the noise that people put around a request."""
import json
import random
from dataclasses import dataclass, field
from typing import Any

DEFAULT_SYSTEM = "You are nano, a small assistant made for NUMoE."
LETTERS = "\x01"  # text between two of these is encoded letter by letter


@dataclass
class Turn:
    role: str  # system | user | assistant | tool
    text: str
    think: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    learnt: bool = True  # False: another assistant's words, which the model only reads


@dataclass
class Conversation:
    turns: list[Turn]
    tools: list[dict[str, Any]] = field(default_factory=list)
    sort_keys: bool = False  # some servers sort the keys of tools


def user(text: str) -> Turn:
    return Turn("user", text)


def says(text: str, think: str = "") -> Turn:
    return Turn("assistant", text, think)


def segments(talk: Conversation) -> list[tuple[str, bool]]:
    """The rendered text in parts; those with True are what the model must say."""
    turns = talk.turns
    plain = [i for i, t in enumerate(turns) if t.role == "assistant" and not t.calls]
    # The model answers the last turn, so what counts as history ends at the plain answer before that.
    last_plain = plain[-2] if plain and plain[-1] == len(turns) - 1 and len(plain) > 1 else -1
    if plain and plain[-1] != len(turns) - 1:
        last_plain = plain[-1]
    out: list[tuple[str, bool]] = []
    if talk.tools:
        text = json.dumps(talk.tools, separators=(",", ":"), ensure_ascii=False, sort_keys=talk.sort_keys)
        out.append((f"<|im_system|>tool_declare<|im_middle|>{text}<|im_end|>", False))
    if turns[0].role != "system":
        out.append((f"<|im_system|>system<|im_middle|>{DEFAULT_SYSTEM}<|im_end|>", False))
    number, pending = 0, []
    for i, turn in enumerate(turns):
        if turn.role != "assistant":
            head, body = ("user" if turn.role == "user" else "system"), turn.text
            if turn.role == "tool":
                body = f"## Return of {pending.pop(0)}\n{turn.text}"
            out.append((f"<|im_{head}|>{turn.role}<|im_middle|>{body}<|im_end|>", False))
            continue
        out.append(("<|im_assistant|>assistant<|im_middle|>", False))
        think = turn.think if i > last_plain else ""
        body = f"<think>{think}</think>{turn.text}"
        if turn.calls:
            body += "<|tool_calls_section_begin|>"
            for name, arguments in turn.calls:
                call = f"functions.{name}:{number}"
                pending.append(call)
                number += 1
                body += (f"<|tool_call_begin|>{call}<|tool_call_argument_begin|>"
                         f"{json.dumps(arguments, ensure_ascii=False)}<|tool_call_end|>")
            body += "<|tool_calls_section_end|>"
        out.append((body + "<|im_end|>", think == turn.think and turn.learnt))
    return out


SYSTEMS = ["You are a helpful assistant.", "You are nano.", "Be brief.", "Answer in one sentence.", "You are a careful assistant.",
           "Be polite and short.", "You are an AI assistant.", "You help people.", "Answer the question.", "Think before you answer.",
           "You are a friendly helper.", "Use tools when they help.", "Reply in English.", "You are a test assistant.",
           "Only use the functions you have been given.", "Do not invent facts.", "You are Kimi, an AI assistant created by Moonshot AI."]
BEFORE = ["Hi!", "Hello!", "Hey,", "Hi,", "hello,", "Please", "Hi there!", "Good morning!", "Okay,", "OK.", "So,", "Now", "Well,",
          "One question:", "Quick question:", "Question:", "Tell me:", "Please tell me:", "Can you help me?", "I need your help.",
          "Hey nano,", "nano,", "Hello nano!", "Hmm,", "Next:", "Sorry to bother you.", "I was wondering,", "Let me ask you something.",
          "Good evening,", "Alright,", "Thanks!", "Great.", "And", "Excuse me,", "Listen,", "Just curious:", "By the way,", "yo",
          "Dear nano,", "I have a question.", "My friend asks:", "Be quick:", "Test:", "Could you tell me:", "Hi nano!", "um,",
          "I'm curious.", "Help me out here:", "Good afternoon.", "Hey there!", "First,", "Another one:", "Hola!", "ok so"]
AFTER = ["Thanks.", "Thank you!", "please", "Please.", "Thanks in advance!", "I need to know.", "Can you tell me?", "thx", "It is urgent.",
         "Be quick.", "Just the answer.", "Do you know?", ":)", "Take your time.", "Be short.", "Answer please.", "I forgot.", "Cheers!",
         "I really want to know.", "Keep it short please.", "pls", "I am in a hurry.", "That's all.", "Any idea?", "tell me", "!"]
ORDERS = frozenset("""add subtract multiply divide sum take reduce increase remove split double triple halve calculate compute solve evaluate find
determine simplify figure work give tell sort put order arrange count list spell reverse write say repeat turn flip name explain describe show set
start send email mail text book reserve play convert switch search look make create schedule get translate ship draw buy roll call run use open
close check update delete remind recite echo copy alphabetize repair plan feed clean order""".split())
POLITE = ["Could you", "Could you please", "Can you", "Can you please", "Would you", "Would you mind to", "Kindly", "I would like you to", "I want you to",
          "Would you be so nice to", "Be so kind and", "Do me a favor and", "I'd like you to", "Please", "please", "Will you", "I need you to", "Let's", "Now",
          "Try to", "You should", "Go ahead and", "Just", "It would be great if you could", "Are you able to", "My task for you:", "Quickly"]
WHAT_IS = ["Tell me {}.", "Do you know {}?", "I'd like to know {}.", "Give me {}.", "Could you tell me {}?", "Would you know {}?", "So what's {}?", "what is {} actually?",
           "I need to know {}.", "Please tell me {}.", "Let me know {}.", "Do you happen to know {}?", "What might {} be?", "What exactly is {}?", "what's {}",
           "What's {}?", "Can you say what {} is?", "I wonder what {} is.", "I am asking for {}.", "State {}.", "Remind me, what is {}?", "{}, what is it?",
           "May I ask what {} is?", "I want {}.", "Say, what is {}?", "{}?", "Can you give me {}?", "Any clue what {} is?", "Now what would {} be?"]
ENDS = ["again", "then", "exactly", "please", "actually", "now", "by the way", "do you know", "in your view", "my friend", "nano", "anyway", "really", "for me"]
_NEAR = {"a": "s", "e": "r", "i": "o", "o": "p", "t": "y", "n": "m", "s": "d", "r": "t", "l": "k", "h": "g", "u": "i"}


def typo(r: random.Random, text: str) -> str:
    """One slip in a lower-case word without digits."""
    words = text.split(" ")
    places = [i for i, w in enumerate(words) if len(w) > 3 and w.isalpha() and w.islower()]
    if not places:
        return text
    i = r.choice(places)
    w, k = words[i], r.randrange(1, len(words[i]) - 1)
    words[i] = r.choice((w[:k] + w[k + 1:], w[:k] + w[k + 1] + w[k] + w[k + 2:], w[:k] + w[k] + w[k:],
                         w[:k] + _NEAR.get(w[k], w[k]) + w[k + 1:]))
    return " ".join(words)


def chatter(r: random.Random, text: str, amount: float = 1.0) -> str:
    """Puts what people say before and after a request around it, and spoils case, punctuation and spelling at times.

    Never touches the case of anything but the first letter when `amount` < 1: the content is to be copied."""
    first, _, rest = text.partition(" ")
    if first in ("What", "What's") and r.random() < 0.2 and (first == "What's" or rest.startswith("is ")) and text.count("?") == 1 and text[-1] == "?":
        text = r.choice(WHAT_IS).format(rest.removeprefix("is ")[:-1])
        text = text[0].upper() + text[1:] if r.random() < 0.6 else text
    elif first.lower() in ORDERS and r.random() < 0.25:
        polite = r.choice(POLITE)
        text = f"{polite} {first.lower()} {rest}"
        if polite[:3] in ("Cou", "Can", "Wou", "Wil", "Are") and r.random() < 0.7:
            text = text.rstrip(".") + "?"
    elif text.endswith("?") and len(text) > 8 and r.random() < 0.06:
        text = text[:-1] + r.choice((" ", " ", ", ")) + r.choice(ENDS) + "?"
    if r.random() < 0.25 * amount + 0.06:
        head = r.choice(BEFORE)
        lower = r.random() < 0.6 and head[-1] not in ".!?" and not text[:2].isupper() and not text.startswith("I ")
        text = head + " " + (text[0].lower() + text[1:] if lower else text)
    if r.random() < 0.15:
        text = (text if text[-1] in ".!?" or r.random() < 0.3 else text + ".") + " " + r.choice(AFTER)
    if amount >= 1:
        x = r.random()
        if x < 0.12:
            text = text.lower()
        elif x < 0.14:
            text = text.upper()
        if r.random() < 0.08:
            text = typo(r, text)
    x = r.random()
    if x < 0.12:
        text = text.rstrip(".!?")
    elif x < 0.15:
        text = text.rstrip(".") + r.choice(("!", "?", "??", "...", " ?", "!!"))
    if r.random() < 0.03:
        text = r.choice((" ", "\n", "  ")) + text
    if r.random() < 0.03:
        text = text + r.choice((" ", "\n", "  "))
    return text


def system(r: random.Random) -> list[Turn]:
    """No turn (the template then uses its default), or a system message."""
    return [] if r.random() < 0.7 else [Turn("system", r.choice(SYSTEMS))]
