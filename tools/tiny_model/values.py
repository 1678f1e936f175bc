"""Values for made-up documents: names, codes, dates and numbers, nearly all of them new at every draw.

A *kind* draws a value together with the way the text writes it. Strings fall into two disjoint buckets by
a hash, one per split, so that no string of a held-out answer ever stands in a training answer.
"""

# ruff: noqa: SIM905 (lists of words are easiest to read, and to add to, as texts)

from __future__ import annotations

import datetime
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Split = Literal["train", "heldout"]


@dataclass(frozen=True)
class DrawnValue:
    """A value, as it stands in the answer, and its surface, as it stands in the text."""

    value: Any
    surface: str


class WrittenNumber(float):
    """A number that the answer writes as the text does: `240.00`, so that a small model has only to copy it."""

    written: str

    def __new__(cls, value: float, written: str) -> WrittenNumber:
        """The number `value`, spelled `written`."""
        number = super().__new__(cls, value)
        number.written = written
        return number


@dataclass(frozen=True)
class FieldKind:
    """A family of values: how one is drawn and what its JSON Schema is."""

    draw: Callable[[random.Random, Split], DrawnValue]
    schema: Callable[[random.Random], dict[str, Any]]
    coded: bool = False  # letters and digits, for which a schema may have a pattern


def in_split(text: str, split: Split) -> bool:
    """Tells whether a string may be used in this split: one in ten is held out."""
    return (zlib.crc32(text.encode()) % 10 == 0) == (split == "heldout")


def text_kind(make: Callable[[random.Random], str], formats: str = "", *, coded: bool = False) -> FieldKind:
    """A kind of strings that the answer copies as the text writes them."""

    def draw(rng: random.Random, split: Split) -> DrawnValue:
        while True:
            text = make(rng)
            if in_split(text, split):
                return DrawnValue(text, text)

    def schema(rng: random.Random) -> dict[str, Any]:
        shown = bool(formats) and rng.random() < 0.4
        return {"type": "string", "format": formats} if shown else {"type": "string"}

    return FieldKind(draw, schema, coded)


def pattern_of(rng: random.Random, code: str) -> str:
    """A regular expression of the codes like this one, anchored. They hold letters, digits, `-` and `/`."""
    parts = []
    for run in re.findall("[A-Z]+|[0-9]+|.", code):
        letters = "[A-Z]" if run.isupper() else "[0-9]" if run.isdigit() else ""
        count = f"{{1,{len(run)}}}" if len(run) > 1 and rng.random() < 0.3 else f"{{{len(run)}}}"
        parts.append(letters + count if letters and len(run) > 1 else letters or run)
    return f"^{''.join(parts)}$"


# ---------------------------------------------------------------------------------------------- words and names

_ONSETS = "b c d f g h j k l m n p r s t v w z br ch cl dr fr gr kl kr pl pr sh sk sl st th tr".split()
_VOWELS = "a e i o u a e i o u ai ea ie oa ou y".split()
_CODAS = ["", "", "", "l", "n", "r", "s", "t", "m", "k", "nd", "rt", "x", "ck", "ll", "ss"]
_ACCENTS = dict(
    zip(
        "aeiouncszyl",
        ["áàâäãåą", "éèêëęě", "íîï", "óôöõøő", "úüûůű", "ñńň", "çčć", "šś", "žź", "ý", "ł"],
        strict=True,
    )
)
_GIVEN = (
    "Anna Maria Peter John Sarah David Laura Ahmed Fatima Omar Elena Ivan Olga Marco Giulia Pierre Claire José Lucía Ana "
    "João Inês Hans Greta Lars Astrid Søren Zoë Björn Chloé André Jürgen Łukasz Agnieszka Ümit Ayşe Nguyen Linh Wei Mei "
    "Kenji Yuki Raj Priya Amara Kofi Noah Emma Liam Mia Ada Grace Alan Tom Jane Mary Paul Alice Bob Carol"
).split()
_FAMILY = (
    "Smith Jones Brown Miller Garcia Müller Schmidt Rossi Bianchi Dubois Lefèvre Novák Kowalska Nowak Ivanov Petrova "
    "Tanaka Sato Kim Park Chen Wang Singh Patel Okafor Mensah Hansen Nielsen Lindqvist Virtanen García Fernández Silva "
    "Santos Yılmaz Öztürk Haddad Cohen Levi O'Brien O'Neill Lovelace Hopper Turing Curie Weber Klein Moreau"
).split()
_PLACES = (
    "Berlin Paris London Madrid Rome Vienna Prague Warsaw Lisbon Dublin Oslo Stockholm Helsinki Athens Budapest Zürich "
    "Genève Köln München Kraków Łódź Málaga Tokyo Osaka Kyoto Seoul Beijing Shanghai Delhi Mumbai Lagos Nairobi Cairo "
    "Toronto Boston Chicago Denver Austin Seattle Lima Bogotá Quito Santiago Sydney Perth Auckland Porto Lyon Nice Turin "
    "São-Paulo Reykjavík Tromsø Århus Malmö"
).split()
_COUNTRIES = (
    "France|Germany|Spain|Italy|Portugal|Poland|Norway|Sweden|Denmark|Finland|Iceland|Ireland|Greece|Turkey|Egypt|Kenya|"
    "Nigeria|Ghana|Morocco|South Africa|India|China|Japan|South Korea|Vietnam|Thailand|Indonesia|Australia|New Zealand|"
    "Canada|Mexico|Brazil|Argentina|Chile|Peru|Colombia|Cuba|Austria|Switzerland|Belgium|Netherlands|Hungary|Romania|"
    "Bulgaria|Serbia|Croatia|Slovenia|Ukraine|Georgia|Armenia|Israel|Jordan|Lebanon|Qatar|Oman|Nepal|Malta|Cyprus|Estonia|Latvia"
).split("|")
_NOUNS = (
    "river harbour garden window mountain forest bridge tower valley island summer winter morning evening letter mirror "
    "shadow silence thunder engine bottle copper silver golden crystal marble paper carpet blanket lantern candle kettle "
    "basket ladder hammer anchor compass feather falcon tiger rabbit dolphin spider orchid tulip maple cedar willow pepper "
    "ginger lemon apple butter cheese bread onion garlic tomato potato carrot spinach rice flour sugar honey cream chicken "
    "salmon basil thyme cinnamon vanilla almond walnut olive vinegar mustard noodle python java rust excel welding painting "
    "cooking design planning sales testing security finance english french german spanish music chess running cycling "
    "swimming reading travel network printer login screen button server export import search filter report invoice payment "
    "coffee camera chair table lamp phone laptop tablet keyboard monitor headset backpack jacket shirt boots gloves scarf "
    "wallet watch drill saw pump heater fan router cable battery charger speaker pencil notebook folder stapler"
).split()
_ADJECTIVES = (
    "silent broken hidden lost bright dark slow quick heavy light small large early late modern old new red blue green "
    "black white yellow grey wooden steel cotton leather fresh dry sweet bitter cold warm open closed empty full quiet loud"
).split()


def syllables(rng: random.Random, low: int = 1, high: int = 3) -> str:
    """A made-up lower-case word in Latin letters."""
    word = ""
    for _ in range(rng.randint(low, high)):
        word += rng.choice(_ONSETS) + rng.choice(_VOWELS)
    return word + rng.choice(_CODAS)


def _accented(rng: random.Random, word: str) -> str:
    return "".join(rng.choice(_ACCENTS[c]) if c in _ACCENTS and rng.random() < 0.3 else c for c in word)


def proper(rng: random.Random) -> str:
    """A made-up capitalised word, one in three with diacritics."""
    word = syllables(rng, 1, 3)
    return (_accented(rng, word) if rng.random() < 0.15 else word).capitalize()


def _person(rng: random.Random) -> str:
    first, last = _first(rng), _last(rng)
    middle = rng.random()
    if middle < 0.07:
        return f"{first} {rng.choice('ABCDEFGHJKLMNPRST')}. {last}"
    if middle < 0.12:
        return f"{first} {rng.choice(['van', 'de', 'von', 'da', 'el'])} {last}"
    return f"{first} {last}"


def _first(rng: random.Random) -> str:
    return rng.choice(_GIVEN) if rng.random() < 0.45 else proper(rng)


def _last(rng: random.Random) -> str:
    if rng.random() < 0.06:
        return f"{proper(rng)}-{proper(rng)}"
    return rng.choice(_FAMILY) if rng.random() < 0.35 else proper(rng)


def _place(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.35:
        return rng.choice(_PLACES)
    if roll < 0.5:
        return f"{rng.choice(['New', 'Port', 'San', 'Saint', 'Bad', 'Upper', 'Las'])} {proper(rng)}"
    return proper(rng)


def word(rng: random.Random) -> str:
    """A lower-case word, real or made up."""
    return rng.choice(_NOUNS) if rng.random() < 0.5 else syllables(rng, 2, 3)


def _phrase(rng: random.Random) -> str:
    return " ".join(
        [rng.choice(_ADJECTIVES), word(rng)]
        if rng.random() < 0.6
        else [word(rng) for _ in range(rng.randint(1, 2))]
    )


def _title(rng: random.Random) -> str:
    words = [
        rng.choice(_ADJECTIVES + _NOUNS) if rng.random() < 0.6 else syllables(rng, 2, 3)
        for _ in range(rng.randint(1, 3))
    ]
    text = " ".join(part.capitalize() for part in words)
    roll = rng.random()
    if roll < 0.2:
        return f"The {text}"
    return f"{text} of {proper(rng)}" if roll < 0.3 else text


def _company(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.2:
        return f"{proper(rng)} & {proper(rng)}"
    if roll < 0.3:
        return proper(rng)
    if roll < 0.36:
        return "".join(rng.choice("ABCDEFGHIKLMNOPRSTV") for _ in range(3)) + " " + proper(rng)
    return f"{proper(rng)} {rng.choice(['GmbH', 'Ltd', 'Inc', 'SA', 'Labs', 'Group', 'Systems', 'Foods', 'Energy', 'Media', 'Bank', 'Corp', 'AB'])}"


def _product(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.35:
        return f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}"
    if roll < 0.65:
        return f"{proper(rng)} {rng.choice(_NOUNS)}"
    if roll < 0.85:
        return f"{proper(rng)} {rng.choice('ABCDEGKLMRSTXZ')}{rng.randint(1, 999)}"
    return f"{proper(rng)} {rng.choice(['Pro', 'Mini', 'Max', 'Plus', 'One', 'Air'])}"


def _letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(count))


def _digits(rng: random.Random, count: int) -> str:
    made = ""
    for _ in range(count):  # digits come twice in a row more often than by chance
        made += made[-1] if made and rng.random() < 0.12 else rng.choice("0123456789")
    return made


def _code(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.4:
        return f"{_letters(rng, rng.randint(1, 3))}-{_digits(rng, rng.randint(3, 5))}"
    if roll < 0.6:
        return f"{_letters(rng, rng.randint(1, 3))}{_digits(rng, rng.randint(2, 6))}"
    if roll < 0.75:
        return f"{_letters(rng, 2)}-{_digits(rng, 4)}-{_letters(rng, 1)}"
    if roll < 0.85:
        return f"{_digits(rng, 4)}/{_digits(rng, 2)}"
    return _digits(rng, rng.randint(5, 8))


def _slug(rng: random.Random) -> str:
    return syllables(rng, 1, 3)


def _domain(rng: random.Random) -> str:
    return f"{_slug(rng)}.{rng.choice(['com', 'org', 'net', 'io', 'de', 'fr', 'eu', 'example', 'co'])}"


def _email(rng: random.Random) -> str:
    user = _slug(rng) + rng.choice(["", "", f".{_slug(rng)}", f"_{_slug(rng)}", _digits(rng, 2)])
    return f"{user}@{rng.choice([_domain(rng), 'example.com', 'mail.com'])}"


def _phone(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.5:
        return f"+{rng.randint(1, 99)} {_digits(rng, 3)} {_digits(rng, rng.randint(4, 6))}"
    if roll < 0.8:
        return f"{_digits(rng, 3)}-{_digits(rng, 4)}"
    return f"0{_digits(rng, 3)} {_digits(rng, 5)}"


def _street(rng: random.Random) -> str:
    if rng.random() < 0.35:
        return f"{proper(rng)}{rng.choice(['straße', 'gasse', 'vägen', 'weg'])} {rng.randint(1, 199)}"
    return f"{rng.randint(1, 199)} {proper(rng)} {rng.choice(['Street', 'Road', 'Avenue', 'Lane', 'Square'])}"


def _postcode(rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.6:
        return _digits(rng, 5)
    return (
        f"{_letters(rng, 2)}{_digits(rng, 1)} {_digits(rng, 1)}{_letters(rng, 2)}"
        if roll < 0.8
        else f"{_digits(rng, 4)} {_letters(rng, 2)}"
    )


PERSON = text_kind(_person)
PLACE = text_kind(_place)
COUNTRY = text_kind(lambda rng: rng.choice(_COUNTRIES))
COMPANY = text_kind(_company)
PRODUCT = text_kind(_product)
TITLE = text_kind(_title)
WORD = text_kind(word)
PHRASE = text_kind(_phrase)
CODE = text_kind(_code, coded=True)
EMAIL = text_kind(_email, "email")
PHONE = text_kind(_phone)
URL = text_kind(lambda rng: f"https://{_domain(rng)}/{_slug(rng)}", "uri")
TIME = text_kind(lambda rng: f"{rng.randint(0, 23):02d}:{rng.choice('012345')}{rng.choice('05')}")
STREET = text_kind(_street)
POSTCODE = text_kind(_postcode)
NICKNAME = text_kind(lambda rng: proper(rng))

# ------------------------------------------------------------------------------------- numbers, dates, choices

_SPELLED = "zero one two three four five six seven eight nine ten eleven twelve".split()
_MONTHS = "January February March April May June July August September October November December".split()


def integers(low: int, high: int, spelled: float = 0.0) -> FieldKind:
    """Whole numbers; a share of the small ones is written as words, of the big ones as `12,500`."""

    def draw(rng: random.Random, split: Split) -> DrawnValue:
        value = rng.randint(low, high)
        if value < len(_SPELLED) and rng.random() < 0.2 * spelled:
            return DrawnValue(value, _SPELLED[value])
        return DrawnValue(value, f"{value:,}" if value > 9999 and rng.random() < 0.1 else str(value))

    def schema(rng: random.Random) -> dict[str, Any]:
        roll = rng.random()
        if roll < 0.12:
            return {"type": "integer", "minimum": min(low, 0), "maximum": high}
        return {"type": "integer", "minimum": min(low, 0)} if roll < 0.2 else {"type": "integer"}

    return FieldKind(draw, schema)


def decimals(low: float, high: float, places: int = 2) -> FieldKind:
    """Decimal numbers, mostly written as JSON writes them, sometimes with a trailing zero."""

    def draw(rng: random.Random, split: Split) -> DrawnValue:
        value = round(rng.uniform(low, high), rng.randint(1, places))
        if rng.random() < 0.3:
            value = float(round(value)) if rng.random() < 0.3 else value
            written = f"{value:.{places}f}"
            return DrawnValue(WrittenNumber(value, written), written)
        return DrawnValue(value, repr(value))

    def schema(rng: random.Random) -> dict[str, Any]:
        return {"type": "number", "minimum": 0} if low >= 0 and rng.random() < 0.12 else {"type": "number"}

    return FieldKind(draw, schema)


def _date(rng: random.Random, split: Split) -> DrawnValue:
    while True:
        day = datetime.date(1950, 1, 1) + datetime.timedelta(days=rng.randrange(29000))
        if rng.random() < 0.7:
            day = day.replace(year=rng.randint(2015, 2030), day=min(day.day, 28))
        iso = day.isoformat()
        if in_split(iso, split):
            break
    roll, month = rng.random(), _MONTHS[day.month - 1]
    if roll < 0.82:
        return DrawnValue(iso, iso)
    return DrawnValue(
        iso, f"{day.day} {month} {day.year}" if roll < 0.96 else f"{month} {day.day}, {day.year}"
    )


DATE = FieldKind(
    _date, lambda rng: {"type": "string", "format": "date"} if rng.random() < 0.75 else {"type": "string"}
)


@dataclass(frozen=True)
class EnumKind:
    """One of a few known words. The schema lists some of them in some letter case; the text keeps plain words."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class BoolKind:
    """True or false, said by what holds: the clauses for true and for false."""

    yes: tuple[str, ...]
    no: tuple[str, ...]


@dataclass(frozen=True)
class ListKind:
    """A list of values of one kind, written as an enumeration."""

    kind: FieldKind
    low: int = 1
    high: int = 4
