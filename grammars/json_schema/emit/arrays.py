"""Arrays: from constraints to the expression of everything between the brackets.

``contains`` is lowered in `constrained.grammars.json_schema.emit.contains`, ``uniqueItems`` in `constrained.grammars.json_schema.emit.unique_items`, its
negation in `constrained.grammars.json_schema.emit.repeated_items`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from constrained.grammars import ir
from constrained.grammars.json_schema.emit.contains import contains_array_expr, match_may_repeat
from constrained.grammars.json_schema.emit.diagnostics import Diagnostics
from constrained.grammars.json_schema.emit.repeated_items import (
    MAX_COUNTED,
    MAX_VALUES,
    RepeatedItemsLowering,
    repeated_array_expr,
)
from constrained.grammars.json_schema.emit.unique_items import UniqueItemsLowering
from constrained.grammars.json_schema.source.constraints import Conjunction, TypeConstraints
from constrained.grammars.json_schema.text.punctuation import ArraySigns, JsonPunctuation

_MAX_COMPARED = 32
"""Most earlier items whose schemas are compared with those of one that is required."""


class ItemsAreCompared(Exception):
    """The items of an array are compared as they are written (`ir.Mark`), and objects so far may have a name twice.

    The last member of a name counts, so an item that differs could become equal to another one again.
    """


class ArrayLowering:
    """Lowers the arrays of one document.

    Args:
        conjunction_expr: the expression of the values of a conjunction.
        known_empty: whether a conjunction is proved to have no values.
        unique_items: lowers arrays with ``uniqueItems``.
        repeated_items: lowers arrays with two equal items.
        diagnostics: receives what goes wrong.
        punctuation: terminals of the punctuation.
        may_compare: no object has a name twice; where items are compared otherwise, `ItemsAreCompared` is raised.
        max_items: bound on the items of arrays that have no bound.
    """

    def __init__(
        self,
        conjunction_expr: Callable[[Conjunction], ir.Expr],
        known_empty: Callable[[Conjunction], bool],
        unique_items: UniqueItemsLowering,
        repeated_items: RepeatedItemsLowering,
        diagnostics: Diagnostics,
        punctuation: JsonPunctuation,
        *,
        may_compare: bool,
        max_items: int | None = None,
    ) -> None:
        self.conjunction_expr = conjunction_expr
        self.known_empty = known_empty
        self.unique_items = unique_items
        self.repeated_items = repeated_items
        self.diagnostics = diagnostics
        self.punctuation = punctuation
        self.may_compare = may_compare
        self.max_items = max_items

    def compared_items(self) -> ArraySigns:
        """The signs of an array whose items are compared."""
        assert self.punctuation.distinct is not None, "markup refuses uniqueItems"
        self._check_names()
        return self.punctuation.distinct

    def _check_names(self) -> None:
        if not self.may_compare:
            raise ItemsAreCompared

    def array(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The arrays of a disjunct."""
        constraints = self._bounded(constraints)
        if constraints.max_items is not None and constraints.min_items > constraints.max_items:
            self.diagnostics.conflict(
                disjunct,
                f"at least {constraints.min_items} and at most {constraints.max_items} items are required",
            )
            return ir.EMPTY_LANGUAGE
        if constraints.repeated_items:
            return self._repeated_array(disjunct, constraints)
        unique = constraints.unique_items and (constraints.max_items is None or constraints.max_items > 1)
        if constraints.contains_constraints:
            signs = self.compared_items() if unique else self.punctuation.array

            def next_required(conjunction: Conjunction, earlier: int) -> ir.Expr:
                item = self.conjunction_expr(conjunction)
                return self.unique_items.next_required(disjunct, signs, conjunction, item, earlier)

            expr = contains_array_expr(
                constraints,
                self.conjunction_expr,
                self.known_empty,
                signs,
                self.punctuation.empty_array,
                next_required=next_required if unique else None,
            )
            if expr is ir.EMPTY_LANGUAGE:
                self.diagnostics.conflict(disjunct, "no array satisfies the counts of contains")
            elif unique and match_may_repeat(constraints, self.known_empty):
                self.diagnostics.note_unique_unsupported(
                    disjunct, "next to what an item has to violate by its position"
                )
            return expr
        size = max((len(items.prefix) for items in constraints.items), default=0)
        if constraints.max_items is not None:
            size = min(size, constraints.max_items)

        def schemas_at(index: int) -> Conjunction:
            return tuple(
                dict.fromkeys(node for items in constraints.items for node in items.schemas_at(index))
            )

        def next_item(index: int, item: ir.Expr) -> ir.Expr:
            conjunction = schemas_at(index)
            earlier = min(index, size)
            if earlier <= _MAX_COMPARED:
                both = (tuple(dict.fromkeys((*schemas_at(i), *conjunction))) for i in range(earlier))
                earlier = sum(not self.known_empty(one) for one in both)
            earlier += max(0, constraints.min_items - 1 - size) if index == size else 0
            return self.unique_items.next_required(disjunct, signs, conjunction, item, earlier)

        signs = self.punctuation.array
        if unique:
            different = self.unique_items.unique_array(disjunct, constraints, size)
            if different is not None:
                return different
            signs = self.compared_items()
        expr = array_expr(
            [self.conjunction_expr(schemas_at(i)) for i in range(size)],
            lambda: self.conjunction_expr(schemas_at(size)),
            constraints.min_items,
            constraints.max_items,
            signs,
            self.punctuation.empty_array,
            next_item if unique else None,
        )
        if expr is ir.EMPTY_LANGUAGE:
            self.diagnostics.conflict(
                disjunct, f"at least {constraints.min_items} items are required, and fewer are possible"
            )
        return expr

    def _bounded(self, constraints: TypeConstraints) -> TypeConstraints:
        """Arrays with the bound of `max_items`, where nothing else bounds or counts their items."""
        if self.max_items is None or constraints.max_items is not None:
            return constraints
        if constraints.contains_constraints or constraints.repeated_items:
            return constraints
        most = max(self.max_items, constraints.min_items, *(len(one.prefix) for one in constraints.items))
        return TypeConstraints(**{**vars(constraints), "max_items": most})

    def _repeated_array(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The arrays of a disjunct in which two items are equal."""
        most = constraints.max_items
        conjunctions: list[Conjunction] = []  # of the positions
        for i in range(max((len(items.prefix) for items in constraints.items), default=0) + 1):
            nodes = [node for items in constraints.items for node in items.schemas_at(i)]
            conjunctions.append(tuple(dict.fromkeys(nodes)))
            if self.known_empty(conjunctions[-1]):
                most = i if most is None else min(i, most)
                break
        if constraints.unique_items or (most is not None and most < 2):
            self.diagnostics.conflict(
                disjunct, "two items must be equal, and they must differ or are too few"
            )
            return ir.EMPTY_LANGUAGE
        conjunctions = conjunctions[:most]
        present = {**constraints.__dict__}
        place = present.pop("repeated_items")
        values = self.repeated_items.few_values(conjunctions)
        if values is not None:
            twice = [self._twice(disjunct, present, place, value) for value in values]
            expr = ir.choice(*twice) if twice else ir.EMPTY_LANGUAGE
            if expr is ir.EMPTY_LANGUAGE:
                self.diagnostics.conflict(disjunct, "no value can come twice among the items")
            return expr
        signs, reason = self.punctuation.repeated, ""
        if signs is None:
            reason = "in markup"
        elif most is not None or constraints.contains_constraints:
            reason = (
                f"where items have more than {MAX_VALUES} values, and are bounded in number or by contains"
            )
        elif max(len(conjunctions) - 1, constraints.min_items) > MAX_COUNTED:
            reason = f"with more than {MAX_COUNTED} positions or required items"
        texts = None if reason else self.repeated_items.short_texts(conjunctions)
        if signs is None or texts is None:
            reason = reason or "where no value is found that can come twice at the end"
            self.diagnostics.note_repeated_unsupported(place, reason)
            return self.array(disjunct, TypeConstraints(**present))
        self._check_names()
        items = [self.conjunction_expr(conjunction) for conjunction in conjunctions]
        return repeated_array_expr(items, texts, constraints.min_items, signs, self.punctuation.array)

    def _twice(self, disjunct: Conjunction, present: dict[str, Any], place: str, value: Any) -> ir.Expr:
        """The arrays in which a value comes twice."""
        wanted = self.repeated_items.twice(disjunct[0], value, place)
        contains = (*present.get("contains_constraints", ()), wanted)
        return self.array(disjunct, TypeConstraints(**{**present, "contains_constraints": contains}))


def array_expr(
    prefix: Sequence[ir.Expr],
    rest: Callable[[], ir.Expr],
    low: int,
    high: int | None,
    signs: ArraySigns,
    empty: ir.Expr,
    next_required: Callable[[int, ir.Expr], ir.Expr] | None = None,
) -> ir.Expr:
    """Arrays of the `prefix` items, then any number of `rest`, with `low` to `high` items in total (None: no bound).

    Args:
        prefix: the first items.
        rest: makes the others.
        low: least number of items.
        high: greatest number of items.
        signs: what stands around and between the items.
        empty: the array without items.
        next_required: makes a comma and the item after it from the position, where the item is required; those behind `prefix` have
            one position. None: as everywhere.
    """

    def following(index: int, item: ir.Expr) -> ir.Expr:
        return signs.next_item(item) if next_required is None or index >= low else next_required(index, item)

    prefix = prefix if high is None else prefix[:high]
    for i, item in enumerate(prefix):
        if item is ir.EMPTY_LANGUAGE:
            prefix, high = prefix[:i], i
            break
    size = len(prefix)
    if high is not None and high < low:
        return ir.EMPTY_LANGUAGE
    more = ir.EMPTY_LANGUAGE if high is not None and high <= size else rest()

    def repeat(count: int) -> ir.Expr:
        least, most = max(0, low - count), None if high is None else high - count
        free = signs.next_item(more)
        if least == 0 or next_required is None:
            return ir.sequence(ir.loop(free, least, most), signs.close)
        required = ir.loop(following(size, more), least, least)
        return ir.sequence(required, ir.loop(free, 0, None if most is None else most - least), signs.close)

    if size:
        tail = repeat(size)
        for i in range(size - 1, 0, -1):
            tail = ir.sequence(following(i, prefix[i]), tail)
            if i >= low:
                tail = ir.choice(signs.close, tail)
        full = ir.sequence(signs.open, prefix[0], tail)
    elif high == 0 or more is ir.EMPTY_LANGUAGE:
        full = ir.EMPTY_LANGUAGE
    else:
        full = ir.sequence(signs.open, more, repeat(1))
    return ir.choice(empty, full) if low == 0 else full
