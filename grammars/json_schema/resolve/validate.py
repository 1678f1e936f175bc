"""Validation of enumerated values and names against parsed schemas.

Some formats cannot be decided, so the logic is three-valued: without `possibly` a value must definitely satisfy the
schemas; with `possibly` it must not definitely violate them. Negation swaps the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.resolve.negate import parse_schema
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import (
    Conjunction,
    ContainsConstraint,
    NegatedObject,
    TypeConstraints,
    schemas_on,
    type_bit_of,
)
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.json_schema.text.literals import equality_key, with_whole_numbers
from constrained.grammars.json_schema.text.numbers import decimal
from constrained.grammars.work import spend


def _with_fractions(value: Any) -> Any:
    """A value with integers as `Decimal`, at any depth."""
    if isinstance(value, (list, tuple)):
        return [*map(_with_fractions, value)]
    if isinstance(value, dict):
        return {name: _with_fractions(item) for name, item in value.items()}
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


class InstanceValidator:
    """Validates values against schemas."""

    def __init__(self, expansion: DnfExpansion) -> None:
        self.expansion = expansion
        self.whole_floats = expansion.document.dialect.integral_floats

    def satisfies_all(self, conjunction: Conjunction, value: Any, *, possibly: bool = False) -> bool:
        """Whether a value satisfies every schema of a conjunction."""
        return all(self.satisfies_schema(node, value, possibly) for node in conjunction)

    def satisfies_schema(self, node: SchemaNode, value: Any, possibly: bool = False) -> bool:
        """Whether a value satisfies a schema."""
        spend(1, node.pointer)
        if node.negates is not None:
            return not self.satisfies_schema(node.negates, value, not possibly)
        parsed = parse_schema(node)
        if parsed.limits and not self.meets_constraints(parsed.constraints, value, possibly):
            return False
        if parsed.is_flat:
            return True
        self.expansion.check_acyclic(node)
        return (
            all(self.satisfies_schema(other, value, possibly) for other in parsed.all_of)
            and all(
                any(self.satisfies_schema(other, value, possibly) for other in branches)
                for _, branches in parsed.any_of
            )
            and all(self.satisfies_exactly_one(branches, value, possibly) for branches in parsed.one_of)
            and all(
                not self.satisfies_exactly_one(branches, value, not possibly)
                for branches in parsed.none_or_many
            )
            and (
                parsed.unevaluated is None or self.satisfies_unevaluated(parsed.unevaluated, value, possibly)
            )
            and (
                parsed.violated_unevaluated is None
                or not self.satisfies_unevaluated(parsed.violated_unevaluated, value, not possibly)
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
        """Whether a value satisfies the ``unevaluated*`` keywords of a schema."""
        return any(
            self.satisfies_schema(other, value, possibly)
            for other in self.expansion.unevaluated_disjuncts(node)
        )

    def as_written(self, values: Iterable[Any]) -> Iterator[Any]:
        """Enumerated values; in draft 4 also with their whole numbers as 3 and as 3.0, equal values of different types."""
        for value in values:
            yield value
            if not self.whole_floats:
                whole = with_whole_numbers(value, int)
                yield whole
                yield _with_fractions(whole)

    def listed(self, constraints: TypeConstraints) -> list[Any]:
        """The enumerated values that satisfy all other constraints.

        In draft 4 the texts 3 and 3.0 are equal values of two types: of an enumerated 3.0 the texts are listed that
        satisfy the rest, as int, as `Decimal`, or both together as float.
        """

        def meets(value: Any) -> bool:
            return self.meets_constraints(constraints, value, listed=True)

        values = constraints.enum_values or ()
        if self.whole_floats:
            return [value for value in values if meets(value)]
        found: list[Any] = []
        for value in values:
            whole = with_whole_numbers(value, int)
            if meets(value):
                same = whole is value or meets(whole)
                found.append(
                    value if same else with_whole_numbers(value, lambda number: Decimal(repr(number)))
                )
            elif whole is not value and meets(whole):
                found.append(whole)
        return found

    def meets_constraints(
        self, constraints: TypeConstraints, value: Any, possibly: bool = False, *, listed: bool = False
    ) -> bool:
        """Whether a value satisfies constraints; `listed`: it is known to be one of the enumerated values."""
        spend(1)
        kind = type_bit_of(value, self.whole_floats)
        if not kind & constraints.types:
            return False
        enumerated, excluded = constraints.enum_values, constraints.excluded_values
        if not listed and enumerated is not None and equality_key(value) not in enumerated.key_set:
            return False
        if excluded and kind not in (f.ARRAY, f.OBJECT) and equality_key(value) in excluded.key_set:
            return False
        if kind & f.NUMBER:
            number = decimal(value)
            return (
                constraints.bounds.contains_number(number)
                and all(_divides(step, number) for step in constraints.divisors)
                and not any(_divides(step, number) for step in constraints.non_divisors)
            )
        if kind == f.STRING:
            if len(value) < constraints.min_length or (
                constraints.max_length is not None and len(value) > constraints.max_length
            ):
                return False
            if constraints.contents and not possibly:
                return False
            if possibly:
                return all(pattern.may_match(value) for pattern in constraints.patterns)
            return all(pattern.matches(value) for pattern in constraints.patterns)
        if kind == f.ARRAY:
            if len(value) < constraints.min_items or (
                constraints.max_items is not None and len(value) > constraints.max_items
            ):
                return False
            if constraints.unique_items or constraints.repeated_items:
                differ = len({equality_key(item) for item in value}) == len(value)
                if (constraints.unique_items and not differ) or (constraints.repeated_items and differ):
                    return False
            return all(
                self.satisfies_all(schemas_on(constraints.items, i), item, possibly=possibly)
                for i, item in enumerate(value)
            ) and all(
                self.contains_valid(contains, value, possibly)
                for contains in constraints.contains_constraints
            )
        return kind != f.OBJECT or self.members_valid(constraints, value, possibly)

    def members_valid(self, constraints: TypeConstraints, value: dict[str, Any], possibly: bool) -> bool:
        """Whether an object satisfies the constraints on its keys and members."""
        if len(value) < constraints.min_properties or (
            constraints.max_properties is not None and len(value) > constraints.max_properties
        ):
            return False
        if any(name not in value for name in constraints.required):
            return False
        for name, item in value.items():
            if constraints.property_names and not self.satisfies_all(
                constraints.property_names, name, possibly=possibly
            ):
                return False
            if not self.satisfies_all(schemas_on(constraints.members, name), item, possibly=possibly):
                return False
        spend(2 * len(constraints.negated_objects))
        return all(self.violates(negated, value, not possibly) for negated in constraints.negated_objects)

    def contains_valid(self, contains: ContainsConstraint, value: Sequence[Any], possibly: bool) -> bool:
        """Whether the number of matching items is within the bounds of ``contains``."""

        def count(possibly: bool) -> int:
            goals = (tuple(contains.items.schemas_at(i)) for i in range(len(value)))
            return sum(
                bool(conjunction) and self.satisfies_all(conjunction, item, possibly=possibly)
                for conjunction, item in zip(goals, value, strict=True)
            )

        return contains.min_contains <= count(possibly) and (
            contains.max_contains is None or count(not possibly) <= contains.max_contains
        )

    def violates(self, negated: NegatedObject, value: dict[str, Any], possibly: bool) -> bool:
        """Whether an object violates at least one of the negated constraints."""
        return (
            any(name not in value for name in negated.required)
            or any(not self.satisfies_all(negated.property_names, name, possibly=possibly) for name in value)
            or any(
                not self.satisfies_all(schemas_on(negated.members, name), item, possibly=possibly)
                for name, item in value.items()
            )
        )


def _divides(step: Decimal, value: Decimal) -> bool:
    a, b = value.as_integer_ratio()
    c, d = step.as_integer_ratio()
    return (a * d) % (b * c) == 0
