"""Constraints whose texts are JSON: of a schema, or of a Python type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from constrained.constraint.base import Constraint, digest, shorten
from constrained.constraint.json_text import copy_schema, read_schema, read_value, write_schema
from constrained.errors import InvalidConstraint, Problem, RejectedValue

if TYPE_CHECKING:
    from grammars.ir import Grammar
    from grammars.json_schema import KeywordReport, LoweredSchema
    from grammars.types import TypeSpec

Whitespace = Literal["bounded", "none", "any", "indent"]
"""Where JSON may have white space: as much as an indented text needs, nowhere, anywhere, or as `indent=2` writes."""

PropertyOrder = Literal["schema", "any"]
"""In which order members of an object stand: that of the schema, or any."""


UnsupportedPolicy = Literal["refuse", "check"]
"""What becomes of a keyword that cannot be enforced: an error, or a check of the finished value."""


@dataclass(frozen=True, eq=False, repr=False)
class _JsonConstraint(Constraint):
    """JSON text that follows a schema; the value is what `json.loads` gives.

    `options` are those of `grammars.json_schema.lower_schema` that are not at their defaults, as JSON values.
    """

    _text: str
    whitespace: Whitespace
    options: Mapping[str, Any]
    is_json = True

    @cached_property
    def schema(self) -> Any:
        return json.loads(self._text)

    @cached_property
    def key(self) -> str:
        options = [json.dumps(self.options, sort_keys=True)] if self.options else []
        return digest("json", self._text, self.whitespace, *options)

    @cached_property
    def _lowered(self) -> LoweredSchema:
        from grammars.json_schema import lower_schema

        read = self.__dict__.pop("_read", None)
        options = dict(self.options)
        if "separators" in options:
            options["separators"] = tuple(options["separators"])
        schema = json.loads(self._text) if read is None else read
        return lower_schema(schema, whitespace=self.whitespace, **options)

    @property
    def grammar(self) -> Grammar:
        return self._lowered.grammar

    @property
    def report(self) -> KeywordReport:
        return self._lowered.report

    def parse(self, text: str) -> Any:
        value = read_value(text)
        if self.options.get("unsupported") == "check":
            self._check(text, value)
        return value

    def _check(self, text: str, value: Any) -> None:
        """Judges a value by the keywords that the grammar leaves out.

        Raises:
            RejectedValue: it does not satisfy them; names them.
        """
        lowered = self._lowered
        if not lowered.unchecked:
            return
        from constrained.constraint.post_validation import validation_errors

        found = validation_errors(self.schema, lowered.draft, self.options.get("registry"), value)
        if found:
            raise RejectedValue(
                "the completion violates a keyword that could not be enforced",
                found,
                action="generate again with another seed, or rewrite these keywords",
                text=text,
                value=value,
            )

    def render(self) -> str:
        return f"JSON of the schema {shorten(self._text)}"

    def __repr__(self) -> str:
        return f"json_schema({shorten(self._text)})"


def json_schema(
    schema: Mapping[str, Any] | bool | str | bytes,
    *,
    whitespace: Whitespace = "bounded",
    property_order: PropertyOrder = "schema",
    separators: tuple[str, str] | None = None,
    ensure_ascii: bool | None = None,
    additional_properties_default: bool = True,
    draft: str | None = None,
    formats: bool = True,
    strict: bool = False,
    unsupported: UnsupportedPolicy = "refuse",
    registry: Any = None,
) -> Constraint:
    """JSON text that follows a JSON Schema; the value is what `json.loads` gives.

    Args:
        schema: a schema, or its JSON text.
        whitespace: where the text may have white space.
        property_order: ``"schema"``: members stand in the order in which the schema declares them; ``"any"``: in
            every order, each key once.
        separators: as `json.dumps` takes them, ``(", ", ": ")`` for example: what is written between items and after
            keys, exactly; no other white space is written but the lines of ``whitespace="indent"``.
        ensure_ascii: True: characters beyond ASCII are written as escapes; False: nothing is escaped that can stand
            for itself; None: the model chooses.
        additional_properties_default: False: where a schema declares members and says nothing about others, there
            are none.
        draft: ``"4"``, ``"6"``, ``"7"``, ``"2019-09"`` or ``"2020-12"``; by default what ``$schema`` says, or else
            the newest.
        formats: False: ``format`` limits nothing.
        strict: keywords and formats that nobody defines are refused, instead of limiting nothing.
        unsupported: ``"refuse"``: a keyword that cannot be enforced is an error; ``"check"``: it is left out of what
            is enforced, listed as unchecked in the report, and the finished value is validated. A value that fails
            raises `RejectedValue`.
        registry: schemas that references may name, by URI: a mapping, or a `referencing.Registry`. Those that are
            reached are copied. The meta-schemas of the drafts need not be given; the network is never asked.

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
    asked = {
        "property_order": _checked_order(property_order),
        "separators": separators and list(separators),
        "ensure_ascii": ensure_ascii,
        "additional_properties_default": additional_properties_default and None,
        "draft": draft,
        "formats": formats and None,
        "strict": strict or None,
        "unsupported": unsupported if unsupported != "refuse" else None,
        "registry": _referenced_schemas(read, draft, registry),
    }
    options = {name: value for name, value in asked.items() if value is not None}
    made = _JsonConstraint(text, _checked(whitespace), options)
    made.__dict__["_read"] = read  # so that it is not read again when it is lowered, which is once
    return made


def _referenced_schemas(schema: Any, draft: str | None, registry: Any) -> dict[str, Any] | None:
    """The schemas of a registry that references lead to; plain JSON, which can be compared and sent elsewhere."""
    if registry is None:
        return None
    from grammars.json_schema import SchemaRegistry
    from grammars.json_schema.source.dialects import select_dialect

    schemas = SchemaRegistry(registry)
    found = schemas.reachable_from(schema, select_dialect(schema, draft, schemas))
    return {
        uri: contents if isinstance(contents, bool) else copy_schema(contents)[0]
        for uri, contents in found.items()
    }


def _checked(whitespace: Whitespace) -> Whitespace:
    if whitespace not in get_args(Whitespace):
        known = ", ".join(repr(name) for name in get_args(Whitespace))
        raise InvalidConstraint(f"whitespace={whitespace!r} is not known", action=f"use one of {known}")
    return whitespace


def _checked_order(property_order: PropertyOrder) -> PropertyOrder | None:
    """The order, if it is not the default."""
    if property_order not in get_args(PropertyOrder):
        raise InvalidConstraint(
            f"property_order={property_order!r} is not known", action="use 'schema' or 'any'"
        )
    return property_order if property_order != "schema" else None


@dataclass(frozen=True, eq=False, repr=False)
class _PythonTypeConstraint(_JsonConstraint):
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
                f"{self._spec.title} rejects the value of the completion: {reason or type(error).__name__}",
                action="express the rule in the type's schema, or generate again with another seed",
                text=text,
                value=value,
            ) from error

    def render(self) -> str:
        return f"JSON of the type {self._spec.title}"

    def __repr__(self) -> str:
        return f"python_type({self._spec.title})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _PythonTypeConstraint)
            and super().__eq__(other)
            and bool(self.hint == other.hint)
        )

    __hash__ = Constraint.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_type, (self.hint, self.whitespace, self.options)


def python_type(
    hint: Any,
    *,
    whitespace: Whitespace = "bounded",
    property_order: PropertyOrder = "schema",
    separators: tuple[str, str] | None = None,
    ensure_ascii: bool | None = None,
) -> Constraint:
    """JSON text of a Python type; the value is an instance of it.

    Whatever the type, the text is JSON: `Literal["a", "b"]` and an `Enum` of strings are generated with their
    quotes. For bare text use `choice(["a", "b"])`.

    Args:
        hint: a pydantic model, dataclass, `TypedDict`, `NamedTuple`, `Enum`, `Literal`, `list[int]`, `X | None`
            or any mix of them; `grammars.types.type_spec` lists them all.
        whitespace: where the text may have white space.
        property_order: ``"schema"``: members stand in the order in which the schema declares them; ``"any"``: in
            every order, each key once.
        separators: as `json.dumps` takes them; see `json_schema`.
        ensure_ascii: whether characters beyond ASCII are escaped; see `json_schema`.

    Raises:
        UnsupportedConstraint: part of the type has no form in JSON; names its place, such as `Order.items[].price`.
        InvalidConstraint: an annotation cannot be resolved.
    """
    asked = {
        "property_order": _checked_order(property_order),
        "separators": separators and list(separators),
        "ensure_ascii": ensure_ascii,
    }
    options = {name: value for name, value in asked.items() if value is not None}
    return _of_type(hint, _checked(whitespace), options)


def _of_type(hint: Any, whitespace: Whitespace, options: Mapping[str, Any]) -> Constraint:
    from grammars.types import type_spec

    spec = type_spec(hint)
    return _PythonTypeConstraint(write_schema(spec.enforced_schema), whitespace, options, hint, spec)
