"""Constraints whose texts are JSON: of a schema, or of a Python type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from constrained.constraint.base import Constraint, digest, shorten
from constrained.errors import InvalidConstraint, Problem, RejectedValue
from constrained.json_text import copy_schema, read_schema, read_value, write_schema

if TYPE_CHECKING:
    from grammars.ir import Grammar
    from grammars.json_schema import Lowered, Report
    from grammars.types import TypeSpec

Whitespace = Literal["bounded", "none", "any", "indent"]
"""Where JSON may have white space: as much as an indented text needs, nowhere, anywhere, or as `indent=2` writes."""


@dataclass(frozen=True, eq=False, repr=False)
class _Json(Constraint):
    """JSON text that follows a schema; the value is what `json.loads` gives."""

    _text: str
    whitespace: Whitespace
    is_json = True

    @cached_property
    def schema(self) -> Any:
        return json.loads(self._text)

    @cached_property
    def key(self) -> str:
        return digest("json", self._text, self.whitespace)

    @cached_property
    def _lowered(self) -> Lowered:
        from grammars.json_schema import lower

        read = self.__dict__.pop("_read", None)
        return lower(json.loads(self._text) if read is None else read, whitespace=self.whitespace)

    @property
    def grammar(self) -> Grammar:
        return self._lowered.grammar

    @property
    def report(self) -> Report:
        return self._lowered.report

    def parse(self, text: str) -> Any:
        return read_value(text)

    def render(self) -> str:
        return f"JSON of the schema {shorten(self._text)}"

    def __repr__(self) -> str:
        return f"json_schema({shorten(self._text)})"


def json_schema(
    schema: Mapping[str, Any] | bool | str | bytes, *, whitespace: Whitespace = "bounded"
) -> Constraint:
    """JSON text that follows a JSON Schema; the value is what `json.loads` gives.

    Args:
        schema: a schema, or its JSON text.
        whitespace: where the text may have white space.

    Raises:
        InvalidConstraint: not JSON; names line and column of a text, or the JSON Pointer.
    """
    if isinstance(schema, (str, bytes)):
        read = read_schema(schema)
        text = write_schema(read)
    else:
        read, text = copy_schema(schema)
    if not isinstance(read, (dict, bool)):
        raise InvalidConstraint(
            "a JSON Schema is an object, true or false",
            Problem("#", f"is of type {type(read).__name__}", read),
            action="to allow a fixed list of values use choice([...]); for a Python type, python_type(T)",
        )
    made = _Json(text, _checked(whitespace))
    made.__dict__["_read"] = read  # so that it is not read again when it is lowered, which is once
    return made


def _checked(whitespace: Whitespace) -> Whitespace:
    if whitespace not in get_args(Whitespace):
        known = ", ".join(repr(name) for name in get_args(Whitespace))
        raise InvalidConstraint(f"whitespace={whitespace!r} is not known", action=f"use one of {known}")
    return whitespace


@dataclass(frozen=True, eq=False, repr=False)
class _PythonType(_Json):
    """JSON text of a Python type; the value is an instance of it."""

    hint: Any
    _spec: TypeSpec

    @cached_property
    def schema(self) -> Any:
        return self._spec.schema

    def parse(self, text: str) -> Any:
        value = read_value(text)
        try:
            return self._spec.build(value)
        except Exception as error:  # whatever the type's own code raises
            reason = " ".join(str(error).split())
            raise RejectedValue(
                f"{self._spec.title} refuses the value of a complete text: {reason or type(error).__name__}",
                action="say the rule in the type's schema, or catch this error and draw again with another seed",
                text=text,
                value=value,
            ) from error

    def render(self) -> str:
        return f"JSON of the type {self._spec.title}"

    def __repr__(self) -> str:
        return f"python_type({self._spec.title})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _PythonType) and super().__eq__(other) and bool(self.hint == other.hint)

    __hash__ = Constraint.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_type, (self.hint, self.whitespace)


def python_type(hint: Any, *, whitespace: Whitespace = "bounded") -> Constraint:
    """JSON text of a Python type; the value is an instance of it.

    Whatever the type, the text is JSON: `Literal["a", "b"]` and an `Enum` of strings are generated with their
    quotes. For bare text use `choice(["a", "b"])`.

    Args:
        hint: a pydantic model, dataclass, `TypedDict`, `NamedTuple`, `Enum`, `Literal`, `list[int]`, `X | None`
            or any mix of them; `grammars.types.of` lists them all.
        whitespace: where the text may have white space.

    Raises:
        UnsupportedConstraint: part of the type has no form in JSON; names its place, such as `Order.items[].price`.
        InvalidConstraint: an annotation cannot be resolved.
    """
    return _of_type(hint, _checked(whitespace))


def _of_type(hint: Any, whitespace: Whitespace) -> Constraint:
    from grammars.types import of

    spec = of(hint)
    return _PythonType(write_schema(spec.enforced), whitespace, hint, spec)
