"""Proofs that schemas are disjoint, so that ``oneOf`` can be read as ``anyOf``."""

from __future__ import annotations

from itertools import combinations

from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.resolve.negate import parse_schema
from constrained.grammars.json_schema.resolve.validate import InstanceValidator
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import Conjunction, TypeConstraints
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.work import spend

MAX_PROOF_DEPTH = 4
"""Nesting of required members down to which emptiness is proved."""
MAX_PROOF_STEPS = 20_000
"""Maximum number of conjunctions examined per document."""


class EmptinessProver:
    """Proves conjunctions empty. Sound but incomplete: conjunctions that it does not prove empty may still be empty."""

    def __init__(self, expansion: DnfExpansion) -> None:
        self.expansion = expansion
        self.validator = InstanceValidator(expansion)
        self.steps = 0
        self.known: dict[tuple[frozenset[SchemaNode], frozenset[SchemaNode], int], bool] = {}

    def are_disjoint(self, a: SchemaNode, b: SchemaNode, within: SchemaNode | None = None) -> bool:
        """Whether two schemas are proved to have no value in common that satisfies the own keywords of `within`."""
        spend(1, a.pointer)
        first, second = self.expansion.value_summary(a), self.expansion.value_summary(b)
        if within is not None and parse_schema(within).limits:
            first = first.within(self.expansion.own_summary(within))
        if first.is_disjoint(second):
            return True
        if first.empty & second.empty:
            return False
        for one, other in ((a, b), (b, a)):
            if self.expansion.value_summary(one).values is not None:
                listed = parse_schema(one).constraints.enum_values or ()
                return not any(
                    self.validator.satisfies_all((one, other), value, possibly=True)
                    for value in self.validator.as_written(listed)
                )
        return self.is_empty((a, b), beside=within)

    def is_empty(
        self, conjunction: Conjunction, depth: int = MAX_PROOF_DEPTH, *, beside: SchemaNode | None = None
    ) -> bool:
        """Whether a conjunction is proved to have no values that satisfy the own keywords of `beside`."""
        also = () if beside is None or not parse_schema(beside).limits else (beside,)
        key = frozenset(conjunction), frozenset(also), depth
        if key not in self.known:
            self.steps += 1
            if self.steps > MAX_PROOF_STEPS:
                return False
            spend(5, conjunction[0].pointer if conjunction else "")
            summaries = map(self.expansion.value_summary, conjunction) if len(conjunction) > 1 else ()
            self.known[key] = any(a.is_disjoint(b) for a, b in combinations(summaries, 2)) or all(
                self.has_no_values(self.expansion.constraints_of((*also, *disjunct)), depth)
                for disjunct in self.expansion.expand(conjunction, relaxed=True)
            )
        return self.known[key]

    def has_no_values(self, constraints: TypeConstraints, depth: int) -> bool:
        """Whether constraints are proved to exclude every value. Unsupported keywords are ignored: they only exclude more."""
        types = constraints.types
        if constraints.enum_values is not None:
            return not any(
                self.validator.meets_constraints(constraints, value, possibly=True, listed=True)
                for value in self.validator.as_written(constraints.enum_values)
            )
        if types & (f.NULL | f.BOOLEAN):
            return False
        if types & f.NUMBER and not constraints.bounds.empty():
            low, high = constraints.bounds.integers()
            if types & f.NON_INTEGER or low is None or high is None or low <= high:
                return False
        if (
            types & f.STRING
        ):  # the lengths of patterns, ``minLength`` and ``maxLength`` may exclude each other
            least = max([constraints.min_length, *(pattern.shortest for pattern in constraints.patterns)])
            highs = [constraints.max_length, *(pattern.longest for pattern in constraints.patterns)]
            if not any(high is not None and high < least for high in highs):
                return False
        if types & f.ARRAY and not (constraints.unique_items and constraints.repeated_items):
            low = max(constraints.min_items, 2 if constraints.repeated_items else 0)
            if constraints.max_items is None or low <= constraints.max_items:
                return False
        return not types & f.OBJECT or self.has_no_objects(constraints, depth)

    def has_no_objects(self, constraints: TypeConstraints, depth: int) -> bool:
        """Whether the number of members is contradictory, or a required member has no values."""
        most = constraints.max_properties
        if most is not None and max(constraints.min_properties, len(constraints.required)) > most:
            return True
        return depth > 0 and any(
            self.is_empty(f.schemas_on(constraints.members, name), depth - 1) for name in constraints.required
        )
