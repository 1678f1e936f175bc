"""Alternatives that depend on one member with enumerated values, decided value by value of it.

n members of which each is allowed for some values of ``"type"`` (``dependentSchemas``, ``if``) have 2^n combinations. Once the
value of that member is chosen, each of the conditions is true or false, and one combination is left for each value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.grammars.json_schema.resolve.discriminators import Discriminators, listed
from constrained.grammars.json_schema.resolve.negate import parse_schema
from constrained.grammars.json_schema.source.constraints import (
    OBJECT,
    EnumValues,
    MemberSchemas,
    TypeConstraints,
    type_bit_of,
)
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.json_schema.source.synthetic import constraint_schema, false_schema

MAX_VALUES = 64
"""Values of a member that alternatives are decided by."""


@dataclass(frozen=True)
class MemberCase:
    """Objects in which one member has one value, or is absent.

    Attributes:
        name: of the member.
        values: the value; empty where the member is absent.
    """

    name: str
    values: tuple[Any, ...]

    def settles(self, branches: Sequence[SchemaNode]) -> bool:
        """Whether one of these schemas is known to hold of each such object.

        Besides a schema that holds of them all, these are two of which one lacks a member and the other one requires it.
        """
        absent, present = set[str](), set[str]()
        for branch in branches:
            left = [part for part in _parts(branch) if not self._implies(part)]
            if not left:
                return True
            if len(left) == 1 and left[0] is not None:
                absent.update(_missing(left[0]))
                present.update(_required(left[0]))
        return not absent.isdisjoint(present)

    def _implies(self, constraints: TypeConstraints | None) -> bool:
        if constraints is None or not constraints.__dict__.keys() <= {"types", "members", "required"}:
            return False
        if not constraints.types & OBJECT:
            return False
        known = {self.name} if self.values else set[str]()
        return known.issuperset(constraints.required) and all(
            self._allowed(members) for members in constraints.members
        )

    def _allowed(self, members: MemberSchemas) -> bool:
        if members.patterns or members.additional is not None or members.properties.keys() != {self.name}:
            return False
        parsed = parse_schema(members.properties[self.name])
        constraints = parsed.constraints
        if not (parsed.is_flat and constraints.__dict__.keys() <= {"types", "enum_values"}):
            return False
        values = EnumValues(self.values)
        listed = constraints.enum_values or values
        return values.key_set <= listed.key_set and all(
            type_bit_of(value, whole_floats=True) & constraints.types for value in values
        )


def _parts(node: SchemaNode) -> list[TypeConstraints | None]:
    """The constraints of a schema and of those in its ``allOf``; None for what is more than constraints."""
    parts: list[TypeConstraints | None] = []
    visited: dict[SchemaNode, None] = {}
    stack = [node]
    while stack:
        one = stack.pop()
        if one in visited:
            continue
        visited[one] = None
        parsed = parse_schema(one)
        stack.extend(parsed.all_of)
        if parsed.limits:
            parts.append(parsed.constraints)
        if (
            parsed.any_of
            or parsed.one_of
            or parsed.none_or_many
            or parsed.unevaluated is not None
            or parsed.violated_unevaluated is not None
        ):
            parts.append(None)
    return parts


def _missing(constraints: TypeConstraints) -> Iterable[str]:
    """The member that must be absent, where constraints say nothing else."""
    if constraints.__dict__.keys() == {"members"} and len(constraints.members) == 1:
        (members,) = constraints.members
        if not members.patterns and members.additional is None and len(members.properties) == 1:
            yield from (name for name, node in members.properties.items() if node.value is False)


def _required(constraints: TypeConstraints) -> Iterable[str]:
    """The member that must be present, where constraints say nothing else of objects."""
    if constraints.__dict__.keys() <= {"types", "required"} and constraints.types & OBJECT:
        yield from constraints.required if len(constraints.required) == 1 else ()


def member_cases(
    closure: Iterable[SchemaNode],
    tags: Discriminators,
    choices: Iterable[Iterable[Discriminators]],
    types: int,
) -> dict[SchemaNode, MemberCase | None]:
    """Schemas of which exactly one holds of each value: by the value of the member that most choices depend on.

    Args:
        closure: schemas that hold.
        tags: their discriminators.
        choices: for each choice, the discriminators of its branches.
        types: types of the values.

    Returns:
        the schemas, each with its case (None: values that are no objects); nothing where no two choices depend on a member with
        few values.
    """
    counts: Counter[str] = Counter()
    for branches in choices:
        counts.update({name for branch in branches for name in branch.listed if name in tags.listed})
    name, count = counts.most_common(1)[0] if counts else ("", 0)
    if count < 2 or len(tags.listed[name]) > MAX_VALUES:
        return {}
    parts = [
        (node, members.properties[name])
        for node in closure
        for members in parse_schema(node).constraints.members
        if name in members.properties
    ]
    within, part = next(pair for pair in parts if listed(pair[1]) is not None)
    enumerated = parse_schema(part).constraints.enum_values or EnumValues()
    values = dict(zip(enumerated.keys, enumerated, strict=True))
    cases: dict[SchemaNode, MemberCase | None] = {}
    for key in (None, *(key for key in values if key in tags.listed[name])):
        value = () if key is None else (values[key],)
        label = f"without {name}" if key is None else f"{name}: {values[key]!r}"
        only = constraint_schema(within, f"value, {label}", TypeConstraints(enum_values=EnumValues(value)))
        constraints = TypeConstraints(
            types=OBJECT,
            members=(MemberSchemas({name: only if value else false_schema(within)}),),
            required=(name,) if value else (),
        )
        cases[constraint_schema(within, label, constraints)] = MemberCase(name, value)
    if others := types & ~OBJECT:
        label = f"no object, of types {others:b}"
        cases[constraint_schema(within, label, TypeConstraints(types=others))] = None
    return cases
