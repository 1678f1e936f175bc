"""Alternatives told apart by the value of a member, as by ``"kind": {"const": "circle"}`` where ``kind`` is required.

Many conditions on one tag, each with its consequence, are 2^n ways to pick; but a tag has one value. So a pick is
given up as soon as no value is left for a member that must be there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from grammars.json_schema.source.constraints import OBJECT, STRING, Denied, Facts
from grammars.json_schema.source.document import Node
from grammars.json_schema.text.literals import key_of

Values = frozenset[Hashable]


class Tags(NamedTuple):
    """What objects must hold, as far as single members are concerned.

    Attributes:
        required: members that must be there.
        listed: by member, the values that it may have, where they are listed.
        excluded: (member, values, members): the member has none of the values, if all the members are there.
    """

    required: frozenset[str]
    listed: dict[str, Values]
    excluded: tuple[tuple[str, Values, tuple[str, ...]], ...]

    def joined(self, others: Iterable[Tags]) -> Tags:
        """What must hold together."""
        required, listed, excluded = self.required, dict(self.listed), self.excluded
        for other in others:
            required |= other.required
            excluded += other.excluded
            for name, values in other.listed.items():
                listed[name] = listed[name] & values if name in listed else values
        return Tags(required, listed, excluded)

    def impossible(self) -> bool:
        """Whether no value is left for a member that must be there."""
        left = {name: values for name, values in self.listed.items() if name in self.required}
        for name, values, others in self.excluded:
            if name in left and self.required.issuperset(others):
                left[name] -= values
        return not all(left.values())


NO_TAGS = Tags(frozenset(), {}, ())


class Certain(NamedTuple):
    """What is easily said of the values of a schema: their types, all of them where they are listed, and tags."""

    types: int
    values: Values | None
    tags: Tags

    def excludes(self, other: Certain) -> bool:
        """Whether no value is both."""
        types = self.types & other.types
        if not types:
            return True
        if self.values is not None and other.values is not None:
            return self.values.isdisjoint(other.values)
        return types == OBJECT and self.tags.joined((other.tags,)).impossible()


def tags_of(node: Node, facts_of: Callable[[Node], Facts]) -> Tags:
    """What a schema says by itself about single members of objects."""
    shape = facts_of(node).shape
    known: dict[str, Values] = {}
    for members in shape.members:
        for name, part in members.properties.items():
            values = listed(part, facts_of)
            if values is not None:
                known[name] = known[name] & values if name in known else values
    excluded = [found for denied in shape.denied if (found := _excluded(denied, facts_of)) is not None]
    return Tags(frozenset(shape.required), known, tuple(excluded))


def listed(node: Node, facts_of: Callable[[Node], Facts]) -> Values | None:
    """The values that a schema lists, if all are scalars; most schemas list none, and are not read for it."""
    value = node.value
    if value is False:
        return frozenset()
    if node.facts is None and not (isinstance(value, dict) and ("const" in value or "enum" in value)):
        return None
    values = facts_of(node).shape.values
    if values is None or not _SCALARS.issuperset(map(type, values)):
        return None
    return frozenset(map(key_of, values))


_SCALARS = frozenset((str, int, bool, type(None)))


def _excluded(
    denied: Denied, facts_of: Callable[[Node], Facts]
) -> tuple[str, Values, tuple[str, ...]] | None:
    """What is denied, if it is nothing but the listed strings of one member."""
    if denied.names or len(denied.members) != 1:
        return None
    (members,) = denied.members
    if members.patterns or members.additional is not None or len(members.properties) != 1:
        return None
    ((name, part),) = members.properties.items()
    values = listed(part, facts_of)
    if not values:
        return None
    facts = facts_of(part)
    said = facts.shape.__dict__.keys()
    if not (facts.plain and facts.shape.types & STRING and said <= {"types", "values"}):
        return None
    if set(map(type, facts.shape.values or ())) != {str}:
        return None
    return name, values, denied.required
