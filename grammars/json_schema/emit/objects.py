"""Objects: from constraints to the expression of everything between the braces.

Members stand in this order: the declared properties in the order of the schema, then required names that no schema
declares, then any number of undeclared members. Each position between members has one expression, shared by all
prefixes that reach it, so the size is linear in the number of properties. A key may occur twice among the undeclared
members: readers keep the last, so the value stays valid.

Where members are counted or stand in any order they are entries of an interleaving. No key occurs twice in any
order, nor where a second occurrence would count towards ``minProperties``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.emit.context import Context, require_few_distinct
from constrained.grammars.json_schema.emit.negated_objects.interleaved import object_with_obligations
from constrained.grammars.json_schema.emit.negated_objects.obligations import (
    SchemaOracle,
    collect_obligations,
)
from constrained.grammars.json_schema.source.constraints import Conjunction, TypeConstraints
from constrained.grammars.json_schema.source.members import declared_names, key_classes, schemas_of_members
from constrained.grammars.transform.interleave import interleave
from constrained.grammars.work import spend

MAX_NEGATED_OBJECTS = 500
"""Maximum number of objects of one document that must violate a schema."""


class PropertyMember(NamedTuple):
    """A declared property: its name, whether it is required, and the expression of its value."""

    name: str
    required: bool
    value: ir.Expr


class ObjectLowering:
    """Lowers the objects of one document.

    Args:
        oracle: properties of schemas, and their expressions.
        context: the document.
    """

    def __init__(self, oracle: SchemaOracle, context: Context) -> None:
        self.oracle = oracle
        self.options = context.options
        self.diagnostics = context.diagnostics
        self.punctuation = context.punctuation
        self.negated_object_count = 0

    def object(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The objects of a disjunct."""
        place = disjunct[0].pointer if disjunct else "#"
        if constraints.negated_objects:
            return self.negated_object_expr(disjunct, constraints, place)
        names = declared_names(constraints)
        spend(1 + len(names) // 2, place)
        required = frozenset(constraints.required)
        members: list[PropertyMember] = []
        for name, schemas in zip(names, schemas_of_members(constraints, names), strict=True):
            allowed = self.oracle.key_allowed(constraints.property_names, name)
            value = self.member_value(name, schemas) if allowed else ir.EMPTY_LANGUAGE
            is_required = name in required
            if is_required and value is ir.EMPTY_LANGUAGE:
                reason = f"the property {name!r} is required, and no value of it is allowed"
                self.diagnostics.conflict(disjunct, reason)
                return ir.EMPTY_LANGUAGE
            members.append(PropertyMember(name, is_required, value))
        low, high = constraints.min_properties, constraints.max_properties
        at_least = max(low, len(required))
        if high is not None and at_least > high:
            self.diagnostics.conflict(
                disjunct, f"at most {high} properties are allowed, and at least {at_least} are required"
            )
            return ir.EMPTY_LANGUAGE
        others = [
            (
                self.oracle.allowed_keys(constraints.property_names, keys),
                self.oracle.conjunction_expr(conjunction),
            )
            for keys, conjunction in key_classes(constraints, names, place)
            if conjunction or not (self.options.closed and constraints.members)
        ]
        possible = sum(member.value is not ir.EMPTY_LANGUAGE for member in members)
        if at_least > possible and all(
            isinstance(keys, ir.EmptySet) or value is ir.EMPTY_LANGUAGE for keys, value in others
        ):
            reason = f"at least {at_least} properties are required, and at most {possible} are possible: no other name is allowed"
            self.diagnostics.conflict(disjunct, reason)
            return ir.EMPTY_LANGUAGE
        if others:
            require_few_distinct(disjunct, "minProperties", low - len(required))
        return self.object_of(members, others, low, high)

    def member_value(self, name: str, schemas: Conjunction) -> ir.Expr:
        """What follows the key of a declared member."""
        return self.oracle.conjunction_expr(schemas)

    def object_of(
        self,
        members: Sequence[PropertyMember],
        others: Sequence[tuple[ir.Regex, ir.Expr]],
        low: int,
        high: int | None,
    ) -> ir.Expr:
        """Objects with these members, then any number of others, with `low` to `high` members in total.

        Names of others may come again, unless names are distinct, or where that would make up for a missing member.
        """
        members = [member for member in members if member.required or member.value is not ir.EMPTY_LANGUAGE]
        more = ir.choice(*(ir.sequence(self.punctuation.key(keys), value) for keys, value in others))
        needed = sum(member.required for member in members)
        if low <= needed:
            low = 0  # implied by the required members
        if high is not None and (high > ir.MAX_COUNT or (more is ir.EMPTY_LANGUAGE and high >= len(members))):
            high = None
        distinct = self.options.distinct_names
        if low == 0 and high is None and self.options.ordered and not (distinct and others):
            return self._uncounted(members, more, needed)
        if low > ir.MAX_COUNT and more is ir.EMPTY_LANGUAGE:
            return ir.EMPTY_LANGUAGE
        repeats = self.options.ordered and low <= needed + 1 and not distinct
        return self.interleaved(members, others, min(low, ir.MAX_COUNT), high, repeats=repeats)

    def interleaved(
        self,
        members: Sequence[PropertyMember],
        others: Sequence[tuple[ir.Regex, ir.Expr]],
        low: int,
        high: int | None,
        *,
        repeats: bool,
    ) -> ir.Expr:
        """`object_of` as an interleaving; `repeats`: names of others may come twice: such a key makes up for no missing member."""
        punctuation = self.punctuation
        entries = [
            ir.InterleaveEntry(punctuation.property_key(member.name), member.value, slot)
            for slot, member in enumerate(members)
        ]
        needed = [slot for slot, member in enumerate(members) if member.required]
        if repeats:
            entries += [ir.InterleaveEntry(punctuation.key(keys), value) for keys, value in others]
        else:
            colon = ir.Terminal(punctuation.colon)
            entries += [
                ir.InterleaveEntry(ir.Terminal(keys), ir.sequence(colon, value), distinct=True)
                for keys, value in others
            ]
        inside = interleave(
            entries,
            required=needed,
            low=max(low, 1),
            high=high,
            separator=punctuation.comma,
            ordered=self.options.ordered,
        )
        full = ir.sequence(punctuation.open_object, inside, punctuation.close_object)
        return full if needed or low else ir.choice(punctuation.empty_object, full)

    def _uncounted(self, members: Sequence[PropertyMember], more: ir.Expr, needed: int) -> ir.Expr:
        """`object_of` with any number of members."""
        punctuation = self.punctuation
        comma, close = punctuation.comma, punctuation.close_object
        head: ir.Expr = ir.EMPTY_LANGUAGE  # what follows where the next member has no comma
        tail: ir.Expr = close  # what follows a member
        if more is not ir.EMPTY_LANGUAGE:
            again = ir.Loop(ir.Sequence((comma, more)), 0, None)
            head, tail = ir.Sequence((more, again, close)), ir.Sequence((again, close))
        open_end = True  # whether no required member follows
        for i in range(len(members) - 1, -1, -1):
            name, required, value = members[i]
            if required:
                open_end = False
                if i == 0 or not members[i - 1].required:  # otherwise a member always precedes it
                    head = ir.Sequence((punctuation.property_key(name), value, tail))
                if i:
                    tail = ir.Sequence((punctuation.next_property_key(name), value, tail))
            else:
                present = ir.Sequence((punctuation.property_key(name), value, tail))
                head = present if head is ir.EMPTY_LANGUAGE else ir.Choice((present, head))
                following = ir.Sequence((comma, head))
                tail = ir.Choice((close, following)) if open_end else following
        full = ir.sequence(punctuation.open_object, head)
        return ir.choice(punctuation.empty_object, full) if needed == 0 else full

    def count_negated_object(self, place: str) -> None:
        """Counts a disjunct with a `NegatedObject`, before anything is made of it."""
        self.negated_object_count += 1
        if self.negated_object_count > MAX_NEGATED_OBJECTS:
            raise ConstraintTooLarge(
                "too many negated conditions on objects",
                Problem(place, f"more than {MAX_NEGATED_OBJECTS} objects that must violate a schema"),
                action="simplify oneOf, not or if",
            )

    def negated_object_expr(self, disjunct: Conjunction, constraints: TypeConstraints, place: str) -> ir.Expr:
        """The objects of a disjunct that must violate at least one constraint of each `NegatedObject`."""
        obligations = collect_obligations(constraints, self.oracle, place)
        if obligations is None:
            self.diagnostics.conflict(disjunct, "every object matches the schema under `not`")
            return ir.EMPTY_LANGUAGE
        low, high = constraints.min_properties, constraints.max_properties
        if not obligations.number:  # each was met where the schemas of members were conjoined
            members = [
                PropertyMember(member.name, member.required, member.value_for(0))
                for member in obligations.members
            ]
            if high is not None and max(low, sum(member.required for member in members)) > high:
                return ir.EMPTY_LANGUAGE
            return self.object_of(
                members, [(other.keys, other.value_for(0)) for other in obligations.others], low, high
            )
        return object_with_obligations(
            *obligations,
            low,
            high,
            self.punctuation,
            constraints.negated_objects[0].place,
            ordered=self.options.ordered,
            distinct=self.options.distinct_names or not self.options.ordered,
        )
