"""The numbers that a text states for a member: as they stand there, in its unit, as a share, with the word of their size."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from constrained.decisions.naming import name_words, names_alike, names_money
from constrained.grammars.json_schema.view import without_null
from constrained.grammars.text.quantities import MAGNITUDE, Place, Quantities, find_quantities
from constrained.grammars.text.units import measures, wanted_unit

Numbers = Mapping[Decimal, Sequence[Place]]
"""Numbers of a text, and where each stands."""


class Converted(NamedTuple):
    """A number that is stated in another form than its member has it.

    Attributes:
        place: where it stands, with its unit.
        written: as the text has it, or a part of it; a model that reads it means the same by it.
        is_measured: whether it has a unit of the kind that the member wants.
    """

    place: Place
    written: Decimal
    is_measured: bool = False


@lru_cache(maxsize=4)
def plain_numbers(text: str) -> Mapping[Decimal, Sequence[Place]]:
    """The numbers of a text that are no part of a name (``B-17``), of a time, or of a date, but for its year."""
    found = find_quantities(text)
    times = covered(text, (one for row in sure_times(text, found).values() for one in row))
    dates = covered(text, (one for row in found.dates.values() for one in row))
    kept = {}
    for value, places in found.numbers.items():
        alone = [
            (start, end)
            for start, end in places
            if not _is_named(text, start, end)
            and not any(times[start:end])
            and (end - start == 4 or not any(dates[start:end]))
        ]
        if alone:
            kept[value] = alone
    return kept


def sure_times(text: str, found: Quantities) -> dict[dt.time, list[Place]]:
    """The times of a text that are no number: not ``9.15`` alone."""
    sure = {
        value: [(start, end) for start, end in places if _is_time(text[start:end])]
        for value, places in found.times.items()
    }
    return {value: places for value, places in sure.items() if places}


def _is_time(written: str) -> bool:
    return ":" in written or any(map(str.isalpha, written))


def covered(text: str, places: Iterable[Place]) -> bytearray:
    """For each character of a text, whether it lies in one of some places."""
    found = bytearray(len(text))
    for start, end in places:
        found[start:end] = b"\1" * (end - start)
    return found


_WORD = re.compile(r"\s[^\W\d_]+")
_OFTEN = re.compile(r"\s(?:times|mal|fois|veces|volte|vezes|keer|krát|razy)", re.IGNORECASE)
_ADVERB = re.compile(r"\b(?:(once|einmal)|(twice|zweimal)|(thrice|dreimal)|(viermal))\b", re.IGNORECASE)
_PERCENT = re.compile(r"[\s_]?(?:%|per ?cent|Prozent|procent|por ciento|pour cent)", re.IGNORECASE)
_SHARE = re.compile(r"\bdecimals?\b(?!.*percent)|\bfraction|\bprobability\b|\b0\.\d*[1-9]", re.IGNORECASE)
"""Of a description: the member is a share of 1."""
_MOST_DECIMALS = 6
"""Of a number in another unit."""
_PAIR = re.compile(
    r"(?:.*[^\w-])?(?:[0-9]{1,2}[-\u2013][0-9]{1,2}[^\w/-]?|[0-9]{1,3}k[-\u2013][0-9]{1,3}k)", re.DOTALL
)
"""The end of a pair of small numbers, as in ``3-1`` and ``45-60 minutes``, or of thousands."""
_THOUSANDS = re.compile(r"k\b")


def _is_named(text: str, start: int, end: int) -> bool:
    """Whether digits stand in a name: behind a letter, or joined to one by a hyphen, a slash or the like; but not in ``3-room``, ``12/year`` and ``3-1``."""
    before, behind = text[max(0, start - 2) : start], text[end : end + 3]
    is_unit = behind[:1] in tuple("-/") and len(behind) == 3 and behind[1:].isalpha() and behind[1:].islower()
    if _PAIR.fullmatch(text, max(0, start - 5), end + 1):
        return False
    return (
        before[-1:].isalpha()
        or (before[-1:] in tuple("-/#_") and before[:1].isalnum() and len(before) == 2)
        or (behind[:1] in tuple("-/_") and behind[1:2].isalpha() and not is_unit)
    )


def _grouped(numbers: Numbers) -> Numbers:
    """Without the lesser one of two readings of a place: ``120.000`` is 120000 where a whole number is meant."""
    largest: dict[Place, Decimal] = {}
    for number, row in numbers.items():
        for place in row:
            largest[place] = max(number, largest.get(place, number))
    return {number: row for number, row in numbers.items() if any(largest[place] == number for place in row)}


def _counted(
    text: str, words: Sequence[tuple[int, Place]], name: str, is_needed: bool
) -> dict[Decimal, list[Place]]:
    """The words of numbers that count what a member is called: ``two`` in `two adults` for `adults`, ``one`` in `one child` for `children`.

    Where it is called ``times``, also ``twice`` and ``zweimal``; where it must be there, any from ``two`` on: `two seats` for `passengers`.
    """
    found: dict[Decimal, list[Place]] = {}
    is_often = not {"times", "mal", "fois", "veces"}.isdisjoint(name_words(name))
    for number, (start, end) in words:
        following = _WORD.match(text, end)
        if (is_needed and number > 1) or (
            following is not None
            and (names_alike(following[0], name) or (is_often and _OFTEN.fullmatch(following[0])))
        ):
            found.setdefault(Decimal(number), []).append((start, end))
    for match in _ADVERB.finditer(text) if is_often else ():
        found.setdefault(Decimal(match.lastindex or 0), []).append(match.span())
    return found


def wanted_numbers(
    text: str,
    numbers: Numbers,
    words: Sequence[tuple[int, Place]],
    name: str,
    member: Any,
    *,
    is_needed: bool,
) -> tuple[Numbers, dict[Decimal, list[Converted]]]:
    """The numbers of a text that a member may have as they stand there, and those that it has in another form.

    `$3.2 million` is 3200000, but for a member that counts millions; `2 hours` is 120 for one in minutes, and no number of kilometres; `5 %` is 0.05 where the
    description says so, 5 where it or the name speaks of percent, and else either, but in an integer.

    Args:
        text: the text.
        numbers: its `plain_numbers`.
        words: of numbers in it, and their places.
        name: of the member.
        member: its schema.
        is_needed: whether a value must have it.
    """
    plain = without_null(member)
    if plain.get("type") == "integer":
        numbers = {**_grouped(numbers), **_counted(text, words, name, is_needed)}
    described = str(plain.get("description", ""))
    converted: dict[Decimal, list[Converted]] = {}
    instead = list[Place]()
    starts = {number: {start for start, _ in row} for number, row in numbers.items()}
    if not MAGNITUDE.search(f" {name} {described}".replace("_", " ")):
        scaled = find_quantities(text).scaled
        for number, zeros in product(numbers, (3, 6, 9)):
            for place in scaled.get(number.scaleb(zeros), ()):
                if place[0] in starts[number]:
                    converted.setdefault(number.scaleb(zeros), []).append(Converted(place, number))
                    instead.append(place)
    for number, row in numbers.items() if names_money(name) else ():
        for start, end in row:
            if _THOUSANDS.match(text, end):
                converted.setdefault(number.scaleb(3), []).append(Converted((start, end + 1), number))
                instead.append((start, end))
    unit = wanted_unit(name, described)
    if unit is not None:
        places = [(place, number) for number, row in numbers.items() for place in row]
        said = [(place, Decimal(number)) for number, place in words]
        for one in measures(text, [*places, *said]):
            value = round(one.amount / unit.size, _MOST_DECIMALS)
            if (value,) == one.numbers and one.place[0] in starts.get(value, ()):
                converted.setdefault(value, []).append(Converted(one.place, value, True))
                continue
            instead.append(one.place)
            if one.unit.dimension == unit.dimension:
                converted.setdefault(value, []).extend(
                    Converted(one.place, number, True) for number in one.numbers
                )
    is_share = _SHARE.search(described) is not None
    if plain.get("type") == "number" and (is_share or not _PERCENT.search(f"{name} {described}")):
        for number, row in numbers.items():
            percent = [place for place in row if _PERCENT.match(text, place[1])]
            if percent:
                converted.setdefault(number / 100, []).extend(Converted(one, number) for one in percent)
                instead += percent if is_share else []
    gone = covered(text, instead)
    kept = {number: [one for one in row if not gone[one[0]]] for number, row in numbers.items()}
    return {number: row for number, row in kept.items() if row}, converted
