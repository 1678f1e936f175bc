"""Bounds for values that a format allows and Python cannot represent: years before 1, leap seconds, long durations.

The bounds are for the grammar only: a prompt shows the schema without them, as they do not help a model.
"""

from __future__ import annotations

from typing import Any

_PATTERNS = {
    "date": "^(?!0000)",
    "date-time": "^(?!0000|.{17}60)",
    "time": "^(?!.{6}60)",
    "duration": "^(?!.*[0-9]{7})",
}
"""Format -> ECMA-262 pattern of the values that `datetime` (and pydantic) can represent."""

_MAPS = frozenset({"properties", "$defs", "patternProperties", "dependentSchemas"})
_VALUES = frozenset({"const", "enum", "default", "examples"})


def restrict_to_python(schema: Any) -> Any:
    """A copy of a schema in which strings of these formats have these patterns."""
    if isinstance(schema, list):
        return [restrict_to_python(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copied: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            copied[keyword] = {name: restrict_to_python(part) for name, part in value.items()}
        else:
            copied[keyword] = value if keyword in _VALUES else restrict_to_python(value)
    pattern = _PATTERNS.get(schema["format"]) if isinstance(schema.get("format"), str) else None
    if pattern and schema.get("type") == "string" and "pattern" not in schema:
        copied["pattern"] = pattern
    return copied
