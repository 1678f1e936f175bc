"""``uniqueItems`` under ``not``: arrays in which two items are equal.

Where items have few values, one of these values comes twice: a ``contains`` for each. Elsewhere the core compares the items as
they are written (`constrained.grammars.ir.Mark`). A text without two equal items is then completed by one short value, written twice; this is
the *way* to the end that the grammar shows. What is shorter once two items are equal (the end, or any further items) has padding
before it, so that the shortest text of the grammar is always one that exists.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from constrained.grammars import ir
from constrained.grammars.json_schema.emit.different_values import DifferentValues, shortest_text
from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.resolve.negate import const_schema
from constrained.grammars.json_schema.resolve.validate import InstanceValidator
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import Conjunction, ContainsConstraint, ItemSchemas
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.json_schema.text.literals import equality_key
from constrained.grammars.json_schema.text.punctuation import ArraySigns, RepeatedSigns

MAX_VALUES = 64
"""Values of items of which each may be the one that comes twice."""
MAX_COUNTED = 64
"""Positions with schemas of their own, and required items, of an array whose items are compared."""


class RepeatedItemsLowering:
    """Lowers arrays with two equal items.

    Args:
        expansion: the schemas of the document.
        validator: judges values.
        different: finds a short value.
    """

    def __init__(
        self, expansion: DnfExpansion, validator: InstanceValidator, different: DifferentValues
    ) -> None:
        self.expansion = expansion
        self.validator = validator
        self.different = different

    def few_values(self, conjunctions: Iterable[Conjunction]) -> list[Any] | None:
        """The values of some conjunctions, each once; None if they are more than `MAX_VALUES`, or cannot be listed."""
        found: dict[Hashable, Any] = {}
        for conjunction in conjunctions:
            for disjunct in self.expansion.expand(conjunction):
                values = self._listed(disjunct)
                if values is None:
                    return None
                found.update((equality_key(value), value) for value in values)
                if len(found) > MAX_VALUES:
                    return None
        return list(found.values())

    def twice(self, within: SchemaNode, value: Any, place: str) -> ContainsConstraint:
        """That at least two items are this value.

        Args:
            within: a schema of the array.
            value: a JSON value.
            place: JSON Pointer of the keyword that asks for it.
        """
        node = const_schema(self.expansion.document, within, f"twice {value!r}", value)
        return ContainsConstraint(ItemSchemas(additional=node), 2, None, place)

    def _listed(self, disjunct: Conjunction) -> Sequence[Any] | None:
        constraints = self.expansion.constraints_of(disjunct)
        if constraints.enum_values is not None:
            return self.validator.listed(constraints)
        values: list[Any] = [None] if constraints.types & f.NULL else []
        values += [False, True] if constraints.types & f.BOOLEAN else []
        if constraints.types & f.INTEGER:
            low, high = constraints.bounds.integers()
            if low is None or high is None or high - low >= MAX_VALUES:
                return None
            values += range(low, high + 1)
        if constraints.types & ~(f.NULL | f.BOOLEAN | f.INTEGER):
            return None
        return [value for value in values if self.validator.satisfies_all(disjunct, value)]

    def short_texts(self, conjunctions: Sequence[Conjunction]) -> list[bytes] | None:
        """A text of a value of each conjunction; None where none is found."""
        texts = [self.different.texts(conjunction, 1) for conjunction in conjunctions]
        return [found[0] for found in texts] if all(texts) else None


def repeated_array_expr(
    items: Sequence[ir.Expr],
    texts: Sequence[bytes],
    low: int,
    signs: RepeatedSigns,
    plain: ArraySigns,
) -> ir.Expr:
    """Arrays of at least `low` items, two of which are equal.

    Args:
        items: the first items; all further ones are the last of these.
        texts: a text of each of them, without white space around it.
        low: minimum number of items.
        signs: what stands around and between items that are compared.
        plain: the same, once two are equal.
    """
    size, separator = (
        len(items) - 1,
        len(shortest_text(signs.comma.regex)) + len(shortest_text(signs.gap.regex)),
    )
    literals = [ir.Terminal(ir.literal(text)) for text in texts]
    last = max(size, low, 2)

    def item(i: int) -> ir.Expr:
        return items[min(i, size)]

    def next_item(i: int, then: ir.Expr) -> ir.Expr:
        return ir.sequence(ir.NEXT_DISTINCT, signs.gap, item(i), then)

    settled: list[ir.Expr] = [ir.EMPTY_LANGUAGE] * (
        last + 4
    )  # what follows so many items, two of which are equal
    for i in range(last + 3, 0, -1):
        if i >= max(size, low):
            settled[i] = ir.sequence(ir.loop(plain.next_item(item(i)), 0, None), plain.close)
        else:
            more = ir.sequence(plain.next_item(item(i)), settled[i + 1])
            settled[i] = ir.choice(plain.close, more) if i >= low else more

    def tail(i: int) -> ir.Expr:
        """What follows `i` different items, without further ones that differ."""
        places = [*range(i, max(i, size)), size, size]
        end = len(places) + i
        finish = (
            ir.sequence(signs.close, ir.AGAIN)
            if end >= low
            else ir.sequence(signs.comma, ir.AGAIN, signs.gap, item(end), settled[end + 1])
        )
        for place in reversed(places):
            finish = ir.sequence(signs.comma, ir.NEXT_DISTINCT, signs.gap, literals[min(place, size)], finish)
        padding = ir.loop(ir.PADDING, *[sum(separator + len(texts[place]) for place in places) + 1] * 2)
        again = ir.sequence(signs.comma, padding, ir.AGAIN, signs.gap, item(i), settled[i + 1])
        over = ir.sequence(signs.close, padding, ir.AGAIN) if i >= max(low, 2) else ir.EMPTY_LANGUAGE
        return ir.choice(finish, again, over)

    more = ir.sequence(signs.comma, next_item(last, ir.EPSILON))
    expr = ir.sequence(ir.loop(more, 0, None), tail(last))
    for i in range(last - 1, 0, -1):
        expr = ir.choice(ir.sequence(signs.comma, next_item(i, expr)), tail(i))
    return ir.sequence(signs.open, item(0), expr)
