"""What the negation of a schema says, in the same terms as any schema: a `TypeConstraints` or a few, one of which must hold.

A shape speaks of every type apart, and so does its negation: types that it does not allow are free, and of each
type that it limits one limit must fail. Limits of one type are alternatives; those of different types stand
together in one shape, so the number of alternatives is the greatest of one type, not the product or the sum.

Schemas of members and items, and keys that must be there, fail together as one alternative (`NegatedObject`, `ContainsConstraint`
from one on): which of them fails is left to the reading of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grammars import ir
from grammars.errors import Problem
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.constraints import (
    ContainsConstraint,
    ItemSchemas,
    MemberSchemas,
    NegatedObject,
    ParsedSchema,
    TypeConstraints,
    type_bit_of,
)
from grammars.json_schema.source.document import SchemaDocument, SchemaNode, child_pointer
from grammars.json_schema.source.synthetic import (
    conjunction_of,
    constraint_schema,
    false_schema,
    is_true_schema,
    negation_of,
    none_or_many_of,
    unevaluated_violation,
)
from grammars.json_schema.text.numbers import Bounds
from grammars.json_schema.text.patterns import StringPattern

Limits = tuple[int, dict[str, Any]]
"""Some types, and what is said about them."""


def negate_schema(
    node: SchemaNode, document: SchemaDocument, parse_schema: Callable[[SchemaNode], ParsedSchema]
) -> ParsedSchema:
    """What holds of the values that `node` does not allow.

    Args:
        node: a schema that is not itself a negation.
        document: where it belongs.
        parse_schema: reads the keywords of one schema.
    """
    constraints, branches = TypeConstraints(types=f.EVERY_TYPE), []
    seen: dict[SchemaNode, None] = {}
    stack = [node]
    while stack:  # all that holds together fails together
        part = stack.pop()
        if part in seen:
            continue
        seen[part] = None
        if part.negates is not None:
            branches.append(part.negates)
            continue
        parsed = parse_schema(part)
        if parsed.limits:
            constraints = constraints.conjoin(parsed.constraints)
        stack.extend(reversed(parsed.all_of))
        for _, either in parsed.any_of:
            branches.append(conjunction_of(document, [negation_of(branch) for branch in either]))
        if parsed.unevaluated is not None:
            branches.append(unevaluated_violation(document, parsed.unevaluated))
        for one in parsed.one_of:
            branches.append(none_or_many_of(document, one))
    slots: list[tuple[TypeConstraints, tuple[SchemaNode, ...]]] = []
    if constraints.enum_values is not None:
        slots += _values(node, constraints, document)
    slots += [(slot, ()) for slot in _slots(node, constraints, document)]
    result = ParsedSchema()
    if len(slots) + len(branches) == 1:
        if branches:
            result.all_of = (branches[0],)
        else:
            result.constraints, result.all_of = slots[0]
            result.limits = result.constraints.limits()
    elif slots or branches:
        made = [
            constraint_schema(document, node, f"denied {i}", slot, also)
            for i, (slot, also) in enumerate(slots)
        ]
        result.any_of = (("not", [*made, *branches]),)
    else:
        result.constraints.types = 0
        result.limits = True
    return result


def _values(
    node: SchemaNode, constraints: TypeConstraints, document: SchemaDocument
) -> list[tuple[TypeConstraints, tuple[SchemaNode, ...]]]:
    """All but the listed values; and those of them that the rest of the shape does not allow (left to `_slots`)."""
    types, excluded, also = f.EVERY_TYPE, [], []
    whole_floats = document.dialect.integral_floats
    listed = constraints.enum_values or ()
    for i, value in enumerate(listed):
        kind = type_bit_of(value, whole_floats)
        if not kind & constraints.types:
            continue
        if kind == f.NULL:
            types &= ~f.NULL
        elif kind in (f.ARRAY, f.OBJECT):
            also.append(negation_of(const_schema(document, node, f"value {i}", value)))
        else:
            excluded.append(value)
    return [(TypeConstraints(types=types, excluded_values=tuple(excluded)), tuple(also))]


def const_schema(document: SchemaDocument, node: SchemaNode, label: str, value: Any) -> SchemaNode:
    """The schema of one value, structure written out."""
    if isinstance(value, (list, tuple)):
        items = ItemSchemas(
            [const_schema(document, node, f"{label}/{i}", item) for i, item in enumerate(value)]
        )
        size = len(value)
        constraints = TypeConstraints(types=f.ARRAY, items=(items,), min_items=size, max_items=size)
    elif isinstance(value, dict):
        members = MemberSchemas(
            {name: const_schema(document, node, f"{label}/{name}", item) for name, item in value.items()},
            additional=false_schema(document, node),
        )
        constraints = TypeConstraints(types=f.OBJECT, members=(members,), required=tuple(value))
    else:
        constraints = TypeConstraints(enum_values=[value])
    return constraint_schema(document, node, label, constraints)


def _slots(node: SchemaNode, constraints: TypeConstraints, document: SchemaDocument) -> list[TypeConstraints]:
    """Shapes of which one holds where something in a shape (but its listed values) fails."""
    types = constraints.types
    free = f.EVERY_TYPE & ~types
    if constraints.enum_values is not None:
        free = 0  # the values of other types are allowed already: none of them is among the listed ones
    groups: list[list[Limits]] = [[(free & (f.NULL | f.BOOLEAN), {})] if free & (f.NULL | f.BOOLEAN) else []]
    for kinds, limits in (
        (f.NUMBER, _numbers),
        (f.STRING, _strings),
        (f.ARRAY, _arrays),
        (f.OBJECT, _objects),
    ):
        group: list[Limits] = [(free & kinds, {})] if free & kinds else []
        if types & kinds:
            group += [(types & kinds, said) for said in limits(node, constraints, document)]
            problems = tuple(
                problem for problem in constraints.unsupported_keywords if problem[0] & types & kinds
            )
            if problems:
                group.append((types & kinds, {"unsupported_keywords": problems}))
        groups.append(group)
    slots = []
    for i in range(max(map(len, groups))):
        alternatives = [group[i] for group in groups if i < len(group)]
        said: dict[str, Any] = {"types": 0}
        if constraints.enum_values is not None:
            said["enum_values"] = constraints.enum_values
        for kinds, limit in alternatives:
            said["types"] |= kinds
            for name, value in limit.items():
                said[name] = said[name] + value if name == "unsupported_keywords" and name in said else value
        slots.append(TypeConstraints(**said))
    return slots


def _numbers(
    node: SchemaNode, constraints: TypeConstraints, document: SchemaDocument
) -> list[dict[str, Any]]:
    bounds = constraints.bounds
    found: list[dict[str, Any]] = []
    if bounds.low is not None:
        found.append({"bounds": Bounds(high=bounds.low, high_exclusive=not bounds.low_exclusive)})
    if bounds.high is not None:
        found.append({"bounds": Bounds(low=bounds.high, low_exclusive=not bounds.high_exclusive)})
    return found + [{"non_divisors": (step,)} for step in dict.fromkeys(constraints.divisors)]


def _strings(
    node: SchemaNode, constraints: TypeConstraints, document: SchemaDocument
) -> list[dict[str, Any]]:
    low, high = constraints.min_length, constraints.max_length
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


def _arrays(node: SchemaNode, constraints: TypeConstraints, document: SchemaDocument) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    wrong = _wrong_items(constraints.items, document, node)
    if wrong.prefix or wrong.additional is not None:
        found.append({"contains_constraints": (ContainsConstraint(wrong, 1, None, node.pointer),)})
    for counted in constraints.contains_constraints:
        if counted.min_contains:
            found.append(
                {
                    "contains_constraints": (
                        ContainsConstraint(counted.items, 0, counted.min_contains - 1, node.pointer),
                    )
                }
            )
        if counted.max_contains is not None:
            found.append(
                {
                    "contains_constraints": (
                        ContainsConstraint(counted.items, counted.max_contains + 1, None, node.pointer),
                    )
                }
            )
    if constraints.unique_items:
        place = child_pointer(node.pointer, "uniqueItems")
        problem = Problem(
            place, "cannot be denied: two equal items are no regular condition", True, "uniqueItems"
        )
        found.append({"unsupported_keywords": ((f.ARRAY, problem),)})
    if constraints.min_items:
        found.append({"max_items": constraints.min_items - 1})
    if constraints.max_items is not None:
        found.append({"min_items": constraints.max_items + 1})
    return found


def _wrong_items(parts: Sequence[ItemSchemas], document: SchemaDocument, node: SchemaNode) -> ItemSchemas:
    """By position, the schema of the items that one of `parts` does not allow."""
    size = max((len(items.prefix) for items in parts), default=0)

    def wrong(index: int) -> SchemaNode | None:
        nodes = dict.fromkeys(n for items in parts for n in items.schemas_at(index) if not is_true_schema(n))
        return negation_of(conjunction_of(document, list(nodes))) if nodes else None

    prefix = [wrong(i) or false_schema(document, node) for i in range(size)]
    return ItemSchemas(prefix, wrong(size))


def _objects(
    node: SchemaNode, constraints: TypeConstraints, document: SchemaDocument
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    members = tuple(part for part in constraints.members if _limits_members(part))
    if members or len(constraints.required) > 1 or constraints.property_names:
        found.append(
            {
                "negated_objects": (
                    NegatedObject(members, constraints.required, constraints.property_names, node.pointer),
                )
            }
        )
    elif constraints.required:
        absent = MemberSchemas({constraints.required[0]: false_schema(document, node)})
        found.append({"members": (absent,)})
    if constraints.min_properties:
        found.append({"max_properties": constraints.min_properties - 1})
    if constraints.max_properties is not None:
        found.append({"min_properties": constraints.max_properties + 1})
    return found


def _limits_members(members: MemberSchemas) -> bool:
    nodes = [*members.properties.values(), *(node for _, node in members.patterns)]
    nodes += [] if members.additional is None else [members.additional]
    return not all(map(is_true_schema, nodes))
