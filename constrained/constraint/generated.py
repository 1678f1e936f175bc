"""`generated_constraint`: the constraint of what a model writes for a type or a schema; `fields`: a record without a class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_origin

from constrained.constraint.base import Constraint, shorten
from constrained.constraint.coerce import as_constraint
from constrained.constraint.json import MAX_DIGITS, ONE_LINE, json_schema, python_type
from constrained.errors import InvalidConstraint, Problem


def generated_constraint(
    value: Any,
    *,
    closed: bool = True,
    repeats: bool = False,
    max_string_length: int | None = None,
    max_items: int | None = None,
) -> Constraint:
    """The constraint that a value stands for where a model writes and nobody reads what others wrote.

    As `as_constraint`, but JSON comes in one line, objects that declare members have no others, unless the schema has
    ``additionalProperties``, and no name comes twice. Models write both better: a small one fills an open object with the schema that it was shown, and goes
    on with a list until its limit.
    A constraint is unchanged.

    Args:
        value: as for `as_constraint`.
        repeats: lists of strings and of objects in a Python type may have an item twice.
        closed: False: objects of a schema have undeclared members, too.
        max_string_length: as for `json_schema`, of a type or a schema.
        max_items: likewise.

    Raises:
        ConstraintError: as `as_constraint`.
    """
    bounds: dict[str, Any] = {"max_string_length": max_string_length, "max_items": max_items}
    form: dict[str, Any] = {"separators": ONE_LINE, "distinct_names": True, **bounds}
    if isinstance(value, Mapping) and value and all(map(_is_type, value.values())):
        value = fields(value)
    if isinstance(value, Mapping | bool):
        constraint = json_schema(
            value, additional_properties_default=not closed, max_digits=MAX_DIGITS, **form
        )
        _check_keywords(value, constraint)
        return constraint
    if as_constraint.dispatch(type(value)) is as_constraint.dispatch(object):
        return python_type(value, dates="written", repeats=repeats, **form)
    given = [name for name, bound in bounds.items() if bound is not None]
    if given:
        raise InvalidConstraint(
            f"{given[0]} bounds what a type or a schema leaves open, and the constraint is finished",
            action=f"pass it there: json_schema(schema, {given[0]}={bounds[given[0]]})",
        )
    return as_constraint(value)


def fields(members: str | Mapping[str, Any]) -> Any:
    """The type of a record without a class, such as ``"name, born: date, tags: list[str]"``; its values are dicts.

    Args:
        members: names with types, as of the parameters of a function; a name without a type is a `str`. Or a dict from names to
            types, which `extract` and `generate` also take as it is.

    Raises:
        InvalidConstraint: the text is not of this form, or names a type that is not known.
    """
    from constrained.grammars.types.shorthand import record_type

    return record_type(members)


def _is_type(value: Any) -> bool:
    """Whether a value can only be meant as a type: no JSON Schema has such a value."""
    return isinstance(value, type) or get_origin(value) is not None


def _check_keywords(schema: Any, constraint: Constraint) -> None:
    """Refuses a schema that says nothing, or misspells a keyword: everything would be allowed in its place.

    Raises:
        InvalidConstraint: names the keyword, and the one that is meant.
    """
    from constrained.grammars.json_schema.source.dialects import is_keyword, misspelt_keyword

    if not isinstance(schema, Mapping) or not schema:
        return
    # The report reads the whole schema once more: most schemas have no name that it could be about.
    if any(map(is_keyword, schema)) and not any(map(misspelt_keyword, _names(schema))):
        return
    unknown = [entry for entry in constraint.report if entry.status == "unknown"]
    names = {entry.keyword for entry in unknown if entry.pointer.count("/") == 1}
    if names >= set(schema):
        members = ", ".join(f"{json.dumps(name)}: {{...}}" for name in list(schema)[:3])
        raise InvalidConstraint(
            f"the schema says nothing: {shorten(json.dumps(dict(schema)))} has no keyword of JSON Schema",
            action=f'did you mean {{"type": "object", "properties": {{{members}}}}}? Or name the members: '
            'fields("name, born: date")',
        )
    for entry in unknown:
        meant = misspelt_keyword(entry.keyword)
        if meant is not None:
            raise InvalidConstraint(
                f"{entry.keyword!r} is no keyword of JSON Schema, and would be ignored",
                Problem(entry.pointer, f"did you mean {meant!r}?"),
                action="correct it, or pass json_schema(schema), which takes unknown keywords as annotations",
            )


def _names(schema: Mapping[str, Any]) -> set[str]:
    """The names at all places of a schema where keywords stand, or could stand if a ``$ref`` points at them."""
    from constrained.grammars.json_schema.source.document import SCHEMA_MAP_KEYWORDS

    names: set[str] = set()
    values: list[Any] = [schema]
    while values:
        value = values.pop()
        if isinstance(value, Mapping):
            names.update(value)
            for name, inner in value.items():
                named = name in SCHEMA_MAP_KEYWORDS and isinstance(inner, Mapping)
                values.extend(inner.values() if named else [inner])
        elif isinstance(value, list | tuple):
            values.extend(value)
    return names
