"""What the negation of a schema says, in the same terms as any schema: a `Shape` or a few, one of which must hold.

A shape speaks of every type apart, and so does its negation: types that it does not allow are free, and of each
type that it limits one limit must fail. Limits of one type are alternatives; those of different types stand
together in one shape, so the number of alternatives is the greatest of one type, not the product or the sum.

Schemas of members and items, and keys that must be there, fail together as one alternative (`Denied`, `Counted`
from one on): which of them fails is left to the reading of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grammars import ir
from grammars.errors import Problem
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.constraints import Counted, Denied, Facts, Items, Members, Shape, type_of
from grammars.json_schema.source.document import Document, Node, step
from grammars.json_schema.source.synthetic import (
    allows_all,
    negated,
    not_one,
    nothing,
    shaped,
    together,
    wrong_rest,
)
from grammars.json_schema.text.numbers import Bounds
from grammars.json_schema.text.patterns import Pattern

Limits = tuple[int, dict[str, Any]]
"""Some types, and what is said about them."""


def negation(node: Node, document: Document, facts_of: Callable[[Node], Facts]) -> Facts:
    """What holds of the values that `node` does not allow.

    Args:
        node: a schema that is not itself a negation.
        document: where it belongs.
        facts_of: what a schema says by itself.
    """
    shape, branches = Shape(types=f.EVERY_TYPE), []
    seen: dict[Node, None] = {}
    stack = [node]
    while stack:  # all that holds together fails together
        part = stack.pop()
        if part in seen:
            continue
        seen[part] = None
        if part.denies is not None:
            branches.append(part.denies)
            continue
        facts = facts_of(part)
        if facts.limits:
            shape = shape.meet(facts.shape)
        stack.extend(reversed(facts.also))
        for _, either in facts.either:
            branches.append(together(document, [negated(branch) for branch in either]))
        if facts.rest is not None:
            branches.append(wrong_rest(document, facts.rest))
        for one in facts.one:
            branches.append(not_one(document, one))
    slots: list[tuple[Shape, tuple[Node, ...]]] = []
    if shape.values is not None:
        slots += _values(node, shape, document)
    slots += [(slot, ()) for slot in _slots(node, shape, document)]
    result = Facts()
    if len(slots) + len(branches) == 1:
        if branches:
            result.also = (branches[0],)
        else:
            result.shape, result.also = slots[0]
            result.limits = result.shape.limits()
    elif slots or branches:
        made = [shaped(document, node, f"denied {i}", slot, also) for i, (slot, also) in enumerate(slots)]
        result.either = (("not", [*made, *branches]),)
    else:
        result.shape.types = 0
        result.limits = True
    return result


def _values(node: Node, shape: Shape, document: Document) -> list[tuple[Shape, tuple[Node, ...]]]:
    """All but the listed values; and those of them that the rest of the shape does not allow (left to `_slots`)."""
    types, excluded, also = f.EVERY_TYPE, [], []
    whole_floats = document.draft.whole_floats
    listed = shape.values or ()
    for i, value in enumerate(listed):
        kind = type_of(value, whole_floats)
        if not kind & shape.types:
            continue
        if kind == f.NULL:
            types &= ~f.NULL
        elif kind in (f.ARRAY, f.OBJECT):
            also.append(negated(equal_to(document, node, f"value {i}", value)))
        else:
            excluded.append(value)
    return [(Shape(types=types, excluded=tuple(excluded)), tuple(also))]


def equal_to(document: Document, node: Node, label: str, value: Any) -> Node:
    """The schema of one value, structure written out."""
    if isinstance(value, (list, tuple)):
        items = Items([equal_to(document, node, f"{label}/{i}", item) for i, item in enumerate(value)])
        size = len(value)
        shape = Shape(types=f.ARRAY, items=(items,), min_items=size, max_items=size)
    elif isinstance(value, dict):
        members = Members(
            {name: equal_to(document, node, f"{label}/{name}", item) for name, item in value.items()},
            additional=nothing(document, node),
        )
        shape = Shape(types=f.OBJECT, members=(members,), required=tuple(value))
    else:
        shape = Shape(values=[value])
    return shaped(document, node, label, shape)


def _slots(node: Node, shape: Shape, document: Document) -> list[Shape]:
    """Shapes of which one holds where something in a shape (but its listed values) fails."""
    types = shape.types
    free = f.EVERY_TYPE & ~types
    if shape.values is not None:
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
            group += [(types & kinds, said) for said in limits(node, shape, document)]
            problems = tuple(problem for problem in shape.problems if problem[0] & types & kinds)
            if problems:
                group.append((types & kinds, {"problems": problems}))
        groups.append(group)
    slots = []
    for i in range(max(map(len, groups))):
        alternatives = [group[i] for group in groups if i < len(group)]
        said: dict[str, Any] = {"types": 0}
        if shape.values is not None:
            said["values"] = shape.values
        for kinds, limit in alternatives:
            said["types"] |= kinds
            for name, value in limit.items():
                said[name] = said[name] + value if name == "problems" and name in said else value
        slots.append(Shape(**said))
    return slots


def _numbers(node: Node, shape: Shape, document: Document) -> list[dict[str, Any]]:
    bounds = shape.bounds
    found: list[dict[str, Any]] = []
    if bounds.low is not None:
        found.append({"bounds": Bounds(high=bounds.low, high_strict=not bounds.low_strict)})
    if bounds.high is not None:
        found.append({"bounds": Bounds(low=bounds.high, low_strict=not bounds.high_strict)})
    return found + [{"indivisible": (step,)} for step in dict.fromkeys(shape.multiples)]


def _strings(node: Node, shape: Shape, document: Document) -> list[dict[str, Any]]:
    low, high = shape.min_length, shape.max_length
    if not shape.patterns:
        shorter = [{"max_length": low - 1}] if low > 0 else []
        longer = [{"min_length": high + 1}] if high is not None else []
        return [*shorter, *longer]
    sources = [pattern.source for pattern in shape.patterns]
    lengths = [ir.repeat(ir.ANY_CHAR, low, high)] if low or high is not None else []
    if lengths:
        sources.append(f"length {low} to {high}")

    def others(texts: list[ir.Regex]) -> ir.Regex:
        return ir.difference(ir.TEXT, ir.intersection(*texts, *lengths))

    surely = others([pattern.loosest for pattern in shape.patterns])
    perhaps = [pattern.characters for pattern in shape.patterns]
    return [{"patterns": (Pattern(f"not {' and '.join(sources)}", surely, lambda: others(perhaps)),)}]


def _arrays(node: Node, shape: Shape, document: Document) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    wrong = _wrong_items(shape.items, document, node)
    if wrong.prefix or wrong.rest is not None:
        found.append({"counted": (Counted(wrong, 1, None, node.pointer),)})
    for counted in shape.counted:
        if counted.least:
            found.append({"counted": (Counted(counted.items, 0, counted.least - 1, node.pointer),)})
        if counted.most is not None:
            found.append({"counted": (Counted(counted.items, counted.most + 1, None, node.pointer),)})
    if shape.unique:
        place = step(node.pointer, "uniqueItems")
        problem = Problem(
            place, "cannot be denied: two equal items are no regular condition", True, "uniqueItems"
        )
        found.append({"problems": ((f.ARRAY, problem),)})
    if shape.min_items:
        found.append({"max_items": shape.min_items - 1})
    if shape.max_items is not None:
        found.append({"min_items": shape.max_items + 1})
    return found


def _wrong_items(parts: Sequence[Items], document: Document, node: Node) -> Items:
    """By position, the schema of the items that one of `parts` does not allow."""
    size = max((len(items.prefix) for items in parts), default=0)

    def wrong(index: int) -> Node | None:
        nodes = dict.fromkeys(n for items in parts for n in items.on(index) if not allows_all(n))
        return negated(together(document, list(nodes))) if nodes else None

    prefix = [wrong(i) or nothing(document, node) for i in range(size)]
    return Items(prefix, wrong(size))


def _objects(node: Node, shape: Shape, document: Document) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    members = tuple(part for part in shape.members if _limits_members(part))
    if members or len(shape.required) > 1 or shape.names:
        found.append({"denied": (Denied(members, shape.required, shape.names, node.pointer),)})
    elif shape.required:
        absent = Members({shape.required[0]: nothing(document, node)})
        found.append({"members": (absent,)})
    if shape.min_members:
        found.append({"max_members": shape.min_members - 1})
    if shape.max_members is not None:
        found.append({"min_members": shape.max_members + 1})
    return found


def _limits_members(members: Members) -> bool:
    nodes = [*members.properties.values(), *(node for _, node in members.patterns)]
    nodes += [] if members.additional is None else [members.additional]
    return not all(map(allows_all, nodes))
