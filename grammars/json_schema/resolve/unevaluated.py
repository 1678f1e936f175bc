"""``unevaluatedProperties`` and ``unevaluatedItems``: what is left when every subschema that holds has had its say.

A member or item is evaluated when a subschema that holds of the whole value speaks of it, however deep that stands
in ``allOf``, ``anyOf``, ``oneOf``, ``if``, ``dependentSchemas`` and references. The more of them hold, the less is
left; so the keyword says that there is *some* set of subschemas that hold and leave nothing wrong, and each such
set is an ordinary schema: the set, and ``additionalProperties`` or ``items`` for what none of it speaks of. No
subschema has to be denied for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import NamedTuple

from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema.source.constraints import ItemSchemas, MemberSchemas, ParsedSchema, TypeConstraints
from grammars.json_schema.source.document import SchemaDocument, SchemaNode, child_pointer
from grammars.json_schema.source.synthetic import constraint_schema, disjunction_of, true_schema

MAX_EVALUATIONS = 1_000
"""Most sets of subschemas of one schema."""

PROPERTIES, ITEMS = "unevaluatedProperties", "unevaluatedItems"


class Evaluation(NamedTuple):
    """Subschemas that hold, and what they speak of.

    Attributes:
        nodes: the subschemas.
        members: by which keys they speak of members.
        all_members: they speak of all members.
        prefix_count: how many of the first items they speak of.
        all_items: they speak of all items.
        contains_schemas: they speak of the items that satisfy one of these.
    """

    nodes: tuple[SchemaNode, ...] = ()
    members: tuple[MemberSchemas, ...] = ()
    all_members: bool = False
    prefix_count: int = 0
    all_items: bool = False
    contains_schemas: tuple[SchemaNode, ...] = ()

    def merge_with(self, other: Evaluation) -> Evaluation:
        """Both hold."""
        return Evaluation(
            tuple(dict.fromkeys(self.nodes + other.nodes)),
            self.members + tuple(m for m in other.members if not any(m is known for known in self.members)),
            self.all_members or other.all_members,
            max(self.prefix_count, other.prefix_count),
            self.all_items or other.all_items,
            tuple(dict.fromkeys(self.contains_schemas + other.contains_schemas)),
        )

    def evaluates_any(self) -> bool:
        """Whether it speaks of anything."""
        return bool(
            self.members or self.all_members or self.prefix_count or self.all_items or self.contains_schemas
        )


_SILENT = Evaluation()


class UnevaluatedExpansion:
    """Finds the sets of subschemas of one schema.

    Args:
        document: where the schema stands.
        facts_of: what a schema says by itself.
        exactly_one: schemas of which one holds when exactly one of several does.
    """

    def __init__(
        self,
        document: SchemaDocument,
        parse_schema: Callable[[SchemaNode], ParsedSchema],
        exactly_one: Callable[[Sequence[SchemaNode]], Sequence[SchemaNode]],
    ) -> None:
        self.document = document
        self.facts_of = parse_schema
        self.exactly_one = exactly_one

    def alternatives(self, node: SchemaNode) -> list[SchemaNode]:
        """Schemas of which one holds exactly when nothing that is not evaluated is wrong.

        Args:
            node: a schema that says something about what is not evaluated.

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
            constraint_schema(
                self.document, node, f"{keyword} {i}", self.constraints(node, outcome), outcome.nodes
            )
            for i, outcome in enumerate(outcomes)
        ]

    def constraints(self, node: SchemaNode, outcome: Evaluation) -> TypeConstraints:
        """What is said of what a set of subschemas does not speak of."""
        document, free = self.document, true_schema(self.document, node)
        members: tuple[MemberSchemas, ...] = ()
        items: tuple[ItemSchemas, ...] = ()
        if PROPERTIES in node.value and not outcome.all_members:
            spoken = MemberSchemas(additional=document.child(node, PROPERTIES))
            for part in outcome.members:
                spoken.properties.update(dict.fromkeys(part.properties, free))
                spoken.patterns += [(pattern, free) for pattern, _ in part.patterns]
            members = (spoken,)
        if ITEMS in node.value and not outcome.all_items:
            rest = document.child(node, ITEMS)
            if outcome.contains_schemas:
                rest = disjunction_of(document, [*outcome.contains_schemas, rest])
            items = (ItemSchemas([free] * outcome.prefix_count, rest),)
        return TypeConstraints(members=members, items=items)

    def evaluations(self, node: SchemaNode, start: SchemaNode) -> list[Evaluation]:
        """The sets of subschemas of `node`, itself among them unless it is where the question started."""
        parsed = self.facts_of(node)
        found = [self.local_evaluation(node, parsed, start)]
        for other in parsed.all_of:
            if other.negates is None:  # what does not hold evaluates nothing
                found = self.product_of([found, self.evaluations(other, start)], start)
        for keyword, branches in parsed.any_of:
            inner = [self.evaluations(branch, start) for branch in branches]
            speaking = [[o for o in options if o.evaluates_any()] for options in inner]
            if keyword == "anyOf":
                sets = self.product_of([[_SILENT, *options] for options in speaking if options], start)
                if all(speaking):
                    sets = sets[1:]  # one of them holds
            elif any(speaking):
                sets = [outcome for options in inner for outcome in options]
            else:
                continue
            found = self.product_of([found, sets], start)
        for branches in parsed.one_of:
            inner = [self.evaluations(branch, start) for branch in self.exactly_one(branches)]
            if any(outcome.evaluates_any() for options in inner for outcome in options):
                found = self.product_of([found, [o for options in inner for o in options]], start)
        for other in parsed.annotating:
            options = [o for o in self.evaluations(other, start) if o.evaluates_any()]
            found = self.product_of([found, [_SILENT, *options]], start)
        return found

    def local_evaluation(self, node: SchemaNode, parsed: ParsedSchema, start: SchemaNode) -> Evaluation:
        """What the keywords of a schema speak of by themselves."""
        said = node.value if isinstance(node.value, dict) else {}
        every_member = every_item = False
        first = 0
        members: tuple[MemberSchemas, ...] = ()
        contained: tuple[SchemaNode, ...] = ()
        if PROPERTIES in start.value and not node.made:
            members = parsed.constraints.members
            every_member = any(part.additional is not None for part in members)
            every_member = every_member or (node is not start and PROPERTIES in said)
        if ITEMS in start.value and not node.made:
            parts = parsed.constraints.items
            first = max((len(part.prefix) for part in parts), default=0)
            every_item = any(part.additional is not None for part in parts)
            every_item = every_item or (node is not start and ITEMS in said)
            if "contains" in said and node.dialect.contains_evaluates:
                contained = (self.document.child(node, "contains"),)
        return Evaluation(
            () if node is start else (node,), members, every_member, first, every_item, contained
        )

    def product_of(self, parts: Iterable[Sequence[Evaluation]], start: SchemaNode) -> list[Evaluation]:
        """Every way to take one outcome of each part."""
        found = [_SILENT]
        for part in parts:
            if len(found) * len(part) > MAX_EVALUATIONS:
                keyword = PROPERTIES if PROPERTIES in start.value else ITEMS
                raise ConstraintTooLarge(
                    "too many subschemas may hold together",
                    Problem(
                        child_pointer(start.pointer, keyword),
                        f"more than {MAX_EVALUATIONS} sets of them to tell apart",
                    ),
                    action="simplify the alternatives, or declare the properties where the keyword stands",
                )
            found = [a.merge_with(b) for a, b in product(found, part)]
        return found
