"""Parses regular expressions in the Python, ECMA-262 and Rust dialects into `constrained.grammars.ir.Regex`.

`syntax` parses a pattern into a syntax tree, `lookaround` lowers anchors and look-around to regular languages, and
`charset` has the tables of character classes. Must not know: JSON, tokenizers.
"""

from __future__ import annotations

from constrained.grammars import ir
from constrained.grammars.regex.lookaround import lower_to_regex
from constrained.grammars.regex.syntax import RegexDialect, RegexParser

__all__ = ["RegexDialect", "parse"]


def parse(
    pattern: str, *, dialect: RegexDialect = "python", flags: str = "", search: bool = False
) -> ir.Regex:
    r"""The language of a pattern.

    Everything regular is supported: classes, Unicode properties, groups, greedy and lazy quantifiers, anchors,
    word boundaries, inline flags, and look-around outside unbounded loops. Counts stay unexpanded. Quirks follow
    the dialect: in ECMA-262 ``\d`` and ``\w`` are ASCII and ``$`` is only the very end, in Python ``$`` also
    stands before a final newline. ECMA-262 patterns are read as with the ``u`` flag (code points, ``\p``), but
    forgiving about escapes that it would refuse and every engine reads alike (``\-``, ``{`` as itself), and ignore
    case as without it: no letter beyond ASCII is one of ASCII.

    Args:
        pattern: the regular expression.
        dialect: ``"python"`` (`re`), ``"ecma"`` (JavaScript, JSON Schema) or ``"rust"`` (the `regex` crate).
        flags: any of ``i`` (ignore case), ``m`` (multi-line), ``s`` (dot matches all), ``x`` (verbose),
            ``a`` (Python: ASCII classes).
        search: a string satisfies the pattern if it contains a match, as for JSON Schema's ``pattern``; otherwise the
            whole string must match.

    Raises:
        InvalidConstraint: the pattern is malformed; the position and an excerpt are in the message.
        UnsupportedConstraint: back-references, recursion, conditionals; an assertion inside an unbounded loop, an
            atomic group or a possessive quantifier that no regular rewriting covers; ``[[:alpha:]]`` and operations on
            classes where the dialect has only their characters.
        ConstraintTooLarge: groups with assertions nested too deeply.
    """
    return lower_to_regex(RegexParser(pattern, dialect, flags).parse(), pattern, search=search)
