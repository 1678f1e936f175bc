"""Arrays: from constraints to the expression of everything between the brackets.

``contains`` is lowered in `constrained.grammars.json_schema.emit.contains`, ``uniqueItems`` in `constrained.grammars.json_schema.emit.unique_items`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from constrained.grammars import ir
from constrained.grammars.json_schema.emit.contains import contains_array_expr
from constrained.grammars.json_schema.emit.context import Context
from constrained.grammars.json_schema.emit.unique_items import UniqueItemsLowering
from constrained.grammars.json_schema.source.constraints import Conjunction, TypeConstraints, schemas_on
from constrained.grammars.json_schema.text.punctuation import ArraySigns


class ItemsAreCompared(Exception):
    """The items of an array are compared as they are written (`ir.Mark`), and objects so far may have a name twice.

    The last member of a name counts, so an item that differs could become equal to another one again.
    """


class ArrayLowering:
    """Lowers the arrays of one document.

    Args:
        context: the document.
        unique_items: lowers arrays with ``uniqueItems``.
    """

    def __init__(self, context: Context, unique_items: UniqueItemsLowering) -> None:
        self.context = context
        self.unique_items = unique_items
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
            different = self.unique_items.unique_array(disjunct, constraints, size)
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
