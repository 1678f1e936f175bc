r"""Builds the syntax tree of a pattern: sequences, and the groups and loops that keep the first match that they find.

Matching tries the texts of ``(?>...)`` and ``a++`` in an order and gives none back. Where no text of a part begins with
another one, the part has one match at a place, and the order means what a negative look-ahead says: ``a++`` is
``a+(?!a)``, and ``(?>x|y)`` is ``x|(?!x)y``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.regex.analysis import nullable, widths
from constrained.grammars.regex.ast import (
    AlternationNode,
    ConcatNode,
    Lookaround,
    RegexNode,
    RepeatNode,
    lookaround_depth,
    pattern_problem,
)
from constrained.grammars.regex.escapes import PatternReader, RegexDialect
from constrained.grammars.regex.languages import RegularLanguages

MAX_DEPTH = 400
"""Deepest nesting of groups that hold assertions."""


@dataclass(slots=True)
class OpenGroup:
    """An open group: its kind, and its alternatives so far; of an atomic one also their texts, whatever the order."""

    at: int
    flags: frozenset[str]
    look: tuple[bool, bool] | None = None  # (ahead, negative)
    alternatives: list[RegexNode] = field(default_factory=list)
    items: list[RegexNode] = field(default_factory=list)
    atomic: bool = False
    tried: list[RegexNode] = field(default_factory=list)


class TreeBuilder(PatternReader):
    """Puts nodes together.

    Attributes:
        greedy: loops that try as many copies as they can first.
        settled: nodes with assertions that match at most one text at a place, by the order of matching.
    """

    def __init__(self, pattern: str, dialect: RegexDialect, flags: str = "") -> None:
        super().__init__(pattern, dialect, flags)
        self.greedy: set[RegexNode] = set()
        self.settled: set[RegexNode] = set()

    @cached_property
    def languages(self) -> RegularLanguages:
        """Proofs about the languages of parts."""
        return RegularLanguages()

    def sequence(self, items: list[RegexNode]) -> RegexNode:
        """A concatenation of items; adjacent items without assertions are merged."""
        parts: list[RegexNode] = []
        plain: list[ir.Regex] = []
        for item in items:
            if isinstance(item, ir.Regex):
                plain.append(item)
                continue
            if plain:
                parts.append(ir.concat(*_join_literals(plain)))
                plain = []
            parts.extend(item.parts if isinstance(item, ConcatNode) else (item,))
        if plain or not parts:
            parts.append(ir.concat(*_join_literals(plain)))
        kept = [
            part for part, after in zip(parts, [*parts[1:], None], strict=True) if not self.idle(part, after)
        ]
        if len(kept) < len(parts):
            return self.sequence(kept)
        node = parts[0] if len(parts) == 1 else ConcatNode(tuple(parts), self.check_depth(*parts))
        if not self.settled.isdisjoint(items) and all(map(self.has_one_match, items)):
            self.settled.add(node)
        return node

    def idle(self, node: RegexNode, after: RegexNode | None) -> bool:
        """Whether a node says only that a loop or an earlier alternative has ended, which what follows says as well."""
        if not (isinstance(node, Lookaround) and node.by_order and isinstance(after, ir.Regex)):
            return False
        return isinstance(node.part, ir.Regex) and self.differ(node.part, after)

    def differ(self, first: ir.Regex, second: ir.Regex) -> bool:
        """Whether it is proved that what begins with a text of one language never begins with one of the other."""
        return self.languages.provably_disjoint([ir.concat(first, ir.TEXT), ir.concat(second, ir.TEXT)])

    def alternative(self, group: OpenGroup) -> RegexNode:
        """The tree of the alternative that ends here; in an atomic group without what matching never comes to."""
        whole = self.sequence(group.items)
        if not group.atomic:
            return whole
        parts = list(group.items)
        rest: RegexNode = ir.EMPTY_STRING
        if self.has_one_match(whole):
            parts = [whole]
        for i, part in reversed(list(enumerate(parts))):
            if not self.has_one_match(part):
                loop = part if part in self.greedy and isinstance(part, ir.Repeat) else None
                if not (
                    loop and isinstance(rest, ir.Regex) and (nullable(rest) or self.differ(loop.part, rest))
                ):
                    raise self.unsupported_construct(
                        "what this atomic group takes depends on the order of matching", group.at
                    )
                parts[i] = self.possessive(loop.part, loop.low, loop.high, group.at)
            rest = self.sequence([part, rest])
        if group.tried:
            earlier = self.either(group.tried)
            depth = self.check_depth(earlier)
            parts.insert(0, Lookaround(earlier, True, True, group.at, depth, by_order=True))
        group.tried.append(whole)
        return self.sequence(parts)

    def either(self, alternatives: list[RegexNode]) -> RegexNode:
        """Any of some parts."""
        plain = [part for part in alternatives if isinstance(part, ir.Regex)]
        rest = [part for part in alternatives if not isinstance(part, ir.Regex)]
        if not rest:
            return ir.union(*plain)
        parts = (ir.union(*plain), *rest) if plain else tuple(rest)
        return parts[0] if len(parts) == 1 else AlternationNode(parts, self.check_depth(*parts))

    def loop(self, part: RegexNode, low: int, high: int | None, at: int) -> RegexNode:
        """From `low` to `high` copies."""
        if isinstance(part, ir.Regex):
            return ir.repeat(part, low, high)
        return RepeatNode(part, low, high, at, self.check_depth(part))

    def possessive(self, part: RegexNode, low: int, high: int | None, at: int) -> RegexNode:
        """A loop that gives no copy back: it ends where its part does not follow, or after `high` copies."""
        if not self.has_one_match(part):
            raise self.unsupported_construct(
                "what this possessive loop takes depends on the order of matching", at
            )
        if low == high or (isinstance(part, ir.Regex) and widths(part)[1] == 0):
            return self.loop(part, low, high, at)
        end = Lookaround(part, True, True, at, self.check_depth(part), by_order=True)
        if high is None:
            node = self.sequence([self.loop(part, low, None, at), end])
        else:
            fewer = self.sequence([self.loop(part, low, high - 1, at), end])
            node = AlternationNode((self.loop(part, high, high, at), fewer), self.check_depth(fewer))
        self.settled.add(node)
        return node

    def has_one_match(self, node: RegexNode) -> bool:
        """Whether a part matches at most one text at a place: none of its texts begins with another one, or order decides."""
        if not isinstance(node, ir.Regex):
            return node in self.settled
        low, high = widths(node)
        longer = ir.concat(node, ir.repeat(ir.ANY_CHAR, 1))
        return low == high or self.languages.provably_disjoint([node, longer])

    def check_depth(self, *parts: RegexNode) -> int:
        """Depth of a node over these; refuses trees too deep for the recursive pass over assertions."""
        depth = 1 + max(map(lookaround_depth, parts))
        if depth > MAX_DEPTH:
            raise ConstraintTooLarge(
                "the regular expression is nested too deeply",
                pattern_problem(self.pattern, self.at - 1, f"assertions under more than {MAX_DEPTH} levels"),
            )
        return depth


def _join_literals(parts: list[ir.Regex]) -> list[ir.Regex]:
    """Runs of literals as one each, in linear time."""
    joined: list[ir.Regex] = []
    run: list[bytes] = []
    for part in parts:
        if isinstance(part, ir.Literal):
            run.append(part.data)
            continue
        if run:
            joined.append(ir.Literal(b"".join(run)))
            run = []
        joined.append(part)
    if run:
        joined.append(ir.Literal(b"".join(run)))
    return joined
