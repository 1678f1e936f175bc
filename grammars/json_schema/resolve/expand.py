"""Depth-first expansion of a conjunction of schemas into disjuncts (``$ref``, ``allOf``, ``anyOf``, ``oneOf``).

A conjunction is closed over ``$ref`` and ``allOf``; then one branch of every disjunction is chosen. Each combination of
choices is a disjunct, whose constraints are one `TypeConstraints`. Conjunctions and disjuncts are interned by the set of
their schemas, so that recursive schemas lead back to known ones.

``oneOf`` is the choice of a branch and the negation of every other branch that is not provably disjoint from it. For
these proofs conjunctions are expanded with `relaxed`, where ``oneOf`` counts as ``anyOf``: a superset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, islice
from typing import NamedTuple, Protocol

from constrained.grammars.errors import ConstraintTooLarge, InvalidConstraint, Problem
from constrained.grammars.json_schema.resolve.discriminators import (
    NO_DISCRIMINATORS,
    Discriminators,
    ValueSummary,
    discriminators_of,
    empty_values,
    listed,
)
from constrained.grammars.json_schema.resolve.member_cases import MemberCase, member_cases
from constrained.grammars.json_schema.resolve.negate import parse_schema
from constrained.grammars.json_schema.resolve.unevaluated import UnevaluatedExpansion
from constrained.grammars.json_schema.source.constraints import (
    EVERY_TYPE,
    KEYWORD_TYPES,
    OBJECT,
    Conjunction,
    ParsedSchema,
    TypeConstraints,
)
from constrained.grammars.json_schema.source.document import SchemaDocument, SchemaNode
from constrained.grammars.json_schema.source.synthetic import conjunction_of, constraint_schema, negation_of
from constrained.grammars.work import spend

MAX_DISJUNCTS = 10_000
"""Maximum number of combinations of alternatives for one value."""

MANY_COMBINATIONS = 64
"""Combinations that are decided by the value of a member, where there are more than `MAX_DISJUNCTS` otherwise."""

_UNCONSTRAINED = TypeConstraints()


def _unknown(keyword: str, dialect: str) -> str:
    later = {"additionalItems": "items", "dependencies": "dependentRequired, dependentSchemas"}
    hint = f" (now {later[keyword]})" if keyword in later else ""
    return f"unknown to draft {dialect}{hint}"


class ConjunctionClosure(NamedTuple):
    """What a conjunction implies before any alternative is chosen.

    Attributes:
        closure_key: the conjunction, and whether it was closed with `relaxed`.
        schema_set: all schemas that must hold.
        disjunctions: their disjunctions.
        types: types that all of them allow; None when they contradict each other.
    """

    closure_key: tuple[Conjunction, bool]
    schema_set: dict[SchemaNode, None]
    disjunctions: list[Sequence[SchemaNode]]
    types: int | None


class DisjointnessProver(Protocol):
    """Proves that schemas have no value in common; see `constrained.grammars.json_schema.resolve.disjoint`."""

    def are_disjoint(self, a: SchemaNode, b: SchemaNode, within: SchemaNode | None = None) -> bool:
        """Whether two schemas are proved to have no value in common that satisfies the own keywords of `within`."""
        ...

    def is_empty(self, conjunction: Conjunction) -> bool:
        """Whether a conjunction is proved to have no values."""
        ...


class DnfExpansion:
    """Parses schemas and expands conjunctions, with caches.

    Args:
        document: the document of the schemas.
        new_prover: makes the prover of this expansion, which itself expands conjunctions (with `relaxed`).
    """

    def __init__(
        self, document: SchemaDocument, new_prover: Callable[[DnfExpansion], DisjointnessProver]
    ) -> None:
        self.document = document
        self.prover = new_prover(self)
        self.acyclic: set[SchemaNode] = set()
        self.constraints_cache: dict[frozenset[SchemaNode], TypeConstraints] = {}
        self.disjuncts_cache: dict[tuple[frozenset[SchemaNode], bool], list[Conjunction]] = {}
        self.exactly_one_cache: dict[tuple[SchemaNode, ...], list[SchemaNode]] = {}
        self.unevaluated_cache: dict[SchemaNode, list[SchemaNode]] = {}
        self.discriminators_cache: dict[SchemaNode, Discriminators] = {}
        self.summaries_cache: dict[SchemaNode, ValueSummary] = {}
        self.own_summaries_cache: dict[SchemaNode, ValueSummary] = {}
        self.last_closure = ConjunctionClosure(
            ((), True), {}, [], EVERY_TYPE
        )  # usually requested twice in a row

    # ------------------------------------------------------------ one schema

    def keyword_rows(self, node: SchemaNode) -> list[tuple[str, bool, str]]:
        """(keyword, enforced, note) for each keyword of a schema."""
        schema = node.value
        dialect = node.dialect
        alone = dialect.ref_overrides_siblings and "$ref" in schema if isinstance(schema, dict) else False
        statuses = []
        types = self.types_and_branches((node,))[0] if isinstance(schema, dict) and not alone else 0
        for keyword, value in schema.items() if isinstance(schema, dict) else ():
            function = dialect.handlers.get(keyword)
            if function is None:
                statuses.append((keyword, False, _unknown(keyword, dialect.name)))
            elif alone and keyword != "$ref":
                statuses.append((keyword, False, f"ignored next to $ref in draft {dialect.name}"))
            else:
                note = function(ParsedSchema(), value, node)
                if note is None and types and not types & KEYWORD_TYPES.get(keyword, types):
                    note = "has no effect on values of this type"
                statuses.append((keyword, note is None, note or ""))
        return statuses

    def scalar_parts(self, node: SchemaNode) -> tuple[list[SchemaNode], list[Sequence[SchemaNode]]]:
        """Schemas that a scalar must satisfy besides a schema's own constraints: all of the first list, one of each other."""
        parsed = parse_schema(node)
        if node not in self.acyclic:
            self.check_acyclic(node)
        either = [branches for _, branches in parsed.any_of]
        either += [self.exactly_one(branches, node) for branches in parsed.one_of]
        either += map(self.none_or_many, parsed.none_or_many)
        if parsed.violated_unevaluated is not None:  # scalars have no members or items
            either.append(())
        return list(parsed.all_of), either

    # ------------------------------------------------------------ conjunctions

    def types_and_branches(self, conjunction: Conjunction) -> tuple[int, int]:
        """Types of the values of a conjunction, and the number of combinations of its outermost alternatives."""
        opened = self.conjunction_closure(conjunction, relaxed=False)
        return opened.types or 0, math.prod(map(len, opened.disjunctions))

    def conjunction_closure(self, conjunction: Conjunction, relaxed: bool) -> ConjunctionClosure:
        """What a conjunction implies before any alternative is chosen."""
        if self.last_closure.closure_key != (conjunction, relaxed):
            closure: dict[SchemaNode, None] = {}
            choices: list[Sequence[SchemaNode]] = []
            types = self._close(conjunction, closure, choices, relaxed)
            self.last_closure = ConjunctionClosure((conjunction, relaxed), closure, choices, types)
        return self.last_closure

    def expand(self, conjunction: Conjunction, *, relaxed: bool = False) -> list[Conjunction]:
        """The disjuncts of a conjunction, each a tuple of schemas with constraints.

        Args:
            conjunction: schemas that must all hold.
            relaxed: treat ``oneOf`` as ``anyOf``.

        Raises:
            ConstraintTooLarge: there are more than `MAX_DISJUNCTS` combinations.
            InvalidConstraint: a circular reference.
        """
        if len(conjunction) == 1:  # the common case: one schema without in-place applicators
            parsed = parse_schema(conjunction[0])
            if parsed.is_flat:
                return [conjunction if parsed.limits else ()]
        key = frozenset(conjunction), relaxed
        disjuncts = self.disjuncts_cache.get(key)
        if disjuncts is None:
            disjuncts = self.disjuncts_cache[key] = self._expand(conjunction, relaxed)
        return disjuncts

    def _expand(self, conjunction: Conjunction, relaxed: bool) -> list[Conjunction]:
        _, closure, choices, types = self.conjunction_closure(conjunction, relaxed)
        if types is None:
            return []
        if not choices:
            return [self._limiting(closure)]
        combinations = self._combinations(closure, choices, types, relaxed, by_member=False)
        if combinations is None:
            combinations = self._combinations(closure, choices, types, relaxed, by_member=True)
        if combinations is None:
            raise ConstraintTooLarge(
                "the schema has too many combinations of alternatives",
                Problem(conjunction[0].pointer, f"more than {MAX_DISJUNCTS} combinations at this place"),
                action="simplify the anyOf and oneOf alternatives that apply together here",
            )
        return combinations

    def _combinations(
        self,
        closure: dict[SchemaNode, None],
        choices: list[Sequence[SchemaNode]],
        types: int,
        relaxed: bool,
        by_member: bool,
    ) -> list[Conjunction] | None:
        """The disjuncts of a closure and its choices; None if they are too many.

        With `by_member`, the value of a member that many choices depend on decides them (`member_cases`).
        """
        finished: dict[frozenset[SchemaNode], Conjunction] = {}
        several = len(choices) > 1 or by_member
        tags = self.conjoin_discriminators(closure, NO_DISCRIMINATORS) if several else None
        pending = [(closure, choices, types, tags)]
        cases: dict[SchemaNode, MemberCase | None] = {}
        steps = 0
        while pending:
            steps += 1
            if steps > MAX_DISJUNCTS:
                return None
            closure, choices, types, tags = pending.pop()
            if not choices:
                disjunct = self._limiting(closure)
                finished.setdefault(frozenset(disjunct), disjunct)
                continue
            if any(branch in closure for branch in choices[0]):  # satisfied already
                pending.append((closure, choices[1:], types, tags))
                continue
            if by_member and tags is not None:
                case = next((cases[node] for node in closure if node in cases), None)
                if case is not None and case.settles(choices[0]):
                    pending.append((closure, choices[1:], types, tags))
                    continue
                decided = any(node in cases for node in closure)
                if not decided and math.prod(map(len, choices)) > MANY_COMBINATIONS:
                    summaries = [
                        [self.value_summary(branch).discriminators for branch in some] for some in choices
                    ]
                    found = member_cases(closure, tags, summaries, types)
                    choices = [[*found], *choices] if found else choices
                    cases |= found
            spend(
                len(choices[0]) * (1 + (len(closure) + len(choices)) // 16),
                choices[0][0].pointer if choices[0] else "",
            )
            for branch in reversed(choices[0]):
                with_branch = dict(closure)
                more = choices[1:]
                left = self._close((branch,), with_branch, more, relaxed)
                if left is None or not types & left:
                    continue
                combined_tags = tags
                if combined_tags is not None:
                    combined_tags = self.conjoin_discriminators(
                        islice(with_branch, len(closure), None), combined_tags
                    )
                    if types & left == OBJECT and combined_tags.is_contradiction():
                        continue
                pending.append((with_branch, more, types & left, combined_tags))
        return list(finished.values())

    def value_summary(self, node: SchemaNode) -> ValueSummary:
        """A cheap over-approximation of the values of a schema."""
        summary = self.summaries_cache.get(node)
        if summary is None:
            closure: dict[SchemaNode, None] = {}
            types = self._close((node,), closure, [], relaxed=True) or 0
            values = listed(node)
            tags = self.conjoin_discriminators(closure, NO_DISCRIMINATORS)
            summary = self.summaries_cache[node] = ValueSummary(
                types, values, tags, self._empty_values(closure, types)
            )
        return summary

    def _empty_values(self, closure: Iterable[SchemaNode], types: int) -> int:
        """The types (object, array) whose empty value surely satisfies a closure, which may have more disjunctions than it shows."""
        for node in closure:
            parsed = parse_schema(node)
            if parsed.any_of or parsed.one_of or parsed.none_or_many or parsed.violated_unevaluated:
                return 0
            types &= empty_values(parsed.constraints)
        return types

    def own_summary(self, node: SchemaNode) -> ValueSummary:
        """`value_summary` of a schema's own keywords, without those that apply other schemas to the same value."""
        summary = self.own_summaries_cache.get(node)
        if summary is None:
            tags = self.conjoin_discriminators((node,), NO_DISCRIMINATORS)
            constraints = parse_schema(node).constraints
            summary = self.own_summaries_cache[node] = ValueSummary(
                constraints.types, None, tags, empty_values(constraints)
            )
        return summary

    def conjoin_discriminators(self, nodes: Iterable[SchemaNode], tags: Discriminators) -> Discriminators:
        """Discriminators of a conjunction extended by more schemas."""
        conjuncts = []
        for node in nodes:
            if (node.parsed or parse_schema(node)).limits:
                if node not in self.discriminators_cache:
                    self.discriminators_cache[node] = discriminators_of(node)
                conjuncts.append(self.discriminators_cache[node])
        return tags.conjoin_all(conjuncts) if conjuncts else tags

    def _close(
        self,
        nodes: Sequence[SchemaNode],
        closure: dict[SchemaNode, None],
        choices: list[Sequence[SchemaNode]],
        relaxed: bool,
    ) -> int | None:
        """Adds schemas and all that they imply to `closure`, and their disjunctions to `choices`.

        Returns the types that the added schemas allow; None when `closure` contains a schema and its negation.
        """
        types = EVERY_TYPE
        stack = list(reversed(nodes))
        while stack:
            node = stack.pop()
            if node in closure:
                continue
            closure[node] = None
            parsed = node.parsed or parse_schema(node)
            spend(1 + (len(parsed.all_of) + len(parsed.any_of)) // 8)
            if node.negation is not None and node.negation in closure:
                return None
            if parsed.limits:
                types &= parsed.constraints.types
            if parsed.all_of:
                if node not in self.acyclic:
                    self.check_acyclic(node)
                stack.extend(reversed(parsed.all_of))
            if parsed.any_of:
                choices.extend(branches for _, branches in parsed.any_of)
            for branches in parsed.one_of:
                choices.append(branches if relaxed else self.exactly_one(branches, node))
            if not relaxed:
                choices.extend(self.none_or_many(branches) for branches in parsed.none_or_many)
                if parsed.unevaluated is not None:
                    choices.insert(
                        0, self.unevaluated_disjuncts(parsed.unevaluated)
                    )  # first: it also chooses branches of the other disjunctions
                if parsed.violated_unevaluated is not None:
                    stack.extend(map(negation_of, self.unevaluated_disjuncts(parsed.violated_unevaluated)))
        return types

    def exactly_one(self, branches: Sequence[SchemaNode], within: SchemaNode) -> list[SchemaNode]:
        """Schemas of which at least one holds if and only if exactly one of the branches does.

        Args:
            branches: the schemas of ``oneOf``.
            within: the schema with that keyword. It holds too: its other keywords may keep branches from having a value in common.
        """
        key = (*branches, within)
        options = self.exactly_one_cache.get(key)
        if options is None:
            self.exactly_one_cache[key] = options = []
            overlapping: dict[SchemaNode, dict[SchemaNode, None]] = {branch: {} for branch in branches}
            for first, second in combinations(overlapping, 2):
                if not self.prover.are_disjoint(first, second, within):
                    overlapping[first][second] = overlapping[second][first] = None
            for branch in overlapping:
                if len(overlapping) < len(branches) and branches.count(branch) > 1:
                    continue  # its values match two branches
                others = [negation_of(other) for other in overlapping[branch]]
                options.append(
                    constraint_schema(
                        branch, f"alone at {within.pointer}", TypeConstraints(), [branch, *others]
                    )
                    if others
                    else branch
                )
        return options

    def unevaluated_disjuncts(self, node: SchemaNode) -> list[SchemaNode]:
        """Schemas of which at least one holds if and only if the ``unevaluated*`` keywords of a schema are satisfied."""
        expansion = self.unevaluated_cache.get(node)
        if expansion is None:
            self.check_acyclic(node)
            self.unevaluated_cache[node] = expansion = UnevaluatedExpansion(self.exactly_one).alternatives(
                node
            )
        return expansion

    def none_or_many(self, branches: Sequence[SchemaNode]) -> list[SchemaNode]:
        """Schemas of which at least one holds if and only if none or several of the branches do."""
        none = conjunction_of([negation_of(branch) for branch in branches])
        pairs = [
            conjunction_of([first, second])
            for i, second in enumerate(branches)
            for first in branches[:i]
            if not self.prover.are_disjoint(first, second)
        ]
        return [none, *pairs]

    def _limiting(self, nodes: dict[SchemaNode, None]) -> Conjunction:
        return tuple([node for node in nodes if (node.parsed or parse_schema(node)).limits])

    def check_acyclic(self, start: SchemaNode) -> None:
        """Checks that no chain of in-place applicators leads from a schema back to itself.

        Raises:
            InvalidConstraint: a circular reference.
        """
        path: list[SchemaNode] = []
        on_path: set[SchemaNode] = set()
        stack: list[tuple[SchemaNode, bool]] = [(start, False)]
        while stack:
            node, done = stack.pop()
            if done:
                path.pop()
                on_path.discard(node)
                self.acyclic.add(node)
                continue
            if node in on_path:
                raise InvalidConstraint(
                    "the schema is malformed",
                    Problem(
                        path[-1].pointer,
                        f"circular reference to {node.pointer} without a step into the value",
                    ),
                    action="break the cycle of references",
                )
            if node in self.acyclic:
                continue
            path.append(node)
            on_path.add(node)
            stack.append((node, True))
            parsed = parse_schema(node)
            stack.extend((other, False) for other in parsed.all_of)
            for _, branches in parsed.any_of:
                stack.extend((other, False) for other in branches)
            for branches in (*parsed.one_of, *parsed.none_or_many):
                stack.extend((other, False) for other in branches)

    # ------------------------------------------------------------ disjuncts

    def constraints_of(self, disjunct: Conjunction) -> TypeConstraints:
        """The conjoined constraints of a disjunct."""
        if not disjunct:
            return _UNCONSTRAINED
        if len(disjunct) == 1:
            return parse_schema(disjunct[0]).constraints
        key = frozenset(disjunct)
        constraints = self.constraints_cache.get(key)
        if constraints is None:
            spend(2 * len(disjunct), disjunct[0].pointer)
            first, *others = [parse_schema(node).constraints for node in disjunct]
            constraints = first.conjoin(*others)
            self.constraints_cache[key] = constraints
        return constraints
