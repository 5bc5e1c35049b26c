"""The word inventory of the generator: all words that nano can read are built from these lists and from syllables."""
import random

FIRST_NAMES = """Anna Bob Carol David Emma Frank Grace Henry Iris Jack Kate Liam Mia Noah Olivia Paul Rosa Sam Tina Victor Wendy
Yara Zoe Alex Priya Omar Chen Fatima Luca Sofia Diego Amara Kenji Ingrid Pavel Leila Tomas Nina Oscar Ruth Hugo Clara Felix Maya
Ivan Julia Karim Lena Marco Nora Peter Quinn Rita Simon Tara Umar Vera Walter Xenia Yusuf Zara Aiko Bruno Celia Dana Elif""".split()
LAST_NAMES = """Smith Jones Brown Miller Davis Garcia Lopez Wilson Moore Taylor Lee Walker Hall Young King Wright Hill Green Baker
Adams Nelson Carter Novak Rossi Silva Kim Tanaka Singh Khan Ivanov Larsen Weber Dubois Costa Haddad Okafor""".split()
CITIES = """Paris London Berlin Tokyo Madrid Rome Oslo Cairo Lima Delhi Beijing Sydney Dublin Vienna Prague Boston Chicago Lisbon
Athens Seoul Toronto Warsaw Geneva Nairobi Lagos Mumbai Dallas Seattle Denver Munich Milan Porto Bergen Zurich Kyoto Quito Austin
Hamburg Lyon Naples Krakow Bogota Manila Hanoi Riga Tunis Accra Perth Leeds Utrecht""".split()
COUNTRIES = """France Germany Spain Italy Japan China India Brazil Canada Mexico Norway Sweden Egypt Kenya Peru Chile Poland Greece
Turkey Portugal Ireland Iceland Australia Argentina Finland Denmark Vietnam Thailand Morocco Nigeria Austria Hungary Cuba Nepal
Ukraine Ghana Bolivia Belgium Indonesia Pakistan""".split()
COLORS = """red blue green yellow purple orange pink black white brown teal gold silver violet gray turquoise crimson beige olive
navy maroon indigo""".split()
ANIMALS = """cat dog rabbit parrot horse hamster turtle goldfish lizard snake goat sheep cow pig duck owl fox wolf bear tiger lion
elephant giraffe monkey whale shark penguin eagle frog spider bee ant camel zebra kangaroo dolphin mouse donkey crow octopus""".split()
FOODS = """pizza sushi pasta rice soup salad bread cheese apples curry tacos noodles pancakes mangoes chocolate honey olives beans
potatoes carrots cherries grapes lemons onions tomatoes mushrooms waffles dumplings cookies yogurt peanuts plums pears figs""".split()
JOBS = """teacher doctor engineer baker pilot nurse writer farmer lawyer painter carpenter plumber chef gardener librarian dentist
driver musician actor scientist tailor cashier architect electrician photographer firefighter sailor judge""".split()
THINGS = """table chair lamp book pen phone key wallet bag umbrella bicycle car train boat bridge house tower clock mirror bottle cup
plate spoon knife guitar piano violin drum camera radio computer keyboard printer window door garden tree flower stone river mountain
island cloud rocket satellite engine wheel hammer ladder rope blanket pillow jacket shoe hat ring coin stamp letter map ticket box
basket candle kite balloon robot puzzle statue fountain lighthouse castle museum bakery library harbor market station airport""".split()
PLACES = """kitchen bedroom office garage hall attic cellar garden balcony shed bathroom drawer cupboard library school shop car
box fridge closet desk suitcase backpack lobby studio barn tent""".split()
HOBBIES = """chess tennis football swimming painting reading gardening cooking hiking cycling dancing sailing fishing running
photography knitting climbing singing surfing skiing pottery yoga archery juggling""".split()
SUBJECTS = """history physics chemistry biology geography philosophy economics politics astronomy medicine art music literature
religion law psychology geology sports fashion cinema theatre architecture engineering football cricket opera ballet poetry
mythology evolution gravity electricity democracy inflation photosynthesis quantum mechanics relativity volcanoes earthquakes
vaccines bacteria dinosaurs galaxies planets glaciers tides magnets lightning rainbows fossils atoms genes""".split()
FAMOUS = """Einstein Newton Shakespeare Napoleon Mozart Beethoven Picasso Cleopatra Darwin Gandhi Galileo Aristotle Plato Tesla Edison
Lincoln Churchill Mandela Columbus Caesar Homer Dante Bach Chopin Monet Rembrandt Curie Kepler Archimedes Confucius Tolstoy
Dickens Austen Elvis Madonna Messi Ronaldo Federer Pele Obama""".split()
ORGS = """Google Apple Microsoft Amazon Toyota Tesla NASA Nike Samsung Sony Netflix Spotify Boeing Airbus Intel Nvidia Siemens Bosch
Ikea Lego Disney Ferrari Honda Volvo UNESCO FIFA""".split()
EVENTS = """election war concert match game race festival earthquake storm wedding conference meeting strike fire flood trial revolution
exhibition tournament launch crash vote marathon final opening""".split()
WORKS = """movie song book novel film poem album play painting show series magazine podcast opera""".split()
WORK_PLURAL = {w: w + "s" for w in WORKS} | {"series": "series"}
ROLES = """president king queen mayor prime-minister pope captain coach owner founder director author inventor winner champion leader
chancellor governor minister boss""".replace("prime-minister", "prime_minister").split()
RELATIONS = """brother sister mother father uncle aunt cousin friend boss neighbour teacher son daughter grandmother grandfather
roommate husband wife partner colleague nephew niece dentist landlord coach""".split()
ADJECTIVES = """big small old new red quiet loud fast slow heavy light cold warm bright dark tall short round square soft hard clean
dirty cheap rare strange funny sad happy brave clever lazy tired busy empty full broken wooden golden hidden lucky""".split()
SUPERLATIVES = """tallest largest smallest fastest oldest longest deepest highest richest best worst most_popular most_expensive
heaviest strongest biggest youngest coldest hottest most_famous""".split()
VERBS_PAST = """invented discovered built wrote painted won founded designed composed killed bought sold directed sang opened destroyed
created owned visited signed married broke named""".split()
ACTIONS = """sleep fly sing swim run eat hibernate migrate glow melt freeze burn float sink grow dream cry laugh bark hunt shed rust
explode evaporate bounce""".split()
LANGUAGES = """French Spanish German Italian Latin Greek Japanese Chinese Russian Arabic Portuguese Dutch Swedish Turkish Hindi Korean
Polish Czech Finnish""".split()
UNITS = "kilometers meters miles feet kilograms pounds grams liters gallons inches euros dollars hours degrees".split()
COMMON = """house water light music paper table river stone cloud bread green happy summer winter garden window orange silver planet
friend market button pencil school mother father sister dinner letter number animal flower forest island mountain bottle basket
candle camera doctor engine finger guitar hammer jacket kitten ladder mirror needle office pillow rabbit saddle ticket turtle valley
wallet yellow zipper apple beach chair dance eagle flame grape heart ivory juice knife lemon mango night ocean piano queen robot
snake tiger uncle voice whale youth zebra bird book cake door fish gold hand king lamp moon nest park rain ship tree wind word""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
TIMES = """today tomorrow yesterday tonight now this_morning next_week last_week last_year next_year this_year next_month this_weekend
in_1990 in_2031 in_1850 last_night next_summer right_now on_Monday in_May""".split()

_ONSETS = "b c d f g h j k l m n p r s t v w z br cr dr fr gr pr tr bl cl fl gl pl sl st sp sk sh ch th".split()
_VOWELS = "a e i o u a e i o ai ea oo ou ee y".split()
_CODAS = ["", "", "", "n", "s", "r", "l", "m", "t", "k", "x", "ck", "nd", "rt", "ng", "ll"]


def invented(r: random.Random, low: int = 1, high: int = 3) -> str:
    """A pronounceable word that means nothing."""
    word = "".join(r.choice(_ONSETS) + r.choice(_VOWELS) for _ in range(r.randint(low, high))) + r.choice(_CODAS)
    return word if len(word) > 2 else word + r.choice("nrstlm")


def pick(r: random.Random, words: list[str], strange: float = 0.3) -> str:
    """A word of the list, or an invented one, in the list's capitalisation; '_' stands for a space."""
    if r.random() < strange:
        word = invented(r)
        return word.capitalize() if words[0][0].isupper() else word
    return r.choice(words).replace("_", " ")


def person(r: random.Random) -> str:
    name = pick(r, FIRST_NAMES, 0.4)
    return name + " " + pick(r, LAST_NAMES, 0.4) if r.random() < 0.15 else name


def anything(r: random.Random) -> str:
    """A lower-case noun of any kind."""
    return pick(r, r.choice((THINGS, ANIMALS, FOODS, HOBBIES, COMMON, PLACES)), 0.25)


def article(word: str) -> str:
    return ("an " if word[0].lower() in "aeiou" else "a ") + word


_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen""".split()
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


def number_words(n: int) -> str:
    """English for 0 <= n < 10000."""
    if n < 20:
        return _SMALL[n]
    if n < 100:
        return _TENS[n // 10] + ("-" + _SMALL[n % 10] if n % 10 else "")
    if n < 1000:
        return _SMALL[n // 100] + " hundred" + (" and " + number_words(n % 100) if n % 100 else "")
    return number_words(n // 1000) + " thousand" + (" " + number_words(n % 1000) if n % 1000 else "")
