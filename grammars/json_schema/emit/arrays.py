"""Arrays: from constraints to the expression of everything between the brackets.

``contains`` is lowered in `constrained.grammars.json_schema.emit.contains`. With ``uniqueItems``, items that are enumerated values, or
scalars whose texts differ whenever their values do (strings, and numbers without exponent), are entries of an interleave, which
counts what is left. All other items are written in an array with marks (`constrained.grammars.ir.Mark`), which knows no counts: at
most one of them may be required.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from constrained.grammars import ir
from constrained.grammars.json_schema.emit.contains import contains_array_expr
from constrained.grammars.json_schema.emit.context import Context, require_few_distinct
from constrained.grammars.json_schema.emit.scalars import ScalarLowering
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import (
    Conjunction,
    TypeConstraints,
    schemas_on,
    type_bit_of,
)
from constrained.grammars.json_schema.text import numbers
from constrained.grammars.json_schema.text.floats import few_digits
from constrained.grammars.json_schema.text.literals import equality_key, value_regex
from constrained.grammars.json_schema.text.punctuation import ArraySigns
from constrained.grammars.transform.interleave import interleave

_SCALAR = f.STRING | f.NUMBER


class ItemsAreCompared(Exception):
    """The items of an array are compared as they are written (`ir.Mark`), and objects so far may have a name twice.

    The last member of a name counts, so an item that differs could become equal to another one again.
    """


class ArrayLowering:
    """Lowers the arrays of one document.

    Args:
        context: the document.
        scalars: lowers the items that are scalars.
    """

    def __init__(self, context: Context, scalars: ScalarLowering) -> None:
        self.context = context
        self.scalars = scalars
        self.diagnostics = context.diagnostics
        self.punctuation = context.punctuation

    def compared_items(self) -> ArraySigns:
        """The signs of an array whose items are compared."""
        assert self.punctuation.distinct is not None, "markup refuses uniqueItems"
        options = self.context.options
        if options.ordered and not options.distinct_names:  # an object may have a name twice
            raise ItemsAreCompared
        return self.punctuation.distinct

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
            if unique:
                self.diagnostics.note_unique_unsupported(
                    disjunct, "next to contains, or where an item must violate a schema"
                )
            expr = contains_array_expr(constraints, self.context)
            if expr is ir.EMPTY_LANGUAGE:
                self.diagnostics.conflict(disjunct, "no array satisfies the counts of contains")
            return expr
        size = max((len(items.prefix) for items in constraints.items), default=0)
        if constraints.max_items is not None:
            size = min(size, constraints.max_items)

        def item(index: int) -> ir.Expr:
            return self.context.conjunction_expr(schemas_on(constraints.items, index))

        signs = self.punctuation.array
        if unique:
            different = self.unique_array(disjunct, constraints, size)
            if different is not None:
                return different
            if constraints.min_items > 1:  # the shortest array would need values that are known to differ
                self.diagnostics.note_unique_unsupported(
                    disjunct, "where two items that are compared are required"
                )
            signs = self.compared_items()
        expr = self._of_items(
            [item(i) for i in range(size)],
            lambda: item(size),
            constraints.min_items,
            constraints.max_items,
            signs,
        )
        if expr is ir.EMPTY_LANGUAGE:
            self.diagnostics.conflict(
                disjunct, f"at least {constraints.min_items} items are required, and fewer are possible"
            )
        return expr

    def _bounded(self, constraints: TypeConstraints) -> TypeConstraints:
        """Arrays with the bound of the options, where nothing else bounds or counts their items."""
        bound = self.context.options.max_items
        if bound is None or constraints.max_items is not None:
            return constraints
        if constraints.contains_constraints or constraints.repeated_items:
            return constraints
        most = max(bound, constraints.min_items, *(len(one.prefix) for one in constraints.items))
        return TypeConstraints(**{**vars(constraints), "max_items": most})

    def _repeated_array(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The arrays of a disjunct in which two items are equal: noted, unless there are none."""
        most = constraints.max_items
        if constraints.unique_items or (most is not None and most < 2):
            self.diagnostics.conflict(
                disjunct, "two items must be equal, and they must differ or are too few"
            )
            return ir.EMPTY_LANGUAGE
        present = {**vars(constraints)}
        self.diagnostics.note_unique(present.pop("repeated_items"), "under `not`")
        return self.array(disjunct, TypeConstraints(**present))

    def _of_items(
        self,
        prefix: Sequence[ir.Expr],
        rest: Callable[[], ir.Expr],
        low: int,
        high: int | None,
        signs: ArraySigns,
    ) -> ir.Expr:
        """Arrays of the `prefix` items, then any number of `rest`, with `low` to `high` items in total, between these signs."""
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
            most = None if high is None else high - count
            return ir.sequence(ir.loop(signs.next_item(more), max(0, low - count), most), signs.close)

        if size:
            tail = repeat(size)
            for i in range(size - 1, 0, -1):
                tail = ir.sequence(signs.next_item(prefix[i]), tail)
                if i >= low:
                    tail = ir.choice(signs.close, tail)
            full = ir.sequence(signs.open, prefix[0], tail)
        elif high == 0 or more is ir.EMPTY_LANGUAGE:
            full = ir.EMPTY_LANGUAGE
        else:
            full = ir.sequence(signs.open, more, repeat(1))
        return ir.choice(self.punctuation.empty_array, full) if low == 0 else full

    def unique_array(self, disjunct: Conjunction, constraints: TypeConstraints, size: int) -> ir.Expr | None:
        """The arrays of a disjunct with ``uniqueItems``; None where they need marks."""
        kinds = self.distinct_items(schemas_on(constraints.items, 0)) if size == 0 else None
        if kinds is None:
            return None
        listed, scalars = kinds
        if scalars:
            require_few_distinct(disjunct, "minItems", constraints.min_items)
        low, high = constraints.min_items, constraints.max_items
        entries = [ir.InterleaveEntry(value, ir.EPSILON, slot) for slot, value in enumerate(listed)]
        entries += [ir.InterleaveEntry(ir.Terminal(one), ir.EPSILON, distinct=True) for one in scalars]
        signs = self.punctuation
        items = interleave(entries, low=max(low, 1), high=high, separator=signs.comma)
        full = ir.sequence(signs.open_array, items, signs.close_array) if high != 0 else ir.EMPTY_LANGUAGE
        expr = ir.choice(signs.empty_array, full) if low == 0 else full
        if expr is ir.EMPTY_LANGUAGE:
            self.diagnostics.conflict(
                disjunct, f"{constraints.min_items} different items are required, and fewer are possible"
            )
        return expr

    def distinct_items(self, conjunction: Conjunction) -> tuple[list[ir.Expr], list[ir.Regex]] | None:
        """Enumerated values of a conjunction, and disjoint languages of its scalars; None where marks have to compare its values."""
        values: dict[Hashable, list[Any]] = {}
        languages: dict[int, list[ir.Regex]] = {f.STRING: [], f.NUMBER: []}
        for disjunct in self.context.expansion.expand(conjunction):
            constraints = self.context.expansion.constraints_of(disjunct)
            self.diagnostics.note_unsupported(constraints)
            if constraints.enum_values is not None:
                candidates = self.scalars.validator.listed(constraints)
            elif constraints.types & (f.ARRAY | f.OBJECT) or (
                constraints.types & f.STRING and constraints.contents
            ):
                return None
            else:
                candidates = [None] if constraints.types & f.NULL else []
                candidates += [True, False] if constraints.types & f.BOOLEAN else []
                for kind, lower in ((f.NUMBER, self.scalars.number), (f.STRING, self.scalars.string)):
                    if constraints.types & kind and isinstance(
                        expr := lower(disjunct, constraints), ir.Terminal
                    ):
                        whole = not constraints.types & f.NON_INTEGER
                        short = kind == f.STRING or whole or constraints.divisors
                        languages[kind].append(
                            expr.regex if short else ir.intersection(expr.regex, few_digits())
                        )
            for value in candidates:
                values.setdefault(equality_key(value), []).append(value)
        listed: list[ir.Expr] = []
        for equal in values.values():
            kind = type_bit_of(equal[0], whole_floats=True)
            language = languages[f.STRING if kind == f.STRING else f.NUMBER] if kind & _SCALAR else []
            if language:  # other values of this type are possible: compared as texts
                texts = [value_regex(value, self.punctuation) for value in equal]
                if (
                    kind != f.STRING
                ):  # numbers with an exponent have too many spellings to be compared as texts
                    texts = [ir.intersection(text, numbers.DECIMAL_CHARACTERS) for text in texts]
                language += texts
            else:
                listed.append(self.scalars.enum_values_expr(equal))
        return listed, [ir.union(*language) for language in languages.values() if language]
