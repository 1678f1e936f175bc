"""What a model may write of a type, in the place of all that the type reads: dates as people write them, lists without repeats."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from constrained.grammars.content import CONTENT_KEYWORD
from constrained.grammars.text.quantities import read_date, read_datetime, read_time
from constrained.grammars.types.contents import copied


def with_written_dates(schema: Any) -> Any:
    """The enforced schema of a type, with dates and times also in the forms of `constrained.grammars.json_schema.text.python.times`."""
    return copied(schema, _allow_written)


def without_repeats(schema: Any) -> Any:
    """The enforced schema of a type, whose lists of enumerated texts have no item twice.

    Lists of objects and of other strings are left: where a string may not come again, a model writes another one that the text does not
    have. They end at the first repeat (`constrained.decoding.repetition`), which `standard_value` leaves out.
    """
    return copied(schema, lambda part: _forbid_repeats(part, schema))


def _forbid_repeats(part: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    items = part.get("items")
    if (
        part.get("type") != "array"
        or not isinstance(items, dict)
        or "uniqueItems" in part
        or not _may_end(part)
    ):
        return part
    if isinstance(reference := items.get("$ref"), str):
        items = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    values = items.get("enum", [items["const"]] if "const" in items else [None])
    return {**part, "uniqueItems": True} if all(isinstance(one, str) for one in values) else part


def _may_end(array: Mapping[str, Any]) -> bool:
    """Whether an array may have one item."""
    return bool(array.get("minItems", 0) <= 1)


def _allow_written(part: dict[str, Any]) -> dict[str, Any]:
    content = part.get(CONTENT_KEYWORD)
    if isinstance(content, dict) and (kind := next(iter(content), None)) in _READERS:
        part[CONTENT_KEYWORD] = {kind: {**content[kind], "written": True}}
    return part


_READERS: Mapping[str, Callable[[str], dt.date | dt.time | None]] = {
    "date": read_date,
    "datetime": read_datetime,
    "time": read_time,
}
"""Kind of a text -> what reads it as people write it; None for other texts and those of ISO 8601."""


def standard_value(value: Any, schema: Any, root: Mapping[str, Any], *, repeats: bool) -> Any:
    """A JSON value with its dates and times as ISO 8601 writes them, and its lists of strings or objects without repeats.

    A string that may be a date or any other text stays as it is.

    Args:
        value: JSON of the schema.
        schema: as `with_written_dates` made it; or a part of it.
        root: the whole, for references.
        repeats: lists are left as they are.
    """
    if not isinstance(schema, Mapping):
        return value
    if isinstance(reference := schema.get("$ref"), str):
        value = standard_value(
            value, root.get("$defs", {}).get(reference.removeprefix("#/$defs/")), root, repeats=repeats
        )
    for part in schema.get("allOf", ()):
        value = standard_value(value, part, root, repeats=repeats)
    alternatives = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if not (isinstance(value, str) and any(map(_is_any_text, alternatives))):
        for part in alternatives:
            value = standard_value(value, part, root, repeats=repeats)
    if isinstance(value, str):
        content = schema.get(CONTENT_KEYWORD)
        kind = next(iter(content), "") if isinstance(content, Mapping) else ""
        found = _READERS[kind](value) if kind in _READERS else None
        return value if found is None else found.isoformat()
    if isinstance(value, dict):
        members, others = schema.get("properties", {}), schema.get("additionalProperties")
        return {
            name: standard_value(one, members.get(name, others), root, repeats=repeats)
            for name, one in value.items()
        }
    if isinstance(value, list):
        first, others = schema.get("prefixItems", []), schema.get("items")
        read = [
            standard_value(one, first[i] if i < len(first) else others, root, repeats=repeats)
            for i, one in enumerate(value)
        ]
        if repeats or not _may_end(schema) or not all(isinstance(one, str | dict) for one in read):
            return read
        return list({repr(one): one for one in read}.values())
    return value


def _is_any_text(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string" and len(schema) == 1
