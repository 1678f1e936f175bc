"""A place in a text, as sources see it: what stands before it, and what the automaton allows there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from spec.json_path import START, Path, after
from spec.pieces import Pieces
from spec.protocols import Automaton

TOKENS = 8
"""Tokens that a place remembers."""

BYTES = 64
"""Bytes that a place remembers."""


@dataclass(frozen=True)
class Request:
    """What all places of one text share.

    Attributes:
        automaton: what may be said.
        pieces: how the vocabulary writes bytes.
        is_json: texts are JSON.
    """

    automaton: Automaton
    pieces: Pieces
    is_json: bool = True


class Place:
    """The end of a text, or a node of its draft tree.

    Attributes:
        request: what the text belongs to.
        state: of the automaton.
        tail: the last tokens, at most `TOKENS`; the prompt's count.
        text: the last bytes of the text itself, at most `BYTES`.
        path: where in a JSON value; None for other texts.
    """

    def __init__(
        self, request: Request, state: int, tail: tuple[int, ...], text: bytes, path: Path | None
    ) -> None:
        self.request = request
        self.state = state
        self.tail = tail
        self.text = text
        self.path = path

    @classmethod
    def start(cls, request: Request, state: int, prompt: tuple[int, ...] = ()) -> Place:
        """The place before the first token.

        Args:
            request: what the text belongs to.
            state: of the automaton.
            prompt: the last tokens of the prompt.
        """
        return cls(request, state, prompt[-TOKENS:], b"", START if request.is_json else None)

    def after(self, token: int, state: int) -> Place:
        """The place after one more token."""
        piece = self.request.automaton.vocabulary.tokens[token]
        path = None if self.path is None else after(self.path, piece)
        return Place(self.request, state, (*self.tail, token)[-TOKENS:], (self.text + piece)[-BYTES:], path)

    @cached_property
    def forced(self) -> bytes:
        """What every completion begins with."""
        return self.request.automaton.forced(self.state)
