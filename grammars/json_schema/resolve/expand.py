"""From schemas that hold together to cases: sets of schemas without references, conjunctions or alternatives.

A goal (schemas that one value must satisfy) is closed over ``$ref`` and ``allOf``; every disjunction in it picks
one branch. Each way to pick is a case, and what a case says is one `Shape`. Goals and cases are interned by the
set of their schemas, so that recursion comes back to the same one.

"Exactly one" is the choice of a branch and the negation of every other that may hold at the same time. To find
out which may, goals are expanded loosely, with "any" for "exactly one": that is never too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import NamedTuple

from grammars.errors import ConstraintTooLarge, InvalidConstraint, Problem
from grammars.json_schema.resolve.discriminators import NO_TAGS, Certain, Tags, listed, tags_of
from grammars.json_schema.resolve.negate import negation
from grammars.json_schema.resolve.unevaluated import Unevaluated
from grammars.json_schema.source.constraints import EVERY_TYPE, OBJECT, TYPE_ALONE, Facts, Goal, Shape
from grammars.json_schema.source.document import Document, Node, step
from grammars.json_schema.source.synthetic import negated, shaped, together

MAX_CASES = 10_000
"""Most ways to pick the branches of one value's disjunctions."""

_NOTHING_SAID = Shape()


def _unknown(keyword: str, draft: str) -> str:
    later = {"additionalItems": "items", "dependencies": "dependentRequired, dependentSchemas"}
    hint = f" (now {later[keyword]})" if keyword in later else ""
    return f"unknown to draft {draft}{hint}"


class Opened(NamedTuple):
    """What holds of a goal whichever alternatives do.

    Attributes:
        asked: the goal, and whether it was opened loosely.
        seen: all schemas that hold.
        choices: the disjunctions that they bring.
        types: that all of them allow; None when they contradict each other.
    """

    asked: tuple[Goal, bool]
    seen: dict[Node, None]
    choices: list[Sequence[Node]]
    types: int | None


class Cases:
    """Reads schemas and expands goals; remembers both.

    Args:
        document: where the schemas stand.

    Attributes:
        apart: whether two schemas are known to have no value in common; knows nothing until it is set.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.apart: Callable[[Node, Node], bool] = lambda a, b: False
        self.read_nodes: list[Node] = []
        self.sound: set[Node] = set()
        self.shapes: dict[frozenset[Node], Shape] = {}
        self.expanded: dict[tuple[frozenset[Node], bool], list[Goal]] = {}
        self.exclusive: dict[tuple[Node, ...], list[Node]] = {}
        self.rests: dict[Node, list[Node]] = {}
        self.tags_said: dict[Node, Tags] = {}
        self.certainties: dict[Node, Certain] = {}
        self.last_opened = Opened(((), True), {}, [], EVERY_TYPE)  # mostly asked for twice

    # ------------------------------------------------------------ one schema

    def facts(self, node: Node) -> Facts:
        """What a schema says by itself."""
        if node.facts is not None:
            return node.facts
        if node.denies is not None:
            node.facts = negation(node.denies, self.document, self.facts)
            return node.facts
        node.facts = facts = Facts()
        if not node.made:
            self.read_nodes.append(node)
        schema = node.value
        draft = node.draft
        if schema is False:
            facts.shape.types = 0
            facts.limits = True
            return facts
        if schema is True:
            return facts
        limiting = draft.limiting
        if len(said := limiting.keys() & schema.keys()) <= 1:  # nothing, or most often a type alone
            if not said:
                return facts
            if "type" in said and isinstance(name := schema["type"], str):
                node.facts = facts = TYPE_ALONE[name]
                return facts
        if draft.ref_alone and "$ref" in schema:
            limiting["$ref"](facts, schema["$ref"], node, self.document)
        else:
            for keyword, value in schema.items():
                function = limiting.get(keyword)
                if function is not None:
                    function(facts, value, node, self.document)
        facts.limits = facts.shape.limits()
        return facts

    def said(self) -> Iterator[tuple[Node, list[tuple[str, bool, str]]]]:
        """The `entries` of every schema that was read, in that order."""
        return ((node, self.entries(node)) for node in tuple(self.read_nodes))

    def entries(self, node: Node) -> list[tuple[str, bool, str]]:
        """(keyword, enforced, note) for the report: what each keyword of a schema came to."""
        schema = node.value
        draft = node.draft
        alone = draft.ref_alone and "$ref" in schema if isinstance(schema, dict) else False
        found = []
        for keyword, value in schema.items() if isinstance(schema, dict) else ():
            function = draft.table.get(keyword)
            if function is None:
                found.append((keyword, False, _unknown(keyword, draft.name)))
            elif alone and keyword != "$ref":
                found.append((keyword, False, f"ignored next to $ref in draft {draft.name}"))
            else:
                note = function(Facts(), value, node, self.document)
                found.append((keyword, note is None, note or ""))
        return found

    def parts(self, node: Node) -> tuple[list[Node], list[Sequence[Node]]]:
        """What a scalar must satisfy besides the shape of a schema: all of some schemas, and of each list one."""
        facts = self.facts(node)
        if node not in self.sound:
            self.check_sound(node)
        either = [branches for _, branches in facts.either]
        either += map(self.exactly_one, facts.one)
        either += map(self.not_one, facts.several)
        if facts.wrong_rest is not None:  # no scalar leaves anything unevaluated
            either.append(())
        return list(facts.also), either

    # ------------------------------------------------------------ goals

    def outline(self, goal: Goal) -> tuple[int, int]:
        """Types that hold all values of a goal, and in how many ways its alternatives can be picked, seen from outside."""
        opened = self.opened(goal, loose=False)
        return opened.types or 0, math.prod(map(len, opened.choices))

    def opened(self, goal: Goal, loose: bool) -> Opened:
        """What holds of a goal whichever alternatives do."""
        if self.last_opened.asked != (goal, loose):
            seen: dict[Node, None] = {}
            choices: list[Sequence[Node]] = []
            types = self._close(goal, seen, choices, loose)
            self.last_opened = Opened((goal, loose), seen, choices, types)
        return self.last_opened

    def expand(self, goal: Goal, *, loose: bool = False) -> list[Goal]:
        """The cases of a goal, each a tuple of schemas that limit something.

        Args:
            goal: schemas that must hold together.
            loose: take "exactly one" for "any".

        Raises:
            ConstraintTooLarge: there are too many.
            InvalidConstraint: a schema refers to itself for the same value.
        """
        if len(goal) == 1:  # by far the most common: one schema that refers to no other
            facts = self.facts(goal[0])
            if facts.plain:
                return [goal if facts.limits else ()]
        key = frozenset(goal), loose
        found = self.expanded.get(key)
        if found is None:
            found = self.expanded[key] = self._expand(goal, loose)
        return found

    def _expand(self, goal: Goal, loose: bool) -> list[Goal]:
        _, seen, choices, types = self.opened(goal, loose)
        if types is None:
            return []
        if not choices:
            return [self._limiting(seen)]
        finished: dict[frozenset[Node], Goal] = {}
        tags = self.tags(seen, NO_TAGS) if len(choices) > 1 else None
        pending = [(seen, choices, types, tags)]
        steps = 0
        while pending:
            steps += 1
            if steps > MAX_CASES:
                raise ConstraintTooLarge(
                    "the schema has too many combinations of alternatives",
                    Problem(goal[0].pointer, f"more than {MAX_CASES} combinations at this place"),
                    action="simplify the alternatives that stand side by side here",
                )
            seen, choices, types, tags = pending.pop()
            if not choices:
                case = self._limiting(seen)
                finished.setdefault(frozenset(case), case)
                continue
            if any(branch in seen for branch in choices[0]):  # holds already
                pending.append((seen, choices[1:], types, tags))
                continue
            for branch in reversed(choices[0]):
                with_branch = dict(seen)
                more = choices[1:]
                left = self._close((branch,), with_branch, more, loose)
                if left is None or not types & left:
                    continue
                told = tags
                if told is not None:
                    told = self.tags(islice(with_branch, len(seen), None), told)
                    if types & left == OBJECT and told.impossible():
                        continue
                pending.append((with_branch, more, types & left, told))
        return list(finished.values())

    def certain(self, node: Node) -> Certain:
        """What is easily said of the values of a schema, whichever alternatives hold."""
        found = self.certainties.get(node)
        if found is None:
            seen: dict[Node, None] = {}
            types = self._close((node,), seen, [], loose=True) or 0
            values = listed(node, self.facts)
            found = self.certainties[node] = Certain(types, values, self.tags(seen, NO_TAGS))
        return found

    def tags(self, nodes: Iterable[Node], tags: Tags) -> Tags:
        """What is said of single members, with what more schemas say of them."""
        found = []
        for node in nodes:
            if (node.facts or self.facts(node)).limits:
                if node not in self.tags_said:
                    self.tags_said[node] = tags_of(node, self.facts)
                found.append(self.tags_said[node])
        return tags.joined(found) if found else tags

    def _close(
        self, nodes: Sequence[Node], seen: dict[Node, None], choices: list[Sequence[Node]], loose: bool
    ) -> int | None:
        """Adds schemas and all that hold with them to `seen`, and the disjunctions that they bring to `choices`.

        Returns the types that the new ones allow; None when a schema and its negation are among all of them.
        """
        types = EVERY_TYPE
        stack = list(reversed(nodes))
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen[node] = None
            facts = node.facts or self.facts(node)
            if node.negation is not None and node.negation in seen:
                return None
            if facts.limits:
                types &= facts.shape.types
            if facts.also:
                if node not in self.sound:
                    self.check_sound(node)
                stack.extend(reversed(facts.also))
            if facts.either:
                choices.extend(branches for _, branches in facts.either)
            for branches in facts.one:
                choices.append(branches if loose else self.exactly_one(branches))
            if not loose:
                choices.extend(self.not_one(branches) for branches in facts.several)
                if facts.rest is not None:
                    choices.insert(0, self.rest(facts.rest))  # it picks branches of the others, too
                if facts.wrong_rest is not None:
                    stack.extend(map(negated, self.rest(facts.wrong_rest)))
        return types

    def exactly_one(self, branches: Sequence[Node]) -> list[Node]:
        """Schemas of which one holds when exactly one of the branches does."""
        key = tuple(branches)
        found = self.exclusive.get(key)
        if found is None:
            self.exclusive[key] = found = []
            overlapping: dict[Node, dict[Node, None]] = {branch: {} for branch in branches}
            for first, second in combinations(overlapping, 2):
                if not self.apart(first, second):
                    overlapping[first][second] = overlapping[second][first] = None
            for branch in branches:
                others = [negated(other) for other in overlapping[branch]]
                found.append(
                    shaped(self.document, branch, "alone", Shape(), [branch, *others]) if others else branch
                )
        return found

    def rest(self, node: Node) -> list[Node]:
        """Schemas of which one holds when all that a schema leaves unevaluated is as it says."""
        found = self.rests.get(node)
        if found is None:
            self.check_sound(node)
            self.rests[node] = found = Unevaluated(self.document, self.facts, self.exactly_one).alternatives(
                node
            )
        return found

    def not_one(self, branches: Sequence[Node]) -> list[Node]:
        """Schemas of which one holds when none of the branches does, or more than one."""
        none = together(self.document, [negated(branch) for branch in branches])
        pairs = [
            together(self.document, [first, second])
            for i, second in enumerate(branches)
            for first in branches[:i]
            if not self.apart(first, second)
        ]
        return [none, *pairs]

    def _limiting(self, seen: dict[Node, None]) -> Goal:
        return tuple([node for node in seen if (node.facts or self.facts(node)).limits])

    def check_sound(self, start: Node) -> None:
        """Refuses a schema that comes back to itself for the same value: it would say nothing or anything."""
        path: list[Node] = []
        on_path: set[Node] = set()
        stack: list[tuple[Node, bool]] = [(start, False)]
        while stack:
            node, done = stack.pop()
            if done:
                path.pop()
                on_path.discard(node)
                self.sound.add(node)
                continue
            if node in on_path:
                raise InvalidConstraint(
                    "the schema is malformed",
                    Problem(step(path[-1].pointer), f"refers back to {node.pointer} for the same value"),
                    action="break the circle of references",
                )
            if node in self.sound:
                continue
            path.append(node)
            on_path.add(node)
            stack.append((node, True))
            facts = node.facts or self.facts(node)
            stack.extend((other, False) for other in facts.also)
            for _, branches in facts.either:
                stack.extend((other, False) for other in branches)
            for branches in (*facts.one, *facts.several):
                stack.extend((other, False) for other in branches)

    # ------------------------------------------------------------ cases

    def shape(self, case: Goal) -> Shape:
        """All that a case says."""
        if not case:
            return _NOTHING_SAID
        if len(case) == 1:
            return self.facts(case[0]).shape
        key = frozenset(case)
        shape = self.shapes.get(key)
        if shape is None:
            first, *others = [(node.facts or self.facts(node)).shape for node in case]
            shape = self.shapes[key] = first.meet(*others)
        return shape
