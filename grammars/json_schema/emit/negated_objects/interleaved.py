"""Objects that must violate at least one constraint of each of several groups: interleavings.

Obligations that a member discharges by its value or its presence belong to its entry. For obligations discharged by
absence there is one interleaving for each set of members whose absence is relied on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.emit.negated_objects.obligations import ObligedMember
from constrained.grammars.json_schema.text.punctuation import JsonPunctuation
from constrained.grammars.transform.interleave import interleave
from constrained.grammars.work import spend

MAX_DISCHARGE_SETS = 4_000
"""Maximum number of sets of absent members of one object, and of entries of one interleaving."""


def object_with_obligations(
    members: Sequence[ObligedMember],
    others: Sequence[ObligedMember],
    count: int,
    low: int,
    high: int | None,
    punctuation: JsonPunctuation,
    place: str,
    *,
    ordered: bool,
    distinct: bool,
) -> ir.Expr:
    """Objects with these members, then others, that discharge `count` obligations, with `low` to `high` members.

    Unless `ordered`, members stand in any order. No key occurs twice with `distinct`, or where its last value decides an obligation or
    it would make up for a missing member.

    Raises:
        ConstraintTooLarge: there are too many ways to discharge the obligations.
    """
    heads = {member.name: punctuation.property_key(member.name) for member in members}
    ways = []
    for absent, present, left in _absences(members, (1 << count) - 1, place):
        there = [
            member._replace(required=True) if member.name in present else member
            for member in members
            if member.name not in absent
        ]
        ways.append(
            _object(
                there, others, left, low, high, punctuation, heads, place, ordered=ordered, distinct=distinct
            )
        )
    return ir.choice(*ways)


AbsenceChoice = tuple[frozenset[str], frozenset[str], int]
"""Members whose absence is relied on, members that are present, and the remaining obligations."""


def _absences(members: Sequence[ObligedMember], full: int, place: str) -> list[AbsenceChoice]:
    """Choices of absent members, as far as each absence discharges obligations that earlier ones do not.

    Every object belongs to one choice. Members whose absence discharges most come first, which leaves fewer choices.
    """
    optional = [member for member in members if not member.required and member.discharges_if_absent]
    ways: list[AbsenceChoice] = [(frozenset(), frozenset(), full)]
    for member in sorted(optional, key=lambda member: -member.discharges_if_absent.bit_count()):
        name, before = frozenset((member.name,)), ways
        ways = []
        for absent, present, left in before:
            if member.discharges_if_absent & left:
                ways.append((absent | name, present, left & ~member.discharges_if_absent))
                ways.append((absent, present | name, left))
            else:
                ways.append((absent, present, left))
        if len(ways) > MAX_DISCHARGE_SETS:
            raise _too_many(place)
    return ways


def _object(
    members: Sequence[ObligedMember],
    others: Sequence[ObligedMember],
    marks: int,
    low: int,
    high: int | None,
    punctuation: JsonPunctuation,
    heads: Mapping[str, ir.Terminal],
    place: str,
    *,
    ordered: bool,
    distinct: bool,
) -> ir.Expr:
    """Objects whose members discharge all these obligations; `heads`: the keys of declared members."""
    telling, matters = _telling(members, marks)
    entries = [
        ir.InterleaveEntry(heads[member.name], value, slot, brought)
        for slot, member in enumerate(members)
        for value, brought in _values(member, marks, [marks] if member is telling else matters, place)
    ]
    required = [slot for slot, member in enumerate(members) if member.required]
    distinct = distinct or low > len(required) + 1
    colon = ir.Terminal(punctuation.colon)
    for other in others:
        unlike = distinct or bool(other.may_discharge & marks & ~other.discharges)
        entries += [
            ir.InterleaveEntry(
                ir.Terminal(other.keys), ir.sequence(colon, value), discharges=brought, distinct=unlike
            )
            for value, brought in _values(other, marks, matters, place)
        ]
    if len(entries) > MAX_DISCHARGE_SETS:
        raise _too_many(place)
    inside = interleave(
        entries,
        required=required,
        obligations=marks,
        low=max(low, 1),
        high=high,
        separator=punctuation.comma,
        ordered=ordered,
    )
    full = ir.sequence(punctuation.open_object, inside, punctuation.close_object)
    empty = not (marks or low or required)
    return ir.choice(punctuation.empty_object, full) if empty else full


def _telling(members: Sequence[ObligedMember], marks: int) -> tuple[ObligedMember | None, list[int]]:
    """The required member that leaves fewest obligations to the others, and the maximal sets that it may leave.

    A discriminator is such a member: it has one value, so it leaves only one obligation to the other members.
    """
    best: tuple[ObligedMember | None, list[int]] = None, [marks]
    for member in members:
        able = member.may_discharge & marks & ~member.discharges
        if member.required and (ways := _left_together(able, member)):
            unable = marks & ~member.discharges & ~able
            spend(len(ways) ** 2 // 16)
            most = [left for left in ways if not any(left != way and not left & ~way for way in ways)]
            option = member, [unable | left for left in most]
            best = min(best, option, key=lambda pair: sum(1 << left.bit_count() for left in pair[1]))
    return best


def _left_together(able: int, member: ObligedMember) -> list[int]:
    """Sets of obligations that a value may leave undischarged together; empty if there are too many."""
    sets = [0]
    for whole in dict.fromkeys(
        member.implied_by_discharge[bit] & able for bit in range(able.bit_length()) if able >> bit & 1
    ):
        certain = 0
        for bit, mask in member.implied_by_failure.items():
            certain |= mask if whole >> bit & 1 else 0
        sets += [left | whole for left in sets if not left & certain]
        spend(1 + len(sets) // 4)
        if len(sets) > MAX_DISCHARGE_SETS:
            return []
    return sets


def _values(
    member: ObligedMember, marks: int, matters: Sequence[int], place: str
) -> list[tuple[ir.Expr, int]]:
    """Values of a member, each with the obligations that it discharges, as far as one of `matters` contains them."""
    able = member.may_discharge & marks & ~member.discharges
    chosen: dict[int, None] = {}
    for wanted in dict.fromkeys(able & matter for matter in matters):
        ways = _left_together(wanted, member)
        chosen.update(dict.fromkeys(wanted & ~left for left in ways))
        if not ways or len(chosen) > MAX_DISCHARGE_SETS:
            raise _too_many(place)
    values = []
    for mask in sorted(chosen):
        value = member.value_for(mask)
        if value is not ir.EMPTY_LANGUAGE:
            values.append((value, (member.discharges & marks) | mask))
    return values


def _too_many(place: str) -> ConstraintTooLarge:
    return ConstraintTooLarge(
        "too many negated conditions on one object",
        Problem(place, f"more than {MAX_DISCHARGE_SETS} ways to discharge them"),
        action="simplify oneOf, not or if at this place",
    )
