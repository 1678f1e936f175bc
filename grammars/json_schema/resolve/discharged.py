"""Negated objects of which one look at their members tells all: most are those of the other branches of a ``oneOf``.

What is left of them becomes obligations (`constrained.grammars.json_schema.emit.negated_objects`), which cost far more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from constrained.grammars.json_schema.resolve.discriminators import (
    EqualityKeys,
    exact_values,
    listed,
    listed_members,
    single_member,
)
from constrained.grammars.json_schema.source.constraints import (
    MemberSchemas,
    NegatedObject,
    ParsedSchema,
    TypeConstraints,
)
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.json_schema.source.synthetic import negation_of
from constrained.grammars.work import spend


def without_discharged(
    constraints: TypeConstraints, parse_schema: Callable[[SchemaNode], ParsedSchema]
) -> TypeConstraints:
    """The same constraints, with fewer and smaller negated objects.

    Schemas of members that hold anyway are not violated. A required member of which no value is left that satisfies its negated schema
    violates it. Where only a declared member can violate a negated object, it is required, and violates its schema.
    """
    held = set(map(id, constraints.members))
    pending = [
        replace(negated, members=tuple(part for part in negated.members if id(part) not in held))
        if any(id(part) in held for part in negated.members)
        else negated
        for negated in constraints.negated_objects
    ]
    declared = {name for members in constraints.members for name in members.properties}
    known = listed_members(constraints, parse_schema)
    denied = _denied_values(constraints, parse_schema)
    required = dict.fromkeys(constraints.required)
    more: list[MemberSchemas] = []
    left, before = pending, -1
    while before < len(required):  # what becomes required may violate others
        before, pending, left = len(required), left, []
        spend(len(pending))
        for negated in pending:
            if _is_violated(negated, required, known, denied, parse_schema):
                continue
            single = single_member(negated)
            if single is None or single[0] not in declared or not required.keys() >= set(negated.required):
                left.append(negated)
                continue
            name, node = single
            required[name] = None
            more.append(MemberSchemas({name: negation_of(node)}))
            denied[name] = denied.get(name, frozenset()) | (exact_values(node, parse_schema) or frozenset())
    parts = {
        "members": (*constraints.members, *more),
        "negated_objects": tuple(left),
        "required": tuple(required),
    }
    return TypeConstraints(**{**vars(constraints), **parts})


def _denied_values(
    constraints: TypeConstraints, parse_schema: Callable[[SchemaNode], ParsedSchema]
) -> dict[str, EqualityKeys]:
    """By member, scalars that ``not`` around their list excludes."""
    denied: dict[str, EqualityKeys] = {}
    for members in constraints.members:
        for name, node in members.properties.items():
            values = None if node.negates is None else exact_values(node.negates, parse_schema)
            if values:
                denied[name] = denied.get(name, frozenset()) | values
    return denied


def _is_violated(
    negated: NegatedObject,
    required: Mapping[str, None],
    known: Mapping[str, EqualityKeys],
    denied: Mapping[str, EqualityKeys],
    parse_schema: Callable[[SchemaNode], ParsedSchema],
) -> bool:
    """Whether no value of some required member satisfies its schema in a negated object."""
    for members in negated.members:
        for name in members.properties.keys() & required.keys():
            if name in known or name in denied:
                values = listed(members.properties[name], parse_schema)
                if values is not None and not (values & known.get(name, values)) - denied.get(
                    name, frozenset()
                ):
                    return True
    return False
