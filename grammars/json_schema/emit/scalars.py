"""Scalars under many alternatives: one term of unions and intersections instead of a case for every combination.

What schemas say about a string, or about a number, is a regular language, and so is what any combination of them
says. Alternatives that stand side by side are then no longer multiplied: `cases` does that for values in general.
"""

from __future__ import annotations

from collections.abc import Callable

from grammars import ir
from grammars.json_schema.resolve.expand import DnfExpansion
from grammars.json_schema.source.constraints import Conjunction, TypeConstraints
from grammars.json_schema.source.document import SchemaNode


class ScalarLanguages:
    """The texts of one type of scalar.

    Args:
        cases: what is known of schemas.
        constraint_regex: the texts of this type that the shape of a schema allows.
        all_texts: all texts of this type.
    """

    def __init__(
        self, cases: DnfExpansion, shaped: Callable[[Conjunction, TypeConstraints], ir.Regex], every: ir.Regex
    ) -> None:
        self.cases = cases
        self.constraint_regex = shaped
        self.all_texts = every
        self.known: dict[SchemaNode, ir.Regex] = {}

    def of(self, goal: Conjunction) -> ir.Regex:
        """The texts that satisfy all of some schemas, one at least."""
        stack: list[tuple[SchemaNode, bool]] = [(node, False) for node in goal]
        while stack:
            node, entered = stack.pop()
            if node in self.known:
                continue
            also, either = self.cases.scalar_parts(node)
            if not entered:
                stack.append((node, True))
                stack += [(part, False) for branches in (also, *either) for part in branches]
                continue
            texts = [self.known[part] for part in also]
            texts += [ir.union(*(self.known[part] for part in branches)) for branches in either]
            facts = self.cases.parse_schema(node)
            if facts.limits:
                texts.append(self.constraint_regex((node,), facts.constraints))
            self.known[node] = self.intersection(texts)
        return self.intersection([self.known[node] for node in goal])

    def intersection(self, texts: list[ir.Regex]) -> ir.Regex:
        """The texts of all these languages."""
        less = dict.fromkeys(text for text in texts if text is not self.all_texts)
        return ir.intersection(*less) if less else self.all_texts
