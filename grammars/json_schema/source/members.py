"""The members of objects: declared names, classes of undeclared keys, and the schemas of their values."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from constrained.grammars import ir
from constrained.grammars.json_schema.source.constraints import (
    Conjunction,
    MemberSchemas,
    TypeConstraints,
    schemas_on,
)
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.json_schema.source.key_classes import partition_keys
from constrained.grammars.json_schema.text.patterns import StringPattern
from constrained.grammars.json_schema.text.strings import strings_excluding
from constrained.grammars.work import spend


def member_schemas(constraints: TypeConstraints, name: str) -> Conjunction:
    """The schemas for the value of a key."""
    if len(constraints.members) == 1:  # the common case: one schema object constrains members
        members = constraints.members[0]
        if members.patterns:
            return tuple(members.schemas_at(name))
        node = members.properties.get(name, members.additional)
        return () if node is None else (node,)
    return schemas_on(constraints.members, name)


def schemas_of_members(constraints: TypeConstraints, names: Sequence[str]) -> list[Conjunction]:
    """`member_schemas` of each of the declared names, going through each schema object once."""
    if len(constraints.members) == 1:
        return [member_schemas(constraints, name) for name in names]
    found: dict[str, dict[SchemaNode, None]] = {name: {} for name in names}
    for members in constraints.members:
        if members.patterns or members.additional is not None:
            for name in names:
                found[name].update(dict.fromkeys(members.schemas_at(name)))
        else:
            for name, node in members.properties.items():
                found[name][node] = None
    return list(map(tuple, found.values()))


def key_class_schemas(parts: Sequence[MemberSchemas], matched: Collection[StringPattern]) -> Conjunction:
    """The schemas for the values of undeclared keys that match exactly these patterns."""
    conjunction: dict[SchemaNode, None] = {}
    for members in parts:
        nodes = [node for pattern, node in members.patterns if pattern in matched]
        if not nodes and members.additional is not None:
            nodes = [members.additional]
        conjunction.update(dict.fromkeys(nodes))
    return tuple(conjunction)


def forbidden_patterns(parts: Sequence[MemberSchemas]) -> set[StringPattern]:
    """Patterns that no key may match."""
    return {pattern for members in parts for pattern, node in members.patterns if node.value is False}


def declared_names(constraints: TypeConstraints) -> list[str]:
    """Properties in the order of the schemas, then required names that no schema declares."""
    names: dict[str, None] = {}
    for members in constraints.members:
        names.update(dict.fromkeys(members.properties))
    names.update(dict.fromkeys(constraints.required))
    return list(names)


def key_classes(
    constraints: TypeConstraints, names: Sequence[str], place: str
) -> list[tuple[ir.Regex, Conjunction]]:
    """Undeclared keys as disjoint classes, each with the schemas for its values.

    Raises:
        ConstraintTooLarge: the patterns have too many satisfiable combinations.
    """
    if not any(members.patterns for members in constraints.members):
        rest = tuple(dict.fromkeys(m.additional for m in constraints.members if m.additional is not None))
        return [] if any(node.value is False for node in rest) else [(strings_excluding(names), rest)]
    patterns = dict.fromkeys(pattern for members in constraints.members for pattern, _ in members.patterns)
    classes = []
    for keys in partition_keys(list(patterns), forbidden_patterns(constraints.members), place):
        spend(len(names) // 4, place)
        conjunction = key_class_schemas(constraints.members, keys.matched)
        if not any(node.value is False for node in conjunction):
            classes.append((keys.key_regex(names), conjunction))
    return classes
