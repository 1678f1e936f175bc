"""``unevaluatedProperties`` and ``unevaluatedItems`` rewritten as alternatives of ordinary schemas.

A member or item is evaluated if a subschema in ``allOf``, ``anyOf``, ``oneOf``, ``if``, ``dependentSchemas`` or behind a
reference holds and applies to it. More subschemas that hold leave less unevaluated. So the keyword is satisfied if and
only if *some* set of subschemas holds and leaves nothing invalid, and each such set is an ordinary schema: the set, with
``additionalProperties`` or ``items`` for the rest. No subschema has to be negated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import NamedTuple

from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.resolve.negate import parse_schema
from constrained.grammars.json_schema.source.constraints import (
    ItemSchemas,
    MemberSchemas,
    ParsedSchema,
    TypeConstraints,
)
from constrained.grammars.json_schema.source.document import SchemaNode, child_pointer
from constrained.grammars.json_schema.source.synthetic import constraint_schema, disjunction_of, true_schema
from constrained.grammars.work import spend

MAX_EVALUATIONS = 1_000
"""Maximum number of sets of subschemas of one schema."""

PROPERTIES, ITEMS = "unevaluatedProperties", "unevaluatedItems"


class Evaluation(NamedTuple):
    """A set of subschemas that hold, and what they evaluate.

    Attributes:
        nodes: the subschemas.
        members: the keys whose members they evaluate.
        all_members: they evaluate all members.
        prefix_count: number of leading items that they evaluate.
        all_items: they evaluate all items.
        contains_schemas: they evaluate the items that match one of these.
    """

    nodes: tuple[SchemaNode, ...] = ()
    members: tuple[MemberSchemas, ...] = ()
    all_members: bool = False
    prefix_count: int = 0
    all_items: bool = False
    contains_schemas: tuple[SchemaNode, ...] = ()

    def merge_with(self, other: Evaluation) -> Evaluation:
        """The evaluation where both sets hold."""
        return Evaluation(
            tuple(dict.fromkeys(self.nodes + other.nodes)),
            self.members + tuple(m for m in other.members if not any(m is known for known in self.members)),
            self.all_members or other.all_members,
            max(self.prefix_count, other.prefix_count),
            self.all_items or other.all_items,
            tuple(dict.fromkeys(self.contains_schemas + other.contains_schemas)),
        )

    def evaluates_any(self) -> bool:
        """Whether it evaluates any member or item."""
        return bool(
            self.members or self.all_members or self.prefix_count or self.all_items or self.contains_schemas
        )


_NO_EVALUATION = Evaluation()


class UnevaluatedExpansion:
    """Finds the sets of subschemas of one schema.

    Args:
        exactly_one: from the branches of ``oneOf`` and the schema with it: schemas of which at least one holds if and only if
            exactly one of the branches does.
    """

    def __init__(
        self, exactly_one: Callable[[Sequence[SchemaNode], SchemaNode], Sequence[SchemaNode]]
    ) -> None:
        self.exactly_one = exactly_one

    def alternatives(self, node: SchemaNode) -> list[SchemaNode]:
        """Schemas of which at least one holds if and only if the ``unevaluated*`` keywords are satisfied.

        Args:
            node: a schema with such a keyword.

        Raises:
            ConstraintTooLarge: there are too many sets of subschemas.
        """
        keyword = PROPERTIES if PROPERTIES in node.value else ITEMS
        try:
            outcomes = self.evaluations(node, node)
        except RecursionError:
            raise ConstraintTooLarge(
                "subschemas are nested too deeply", Problem(child_pointer(node.pointer, keyword), "too deep")
            ) from None
        return [
            constraint_schema(node, f"{keyword} {i}", self.constraints(node, outcome), outcome.nodes)
            for i, outcome in enumerate(outcomes)
        ]

    def constraints(self, node: SchemaNode, outcome: Evaluation) -> TypeConstraints:
        """The constraints on what a set of subschemas leaves unevaluated."""
        free = true_schema(node)
        members: tuple[MemberSchemas, ...] = ()
        items: tuple[ItemSchemas, ...] = ()
        if PROPERTIES in node.value and not outcome.all_members:
            spoken = MemberSchemas(additional=node.child(PROPERTIES))
            for part in outcome.members:
                spend(1 + len(part.properties) // 8, node.pointer)
                spoken.properties.update(dict.fromkeys(part.properties, free))
                spoken.patterns += [(pattern, free) for pattern, _ in part.patterns]
            members = (spoken,)
        if ITEMS in node.value and not outcome.all_items:
            rest = node.child(ITEMS)
            if outcome.contains_schemas:
                rest = disjunction_of([*outcome.contains_schemas, rest])
            items = (ItemSchemas([free] * outcome.prefix_count, rest),)
        return TypeConstraints(members=members, items=items)

    def evaluations(self, node: SchemaNode, start: SchemaNode) -> list[Evaluation]:
        """The sets of subschemas of `node`, each with `node` itself unless it is `start`."""
        parsed = parse_schema(node)
        combined = [self.local_evaluation(node, parsed, start)]
        for other in parsed.all_of:
            if other.negates is None:  # a negated subschema evaluates nothing
                combined = self.product_of([combined, self.evaluations(other, start)], start)
        for keyword, branches in parsed.any_of:
            inner = [self.evaluations(branch, start) for branch in branches]
            speaking = [[o for o in options if o.evaluates_any()] for options in inner]
            if keyword == "anyOf":
                sets = self.product_of([[_NO_EVALUATION, *options] for options in speaking if options], start)
                if all(len(few) == len(options) for few, options in zip(speaking, inner, strict=True)):
                    sets = sets[1:]  # at least one branch holds, and evaluates something
            elif any(speaking):
                sets = [outcome for options in inner for outcome in options]
            else:
                continue
            combined = self.product_of([combined, sets], start)
        for branches in parsed.one_of:
            inner = [self.evaluations(branch, start) for branch in self.exactly_one(branches, node)]
            if any(outcome.evaluates_any() for options in inner for outcome in options):
                combined = self.product_of([combined, [o for options in inner for o in options]], start)
        for other in parsed.annotating:
            options = [o for o in self.evaluations(other, start) if o.evaluates_any()]
            combined = self.product_of([combined, [_NO_EVALUATION, *options]], start)
        return combined

    def local_evaluation(self, node: SchemaNode, parsed: ParsedSchema, start: SchemaNode) -> Evaluation:
        """What a schema's own keywords evaluate."""
        keywords = node.value if isinstance(node.value, dict) else {}
        every_member = every_item = False
        first = 0
        members: tuple[MemberSchemas, ...] = ()
        contained: tuple[SchemaNode, ...] = ()
        if PROPERTIES in start.value and not node.is_synthetic:
            members = parsed.constraints.members
            every_member = any(part.additional is not None for part in members)
            every_member = every_member or (node is not start and PROPERTIES in keywords)
        if ITEMS in start.value and not node.is_synthetic:
            parts = parsed.constraints.items
            first = max((len(part.prefix) for part in parts), default=0)
            every_item = any(part.additional is not None for part in parts)
            every_item = every_item or (node is not start and ITEMS in keywords)
            if "contains" in keywords and node.dialect.contains_evaluates:
                contained = (node.child("contains"),)
        return Evaluation(
            () if node is start else (node,), members, every_member, first, every_item, contained
        )

    def product_of(self, parts: Iterable[Sequence[Evaluation]], start: SchemaNode) -> list[Evaluation]:
        """The merged evaluations of every combination of one from each part."""
        merged = [_NO_EVALUATION]
        for part in parts:
            if len(merged) * len(part) > MAX_EVALUATIONS:
                keyword = PROPERTIES if PROPERTIES in start.value else ITEMS
                raise ConstraintTooLarge(
                    "too many combinations of subschemas",
                    Problem(
                        child_pointer(start.pointer, keyword),
                        f"more than {MAX_EVALUATIONS} sets of subschemas that may hold",
                    ),
                    action="simplify the alternatives, or declare the properties beside the keyword",
                )
            spend(len(merged) * len(part), start.pointer)
            merged = [a.merge_with(b) for a, b in product(merged, part)]
        return merged
