"""Discriminators: alternatives distinguished by the value of a required member, such as ``"kind": {"const": "circle"}``.

n conditions on one discriminator have 2^n combinations, but a discriminator has one value. A combination is therefore
dropped as soon as no value is left for a required member.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from constrained.grammars.json_schema.resolve.negate import parse_schema
from constrained.grammars.json_schema.source.constraints import (
    ARRAY,
    OBJECT,
    NegatedObject,
    TypeConstraints,
    type_bit_of,
)
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.work import spend

EqualityKeys = frozenset[Hashable]


class Discriminators(NamedTuple):
    """Constraints of objects on single members with enumerated values.

    Attributes:
        required: required members.
        listed: by member, its enumerated values.
        excluded: (member, values, others): if all the others are present, so is the member, and it has none of the values.
    """

    required: frozenset[str]
    listed: dict[str, EqualityKeys]
    excluded: tuple[tuple[str, EqualityKeys, tuple[str, ...]], ...]

    def conjoin_all(self, others: Iterable[Discriminators]) -> Discriminators:
        """The conjunction with others."""
        required, listed, excluded = self.required, dict(self.listed), self.excluded
        spend((len(required) + len(listed) + len(excluded)) // 16)
        for other in others:
            spend(1 + (len(required) + len(excluded)) // 16 + len(other.listed) // 4)
            required |= other.required
            excluded += other.excluded
            for name, values in other.listed.items():
                listed[name] = listed[name] & values if name in listed else values
        return Discriminators(required, listed, excluded)

    def is_contradiction(self) -> bool:
        """Whether no value is left for a required member."""
        required, pending = set(self.required), list(self.excluded)
        excluded: dict[str, list[EqualityKeys]] = {}
        spend((len(pending) + len(self.listed)) // 4)
        for name, values, others in pending:  # grows: a member may be required because others are
            if required.issuperset(others):
                excluded.setdefault(name, []).append(values)
                if name not in required:
                    required.add(name)
                    pending += [entry for entry in self.excluded if name in entry[2]]
                    spend(len(self.excluded) // 8)
        return not all(
            values.difference(*excluded.get(name, ()))
            for name, values in self.listed.items()
            if name in required
        )


NO_DISCRIMINATORS = Discriminators(frozenset(), {}, ())


class ValueSummary(NamedTuple):
    """A cheap over-approximation of a schema: types, enumerated scalars (None: not enumerated), and discriminators.

    `empty` are the types (object, array) whose empty value surely satisfies the schema.
    """

    types: int
    values: EqualityKeys | None
    discriminators: Discriminators
    empty: int

    def within(self, other: ValueSummary) -> ValueSummary:
        """The conjunction with a schema that enumerates no values."""
        tags = self.discriminators.conjoin_all((other.discriminators,))
        return ValueSummary(self.types & other.types, self.values, tags, self.empty & other.empty)

    def is_disjoint(self, other: ValueSummary) -> bool:
        """Whether no value matches both summaries."""
        types = self.types & other.types
        if not types:
            return True
        if self.values is not None and other.values is not None:
            return self.values.isdisjoint(other.values)
        return types == OBJECT and self.discriminators.conjoin_all((other.discriminators,)).is_contradiction()


def discriminators_of(node: SchemaNode) -> Discriminators:
    """The discriminators of one schema's own keywords."""
    constraints = parse_schema(node).constraints
    excluded = [found for negated in constraints.negated_objects if (found := _excluded(negated)) is not None]
    known = listed_members(constraints)
    return Discriminators(frozenset(constraints.required), known, tuple(excluded))


def listed_members(constraints: TypeConstraints) -> dict[str, EqualityKeys]:
    """By member with enumerated scalars, their equality keys."""
    known: dict[str, EqualityKeys] = {}
    for members in constraints.members:
        for name, part in members.properties.items():
            values = listed(part)
            if values is not None:
                known[name] = known[name] & values if name in known else values
    return known


def empty_values(constraints: TypeConstraints) -> int:
    """The types (object, array) whose empty value satisfies constraints."""
    if constraints.enum_values is not None or constraints.unsupported_keywords:
        return 0
    types = constraints.types & (OBJECT | ARRAY)
    absent = all(negated.required for negated in constraints.negated_objects)
    if constraints.required or constraints.min_properties or not absent:
        types &= ~OBJECT
    if constraints.min_items or constraints.contains_constraints or constraints.repeated_items:
        types &= ~ARRAY
    return types


def listed(node: SchemaNode) -> EqualityKeys | None:
    """Equality keys of a schema's enumerated values if all are scalars, else None. Does not parse other schemas."""
    value = node.value
    if value is False:
        return frozenset()
    if node.parsed is None and not (isinstance(value, dict) and ("const" in value or "enum" in value)):
        return None
    return parse_schema(node).listed


def _excluded(negated: NegatedObject) -> tuple[str, EqualityKeys, tuple[str, ...]] | None:
    """The `excluded` entry of a negated object that enumerates scalars of a single member, else None."""
    if negated.property_names or len(negated.members) != 1:
        return None
    (members,) = negated.members
    if members.patterns or members.additional is not None or len(members.properties) != 1:
        return None
    ((name, part),) = members.properties.items()
    values = _exact_values(part)
    return (name, values, negated.required) if values else None


def _exact_values(node: SchemaNode) -> EqualityKeys | None:
    """As `listed`, where a schema allows all values that it enumerates, else None."""
    values = listed(node)
    if not values:
        return values
    parsed = parse_schema(node)
    constraints = parsed.constraints
    if not (parsed.is_flat and constraints.__dict__.keys() <= {"types", "enum_values"}):
        return None
    if not all(type_bit_of(value, True) & constraints.types for value in constraints.enum_values or ()):
        return None
    return values
