r"""The syntax tree of a pattern: anchors, word boundaries and look-around, which `ir.Regex` does not have.

A part without assertions is an `ir.Regex` leaf.
"""

from __future__ import annotations

from dataclasses import dataclass

from constrained.grammars import ir
from constrained.grammars.errors import Problem
from constrained.grammars.regex.charset import CodePointRanges


@dataclass(frozen=True, slots=True, eq=False)
class ConcatNode:
    """A concatenation of parts."""

    parts: tuple[RegexNode, ...]
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class AlternationNode:
    """An alternation: any of the parts."""

    parts: tuple[RegexNode, ...]
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class RepeatNode:
    """From `low` to `high` copies."""

    part: RegexNode
    low: int
    high: int | None
    at: int
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class StartAnchor:
    """The start of the string; with `newline`, also after one of these characters."""

    newline: CodePointRanges | None


@dataclass(frozen=True, slots=True, eq=False)
class EndAnchor:
    """The end of the string; with `newline`, also before one of them, the last one only when `final`."""

    newline: CodePointRanges | None
    final: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class WordBoundary:
    """Between a character of `word` and one that is not (or neither, when `negative`; `in_empty`: also in an empty text)."""

    word: CodePointRanges
    negative: bool
    in_empty: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Lookaround:
    """What follows (`ahead`) or precedes must match `part`, or must not when `negative`.

    `by_order`: it says only that a possessive loop, or an earlier alternative of an atomic group, does not match here.
    """

    part: RegexNode
    ahead: bool
    negative: bool
    at: int
    depth: int
    by_order: bool = False


RegexNode = (
    ir.Regex | ConcatNode | AlternationNode | RepeatNode | StartAnchor | EndAnchor | WordBoundary | Lookaround
)


def pattern_problem(pattern: str, at: int, reason: str) -> Problem:
    """An error message for a position in a pattern, with a caret under it."""
    start, stop = max(0, at - 30), at + 30
    excerpt = "".join(c if c.isprintable() else " " for c in pattern[start:stop])
    return Problem(f"position {at}", reason, excerpt=f"{excerpt}\n{' ' * (at - start)}^")


def lookaround_depth(node: RegexNode) -> int:
    """Levels of assertion nodes from here down."""
    return node.depth if isinstance(node, (ConcatNode, AlternationNode, RepeatNode, Lookaround)) else 0
