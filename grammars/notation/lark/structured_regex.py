"""``%regex {"substring_words": "..."}``: the substrings of a document as a terminal, as llguidance has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import regex

from constrained.grammars import ir
from constrained.grammars.errors import InvalidConstraint
from constrained.grammars.notation.source import GrammarSource
from constrained.grammars.text.substring import substring_of_chunks

_WORD = r"\p{Alphabetic}\p{N}_"
_CHUNK = regex.compile(rf"[{_WORD}]+|\p{{White_Space}}+|[^{_WORD}\p{{White_Space}}]+")
_KINDS = ("substring_words", "substring_chars", "substring_chunks")


@dataclass(frozen=True, slots=True, eq=False)
class StructuredRegex:
    """``%regex`` in a terminal or a rule.

    Attributes:
        at: its offset in the text.
        regex: the texts of consecutive chunks of the document, the empty string included.
    """

    at: int
    regex: ir.Substring


def read_structured_regex(source: GrammarSource, at: int, value: Any) -> StructuredRegex:
    """The texts of the JSON that stands behind ``%regex``.

    Raises:
        InvalidConstraint: it is not one of ``substring_words``, ``substring_chars`` and ``substring_chunks`` with its document.
    """
    if not isinstance(value, dict):
        source.fail("%regex takes an object", at)
    unknown = [kind for kind in value if kind not in _KINDS]
    if unknown or len(value) != 1:
        what = f"unknown key {unknown[0]!r} of %regex" if unknown else f"%regex with {len(value)} keys"
        source.fail(f"{what}; it has one of {', '.join(_KINDS)}", at)
    ((kind, document),) = value.items()
    is_list = kind == "substring_chunks"
    if is_list and not (isinstance(document, list) and all(isinstance(chunk, str) for chunk in document)):
        source.fail(f"{kind} takes a list of strings", at)
    if not is_list and not isinstance(document, str):
        source.fail(f"{kind} takes a string", at)
    chunks = _CHUNK.findall(document) if kind == "substring_words" else document
    try:
        return StructuredRegex(at, substring_of_chunks(chunks))
    except InvalidConstraint as error:
        return source.fail(
            f"{kind} has a document with half of a surrogate pair: {error.problems[0].place}", at
        )
