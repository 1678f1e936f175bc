"""``require_grounding``: a schema narrowed to values that stand in a text.

strings                   verbatim spans (``x-span``)
numbers                   one of the numbers that the text states
dates, times, moments     one of the dates and times that it states
enum, const, booleans     as they are: they are read out of a text, not copied
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from constrained.grammars.errors import MISSING, Problem, UnsupportedConstraint
from constrained.grammars.json_schema.source.document import (
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
    child_pointer,
)
from constrained.grammars.text.quantities import Quantities, find_quantities

_CONDITIONS = frozenset({"not", "if", "contains", "propertyNames"})
"""Keywords whose schemas describe values without allowing them, or keys."""
_APPLICATORS = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf"})
_EVERYTHING = ["null", "boolean", "object", "array", "number", "string"]


def grounded_schema(schema: Any, text: str) -> Any:
    """A copy of a schema whose strings, numbers and dates must stand in a text. Objects are closed.

    Raises:
        UnsupportedConstraint: names each place that allows values of any kind.
    """
    problems: list[Problem] = []
    quantities = find_quantities(text)
    made = _grounded(schema, quantities, "#", problems)
    if problems:
        raise UnsupportedConstraint(
            "require_grounding needs to know where strings and numbers may stand",
            problems,
            action="give these places a type",
        )
    return made


def _grounded(schema: Any, quantities: Quantities, place: str, problems: list[Problem]) -> Any:
    if schema is True or schema == {}:
        problems.append(Problem(place, "allows any value", schema))
        return schema
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        at = child_pointer(place, keyword)
        if keyword in _CONDITIONS:
            made[keyword] = value
        elif keyword in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            made[keyword] = {
                name: _grounded(part, quantities, child_pointer(at, name), problems)
                for name, part in value.items()
            }
        elif isinstance(value, list) and (keyword in SCHEMA_LIST_KEYWORDS or keyword == "items"):
            made[keyword] = [
                _grounded(part, quantities, child_pointer(at, i), problems) for i, part in enumerate(value)
            ]
        elif keyword in SCHEMA_KEYWORDS:
            made[keyword] = _grounded(value, quantities, at, problems)
        else:
            made[keyword] = value
    if "enum" in schema or "const" in schema or "x-content" in schema:
        if "x-content" in schema and "enum" not in schema and "const" not in schema:
            return _content(made, quantities)
        return made
    named = schema.get("type")
    types = [named] if isinstance(named, str) else named
    if types is None:
        if any(keyword in schema for keyword in _APPLICATORS):
            return made
        types = _EVERYTHING
        problems.append(Problem(place, "has no type", MISSING))
    if "object" in types and "additionalProperties" not in schema and "unevaluatedProperties" not in schema:
        if "properties" not in schema and "patternProperties" not in schema:
            problems.append(Problem(place, "allows members of any kind", MISSING))
        made["additionalProperties"] = False
    if "array" in types and not any(keyword in schema for keyword in ("items", "prefixItems")):
        problems.append(Problem(place, "allows items of any kind", MISSING))
    return _scalars(made, types, quantities)


def _scalars(made: dict[str, Any], types: Iterable[str], quantities: Quantities) -> dict[str, Any]:
    """Adds what scalars must equal."""
    conditions: list[dict[str, Any]] = []
    if "string" in types:
        described = made.get("format")
        pattern = _format_pattern(described, quantities) if isinstance(described, str) else None
        if pattern is None:
            made.setdefault("x-span", True)
        else:
            conditions.append({"pattern": pattern})
    if "number" in types or "integer" in types:
        others = [name for name in _EVERYTHING if name != "number"]
        numbers = [number for value in (*quantities.numbers, *quantities.scaled) for number in _plain(value)]
        stated = [{"enum": numbers}] if numbers else []
        conditions.append({"anyOf": [{"type": others}, *stated]})
    if conditions:
        made["allOf"] = [*made.get("allOf", ()), *conditions]
    return made


def _plain(value: Decimal) -> list[int | float]:
    """The number as JSON has it; none where a float would be another number."""
    if value == value.to_integral_value():
        return [int(value)] if value.adjusted() < 40 else []
    return [float(value)] if Decimal(repr(float(value))) == value else []


def _format_pattern(name: str, quantities: Quantities) -> str | None:
    """The ECMA-262 pattern of the dates and times of a text; None for other formats."""
    days = sorted(day.isoformat() for day in quantities.dates)
    clocks = sorted(clock.isoformat() for clock in quantities.times)
    # Seconds and fractions that nobody wrote may be zero. The zone is not checked: texts seldom state it.
    clock = rf"(?:{_either(clocks)})(?:\.0+)?(?:[Zz]|[+-]\d\d:\d\d)?"
    midnight = r"(?:00:00:00)(?:\.0+)?(?:[Zz]|[+-]\d\d:\d\d)?"
    if name == "date":
        return f"^(?:{_either(days)})$"
    if name == "time":
        return f"^{clock}$"
    if name == "date-time":
        return f"^(?:{_either(days)})[Tt ](?:{clock}|{midnight})$"
    return None


def _either(texts: list[str]) -> str:
    return "|".join(map(re.escape, texts)) if texts else "(?!)"


_KINDS = {"datetime": "date-time", "date": "date", "time": "time"}


def _content(made: dict[str, Any], quantities: Quantities) -> dict[str, Any]:
    """Strings of a Python type (`constrained.grammars.content`): those of dates and times as their formats, others as spans."""
    content = made["x-content"]
    kind = next(iter(content)) if isinstance(content, dict) and content else ""
    pattern = _format_pattern(_KINDS.get(kind, ""), quantities)
    if pattern is None:
        return {**made, "x-span": made.get("x-span", True)}
    return {**made, "allOf": [*made.get("allOf", ()), {"pattern": pattern}]}
