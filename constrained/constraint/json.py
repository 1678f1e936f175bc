"""Constraints whose completions are JSON: of a JSON Schema, or of a Python type."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from constrained.constraint.base import Constraint, digest, shorten
from constrained.constraint.coerce import as_constraint
from constrained.constraint.json_text import (
    copy_schema,
    read_exact,
    read_schema,
    read_value,
    write_exact,
    write_schema,
)
from constrained.constraint.narrowing import optional_members
from constrained.errors import InvalidConstraint, Problem, RejectedValue
from constrained.grammars.json_schema.options import PropertyOrder, SchemaOptions, UnsupportedKeywordPolicy
from constrained.grammars.json_schema.text.punctuation import Whitespace

if TYPE_CHECKING:
    from constrained.grammars.content import StringConstraint
    from constrained.grammars.ir import Grammar
    from constrained.grammars.json_schema import KeywordReport, LoweredSchema
    from constrained.grammars.types import TypeSpec

Dates = Literal["iso", "written"]
"""Texts of dates and times: ISO 8601 alone, or what people write, too."""

MAX_DIGITS = 24
"""Digits of a number without bounds, of a Python type or of a schema in the place of a constraint: more than identifiers and
64-bit numbers have, so that only a model that repeats itself meets the limit."""

ONE_LINE = (", ", ": ")
"""Separators of JSON in one line, as `json.dumps` and chat templates write it."""

_MOST_SHARED = 20_000
"""Characters of the longest schema whose rules are kept for other constraints."""


@dataclass(frozen=True, eq=False, repr=False)
class _JsonConstraint(Constraint):
    """JSON that satisfies a schema; the value is the result of `json.loads`.

    `embedded` are the constraints of strings by name, None where none may be named.
    """

    _text: str
    options: SchemaOptions
    embedded: Mapping[str, StringConstraint] | None
    is_json = True

    @property
    def json_options(self) -> SchemaOptions:
        return self.options

    @property
    def _inside(self) -> tuple[Constraint, ...]:
        return cast("tuple[Constraint, ...]", tuple((self.embedded or {}).values()))

    @cached_property
    def schema(self) -> Any:
        from constrained.grammars.content import CHECKED_KEYWORD, CONTENT_KEYWORD
        from constrained.grammars.types.contents import shown

        schema = json.loads(self._text)
        if CONTENT_KEYWORD not in self._text and CHECKED_KEYWORD not in self._text:
            return schema
        with contextlib.suppress(RecursionError):  # of a schema that nobody reads
            return shown(schema, self.embedded or {})
        return schema

    @cached_property
    def local_schema(self) -> Any:
        from constrained.grammars.json_schema.view import local_view

        return local_view(self.schema, registry=self.options.registry, draft=self.options.draft)

    @cached_property
    def key(self) -> str:
        options = {one.name: getattr(self.options, one.name) for one in fields(self.options)}
        embedded = None if self.embedded is None else {name: one.key for name, one in self.embedded.items()}
        return digest("json", self._text, json.dumps([options, embedded], sort_keys=True))

    @property
    def shared_key(self) -> str | None:
        once = (
            self.embedded is not None
            or self.options.source_text is not None
            or len(self._text) > _MOST_SHARED
        )
        return None if once else self.key

    @cached_property
    def _lowered(self) -> LoweredSchema:
        from constrained.grammars.json_schema import lower_schema

        read = self.__dict__.pop("_read", None)
        schema = json.loads(self._text) if read is None else read
        contents = {name: partial(getattr, one, "grammar") for name, one in (self.embedded or {}).items()}
        return lower_schema(schema, replace(self.options, contents=contents))

    @property
    def grammar(self) -> Grammar:
        return self._lowered.grammar

    @property
    def report(self) -> KeywordReport:
        return self._lowered.report

    @property
    def needs_document(self) -> bool:
        return '"x-span"' in self._text and not self.options.source_text

    def bind(self, document: str, *, require_grounding: bool = False) -> Constraint:
        if '"x-span"' not in self._text and not require_grounding:
            return self
        if not isinstance(document, str):
            raise InvalidConstraint(f"a document is a str, not {type(document).__name__}")
        grounded = require_grounding or self.options.require_grounding
        return replace(self, options=replace(self.options, source_text=document, require_grounding=grounded))

    def without_document(self) -> Constraint:
        return replace(self, options=replace(self.options, source_text="")) if self.needs_document else self

    def parse(self, text: str) -> Any:
        value = read_value(text)
        if self.options.unsupported == "check":
            self._check(text, value)
        return value

    def problems(self, text: str) -> list[Problem]:
        try:
            value = read_value(text)
        except RejectedValue as error:
            return [Problem("#", error.summary)]
        from constrained.constraint.post_validation import validation_errors

        return validation_errors(self.schema, self._lowered.draft, self.options.registry, value)

    @property
    def separators(self) -> tuple[str, str]:
        """The text between two members, and behind a name, as a model mostly writes them."""
        between, behind_name = self.options.separators or (
            (",", ":") if self.options.whitespace == "none" else ONE_LINE
        )
        return between, behind_name

    @cached_property
    def enforced_schema(self) -> Any:
        from constrained.grammars.json_schema.view import local_view

        schema = json.loads(self._text)
        return local_view(schema, registry=self.options.registry, draft=self.options.draft)

    def with_schema(self, schema: Any) -> Constraint:
        """JSON of a schema made from `enforced_schema`, written in the same way; its value is the JSON value."""
        return _JsonConstraint(write_schema(schema), self.options, self.embedded)

    def optional_members(self, names: Sequence[str] | None = None) -> Constraint:
        return self.with_schema(optional_members(self.enforced_schema, names))

    def _check(self, text: str, value: Any) -> None:
        """Validates the keywords that the grammar does not enforce.

        Raises:
            RejectedValue: the value violates some of them; names these.
        """
        lowered = self._lowered
        if not lowered.unchecked:
            return
        from constrained.constraint.post_validation import validation_errors

        errors = validation_errors(self.schema, lowered.draft, self.options.registry, value)
        if errors:
            raise RejectedValue(
                "the completion violates a keyword that could not be enforced",
                errors,
                action="rewrite these keywords, or generate again at a temperature",
                text=text,
                value=value,
            )

    def render(self) -> str:
        return f"JSON of the schema {shorten(self._text)}"

    def __repr__(self) -> str:
        limits = {
            name: getattr(self.options, name) for name in ("max_digits", "max_string_length", "max_items")
        }
        said = "".join(f", {name}={limit}" for name, limit in limits.items() if limit is not None)
        return f"json_schema({shorten(self._text)}{said})"


def json_schema(
    schema: Mapping[str, Any] | bool | str | bytes,
    *,
    whitespace: Whitespace = "bounded",
    property_order: PropertyOrder = "schema",
    separators: tuple[str, str] | None = None,
    ensure_ascii: bool | None = None,
    additional_properties_default: bool = True,
    distinct_names: bool = False,
    draft: str | None = None,
    formats: bool = True,
    strict: bool = False,
    unsupported: UnsupportedKeywordPolicy = "refuse",
    registry: Any = None,
    embed: Mapping[str, Any] | None = None,
    max_digits: int | None = None,
    max_string_length: int | None = None,
    max_items: int | None = None,
) -> Constraint:
    """JSON that satisfies a JSON Schema; the value is the result of `json.loads`.

    Args:
        schema: a schema, or its JSON text.
        whitespace: white space between JSON tokens.
        property_order: ``"schema"``: members have the order in which the schema declares them; ``"any"``: any
            order, each key once.
        separators: as in `json.dumps`, for example ``(", ", ": ")``: the exact text between items and after keys. The only
            other white space is then the line breaks and indentation of ``whitespace="indent"``.
        ensure_ascii: True: all characters beyond ASCII are escaped; False: only characters are escaped that JSON
            requires to be; None: the model chooses.
        additional_properties_default: False: an object schema that declares members, and has no keyword for others,
            allows no others.
        distinct_names: True: no name comes twice in an object. Declared ones never do, nor does any other with ``property_order="any"``.
        draft: ``"4"``, ``"6"``, ``"7"``, ``"2019-09"`` or ``"2020-12"``; by default the draft of ``$schema``, or else
            the newest.
        formats: False: ``format`` constrains nothing.
        strict: refuse undefined keywords and formats instead of ignoring them.
        unsupported: ``"refuse"``: a keyword that cannot be enforced is an error; ``"check"``: it is not enforced, is
            listed as unchecked in the report, and the finished value is validated; an invalid value raises
            `RejectedValue`.
        registry: schemas that references may name by URI: a mapping, or a `referencing.Registry`. The referenced
            schemas are copied. The meta-schemas of the drafts are always included; the network is never used.
        embed: constraints by name: a string with ``"x-content": name`` contains a text of that constraint, escaped as
            `json.dumps` writes it. One that is a regular expression or a choice may stand next to other keywords for
            strings, another one not; a Lark grammar with a lexer and a predicate are refused.
        max_digits: digits that a number may have before its point and after it, where no bounds say otherwise (integers
            between two bounds are exact), and that a ``date-time``, ``time`` or ``duration`` may have in a row. None: no limit, so the language is exactly that of the schema; a schema that is
            passed as a `dict` in the place of a constraint has the limit of Python types, `MAX_DIGITS`.
        max_string_length: characters of a string that has neither ``maxLength`` nor an end of its own; None: no limit.
        max_items: items of an array without ``maxItems`` and ``contains``; None: no limit.

    Raises:
        InvalidConstraint: the schema is not JSON; names line and column of the JSON text, or the JSON Pointer.
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
    options = SchemaOptions(
        whitespace=whitespace,
        property_order=property_order,
        separators=separators,
        ensure_ascii=ensure_ascii,
        additional_properties_default=additional_properties_default,
        distinct_names=distinct_names,
        draft=draft,
        formats=formats,
        strict=strict,
        unsupported=unsupported,
        registry=_referenced_schemas(read, draft, registry),
        max_digits=max_digits,
        max_string_length=max_string_length,
        max_items=max_items,
    )
    constraint = _JsonConstraint(text, options, _embedded(embed))
    constraint.__dict__["_read"] = read  # `_lowered` takes it, so the JSON text is not parsed again
    return constraint


def _referenced_schemas(schema: Any, draft: str | None, registry: Any) -> dict[str, Any] | None:
    """The schemas of a registry that are reachable by references, as plain JSON that can be compared and pickled."""
    if registry is None:
        return None
    from constrained.grammars.json_schema import SchemaRegistry
    from constrained.grammars.json_schema.source.dialects import select_dialect

    schemas = SchemaRegistry(registry)
    reachable = schemas.reachable_from(schema, select_dialect(schema, draft, schemas))
    return {
        uri: contents if isinstance(contents, bool) else copy_schema(contents)[0]
        for uri, contents in reachable.items()
    }


def _embedded(embed: Mapping[str, Any] | None) -> dict[str, StringConstraint] | None:
    if embed is None:
        return None
    return {name: as_constraint(value) for name, value in sorted(embed.items())}


@dataclass(frozen=True, eq=False, repr=False)
class _PythonTypeConstraint(_JsonConstraint):
    """JSON of a Python type; the value is an instance of the type."""

    hint: Any
    _spec: TypeSpec
    dates: Dates = "iso"
    repeats: bool = True

    @cached_property
    def schema(self) -> Any:
        return self._spec.schema

    def parse(self, text: str) -> Any:
        value = read_value(self.standard_text(text))
        try:
            return self._spec.build(value)
        except Exception as error:  # whatever the type's own code raises
            reason = " ".join(str(error).split())
            raise RejectedValue(
                f"{self._spec.title} rejects the value of the completion: {reason or type(error).__name__}",
                action="express the rule in the schema of the type, or try again at a temperature (extract has retries=)",
                text=text,
                value=value,
            ) from error

    def standard_text(self, text: str) -> str:
        if self.dates == "iso" and self.repeats:
            return text
        from constrained.grammars.types.generated import standard_value

        value = read_exact(text)
        root = json.loads(self._text)
        standard = standard_value(value, root, root, repeats=self.repeats)
        return text if standard == value else write_exact(standard, self.options.separators or ONE_LINE)

    def render(self) -> str:
        return f"JSON of the type {self._spec.title}"

    def __repr__(self) -> str:
        return f"python_type({self._spec.title})"

    @property
    def _meaning(self) -> Any:
        return self.hint

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_type, (self.hint, self.options, self.dates, self.repeats)


def python_type(
    hint: Any,
    *,
    whitespace: Whitespace = "bounded",
    property_order: PropertyOrder = "schema",
    separators: tuple[str, str] | None = None,
    ensure_ascii: bool | None = None,
    distinct_names: bool = False,
    max_digits: int | None = MAX_DIGITS,
    max_string_length: int | None = None,
    max_items: int | None = None,
    dates: Dates = "iso",
    repeats: bool = True,
) -> Constraint:
    """JSON of a Python type; the value is an instance of the type.

    The completion is always JSON: `Literal["a", "b"]` and an `Enum` of strings are generated with quotes. For values
    without quotes use `choice(["a", "b"])`.

    Args:
        hint: a pydantic model, dataclass, `TypedDict`, `NamedTuple`, `Enum`, `Literal`, `list[int]`, `X | None`
            or a combination of them; see `constrained.grammars.types.type_spec`.
        whitespace: white space between JSON tokens.
        property_order: ``"schema"``: members have the order in which the schema declares them; ``"any"``: any
            order, each key once.
        separators: as in `json.dumps`; see `json_schema`.
        ensure_ascii: whether characters beyond ASCII are escaped; see `json_schema`.
        distinct_names: no name comes twice in an object, that of a `dict` say; see `json_schema`.
        max_digits: digits that a number without bounds may have before its point and after it; None: no limit.
        max_string_length: characters of a string without a bound; None: no limit.
        max_items: items of a list without a bound; None: no limit.
        dates: ``"written"``: a `date`, `time` or `datetime` without bounds may also be written as people do (``8 September 2001``,
            ``2:30 pm``; see `constrained.grammars.json_schema.text.python.times`), and is of the years 1000 to 2999. One that
            needs an offset is of ISO 8601.
        repeats: False: a value has no list with a string or an object twice, where the list may have one item. A list of enumerated
            texts cannot be written so; of other items the first is kept.

    Raises:
        UnsupportedConstraint: part of the type cannot be written as JSON; names its place, such as `Order.items[].price`.
        InvalidConstraint: an annotation cannot be resolved.
    """
    if dates not in get_args(Dates):
        raise InvalidConstraint(f"dates={dates!r} is not known", action="use 'iso' or 'written'")
    options = SchemaOptions(
        whitespace=whitespace,
        property_order=property_order,
        separators=separators,
        ensure_ascii=ensure_ascii,
        distinct_names=distinct_names,
        max_digits=max_digits,
        max_string_length=max_string_length,
        max_items=max_items,
    )
    return _of_type(hint, options, dates, repeats)


def _of_type(hint: Any, options: SchemaOptions, dates: Dates, repeats: bool) -> Constraint:
    from constrained.grammars.content import CHECKED_KEYWORD, CONTENT_KEYWORD
    from constrained.grammars.types import type_spec
    from constrained.grammars.types.generated import with_written_dates, without_repeats

    spec = type_spec(hint)
    enforced = spec.enforced_schema
    if dates == "written":
        enforced = with_written_dates(enforced)
    if not repeats:
        enforced = without_repeats(enforced)
    text = write_schema(enforced)
    embedded = spec.contents if CONTENT_KEYWORD in text or CHECKED_KEYWORD in text else None
    return _PythonTypeConstraint(text, options, embedded, hint, spec, dates, repeats)


as_constraint.register(object, python_type)


@as_constraint.register(Mapping)
@as_constraint.register(bool)
def _(value: Any) -> Constraint:
    return json_schema(value, max_digits=MAX_DIGITS)
