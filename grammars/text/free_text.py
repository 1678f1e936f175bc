"""Free text around what is structured: sections between markers, and text up to a marker.

Free text is any UTF-8 text in which no marker stands. A marker counts where it first ends, so every text is cut
in one way only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grammars import ir
from grammars.lexer import refuse_lexer
from grammars.transform.imports import added, fresh


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """What may stand in free text.

    Attributes:
        begin: the marker that opens it; no marker of another section is part of it, nor it of one.
        body: what follows, the closing marker included.
    """

    begin: str
    body: ir.Grammar


def without(markers: Sequence[str]) -> ir.Regex:
    """Text in which none of the markers stands."""
    return ir.difference(ir.TEXT, ir.concat(ir.TEXT, _any(markers), ir.TEXT))


def up_to(marker: str, markers: Sequence[str]) -> ir.Regex:
    """Text that ends with `marker`, the first of the `markers` in it."""
    earlier = ir.concat(ir.TEXT, _any(markers), ir.repeat(ir.ANY_CHAR, 1))
    return ir.difference(ir.concat(ir.TEXT, ir.literal(marker)), earlier)


def _any(markers: Sequence[str]) -> ir.Regex:
    return ir.union(*(ir.literal(marker) for marker in markers))


def among_text(sections: Sequence[Section], *, low: int = 0, high: int | None = None) -> ir.Grammar:
    """Free text with `low` to `high` sections in it."""
    markers = [section.begin for section in sections]
    rules: dict[str, ir.Expr] = {}
    choices = []
    for section in sections:
        body = added(section.body, rules)
        choices.append(ir.sequence(ir.terminal(up_to(section.begin, markers)), body))
    name = fresh("text with sections", rules)
    rest = ir.terminal(without(markers))
    rules[name] = ir.sequence(ir.loop(ir.choice(*choices), low, high), rest)
    return ir.Grammar(rules, name)


def after_text(marker: str, body: ir.Grammar) -> ir.Grammar:
    """Free text, the marker, then `body`."""
    refuse_lexer(body, "after free text")
    rules = dict(body.rules)
    name = fresh("text first", rules)
    rules[name] = ir.sequence(ir.terminal(up_to(marker, [marker])), ir.call(body.start))
    return ir.Grammar(rules, name)
