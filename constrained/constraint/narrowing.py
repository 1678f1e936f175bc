"""Schemas in which some members have a value that is known already, or may be left out, for documents that are read in parts."""

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
    return {**schema, "properties": members, **({"required": required} if required else {})}


_OBJECT_COUNTS = ("required", "minProperties", "dependentRequired", "dependencies")
_ARRAY_COUNTS = ("minItems", "minContains", "contains")


def optional_members(schema: Any, names: Sequence[str] | None = None) -> Any:
    """A copy of a schema in which members of objects outside of arrays are optional, and arrays there may be shorter.

    Items of arrays keep what they require, and so do the alternatives of `oneOf` and `anyOf`, apart from `X | null`.

    Args:
        schema: a JSON Schema whose references are pointers, see `constrained.grammars.json_schema.view`.
        names: the members of the top-level object to keep; None: all.
    """
    relaxed = _relax(schema, schema, frozenset())
    if names is not None and isinstance(relaxed, Mapping) and isinstance(relaxed.get("properties"), Mapping):
        kept = {name: one for name, one in relaxed["properties"].items() if name in names}
        relaxed = {**relaxed, "properties": kept}
    if isinstance(relaxed, Mapping) and isinstance(schema, Mapping):
        relaxed = {
            **{key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema},
            **relaxed,
        }
    return relaxed


def _relax(schema: Any, root: Any, above: frozenset[str]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    pointer = schema.get("$ref")
    if isinstance(pointer, str):
        target = target_of(root, pointer)
        if not isinstance(target, Mapping) or pointer == "#" or pointer in above:
            return dict(schema)
        beside = {key: value for key, value in schema.items() if key not in ("$ref", "$defs", "definitions")}
        return {**_relax(target, root, above | {pointer}), **beside}
    changed = {key: value for key, value in schema.items() if key not in (*_OBJECT_COUNTS, *_ARRAY_COUNTS)}
    if isinstance(schema.get("properties"), Mapping):
        changed["properties"] = {
            name: _relax(member, root, above) for name, member in schema["properties"].items()
        }
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list):
            real = [one for one in branches if one != {"type": "null"}]
            changed[keyword] = (
                [one if one == {"type": "null"} else _relax(one, root, above) for one in branches]
                if len(real) == 1
                else branches
            )
    return changed
