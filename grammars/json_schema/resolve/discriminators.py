"""Alternatives told apart by the value of a member, as by ``"kind": {"const": "circle"}`` where ``kind`` is required.

Many conditions on one tag, each with its consequence, are 2^n ways to pick; but a tag has one value. So a pick is
given up as soon as no value is left for a member that must be there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from grammars.json_schema.source.constraints import OBJECT, STRING, NegatedObject, ParsedSchema
from grammars.json_schema.source.document import SchemaNode
from grammars.json_schema.text.literals import equality_key

EqualityKeys = frozenset[Hashable]


class Discriminators(NamedTuple):
    """What objects must hold, as far as single members are concerned.

    Attributes:
        required: members that must be there.
        listed: by member, the values that it may have, where they are listed.
        excluded: (member, values, members): the member has none of the values, if all the members are there.
    """

    required: frozenset[str]
    listed: dict[str, EqualityKeys]
    excluded: tuple[tuple[str, EqualityKeys, tuple[str, ...]], ...]

    def conjoin_all(self, others: Iterable[Discriminators]) -> Discriminators:
        """What must hold together."""
        required, listed, excluded = self.required, dict(self.listed), self.excluded
        for other in others:
            required |= other.required
            excluded += other.excluded
            for name, values in other.listed.items():
                listed[name] = listed[name] & values if name in listed else values
        return Discriminators(required, listed, excluded)

    def is_contradiction(self) -> bool:
        """Whether no value is left for a member that must be there."""
        left = {name: values for name, values in self.listed.items() if name in self.required}
        for name, values, others in self.excluded:
            if name in left and self.required.issuperset(others):
                left[name] -= values
        return not all(left.values())


NO_DISCRIMINATORS = Discriminators(frozenset(), {}, ())


class ValueSummary(NamedTuple):
    """What is easily said of the values of a schema: their types, all of them where they are listed, and tags."""

    types: int
    values: EqualityKeys | None
    discriminators: Discriminators

    def is_disjoint(self, other: ValueSummary) -> bool:
        """Whether no value is both."""
        types = self.types & other.types
        if not types:
            return True
        if self.values is not None and other.values is not None:
            return self.values.isdisjoint(other.values)
        return types == OBJECT and self.discriminators.conjoin_all((other.discriminators,)).is_contradiction()


def discriminators_of(node: SchemaNode, parse_schema: Callable[[SchemaNode], ParsedSchema]) -> Discriminators:
    """What a schema says by itself about single members of objects."""
    constraints = parse_schema(node).constraints
    known: dict[str, EqualityKeys] = {}
    for members in constraints.members:
        for name, part in members.properties.items():
            values = listed(part, parse_schema)
            if values is not None:
                known[name] = known[name] & values if name in known else values
    excluded = [
        found
        for denied in constraints.negated_objects
        if (found := _excluded(denied, parse_schema)) is not None
    ]
    return Discriminators(frozenset(constraints.required), known, tuple(excluded))


def listed(node: SchemaNode, parse_schema: Callable[[SchemaNode], ParsedSchema]) -> EqualityKeys | None:
    """The values that a schema lists, if all are scalars; most schemas list none, and are not read for it."""
    value = node.value
    if value is False:
        return frozenset()
    if node.parsed is None and not (isinstance(value, dict) and ("const" in value or "enum" in value)):
        return None
    values = parse_schema(node).constraints.enum_values
    if values is None or not _SCALARS.issuperset(map(type, values)):
        return None
    return frozenset(map(equality_key, values))


_SCALARS = frozenset((str, int, bool, type(None)))


def _excluded(
    denied: NegatedObject, parse_schema: Callable[[SchemaNode], ParsedSchema]
) -> tuple[str, EqualityKeys, tuple[str, ...]] | None:
    """What is denied, if it is nothing but the listed strings of one member."""
    if denied.property_names or len(denied.members) != 1:
        return None
    (members,) = denied.members
    if members.patterns or members.additional is not None or len(members.properties) != 1:
        return None
    ((name, part),) = members.properties.items()
    values = listed(part, parse_schema)
    if not values:
        return None
    parsed = parse_schema(part)
    said = parsed.constraints.__dict__.keys()
    if not (parsed.is_flat and parsed.constraints.types & STRING and said <= {"types", "enum_values"}):
        return None
    if set(map(type, parsed.constraints.enum_values or ())) != {str}:
        return None
    return name, values, denied.required
