"""Objects that must violate at least one constraint of each of several groups, members in the order of the schema.

As `constrained.grammars.json_schema.emit.objects.object_expr`, with the set of discharged obligations (a bitmask) in the state. A
member may discharge obligations by its value, its presence or its absence. States with an obligation that no later
member can discharge are not built. Where undeclared keys must differ, `unordered` builds an interleaving.
"""

from __future__ import annotations

from collections.abc import Sequence

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.emit.negated_objects.members import DeclaredMember, UndeclaredMember
from constrained.grammars.json_schema.emit.negated_objects.unordered import interleaved_object
from constrained.grammars.json_schema.text.punctuation import JsonPunctuation
from constrained.grammars.work import spend

MAX_OBLIGATION_TRANSITIONS = 100_000
"""Maximum number of transitions of one object."""

ObligationState = tuple[int, int]
"""Bitmask of discharged obligations, and number of members."""


def object_with_obligations(
    members: Sequence[DeclaredMember],
    others: Sequence[UndeclaredMember],
    count: int,
    low: int,
    high: int | None,
    punctuation: JsonPunctuation,
    place: str,
    *,
    ordered: bool = True,
    distinct_names: bool = False,
) -> ir.Expr:
    """Objects with these members, then others, that discharge `count` obligations, with `low` to `high` members.

    Unless `ordered`, members stand in any order. `distinct_names`: no name comes twice.

    Raises:
        ConstraintTooLarge: there are too many states or transitions.
    """
    able = 0
    for other in others:
        able |= other.may_discharge
    if ordered and able.bit_count() <= 1 and not (distinct_names and others):
        try:
            return _ObligationAutomaton(
                members, others, (1 << count) - 1, low, high, punctuation, place
            ).expr()
        except _DistinctKeysNeeded:
            pass
    return interleaved_object(members, others, count, low, high, punctuation, place, ordered=ordered)


class _DistinctKeysNeeded(Exception):
    """Several undeclared members are required, whose keys must differ."""


class _ObligationAutomaton:
    def __init__(
        self,
        members: Sequence[DeclaredMember],
        others: Sequence[UndeclaredMember],
        full: int,
        low: int,
        high: int | None,
        punctuation: JsonPunctuation,
        place: str,
    ) -> None:
        self.members = [
            member
            for member in members
            if member.required or member.value_for(0) is not ir.EMPTY_LANGUAGE or member.discharges_if_absent
        ]
        self.others = others
        self.full = full
        needed = sum(member.required for member in self.members)
        self.low = 0 if low <= needed else low
        self.high = high
        self.layout = punctuation
        self.place = place
        self.top = self.low if high is None else high  # larger counts are equivalent
        self.known_ends: dict[ObligationState, tuple[ir.Expr, ir.Expr]] = {}
        self.known_choices: dict[tuple[int, int], list[int]] = {}
        self.later: list[list[frozenset[object]]] = []
        """By position and obligation, the events at that position or later that may discharge it."""

    def expr(self) -> ir.Expr:
        """The whole object."""
        punctuation = self.layout
        reached = self.reachable()
        after = {state: self.end(state) for state in reached[-1]}  # (head, tail) of each state
        closes = {state for state in after if self.may_close(state)}
        for i in range(len(self.members) - 1, -1, -1):
            member = self.members[i]
            here: dict[ObligationState, tuple[ir.Expr, ir.Expr]] = {}
            closes_here = set()
            for state in reached[i]:
                values = []
                for chosen in self.choices(i, state):
                    following = self.after_member(state, member.discharges | chosen)
                    if following in after:
                        values.append(ir.sequence(member.value_for(chosen), after[following][1]))
                value = ir.choice(*values)
                head = ir.sequence(punctuation.property_key(member.name), value)
                if member.required:
                    here[state] = head, ir.sequence(punctuation.next_property_key(member.name), value)
                    continue
                skipped = state[0] | member.discharges_if_absent, state[1]
                close: ir.Expr = ir.EMPTY_LANGUAGE
                if skipped in after:
                    head = ir.choice(head, after[skipped][0])
                    if skipped in closes:
                        closes_here.add(state)
                        close = punctuation.close_object
                here[state] = head, ir.choice(close, ir.sequence(punctuation.comma, head))
            after, closes = here, closes_here
        start = (0, 0)
        if start not in after:
            return ir.EMPTY_LANGUAGE
        full = ir.sequence(punctuation.open_object, after[start][0])
        return ir.choice(punctuation.empty_object, full) if start in closes else full

    def after_member(self, state: ObligationState, discharges: int) -> ObligationState | None:
        """The state after one more member; None when there are too many."""
        mask, count = state
        if self.high is not None and count >= self.high:
            return None
        return mask | discharges, min(count + 1, self.top)

    def reachable(self) -> list[set[ObligationState]]:
        """By position, the states from which all obligations can still be discharged."""
        bits = range(self.full.bit_length())
        here: list[frozenset[object]] = [
            frozenset(
                i
                for i, other in enumerate(self.others)
                if (other.discharges | other.may_discharge) >> bit & 1
            )
            for bit in bits
        ]
        self.later = [here]
        for member in reversed(self.members):
            events = (
                (member.discharges_if_absent, lambda bit, member: ("absent", member.name)),
                (member.discharges, lambda bit, member: ("present", member.name)),
                (
                    member.may_discharge,
                    lambda bit, member: ("value", member.name, member.implied_by_discharge[bit]),
                ),
            )
            here = [
                here[bit].union(event(bit, member) for mask, event in events if mask >> bit & 1)
                for bit in bits
            ]
            self.later.append(here)
        self.later.reverse()
        reached: list[set[ObligationState]] = [{(0, 0)}]
        total = 0
        for i, member in enumerate(self.members):
            states: set[ObligationState | None] = set()
            for state in reached[i]:
                if not member.required:
                    states.add((state[0] | member.discharges_if_absent, state[1]))
                chosen = self.choices(i, state)
                states.update(self.after_member(state, member.discharges | mask) for mask in chosen)
                total += 1 + len(chosen)
                if total > MAX_OBLIGATION_TRANSITIONS:
                    raise self.too_many()
            lost = sum(1 << bit for bit in bits if not self.later[i + 1][bit])
            reached.append({state for state in states if state is not None and not lost & ~state[0]})
        return reached

    def choices(self, place: int, state: ObligationState) -> list[int]:
        """The sets of obligations that the value of a member may be chosen to discharge.

        A set contains every obligation that nothing later can discharge. Obligations with equal later events, and
        obligations that a value discharges together, are chosen together or not at all. Obligations that every value
        discharges at least one of are never all left undischarged: a value equals at most one of several constants, so
        it discharges the negations of all the others.
        """
        member, later = self.members[place], self.later[place + 1]
        missing = self.full & ~state[0] & ~member.discharges
        able = missing & member.may_discharge
        if not able:
            return [0] if member.value_for(0) is not ir.EMPTY_LANGUAGE else []
        known = self.known_choices.get((place, able))
        if known is not None:
            return known
        must = 0
        groups: dict[frozenset[frozenset[object]], int] = {}
        for equivalent in dict.fromkeys(
            member.implied_by_discharge[bit] & able for bit in range(able.bit_length()) if able >> bit & 1
        ):
            ways = frozenset(later[bit] for bit in range(equivalent.bit_length()) if equivalent >> bit & 1)
            if all(ways):
                groups[ways] = groups.get(ways, 0) | equivalent
            else:
                must |= equivalent
        whole = must | sum(groups.values())
        open_ = [0]  # sets that may be left undischarged
        for group in groups.values():
            certain = 0
            for bit, mask in member.implied_by_failure.items():
                if group >> bit & 1:
                    certain |= mask
            if not certain & group:
                open_ += [left | group for left in open_ if not left & certain]
                spend(1 + len(open_) // 4)
            if len(open_) > MAX_OBLIGATION_TRANSITIONS:
                raise self.too_many()
        masks = [mask for left in open_ if member.value_for(mask := whole & ~left) is not ir.EMPTY_LANGUAGE]
        self.known_choices[place, able] = masks
        return masks

    def too_many(self) -> ConstraintTooLarge:
        """The error that the object needs more than `MAX_OBLIGATION_TRANSITIONS` transitions."""
        return ConstraintTooLarge(
            "too many negated conditions on one object",
            Problem(
                self.place,
                f"more than {MAX_OBLIGATION_TRANSITIONS} transitions between sets of discharged obligations",
            ),
            action="simplify oneOf, not or if at this place",
        )

    # ------------------------------------------------------------ after the declared members

    def may_close(self, state: ObligationState) -> bool:
        """Whether the object may end with no more members."""
        return state[0] == self.full and state[1] >= self.low

    def end(self, state: ObligationState) -> tuple[ir.Expr, ir.Expr]:
        """The expressions of what follows the declared members: without a leading comma, and with one."""
        stack = [state]
        while stack:
            current = stack[-1]
            if current in self.known_ends:
                stack.pop()
                continue
            missing = [
                following
                for other in self.others
                if (following := self.after_member(current, other.discharges)) is not None
                and following != current
                and following not in self.known_ends
            ]
            if missing and current[0] != self.full:
                stack += missing
                if len(stack) + len(self.known_ends) > MAX_OBLIGATION_TRANSITIONS:
                    raise ConstraintTooLarge(
                        "too many members to count", Problem(self.place, f"up to {self.top} members")
                    )
                continue
            self.known_ends[current] = self._end(current)
            stack.pop()
        return self.known_ends[state]

    def _end(self, state: ObligationState) -> tuple[ir.Expr, ir.Expr]:
        punctuation = self.layout
        mask, count = state
        close, comma = punctuation.close_object, punctuation.comma
        member = [ir.sequence(punctuation.key(other.keys), other.value_for(0)) for other in self.others]
        if mask == self.full:
            more = ir.choice(*member)
            least, most = max(0, self.low - count), None if self.high is None else self.high - count
            if least > 1 and more is not ir.EMPTY_LANGUAGE:
                raise _DistinctKeysNeeded
            tail = ir.sequence(ir.loop(ir.sequence(comma, more), least, most), close)
            again = ir.loop(ir.sequence(comma, more), max(0, least - 1), None if most is None else most - 1)
            return (ir.EMPTY_LANGUAGE if most == 0 else ir.sequence(more, again, close)), tail
        same: list[ir.Expr] = []
        heads: list[ir.Expr] = []
        for other, any_value in zip(self.others, member, strict=True):
            following = self.after_member(state, other.discharges)
            if following is None:
                continue
            if following == state:
                same.append(any_value)
            else:
                heads.append(ir.sequence(any_value, self.known_ends[following][1]))
            missing = self.full & ~mask & ~other.discharges
            if missing and not missing & ~other.may_discharge and following[1] >= self.low:
                heads.append(ir.sequence(punctuation.key(other.keys), other.value_for(missing), close))
        ways = ir.choice(*heads)
        again = ir.loop(ir.sequence(comma, ir.choice(*same)), 0, None)
        tail = ir.sequence(again, comma, ways)
        return ir.choice(ways, ir.sequence(ir.choice(*same), tail)), tail
