"""Units of measure: which one a name or a description asks for, and what a text measures in it: ``2 hours`` is 120 in minutes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from constrained.grammars.text.quantities import Place

_TABLE = {
    "time": {
        "1": "s sec secs second seconds sekunde sekunden seconde secondes segundo segundos secondi sekund sekundy",
        "60": "min mins minute minutes minuten minuto minutos minuti minut minuty",
        "3600": "h hr hrs hour hours stunde stunden heure heures hora horas ora ore hodina hodiny hodin godzin godziny",
        "86400": "d day days tag tage tagen jour jours día días dia dias giorno giorni dny dní dni",
        "604800": "week weeks woche wochen semaine semaines semana semanas settimana settimane weken týdny týdnů tygodni",
    },
    "calendar": {
        "1": "month months monat monate monaten mois mes meses mesi maanden měsíce měsíců miesięcy",
        "12": "year years yr yrs jahr jahre jahren ans années año años anni anos jaar roky let lat",
    },
    "mass": {
        "0.001": "mg milligram milligrams milligramm",
        "1": "g gr gram grams gramm grammes gramos grammi gramas gramů",
        "1000": "kg kilo kilos kilogram kilograms kilogramm kilogrammes kilogramos",
        "1000000": "t ton tons tonne tonnes tonnen toneladas",
    },
    "ounces": {"1": "oz ounce ounces", "16": "lb lbs pound pounds"},
    "length": {
        "1": "mm millimeter millimeters millimetre millimetres",
        "10": "cm centimeter centimeters centimetre centimetres zentimeter centimètres centímetros",
        "1000": "m meter meters metre metres mètres metros metri metrů",
        "1000000": "km kilometer kilometers kilometre kilometres kilomètres kilómetros quilômetros chilometri kilometrů",
    },
    "inches": {"1": "inch inches", "12": "ft foot feet", "36": "yd yard yards", "63360": "mi mile miles"},
    "volume": {
        "1": "ml milliliter milliliters millilitre millilitres",
        "10": "cl",
        "100": "dl",
        "1000": "l liter liters litre litres litros litri litrů",
    },
}
"""Of each dimension the size of its units, and their words in lower case."""
_UNITS = {
    word: (dimension, Decimal(size))
    for dimension, units in _TABLE.items()
    for size, words in units.items()
    for word in words.split()
}
_NOT_IN_NAMES = frozenset(
    "min second minute hour day week month year foot yard ton sekunde stunde tag woche monat jahr seconde heure jour segundo minuto hora día"  # noqa: SIM905
    " dia semana mes ora ore let lat mi gr dl".split()
)
"""Words that mean something else in a name: ``salary_min``, ``day``."""
_UNIT = re.compile(r"[\s\u00a0-]?(?P<unit>[^\W\d_]+)(?![\w²³])")
_WORDS = {
    "0.5": "half an?|(?:eine )?halbe|media|une demi",
    "1.5": "one and a half|anderthalb|eineinhalb",
    "1": r"(?:(?<=for |ter |hin |out |kes |sts |aut |für |ach |ert |ant |ure |nte )|(?=\w+ \w+ (?:and|et|y) \w+))(?:an?|eine[rn]?|une?|una?)",
}
"""Numbers that words say before a unit, beside `constrained.grammars.text.quantities.number_words`; the first that fits.

``45 hours a week`` has no week: an article is a number behind *for, after, within, about, takes, lasts, für, nach, dauert, pendant, dure, durante*,
and before ``hour and a half``.
"""
_WORD = re.compile(rf"\b(?:{'|'.join(f'({words})' for words in _WORDS.values())})(?=[ -])", re.IGNORECASE)
_AND_HALF = re.compile(r" (?:and a half|et demie?|y medi[ao])\b", re.IGNORECASE)
_AND = re.compile(r"[\s\u00a0]*(?:(?:and|und|et|y|e|a) )?", re.IGNORECASE)
_MOST_PARTS = 60
"""Of a unit in the next larger one: ``8 weeks, 45 hours`` are two things."""
_DESCRIBED = re.compile(r"(?:\bin |[(\[])(?P<unit>[^\W\d_]+)\b", re.IGNORECASE)
_NAME_WORDS = re.compile(r"[^\W\d_]+?(?=[A-Z\W\d_]|$)|\d+")


class Unit(NamedTuple):
    """A unit: of what, and how large."""

    dimension: str
    size: Decimal


class Measure(NamedTuple):
    """A measured number, or several of one dimension in a row: ``1 h 30 min``.

    Attributes:
        numbers: as the text has them.
        amount: of the dimension, all together.
        unit: of the last one.
        place: of the numbers, and the units between them.
    """

    numbers: tuple[Decimal, ...]
    amount: Decimal
    unit: Unit
    place: Place


def wanted_unit(name: str, description: str) -> Unit | None:
    """The unit that the values of a member have, by its name or description; None: neither says one.

    Args:
        name: ``duration_minutes``, ``weight_kg``, but not ``times_per_day``.
        description: ``in minutes``, ``(kg)``.
    """
    words = [word.lower() for word in _NAME_WORDS.findall(name)]
    for number, word in enumerate(words):
        is_whole = len(word) > 2 or (number > 0 and number == len(words) - 1)
        if (
            word in _UNITS
            and word not in _NOT_IN_NAMES
            and is_whole
            and words[number - 1 : number] != ["per"]
        ):
            return Unit(*_UNITS[word])
    described = (match["unit"].lower() for match in _DESCRIBED.finditer(description))
    return next((Unit(*_UNITS[one]) for one in described if one in _UNITS and one not in _NOT_IN_NAMES), None)


def measures(text: str, numbers: Iterable[tuple[Place, Decimal]]) -> list[Measure]:
    """The numbers of a text that have a unit behind them; time is linear in its length.

    Args:
        text: the text.
        numbers: where its numbers stand, words of numbers among them. No two overlap.
    """
    return list(_joined(text, sorted(_measures(text, tuple(numbers)), key=lambda one: one.place)))


@lru_cache(maxsize=4)
def _measures(text: str, numbers: tuple[tuple[Place, Decimal], ...]) -> list[Measure]:
    sizes = list(_WORDS)
    said = [(match.span(), Decimal(sizes[(match.lastindex or 1) - 1])) for match in _WORD.finditer(text)]
    found = []
    for (start, end), number in (*numbers, *said):
        match = _UNIT.match(text, end)
        unit = None if match is None else _UNITS.get(match["unit"].lower())
        if match is not None and unit is not None:
            half = _AND_HALF.match(text, match.end())
            amount = (number if half is None else number + Decimal("0.5")) * unit[1]
            found.append(Measure((number,), amount, Unit(*unit), (start, (half or match).end())))
    return found


def _joined(text: str, found: Iterable[Measure]) -> Iterator[Measure]:
    """Those of one dimension in a row, from the largest unit to the smallest one, as one."""
    last: Measure | None = None
    for one in found:
        if last is not None and last.place[1] > one.place[0]:
            if last.place == one.place:  # another reading of 1.250
                yield one
            continue
        parts = 0 if last is None else last.unit.size / one.unit.size
        if last is not None and last.unit.dimension == one.unit.dimension and 1 < parts <= _MOST_PARTS:
            between = _AND.match(text, last.place[1])
            if between is not None and between.end() == one.place[0]:
                place = last.place[0], one.place[1]
                last = Measure((*last.numbers, *one.numbers), last.amount + one.amount, one.unit, place)
                continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last
