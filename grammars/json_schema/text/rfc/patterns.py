r"""ECMA-262: regular expressions as strings.

Parentheses of unbounded depth are not a regular language, so groups are written down to `MAX_GROUP_DEPTH`. Of what is left, only what
ECMA-262 and Python's `fragment_regex` read alike is written: no empty classes, no named groups or back-references, no look-behind,
braces and brackets escaped where they stand for themselves, ranges of a class between two ASCII characters.
"""

from __future__ import annotations

from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc.notation import fragment_regex, separated

MAX_GROUP_DEPTH = 5
"""Maximum nesting of groups."""

_ESCAPE = r"\\(?:[dDwWsStnrvf!-/:-@\[-`{-~]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})"
_SYNTAX = r"^$\\.*+?()\[\]{}|"


@cache
def regex() -> ir.Regex:
    """Patterns with groups at most `MAX_GROUP_DEPTH` deep."""
    inner: ir.Regex | None = None
    for _ in range(MAX_GROUP_DEPTH + 1):
        inner = _alternatives(inner)
    assert inner is not None
    return inner


@cache
def regex_superset() -> ir.Regex:
    """All texts except some that are certainly malformed: a quantifier or ``)`` at the start."""
    return fragment_regex(r"(?:[^*+?)].*)?")


def _alternatives(inner: ir.Regex | None) -> ir.Regex:
    """Patterns whose groups contain `inner`; patterns without groups when it is None."""
    atoms = [fragment_regex(rf"[^{_SYNTAX}]|\.|{_ESCAPE}"), _class()]
    assertions = [fragment_regex(r"\^|\$|\\[bB]")]
    if inner is not None:
        close = ir.literal(")")
        atoms.append(ir.concat(fragment_regex(r"\((?:\?:)?"), inner, close))
        assertions.append(ir.concat(fragment_regex(r"\(\?[=!]"), inner, close))
    term = ir.union(ir.concat(ir.union(*atoms), ir.optional(_quantifier())), *assertions)
    return separated(ir.repeat(term), "|")


@cache
def _quantifier() -> ir.Regex:
    counts: list[ir.Regex] = [
        fragment_regex("[0-9]{1,3},?"),
        fragment_regex("[0-9]{1,2},[1-9][0-9]{2}"),
        fragment_regex("[0-9],[1-9][0-9]"),
    ]
    for low in range(100):  # two counts of equal length, the first at most the second
        tens, ones = divmod(low, 10)
        same = ir.concat(ir.literal(f"{low},{tens or ''}"), _digits(ones))
        higher = ir.concat(ir.literal(f"{low},"), _digits(tens + 1), _digits(0)) if tens else ir.EMPTY_SET
        counts += [same, higher]
    braces = ir.concat(ir.literal("{"), ir.union(*counts), ir.literal("}"))
    return ir.concat(ir.union(fragment_regex("[*+?]"), braces), fragment_regex(r"\??"))


def _digits(low: int) -> ir.Regex:
    """One digit that is at least this."""
    return ir.chars([(0x30 + low, 0x39)]) if low < 10 else ir.EMPTY_SET


@cache
def _class() -> ir.Regex:
    plain = rf"[^\\\]\[\-^]|{_ESCAPE}|\\b"
    ends = [code for code in range(0x21, 0x7F) if chr(code) not in "\\[]^-"]
    ranges = ir.union(
        *(
            ir.concat(ir.literal(f"{chr(low)}-"), ir.chars((high, high) for high in ends if high >= low))
            for low in ends
        )
    )
    # a hyphen is literal at either end and after a range
    item = ir.union(fragment_regex(plain), ir.concat(ranges, fragment_regex("-?")))
    body = ir.union(
        ir.concat(fragment_regex("-?"), ir.repeat(item, 1), fragment_regex("-?")), fragment_regex("-")
    )
    return ir.concat(fragment_regex(r"\[\^?"), body, fragment_regex(r"\]"))
