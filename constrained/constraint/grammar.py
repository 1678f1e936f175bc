"""Constraints from grammars that people write; the value of a text is the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from constrained.constraint.base import Constraint, digest, shorten
from constrained.errors import InvalidConstraint

if TYPE_CHECKING:
    from constrained.grammars.ir import Grammar
    from constrained.grammars.notation import Notation


@dataclass(frozen=True, eq=False, repr=False)
class _GrammarConstraint(Constraint):
    """Text that the rules of a grammar derive."""

    source: str
    notation: Notation
    start: str | None
    around: tuple[str, ...] = ()
    """Special tokens of the text that this one is a part of."""
    _ambiguous = True

    @cached_property
    def key(self) -> str:
        around = ("around", *self.around) if self.around else ()
        return digest("grammar", self.source, self.notation, self.start or "", *around)

    @cached_property
    def special_tokens(self) -> tuple[str, ...]:
        from constrained.grammars.notation import special_tokens

        return tuple(dict.fromkeys((*self.around, *special_tokens(self.source, self.notation))))

    def among_special_tokens(self, names: Sequence[str]) -> Constraint:
        return replace(self, around=tuple(names)) if self.special_tokens else self

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars.notation import parse
        from constrained.vocabulary.special_tokens import free_letters, letters  # loads numpy

        names = self.special_tokens
        letter = next(iter(free_letters(names)), None)
        return parse(self.source, self.notation, start=self.start, marks=letters(names), letter=letter)

    def parse(self, text: str) -> str:
        return text

    def render(self) -> str:
        return f"text of the {self.notation.upper()} grammar {shorten(self.source)}"

    def __repr__(self) -> str:
        start = "" if self.start is None else f", start={self.start!r}"
        return f"{self.notation}({shorten(repr(self.source))}{start})"


def gbnf(text: str, *, start: str | None = None) -> Constraint:
    """Text that a grammar in llama.cpp's GBNF derives; the value is the text.

    Every derivation counts, character by character: no lexer cuts greedily. Ambiguous, empty,
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


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise InvalidConstraint(
            f"a grammar is a str, not {type(text).__name__}", action="read the file: path.read_text()"
        )
    return text
