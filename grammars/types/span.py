"""`Span`: metadata of `Annotated` for strings that are verbatim spans of the document."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal


class _SpanType(type):
    @property
    def __get_pydantic_json_schema__(cls) -> Callable[[Any, Any], dict[str, Any]]:
        # Pydantic asks the metadata itself, which is this class in `Annotated[str, Span]`.
        return lambda core_schema, handler: cls().mark(handler(core_schema))


@dataclass(frozen=True, slots=True)
class Span(metaclass=_SpanType):
    """The string is a verbatim, non-empty span of the document: ``Annotated[str, Span]``, ``Annotated[str, Span(...)]``.

    Attributes:
        case: ``"any"``: characters may differ in case (equal by Unicode's simple case folding).
        space: ``"any"``: a run of white space of the document may also be written as one space.
        words: the span neither begins nor ends inside a word.
    """

    case: Literal["exact", "any"] = "exact"
    space: Literal["exact", "any"] = "exact"
    words: bool = False

    def __post_init__(self) -> None:
        for name, choice in (("case", self.case), ("space", self.space)):
            if choice not in ("exact", "any"):
                raise ValueError(f'Span({name}={choice!r}): use "exact" or "any"')
        if not isinstance(self.words, bool):
            raise ValueError(f"Span(words={self.words!r}): use True or False")

    @property
    def keyword(self) -> bool | dict[str, Any]:
        """The value of ``x-span`` in a schema."""
        options: dict[str, Any] = {}
        if self.case == "any":
            options["case"] = "any"
        if self.space == "any":
            options["space"] = "any"
        if self.words:
            options["words"] = True
        return options or True

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with ``x-span`` at its strings, as a new schema.

        Raises:
            TypeError: the schema describes no strings.
        """
        if "anyOf" in schema:
            strings = [member.get("type") == "string" for member in schema["anyOf"]]
            if any(strings):
                members = zip(schema["anyOf"], strings, strict=True)
                return {**schema, "anyOf": [self.mark(one) if marked else one for one, marked in members]}
        if schema.get("type") != "string":
            raise TypeError(f"Span is for strings, not for {schema.get('type', 'this type')}")
        return {**schema, "x-span": self.keyword}

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return self.mark(handler(core_schema))


def apply_span(schema: dict[str, Any], metadata: Iterable[Any]) -> dict[str, Any]:
    """The schema with the `Span` among the metadata.

    Raises:
        TypeError: the schema describes no strings.
    """
    for meta in metadata:
        if meta is Span:
            schema = Span().mark(schema)
        elif isinstance(meta, Span):
            schema = meta.mark(schema)
    return schema
