"""Grammars as people write them, in llama.cpp's GBNF and in EBNF, to the grammar IR.

    gbnf.lark  llama.cpp's notation
    ebnf.lark  XGrammar's and the W3C's
    reader.py  parses a text with either and builds the rules
    source.py  positions in a text, errors that point at them, and tokens: <|call|>, <[128-140]>

Without a lexer: a grammar describes all texts that its rules derive, character by character. Must not know:
tokenizers, models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from constrained.grammars import ir
from constrained.grammars.counted import CountedGrammar, CountedText
from constrained.grammars.errors import (
    InvalidConstraint,
    Problem,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from constrained.grammars.notation.reader import SOME_TEXT, Reader, named_tokens
from constrained.grammars.notation.source import GrammarSource
from constrained.grammars.transform.inline_regular import inline_regular_rules
from constrained.grammars.transform.left_recursion import remove_left_recursion
from constrained.grammars.transform.nullable import remove_nullable_loops
from constrained.grammars.transform.productive import prune_unproductive
from constrained.grammars.visit import drop_unreachable

__all__ = ["NOTATIONS", "Notation", "parse", "parse_rules", "special_tokens"]

Notation = Literal["gbnf", "ebnf"]
NOTATIONS: tuple[Notation, ...] = ("gbnf", "ebnf")
"""The notations."""


def parse(
    text: str,
    notation: Notation,
    *,
    start: str | None = None,
    marks: Mapping[str, bytes] | None = None,
    letter: bytes | None = None,
) -> ir.Grammar:
    """The grammar of a text, ready for the core: without left recursion, with terminals of some size.

    Rules that the start never calls may be there; every rule that is called must be.

    Args:
        text: the grammar; ``gbnf.lark`` and ``ebnf.lark`` in this folder describe the notations.
        notation: ``"gbnf"`` or ``"ebnf"``.
        start: the rule that a text must follow; by default ``root``, or in EBNF without a ``root`` the first rule.
        marks: what stands for each of `special_tokens` in texts: bytes of no other text; None: one byte stands for all.
        letter: a byte of no text, which stands for one token where ``!<...>`` is counted; None: tokens are not counted.

    Raises:
        InvalidConstraint: malformed, or a rule is missing or defined twice; the error shows line, column and a caret.
        UnsupportedConstraint: look-ahead, options of rules, or ``A - B`` with recursion inside.
        UnsatisfiableConstraint: no completion follows the start rule.
        ConstraintTooLarge: too many rules begin with one another, a count is beyond any text, or too many tokens.
    """
    rules, reader = _rules(text, notation, start, marks=marks)
    grammar, other = _ready(rules, start), reader.definitions.other_tokens
    if other is None or letter is None:
        return grammar
    outer, _ = _rules(text, notation, start, ir.literal(letter), marks)
    place = reader.problem("", other).place
    one = CountedText(letter, ir.Grammar.of(SOME_TEXT), 1, whole=True, place=place)
    return CountedGrammar.joined(grammar, _ready(outer, start), [one])


def special_tokens(text: str, notation: Notation) -> tuple[str, ...]:
    """The tokens that a text names, each once: by name, or by numbers as `parse` tells them apart.

    Raises:
        ConstraintError: as `parse`.
    """
    if notation == "ebnf":
        return ()
    parts = named_tokens(GrammarSource(text, notation.upper()))
    return tuple(dict.fromkeys(name for names in parts.values() for name in names))


def _ready(rules: ir.Grammar, start: str | None) -> ir.Grammar:
    whole = prune_unproductive(rules)
    if whole is None:
        raise UnsatisfiableConstraint(
            "no completion follows the grammar",
            Problem(f"rule {start or 'root'}", "can never be completed: it always calls itself again"),
        )
    return remove_left_recursion(
        remove_nullable_loops(drop_unreachable(inline_regular_rules(drop_unreachable(whole))))
    )


def parse_rules(text: str, notation: Notation, *, start: str | None = None) -> ir.Grammar:
    """The rules that are used, as they were written: what `parse` starts from.

    Raises:
        InvalidConstraint, UnsupportedConstraint: as `parse`.
    """
    return _rules(text, notation, start)[0]


def _rules(
    text: str,
    notation: Notation,
    start: str | None,
    one_token: ir.Regex = SOME_TEXT,
    marks: Mapping[str, bytes] | None = None,
) -> tuple[ir.Grammar, Reader]:
    reader = Reader(text, notation, one_token, marks)
    definitions = reader.run()
    missing = sorted(definitions.called.keys() - definitions.rules.keys(), key=definitions.called.__getitem__)
    if missing:
        raise InvalidConstraint(
            f"the {reader.notation} grammar calls rules that it does not define",
            [reader.problem(f"rule {name} is undefined", definitions.called[name]) for name in missing],
        )
    if start is None:
        start = (
            "root"
            if notation == "gbnf" or "root" in definitions.rules
            else next(iter(definitions.defined), "root")
        )
    if start not in definitions.rules:
        names = ", ".join(definitions.defined) or "none"
        raise InvalidConstraint(
            f"the {reader.notation} grammar has no rule {start}",
            Problem("rules", f"defined: {names}"),
            action=f"name the start rule {start}, or in Python pass start=",
        )

    def irregular(name: str) -> UnsupportedConstraint:
        return UnsupportedConstraint(
            f"the {reader.notation} grammar cannot be enforced",
            reader.problem("one side of the - calls itself, or is very large", definitions.differences[name]),
            action="subtract only rules without recursion",
        )

    grammar = drop_unreachable(ir.Grammar(definitions.rules, start))
    used = inline_regular_rules(
        grammar, limit=0, differences=definitions.differences, not_regular_error=irregular
    )
    return used, reader
