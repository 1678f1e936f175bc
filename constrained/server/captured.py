"""Captures in answers: the parts of a finished completion that rules with ``[capture]`` have read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from constrained.automaton.captures import Capture, piece_captures

if TYPE_CHECKING:
    from constrained.automaton import Automaton

MAX_STEPS = 500_000
"""Greatest number of steps for the captures of one completion: a few seconds of one thread."""


def answer_captures(automaton: Automaton, tokens: Sequence[int], length: int) -> dict[str, Any]:
    """The captures of a finished completion, by name, as JSON.

    Args:
        automaton: of a constraint that has captures.
        tokens: of the completion.
        length: bytes of the completion that are told: fewer than its tokens have where a stop string ends it.

    Raises:
        ConstraintTooLarge: finding them takes more than `MAX_STEPS` steps.
    """
    assert automaton.constraint is not None
    grammar = automaton.constraint.capture_grammar
    assert grammar is not None
    found = piece_captures(grammar, _told(automaton, tokens, length), MAX_STEPS)
    return {name: [_part(one) for one in parts] for name, parts in found.items()}


def _told(automaton: Automaton, tokens: Sequence[int], left: int) -> Iterator[tuple[bytes, bytes]]:
    """The first bytes of a completion in pieces, as the grammar reads them and as they are shown; special tokens are whole."""
    vocabulary = automaton.vocabulary
    for token in tokens:
        read, shown = vocabulary.tokens[token], vocabulary.decode((token,))
        if left >= len(shown):
            yield read, shown
        elif left and len(read) == len(shown):
            yield read[:left], shown[:left]
        left = max(left - len(shown), 0)


def _part(capture: Capture) -> dict[str, Any]:
    shown: dict[str, Any] = {"text": capture.text, "start": capture.start, "end": capture.end}
    return shown if capture.text.encode() == capture.data else {**shown, "bytes": list(capture.data)}
