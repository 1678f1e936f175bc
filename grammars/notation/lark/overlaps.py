"""Terminals of a Lark grammar that match the same text, which Lark's strict mode refuses.

Lark compares with interegular, whose machines have no counted repeats and may be exponentially large. Here pairs of languages are
searched for a common text within a number of steps, and terminals that could not be compared are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from constrained.grammars import ir
from constrained.grammars.regex.analysis import children
from constrained.grammars.regex.languages import RegularLanguages, Undecided
from constrained.grammars.visit import fold

MAX_STEPS = 2_000_000
"""Steps of work for all pairs of a grammar, some seconds."""
MAX_OVERLAPS = 20


@dataclass(frozen=True, slots=True)
class ComparedTerminal:
    """A terminal that is a regular expression.

    Attributes:
        name: its name, or the literal as it is written.
        regex: its texts.
        priority: of the lexer; only terminals of equal priority are compared.
    """

    name: str
    regex: ir.Regex
    priority: int


@dataclass(frozen=True, slots=True)
class TerminalOverlap:
    """Two terminals of equal priority, by name, and a text that both match."""

    first: str
    second: str
    example: str


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """The result of a comparison.

    Attributes:
        overlaps: at most `MAX_OVERLAPS`.
        not_compared: the reason by the name of a terminal.
    """

    overlaps: tuple[TerminalOverlap, ...] = ()
    not_compared: tuple[tuple[str, str], ...] = ()


def find_overlaps(terminals: Sequence[ComparedTerminal]) -> OverlapReport:
    """Compares terminals of equal priority pairwise. Small patterns come first.

    Args:
        terminals: regular expressions only: Lark prefers a string to a regular expression that matches it.
    """
    languages = RegularLanguages()
    overlaps: list[TerminalOverlap] = []
    skipped: list[tuple[str, str]] = []
    ordered = sorted(terminals, key=lambda one: (_size(one.regex), one.name))
    for index, second in enumerate(ordered):
        for first in ordered[:index]:
            if first.priority != second.priority:
                continue
            reason = f"{MAX_OVERLAPS} overlaps are listed already"
            if len(overlaps) < MAX_OVERLAPS:
                reason = f"all terminals together need more than {MAX_STEPS:,} steps"
            if len(overlaps) == MAX_OVERLAPS or languages.steps > MAX_STEPS:
                skipped.append((second.name, reason))
                break
            try:
                example = languages.common_text([first.regex, second.regex])
            except Undecided as error:
                skipped.append((second.name, f"whether {first.name} matches one of its texts: {error}"))
                break
            if example is not None:
                overlaps.append(TerminalOverlap(first.name, second.name, example))
    return OverlapReport(tuple(overlaps), tuple(skipped))


def _size(regex: ir.Regex) -> int:
    """The number of nodes of an expression."""
    return fold(regex, children, lambda node, sizes: 1 + sum(sizes[part] for part in children(node)), {})
