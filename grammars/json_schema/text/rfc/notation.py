"""Helpers to write formats as fragments of regular expressions, combined as `constrained.grammars.ir`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from constrained.grammars import ir
from constrained.grammars.regex import parse


@cache
def fragment_regex(fragment: str) -> ir.Regex:
    """The language of a fragment, cached; a dot is any character."""
    return parse(fragment, dialect="rust", flags="s")


def separated(part: ir.Regex, separator: str) -> ir.Regex:
    """One part or more, with a separator between them."""
    return ir.concat(part, ir.repeat(ir.concat(ir.literal(separator), part)))


def any_case(names: Iterable[str]) -> ir.Regex:
    """One of these ASCII names, in any case."""

    def letter(char: str) -> ir.Regex:
        return ir.chars((ord(form), ord(form)) for form in {char.lower(), char.upper()})

    return ir.union(*(ir.concat(*map(letter, name)) for name in names))
