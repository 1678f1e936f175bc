"""Plain schemas, lowered natively in one walk.

Most schemas consist of objects, arrays, references within the document, scalars and alternatives of these, each alone at its
place: nothing needs to be conjoined or negated. Keys may match patterns, each one at most. For them the nodes, parsed schemas and caches of `SchemaLowering` cost more than the grammar.
The native walk (``grammars/_core/plain.hpp``) reads such a schema directly and gives the grammar that `SchemaLowering` gives, node
by node. Subschemas that it does not know it hands over to `SchemaLowering`; every error ends it, and `SchemaLowering`
lowers the whole document. That is also its judge in the tests.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from constrained.grammars import ir
from constrained.grammars._core import PlainTerminals
from constrained.grammars.errors import ConstraintError, ConstraintTooLarge
from constrained.grammars.json_schema.emit.lowering import SchemaLowering
from constrained.grammars.json_schema.emit.scalars import BOOLEAN, NULL, STRING, unbounded_numbers
from constrained.grammars.json_schema.options import SchemaOptions
from constrained.grammars.json_schema.source.dialects import SchemaDialect
from constrained.grammars.json_schema.source.members import partition_keys
from constrained.grammars.json_schema.text.patterns import ecma_pattern
from constrained.grammars.json_schema.text.punctuation import JsonPunctuation
from constrained.grammars.json_schema.text.strings import (
    ANY_ESCAPES,
    ANY_STRING,
    STRING_BODY,
    encode_json_string,
    strings_excluding,
)
from constrained.grammars.packed import PackedRules


def lower_plain(
    schema: Any,
    dialect: SchemaDialect,
    options: SchemaOptions,
    general: Callable[[], SchemaLowering],
) -> ir.Grammar | None:
    """The grammar of a document; None if the walk cannot make it, or it has no values.

    Args:
        schema: the document; valid in its dialect.
        dialect: its dialect.
        options: what is asked of the grammar.
        general: makes the lowering that knows everything.

    Raises:
        ItemsAreCompared: see there.
    """
    distinct = options.distinct_names or not options.ordered
    terminals = _terminals(
        dialect, options.punctuation, options.ordered, distinct, options.closed, options.max_digits
    )
    made: list[SchemaLowering] = []

    def make() -> SchemaLowering:
        made.append(general())
        return made[0]

    try:
        found = terminals.lower(schema, make)
    except (ConstraintError, ConstraintTooLarge, RecursionError):
        return None  # lowered whole, the document raises what names all of its places
    finally:
        for lowering in made:
            lowering.release()
    if found is None:
        return None
    rules = PackedRules(*found)
    return ir.Grammar(rules, rules.start)


def _key_classes(
    punctuation: JsonPunctuation, distinct: bool, sources: list[tuple[str, bool]], names: list[str]
) -> tuple[list[int], list[tuple[ir.Expr, int]]] | None:
    """What the patterns of ``patternProperties`` say of keys; None if some key may match two.

    Args:
        punctuation: terminals of the punctuation.
        distinct: no name comes twice: a key is compared with the others, so its colon is left out.
        sources: the patterns, each with whether no key may match it.
        names: declared names.

    Returns:
        by name, the number of the pattern that it matches (-1: none); the disjoint classes of the other keys, each as the
        expression of its keys and the number of the pattern that they match.
    """
    patterns = [ecma_pattern(source) for source, _ in sources]
    matches = [[i for i, pattern in enumerate(patterns) if pattern.matches(name)] for name in names]
    forbidden = {pattern for pattern, (_, never) in zip(patterns, sources, strict=True) if never}
    classes = partition_keys(patterns, forbidden, "")
    if any(len(found) > 1 for found in matches) or any(len(keys.matched) > 1 for keys in classes):
        return None
    exprs: list[tuple[ir.Expr, int]] = []
    for keys in classes:
        regex = keys.key_regex(names)
        expr = ir.Terminal(regex) if distinct else punctuation.key(regex)
        exprs.append((expr, patterns.index(keys.matched[0]) if keys.matched else -1))
    return [found[0] if found else -1 for found in matches], exprs


@lru_cache(64)
def _terminals(
    dialect: SchemaDialect,
    punctuation: JsonPunctuation,
    ordered: bool,
    distinct: bool,
    closed: bool,
    max_digits: int | None,
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
        lambda name: _parts(encode_json_string(name)),
        lambda names: _parts(strings_excluding(names)),
        partial(_key_classes, punctuation, distinct),
        ordered,
        distinct,
        closed,
    )  # fmt: skip


# Other libraries may keep this module alive beyond the end of the interpreter; native objects must be gone by then.
atexit.register(_terminals.cache_clear)


def _parts(regex: ir.Regex) -> tuple[ir.Regex | bytes, ...]:
    """The parts of a concatenation or a union, literals as bytes."""
    parts = regex.parts if isinstance(regex, (ir.Concat, ir.Union)) else (regex,)
    return tuple(part.data if isinstance(part, ir.Literal) else part for part in parts)


def _unit(code: int) -> tuple[ir.Regex, tuple[ir.Regex, ...]]:
    """The encodings of a character, and their alternatives."""
    unit = ANY_ESCAPES.unit(((code, code),))
    return unit, unit.parts if isinstance(unit, ir.Union) else (unit,)
