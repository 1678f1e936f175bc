"""Different values of a conjunction: what shows that enough of them exist where ``uniqueItems`` requires several items.

Candidates are guessed from the constraints, type by type, and `InstanceValidator` judges them. So each value that is found is
one; that too few are found proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from decimal import Context, Decimal
from itertools import chain, islice, product
from string import ascii_lowercase
from typing import Any

from constrained.grammars import ir
from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.resolve.validate import InstanceValidator
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import Conjunction, TypeConstraints
from constrained.grammars.json_schema.text.literals import equality_key, value_regex
from constrained.grammars.json_schema.text.punctuation import JsonPunctuation
from constrained.grammars.regex.analysis import children

_DEPTH = 4
"""Levels of objects and arrays in a candidate."""
_DISJUNCTS = 8
"""Disjuncts that candidates are guessed for."""
_SURPLUS = 4
"""Candidates that are judged, for each value that is needed; and as many more."""
_FILLED = 8
"""Most items and members that are filled in."""
_JUDGED = 10_000
"""Candidates that are judged, and conjunctions that are tried, for one document."""
_EXACT = Context(prec=10_000)
"""More digits than bounds and steps have together."""

_FORMATTED: tuple[Callable[[int], str], ...] = (
    lambda i: f"{2000 + i}-01-01",
    lambda i: f"{2000 + i}-01-01T00:00:00Z",
    lambda i: f"00:00:{i % 60:02}Z",
    lambda i: f"P{i}D",
    lambda i: f"{i:08x}-0000-4000-8000-000000000000",
    lambda i: f"a{i}@b.co",
    lambda i: f"http://a.b/{i}",
    lambda i: f"a{i}.co",
    lambda i: f"10.0.0.{i % 256}",
    lambda i: f"::{i:x}",
    lambda i: f"/{i}",
    lambda i: f"{i}",
    lambda i: f"{i}.0.0",
)
"""Strings of common formats, by number."""


class DifferentValues:
    """Finds different values of conjunctions, and their shortest texts.

    Args:
        expansion: the schemas of the document.
        validator: judges candidates.
        punctuation: terminals of the punctuation.
        excluded: substrings that strings must not contain.
        closed: objects have no members that are not declared.
    """

    def __init__(
        self,
        expansion: DnfExpansion,
        validator: InstanceValidator,
        punctuation: JsonPunctuation,
        excluded: Sequence[str] = (),
        *,
        closed: bool = False,
    ) -> None:
        self.expansion = expansion
        self.validator = validator
        self.punctuation = punctuation
        self.excluded = excluded
        self.closed = closed
        self._left = _JUDGED

    def texts(self, conjunction: Conjunction, count: int) -> list[bytes]:
        """ASCII texts of up to `count` different values, short ones first."""
        values = self._values(conjunction, count, _DEPTH)
        texts = (shortest_text(value_regex(value, self.punctuation)) for value in values)
        usable = [
            text
            for text in texts
            if text.isascii() and not any(part.encode() in text for part in self.excluded)
        ]
        return sorted(usable, key=len)[:count]

    def _values(self, conjunction: Conjunction, count: int, depth: int) -> list[Any]:
        found: dict[Hashable, Any] = {}
        if self._left == 0:
            return []
        self._left -= 1
        for disjunct in self.expansion.expand(conjunction)[:_DISJUNCTS]:
            candidates = self._candidates(self.expansion.constraints_of(disjunct), count, depth)
            for value in islice(candidates, _SURPLUS * (count + 1)):
                if len(found) == count or self._left == 0:
                    break
                self._left -= 1
                if self.validator.satisfies_all(disjunct, value):
                    found.setdefault(equality_key(value), value)
        return list(found.values())

    def _candidates(self, constraints: TypeConstraints, count: int, depth: int) -> Iterator[Any]:
        if constraints.enum_values is not None:
            yield from self.validator.listed(constraints)
            return
        types = constraints.types
        yield from [None] if types & f.NULL else []
        yield from [False, True] if types & f.BOOLEAN else []
        kinds: list[Iterator[Any]] = []
        if types & f.NUMBER:
            kinds.append(_numbers(constraints))
        if types & f.STRING:
            kinds.append(_strings(constraints, count))
        if types & f.ARRAY and depth:
            kinds.append(self._arrays(constraints, count, depth - 1))
        if types & f.OBJECT and depth:
            kinds.append(self._objects(constraints, count, depth - 1))
        for kind in kinds:  # in turn: none of them may use up what is judged
            yield from islice(kind, max(2, _SURPLUS * count // len(kinds)))

    def _arrays(self, constraints: TypeConstraints, count: int, depth: int) -> Iterator[list[Any]]:
        low = constraints.min_items
        high = min(_FILLED, _FILLED if constraints.max_items is None else constraints.max_items)
        for size in range(low, high + 1):
            wanted = size if constraints.unique_items else 1
            choices = [
                self._values(_schemas_at(constraints.items, i), max(count, wanted), depth)
                for i in range(size)
            ]
            if constraints.unique_items:  # each begins with another one
                choices = [
                    list[Any](chain(values[i:], values[:i])) if values else values
                    for i, values in enumerate(choices)
                ]
            yield from map(list, islice(product(*choices), count))

    def _objects(self, constraints: TypeConstraints, count: int, depth: int) -> Iterator[dict[str, Any]]:
        declared = dict.fromkeys(name for part in constraints.members for name in part.properties)
        open_names = [] if self.closed and declared else [*islice(_letters(1), max(count, _FILLED))]
        names = [*declared, *(name for name in constraints.required if name not in declared)]
        optional = [name for name in chain(names, open_names) if name not in constraints.required]
        values: dict[str, list[Any]] = {}

        def filled(members: Iterable[str]) -> Iterator[dict[str, Any]]:
            wanted = set(members)
            order = [name for name in chain(names, open_names) if name in wanted]
            for name in order:
                if name not in values:
                    values[name] = self._values(_schemas_at(constraints.members, name), count, depth)
            return (
                dict(zip(order, parts, strict=True)) for parts in product(*(values[name] for name in order))
            )

        least = [*constraints.required]
        while len(least) < min(constraints.min_properties, _FILLED) and len(least) < len(
            constraints.required
        ) + len(optional):
            least.append(optional[len(least) - len(constraints.required)])
        yield from islice(filled(least), _SURPLUS * count)
        for name in optional:
            if name not in least:
                yield from islice(filled([*least, name]), count)


def _schemas_at(parts: Iterable[Any], place: Any) -> Conjunction:
    return tuple(dict.fromkeys(node for part in parts for node in part.schemas_at(place)))


def _numbers(constraints: TypeConstraints) -> Iterator[Any]:
    """Whole multiples, from the bound that there is; then hundredths above the lower bound."""
    step = constraints.divisors[0] if constraints.divisors else Decimal(1)
    bounds = constraints.bounds
    start, sign = (
        (bounds.high, -1) if bounds.low is None and bounds.high is not None else (bounds.low or 0, 1)
    )
    (above, below), (times, parts) = Decimal(start).as_integer_ratio(), step.as_integer_ratio()
    first = above * parts // (below * times)
    multiples = (_EXACT.multiply(step, Decimal(first + sign * i)) for i in range(-1, 1000))
    hundredths = (_EXACT.add(Decimal(start), sign * Decimal(i) / 100) for i in range(1, 100))
    for number in chain(islice(multiples, 1000), hundredths):
        if constraints.bounds.contains_number(number):
            yield int(number) if number == number.to_integral_value() else number


def _strings(constraints: TypeConstraints, count: int) -> Iterator[str]:
    if constraints.patterns:
        for formatted in _FORMATTED:
            yield from filter(
                lambda text: all(pattern.matches(text) for pattern in constraints.patterns),
                map(formatted, range(1, count + 1)),
            )
    elif constraints.min_length == 0:
        yield ""
    letters = (
        letter
        for size in range(max(constraints.min_length, 1), max(constraints.min_length, 1) + 3)
        for letter in _letters(size)
    )
    yield from filter(
        lambda text: all(pattern.matches(text) for pattern in constraints.patterns), islice(letters, 1000)
    )


def _letters(size: int) -> Iterator[str]:
    """Texts of so many letters, the last one changing first."""
    return ("a" * (size - 2) + "".join(last) for last in product(ascii_lowercase, repeat=min(size, 2)))


def shortest_text(regex: ir.Regex) -> bytes:
    """The first of the shortest texts of `constrained.grammars.json_schema.text.literals.value_regex`."""
    if isinstance(regex, ir.Literal):
        return regex.data
    if isinstance(regex, ir.Chars):
        return chr(regex.ranges[0][0]).encode()
    parts = [shortest_text(part) for part in children(regex)]
    if isinstance(regex, ir.Concat):
        return b"".join(parts)
    if isinstance(regex, ir.Union):
        return min(parts, key=len)
    assert isinstance(regex, ir.Repeat)
    return parts[0] * regex.low
