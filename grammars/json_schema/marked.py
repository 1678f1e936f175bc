"""Objects of which something must be so, their members in any order: bags with a mark for each obligation.

What a member fulfils by its value or by being there are marks of its entry. For what is fulfilled by leaving members
out, one bag is made for every set of members whose absence is relied on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product
from typing import TYPE_CHECKING, TypeVar

from grammars import ir
from grammars.bags import bag
from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema.layout import Layout

if TYPE_CHECKING:
    from grammars.json_schema.obliged import Declared, Other

MAX_WAYS = 4_000
"""Most sets of members of one object whose absence is relied on, and most entries of one of its bags."""

T = TypeVar("T")


def marked_object(
    members: Sequence[Declared],
    others: Sequence[Other],
    count: int,
    low: int,
    high: int | None,
    layout: Layout,
    place: str,
    *,
    ordered: bool,
) -> ir.Expr:
    """The objects of `obliged.obliged_object`, in any order unless `ordered`; no key comes twice.

    Raises:
        ConstraintTooLarge: there are too many ways to fulfil the obligations.
    """
    open_ = (1 << count) - 1
    ways = []
    for absent in _absences(members, count, place):
        left = open_
        for member in members:
            if member.name in absent:
                left &= ~member.left_out
        present = [member for member in members if member.name not in absent]
        ways.append(_object(present, others, left, low, high, layout, place, ordered=ordered))
    return ir.choice(*ways)


def _absences(members: Sequence[Declared], count: int, place: str) -> list[frozenset[str]]:
    """Sets of members whose absence is relied on: for each obligation none, or one that fulfils it by that."""
    optional = [member for member in members if not member.required]
    choices: list[list[str | None]] = []
    total = 1
    for bit in range(count):
        choices.append([None, *(member.name for member in optional if member.left_out >> bit & 1)])
        total *= len(choices[-1])
        if total > MAX_WAYS:
            raise _too_many(place)
    return list(
        dict.fromkeys(frozenset(name for name in way if name is not None) for way in product(*choices))
    )


def _object(
    members: Sequence[Declared],
    others: Sequence[Other],
    marks: int,
    low: int,
    high: int | None,
    layout: Layout,
    place: str,
    *,
    ordered: bool,
) -> ir.Expr:
    """Objects whose members have all these marks."""
    entries = [
        ir.Entry(layout.declared_key(member.name), value, slot, brought)
        for slot, member in enumerate(members)
        for value, brought in _values(member, marks, place)
    ]
    colon = ir.Terminal(layout.colon)
    for other in others:
        keys = ir.Terminal(other.keys)
        entries += [
            ir.Entry(keys, ir.sequence(colon, value), marks=brought, distinct=True)
            for value, brought in _values(other, marks, place)
        ]
    if len(entries) > MAX_WAYS:
        raise _too_many(place)
    inside = bag(
        entries,
        needed=[slot for slot, member in enumerate(members) if member.required],
        marks=marks,
        low=max(low, 1),
        high=high,
        separator=layout.comma,
        ordered=ordered,
    )
    full = ir.sequence(layout.open_object, inside, layout.close_object)
    empty = not (marks or low or any(member.required for member in members))
    return ir.choice(layout.empty_object, full) if empty else full


def _values(member: Declared | Other, marks: int, place: str) -> list[tuple[ir.Expr, int]]:
    """Values of a member, each with the marks that it brings."""
    able = [1 << bit for bit in range(marks.bit_length()) if member.able & marks & ~member.fulfils & 1 << bit]
    if 1 << len(able) > MAX_WAYS:
        raise _too_many(place)
    found = []
    for chosen in subsets(able):
        value = member.value(sum(chosen))
        if value is not ir.NEVER:
            found.append((value, (member.fulfils & marks) | sum(chosen)))
    return found


def _too_many(place: str) -> ConstraintTooLarge:
    return ConstraintTooLarge(
        "too many conditions on one object",
        Problem(place, f"more than {MAX_WAYS} ways to fulfil them"),
        action="simplify oneOf, not or if at this place",
    )


def subsets(parts: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """All ways to choose some of a few, fewest first."""
    return chain.from_iterable(combinations(parts, size) for size in range(len(parts) + 1))
