"""Captures in answers: the parts of a finished completion that rules with ``[capture]`` have read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from constrained.automaton.captures import Capture, piece_captures

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.constraint import Constraint

MAX_STEPS = 500_000
"""Greatest number of steps for the captures of one completion: a few seconds of one thread."""

FEW_STEPS = 5_000
"""Steps that are made in the server's own process: hundredths of a second. A worker makes more."""

Piece = tuple[bytes, bytes]
"""A token as the grammar reads it, and as it is shown."""


def emitted_pieces(automaton: Automaton, tokens: Sequence[int], length: int) -> list[Piece]:
    """The tokens of a finished completion, as far as they are in the answer: special tokens are whole or not there.

    Args:
        automaton: of its constraint.
        tokens: of the completion.
        length: bytes of the answer: fewer than the tokens have where a stop string ends the completion.
    """
    pieces: list[Piece] = []
    vocabulary = automaton.vocabulary
    for token in tokens:
        read, shown = vocabulary.tokens[token], vocabulary.decode((token,))
        if length >= len(shown):
            pieces.append((read, shown))
        elif length and len(read) == len(shown):
            pieces.append((read[:length], shown[:length]))
        length = max(length - len(shown), 0)
    return pieces


def answer_captures(constraint: Constraint, pieces: Sequence[Piece], few: bool = False) -> dict[str, Any]:
    """The captures of a finished completion, by name, as JSON.

    Args:
        constraint: one that has captures.
        pieces: see `emitted_pieces`.
        few: give up after `FEW_STEPS`.

    Raises:
        ConstraintTooLarge: finding them takes more than `MAX_STEPS` steps, or that few.
    """
    grammar = constraint.capture_grammar
    assert grammar is not None
    found = piece_captures(grammar, pieces, FEW_STEPS if few else MAX_STEPS)
    return {name: [_part(one) for one in parts] for name, parts in found.items()}


def _part(capture: Capture) -> dict[str, Any]:
    shown: dict[str, Any] = {"text": capture.text, "start": capture.start, "end": capture.end}
    return shown if capture.text.encode() == capture.data else {**shown, "bytes": list(capture.data)}
