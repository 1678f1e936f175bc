"""Numbers, dates and times of an object: which of those that the text states each of them has, if any.

A small model copies a date wrongly, writes one number into several members, and makes numbers up where a member may be left out. Here
each of them is a question behind the opening of an object, side by side with the others, and its options are what the text
states. What stands at one place goes to one member: of all such assignments the likeliest is taken. A member that may be left out
and gets nothing is left out; a required one is written by the model.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from constrained.decisions import Decision, Question
from constrained.decisions.decision import decided
from constrained.decisions.evidence import Evidence, option_tree
from constrained.decisions.naming import NAMING, is_named_beside, name_words, names_currency, names_money
from constrained.decisions.questions import (
    json_text,
    leaf_members,
    member_automaton,
    member_pointer,
    member_question,
)
from constrained.extraction.examples import accepts_text
from constrained.extraction.stated_numbers import Numbers, covered, plain_numbers, sure_times, wanted_numbers
from constrained.extraction.words_of_form import (
    NAMED_FORMS,
    named_form,
    word_places,
    words_of_form,
    words_of_named_form,
)
from constrained.grammars.json_schema.view import without_null
from constrained.grammars.text.quantities import (
    Quantities,
    currencies,
    find_quantities,
    is_priced,
    number_words,
)
from constrained.spec.scores import log_sum_exp

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.sampling import Randomness
    from constrained.vocabulary import Vocabulary

Kind = Literal[
    "date", "time", "date-time", "word", "currency", "email", "phone", "postcode", "integer", "number"
]
Place = tuple[int, int]

LEAST: Mapping[str, float] = {
    **dict.fromkeys(("date", "time", "date-time", "word", "currency", "email", "phone", "postcode"), -10.0),
    **dict.fromkeys(("integer", "number"), -7.0),
}
"""Log-probability that a stated value has at least in a member that gets it, in nats; a date, a time or a word has more tokens, and more spellings."""
LEAST_OPTIONAL, LEAST_NEEDED = -4.5, -20.0
"""The same of a number that may be left out, and of all else that may not: a model that writes a date which the text does not state makes it up."""
CONFIDENT = 0.5
"""Probability of a digit that begins nothing stated, from which on the model has a number of its own in mind."""
MOST_NODES = 1024
"""Tokens of all spellings in the pass over a prompt."""
_REQUIRED = -1e3
_NEVER = -1e6
_KEYWORDS = frozenset({"type", "title", "description", "default"})
_BOUNDS = frozenset({"minimum", "exclusiveMinimum"})
_FORMS = frozenset({"format", "pattern", "minLength", "maxLength", "x-content"})
_APART = 12
"""Characters between a day and its time."""
_BEGINS = frozenset(
    "issued start starts started begin begins from in arrival opened placed ordered born".split()  # noqa: SIM905
)
_ENDS = frozenset(
    "due end ends ended until till out expires expiry deadline closed died returned".split()  # noqa: SIM905
)
"""Words in names of dates of which one comes before the other."""
_ISO_DATE = re.compile(r'"\d{4}-\d{2}-\d{2}')
_DATE_FORM = re.compile(r"\byyyy-mm-dd\b(?!.*\bhh)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Stated:
    """A value that a text states, as an option of a member.

    Attributes:
        text: its JSON text.
        spellings: indices of the options that write it.
        spans: where it stands.
        places: numbers of these places; readings that overlap are one place.
        is_named: whether a word of the member's name stands beside one of them, or a currency where that means money.
    """

    text: str
    spellings: tuple[int, ...]
    spans: Sequence[Place]
    places: frozenset[int]
    is_named: bool


class StatedMember(NamedTuple):
    """A member that is a quantity, with what a text states for it.

    Attributes:
        pointer: JSON Pointer of the member.
        is_needed: whether a value must have it.
        options: the JSON text of each value, where it stands, and how well it goes with the member, in nats.
    """

    pointer: str
    is_needed: bool
    options: Sequence[tuple[str, Sequence[Place], float]]


@dataclass(frozen=True)
class QuantityQuestions:
    """The questions about the numbers and dates of one text.

    Attributes:
        questions: of each member for which the text states something; `ABSENT` is the last option.
        stated: the values of each of them.
        least: see `LEAST`, of each of them.
        optional: pointers of members that may be left out.
        unstated: those of them for which the text states nothing.
        vocabulary: of the model.
        text: of the document.
    """

    questions: Sequence[Question]
    stated: Sequence[Sequence[Stated]]
    least: Sequence[float]
    optional: frozenset[str]
    unstated: Sequence[str]
    vocabulary: Vocabulary
    text: str

    def decide(
        self, evidence: Sequence[Evidence], temperature: float, randomness: Randomness
    ) -> dict[str, Decision]:
        """The decisions by the pointers of their members, without required ones that nothing stated fits.

        Args:
            evidence: for each question.
            temperature: of draws among what is left to a member by the others; 0: greedy.
            randomness: for draws.
        """
        rows = [self._scores(index, one) for index, one in enumerate(evidence)]
        asked = [
            index
            for index, row in enumerate(rows)
            if not self._means_another(index, evidence[index])
            and (self.questions[index].pointer in self.optional or row[:-1].max() > row[-1])
        ]
        scores = [rows[index] for index in asked]
        places = self._assigned(asked, scores)
        found = {}
        for index, row, mine in zip(asked, scores, places, strict=True):
            taken = {place for place in places if place is not None and place != mine}
            for number, one in enumerate(self.stated[index]):
                if one.places <= taken:
                    row[number] = -math.inf
            question = self.questions[index]
            optional = question.pointer in self.optional
            if optional or row[:-1].max() > row[-1]:
                left = row if optional else row[:-1]
                found[question.pointer] = self._decision(
                    index, evidence[index], left, temperature, randomness
                )
        return found | _in_order(found)

    def members(self, evidence: Sequence[Evidence]) -> list[StatedMember]:
        """How well each of the values that the text states goes with each member, dates and times beside numbers.

        Args:
            evidence: for each question.
        """
        return [
            StatedMember(
                question.pointer,
                question.pointer not in self.optional,
                [
                    (one.text, one.spans, float(score) + max(0.0, LEAST["number"] - self.least[index]))
                    for one, score in zip(stated, self._scores(index, evidence[index]), strict=False)
                ],
            )
            for index, (question, stated) in enumerate(zip(self.questions, self.stated, strict=True))
        ]

    def written(self, decisions: Mapping[str, Decision]) -> list[str]:
        """The decided values as the text may have written them, and as it has: ``two`` of ``two pizzas``."""
        found = list[str]()
        for question, row in zip(self.questions, self.stated, strict=True):
            decision = decisions.get(question.pointer)
            for one in row if decision is not None else ():
                if decision is not None and decision.text == one.text:
                    found += (question.options[spelling].text.strip('"') for spelling in one.spellings)
                    found += (self.text[slice(*span)] for span in one.spans)
        return list(dict.fromkeys(found))

    def _means_another(self, index: int, evidence: Evidence) -> bool:
        """Whether the model would write a number that the text does not state; a date of its own is made up."""
        if self.questions[index].options[0].text.startswith('"'):
            return False
        begins = self.vocabulary.tokens[evidence.likeliest].lstrip(b' "')[:1]
        return evidence.elsewhere >= CONFIDENT and begins.isdigit()

    def _scores(self, index: int, evidence: Evidence) -> NDArray[np.float64]:
        """Log-probabilities of the stated values, more of those beside a word of the member's name, and what a value has to have at least."""
        texts = evidence.totals
        rows = [log_sum_exp(texts[list(one.spellings)]) + NAMING * one.is_named for one in self.stated[index]]
        return np.array([*rows, self.least[index]])

    def _assigned(self, asked: Sequence[int], scores: Sequence[NDArray[np.float64]]) -> list[int | None]:
        """The place that each member asked has in the likeliest assignment; a required one has one if there are enough."""
        count = 1 + max((place for row in self.stated for one in row for place in one.places), default=-1)
        table = np.full((len(asked), count + len(asked)), _NEVER)
        for member, (index, row) in enumerate(zip(asked, scores, strict=True)):
            for score, one in zip(row, self.stated[index], strict=False):
                for place in one.places:
                    table[member, place] = max(table[member, place], score)
            optional = self.questions[index].pointer in self.optional
            table[member, count + member] = row[-1] if optional else _REQUIRED
        return [column if column < count else None for column in assignment(table)]

    def _decision(
        self,
        index: int,
        evidence: Evidence,
        scores: NDArray[np.float64],
        temperature: float,
        randomness: Randomness,
    ) -> Decision:
        """The decision about a member, whose options are the values and not their spellings."""
        question, stated = self.questions[index], self.stated[index]
        options = [replace(question.options[one.spellings[0]], text=one.text) for one in stated]
        shares = [log_sum_exp(evidence.logprobs[list(one.spellings)]) for one in stated]
        if len(scores) > len(options):
            options.append(question.options[-1])
            shares.append(float(evidence.logprobs[-1]))
        values = replace(question, options=tuple(options))
        reading = replace(evidence, logprobs=np.array(shares))
        return decided(values, reading, scores, temperature, randomness)


def _in_order(decisions: Mapping[str, Decision]) -> dict[str, Decision]:
    """Dates of members that begin and end something, the other way round where they end before they begin: ``issued`` and ``due``.

    Their probabilities are the model's own.
    """
    dates = {pointer: one for pointer, one in decisions.items() if _ISO_DATE.match(one.text)}
    for begin, end in permutations(dates, 2):
        around, _, name = begin.rpartition("/")
        is_pair = end.startswith(f"{around}/") and not _BEGINS.isdisjoint(name_words(name))
        if is_pair and not _ENDS.isdisjoint(name_words(end[len(around) + 1 :])):
            first, last = dates[begin], dates[end]
            if first.text > last.text and first.value in last.unadjusted and last.value in first.unadjusted:
                dates[begin], dates[end] = _with_value_of(first, last), _with_value_of(last, first)
    return dates


def _with_value_of(decision: Decision, other: Decision) -> Decision:
    return replace(decision, value=other.value, text=other.text, probabilities=decision.unadjusted)


def quantity_questions(
    constraint: Constraint,
    vocabulary: Vocabulary,
    text: str,
    said: str = "",
    closed: Collection[str] = (),
) -> QuantityQuestions | None:
    """The questions about a text; None where no member is a plain number or date, or the text states too many.

    Args:
        constraint: of the values.
        vocabulary: of the model.
        text: of the document, as the model reads it.
        said: what else the prompt says about it: a date there may be what the text counts from, as "tomorrow" does.
        closed: pointers of members that are decided among few values: a pattern may have as few.
    """
    schema = constraint.enforced_schema if constraint.is_json else None
    members = [
        (path, member, kind, optional)
        for path, member, optional in leaf_members(schema, nullable=True)
        if (kind := _kind(path[-1] if path else "", member)) is not None
        and member_pointer(path) not in closed
    ]
    if not members:
        return None
    found = find_quantities(text)
    plain = plain_numbers(text)
    kinds = {kind for _, _, kind, _ in members}
    values: dict[str, Mapping[Any, Sequence[Place]]] = {
        "date": found.dates,
        "time": sure_times(text, found),
        "date-time": _datetimes(found) if "date-time" in kinds else {},
        "word": {},
        "currency": _currencies(text) if "currency" in kinds else {},
        # Where none is asked for, no number is a part of one.
        **{form: words_of_named_form(form, text) for form in NAMED_FORMS if form in kinds},
        "integer": plain,
        "number": plain,
    }
    if len(plain) + len(found.dates) + len(values["time"]) > MOST_NODES:
        return None
    days = covered(text, (place for row in found.dates.values() for place in row))
    words = [(number, place) for number, place in number_words(text) if not days[place[0]]]
    may_be_known = {
        "date": bool(find_quantities(said).dates),
        "date-time": bool(find_quantities(said).dates),
        "integer": any(number > 1 for number, _ in words),
    }
    places = [place for one in values.values() for row in one.values() for place in row]
    words_at: Sequence[Sequence[Place]] = ()
    if kinds & {"date-time", "word"}:
        words_at = word_places(text)
    options = [
        _options(
            constraint, vocabulary, schema, path, member, kind, text, values[kind], words, words_at, optional
        )
        for path, member, kind, optional in members
    ]
    places += [place for one in options if one is not None for row in one.places.values() for place in row]
    numbers = _place_numbers([*places, *(place for _, place in words)])
    questions, stated, least, optional_ones, unstated = [], [], [], set(), []
    for (path, _, kind, optional), one in zip(members, options, strict=True):
        if one is None:
            continue
        pointer, mine, spelled = member_pointer(path), one.places, one.spelled
        question = member_question(
            constraint, [one for row in spelled.values() for one in row], vocabulary, path, True
        )
        if optional:
            optional_ones.add(pointer)
        if not spelled or question is None:
            if optional and not may_be_known.get(kind, False):
                unstated.append(pointer)
            continue
        at = {option.text: index for index, option in enumerate(question.options)}
        questions.append(question)
        stated.append(
            [
                Stated(
                    row[0],
                    tuple(at[one] for one in row),
                    mine[value],
                    frozenset(numbers[place] for place in mine[value]),
                    (value in one.measured and not optional)
                    or any(
                        is_named_beside(text, *place, path[-1])
                        or (names_money(path[-1]) and is_priced(text, *place))
                        for place in mine[value]
                    ),
                )
                for value, row in spelled.items()
            ]
        )
        if kind in ("integer", "number"):
            least.append(LEAST_OPTIONAL if optional else LEAST[kind])
        else:
            least.append(LEAST[kind] if optional else LEAST_NEEDED)
    if len(option_tree(questions).tokens) > MOST_NODES:
        return None
    return QuantityQuestions(questions, stated, least, frozenset(optional_ones), unstated, vocabulary, text)


class _Options(NamedTuple):
    """The values of a text that a member may have: where each stands, its JSON texts, the one that is written first, and which are in its unit."""

    places: Mapping[Any, Sequence[Place]]
    spelled: Mapping[Any, Sequence[str]]
    measured: Collection[Any] = ()


def _options(
    constraint: Any,
    vocabulary: Vocabulary,
    schema: Any,
    path: Sequence[str],
    member: Any,
    kind: Kind,
    text: str,
    values: Mapping[Any, Sequence[Place]],
    words: Sequence[tuple[int, Place]],
    words_at: Sequence[Sequence[Place]],
    optional: bool,
) -> _Options | None:
    """What a member may have of a text; None: what has its form says too little.

    Args:
        constraint: of the values.
        vocabulary: of the model.
        schema: of the values.
        path: of the member.
        member: its schema.
        kind: its kind.
        text: of the document.
        values: those of its kind.
        words: of numbers.
        words_at: of `word_places`.
        optional: whether the member may be left out.
    """
    automaton = member_automaton(constraint, member, schema, vocabulary)
    if automaton is None:
        return _Options({}, {})
    if kind in ("integer", "number"):
        return _number_options(automaton, text, values, words, path[-1], member, optional)
    if kind not in ("date-time", "word"):
        return _Options(values, _spelled(automaton, text, values))
    found = words_of_form(text, words_at, lambda word: accepts_text(automaton, json_text(word)))
    if found is None:
        return _Options(values, _spelled(automaton, text, values)) if values else None
    taken = covered(text, (place for row in found.values() for place in row))
    values = {one: [place for place in row if not taken[place[0]]] for one, row in values.items()}
    values = {one: row for one, row in values.items() if row}
    spelled = _spelled(automaton, text, values) | {word: [json_text(word)] for word in found}
    return _Options({**values, **found}, spelled)


def _number_options(
    automaton: Any,
    text: str,
    numbers: Numbers,
    words: Sequence[tuple[int, Place]],
    name: str,
    member: Any,
    optional: bool,
) -> _Options:
    """The numbers that a member may have, see `_options`."""
    kept, converted = wanted_numbers(text, numbers, words, name, member, is_needed=not optional)
    values: dict[Any, Sequence[Place]] = {**kept}
    spelled = _spelled(automaton, text, values)
    for value, row in converted.items():
        places = [one.place for one in row]
        texts = _spelled(automaton, text, {value: places}).get(value)
        if texts is not None:
            written = (format(one.written.normalize(), "f") for one in row if one.written not in kept)
            spelled.setdefault(value, list(dict.fromkeys([texts[0], *written])))
            values[value] = [*values.get(value, ()), *places]
    measured = [value for value, row in converted.items() if any(one.is_measured for one in row)]
    return _Options(values, spelled, measured)


def _kind(name: str, member: Any) -> Kind | None:
    """The kind of a member, see `quantity_kind`; of any string what its name says."""
    plain = without_null(member)
    if plain.get("type") == "string" and not {"enum", "const", "format", "pattern"} & set(plain):
        named = "currency" if names_currency(name) else named_form(name)
        if named is not None:
            return named
    return quantity_kind(plain)


def _currencies(text: str) -> dict[str, list[Place]]:
    """The currencies of a text, by their codes and as it writes them."""
    found: dict[str, list[Place]] = {}
    for code, place in currencies(text):
        for written in dict.fromkeys([code, text[slice(*place)]]):
            found.setdefault(written, []).append(place)
    return found


def quantity_kind(schema: Any) -> Kind | None:
    """The kind of a member, if it is one: of a number or a date that the schema does not bound from above: a share or a mark is hardly what a text states.

    A ``word`` is a string of a form that few words have: of a format, such as an address, or of a pattern, such as a code.
    """
    if not isinstance(schema, Mapping):
        return None
    kind, keywords = schema.get("type"), set(schema) - _KEYWORDS
    if kind in ("integer", "number") and keywords <= _BOUNDS:
        return "integer" if kind == "integer" else "number"
    if kind == "string" and keywords <= {"format", "x-content"}:
        if is_described_date(schema):
            return "date"
        dates: tuple[Kind, ...] = ("date", "time")
        found = next((one for one in dates if schema.get("format") == one), None)
        if found is not None:
            return found
    if kind == "string" and keywords <= _FORMS and keywords & {"format", "pattern"}:
        return "date-time" if schema.get("format") == "date-time" else "word"
    return None


def is_described_date(schema: Mapping[str, Any]) -> bool:
    """Whether a string without bounds is a date by its description, as tools have them: ``in the format YYYY-MM-DD``."""
    described = schema.get("description")
    plain = schema.get("type") == "string" and not set(schema) - _KEYWORDS
    return plain and isinstance(described, str) and _DATE_FORM.search(described) is not None


def _datetimes(found: Quantities) -> dict[dt.datetime, list[Place]]:
    """The days of a text with the time beside each, or midnight."""
    times = [(place, time) for time, places in found.times.items() for place in places]
    values: dict[dt.datetime, list[Place]] = {}
    for day, places in found.dates.items():
        for start, end in places:
            near = [(max(one - end, start - other), time, (one, other)) for (one, other), time in times]
            near = [one for one in near if 0 <= one[0] <= _APART]
            _, time, span = min(near, key=lambda one: one[0], default=(0, dt.time(), (start, end)))
            place = min(start, span[0]), max(end, span[1])
            values.setdefault(dt.datetime.combine(day, time), []).append(place)
    return values


def _place_numbers(places: Iterable[Place]) -> dict[Place, int]:
    """The same number for all places that overlap."""
    numbers: dict[Place, int] = {}
    count, last = -1, 0
    for place in sorted(set(places)):
        count += place[0] >= last
        numbers[place] = count
        last = max(last, place[1])
    return numbers


def _spelled(automaton: Any, text: str, values: Mapping[Any, Sequence[Place]]) -> dict[Any, list[str]]:
    """The JSON texts of each value that a member allows; first as JSON writes it, then as the text does."""
    found = {}
    for value, places in values.items():
        written = [text[start:end] for start, end in places]
        if isinstance(value, dt.date | dt.time):
            # As the text writes it, it says what the model means, also where the member has to have another form.
            plains, written = (
                [value.isoformat(), f"{value.isoformat()}Z"],
                [json_text(one) for one in written],
            )
            plains = [json_text(one) for one in plains[: 1 + isinstance(value, dt.time | dt.datetime)]]
        elif isinstance(value, str):
            plains, written = [json_text(value)], []
        else:
            plains = [format(value.normalize(), "f")]
            written = [one for one in written if accepts_text(automaton, one)]
        plain = next((one for one in plains if accepts_text(automaton, one)), None)
        if plain is not None:
            found[value] = list(dict.fromkeys([plain, *written]))
    return found


def assignment(scores: NDArray[np.float64]) -> list[int]:
    """A different column for each row, so that the sum of the scores is largest.

    Shortest augmenting paths (Kuhn 1955, Munkres 1957; Jonker and Volgenant 1987): time is O(n^2 m).

    Args:
        scores: float64 [n, m], n <= m, finite.
    """
    count, width = scores.shape
    rows, columns = np.zeros(count + 1), np.zeros(width + 1)
    # Of a column: its row, from 1. Column 0 is where a path begins.
    owner = np.zeros(width + 1, dtype=np.intp)
    for row in range(1, count + 1):
        owner[0], at = row, 0
        least = np.full(width + 1, np.inf)
        back = np.zeros(width + 1, dtype=np.intp)
        done = np.zeros(width + 1, dtype=bool)
        while owner[at]:
            done[at] = True
            reduced = -scores[owner[at] - 1] - rows[owner[at]] - columns[1:]
            better = ~done[1:] & (reduced < least[1:])
            least[1:][better], back[1:][better] = reduced[better], at
            free = np.where(done, np.inf, least)
            free[0] = np.inf
            following = int(np.argmin(free))
            step = free[following]
            rows[owner[done]] += step
            columns[done] -= step
            least[~done] -= step
            at = following
        while at:
            owner[at] = owner[back[at]]
            at = back[at]
    found = [0] * count
    for column in range(1, width + 1):
        if owner[column]:
            found[owner[column] - 1] = column - 1
    return found
