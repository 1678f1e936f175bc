"""Constraints from grammars that people write; the value of a text is the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from constrained.constraint.base import Constraint, digest, shorten
from constrained.errors import InvalidConstraint

if TYPE_CHECKING:
    from grammars.ir import Grammar
    from grammars.notation import Notation
    from grammars.notation.lark import Lexer, Prefer


@dataclass(frozen=True, eq=False, repr=False)
class _GrammarConstraint(Constraint):
    """Text that the rules of a grammar derive."""

    source: str
    notation: Notation
    start: str | None

    @cached_property
    def key(self) -> str:
        return digest("grammar", self.source, self.notation, self.start or "")

    @cached_property
    def grammar(self) -> Grammar:
        from grammars.notation import parse

        return parse(self.source, self.notation, start=self.start)

    def parse(self, text: str) -> str:
        return text

    def render(self) -> str:
        return f"text of the {self.notation.upper()} grammar {shorten(self.source)}"

    def __repr__(self) -> str:
        start = "" if self.start is None else f", start={self.start!r}"
        return f"{self.notation}({shorten(repr(self.source))}{start})"


def gbnf(text: str, *, start: str | None = None) -> Constraint:
    """Text that a grammar in llama.cpp's GBNF derives; the value is the text.

    Every derivation counts, character by character: there is no lexer that would cut greedily. Ambiguous, empty,
    left- and right-recursive rules are all fine.

    Args:
        text: the grammar (not the name of a file).
        start: the rule that a whole text follows, ``root`` by default.

    Raises:
        InvalidConstraint: not a text. Mistakes inside are found when the grammar is compiled, with line and column.
    """
    return _GrammarConstraint(_checked(text), "gbnf", start)


def ebnf(text: str, *, start: str | None = None) -> Constraint:
    """Text that a grammar in EBNF derives, XGrammar's with the W3C's additions; the value is the text.

    As `gbnf`, with literals in single quotes, code points ``#x41``, comments ``/* */``, and ``A - B`` for what A
    says unless B says it too; lines may be broken anywhere.

    Args:
        text: the grammar (not the name of a file).
        start: the rule that a whole text follows; by default ``root``, or the first rule where there is none.

    Raises:
        InvalidConstraint: not a text. Mistakes inside are found when the grammar is compiled, with line and column.
    """
    return _GrammarConstraint(_checked(text), "ebnf", start)


@dataclass(frozen=True, eq=False, repr=False)
class _LarkConstraint(Constraint):
    """Text that the rules of a Lark grammar derive, behind Lark's lexer."""

    source: str
    start: str
    lexer: Lexer
    prefer: Prefer
    embed: tuple[tuple[str, Constraint], ...]

    @cached_property
    def key(self) -> str:
        embedded = (part for name, made in self.embed for part in (name, made.key))
        return digest("lark", self.source, self.start, self.lexer, self.prefer, *embedded)

    @cached_property
    def grammar(self) -> Grammar:
        from grammars.notation.lark import parse

        embedded = {name: made.grammar for name, made in self.embed}
        return parse(self.source, start=self.start, lexer=self.lexer, prefer=self.prefer, embedded=embedded)

    def parse(self, text: str) -> str:
        return text

    def render(self) -> str:
        return f"text of the Lark grammar {shorten(self.source)}"

    def __repr__(self) -> str:
        start = "" if self.start == "start" else f", start={self.start!r}"
        lexer = "" if self.lexer == "contextual" else f", lexer={self.lexer!r}"
        return f"lark({shorten(repr(self.source))}{start}{lexer})"


def lark(
    text: str,
    *,
    start: str = "start",
    lexer: Lexer = "contextual",
    prefer: Prefer = "longest",
    embed: Mapping[str, Any] | None = None,
) -> Constraint:
    """Text that a Lark grammar derives, cut into terminals as Lark's lexer cuts it; the value is the text.

    Where a terminal begins, the candidates compete: of those that match at all, the highest priority wins, then the
    longest match, then a string over a regular expression, then as Lark orders them. What ``%ignore`` names may stand
    between any two terminals, before the first and after the last. Every allowed text is one that is cut so.

    Beyond Lark: ``%json {...}`` in a rule is JSON of that schema, and ``@name`` is the constraint of that name in
    `embed`. Both are read byte by byte in every possible way, and no terminal's match reaches into them.

    Args:
        text: the grammar (not the name of a file).
        start: the rule that a whole text follows.
        lexer: which terminals are candidates: ``"contextual"``, those that the parser can take at this place, and the
            ignored ones; ``"basic"``, all. ``"dynamic"`` means no lexer: every way to cut the text counts.
        prefer: ``"lark"`` decides between terminals as python-lark does: they are tried in a fixed order, the greatest
            possible width first, and the first that matches is taken, be it the longest match or not.
        embed: constraints, types or schemas by the name that rules call them with.

    Raises:
        InvalidConstraint: not a text. Mistakes inside are found when the grammar is compiled, with line and column.
        ConstraintError: as `as_constraint`, for what is embedded.
    """
    from constrained.constraint import as_constraint

    embedded = {name: as_constraint(asked) for name, asked in (embed or {}).items()}
    return _LarkConstraint(_checked(text), start, lexer, prefer, tuple(sorted(embedded.items())))


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise InvalidConstraint(
            f"a grammar is a str, not {type(text).__name__}", action="read the file: path.read_text()"
        )
    return text
