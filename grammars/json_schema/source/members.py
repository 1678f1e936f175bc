"""The members of objects: declared names, classes of undeclared keys, and the schemas of their values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.source.constraints import (
    Conjunction,
    MemberSchemas,
    TypeConstraints,
)
from constrained.grammars.json_schema.source.document import SchemaNode, child_pointer
from constrained.grammars.json_schema.text.patterns import StringPattern
from constrained.grammars.json_schema.text.strings import strings_excluding
from constrained.grammars.regex.languages import RegularLanguages
from constrained.grammars.work import spend

MAX_CLASSES = 128
"""Maximum number of key classes of one object."""


class KeyClass(NamedTuple):
    """Keys that match all of `matched` and none of `excluded_patterns`; other patterns cannot match them."""

    matched: tuple[StringPattern, ...] = ()
    excluded_patterns: tuple[StringPattern, ...] = ()

    def key_regex(self, names: Sequence[str]) -> ir.Regex:
        """The JSON strings of these keys, without some names."""
        return strings_excluding(
            names,
            [pattern.value_language for pattern in self.excluded_patterns],
            [pattern.value_language for pattern in self.matched],
        )


def partition_keys(
    patterns: Sequence[StringPattern], forbidden: Collection[StringPattern], place: str
) -> list[KeyClass]:
    """Disjoint classes of keys by the patterns that they match.

    Args:
        patterns: each once.
        forbidden: those of the patterns that no key may match.
        place: JSON Pointer of the schema, for errors.

    Raises:
        ConstraintTooLarge: there are more than `MAX_CLASSES`.
    """
    languages = RegularLanguages()
    known: dict[frozenset[StringPattern], bool] = {}

    def meet(a: StringPattern, b: StringPattern) -> bool:
        pair = frozenset((a, b))
        if pair not in known:
            known[pair] = not languages.provably_disjoint([a.value_language, b.value_language])
        return known[pair]

    def apart(within: Sequence[StringPattern], without: Sequence[StringPattern]) -> bool:
        return languages.provably_disjoint(
            [p.value_language for p in within], [p.value_language for p in without]
        )

    classes = [KeyClass()]
    for pattern in patterns:
        split = []
        for keys in classes:
            spend(1 + len(keys.excluded_patterns) // 4, place)
            matched = (*keys.matched, pattern)
            if not all(meet(pattern, other) for other in keys.matched):
                split.append(keys)
                continue
            without = tuple(other for other in keys.excluded_patterns if meet(pattern, other))
            if (len(matched) > 2 or without) and apart(matched, without):
                split.append(keys)
                continue
            if pattern not in forbidden:
                split.append(KeyClass(matched, without))
            if not keys.matched or not apart(keys.matched, (*keys.excluded_patterns, pattern)):
                split.append(KeyClass(keys.matched, (*keys.excluded_patterns, pattern)))
        classes = split
        if len(classes) > MAX_CLASSES:
            raise ConstraintTooLarge(
                "too many patterns of keys on one object",
                Problem(
                    child_pointer(place, "patternProperties"),
                    f"more than {MAX_CLASSES} combinations of {len(patterns)} patterns that one key may match",
                ),
                action="merge patterns that lead to the same schema",
            )
    return classes


def schemas_of_members(constraints: TypeConstraints, names: Sequence[str]) -> list[Conjunction]:
    """`schemas_on` each of the declared names, going through each schema object once."""
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
