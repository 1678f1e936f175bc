"""Free text around what is structured: sections between markers, and text up to a marker.

Free text is any UTF-8 text in which no marker stands. A marker counts where it first ends, so every text is cut
in one way only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grammars import ir
from grammars.walk import children, fold


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
        body = _added(section.body, rules)
        choices.append(ir.sequence(ir.terminal(up_to(section.begin, markers)), body))
    name = _fresh("text with sections", rules)
    rest = ir.terminal(without(markers))
    rules[name] = ir.sequence(ir.loop(ir.choice(*choices), low, high), rest)
    return ir.Grammar(rules, name)


def after_text(marker: str, body: ir.Grammar) -> ir.Grammar:
    """Free text, the marker, then `body`."""
    rules = dict(body.rules)
    name = _fresh("text first", rules)
    rules[name] = ir.sequence(ir.terminal(up_to(marker, [marker])), ir.call(body.start))
    return ir.Grammar(rules, name)


def _added(grammar: ir.Grammar, rules: dict[str, ir.Expr]) -> ir.Expr:
    """Adds the rules of a grammar, renamed where a name is taken; returns the call of its start."""
    names: dict[str, str] = {}
    taken = {*rules, *grammar.rules}
    for name in grammar.rules:
        names[name] = _fresh(name, taken) if name in rules else name
        taken.add(names[name])
    if all(name == new for name, new in names.items()):
        rules.update(grammar.rules)
        return ir.call(grammar.start)
    made: dict[ir.Expr, ir.Expr] = {}

    def value(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        if isinstance(expr, ir.Call):
            return ir.call(names[expr.rule])
        parts = tuple(known[part] for part in children(expr))
        if isinstance(expr, ir.Loop):
            return ir.Loop(parts[0], expr.low, expr.high)
        return expr if isinstance(expr, ir.Terminal) else type(expr)(parts)  # type: ignore[call-arg]

    for name, body in grammar.rules.items():
        rules[names[name]] = fold(body, children, value, made)
    return ir.call(names[grammar.start])


def _fresh(name: str, taken: set[str] | dict[str, ir.Expr]) -> str:
    while name in taken:
        name += "'"
    return name
