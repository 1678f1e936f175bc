"""Parsed schemas, also those of ``not``: the negation of a schema as a disjunction of `TypeConstraints`.

Constraints apply type by type, and so does their negation: types that they exclude become free, and for each type that
they allow one constraint must be violated. Violations for one type are alternatives; violations for different types
are packed into one `TypeConstraints`, so the number of alternatives is that of the type with most, not the product.

Violations of the schemas of members and items, and of ``required``, are one alternative: a `NegatedObject`, or a
`ContainsConstraint` of at least one item. Which of them is violated is decided while the text is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constrained.grammars import ir
from constrained.grammars.content import CONTENT_KEYWORD
from constrained.grammars.errors import Problem
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import (
    ContainsConstraint,
    EnumValues,
    ItemSchemas,
    MemberSchemas,
    NegatedObject,
    ParsedSchema,
    TypeConstraints,
    schemas_on,
    type_bit_of,
)
from constrained.grammars.json_schema.source.document import SchemaNode, child_pointer
from constrained.grammars.json_schema.source.synthetic import (
    conjunction_of,
    constraint_schema,
    false_schema,
    is_true_schema,
    negation_of,
    none_or_many_of,
    unevaluated_violation,
)
from constrained.grammars.json_schema.text.numbers import Bounds
from constrained.grammars.json_schema.text.patterns import StringPattern

Limits = tuple[int, dict[str, Any]]
"""Types, and constraints on their values."""


def parse_schema(node: SchemaNode) -> ParsedSchema:
    """The keywords of one schema, read once."""
    if node.parsed is not None:
        return node.parsed
    if node.negates is not None:
        node.parsed = _negated(node.negates)
        return node.parsed
    node.parsed = parsed = ParsedSchema()
    if not node.is_synthetic:
        node.document.parsed_nodes.append(node)
    schema = node.value
    if schema is False:
        parsed.constraints.types = 0
    elif schema is not True:
        limiting = node.dialect.assertion_keywords
        if node.dialect.ref_overrides_siblings and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        for keyword, value in schema.items():
            function = limiting.get(keyword)
            if function is not None:
                function(parsed, value, node)
    parsed.limits = parsed.constraints.limits()
    return parsed


def _negated(node: SchemaNode) -> ParsedSchema:
    """The schema of the values that `node` excludes, which is not itself a negation."""
    constraints, branches = TypeConstraints(types=f.EVERY_TYPE), []
    visited: dict[SchemaNode, None] = {}
    stack = [node]
    while stack:  # the negation of a conjunction is a disjunction of negations
        part = stack.pop()
        if part in visited:
            continue
        visited[part] = None
        if part.negates is not None:
            branches.append(part.negates)
            continue
        parsed = parse_schema(part)
        if parsed.limits:
            constraints = constraints.conjoin(parsed.constraints)
        stack.extend(reversed(parsed.all_of))
        for _, either in parsed.any_of:
            branches.append(conjunction_of([negation_of(branch) for branch in either]))
        if parsed.unevaluated is not None:
            branches.append(unevaluated_violation(parsed.unevaluated))
        for one in parsed.one_of:
            branches.append(none_or_many_of(part, one))
    slots: list[tuple[TypeConstraints, tuple[SchemaNode, ...]]] = []
    if constraints.enum_values is not None:
        slots += _values(node, constraints)
    slots += [(slot, ()) for slot in _slots(node, constraints)]
    if not slots and not branches:
        return ParsedSchema(TypeConstraints(types=0))
    if not slots and len(branches) == 1:
        return ParsedSchema(all_of=(branches[0],))
    if not branches and len(slots) == 1:
        return ParsedSchema(slots[0][0], all_of=slots[0][1])
    named = [constraint_schema(node, f"negated {i}", slot, also) for i, (slot, also) in enumerate(slots)]
    return ParsedSchema(any_of=(("not", [*named, *branches]),))


def _values(
    node: SchemaNode, constraints: TypeConstraints
) -> list[tuple[TypeConstraints, tuple[SchemaNode, ...]]]:
    """Values not enumerated. Enumerated values that violate another constraint are left to `_slots`."""
    types, excluded, also = f.EVERY_TYPE, [], []
    whole_floats = node.document.dialect.integral_floats
    listed = constraints.enum_values or ()
    for i, value in enumerate(listed):
        kind = type_bit_of(value, whole_floats)
        if not kind & constraints.types:
            continue
        if kind == f.NULL:
            types &= ~f.NULL
        elif kind in (f.ARRAY, f.OBJECT):
            also.append(negation_of(const_schema(node, f"value {i}", value)))
        else:
            excluded.append(value)
    return [(TypeConstraints(types=types, excluded_values=EnumValues(excluded)), tuple(also))]


def const_schema(node: SchemaNode, label: str, value: Any) -> SchemaNode:
    """The schema of one value, with its structure as ordinary keywords."""
    if isinstance(value, (list, tuple)):
        items = ItemSchemas([const_schema(node, f"{label}/{i}", item) for i, item in enumerate(value)])
        size = len(value)
        constraints = TypeConstraints(types=f.ARRAY, items=(items,), min_items=size, max_items=size)
    elif isinstance(value, dict):
        members = MemberSchemas(
            {name: const_schema(node, f"{label}/{name}", item) for name, item in value.items()},
            additional=false_schema(node),
        )
        constraints = TypeConstraints(types=f.OBJECT, members=(members,), required=tuple(value))
    else:
        constraints = TypeConstraints(enum_values=EnumValues((value,)))
    return constraint_schema(node, label, constraints)


def _slots(node: SchemaNode, constraints: TypeConstraints) -> list[TypeConstraints]:
    """Constraints of which at least one holds where any constraint other than ``enum`` is violated."""
    types = constraints.types
    free = f.EVERY_TYPE & ~types
    if constraints.enum_values is not None:
        free = 0  # values of other types are covered by `_values`: none of them is enumerated
    groups: list[list[Limits]] = [[(free & (f.NULL | f.BOOLEAN), {})] if free & (f.NULL | f.BOOLEAN) else []]
    for kinds, limits in (
        (f.NUMBER, _numbers),
        (f.STRING, _strings),
        (f.ARRAY, _arrays),
        (f.OBJECT, _objects),
    ):
        group: list[Limits] = [(free & kinds, {})] if free & kinds else []
        if types & kinds:
            group += [(types & kinds, violation) for violation in limits(node, constraints)]
            problems = tuple(
                problem for problem in constraints.unsupported_keywords if problem[0] & types & kinds
            )
            if problems:
                group.append((types & kinds, {"unsupported_keywords": problems}))
        groups.append(group)
    slots = []
    for i in range(max(map(len, groups))):
        alternatives = [group[i] for group in groups if i < len(group)]
        slot: dict[str, Any] = {"types": 0}
        if constraints.enum_values is not None:
            slot["enum_values"] = constraints.enum_values
        for kinds, limit in alternatives:
            slot["types"] |= kinds
            for name, value in limit.items():
                slot[name] = slot[name] + value if name == "unsupported_keywords" and name in slot else value
        slots.append(TypeConstraints(**slot))
    return slots


def _numbers(node: SchemaNode, constraints: TypeConstraints) -> list[dict[str, Any]]:
    bounds = constraints.bounds
    options: list[dict[str, Any]] = []
    if bounds.low is not None:
        options.append({"bounds": Bounds(high=bounds.low, high_exclusive=not bounds.low_exclusive)})
    if bounds.high is not None:
        options.append({"bounds": Bounds(low=bounds.high, low_exclusive=not bounds.high_exclusive)})
    return options + [{"non_divisors": (step,)} for step in dict.fromkeys(constraints.divisors)]


def _strings(node: SchemaNode, constraints: TypeConstraints) -> list[dict[str, Any]]:
    low, high = constraints.min_length, constraints.max_length
    if constraints.contents:
        place = child_pointer(node.pointer, CONTENT_KEYWORD)
        problem = Problem(place, "is not supported under `not`", keyword=CONTENT_KEYWORD)
        return [{"unsupported_keywords": ((f.STRING, problem),)}]
    if not constraints.patterns:
        shorter = [{"max_length": low - 1}] if low > 0 else []
        longer = [{"min_length": high + 1}] if high is not None else []
        return [*shorter, *longer]
    sources = [pattern.source for pattern in constraints.patterns]
    lengths = [ir.repeat(ir.ANY_CHAR, low, high)] if low or high is not None else []
    if lengths:
        sources.append(f"length {low} to {high}")

    def others(texts: list[ir.Regex]) -> ir.Regex:
        return ir.difference(ir.TEXT, ir.intersection(*texts, *lengths))

    surely = others([pattern.superset for pattern in constraints.patterns])
    perhaps = [pattern.value_language for pattern in constraints.patterns]
    return [{"patterns": (StringPattern(f"not {' and '.join(sources)}", surely, lambda: others(perhaps)),)}]


def _arrays(node: SchemaNode, constraints: TypeConstraints) -> list[dict[str, Any]]:
    options: list[dict[str, Any]] = []
    violated = _wrong_items(constraints.items, node)
    if violated.prefix or violated.additional is not None:
        options.append({"contains_constraints": (ContainsConstraint(violated, 1, None, node.pointer),)})
    for counted in constraints.contains_constraints:
        counts: list[tuple[int, int | None]] = [(0, counted.min_contains - 1)] if counted.min_contains else []
        counts += [] if counted.max_contains is None else [(counted.max_contains + 1, None)]
        options += [
            {"contains_constraints": (ContainsConstraint(counted.items, least, most, node.pointer),)}
            for least, most in counts
        ]
    if constraints.unique_items:
        options.append({"repeated_items": child_pointer(node.pointer, "uniqueItems")})
    if constraints.repeated_items:
        options.append({"unique_items": True})
    if constraints.min_items:
        options.append({"max_items": constraints.min_items - 1})
    if constraints.max_items is not None:
        options.append({"min_items": constraints.max_items + 1})
    return options


def _wrong_items(parts: Sequence[ItemSchemas], node: SchemaNode) -> ItemSchemas:
    """By position, the schema of the items that violate at least one of `parts`."""
    size = max((len(items.prefix) for items in parts), default=0)

    def wrong(index: int) -> SchemaNode | None:
        nodes = [node for node in schemas_on(parts, index) if not is_true_schema(node)]
        return negation_of(conjunction_of(nodes)) if nodes else None

    prefix = [wrong(i) or false_schema(node) for i in range(size)]
    return ItemSchemas(prefix, wrong(size))


def _objects(node: SchemaNode, constraints: TypeConstraints) -> list[dict[str, Any]]:
    options: list[dict[str, Any]] = []
    members = tuple(part for part in constraints.members if _limits_members(part))
    if members or len(constraints.required) > 1 or constraints.property_names:
        negated = NegatedObject(members, constraints.required, constraints.property_names, node.pointer)
        options.append({"negated_objects": (negated,)})
    elif constraints.required:
        absent = MemberSchemas({constraints.required[0]: false_schema(node)})
        options.append({"members": (absent,)})
    if constraints.min_properties:
        options.append({"max_properties": constraints.min_properties - 1})
    if constraints.max_properties is not None:
        options.append({"min_properties": constraints.max_properties + 1})
    return options


def _limits_members(members: MemberSchemas) -> bool:
    nodes = [*members.properties.values(), *(node for _, node in members.patterns)]
    nodes += [] if members.additional is None else [members.additional]
    return not all(map(is_true_schema, nodes))
