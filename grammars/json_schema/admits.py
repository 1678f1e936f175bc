"""Whether a given value satisfies schemas: a small validator over the same shapes that are lowered."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from grammars.json_schema import facts as f
from grammars.json_schema.cases import Cases
from grammars.json_schema.facts import Goal, Shape
from grammars.json_schema.numbers import decimal
from grammars.json_schema.values import key_of


def type_of(value: Any, whole_floats: bool) -> int:
    """The type of a JSON value; whether 1.0 is an integer depends on the draft."""
    if value is None:
        return f.NULL
    if isinstance(value, bool):
        return f.BOOLEAN
    if isinstance(value, str):
        return f.STRING
    if isinstance(value, int):
        return f.INTEGER
    if isinstance(value, (float, Decimal)):
        return f.INTEGER if whole_floats and value == int(value) else f.FRACTION
    return f.ARRAY if isinstance(value, (list, tuple)) else f.OBJECT


class Admits:
    """Judges values by the cases of goals."""

    def __init__(self, cases: Cases) -> None:
        self.cases = cases
        self.whole_floats = cases.document.draft.whole_floats

    def goal(self, goal: Goal, value: Any) -> bool:
        """Whether a value satisfies all the schemas of a goal."""
        return any(self.shape(self.cases.shape(case), value) for case in self.cases.expand(goal))

    def listed(self, shape: Shape) -> list[Any]:
        """Those of a shape's listed values that satisfy the rest of it."""
        return [value for value in shape.values or () if self.shape(shape, value, listed=True)]

    def shape(self, shape: Shape, value: Any, *, listed: bool = False) -> bool:
        """Whether a value has a shape; it is known to be one of the listed values when `listed`."""
        kind = type_of(value, self.whole_floats)
        if not kind & shape.types:
            return False
        if shape.values is not None and not listed:
            wanted = key_of(value)
            if not any(key_of(other) == wanted for other in shape.values):
                return False
        if kind & f.NUMBER:
            number = decimal(value)
            return shape.bounds.holds(number) and all(_divides(step, number) for step in shape.multiples)
        if kind == f.STRING:
            if len(value) < shape.min_length or (
                shape.max_length is not None and len(value) > shape.max_length
            ):
                return False
            return all(pattern.matches(value) for pattern in shape.patterns)
        if kind == f.ARRAY:
            if len(value) < shape.min_items or (shape.max_items is not None and len(value) > shape.max_items):
                return False
            return all(
                self.goal(tuple(node for items in shape.items for node in items.on(i)), item)
                for i, item in enumerate(value)
            )
        return kind != f.OBJECT or self.members(shape, value)

    def members(self, shape: Shape, value: dict[str, Any]) -> bool:
        """Whether an object's keys and members are what the shape asks."""
        if len(value) < shape.min_members or (
            shape.max_members is not None and len(value) > shape.max_members
        ):
            return False
        if any(name not in value for name in shape.required):
            return False
        for name, item in value.items():
            if shape.names and not self.goal(shape.names, name):
                return False
            if not self.goal(tuple(node for members in shape.members for node in members.on(name)), item):
                return False
        return True


def _divides(step: Decimal, value: Decimal) -> bool:
    a, b = value.as_integer_ratio()
    c, d = step.as_integer_ratio()
    return (a * d) % (b * c) == 0
