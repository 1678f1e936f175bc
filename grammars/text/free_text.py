"""Free text with structured parts: sections between markers, and text up to a marker.

Free text is any UTF-8 text that contains no marker. A marker is recognised where it first ends, so every string is
split in one way only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from constrained.grammars import ir
from constrained.grammars.lexer import reject_lexer_grammar
from constrained.grammars.transform.imports import fresh_name, import_rules


@dataclass(frozen=True, slots=True, eq=False)
class SectionGrammar:
    """A structured section in free text.

    Attributes:
        begin: the marker that opens it; no marker of another section is part of it, nor it of one.
        body: what follows, the closing marker included.
    """

    begin: str
    body: ir.Grammar


def text_without(markers: Sequence[str]) -> ir.Regex:
    """Text that contains none of the markers."""
    return ir.difference(ir.TEXT, ir.concat(ir.TEXT, _any(markers), ir.TEXT))


def text_up_to(marker: str, markers: Sequence[str]) -> ir.Regex:
    """Text that ends with `marker`, the first of the `markers` in it."""
    return ir.difference(ir.concat(ir.TEXT, ir.literal(marker)), _text_beyond(markers))


def texts_up_to(markers: Sequence[str], excludes: Sequence[str] = ()) -> list[ir.Regex]:
    """For each marker, the text that ends with it, the first marker in it, and contains nothing of `excludes`."""
    unwanted = ir.union(_text_beyond(markers), ir.concat(ir.TEXT, _any(excludes), ir.TEXT))
    return [ir.difference(ir.concat(ir.TEXT, ir.literal(marker)), unwanted) for marker in markers]


def _text_beyond(markers: Sequence[str]) -> ir.Regex:
    """Text in which a marker ends before the end."""
    return ir.concat(ir.TEXT, _any(markers), ir.repeat(ir.ANY_CHAR, 1))


def _any(markers: Sequence[str]) -> ir.Regex:
    return ir.union(*(ir.literal(marker) for marker in markers))


def free_text_with_sections(
    sections: Sequence[SectionGrammar], *, low: int = 0, high: int | None = None
) -> ir.Grammar:
    """Free text with `low` to `high` sections in it."""
    markers = [section.begin for section in sections]
    rules: dict[str, ir.Expr] = {}
    choices = []
    for section in sections:
        body = import_rules(section.body, rules)
        choices.append(ir.sequence(ir.terminal(text_up_to(section.begin, markers)), body))
    name = fresh_name("text with sections", rules)
    rest = ir.terminal(text_without(markers))
    rules[name] = ir.sequence(ir.loop(ir.choice(*choices), low, high), rest)
    return ir.Grammar(rules, name)


def after_free_text(marker: str, body: ir.Grammar) -> ir.Grammar:
    """Free text, the marker, then `body`."""
    reject_lexer_grammar(body, "after free text")
    rules = dict(body.rules)
    name = fresh_name("text first", rules)
    rules[name] = ir.sequence(ir.terminal(text_up_to(marker, [marker])), ir.call(body.start))
    return ir.Grammar(rules, name)
