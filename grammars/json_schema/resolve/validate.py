"""Whether a given value satisfies schemas: a small validator over the same shapes that are lowered.

Whether a text has a format is not always decided. A value is admitted if it surely satisfies the schemas, so what is
denied of it must surely fail: everything here is asked for sure, or, where `perhaps`, as far as can be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from grammars.json_schema.resolve.expand import Cases
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.constraints import Counted, Denied, Goal, Shape, type_of
from grammars.json_schema.source.document import Node
from grammars.json_schema.text.literals import key_of
from grammars.json_schema.text.numbers import decimal


class Admits:
    """Judges values by what schemas say."""

    def __init__(self, cases: Cases) -> None:
        self.cases = cases
        self.whole_floats = cases.document.draft.whole_floats

    def goal(self, goal: Goal, value: Any, *, perhaps: bool = False) -> bool:
        """Whether a value satisfies all the schemas of a goal."""
        return all(self.node(node, value, perhaps) for node in goal)

    def node(self, node: Node, value: Any, perhaps: bool = False) -> bool:
        """Whether a value satisfies a schema."""
        if node.denies is not None:
            return not self.node(node.denies, value, not perhaps)
        facts = node.facts or self.cases.facts(node)
        if facts.limits and not self.shape(facts.shape, value, perhaps):
            return False
        if facts.plain:
            return True
        self.cases.check_sound(node)
        return (
            all(self.node(other, value, perhaps) for other in facts.also)
            and all(
                any(self.node(other, value, perhaps) for other in branches) for _, branches in facts.either
            )
            and all(self.one(branches, value, perhaps) for branches in facts.one)
            and all(not self.one(branches, value, not perhaps) for branches in facts.several)
            and (facts.rest is None or self.rest(facts.rest, value, perhaps))
            and (facts.wrong_rest is None or not self.rest(facts.wrong_rest, value, not perhaps))
        )

    def one(self, branches: Sequence[Node], value: Any, perhaps: bool) -> bool:
        """Whether a value satisfies exactly one of some schemas."""
        surely = [self.node(other, value) for other in branches]
        if sum(surely) > 1:
            return False
        count = sum(
            sure or self.node(other, value, True) for sure, other in zip(surely, branches, strict=True)
        )
        return count > 0 if perhaps else count == sum(surely) == 1

    def rest(self, node: Node, value: Any, perhaps: bool) -> bool:
        """Whether all that a schema leaves unevaluated is as it says."""
        return any(self.node(other, value, perhaps) for other in self.cases.rest(node))

    def listed(self, shape: Shape) -> list[Any]:
        """Those of a shape's listed values that satisfy the rest of it."""
        return [value for value in shape.values or () if self.shape(shape, value, listed=True)]

    def shape(self, shape: Shape, value: Any, perhaps: bool = False, *, listed: bool = False) -> bool:
        """Whether a value has a shape; it is known to be one of the listed values when `listed`."""
        kind = type_of(value, self.whole_floats)
        if not kind & shape.types:
            return False
        if shape.values is not None and not listed:
            wanted = key_of(value)
            if not any(key_of(other) == wanted for other in shape.values):
                return False
        if shape.excluded and kind not in (f.ARRAY, f.OBJECT):
            wanted = key_of(value)
            if any(key_of(other) == wanted for other in shape.excluded):
                return False
        if kind & f.NUMBER:
            number = decimal(value)
            return (
                shape.bounds.holds(number)
                and all(_divides(step, number) for step in shape.multiples)
                and not any(_divides(step, number) for step in shape.indivisible)
            )
        if kind == f.STRING:
            if len(value) < shape.min_length or (
                shape.max_length is not None and len(value) > shape.max_length
            ):
                return False
            if perhaps:
                return all(pattern.may_match(value) for pattern in shape.patterns)
            return all(pattern.matches(value) for pattern in shape.patterns)
        if kind == f.ARRAY:
            if len(value) < shape.min_items or (shape.max_items is not None and len(value) > shape.max_items):
                return False
            if shape.unique and len({key_of(item) for item in value}) < len(value):
                return False
            return all(
                self.goal(_on(shape.items, i), item, perhaps=perhaps) for i, item in enumerate(value)
            ) and all(self.counted(counted, value, perhaps) for counted in shape.counted)
        return kind != f.OBJECT or self.members(shape, value, perhaps)

    def members(self, shape: Shape, value: dict[str, Any], perhaps: bool) -> bool:
        """Whether an object's keys and members are what the shape asks."""
        if len(value) < shape.min_members or (
            shape.max_members is not None and len(value) > shape.max_members
        ):
            return False
        if any(name not in value for name in shape.required):
            return False
        for name, item in value.items():
            if shape.names and not self.goal(shape.names, name, perhaps=perhaps):
                return False
            if not self.goal(_on(shape.members, name), item, perhaps=perhaps):
                return False
        return all(self.fails(denied, value, not perhaps) for denied in shape.denied)

    def counted(self, counted: Counted, value: Sequence[Any], perhaps: bool) -> bool:
        """Whether as many items as asked satisfy the schema of their position."""

        def count(perhaps: bool) -> int:
            goals = (tuple(counted.items.on(i)) for i in range(len(value)))
            return sum(
                bool(goal) and self.goal(goal, item, perhaps=perhaps)
                for goal, item in zip(goals, value, strict=True)
            )

        return counted.least <= count(perhaps) and (
            counted.most is None or count(not perhaps) <= counted.most
        )

    def fails(self, denied: Denied, value: dict[str, Any], perhaps: bool) -> bool:
        """Whether something fails of what is said about objects."""
        return (
            any(name not in value for name in denied.required)
            or any(not self.goal(denied.names, name, perhaps=perhaps) for name in value)
            or any(
                not self.goal(_on(denied.members, name), item, perhaps=perhaps)
                for name, item in value.items()
            )
        )


def _on(parts: Iterable[Any], place: Any) -> Goal:
    """The schemas that items or members lay on a place."""
    return tuple(node for part in parts for node in part.on(place))


def _divides(step: Decimal, value: Decimal) -> bool:
    a, b = value.as_integer_ratio()
    c, d = step.as_integer_ratio()
    return (a * d) % (b * c) == 0
