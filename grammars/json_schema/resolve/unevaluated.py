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
from grammars.json_schema.source.constraints import Facts, Items, Members, Shape
from grammars.json_schema.source.document import Document, Node, step
from grammars.json_schema.source.synthetic import anything, shaped, some_of

MAX_OUTCOMES = 1_000
"""Most sets of subschemas of one schema."""

PROPERTIES, ITEMS = "unevaluatedProperties", "unevaluatedItems"


class Outcome(NamedTuple):
    """Subschemas that hold, and what they speak of.

    Attributes:
        nodes: the subschemas.
        members: by which keys they speak of members.
        every_member: they speak of all members.
        first: how many of the first items they speak of.
        every_item: they speak of all items.
        contained: they speak of the items that satisfy one of these.
    """

    nodes: tuple[Node, ...] = ()
    members: tuple[Members, ...] = ()
    every_member: bool = False
    first: int = 0
    every_item: bool = False
    contained: tuple[Node, ...] = ()

    def and_(self, other: Outcome) -> Outcome:
        """Both hold."""
        return Outcome(
            tuple(dict.fromkeys(self.nodes + other.nodes)),
            self.members + tuple(m for m in other.members if not any(m is known for known in self.members)),
            self.every_member or other.every_member,
            max(self.first, other.first),
            self.every_item or other.every_item,
            tuple(dict.fromkeys(self.contained + other.contained)),
        )

    def speaks(self) -> bool:
        """Whether it speaks of anything."""
        return bool(self.members or self.every_member or self.first or self.every_item or self.contained)


_SILENT = Outcome()


class Unevaluated:
    """Finds the sets of subschemas of one schema.

    Args:
        document: where the schema stands.
        facts_of: what a schema says by itself.
        exactly_one: schemas of which one holds when exactly one of several does.
    """

    def __init__(
        self,
        document: Document,
        facts_of: Callable[[Node], Facts],
        exactly_one: Callable[[Sequence[Node]], Sequence[Node]],
    ) -> None:
        self.document = document
        self.facts_of = facts_of
        self.exactly_one = exactly_one

    def alternatives(self, node: Node) -> list[Node]:
        """Schemas of which one holds exactly when nothing that is not evaluated is wrong.

        Args:
            node: a schema that says something about what is not evaluated.

        Raises:
            ConstraintTooLarge: there are too many sets of subschemas.
        """
        keyword = PROPERTIES if PROPERTIES in node.value else ITEMS
        try:
            outcomes = self.outcomes(node, node)
        except RecursionError:
            raise ConstraintTooLarge(
                "subschemas are nested too deeply", Problem(step(node.pointer, keyword), "too deep")
            ) from None
        return [
            shaped(self.document, node, f"{keyword} {i}", self.shape(node, outcome), outcome.nodes)
            for i, outcome in enumerate(outcomes)
        ]

    def shape(self, node: Node, outcome: Outcome) -> Shape:
        """What is said of what a set of subschemas does not speak of."""
        document, free = self.document, anything(self.document, node)
        members: tuple[Members, ...] = ()
        items: tuple[Items, ...] = ()
        if PROPERTIES in node.value and not outcome.every_member:
            spoken = Members(additional=document.child(node, PROPERTIES))
            for part in outcome.members:
                spoken.properties.update(dict.fromkeys(part.properties, free))
                spoken.patterns += [(pattern, free) for pattern, _ in part.patterns]
            members = (spoken,)
        if ITEMS in node.value and not outcome.every_item:
            rest = document.child(node, ITEMS)
            if outcome.contained:
                rest = some_of(document, [*outcome.contained, rest])
            items = (Items([free] * outcome.first, rest),)
        return Shape(members=members, items=items)

    def outcomes(self, node: Node, start: Node) -> list[Outcome]:
        """The sets of subschemas of `node`, itself among them unless it is where the question started."""
        facts = self.facts_of(node)
        found = [self.own(node, facts, start)]
        for other in facts.also:
            if other.denies is None:  # what does not hold evaluates nothing
                found = self.all_of([found, self.outcomes(other, start)], start)
        for keyword, branches in facts.either:
            inner = [self.outcomes(branch, start) for branch in branches]
            speaking = [[o for o in options if o.speaks()] for options in inner]
            if keyword == "anyOf":
                sets = self.all_of([[_SILENT, *options] for options in speaking if options], start)
                if all(speaking):
                    sets = sets[1:]  # one of them holds
            elif any(speaking):
                sets = [outcome for options in inner for outcome in options]
            else:
                continue
            found = self.all_of([found, sets], start)
        for branches in facts.one:
            inner = [self.outcomes(branch, start) for branch in self.exactly_one(branches)]
            if any(outcome.speaks() for options in inner for outcome in options):
                found = self.all_of([found, [o for options in inner for o in options]], start)
        for other in facts.heard:
            options = [o for o in self.outcomes(other, start) if o.speaks()]
            found = self.all_of([found, [_SILENT, *options]], start)
        return found

    def own(self, node: Node, facts: Facts, start: Node) -> Outcome:
        """What the keywords of a schema speak of by themselves."""
        said = node.value if isinstance(node.value, dict) else {}
        every_member = every_item = False
        first = 0
        members: tuple[Members, ...] = ()
        contained: tuple[Node, ...] = ()
        if PROPERTIES in start.value and not node.made:
            members = facts.shape.members
            every_member = any(part.additional is not None for part in members)
            every_member = every_member or (node is not start and PROPERTIES in said)
        if ITEMS in start.value and not node.made:
            parts = facts.shape.items
            first = max((len(part.prefix) for part in parts), default=0)
            every_item = any(part.rest is not None for part in parts)
            every_item = every_item or (node is not start and ITEMS in said)
            if "contains" in said and node.draft.contains_evaluates:
                contained = (self.document.child(node, "contains"),)
        return Outcome(() if node is start else (node,), members, every_member, first, every_item, contained)

    def all_of(self, parts: Iterable[Sequence[Outcome]], start: Node) -> list[Outcome]:
        """Every way to take one outcome of each part."""
        found = [_SILENT]
        for part in parts:
            if len(found) * len(part) > MAX_OUTCOMES:
                keyword = PROPERTIES if PROPERTIES in start.value else ITEMS
                raise ConstraintTooLarge(
                    "too many subschemas may hold together",
                    Problem(
                        step(start.pointer, keyword), f"more than {MAX_OUTCOMES} sets of them to tell apart"
                    ),
                    action="simplify the alternatives, or declare the properties where the keyword stands",
                )
            found = [a.and_(b) for a, b in product(found, part)]
        return found
