"""``uniqueItems``: arrays whose items all differ.

Items that are enumerated values, or scalars whose texts differ whenever their values do (strings, and numbers without
exponent), are entries of an interleave, which counts what is left. All other items are written in an array with marks
(`constrained.grammars.ir.Mark`), which knows no counts: at most one of them may be required.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from constrained.grammars import ir
from constrained.grammars.json_schema.emit.context import Context
from constrained.grammars.json_schema.emit.diagnostics import require_few_distinct
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
from constrained.grammars.transform.interleave import interleave

_SCALAR = f.STRING | f.NUMBER


class UniqueItemsLowering:
    """Lowers the arrays of one document whose items must differ.

    Args:
        context: the document.
        scalars: lowers the items that are scalars.
    """

    def __init__(self, context: Context, scalars: ScalarLowering) -> None:
        self.expansion = context.expansion
        self.scalars = scalars
        self.diagnostics = context.diagnostics
        self.punctuation = context.punctuation

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
        for disjunct in self.expansion.expand(conjunction):
            constraints = self.expansion.constraints_of(disjunct)
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
                language += texts if kind == f.STRING else map(_without_exponents, texts)
            else:
                listed.append(self.scalars.enum_values_expr(equal))
        return listed, [ir.union(*language) for language in languages.values() if language]


def _without_exponents(regex: ir.Regex) -> ir.Regex:
    """Numbers with an exponent have too many spellings to be compared as texts."""
    return ir.intersection(regex, numbers.DECIMAL_CHARACTERS)
