"""Where the values of an extraction stand in the document.

Each scalar has candidate places: those of its text, else of its text in other case or white space, else those of an equal
number or date. Among several places, those are chosen that keep values which follow each other close together.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from constrained.constraint import ThinkingResult
from constrained.constraint.json_text import read_value
from constrained.errors import RejectedValue
from constrained.grammars.json_pointer import escape
from constrained.grammars.text.quantities import Quantities, find_quantities
from constrained.grammars.text.substring import simple_fold

if TYPE_CHECKING:
    from constrained.decoding.output import Output

How = Literal["exact", "case", "space", "normalised", "none"]
Place = tuple[int, int]

_BACKWARD = 3
"""Distance to a place before that of the value before, as a multiple: texts mostly state things in order."""
_MANY = 200
"""Places of one value; of more only those near to rarer values are considered."""
_NEARBY = 40
"""Characters between a date and the time that belongs to it."""


@dataclass(frozen=True, slots=True)
class SpanMatch:
    """Where a value stands in the document.

    Attributes:
        start, end: characters of the document (code points, not bytes); None without a source.
        how: ``"exact"``: the same text; ``"case"``: apart from case; ``"space"``: apart from white space (and case);
            ``"normalised"``: an equal number, date or time, or other quotes or dashes; ``"none"``: it does not stand there.
    """

    start: int | None
    end: int | None
    how: How

    def text(self, document: str) -> str:
        """The characters of the document, empty without a source."""
        return "" if self.start is None else document[self.start : self.end]

    def moved(self, distance: int) -> SpanMatch:
        """The match in a longer document, in which this one begins behind `distance` characters."""
        if self.start is None or self.end is None:
            return self
        return SpanMatch(self.start + distance, self.end + distance, self.how)


NO_SPAN = SpanMatch(None, None, "none")


def find_spans(document: str, value: Any) -> dict[str, SpanMatch]:
    """The place of every scalar of a JSON value; deterministic, and about linear in the length of the document.

    Args:
        document: the text.
        value: as `json.loads` gives it; numbers may be `Decimal`.

    Returns:
        By JSON Pointer (RFC 6901; ``""`` is the whole value), in the order of the value. null, true and false have no
        place.
    """
    finder = _Finder(document)
    scalars = list(iterate_scalars(value))
    found = [finder.places(scalar) for _, scalar in scalars]
    chosen = iter(choose_places([places for _, places in found if places]))
    spans = {}
    for (pointer, _), (how, places) in zip(scalars, found, strict=True):
        spans[pointer] = SpanMatch(*next(chosen), how) if places else NO_SPAN
    return spans


def json_value(text: str, output: Output[Any] | None) -> Any:
    """The value of a completion as JSON; numbers with a fraction are `Decimal` where a float would round them.

    A completion that is not JSON, after a marker or not, is the text itself.
    """
    constraint = None if output is None or output.automaton is None else output.automaton.constraint
    if output is not None and isinstance(output.value, ThinkingResult):
        text = text[len(output.value.thinking) :]
        marker = getattr(constraint, "marker", "")
        text = text.removeprefix(marker)
        constraint = getattr(constraint, "content", None)
    if constraint is not None and not constraint.is_json:
        return text
    try:
        return read_value(text)
    except RejectedValue:
        return text


def iterate_scalars(value: Any) -> Iterator[tuple[str, Any]]:
    """The scalars of a JSON value with their JSON Pointers, in order. Not recursive."""
    work: list[tuple[str, Any]] = [("", value)]
    while work:
        pointer, one = work.pop()
        if isinstance(one, Mapping):
            work += [(f"{pointer}/{escape(str(name))}", part) for name, part in reversed(list(one.items()))]
        elif isinstance(one, Sequence) and not isinstance(one, str):
            work += [(f"{pointer}/{i}", one[i]) for i in reversed(range(len(one)))]
        else:
            yield pointer, one


# ---------------------------------------------------------------- candidates


class _Finder:
    """The places of scalars in one document; what several scalars need is computed once."""

    def __init__(self, document: str) -> None:
        self.document = document
        self.known: dict[tuple[type, Any], tuple[How, list[Place]]] = {}
        self._folded: str | None = None
        self._spaced: tuple[str, list[int]] | None = None
        self._plain: str | None = None

    def places(self, scalar: Any) -> tuple[How, list[Place]]:
        """How a scalar stands in the document, and where, in ascending order."""
        if scalar is None or isinstance(scalar, bool):
            return "none", []
        key = (type(scalar), scalar)
        if key not in self.known:
            self.known[key] = self._text(scalar) if isinstance(scalar, str) else self._number(scalar)
        return self.known[key]

    def _text(self, text: str) -> tuple[How, list[Place]]:
        if not text:
            return "none", []
        places = _occurrences(self.document, text)
        if places:
            return "exact", places
        folded = _fold(text)
        places = _occurrences(self.folded, folded)
        if places:
            return "case", places
        words = folded.split()
        if words:
            spaced, offsets = self.spaced
            joined = " ".join(words)
            places = [(offsets[start], offsets[end - 1] + 1) for start, end in _occurrences(spaced, joined)]
            if places:
                return "space", places
        quantity = self._quantity(text)
        if quantity:
            return "normalised", quantity
        places = _occurrences(self.plain, folded.translate(_PLAIN))
        return ("normalised", places) if places else ("none", [])

    def _quantity(self, text: str) -> list[Place]:
        """The places of an equal number, date or time."""
        found = self.quantities
        stripped = text.strip()
        number = _decimal(stripped)
        if number is not None:
            return found.numbers.get(number, [])
        try:
            return found.dates.get(dt.date.fromisoformat(stripped), [])
        except ValueError:
            pass
        try:
            return found.times.get(dt.time.fromisoformat(_zoneless(stripped)), [])
        except ValueError:
            pass
        try:
            moment = dt.datetime.fromisoformat(_zoneless(stripped))
        except ValueError:
            return []
        return self._moment(moment)

    def _moment(self, moment: dt.datetime) -> list[Place]:
        """The dates of a moment with its time nearby; without a time where it is midnight."""
        times = self.quantities.times.get(moment.time(), [])
        starts = [start for start, _ in times]
        places = []
        for start, end in self.quantities.dates.get(moment.date(), []):
            at = bisect_left(starts, end)
            near = [times[i] for i in (at - 1, at) if 0 <= i < len(times)]
            near = [(a, b) for a, b in near if a - end <= _NEARBY and start - b <= _NEARBY]
            if near:
                time = min(near, key=lambda place: max(place[0] - end, start - place[1]))
                places.append((min(start, time[0]), max(end, time[1])))
            elif times or moment.time() == dt.time(0):
                places.append((start, end))
        return places

    def _number(self, number: Any) -> tuple[How, list[Place]]:
        value = _decimal(str(number))
        if value is None:
            return "none", []
        places = self.quantities.numbers.get(value) or self.quantities.scaled.get(value, [])
        same = [place for place in places if self.document[slice(*place)] == str(number)]
        if same:
            return "exact", same
        return ("normalised", places) if places else ("none", [])

    @property
    def quantities(self) -> Quantities:
        """Numbers, dates and times of the document."""
        return find_quantities(self.document)

    @property
    def folded(self) -> str:
        """The document in simple case folding: as many characters as before."""
        if self._folded is None:
            self._folded = _fold(self.document)
        return self._folded

    @property
    def plain(self) -> str:
        """As `folded`, with plain quotes and dashes."""
        if self._plain is None:
            self._plain = self.folded.translate(_PLAIN)
        return self._plain

    @property
    def spaced(self) -> tuple[str, list[int]]:
        """As `folded`, with one space for each run of white space; and the offset of each of its characters."""
        if self._spaced is None:
            parts: list[str] = []
            offsets: list[int] = []
            last = 0
            for run in re.finditer(r"\s+", self.folded):
                parts += (self.folded[last : run.start()], " ")
                offsets += range(last, run.start() + 1)
                last = run.end()
            parts.append(self.folded[last:])
            offsets += range(last, len(self.folded))
            self._spaced = "".join(parts), offsets
        return self._spaced


_PLAIN = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u02bc\u00b4`"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u00ab\u00bb"), '"'),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-"),
}
"""Quotes and dashes that are written for each other."""


def _fold(text: str) -> str:
    return text.translate({ord(char): simple_fold(char) for char in set(text)})


def _occurrences(document: str, text: str) -> list[Place]:
    """Every occurrence; only those that are whole words, if there are any."""
    places = []
    at = document.find(text)
    while at >= 0:
        places.append((at, at + len(text)))
        at = document.find(text, at + 1)
    whole = [place for place in places if _is_whole(document, *place)]
    return whole or places


def _is_whole(document: str, start: int, end: int) -> bool:
    before = start > 0 and document[start].isalnum() and document[start - 1].isalnum()
    return not before and not (
        end < len(document) and document[end - 1].isalnum() and document[end].isalnum()
    )


def _decimal(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() and abs(value.adjusted()) < 1000 else None


def _zoneless(text: str) -> str:
    return re.sub(r"(?<=\d)(?:Z|[+-]\d\d:?\d\d)$", "", text, flags=re.IGNORECASE)


# ---------------------------------------------------------------- the choice among them


def choose_places(candidates: Sequence[Sequence[Place]]) -> list[Place]:
    """One place for each value, so that consecutive values stand close together; the earliest of equals.

    A shortest path through the candidates (dynamic programming): forward distance counts once, backward distance
    `_BACKWARD` times. Linear in the number of candidates.

    Args:
        candidates: for each value its places, in ascending order, at least one.
    """
    candidates = _near_rare_ones(candidates)
    if not candidates:
        return []
    costs: list[float] = [0.0] * len(candidates[0])
    backs: list[list[int]] = []
    for before, here in pairwise(candidates):
        costs, back = _step([place[1] for place in before], costs, [place[0] for place in here])
        backs.append(back)
    at = min(range(len(costs)), key=lambda i: (costs[i], i))
    path = [at]
    for back in reversed(backs):
        at = back[at]
        path.append(at)
    return [places[i] for places, i in zip(candidates, reversed(path), strict=True)]


def _step(ends: list[int], costs: list[float], starts: list[int]) -> tuple[list[float], list[int]]:
    """The least cost of each start after the best end, and the index of that end; both ascending."""
    # From an end e to a start s: s - e if it follows, else _BACKWARD * (e - s).
    forward = list(range(len(ends)))
    for i in range(1, len(ends)):
        if costs[forward[i - 1]] - ends[forward[i - 1]] <= costs[i] - ends[i]:
            forward[i] = forward[i - 1]
    backward = list(range(len(ends)))
    for i in range(len(ends) - 2, -1, -1):
        if costs[i] + _BACKWARD * ends[i] > costs[backward[i + 1]] + _BACKWARD * ends[backward[i + 1]]:
            backward[i] = backward[i + 1]
    found: list[float] = []
    back: list[int] = []
    split = 0  # ends before this do not exceed the start
    for start in starts:
        while split < len(ends) and ends[split] <= start:
            split += 1
        options = []
        if split:
            options.append((costs[forward[split - 1]] + start - ends[forward[split - 1]], forward[split - 1]))
        if split < len(ends):
            options.append(
                (costs[backward[split]] + _BACKWARD * (ends[backward[split]] - start), backward[split])
            )
        cost, at = min(options)
        found.append(cost)
        back.append(at)
    return found, back


def _near_rare_ones(candidates: Sequence[Sequence[Place]]) -> list[Sequence[Place]]:
    """The candidates, where values have very many only those next to the places of values that have few."""
    if all(len(places) <= _MANY for places in candidates):
        return list(candidates)
    anchors = sorted({place[0] for places in candidates if len(places) <= _MANY for place in places}) or [0]
    anchors = anchors[:: math.ceil(len(anchors) / _MANY)]
    kept: list[Sequence[Place]] = []
    for places in candidates:
        if len(places) > _MANY:
            starts = [start for start, _ in places]
            near = {i + d for anchor in anchors for i in (bisect_left(starts, anchor),) for d in (-1, 0, 1)}
            places = [places[i] for i in sorted(near) if 0 <= i < len(places)]
        kept.append(places)
    return kept
