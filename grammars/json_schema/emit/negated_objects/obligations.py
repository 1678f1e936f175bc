"""Obligations of an object under ``not``: each `NegatedObject` is one obligation, to violate at least one constraint.

A member discharges an obligation by a value that violates the negated schemas, by its presence (where every allowed
value violates them), or by its absence. Obligations that are always or never discharged are resolved here, so that
most are gone before the object is lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.source.constraints import (
    Conjunction,
    NegatedObject,
    TypeConstraints,
    schemas_on,
)
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.json_schema.source.members import (
    declared_names,
    forbidden_patterns,
    key_class_schemas,
    partition_keys,
)
from constrained.grammars.json_schema.source.synthetic import conjunction_of, is_true_schema, negation_of
from constrained.grammars.json_schema.text.patterns import StringPattern
from constrained.grammars.work import spend

MAX_OBLIGATIONS = 12
"""Maximum number of obligations of one object."""


class SchemaOracle(NamedTuple):
    """Functions for properties of schemas, and their expressions.

    Attributes:
        conjunction_expr: the expression of the values of a conjunction.
        known_empty: whether a conjunction is proved to have no values.
        key_allowed: whether a key satisfies schemas.
        allowed_keys: the keys of a language that satisfy schemas.
    """

    conjunction_expr: Callable[[Conjunction], ir.Expr]
    known_empty: Callable[[Conjunction], bool]
    key_allowed: Callable[[Conjunction, str], bool]
    allowed_keys: Callable[[Conjunction, ir.Regex], ir.Regex]


class ObligedMember(NamedTuple):
    """A declared property, or the members with a class of undeclared keys, and which obligations they discharge.

    Attributes:
        discharges: obligations discharged by its presence (bitmask).
        may_discharge: further obligations that its value may discharge.
        value_for: the expression of its values that discharge a set of `may_discharge`.
        implied_by_failure: by obligation that a value does not discharge, those that it then discharges.
        implied_by_discharge: by obligation that a value discharges, all that it then discharges.
        keys: undeclared keys; none for a declared property.
        name: the key of a declared property.
        required: whether it must be present.
        discharges_if_absent: obligations discharged by its absence.
    """

    discharges: int
    may_discharge: int
    value_for: Callable[[int], ir.Expr]
    implied_by_failure: Mapping[int, int]
    implied_by_discharge: Mapping[int, int]
    keys: ir.Regex = ir.EMPTY_SET
    name: str = ""
    required: bool = False
    discharges_if_absent: int = 0


class ObjectObligations(NamedTuple):
    """The declared and undeclared members of an object and its number of obligations, for `object_with_obligations`."""

    members: list[ObligedMember]
    others: list[ObligedMember]
    number: int


ALWAYS_DISCHARGED = True
"""A `Discharge` by every allowed value."""

Discharge = SchemaNode | bool | None
"""What discharges an obligation: a value of this schema, every value (True), or no value (None)."""


def collect_obligations(
    constraints: TypeConstraints, oracle: SchemaOracle, place: str
) -> ObjectObligations | None:
    """The members of an object and the obligations that they discharge; None when that is impossible.

    Raises:
        ConstraintTooLarge: too many obligations or key classes.
    """
    names = dict.fromkeys(declared_names(constraints))
    for denied in constraints.negated_objects:
        for members in denied.members:
            names.update(dict.fromkeys(members.properties))
        names.update(dict.fromkeys(denied.required))
    spend(len(names) * (1 + len(constraints.negated_objects)) // 4, place)
    goals: dict[str, Conjunction] = {}
    values: dict[str, ir.Expr] = {}
    required = set(constraints.required)
    for name in names:
        goals[name] = conjunction = schemas_on(constraints.members, name)
        values[name] = (
            oracle.conjunction_expr(conjunction)
            if oracle.key_allowed(constraints.property_names, name)
            else ir.EMPTY_LANGUAGE
        )
        if name in required and values[name] is ir.EMPTY_LANGUAGE:
            return None
    keys = _classes(constraints, names, oracle, place)
    open_: list[NegatedObject] = []
    for denied in constraints.negated_objects:
        if any(values[name] is ir.EMPTY_LANGUAGE for name in denied.required):
            continue  # a required key that can never be present: always violated
        absent = [name for name in denied.required if name not in required]
        by_name = _discharging(denied, names, required, values, goals, oracle)
        if by_name is None:
            continue
        elsewhere = any(key.discharge(denied, oracle) is not None for key in keys)
        if len(absent) + len(by_name) == 0 and not elsewhere:
            return None
        if elsewhere or len({*absent, *by_name}) > 1:
            open_.append(denied)
            continue
        (name,) = {*absent, *by_name}  # the one member that can discharge it
        discharge = by_name.get(name)
        if not absent:
            required.add(name)
        if discharge is None:
            values[name] = ir.EMPTY_LANGUAGE
        elif isinstance(discharge, SchemaNode):
            goals[name] = (*goals[name], discharge)
            values[name] = oracle.conjunction_expr(goals[name])
        if name in required and values[name] is ir.EMPTY_LANGUAGE:
            return None
    if len(open_) > MAX_OBLIGATIONS:
        raise ConstraintTooLarge(
            "too many negated conditions on one object",
            Problem(
                place, f"{len(open_)} schemas must be violated here; at most {MAX_OBLIGATIONS} are supported"
            ),
            action="simplify oneOf, not or if at this place",
        )
    declared = [_declared(name, name in required, values[name], goals[name], open_, oracle) for name in names]
    others = [key.other(open_, oracle) for key in keys]
    return ObjectObligations(declared, others, len(open_))


def _discharging(
    denied: NegatedObject,
    names: Iterable[str],
    required: Collection[str],
    values: Mapping[str, ir.Expr],
    goals: Mapping[str, Conjunction],
    oracle: SchemaOracle,
) -> dict[str, SchemaNode | bool] | None:
    """By name what discharges an obligation at its member; None if a required member always does."""
    if denied.property_names or any(part.patterns or part.additional is not None for part in denied.members):
        constrained = list(names)
    else:
        constrained = list(dict.fromkeys(name for part in denied.members for name in part.properties))
    spend(3 * len(constrained))
    found: dict[str, SchemaNode | bool] = {}
    for name in sorted(constrained, key=lambda name: name not in required):
        if values[name] is ir.EMPTY_LANGUAGE:
            continue
        discharge = _witness(denied, schemas_on(denied.members, name), goals[name], oracle, name)
        if discharge is ALWAYS_DISCHARGED and name in required:
            return None
        if discharge is not None:
            found[name] = discharge
    return found


def _bits(mask: int) -> Iterable[int]:
    return (bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _witness(
    denied: NegatedObject,
    nodes: Iterable[SchemaNode],
    conjunction: Conjunction,
    oracle: SchemaOracle,
    name: str | None,
) -> Discharge:
    """What discharges an obligation at a key; `nodes` are the negated schemas there, `conjunction` the others."""
    if name is not None and denied.property_names:
        wrong_name = negation_of(conjunction_of(denied.property_names))
        if oracle.key_allowed((wrong_name,), name):  # definitely
            return ALWAYS_DISCHARGED
    violated = [
        node
        for node in nodes
        if not is_true_schema(node) and not any(node.is_identical(other) for other in conjunction)
    ]
    if not violated:
        return None
    if any(node.value is False for node in violated) or oracle.known_empty((*conjunction, *violated)):
        return ALWAYS_DISCHARGED
    negated = negation_of(conjunction_of(violated))
    return None if oracle.known_empty((*conjunction, negated)) else negated


def _able(
    base: ir.Expr, conjunction: Conjunction, wanted: dict[int, SchemaNode], oracle: SchemaOracle
) -> tuple[int, Callable[[int], ir.Expr]]:
    """The obligations that values of a conjunction may discharge, and the values that discharge a set of them."""
    known = {0: base}

    def value(mask: int) -> ir.Expr:
        if mask not in known:
            known[mask] = oracle.conjunction_expr((*conjunction, *(wanted[bit] for bit in _bits(mask))))
        return known[mask]

    return sum(1 << bit for bit in wanted if value(1 << bit) is not ir.EMPTY_LANGUAGE), value


def _member_discharges(
    open_: Sequence[NegatedObject],
    witness: Callable[[NegatedObject], Discharge],
    base: ir.Expr,
    conjunction: Conjunction,
    oracle: SchemaOracle,
) -> ObligedMember:
    spend(3 * len(open_))
    discharges = 0
    negations: dict[int, SchemaNode] = {}
    for bit, denied in enumerate(open_):
        discharge = witness(denied)
        if discharge is ALWAYS_DISCHARGED:
            discharges |= 1 << bit
        elif isinstance(discharge, SchemaNode):
            negations[bit] = next(
                (other for other in negations.values() if _equal(other, discharge)), discharge
            )
    able, value = _able(base, conjunction, negations, oracle)
    equivalent = {
        bit: sum(1 << other for other in _bits(able) if negations[other] is negations[bit])
        for bit in _bits(able)
    }
    one_of = _one_of({bit: negations[bit].negates for bit in _bits(able)}, conjunction, oracle)
    return ObligedMember(discharges, able, value, one_of, equivalent)


def _equal(a: SchemaNode, b: SchemaNode) -> bool:
    """Whether two negations are of textually identical schemas."""
    if a is b:
        return True
    first, second = (
        () if node is None else node.parsed.all_of if node.is_synthetic and node.parsed else (node,)
        for node in (a.negates, b.negates)
    )
    return len(first) == len(second) > 0 and all(map(SchemaNode.is_identical, first, second))


def _declared(
    name: str,
    required: bool,
    value: ir.Expr,
    conjunction: Conjunction,
    open_: Sequence[NegatedObject],
    oracle: SchemaOracle,
) -> ObligedMember:
    left_out = sum(1 << bit for bit, denied in enumerate(open_) if name in denied.required)
    if value is ir.EMPTY_LANGUAGE or not open_:
        return ObligedMember(
            0, 0, lambda mask: value, {}, {}, name=name, required=required, discharges_if_absent=left_out
        )

    def witness(denied: NegatedObject) -> Discharge:
        if not denied.constrains_key(name):
            return None
        return _witness(denied, schemas_on(denied.members, name), conjunction, oracle, name)

    member = _member_discharges(open_, witness, value, conjunction, oracle)
    return member._replace(name=name, required=required, discharges_if_absent=left_out)


def _one_of(
    denied: dict[int, SchemaNode | None], conjunction: Conjunction, oracle: SchemaOracle
) -> dict[int, int]:
    """By obligation that a value may fail to discharge, those that it then discharges: negated schemas are disjoint."""
    certain = dict.fromkeys(denied, 0)
    for first, second in combinations(denied, 2):
        a, b = denied[first], denied[second]
        if a is not None and b is not None and a is not b and oracle.known_empty((*conjunction, a, b)):
            certain[first] |= 1 << second
            certain[second] |= 1 << first
    return certain


class _UndeclaredClass(NamedTuple):
    """A class of undeclared keys: the patterns that they match, and the negated ``propertyNames`` that they violate."""

    keys: ir.Regex
    conjunction_expr: Conjunction
    value: ir.Expr
    matched: frozenset[StringPattern]
    broken: frozenset[int]

    def discharge(self, denied: NegatedObject, oracle: SchemaOracle) -> Discharge:
        """What discharges an obligation at a member with such a key."""
        if id(denied) in self.broken:
            return ALWAYS_DISCHARGED
        return _witness(
            denied, key_class_schemas(denied.members, self.matched), self.conjunction_expr, oracle, None
        )

    def other(self, open_: Sequence[NegatedObject], oracle: SchemaOracle) -> ObligedMember:
        """The member of this class, with the obligations that it discharges."""
        witness = partial(self.discharge, oracle=oracle)
        member = _member_discharges(open_, witness, self.value, self.conjunction_expr, oracle)
        return member._replace(keys=self.keys)


def _classes(
    constraints: TypeConstraints, names: Iterable[str], oracle: SchemaOracle, place: str
) -> list[_UndeclaredClass]:
    """Undeclared keys in classes whose keys all schemas treat alike."""
    parts = [constraints.members, *(denied.members for denied in constraints.negated_objects)]
    patterns = list(
        dict.fromkeys(pattern for part in parts for members in part for pattern, _ in members.patterns)
    )

    classes = []
    for class_ in partition_keys(patterns, forbidden_patterns(constraints.members), place):
        matched = frozenset(class_.matched)
        conjunction = key_class_schemas(constraints.members, matched)
        if any(node.value is False for node in conjunction):
            continue
        value = oracle.conjunction_expr(conjunction)
        if value is ir.EMPTY_LANGUAGE:
            continue
        keys = class_.key_regex(list(names))
        split = [(oracle.allowed_keys(constraints.property_names, keys), frozenset[int]())]
        for denied in constraints.negated_objects:
            if denied.property_names:
                violated = (negation_of(conjunction_of(denied.property_names)),)
                split = [
                    (oracle.allowed_keys(goal_, keys), broken | more)
                    for keys, broken in split
                    for goal_, more in (
                        (denied.property_names, frozenset[int]()),
                        (violated, frozenset((id(denied),))),
                    )
                ]
        classes += [
            _UndeclaredClass(keys, conjunction, value, matched, broken)
            for keys, broken in split
            if not isinstance(keys, ir.EmptySet)
        ]
    return classes
