"""Schemas in which some members have a value that is known already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from constrained.grammars.json_pointer import unescape
from constrained.grammars.json_schema.view import target_of, without_null


def with_known_members(schema: Any, known: Mapping[str, Any], absent: Sequence[str]) -> Any:
    """A copy of a schema in which members of objects have one value, or are left out; of required ones the value is null then.

    Args:
        schema: a JSON Schema whose references are pointers, see `constrained.grammars.json_schema.view`.
        known: values by the JSON Pointer of the member; the members are required then.
        absent: pointers of members that may be left out or null.
    """
    changed = schema
    for pointer, member in [
        *((pointer, {"enum": [value]}) for pointer, value in known.items()),
        *((pointer, None) for pointer in absent),
    ]:
        changed = _with_member(changed, schema, [unescape(token) for token in pointer.split("/")[1:]], member)
    return changed


def _with_member(schema: Any, root: Any, path: Sequence[str], member: Any) -> Any:
    schema = without_null(schema)
    if isinstance(schema.get("$ref"), str) and "properties" not in schema:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**target_of(root, schema["$ref"]), **beside}
    name, *inside = path
    members = dict(schema["properties"])
    required = list(schema.get("required", ()))
    if inside:
        members[name] = _with_member(members[name], root, inside, member)
    elif member is None:
        members[name] = {"enum": [None]} if name in required else {"not": {}}
    else:
        members[name] = member
    if member is not None and name not in required:
        required.append(name)
    return (
        {**schema, "properties": members, "required": required}
        if required
        else {**schema, "properties": members}
    )
