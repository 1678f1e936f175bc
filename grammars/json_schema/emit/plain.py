"""Small plain schemas, lowered natively in one walk.

Most schemas consist of objects, arrays, references within the document, scalars and alternatives of these, each alone at its
place: nothing needs to be conjoined or negated. For them the nodes, parsed schemas and caches of `SchemaLowering` cost more than the grammar.
The native walk (``grammars/_core/plain.hpp``) reads such a schema directly and gives the grammar that `SchemaLowering` gives, node
by node, or none at all: whatever it does not know, and every error, is left to `SchemaLowering`, which is also its judge in the
tests.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import cache
from typing import Any

from grammars import ir
from grammars._core import PlainTerminals
from grammars.errors import ConstraintError, ConstraintTooLarge
from grammars.json_schema.emit.lowering import SchemaLowering
from grammars.json_schema.emit.scalars import BOOLEAN, NULL, STRING, unbounded_numbers
from grammars.json_schema.source.dialects import SchemaDialect
from grammars.json_schema.source.document import SchemaNode
from grammars.json_schema.text.punctuation import JsonPunctuation
from grammars.json_schema.text.strings import ANY_ESCAPES, ANY_STRING, STRING_BODY, strings_excluding
from grammars.packed import PackedRules


def lower_plain(
    schema: Any,
    dialect: SchemaDialect,
    punctuation: JsonPunctuation,
    *,
    ordered: bool,
    max_digits: int | None,
    general: Callable[[], SchemaLowering],
) -> ir.Grammar | None:
    """The grammar of a document; None if it is not plain, or has no values.

    Args:
        schema: the document; valid in its dialect.
        dialect: one of `SCHEMA_DIALECTS`.
        punctuation: terminals of the punctuation.
        ordered: members come in the order of the schema.
        max_digits: bound on the digits of numbers that have no bound.
        general: makes the lowering that knows everything.
    """
    lowering: SchemaLowering | None = None

    def scalar(schema: Any) -> ir.Expr | None:
        nonlocal lowering
        lowering = lowering or general()
        return _scalar(schema, lowering)

    found = _terminals(dialect, punctuation, ordered, max_digits).lower(schema, scalar)
    if found is None:
        return None
    rules = PackedRules(*found)
    return ir.Grammar(rules, rules.start)


def _scalar(schema: Any, lowering: SchemaLowering) -> ir.Expr | None:
    """The values of a schema of scalars; None if they are not plain."""
    root = lowering.document.root
    try:
        expr = lowering.conjunction_expr((SchemaNode(schema, "#/a scalar", root, root.base),))
    except (ConstraintError, ConstraintTooLarge, RecursionError):  # an enumerated value may be nested deeply
        return None
    if lowering.rules or lowering.diagnostics.problems or lowering.diagnostics.conflicts:
        return None
    return None if expr is ir.EMPTY_LANGUAGE else expr


@cache
def _terminals(
    dialect: SchemaDialect, punctuation: JsonPunctuation, ordered: bool, max_digits: int | None
) -> PlainTerminals:
    """What the grammars of these have in common."""
    number, integer = unbounded_numbers(max_digits)
    p = punctuation
    return PlainTerminals(
        dialect.native_keywords,
        (
            NULL, BOOLEAN, number, STRING, integer, p.open_object, p.close_object, p.empty_object, p.open_array,
            p.close_array, p.empty_array, p.comma, ir.Terminal(p.colon),
        ),
        _parts(p.comma.regex),
        _parts(p.colon),
        _parts(ANY_STRING),
        STRING_BODY,
        tuple(map(_unit, range(128))),
        lambda names: _parts(strings_excluding(names)),
        ordered,
    )  # fmt: skip


# Other libraries may keep this module alive beyond the end of the interpreter; native objects must be gone by then.
atexit.register(_terminals.cache_clear)


def _parts(regex: ir.Regex) -> tuple[ir.Regex | bytes, ...]:
    """The parts of a concatenation, literals as bytes."""
    parts = regex.parts if isinstance(regex, ir.Concat) else (regex,)
    return tuple(part.data if isinstance(part, ir.Literal) else part for part in parts)


def _unit(code: int) -> tuple[ir.Regex, tuple[ir.Regex, ...]]:
    """The encodings of a character, and their alternatives."""
    unit = ANY_ESCAPES.unit(((code, code),))
    return unit, unit.parts if isinstance(unit, ir.Union) else (unit,)
