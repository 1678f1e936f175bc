"""What may be asked of the grammar of a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from constrained.grammars import ir
from constrained.grammars.errors import InvalidConstraint
from constrained.grammars.json_schema.text.punctuation import (
    JsonPunctuation,
    Separators,
    Whitespace,
    gap_of,
    punctuation_for,
)

PropertyOrder = Literal["schema", "any"]
UnsupportedKeywordPolicy = Literal["refuse", "check"]

_COUNTS = {"max_digits": "digits", "max_string_length": "characters", "max_items": "items"}

_MOST_WHITESPACE = 100
"""A greater `max_whitespace` means this one: nobody writes more."""


@dataclass(frozen=True, slots=True, eq=False)
class SchemaOptions:
    """The options of `constrained.grammars.json_schema.lower_schema`: those of `constrained.json_schema`, described there, and these.

    Attributes:
        contents: grammars of strings by the names that `constrained.grammars.content.CONTENT_KEYWORD` uses, not yet escaped for
            JSON. A grammar of one terminal may be combined with other keywords for strings, any other grammar stands
            alone. The kinds of strings of Python types are always known.
        source_text: the text of which strings with ``x-span`` are spans; "": it is not known yet, and they are any strings.
        require_grounding: narrow the schema to strings, numbers and dates that stand in that text: see
            `constrained.grammars.json_schema.source.grounded`.
        style: ``"json"``, or as `parameter_style` takes it: objects as the parameters of a tool call.
        excludes: texts that no string without ``pattern`` and ``format`` and no name of a member contains, as it is
            written.
        max_whitespace: in place of `whitespace`, any white space of at most so many characters between two tokens.

    Raises:
        InvalidConstraint: an option has an unknown value.
    """

    whitespace: Whitespace = "bounded"
    draft: str | None = None
    property_order: PropertyOrder = "schema"
    registry: Any = None
    separators: Separators | None = None
    ensure_ascii: bool | None = None
    additional_properties_default: bool = True
    distinct_names: bool = False
    formats: bool = True
    strict: bool = False
    unsupported: UnsupportedKeywordPolicy = "refuse"
    contents: Mapping[str, Callable[[], ir.Grammar]] = field(default_factory=dict)
    max_digits: int | None = None
    max_string_length: int | None = None
    max_items: int | None = None
    source_text: str | None = None
    require_grounding: bool = False
    style: str | Mapping[str, Any] = "json"
    excludes: Sequence[str] = ()
    max_whitespace: int | None = None

    def __post_init__(self) -> None:
        known = {
            "whitespace": Whitespace,
            "unsupported": UnsupportedKeywordPolicy,
            "property_order": PropertyOrder,
        }
        for name, values in known.items():
            if getattr(self, name) not in get_args(values):
                action = f"use one of {', '.join(map(repr, get_args(values)))}"
                raise InvalidConstraint(f"{name}={getattr(self, name)!r} is not known", action=action)
        for name, what in _COUNTS.items():
            count = getattr(self, name)
            if count is not None and (type(count) is not int or not 1 <= count <= 10_000):
                raise InvalidConstraint(
                    f"{name}={count!r} is not a number of {what}",
                    action="use a whole number from 1 to 10000, or None for no limit",
                )

    @property
    def punctuation(self) -> JsonPunctuation:
        """The terminals of the punctuation.

        Raises:
            InvalidConstraint: see `punctuation_for`.
        """
        return punctuation_for(self.whitespace, self.separators, self._most_whitespace)

    @property
    def gap(self) -> ir.Regex:
        """White space between two tokens."""
        return gap_of(self.whitespace, self._most_whitespace)

    @property
    def ordered(self) -> bool:
        """Whether members come in the order of the schema."""
        return self.property_order == "schema"

    @property
    def closed(self) -> bool:
        """Whether objects with declared members allow no others, unless a keyword speaks of them."""
        return not self.additional_properties_default

    @property
    def _most_whitespace(self) -> int | None:
        return None if self.max_whitespace is None else min(self.max_whitespace, _MOST_WHITESPACE)
