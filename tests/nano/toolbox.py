"""Function schemas: two dozen written by hand with ways to ask for them, and endless invented ones."""
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from words import (ANIMALS, CITIES, COLORS, COUNTRIES, DAYS, FIRST_NAMES, FOODS, HOBBIES, JOBS, LANGUAGES, PLACES, SUBJECTS, THINGS, UNITS,
                   anything, invented, person, pick)

Rng = random.Random
Draw = Callable[[Rng], Any]


@dataclass
class Parameter:
    name: str
    kind: str  # string | integer | number | boolean | array | object
    draw: Draw
    note: str = ""
    options: list[str] = field(default_factory=list)
    inside: list["Parameter"] = field(default_factory=list)  # of an object

    def schema(self, notes: bool) -> dict[str, Any]:
        out: dict[str, Any] = {"type": self.kind}
        if notes and self.note:
            out["description"] = self.note
        if self.options:
            out["enum"] = self.options
        if self.kind == "array":
            out["items"] = {"type": "string"}
        if self.kind == "object":
            out["properties"] = {p.name: p.schema(notes) for p in self.inside}
            out["required"] = [p.name for p in self.inside]
        return out


@dataclass
class Tool:
    name: str
    note: str
    parameters: list[Parameter]
    asks: list[str]  # {parameter} or {object.parameter}
    questions: bool = False  # asked as a question: without the tool the answer is "I don't know"

    def schema(self, r: Rng) -> dict[str, Any]:
        notes = r.random() < 0.6
        body: dict[str, Any] = {"name": self.name}
        if r.random() < 0.85:
            body["description"] = self.note
        body["parameters"] = {"type": "object", "properties": {p.name: p.schema(notes) for p in self.parameters}}
        if r.random() < 0.85:
            body["parameters"]["required"] = [p.name for p in self.parameters]
        return {"type": "function", "function": body}


def _s(name: str, draw: Draw, note: str = "", **more: Any) -> Parameter:
    return Parameter(name, "string", draw, note or name.replace("_", " "), **more)


def _i(name: str, low: int, high: int, note: str = "") -> Parameter:
    return Parameter(name, "integer", lambda r: r.randint(low, high), note or name.replace("_", " "))


def _o(name: str, *inside: Parameter) -> Parameter:
    return Parameter(name, "object", lambda r: {p.name: p.draw(r) for p in inside}, name.replace("_", " "), inside=list(inside))


def _one(name: str, *options: str) -> Parameter:
    return Parameter(name, "string", lambda r: r.choice(options), name.replace("_", " "), options=list(options))


def city(r: Rng) -> str:
    return pick(r, CITIES, 0.4)


def phrase(r: Rng) -> str:
    words = [r.choice((anything, lambda q: pick(q, COLORS), lambda q: pick(q, SUBJECTS)))(r) for _ in range(r.randint(1, 4))]
    return " ".join(words)


def clock(r: Rng) -> str:
    return f"{r.randint(0, 23):02d}:{r.choice((0, 15, 30, 45, 5, 50)):02d}"


def date(r: Rng) -> str:
    return f"20{r.randint(20, 39)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"


def email(r: Rng) -> str:
    return f"{r.choice((pick(r, FIRST_NAMES).lower(), invented(r)))}@{invented(r)}.{r.choice(('com', 'org', 'net'))}"


def tools(r: Rng) -> list[Tool]:
    """All hand-written tools, with parameter names as one of several people might have chosen them."""
    c = r.choice(("city", "location", "place", "city", "town"))
    who = r.choice(("to", "recipient", "receiver", "person"))
    return [
        Tool(r.choice(("get_weather", "weather", "getWeather", "current_weather", "get_current_weather")), r.choice(("Get the weather of a city", "Current weather", "Weather at a place")),
             [_s(c, city, "Name of the city")],
             [f"What is the weather in {{{c}}}?", f"How is the weather in {{{c}}} today?", f"Is it raining in {{{c}}}?", f"Weather for {{{c}}} please.", f"Will I need an umbrella in {{{c}}}?",
              f"How cold is it in {{{c}}}?", f"Tell me the weather of {{{c}}}.", f"What's the weather like in {{{c}}}?", f"{{{c}}} weather", f"What is the temperature in {{{c}}}?",
              f"Is it sunny in {{{c}}} right now?", f"I am in {{{c}}}. What is the weather?"], True),
        Tool(r.choice(("get_forecast", "weather_forecast")), "Weather forecast for some days", [_s(c, city), _i("days", 1, 14, "How many days")],
             [f"Give me a {{days}} day forecast for {{{c}}}.", f"What will the weather be in {{{c}}} over the next {{days}} days?", f"Forecast for {{{c}}}, {{days}} days.",
              f"Weather forecast of the next {{days}} days in {{{c}}} please."], True),
        Tool(r.choice(("get_time", "current_time", "get_local_time", "clock")), "Local time of a city", [_s(c, city)],
             [f"What time is it in {{{c}}}?", f"Tell me the time in {{{c}}}.", f"Current time in {{{c}}}?", f"What's the clock in {{{c}}}?", f"How late is it in {{{c}}}?"], True),
        Tool(r.choice(("set_timer", "start_timer", "timer")), "Start a timer", [_i(r.choice(("minutes", "duration", "mins")), 1, 240, "Minutes")],
             ["Set a timer for {0} minutes.", "Start a {0} minute timer.", "Remind me in {0} minutes.", "Timer {0} minutes please.", "Let me know when {0} minutes are over.",
              "I need a timer of {0} min."]),
        Tool(r.choice(("set_alarm", "create_alarm")), "Set an alarm", [_s("time", clock, "HH:MM")],
             ["Set an alarm for {0}.", "Wake me up at {0}.", "Alarm at {0} please.", "I have to get up at {0}, set the alarm."]),
        Tool(r.choice(("send_email", "email", "write_mail")), "Send an email", [_s(who, email, "Address"), _s("subject", phrase)],
             ["Send an email to {0} about {1}.", "Email {0} about {1}.", "Write a mail to {0} with the subject {1}.", "Please mail {0}: {1}", "Send {0} a mail on {1}."]),
        Tool(r.choice(("send_message", "text", "send_sms")), "Send a text message", [_s(who, person), _s(r.choice(("message", "text", "body")), phrase)],
             ["Send a message to {0}: {1}", "Text {0} that {1}.", "Tell {0}: {1}", "Message {0} saying {1}.", "Write {0} a message: {1}"]),
        Tool(r.choice(("search", "search_web", "web_search", "google")), "Search the web", [_s(r.choice(("query", "q", "text")), phrase, "What to search")],
             ["Search the web for {0}.", "Look up {0} online.", "Find {0} on the web.", "Search for {0}.", "Do a web search: {0}", "Google {0}.", "What does the internet say about {0}?"]),
        Tool(r.choice(("book_table", "reserve_table")), "Reserve a table", [_s("restaurant", person), _i(r.choice(("people", "guests", "persons")), 1, 20), _s("time", clock)],
             ["Book a table at {0} for {1} people at {2}.", "Reserve a table for {1} at {0}, {2} o'clock.", "At {2} we want to eat at {0}, we are {1} people. Book it."]),
        Tool(r.choice(("book_flight", "find_flight", "search_flights")), "Find a flight", [_s(r.choice(("from", "origin")), city), _s(r.choice(("to", "destination")), city), _s("date", date)],
             ["Book a flight from {0} to {1} on {2}.", "I want to fly from {0} to {1} on {2}.", "Find flights to {1} from {0} for {2}.", "Flight {0} to {1}, {2}."]),
        Tool(r.choice(("play_music", "play", "play_song")), "Play music", [_s(r.choice(("artist", "title", "song")), person)],
             ["Play music by {0}.", "I want to hear {0}.", "Put on {0}.", "Play {0}.", "Can you play {0} for me?"]),
        Tool(r.choice(("convert_currency", "currency", "exchange")), "Convert money", [_i("amount", 1, 9999), _one("from", "USD", "EUR", "GBP", "JPY"), _one("to", "CHF", "CAD", "AUD", "CNY")],
             ["Convert {0} {1} to {2}.", "How much is {0} {1} in {2}?", "Change {0} {1} into {2}.", "What are {0} {1} in {2}?"], True),
        Tool(r.choice(("set_light", "switch_light", "light")), "Switch a light", [_s("room", lambda q: pick(q, PLACES)), _one("state", "on", "off")],
             ["Turn {1} the light in the {0}.", "Switch the {0} light {1}.", "Light {1} in the {0} please.", "Put the light in the {0} {1}."]),
        Tool(r.choice(("set_temperature", "thermostat")), "Set the heating", [_s("room", lambda q: pick(q, PLACES)), _i("degrees", 10, 30)],
             ["Set the {0} to {1} degrees.", "Heat the {0} to {1} degrees.", "Make it {1} degrees in the {0}."]),
        Tool(r.choice(("add_note", "create_note", "save_note")), "Save a note", [_s(r.choice(("text", "note", "content")), phrase)],
             ["Add a note: {0}", "Make a note saying {0}.", "Write down {0}.", "Note this: {0}", "Save a note with {0}."]),
        Tool(r.choice(("add_event", "create_event", "schedule_meeting")), "Add to the calendar", [_s("title", phrase), _s("date", date), _s("time", clock)],
             ["Add {0} to my calendar on {1} at {2}.", "Schedule {0} for {1}, {2}.", "Create an event {0} on {1} at {2}.", "On {1} at {2} I have {0}. Put it in the calendar."]),
        Tool(r.choice(("get_stock_price", "stock_price", "quote")), "Price of a stock", [_s(r.choice(("symbol", "ticker", "company")), lambda q: "".join(q.choice("ABCDEGIKLMNOPRSTX") for _ in range(q.randint(2, 4))))],
             ["What is the stock price of {0}?", "How much is {0} stock?", "Price of {0}?", "Where does {0} trade?", "Get me the quote of {0}."], True),
        Tool(r.choice(("translate", "translate_text")), "Translate a text", [_s("text", phrase), _s(r.choice(("language", "target_language", "to")), lambda q: pick(q, LANGUAGES, 0.1))],
             ["Translate {0} to {1}.", "What is {0} in {1}?", "How do you say {0} in {1}?", "Say {0} in {1}.", "{0} in {1} please"], True),
        Tool(r.choice(("order_food", "order")), "Order food", [_s(r.choice(("dish", "item")), lambda q: pick(q, FOODS)), _i(r.choice(("quantity", "count")), 1, 20)],
             ["Order {1} {0}.", "I want {1} {0}.", "Please get me {1} portions of {0}.", "{1} times {0} please, order it."]),
        Tool(r.choice(("get_user", "find_user", "lookup_user")), "Find a user by id", [_i(r.choice(("id", "user_id")), 1, 99999)],
             ["Who is the user with id {0}?", "Find user {0}.", "Look up user number {0}.", "Get the user {0}."], True),
        Tool(r.choice(("create_user", "add_user", "register")), "Create a user", [_o(r.choice(("user", "person", "profile")), _s("name", person), _i("age", 5, 99))],
             ["Create a user named {0.name} aged {0.age}.", "Add {0.name}, {0.age} years old.", "Register {0.name}, age {0.age}.", "New user: {0.name} ({0.age})."]),
        Tool(r.choice(("ship_package", "send_package")), "Ship a package", [_s("item", lambda q: pick(q, THINGS)), _o(r.choice(("address", "destination")), _s("city", city), _s("country", lambda q: pick(q, COUNTRIES, 0.2)))],
             ["Ship the {0} to {1.city}, {1.country}.", "Send a {0} to {1.city} in {1.country}.", "Package with a {0} to {1.city} ({1.country})."]),
        Tool(r.choice(("create_order", "place_order")), "Place an order", [_s("customer", person), _o("item", _s("name", lambda q: pick(q, THINGS)), _i("quantity", 1, 99))],
             ["Place an order for {0}: {1.quantity} {1.name}.", "{0} orders {1.quantity} times {1.name}.", "Order {1.quantity} of {1.name} for {0}."]),
        Tool(r.choice(("draw_shape", "draw")), "Draw a shape", [_one("shape", "circle", "square", "triangle"), _o("style", _s("color", lambda q: pick(q, COLORS)), _i("size", 1, 500))],
             ["Draw a {1.color} {0} of size {1.size}.", "Draw a {0}, size {1.size}, color {1.color}.", "I want a {1.color} {0} with size {1.size}."]),
        Tool(r.choice(("buy_items", "shopping_list", "add_items")), "Put items on the list", [Parameter("items", "array", lambda q: [pick(q, FOODS) for _ in range(q.randint(2, 4))], "The items")],
             ["Buy {0}.", "Put {0} on the list.", "I need {0}.", "Add {0} to the shopping list."]),
        Tool(r.choice(("calculate_route", "route", "directions")), "Find a route", [_s(r.choice(("start", "from")), city), _s(r.choice(("end", "to")), city)],
             ["How do I get from {0} to {1}?", "Route from {0} to {1}.", "Show me the way from {0} to {1}.", "Directions to {1} from {0} please."], True),
        Tool(r.choice(("roll_dice", "roll")), "Roll dice", [_i("sides", 4, 100), _i("count", 1, 9)], ["Roll {1} dice with {0} sides.", "Throw {1} {0}-sided dice."]),
        Tool(r.choice(("get_news", "news")), "Latest news", [_s("topic", lambda q: pick(q, SUBJECTS))], ["What is the news about {0}?", "Any news on {0}?", "Give me the latest {0} news.", "News: {0}"], True),
        Tool(r.choice(("list_files", "ls")), "List files", [_s(r.choice(("path", "directory", "folder")), lambda q: "/" + "/".join(invented(q) for _ in range(q.randint(1, 3))))],
             ["List the files in {0}.", "What is in the folder {0}?", "Show me the files of {0}.", "ls {0}"]),
        Tool(r.choice(("set_volume", "volume")), "Set the volume", [_i(r.choice(("level", "percent", "volume")), 0, 100), Parameter("mute", "boolean", lambda q: False, "Silence")][:1],
             ["Set the volume to {0}.", "Volume {0} please.", "Make it louder, level {0}.", "Turn the sound to {0} percent."]),
    ]


_VERBS = """get set find open read make check start list update create delete send show add remove compute measure print load save
track count rent repair paint water feed clean book cancel move lock unlock scan sort record""".split()
_NOUNS = """item user order file price room task event flight stock ticket report invoice account sensor device camera job image score record
message product bill meter engine valve train parcel document table door window playlist ship robot project member customer""".split()
_KEYS = """name id city color size count amount title level price weight owner type code status email date limit priority label room
number target source speed width height region category unit language""".split()


def _value(r: Rng, key: str) -> Parameter:
    kind = r.random()
    if key in ("id", "size", "count", "amount", "level", "price", "weight", "limit", "number", "speed", "width", "height") and kind < 0.8 or kind < 0.25:
        if r.random() < 0.15:
            return Parameter(key, "number", lambda q: q.randint(1, 999) / 10 if q.random() < 0.8 else q.randint(1, 99))
        return Parameter(key, "integer", lambda q: q.randint(0, 10**q.randint(1, 5)))
    if kind < 0.32:
        return Parameter(key, "boolean", lambda q: q.random() < 0.5)
    source = r.choice((CITIES, FIRST_NAMES, COLORS, ANIMALS, THINGS, FOODS, DAYS, HOBBIES, JOBS, COUNTRIES, UNITS))
    if kind < 0.45:
        options = [pick(r, source, 0.3) for _ in range(r.randint(2, 4))]
        return Parameter(key, "string", lambda q: q.choice(options), options=options)
    return Parameter(key, "string", lambda q: pick(q, source, 0.5))


def _camel(words: list[str]) -> str:
    return words[0] + "".join(w.capitalize() for w in words[1:])


def invented_tool(r: Rng) -> Tool:
    verb, noun = r.choice(_VERBS) if r.random() < 0.8 else invented(r), r.choice(_NOUNS) if r.random() < 0.6 else invented(r)
    words = [verb, *([pick(r, COLORS, 0.5)] if r.random() < 0.15 else []), noun]
    name = r.choices(("_".join(words), _camel(words), "-".join(words), f"{noun}.{verb}"), (75, 15, 7, 3))[0]
    keys = r.sample(_KEYS, 4)
    keys = [invented(r) if r.random() < 0.25 else k if r.random() < 0.75 else f"{noun}_{k}" for k in keys]
    parameters = [_value(r, k) for k in keys[:r.choices((0, 1, 2, 3), (6, 40, 36, 18))[0]]]
    if parameters and r.random() < 0.2:
        inside = [_value(r, k) for k in r.sample(_KEYS, 2)]
        parameters[-1] = _o(r.choice(("options", "settings", "details", "filter", invented(r))), *inside)
    plain, spaced = " ".join(words), lambda n: n.replace("_", " ")
    pairs = []
    for i, p in enumerate(parameters):
        pairs += [(spaced(q.name), f"{{{i}.{q.name}}}") for q in p.inside] or [(spaced(p.name), f"{{{i}}}")]
    joins = [", ".join(f"{k} {v}" for k, v in pairs), " and ".join(f"{k} {v}" for k, v in pairs), ", ".join(f"{k}={v}" for k, v in pairs),
             " and ".join(f"the {k} {v}" for k, v in pairs), ", ".join(f"{k}: {v}" for k, v in pairs), " and ".join(f"{v} as {k}" for k, v in pairs)]
    if not pairs:
        asks = [f"{verb} the {noun}.", f"Please {verb} the {noun}.", f"Can you {verb} the {noun}?", f"Use {name}.", f"Call {name}.", f"I want you to {verb} the {noun}."]
    else:
        asks = [form.format(j=j) for j in joins for form in (
            f"Use {name} with {{j}}.", f"Call {name} with {{j}}.", f"Run {name} for {{j}}.", f"{verb} the {noun} with {{j}}.", f"{verb} {noun}: {{j}}",
            f"Please {verb} a {noun} with {{j}}.", f"I need to {plain}, {{j}}.", f"Can you {verb} the {noun} with {{j}}?", f"{verb} the {noun}, {{j}}.",
            f"I want to {verb} a {noun} where {{j}}.", f"We have to {plain}. {{j}}.")]
        if len(pairs) == 1:
            value = pairs[0][1]
            asks += [f"{verb} {noun} {value}.", f"{verb} the {noun} {value}.", f"{verb} the {noun} of {value}.", f"{verb} the {noun} for {value}."] * 3
    asks = [a if r.random() < 0.3 else a[0].upper() + a[1:] for a in asks]
    note = r.choice((f"{verb.capitalize()} a {noun}", f"{verb.capitalize()} the {noun}", f"{verb} {noun}", f"Can {verb} the {noun}."))
    return Tool(name, note, parameters, asks)


def arguments(r: Rng, tool: Tool) -> dict[str, Any]:
    return {p.name: p.draw(r) for p in tool.parameters}


def request(r: Rng, tool: Tool, args: dict[str, Any], among: slice = slice(None)) -> str:
    """One of the tool's phrasings with these arguments."""
    def said(v: Any) -> Any:
        if isinstance(v, bool):
            return r.choice(("yes", "true", "true")) if v else r.choice(("no", "false", "false"))
        if isinstance(v, list):
            return ", ".join(v[:-1]) + " and " + v[-1]
        return v

    values = [type("Values", (), {k: said(x) for k, x in v.items()}) if isinstance(v, dict) else said(v) for v in args.values()]
    return r.choice(tool.asks[among]).format(*values, **{p.name: v for p, v in zip(tool.parameters, values)})
