"""Lists whose items a text names one beside the other: enumerated values, and numbers.

A small model that has begun a list of enumerated values goes on with the other options, and adds numbers to one of numbers. So such a list has the options
that the text names, in its order, or the numbers that it enumerates; where that is none, the model writes the list, and so does one that
writes lists right (`constrained.extraction.trial`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any

from constrained.decisions.naming import named_places
from constrained.decisions.questions import followed, leaf_members, member_pointer
from constrained.extraction.enumerations import are_joined
from constrained.extraction.quantities import quantity_kind
from constrained.extraction.stated_numbers import plain_numbers
from constrained.grammars.json_schema.view import without_null

_KEYWORDS = frozenset(
    {"type", "title", "description", "default", "items", "uniqueItems", "minItems", "maxItems"}
)
_NUMBERS = ("integer", "number")


def plain_list(schema: Any) -> Mapping[str, Any] | None:
    """The schema of a list of which nothing is said but its items and how many there are; None: it is none."""
    schema = without_null(schema)
    is_list = isinstance(schema, Mapping) and schema.get("type") == "array" and not set(schema) - _KEYWORDS
    return schema if is_list else None


def closed_lists(constraint: Any) -> dict[str, Mapping[str, Any]]:
    """The schemas of the lists of enumerated strings, and of numbers, of a constraint, by JSON Pointer."""
    schema = constraint.enforced_schema if constraint.is_json else None
    return dict(_lists(schema))


def _lists(root: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, member, _ in leaf_members(root, nullable=True):
        schema = plain_list(followed(member, root))
        if schema is None:
            continue
        items = followed(schema.get("items"), root)
        options = items.get("enum") if isinstance(items, Mapping) else None
        is_closed = isinstance(options, list) and all(isinstance(one, str) for one in options)
        if is_closed or quantity_kind(items) in _NUMBERS:
            yield member_pointer(path), {**schema, "items": items}


def named_lists(lists: Mapping[str, Mapping[str, Any]], text: str) -> dict[str, list[Any]]:
    """The values of lists of which a text names items, by JSON Pointer; `lists`: of `closed_lists`.

    Of several lists of numbers none has a value.
    """
    found: dict[str, list[Any]] = {}
    counts = [pointer for pointer, schema in lists.items() if "enum" not in schema["items"]]
    for pointer, schema in lists.items():
        if "enum" in schema["items"]:
            options = schema["items"]["enum"]
            places = named_places(options, text)
            named = [options[index] for index in sorted(places, key=lambda index: places[index])]
        else:
            named = _numbers(text, schema["items"]["type"]) if len(counts) == 1 else []
        if named and schema.get("minItems", 0) <= len(named) <= schema.get("maxItems", len(named)):
            found[pointer] = named
    return found


def _numbers(text: str, kind: str) -> list[int | float]:
    """The numbers of the only enumeration of a text, or its only number; empty: it has several, or they are of another kind."""
    numbers = sorted((place, value) for value, row in plain_numbers(text).items() for place in row)
    if any(one[0][1] > other[0][0] for one, other in pairwise(numbers)):  # 1,250 may be two
        return []
    runs: list[list[Decimal]] = []
    for number, (place, value) in enumerate(numbers):
        if number and are_joined(text, numbers[number - 1][0], place):
            runs[-1].append(value)
        else:
            runs.append([value])
    runs = [run for run in runs if len(run) > 1 or len(runs) == 1]
    if len(runs) != 1 or (kind == "integer" and any(value % 1 for value in runs[0])):
        return []
    return [float(value) if value % 1 else int(value) for value in runs[0]]
