"""The constraint of verbatim quotation; the value of a text is the text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from constrained.constraint.base import Constraint, digest, shorten
from constrained.errors import InvalidConstraint

if TYPE_CHECKING:
    from constrained.grammars.ir import Grammar


@dataclass(frozen=True, eq=False, repr=False)
class _SubstringConstraint(Constraint):
    """Text that stands in a document."""

    document: str
    min_length: int

    @cached_property
    def key(self) -> str:
        return digest("spans", self.document, str(self.min_length))

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars.text.substring import substring_grammar

        return substring_grammar(self.document, min_length=self.min_length)

    def parse(self, text: str) -> str:
        return text

    def render(self) -> str:
        return f"a span of {shorten(self.document)}"

    def __repr__(self) -> str:
        return f"substring_of({shorten(repr(self.document))}, min_length={self.min_length})"


def substring_of(text: str, *, min_length: int = 1) -> Constraint:
    """A verbatim span of a document; the value is the text.

    A span begins and ends between any two characters, so it may begin inside a word. For where it stands use
    ``document.find(value)``.

    Args:
        text: the document; `constrained.grammars.text.substring.MAX_DOCUMENT_LENGTH` says how long it may be.
        min_length: characters of the shortest span; 0 allows the empty text.

    Raises:
        InvalidConstraint: not a text, or a negative length. A document that is too short or too long is found
            when the constraint is compiled.
    """
    if not isinstance(text, str):
        raise InvalidConstraint(f"a document is a str, not {type(text).__name__}")
    if not isinstance(min_length, int) or min_length < 0:
        raise InvalidConstraint(
            f"min_length={min_length!r} is not a whole number >= 0", action="pass a number of characters"
        )
    return _SubstringConstraint(text, min_length)
