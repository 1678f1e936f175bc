"""``x-span``: strings that are verbatim spans of a text, and their relaxations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from constrained.grammars.errors import InvalidConstraint, Problem
from constrained.grammars.json_schema.text.patterns import StringPattern
from constrained.grammars.text.substring import substring_regex


@dataclass(frozen=True, slots=True)
class SpanOptions:
    """How a span may differ from the text; see `constrained.grammars.text.substring.substring_regex`."""

    any_case: bool = False
    any_space: bool = False
    whole_words: bool = False


_CHOICES = {"case": ("exact", "any"), "space": ("exact", "any"), "words": (False, True)}


def read_span_options(value: Any, place: str) -> SpanOptions:
    """The options of the keyword's value: true, or an object with ``case``, ``space`` and ``words``.

    Raises:
        InvalidConstraint: any other value.
    """
    if value is True:
        return SpanOptions()
    if not isinstance(value, dict):
        raise InvalidConstraint(
            "the schema is malformed",
            Problem(place, "is neither a boolean nor an object", value, "x-span"),
            action='write true, or {"case": "any", "space": "any", "words": true}',
        )
    for name, choice in value.items():
        known = _CHOICES.get(name)
        if known is None or not any(choice is option or choice == option for option in known):
            wanted = f"one of {known[0]!r}, {known[1]!r}" if known else f"one of {', '.join(_CHOICES)}"
            raise InvalidConstraint(
                "the schema is malformed",
                Problem(f"{place}/{name}", f"is not {wanted}", choice if known else name, "x-span"),
            )
    return SpanOptions(value.get("case") == "any", value.get("space") == "any", bool(value.get("words")))


@lru_cache(maxsize=16)
def span_pattern(text: str, options: SpanOptions) -> StringPattern:
    """The non-empty spans of a text.

    Raises:
        InvalidConstraint, UnsatisfiableConstraint, ConstraintTooLarge: as `substring_regex`.
    """
    language = substring_regex(
        text, any_case=options.any_case, any_space=options.any_space, whole_words=options.whole_words
    )
    return StringPattern("x-span", language)
