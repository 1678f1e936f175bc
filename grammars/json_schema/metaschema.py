"""Whether a value is a schema of its draft: a quick check of our own, and `jsonschema` to name what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from grammars.errors import MISSING, InvalidConstraint, Problem
from grammars.json_schema.document import NAMED, ONE, SEVERAL, step
from grammars.json_schema.drafts import Draft

_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_MAX_PROBLEMS = 10
_MAX_BITS = 13_000
"""Longest integer, just under what Python is willing to write in decimal."""

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < _MAX_BITS


def _positive(value: Any) -> bool:
    return _number(value) and value > 0


def _count(value: Any) -> bool:
    return _number(value) and value >= 0 and value == int(value)


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value)) and len(set(value)) == len(value)


def _types(value: Any) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    return _names(value) and bool(value) and _TYPES.issuperset(value)


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _name_lists(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_names, value.values()))


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(
        ("$id", "$ref", "$schema", "$comment", "$anchor", "title", "description", "pattern", "format"), _text
    ),
    **dict.fromkeys(("contentMediaType", "contentEncoding"), _text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count
    ),
    **dict.fromkeys(("minContains", "maxContains"), _count),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _flag),
    "multipleOf": _positive,
    "type": _types,
    "enum": _list,
    "examples": _list,
    "required": _names,
    "dependentRequired": _name_lists,
}


def check(schema: Any, draft: Draft) -> None:
    """Refuses what is not a schema.

    Raises:
        InvalidConstraint: names the places.
    """
    if not _sound(schema, draft):
        raise InvalidConstraint(
            "the schema is malformed", _problems(schema, draft), action=f"correct it (draft {draft.name})"
        )


def _sound(schema: Any, draft: Draft) -> bool:
    """Whether the schema is sound; never says so wrongly of a keyword that the lowering reads."""
    table = draft.table
    old = draft.name == "4"
    stack = [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, bool):
            continue
        if not isinstance(item, dict):
            return False
        for keyword, value in item.items():
            if keyword not in table:
                continue
            checked = _CHECKS.get(keyword)
            if checked is not None:
                if old and keyword in ("exclusiveMinimum", "exclusiveMaximum"):
                    checked = _flag
                if not checked(value):
                    return False
                if old and keyword in ("required", "enum") and not value:
                    return False
            elif keyword in ONE:
                if isinstance(value, list) and keyword == "items" and "prefixItems" not in table:
                    stack.extend(value)
                else:
                    stack.append(value)
            elif keyword in SEVERAL:
                if not (isinstance(value, list) and value):
                    return False
                stack.extend(value)
            elif keyword in NAMED:
                if not (isinstance(value, dict) and all(map(_text, value))):
                    return False
                stack.extend(value.values())
            elif keyword == "dependencies":
                if not (isinstance(value, dict) and all(map(_text, value))):
                    return False
                for needed in value.values():
                    if not isinstance(needed, list):
                        stack.append(needed)
                    elif not _names(needed):
                        return False
    return True


def _problems(schema: Any, draft: Draft) -> list[Problem]:
    """What `jsonschema` finds wrong, place by place."""
    import jsonschema.validators

    validator = jsonschema.validators.validator_for({"$schema": draft.uri + "#" * (draft.ref_alone)})
    try:
        errors = list(validator(validator.META_SCHEMA).iter_errors(schema))
    except RecursionError:
        return [Problem("#", "is not a schema, and too deep to say where")]
    problems: dict[str, Problem] = {}
    for error in errors[:_MAX_PROBLEMS]:
        best = jsonschema.exceptions.best_match([error])
        place = step("#", *(best.absolute_path))
        value = best.instance if not isinstance(best.instance, dict) else MISSING
        reason = best.message if len(best.message) < 200 else "is malformed"
        problems.setdefault(place, Problem(place, reason, value))
    return list(problems.values()) or [Problem("#", "holds a number or a key that JSON cannot write")]
