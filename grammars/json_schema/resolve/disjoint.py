"""Whether schemas can be proved to have no value in common, so that "exactly one of" is "any of"."""

from __future__ import annotations

from grammars.json_schema.resolve.expand import Cases
from grammars.json_schema.resolve.validate import Admits
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.constraints import Goal, Shape
from grammars.json_schema.source.document import Node
from grammars.json_schema.source.members import goal_of

MAX_DEPTH = 4
"""How deep required members are compared."""
MAX_STEPS = 20_000
"""Most sets of schemas that are looked at for one document."""


class Disjoint:
    """Proves goals empty. What it does not prove may be empty all the same; so "exactly one" is read as "any"."""

    def __init__(self, cases: Cases, admits: Admits) -> None:
        self.cases = cases
        self.admits = admits
        self.steps = 0
        self.known: dict[tuple[frozenset[Node], int], bool] = {}

    def apart(self, a: Node, b: Node) -> bool:
        """Whether two schemas have no value in common, as far as can be seen."""
        if self.cases.certain(a).excludes(self.cases.certain(b)):
            return True
        for one, other in ((a, b), (b, a)):
            if self.cases.certain(one).values is not None:
                listed = self.cases.facts(one).shape.values or ()
                return not any(self.admits.goal((one, other), value, perhaps=True) for value in listed)
        return self.empty((a, b))

    def empty(self, goal: Goal, depth: int = MAX_DEPTH) -> bool:
        """Whether no value satisfies all the schemas, as far as can be seen."""
        key = frozenset(goal), depth
        if key not in self.known:
            self.steps += 1
            if self.steps > MAX_STEPS:
                return False
            self.known[key] = all(
                self.empty_shape(self.cases.shape(case), depth)
                for case in self.cases.expand(goal, loose=True)
            )
        return self.known[key]

    def empty_shape(self, shape: Shape, depth: int) -> bool:
        """Whether no value has a shape, as far as can be seen. Keywords that cannot be enforced only narrow it."""
        types = shape.types
        if shape.values is not None:
            return not any(self.admits.shape(shape, value, perhaps=True) for value in shape.values)
        if types & (f.NULL | f.BOOLEAN):
            return False
        if types & f.NUMBER and not shape.bounds.empty():
            low, high = shape.bounds.integers()
            if types & f.FRACTION or low is None or high is None or low <= high:
                return False
        if types & f.STRING and not self.no_string(shape):
            return False
        if types & f.ARRAY and (shape.max_items is None or shape.min_items <= shape.max_items):
            return False
        return not types & f.OBJECT or self.no_object(shape, depth)

    def no_string(self, shape: Shape) -> bool:
        """Whether the lengths that are asked exclude each other."""
        least = max([shape.min_length, *(pattern.shortest for pattern in shape.patterns)])
        highs = [shape.max_length, *(pattern.longest for pattern in shape.patterns)]
        return any(high is not None and high < least for high in highs)

    def no_object(self, shape: Shape, depth: int) -> bool:
        """Whether a required member, or the count of members, can never be as asked."""
        most = shape.max_members
        if most is not None and max(shape.min_members, len(shape.required)) > most:
            return True
        return depth > 0 and any(self.empty(goal_of(shape, name), depth - 1) for name in shape.required)
