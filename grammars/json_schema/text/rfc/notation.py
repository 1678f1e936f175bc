"""Helpers to write formats as fragments of regular expressions, combined as `grammars.ir`."""

from __future__ import annotations

from functools import cache

from grammars import ir
from grammars.regex import parse


@cache
def fragment_regex(fragment: str) -> ir.Regex:
    """The language of a fragment, cached; a dot is any character."""
    return parse(fragment, dialect="rust", flags="s")


def separated(part: ir.Regex, separator: str) -> ir.Regex:
    """One part or more, with a separator between them."""
    return ir.concat(part, ir.repeat(ir.concat(ir.literal(separator), part)))
