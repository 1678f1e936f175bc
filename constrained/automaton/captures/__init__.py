"""Captures: the parts of a finished text that named rules of a grammar have read.

    scanner    where terminals match, and which one the lexer takes
    chart      all readings of a text (Earley 1970)
    reading    the reading that is taken, and its captures

Must not know: models, samplers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from constrained.automaton.captures.chart import Chart
from constrained.automaton.captures.reading import ChartReading
from constrained.automaton.captures.scanner import MAX_STEPS
from constrained.automaton.protocol import Automaton
from constrained.constraint import as_constraint
from constrained.errors import InvalidArgument, Problem, UnsupportedConstraint

if TYPE_CHECKING:
    from constrained.grammars.notation.lark.captures import CaptureGrammar

__all__ = ["MAX_STEPS", "Capture", "captures", "piece_captures", "token_captures"]


@dataclass(frozen=True, slots=True)
class Capture:
    """A part of a text that a rule has read.

    Attributes:
        text: the part. Where it begins or ends inside of a character, as a token that is named by its number may, U+FFFD stands for
            what is left of that.
        start, end: where it begins and ends in the text, in characters.
        data: its bytes.
    """

    text: str
    start: int
    end: int
    data: bytes = field(repr=False)


def captures(constraint: Any, text: str) -> dict[str, list[Capture]]:
    """The parts of a finished text that rules with ``[capture]`` have read, by name, in the order in which they end.

    Ignored text around a part does not belong to it, nor does the ending of a rule with ``suffix`` or ``stop``. Where a text can
    be read in several ways, one is taken, always the same: from left to right each part of an alternative, and each copy of a
    repetition, is as long as it can be, and a part is read by the first alternative that reads all of it.

    Args:
        constraint: what the text satisfies; only what `constrained.lark` makes has captures.
        text: the whole text. The name of a special token that the grammar names is that token.

    Raises:
        InvalidArgument: the constraint does not allow the text.
        UnsupportedConstraint: the grammar names tokens by number, which a text does not show; see `Output.captures`.
        ConstraintTooLarge: finding the captures takes more than `MAX_STEPS` steps.
        ConstraintError: the grammar cannot be enforced.
    """
    grammar = as_constraint(constraint).capture_grammar
    if grammar is None:
        return {}
    if numbered := [name for name in grammar.marks if name.startswith("<[")]:
        raise UnsupportedConstraint(
            "the captures cannot be found in the text alone",
            Problem(numbered[0], "a text shows the names of tokens, not their numbers"),
            action="use the captures of the output, or name the tokens",
        )
    data, pieces, at = text.encode(), list[tuple[bytes, bytes]](), 0
    names = sorted((name.encode() for name in grammar.marks), key=len, reverse=True)
    while at < len(data):
        found = next((name for name in names if data.startswith(name, at)), None)
        shown = found or data[at : at + 1]
        pieces.append((shown if found is None else grammar.marks[found.decode()], shown))
        at += len(shown)
    return piece_captures(grammar, pieces)


def token_captures(automaton: Automaton, tokens: Iterable[int]) -> dict[str, list[Capture]]:
    """As `captures`, for the tokens of a completion of an automaton."""
    grammar = None if automaton.constraint is None else automaton.constraint.capture_grammar
    if grammar is None:
        return {}
    vocabulary = automaton.vocabulary
    return piece_captures(
        grammar, [(vocabulary.tokens[token], vocabulary.decode((token,))) for token in tokens]
    )


def piece_captures(
    grammar: CaptureGrammar, pieces: Iterable[tuple[bytes, bytes]], most_steps: int | None = None
) -> dict[str, list[Capture]]:
    """As `captures`, for a text in pieces: as the grammar reads each of them, and as it is shown.

    Args:
        grammar: the grammar.
        pieces: of the text.
        most_steps: beyond which it is an error; None: `MAX_STEPS`.
    """
    data, text, shown = bytearray(), bytearray(), [0]
    for read, written in pieces:
        data += read
        text += written
        step = len(read) == len(written)
        shown += [len(text) - (len(read) - at if step else 0) for at in range(1, len(read) + 1)]
    chart = Chart(grammar, bytes(data), most_steps)
    goal = chart.read()
    if goal is None:
        raise InvalidArgument(
            "the constraint does not allow the text, so no rule has read a part of it",
            action="pass a finished text as it was generated",
        )
    characters = [0]
    for byte in text:
        characters.append(characters[-1] + (byte & 0xC0 != 0x80))
    named: dict[str, list[Capture]] = {}
    for name, start, end in ChartReading(chart).captured(chart.start, goal):
        part = bytes(text[shown[start] : shown[end]])
        bounds = characters[shown[start]], characters[shown[end]]
        named.setdefault(name, []).append(Capture(part.decode(errors="replace"), *bounds, part))
    return named
