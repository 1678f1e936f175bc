"""Helpers to write formats as fragments of regular expressions, combined as `constrained.grammars.ir`."""

from __future__ import annotations

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
