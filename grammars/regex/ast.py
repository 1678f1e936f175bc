r"""What a pattern says, as a tree of what `ir.Regex` cannot: anchors, boundaries and look-around.

What has no assertion in it is an `ir.Regex` leaf.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammars import ir
from grammars.errors import Problem
from grammars.regex.charset import Ranges


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """One part after the other."""

    parts: tuple[Node, ...]
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Alternation:
    """Any of the parts."""

    parts: tuple[Node, ...]
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """From `low` to `high` copies."""

    part: Node
    low: int
    high: int | None
    at: int
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The start of the text; with `newline`, also after one of these characters."""

    newline: Ranges | None


@dataclass(frozen=True, slots=True, eq=False)
class End:
    """The end of the text; with `newline`, also before one of them, the last one only when `final`."""

    newline: Ranges | None
    final: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """Between a character of `word` and one that is not (or neither, when `negative`)."""

    word: Ranges
    negative: bool


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What follows (`ahead`) or precedes must match `part`, or must not when `negative`."""

    part: Node
    ahead: bool
    negative: bool
    at: int
    depth: int


Node = ir.Regex | Sequence | Alternation | Loop | Start | End | Boundary | Look


def position(pattern: str, at: int, reason: str) -> Problem:
    """A problem at a place in a pattern, with a caret under it."""
    start, stop = max(0, at - 30), at + 30
    shown = "".join(c if c.isprintable() else " " for c in pattern[start:stop])
    return Problem(f"position {at}", reason, excerpt=f"{shown}\n{' ' * (at - start)}^")


def depth_of(node: Node) -> int:
    """Levels of assertion nodes from here down."""
    return node.depth if isinstance(node, (Sequence, Alternation, Loop, Look)) else 0
