"""Whether a given value satisfies schemas: a small validator over the same shapes that are lowered.

Whether a text has a format is not always decided. A value is admitted if it surely satisfies the schemas, so what is
denied of it must surely fail: everything here is asked for sure, or, where `perhaps`, as far as can be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from grammars.json_schema.resolve.expand import DnfExpansion
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.constraints import (
    Conjunction,
    ContainsConstraint,
    NegatedObject,
    TypeConstraints,
    type_bit_of,
)
from grammars.json_schema.source.document import SchemaNode
from grammars.json_schema.text.literals import equality_key
from grammars.json_schema.text.numbers import decimal


class InstanceValidator:
    """Judges values by what schemas say."""

    def __init__(self, cases: DnfExpansion) -> None:
        self.cases = cases
        self.whole_floats = cases.document.dialect.integral_floats

    def satisfies_all(self, goal: Conjunction, value: Any, *, possibly: bool = False) -> bool:
        """Whether a value satisfies all the schemas of a goal."""
        return all(self.satisfies_schema(node, value, possibly) for node in goal)

    def satisfies_schema(self, node: SchemaNode, value: Any, possibly: bool = False) -> bool:
        """Whether a value satisfies a schema."""
        if node.negates is not None:
            return not self.satisfies_schema(node.negates, value, not possibly)
        facts = node.parsed or self.cases.parse_schema(node)
        if facts.limits and not self.meets_constraints(facts.constraints, value, possibly):
            return False
        if facts.is_flat:
            return True
        self.cases.check_acyclic(node)
        return (
            all(self.satisfies_schema(other, value, possibly) for other in facts.all_of)
            and all(
                any(self.satisfies_schema(other, value, possibly) for other in branches)
                for _, branches in facts.any_of
            )
            and all(self.satisfies_exactly_one(branches, value, possibly) for branches in facts.one_of)
            and all(
                not self.satisfies_exactly_one(branches, value, not possibly)
                for branches in facts.none_or_many
            )
            and (facts.unevaluated is None or self.satisfies_unevaluated(facts.unevaluated, value, possibly))
            and (
                facts.violated_unevaluated is None
                or not self.satisfies_unevaluated(facts.violated_unevaluated, value, not possibly)
            )
        )

    def satisfies_exactly_one(self, branches: Sequence[SchemaNode], value: Any, possibly: bool) -> bool:
        """Whether a value satisfies exactly one of some schemas."""
        surely = [self.satisfies_schema(other, value) for other in branches]
        if sum(surely) > 1:
            return False
        count = sum(
            sure or self.satisfies_schema(other, value, True)
            for sure, other in zip(surely, branches, strict=True)
        )
        return count > 0 if possibly else count == sum(surely) == 1

    def satisfies_unevaluated(self, node: SchemaNode, value: Any, possibly: bool) -> bool:
        """Whether all that a schema leaves unevaluated is as it says."""
        return any(
            self.satisfies_schema(other, value, possibly) for other in self.cases.unevaluated_disjuncts(node)
        )

    def listed(self, shape: TypeConstraints) -> list[Any]:
        """Those of a shape's listed values that satisfy the rest of it."""
        return [
            value for value in shape.enum_values or () if self.meets_constraints(shape, value, listed=True)
        ]

    def meets_constraints(
        self, shape: TypeConstraints, value: Any, possibly: bool = False, *, listed: bool = False
    ) -> bool:
        """Whether a value has a shape; it is known to be one of the listed values when `listed`."""
        kind = type_bit_of(value, self.whole_floats)
        if not kind & shape.types:
            return False
        if shape.enum_values is not None and not listed:
            wanted = equality_key(value)
            if not any(equality_key(other) == wanted for other in shape.enum_values):
                return False
        if shape.excluded_values and kind not in (f.ARRAY, f.OBJECT):
            wanted = equality_key(value)
            if any(equality_key(other) == wanted for other in shape.excluded_values):
                return False
        if kind & f.NUMBER:
            number = decimal(value)
            return (
                shape.bounds.contains_number(number)
                and all(_divides(step, number) for step in shape.divisors)
                and not any(_divides(step, number) for step in shape.non_divisors)
            )
        if kind == f.STRING:
            if len(value) < shape.min_length or (
                shape.max_length is not None and len(value) > shape.max_length
            ):
                return False
            if possibly:
                return all(pattern.may_match(value) for pattern in shape.patterns)
            return all(pattern.matches(value) for pattern in shape.patterns)
        if kind == f.ARRAY:
            if len(value) < shape.min_items or (shape.max_items is not None and len(value) > shape.max_items):
                return False
            if shape.unique_items and len({equality_key(item) for item in value}) < len(value):
                return False
            return all(
                self.satisfies_all(_on(shape.items, i), item, possibly=possibly)
                for i, item in enumerate(value)
            ) and all(self.contains_valid(counted, value, possibly) for counted in shape.contains_constraints)
        return kind != f.OBJECT or self.members_valid(shape, value, possibly)

    def members_valid(self, shape: TypeConstraints, value: dict[str, Any], possibly: bool) -> bool:
        """Whether an object's keys and members are what the shape asks."""
        if len(value) < shape.min_properties or (
            shape.max_properties is not None and len(value) > shape.max_properties
        ):
            return False
        if any(name not in value for name in shape.required):
            return False
        for name, item in value.items():
            if shape.property_names and not self.satisfies_all(shape.property_names, name, possibly=possibly):
                return False
            if not self.satisfies_all(_on(shape.members, name), item, possibly=possibly):
                return False
        return all(self.violates(denied, value, not possibly) for denied in shape.negated_objects)

    def contains_valid(self, counted: ContainsConstraint, value: Sequence[Any], possibly: bool) -> bool:
        """Whether as many items as asked satisfy the schema of their position."""

        def count(possibly: bool) -> int:
            goals = (tuple(counted.items.schemas_at(i)) for i in range(len(value)))
            return sum(
                bool(goal) and self.satisfies_all(goal, item, possibly=possibly)
                for goal, item in zip(goals, value, strict=True)
            )

        return counted.min_contains <= count(possibly) and (
            counted.max_contains is None or count(not possibly) <= counted.max_contains
        )

    def violates(self, denied: NegatedObject, value: dict[str, Any], possibly: bool) -> bool:
        """Whether something fails of what is said about objects."""
        return (
            any(name not in value for name in denied.required)
            or any(not self.satisfies_all(denied.property_names, name, possibly=possibly) for name in value)
            or any(
                not self.satisfies_all(_on(denied.members, name), item, possibly=possibly)
                for name, item in value.items()
            )
        )


def _on(parts: Iterable[Any], place: Any) -> Conjunction:
    """The schemas that items or members lay on a place."""
    return tuple(node for part in parts for node in part.schemas_at(place))


def _divides(step: Decimal, value: Decimal) -> bool:
    a, b = value.as_integer_ratio()
    c, d = step.as_integer_ratio()
    return (a * d) % (b * c) == 0
