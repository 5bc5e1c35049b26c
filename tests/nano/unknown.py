"""Questions that nano cannot answer, about the world, weather, people, the future and opinions, and things that it cannot make."""
import random

from conversation import Conversation, chatter, says, system, user
from recall import NOT_TOLD
from toolcalls import CANNOT_DO, UNKNOWN
from words import (ACTIONS, ADJECTIVES, ANIMALS, CITIES, COLORS, COUNTRIES, EVENTS, FAMOUS, FIRST_NAMES, FOODS, HOBBIES, JOBS, LANGUAGES, LAST_NAMES, ORGS,
                   PLACES, RELATIONS, ROLES, SUBJECTS, SUPERLATIVES, THINGS, TIMES, UNITS, VERBS_PAST, WORKS, WORK_PLURAL, anything, article, pick)

QUESTIONS = """What is the capital of {land}?|Who is the {role} of {place}?|Who was the {role} of {place}?|Who was the first {role} of {place}?|Who {did} the {thing}?
Who {did} {work}?|When was {famous} born?|When did {famous} die?|Where was {famous} born?|Who was {famous}?|Who is {famous}?|What did {famous} invent?|How old is {famous}?
What is the population of {place}?|How many people live in {place}?|How far is {city} from {city2}?|How far is it from {city} to {city2}?|Where is {place}?|How big is {land}?
What language do they speak in {place}?|What currency does {land} use?|Is {city} in {land}?|Which country is {city} in?|What is the {best} {noun} in {place}?|Which is the {best} {noun}?
What is the {best} {noun} in the world?|Why do {animal}s {act}?|Why does {article_thing} {act}?|How do {animal}s {act}?|Do {animal}s {act}?|Can {animal}s {act}?|How long do {animal}s live?
What do {animal}s eat?|Where do {animal}s live?|How many legs does {article_animal} have?|How fast can {article_animal} run?|How much does {article_animal} weigh?|What sound does {article_animal} make?
What is {subject}?|How does {subject} work?|What causes {subject}?|Why is {subject} important?|Who invented {subject}?|What do you think about {subject}?|What does {subject} mean?
Explain {subject}.|Explain {subject} to me.|Tell me about {subject}.|Tell me something about {famous}.|Tell me about {place}.|What is the meaning of {thing}?|Define {subject}.
What is the weather like {time}?|What is the weather {time}?|Will it rain {time}?|Is it raining {time}?|Is it cold outside?|Will it snow in {city} {time}?|What is the temperature in {city}?|How warm is it in {city} {time}?
Weather in {city}?|Will the sun shine {time}?|What is the forecast for {city}?|Who won the {event} {time}?|Who won the {event} in {year}?|Who will win the {event}?|When is the next {event}?
What happened {time}?|What happened in {year}?|What happened in {city} {time}?|What will happen {time}?|When does the {event} start?|What is the score of the {event}?|Who lost the {event}?
What will {org} do {time}?|Who founded {org}?|Who is the {role} of {org}?|What is the stock price of {org}?|How many people work at {org}?|When was {org} founded?|What does {org} sell?|Where is {org} based?
What time is it?|What is the time?|What day is it today?|What is the date?|What is today's date?|Which year is it?|What time is it in {city}?|Which month is it now?|What day is {time}?
Where is my {thing}?|Who is my {relation}?|What did I eat {time}?|What am I thinking?|What is in my {place0}?|What am I wearing?|Where did I put my {thing}?|What did I do {time}?|How much money do I have?
What is my {relation}'s name?|When is my {relation}'s birthday?|What will I do {time}?|Will I be rich?|Does my {relation} love me?|What should I do {time}?|What does my {relation} think?
How is my {relation}?|Where is my {relation} now?|What is {name}'s phone number?|Where does {name} live?|How old is {name}?|Who is {name}?|What is {name} doing?|Is {name} nice?|Does {name} like {food}?
What is {name} {last}'s address?|Do you know {name} {last}?|When will {name} arrive?|What did {name} say {time}?|Why is {name} {adj}?|Where did {name} go {time}?|Is {name} at home?|Did {name} call?
Who wrote {work}?|What is the best {workkind}?|Who plays in {work}?|What is {work} about?|Which {workkind} should I watch?|Recommend me {article_workkind}.|Who sang {work}?|How does {work} end?
How do I cook {food}?|How do I make {food}?|What is in {food}?|Is {food} healthy?|How many calories does {food} have?|Where can I buy {food}?|What goes well with {food}?|How long do I boil {food}?
How do I fix {article_thing}?|How does {article_thing} work?|What is {article_thing} made of?|How much does {article_thing} cost?|How do you build {article_thing}?|Where can I buy {article_thing}?|What is {article_thing}?
What is the {color} {thing} for?|Why is the {thing} {adj}?|Why is the sky {color}?|Why is {food} {color}?|How many {thing}s are in {place}?|How many {animal}s are there in {place}?|How tall is the {thing} of {city}?
How deep is the {thing}?|How old is the {thing}?|How long is the {thing} in {city}?|How many {unit} is the {thing}?|How heavy is {article_thing}?|How many {unit} from {city} to {city2}?|Which {animal} is the {best}?
What is {word} in {language}?|How do you say {word} in {language}?|Translate {word} into {language}.|What does {word} mean?|What does {word} mean in {language}?|Do you speak {language}?|What is the {language} word for {word}?
What is a good name for {article_animal}?|What should I name my {animal}?|Is {hobby} fun?|How do I learn {hobby}?|Who is the best at {hobby}?|What are the rules of {hobby}?|How do I get better at {hobby}?
What is the best {noun} to buy?|Should I buy {article_thing}?|Is {org} better than {org2}?|Which is better, {food} or {food2}?|Do you prefer {food} or {food2}?|Is {city} nicer than {city2}?|What should I eat {time}?
Is there life on Mars?|What is the meaning of life?|How far is the moon?|How hot is the sun?|What is the speed of light?|How many stars are there?|How many countries are there?|How many people are on Earth?
What is the {best} {thing} on Earth?|How big is the moon?|How old is the universe?|What is at the center of the {thing}?|Who discovered {subject}?|In which year did the {event} of {city} happen?|What was {famous} famous for?
How much does {article_job} earn?|What does {article_job} do?|How do I become {article_job}?|Do {job}s like {food}?|Who is the most famous {job}?|What do {job}s use {article_thing} for?|Is {article_job} well paid?
What is the news {time}?|Any news from {place}?|What do people in {place} eat?|What is {place} known for?|When did {land} become independent?|Who lives in {city}?|What is the {best} street in {city}?|What is the flag of {land}?
Which team won {time}?|What is the lottery number {time}?|What is the price of {food} {time}?|What is the price of gold?|How is the traffic {time}?|Are the shops open {time}?|When does the {place1} open?|When does the train to {city} leave?
Where can I park in {city}?|What is the best hotel in {city}?|What is the wifi password?|How do I get to {city}?|What is the phone number of the {place1}?|What is the address of {org}?|Is the {place1} open?|What can I visit in {city}?
Was {famous} from {land}?|Did {famous} write {article_workkind}?|Is {famous} still alive?|How tall is {famous}?|How did {famous} die?|What is {famous} doing {time}?|Has {name} {did2} the {thing}?|Do you remember {famous}?
Is {subject} hard to learn?|Is {subject} real?|What are the {subject} rules?|Who teaches {subject}?|What is the history of {thing}s?|Where does {food} come from?|Who ate my {food}?|What color is {article_animal}?|Is {article_animal} bigger than {article_animal2}?
What is inside {article_thing}?|Why do people like {hobby}?|Why do people {act}?|Why did {name} {act}?|When will {name} {act}?|What makes {article_animal} {act}?|How many {unit} can {article_animal} {act}?|Is it true that {animal}s {act}?
What is {word}?|What are {thing}s?|Who are the {word}s?|Where is the {adj} {thing}?|Which {thing} is {adj}?|What's the capital city of {land}?|Whats the capital of {land}|capital of {land}|population of {land}|president of {land}
Do you know the capital of {land}?|Do you know who {did} {work}?|Do you know anything about {subject}?|Do you know where {place} is?|Do you know when {famous} lived?|Can you tell me who {did} the {thing}?|Can you explain {subject}?|Can you name the {role} of {place}?
Can you tell me about {place}?|I want to know who {did} the {thing}.|I want to learn about {subject}.|I would like to know when {famous} was born.|I wonder why {animal}s {act}.|Name a famous {job}.|Name three {animal}s from {place}.|Name the {best} {noun} in {place}."""
DEMANDS = """Write a poem about {thing}.|Write me {article_workkind} about {animal}s.|Tell me a story about {article_animal}.|Tell me a joke.|Tell me a joke about {animal}s.|Sing a song.|Draw {article_animal}.|Draw me {article_thing}.
Write a letter to my {relation}.|Write an essay about {subject}.|Write code for {article_thing}.|Write a program that sorts {thing}s.|Write a Python script.|Book a hotel in {city}.|Order {food} for me.|Call my {relation}.|Call {name}.
Send an email to {name}.|Open the {thing}.|Play some music.|Play {hobby} with me.|Turn on the light.|Set a timer.|Set an alarm for me.|Buy me {article_thing}.|Buy {food}.|Clean the {place0}.|Make me {article_food}.|Cook {food}.
Drive me to {city}.|Find my {thing}.|Find {article_job} in {city}.|Show me a picture of {article_animal}.|Show me {place} on a map.|Open {org}.|Search the web for {thing}s.|Download {work}.|Repair my {thing}.|Paint the {thing} {color}.
Plan a trip to {place}.|Plan my day.|Plan a party for {name}.|Remind me to call {name}.|Add {food} to my list.|Make a list of {thing}s.|Summarize the book {work}.|Fix my {thing}.|Take a photo.|Print this.|Close the {thing}.|Delete my {thing}s.
Write a song for {name}.|Compose {article_workkind}.|Invent a game about {animal}s.|Make up a story.|Give me a recipe for {food}.|Give me some advice.|Give me a gift idea for my {relation}.|Suggest a name for my {animal}.|Wake me up {time}.|Bring me the {thing}.
Rent a car in {city}.|Reserve a table for {name}.|Check my email.|Read me the news.|Read {work} to me.|Start the {thing}.|Stop the {thing}.|Ship the {thing} to {city}.|Pay my bill.|Water the {thing}s.|Feed the {animal}.|Lock the {thing}.|Translate this text."""
_QUESTIONS = [q.strip() for q in QUESTIONS.replace("\n", "|").split("|")]
_DEMANDS = [q.strip() for q in DEMANDS.replace("\n", "|").split("|")]


def _fill(r: random.Random) -> dict[str, str]:
    thing, animal, job, work = pick(r, THINGS, 0.15), pick(r, ANIMALS, 0.1), pick(r, JOBS, 0.1), r.choice(WORKS)
    title = r.choice((f"the {work} {anything(r).title()}", f"The {anything(r).title()}", f"'{anything(r).title()}'", f"{anything(r).title()} and {anything(r).title()}", f"the {WORK_PLURAL[work]}"))
    food = pick(r, FOODS, 0.15)
    return dict(
        land=pick(r, COUNTRIES, 0.2), city=pick(r, CITIES, 0.2), city2=pick(r, CITIES, 0.2), place=pick(r, r.choice((CITIES, COUNTRIES)), 0.2), place0=r.choice(PLACES),
        place1=r.choice(("bakery", "library", "museum", "market", "station", "airport", "bank", "pool", "shop", "school", "post office", "restaurant", "zoo")),
        famous=r.choice(FAMOUS) if r.random() < 0.7 else f"{pick(r, FIRST_NAMES)} {pick(r, LAST_NAMES)}", role=r.choice(ROLES).replace("_", " "), did=r.choice(VERBS_PAST),
        did2=r.choice(VERBS_PAST), thing=thing, article_thing=article(thing), animal=animal, article_animal=article(animal), article_animal2=article(pick(r, ANIMALS, 0.1)),
        subject=pick(r, SUBJECTS, 0.12), time=r.choice(TIMES).replace("_", " "), event=r.choice(EVENTS), year=str(r.randint(1200, 2040)), org=pick(r, ORGS, 0.2), org2=pick(r, ORGS, 0.2),
        relation=r.choice(RELATIONS), name=pick(r, FIRST_NAMES, 0.4), last=pick(r, LAST_NAMES, 0.4), work=title, workkind=work, article_workkind=article(work), food=food,
        article_food=article(food), food2=pick(r, FOODS, 0.15), color=r.choice(COLORS), adj=r.choice(ADJECTIVES), unit=r.choice(UNITS), word=anything(r), language=r.choice(LANGUAGES),
        hobby=pick(r, HOBBIES, 0.1), job=job, article_job=article(job), best=r.choice(SUPERLATIVES).replace("_", " "),
        noun=pick(r, r.choice((THINGS, ANIMALS, FOODS, JOBS, EVENTS, WORKS)), 0.1), act=r.choice(ACTIONS))


def question(r: random.Random) -> str:
    return r.choice(_QUESTIONS).format(**_fill(r))


def unknown(r: random.Random) -> Conversation:
    if r.random() < 0.2:
        return Conversation(system(r) + [user(chatter(r, r.choice(_DEMANDS).format(**_fill(r)))), says(CANNOT_DO)])
    text = question(r)
    return Conversation(system(r) + [user(chatter(r, text)), says(NOT_TOLD if " my " in text else UNKNOWN)])


if __name__ == "__main__":
    rng = random.Random(1)
    print(len(_QUESTIONS), len(_DEMANDS))
    for _ in range(30):
        t = unknown(rng).turns
        print(repr(t[-2].text), "->", t[-1].text)
