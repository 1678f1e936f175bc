"""Records that a text states by their numbers, as an invoice does: ``3 desk lamps at 24.50 each, 2 chairs at 89.00 each``.

A small model hardly calls what stands beside a price a description, but numbers say where a record is. So where all members of a record
but one string are numbers, the parts of the text that state as many are its records, and a part that begins with a count names what is counted.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from constrained.decisions.naming import COUNTS, is_named_beside, name_words
from constrained.decisions.questions import leaf_members, member_pointer
from constrained.extraction.chunks import ANDS
from constrained.extraction.phrases import SMALL_WORD, is_plain_string
from constrained.extraction.quantities import quantity_kind
from constrained.extraction.stated_numbers import covered, plain_numbers
from constrained.grammars.text.quantities import find_quantities, number_words

Span = tuple[int, int]

BREAK = re.compile(rf"[,;:](?=\s)\s*|\s[-–—&]\s|\s(?:{'|'.join(ANDS)})\s")
"""Where a sentence is cut between two records."""
_JOIN = re.compile(rf"[\s,;:]*(?:[-*•·]\s+|(?:{'|'.join(ANDS)})\s+)?")
_ONE = re.compile(r"(?:an?|eine?|une?|una)\s+", re.IGNORECASE)
_COUNTED = re.compile(r"\s*(?:[x×]\s+)?(?P<name>[^\W\d_](?:[^\d,;:()\n]|(?<=\w)\d)*)")
_LAST = re.compile(f"{SMALL_WORD.pattern}|{'|'.join(ANDS)}|each|je|po")
_MOST_WORDS = 6
_QUANTITIES = ("integer", "number", "date", "time")


class NumberedRecord(NamedTuple):
    """A part of a text that states the numbers of a record.

    Attributes:
        span: of the text.
        stated: what of it states the numbers, which are no other member's.
        name: what is counted there; None: it begins with no count.
        number: how many; 1 behind ``a``, where a number is missing.
    """

    span: Span
    stated: Span
    name: str | None = None
    number: int | None = None


def needed_numbers(item: Mapping[str, Any]) -> int:
    """How many numbers a record must have; 0 where it has members besides numbers and one string.

    Args:
        item: the schema of a record.
    """
    members = [
        (quantity_kind(member), is_plain_string(member), may_miss)
        for _, member, may_miss in leaf_members(item, item, nullable=True)
    ]
    numbers = [may_miss for kind, _, may_miss in members if kind in ("integer", "number")]
    strings = sum(is_string for _, is_string, _ in members)
    if strings != 1 or len(numbers) + 1 < len(item.get("properties", ())):
        return 0
    return len(numbers) - sum(numbers)


def required_quantities(item: Mapping[str, Any]) -> Counter[str]:
    """How many numbers, dates and times a record must have: ``number``, ``date``, ``time``.

    Args:
        item: the schema of a record.
    """
    kinds = [quantity_kind(member) for _, member, may_miss in leaf_members(item, item) if not may_miss]
    return Counter("number" if kind == "integer" else kind for kind in kinds if kind in _QUANTITIES)


def states_quantities(text: str, span: Span, wanted: Mapping[str, int]) -> bool:
    """Whether a part of a text states as many numbers, dates and times as a record must have, if it must have any."""
    stated = _places(text)
    return bool(wanted) and all(len(_within(span, stated[kind])) >= count for kind, count in wanted.items())


def quantified_pieces(text: str, span: Span, wanted: Mapping[str, int]) -> list[Span]:
    """The parts of a sentence that state all quantities of a record each, behind a word; itself, if that are fewer than two, or three with a number alone."""
    kind = next((one for one in ("number", "time", "date") if wanted.get(one)), None)
    places = _places(text)[kind] if kind is not None else []
    pieces = _pieces(text, span, places, ())
    enough = 3 if kind == "number" and sum(wanted.values()) == 1 else 2
    begins = {place[0] for place in places}
    is_record = all(
        states_quantities(text, piece, wanted) and _begin(text, piece) not in begins for piece in pieces
    )
    if not is_record or len(pieces) < enough:
        return [span]
    return [(_begin(text, piece), piece[1]) for piece in pieces]


def count_member(item: Mapping[str, Any]) -> str | None:
    """The pointer of the whole number that says how many of something a record is about, by its name; None: there is none."""
    for path, member, _ in leaf_members(item, item):
        if quantity_kind(member) == "integer" and COUNTS & {*name_words(path[-1])}:
            return member_pointer(path)
    return None


def numbered_records(
    text: str,
    parts: Iterable[Span],
    needed: int,
    beside: Iterable[str],
    *,
    counts: bool = True,
    used: Sequence[Span] = (),
) -> list[NumberedRecord]:
    """The parts of a text that state the numbers of records; none, if there are fewer than two, but for one with a count.

    Args:
        text: of a document.
        parts: its sentences and lines.
        needed: numbers of a record, at least one; a sentence of several parts need state as many in one of them.
        beside: names of members beside the list: a number beside one is no record's.
        counts: whether a record says how many of something there are.
        used: what other members have of the text; a record begins behind it, and has none of it unless it says what is counted.
    """
    names = list(beside)
    days = _all(find_quantities(text).dates)
    digits = _places(text)["number"]
    values: dict[Span, Any] = {**_numbers(text), **{place: number for number, place in number_words(text)}}
    if counts and needed == 1 and values:
        values |= {place: 1 for place in _single(text) if not meets(place, values)}
    places = sorted(values)
    found = list[NumberedRecord]()
    for part in parts:
        pieces = [
            piece
            for piece in _pieces(text, part, places, [*days, *used])
            if not any(is_named_beside(text, *one, name) for one in _within(piece, digits) for name in names)
        ]
        if all(len(_within(piece, places)) < needed for piece in pieces):
            pieces = _merged(pieces, places, needed)
        stated = [_within(piece, places) for piece in pieces]
        if any(len(one) >= needed for one in stated):
            read = [
                _record(text, piece, numbers, values, needed, counts, used)
                for piece, numbers in zip(pieces, stated, strict=True)
            ]
            found += [
                one
                for one, numbers in zip(read, stated, strict=True)
                if one.name is not None or (len(numbers) >= needed and not meets(one.span, used))
            ]
    return found if len(found) > 1 or any(one.name is not None for one in found) else []


def _pieces(text: str, part: Span, places: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The parts of a sentence with a number each, cut at its breaks, and without what others have of it before the number."""
    start, end = part
    pieces = list[Span]()
    for cut in [*(match.end() for match in BREAK.finditer(text, start, end)), end]:
        numbers = _within((start, cut), places)
        if numbers:
            first = numbers[0][0]
            colon = text.rfind(": ", start, first) + 1
            start = max([start, colon, *(one[1] for one in others if one[1] <= first)])
            pieces.append((start, cut))
            start = cut
    if pieces and start < end:  # what follows belongs to the last one
        pieces[-1] = pieces[-1][0], end
    return pieces


def _single(text: str) -> list[Span]:
    """The articles behind a break, which say that there is one of something: ``2 chairs and a table``."""
    articles = (_ONE.match(text, match.end()) for match in BREAK.finditer(text))
    return [(one.start(), one.end() - 1) for one in articles if one is not None]


def _merged(pieces: Sequence[Span], places: Sequence[Span], needed: int) -> list[Span]:
    """Neighbours put together until they have the numbers of a record: ``8 tyres, 72.00 apiece, 16 bolts, 1.25 apiece``."""
    merged, start = list[Span](), None
    for piece in pieces:
        start = piece[0] if start is None else start
        if len(_within((start, piece[1]), places)) >= needed:
            merged.append((start, piece[1]))
            start = None
    return merged


def _numbers(text: str) -> dict[Span, Any]:
    """The numbers of a text by their places, without the years of its days."""
    days = covered(text, _all(find_quantities(text).dates))
    places = ((place, number) for number, row in plain_numbers(text).items() for place in row)
    return {place: number for place, number in places if not days[place[0]]}


@lru_cache(maxsize=4)
def _places(text: str) -> Mapping[str, Sequence[Span]]:
    """Where numbers, dates and times of a text stand, in order."""
    found = find_quantities(text)
    return {"number": sorted(_numbers(text)), "date": _all(found.dates), "time": _all(found.times)}


def _all(quantities: Mapping[Any, Iterable[Span]]) -> list[Span]:
    return sorted({place for row in quantities.values() for place in row})


def _within(piece: Span, places: Sequence[Span]) -> Sequence[Span]:
    """Those of some places, in order, that lie in a part."""
    first = bisect_left(places, (piece[0], piece[0]))
    return [place for place in places[first : bisect_left(places, (piece[1],))] if place[1] <= piece[1]]


def meets(span: Span, others: Iterable[Span | None]) -> bool:
    """Whether a part of a text overlaps some of others."""
    return any(one is not None and one[0] < span[1] and span[0] < one[1] for one in others)


def _record(
    text: str,
    piece: Span,
    places: Sequence[Span],
    values: Mapping[Span, Any],
    needed: int,
    counts: bool,
    used: Sequence[Span],
) -> NumberedRecord:
    """A part, with what is counted in it: ``desk lamps`` of ``3 desk lamps at 24.50 each``."""
    first, last = places[0], places[-1]
    begin, end = _begin(text, piece), piece[1]
    counted_end = min([end, *(start for start, _ in used if start >= first[1])])
    one = _ONE.match(text, begin, end) if len(places) < needed else None
    name, number = None, values[first]
    if one is not None and one.end() <= first[0]:
        name, number = _counted(text, one.end(), counted_end), 1
    elif first[0] == begin or (counts and not BREAK.search(text, begin, first[0])):
        is_count = number == int(number) and not set(".,") & set(text[slice(*first)])
        name = _counted(text, first[1], counted_end) if is_count else None
    if name is None:
        return NumberedRecord((begin, end), (first[0], last[1]))
    counted = begin if one is not None else first[0]
    return NumberedRecord((begin, end), (counted, last[1]), name, int(number))


def _begin(text: str, piece: Span) -> int:
    """Where a part begins behind what joins it to the one before."""
    joined = _JOIN.match(text, *piece)
    return piece[0] if joined is None else joined.end()


def _counted(text: str, start: int, end: int) -> str | None:
    """The words behind a count, without those that join them to what follows."""
    counted = _COUNTED.match(text, start, end)
    words = [] if counted is None else counted["name"].rstrip(" .!?").split()
    while words and _LAST.fullmatch(words[-1]):
        words.pop()
    return " ".join(words) if 0 < len(words) <= _MOST_WORDS else None
