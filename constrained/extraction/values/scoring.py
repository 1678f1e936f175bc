"""Scores of extracted values against those that a person wrote down: which fields are right."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from constrained.grammars.json_pointer import escape

Verdict: TypeAlias = Literal["right", "wrong", "missing", "invented"]


@dataclass(frozen=True, slots=True)
class FieldScore:
    """A field of one document.

    Attributes:
        pointer: JSON Pointer of the scalar. Items of an array have no number: a scalar item has the pointer of the
            array, and what is inside an item stands under ``*``, as in ``/lines/*/price``.
        expected: the scalar that is right; None if none is.
        found: the scalar that was extracted; None if none was.
        verdict: of `found`; ``wrong`` is another value, ``invented`` one where none is right.
    """

    pointer: str
    expected: Any
    found: Any
    verdict: Verdict


def score_fields(expected: Any, found: Any) -> list[FieldScore]:
    """Compares the scalars of two JSON values.

    Null and an absent member are the same, and so are an empty array or object. Strings are equal after Unicode
    normalization (NFC) and folding of white space; numbers by value. The order of arrays does not count: equal items
    belong together, of the others those that have the most fields in common, and the rest in pairs as far as they go.
    A scalar, an object and an array have no field in common: all of one is missing, all of the other invented.

    Args:
        expected: the right value.
        found: the extracted value; None if there is none.

    Returns:
        A score for each scalar of `expected`, and one for each invented scalar of `found`.
    """
    return list(_scores("", expected, found))


def _scores(pointer: str, expected: Any, found: Any) -> Iterator[FieldScore]:
    kind = _kind(expected)
    if kind != _kind(found):
        yield from (FieldScore(place, value, None, "missing") for place, value in _scalars(pointer, expected))
        yield from (FieldScore(place, None, value, "invented") for place, value in _scalars(pointer, found))
    elif kind == "object":
        for name in {**expected, **found}:
            yield from _scores(f"{pointer}/{escape(name)}", expected.get(name), found.get(name))
    elif kind == "array":
        for pair in _pairs(expected, found):
            yield from _scores(_item_pointer(pointer, pair[0] if pair[1] is None else pair[1]), *pair)
    elif kind == "scalar":
        right = _normal(expected) == _normal(found)
        yield FieldScore(pointer, expected, found, "right" if right else "wrong")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "scalar"


def _item_pointer(pointer: str, item: Any) -> str:
    return pointer if _kind(item) == "scalar" else f"{pointer}/*"


def _scalars(pointer: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _scalars(f"{pointer}/{escape(name)}", member)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(_item_pointer(pointer, item), item)
    elif value is not None:
        yield pointer, value


def _normal(value: Any) -> tuple[str, Any]:
    """What is the same for values that are equal; those of two values can be compared by order, too."""
    if isinstance(value, dict):
        members = ((name, _normal(member)) for name, member in value.items())
        return "object", tuple(sorted((name, member) for name, member in members if member[1] != ()))
    if isinstance(value, list):
        return "array", tuple(sorted(item for item in map(_normal, value) if item[1] != ()))
    if isinstance(value, str):
        return "string", " ".join(unicodedata.normalize("NFC", value).split())
    if value is None:
        return "null", ()
    return "boolean" if isinstance(value, bool) else "number", value


# ---------------------------------------------------------------- items of arrays


def _pairs(expected: Sequence[Any], found: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Items that belong together; None beside those that are left over."""
    for kind in ("scalar", "object", "array"):
        # Sorted, so that of several equally good pairings it is the same one in any order of the items.
        wanted = sorted((item for item in expected if _kind(item) == kind), key=_normal)
        there = sorted((item for item in found if _kind(item) == kind), key=_normal)
        by_value: dict[Any, list[Any]] = defaultdict(list)
        for item in there:
            by_value[_normal(item)].append(item)
        left = []
        for item in wanted:
            if same := by_value.get(_normal(item)):
                yield item, same.pop(0)
            else:
                left.append(item)
        rest = [item for items in by_value.values() for item in items]
        order = range(len(rest)) if kind == "scalar" else _best_pairing(left, rest)
        for i, item in enumerate(left):
            yield item, rest[order[i]] if i < len(order) and order[i] < len(rest) else None
        taken = set(order[: len(left)])
        yield from ((None, item) for j, item in enumerate(rest) if j not in taken)


def _best_pairing(expected: Sequence[Any], found: Sequence[Any]) -> list[int]:
    """For each expected item a found one: the most right fields in all, and then the fewest other ones.

    Returns:
        Indices, no two of them the same; one beyond the end of `found` stands for none.
    """
    size = max(len(expected), len(found))
    costs = [[(0, 0)] * size for _ in range(size)]
    for i in range(size):
        for j in range(size):
            one = expected[i] if i < len(expected) else None
            other = found[j] if j < len(found) else None
            verdicts = [score.verdict for score in _scores("", one, other)]
            right = verdicts.count("right")
            costs[i][j] = (-right, len(verdicts) - right)
    weight = 1 + sum(cost[1] for row in costs for cost in row)
    return _cheapest_assignment([[weight * right + rest for right, rest in row] for row in costs])


def _cheapest_assignment(costs: Sequence[Sequence[int]]) -> list[int]:
    """The column of each row of a square matrix, so that the sum of the costs is the least (Kuhn 1955; Munkres 1957)."""
    size = len(costs)
    rows, columns = [0] * size, [0] * (size + 1)  # potentials: no cost is below the sum of its two
    owner = [-1] * (size + 1)  # the row of each column; the last column is where a new row begins
    for row in range(size):
        owner[size], column = row, size
        slack: list[float] = [float("inf")] * size
        before, done = [size] * size, [False] * (size + 1)
        while owner[column] != -1:
            done[column] = True
            here = owner[column]
            for j in range(size):
                if not done[j] and (reduced := costs[here][j] - rows[here] - columns[j]) < slack[j]:
                    slack[j], before[j] = reduced, column
            nearest = min((j for j in range(size) if not done[j]), key=lambda j: slack[j])
            step = int(slack[nearest])
            for j in range(size + 1):
                if done[j]:
                    rows[owner[j]] += step
                    columns[j] -= step
                elif j < size:
                    slack[j] -= step
            column = nearest
        while column != size:
            owner[column] = owner[before[column]]
            column = before[column]
    return sorted(range(size), key=lambda j: owner[j])


# ---------------------------------------------------------------- sums


@dataclass(slots=True)
class FieldCounts:
    """How many of the scores of a field have which verdict."""

    right: int = 0
    wrong: int = 0
    missing: int = 0
    invented: int = 0

    @property
    def asked(self) -> int:
        """Scalars that are expected: right, wrong and missing ones."""
        return self.right + self.wrong + self.missing


@dataclass(slots=True)
class ExtractionScores:
    """Sums over documents.

    Attributes:
        fields: by pointer, in the order in which they came up.
        documents: how many were added.
        whole: how many of them have nothing that is wrong, missing or invented.
    """

    fields: dict[str, FieldCounts] = field(default_factory=dict)
    documents: int = 0
    whole: int = 0

    @property
    def total(self) -> FieldCounts:
        """The sum over the fields."""
        names = ("right", "wrong", "missing", "invented")
        return FieldCounts(*(sum(getattr(one, name) for one in self.fields.values()) for name in names))

    def add(self, scores: Iterable[FieldScore]) -> None:
        """Adds a document; `scores` are those of all its fields."""
        whole = True
        for score in scores:
            counts = self.fields.setdefault(score.pointer, FieldCounts())
            setattr(counts, score.verdict, getattr(counts, score.verdict) + 1)
            whole &= score.verdict == "right"
        self.documents += 1
        self.whole += whole
