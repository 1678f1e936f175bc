"""Scalars under many alternatives: one term of unions and intersections instead of a case for every combination.

What schemas say about a string, or about a number, is a regular language, and so is what any combination of them
says. Alternatives that stand side by side are then no longer multiplied: `cases` does that for values in general.
"""

from __future__ import annotations

from collections.abc import Callable

from grammars import ir
from grammars.json_schema.resolve.expand import Cases
from grammars.json_schema.source.constraints import Goal, Shape
from grammars.json_schema.source.document import Node


class Languages:
    """The texts of one type of scalar.

    Args:
        cases: what is known of schemas.
        shaped: the texts of this type that the shape of a schema allows.
        every: all texts of this type.
    """

    def __init__(self, cases: Cases, shaped: Callable[[Goal, Shape], ir.Regex], every: ir.Regex) -> None:
        self.cases = cases
        self.shaped = shaped
        self.every = every
        self.known: dict[Node, ir.Regex] = {}

    def of(self, goal: Goal) -> ir.Regex:
        """The texts that satisfy all of some schemas, one at least."""
        stack: list[tuple[Node, bool]] = [(node, False) for node in goal]
        while stack:
            node, entered = stack.pop()
            if node in self.known:
                continue
            also, either = self.cases.parts(node)
            if not entered:
                stack.append((node, True))
                stack += [(part, False) for branches in (also, *either) for part in branches]
                continue
            texts = [self.known[part] for part in also]
            texts += [ir.union(*(self.known[part] for part in branches)) for branches in either]
            facts = self.cases.facts(node)
            if facts.limits:
                texts.append(self.shaped((node,), facts.shape))
            self.known[node] = self.intersection(texts)
        return self.intersection([self.known[node] for node in goal])

    def intersection(self, texts: list[ir.Regex]) -> ir.Regex:
        """The texts of all these languages."""
        less = dict.fromkeys(text for text in texts if text is not self.every)
        return ir.intersection(*less) if less else self.every
