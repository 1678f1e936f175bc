"""Lists of enumerated values: the options that a text names.

A small model that has begun such a list goes on with the other options. So the list has those that the text names, in its order; where it names
none, the model writes the list, and so does one that writes lists right (`constrained.extraction.trial`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from constrained.decisions.naming import named_places
from constrained.decisions.questions import followed, leaf_members, member_pointer
from constrained.grammars.json_schema.view import without_null

_KEYWORDS = frozenset(
    {"type", "title", "description", "default", "items", "uniqueItems", "minItems", "maxItems"}
)


def plain_list(schema: Any) -> Mapping[str, Any] | None:
    """The schema of a list of which nothing is said but its items and how many there are; None: it is none."""
    schema = without_null(schema)
    is_list = isinstance(schema, Mapping) and schema.get("type") == "array" and not set(schema) - _KEYWORDS
    return schema if is_list else None


def closed_lists(constraint: Any) -> dict[str, Mapping[str, Any]]:
    """The schemas of the lists of enumerated strings of a constraint, by JSON Pointer."""
    schema = constraint.enforced_schema if constraint.is_json else None
    return dict(_lists(schema))


def _lists(root: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, member, _ in leaf_members(root, nullable=True):
        schema = plain_list(followed(member, root))
        if schema is None:
            continue
        items = followed(schema.get("items"), root)
        options = items.get("enum") if isinstance(items, Mapping) else None
        if isinstance(options, list) and all(isinstance(one, str) for one in options):
            yield member_pointer(path), {**schema, "items": items}


def named_lists(lists: Mapping[str, Mapping[str, Any]], text: str) -> dict[str, list[str]]:
    """The values of lists of which a text names items, by JSON Pointer; `lists`: of `closed_lists`."""
    found = {}
    for pointer, schema in lists.items():
        options = schema["items"]["enum"]
        places = named_places(options, text)
        named = [options[index] for index in sorted(places, key=lambda index: places[index])]
        if named and schema.get("minItems", 0) <= len(named) <= schema.get("maxItems", len(named)):
            found[pointer] = named
    return found
