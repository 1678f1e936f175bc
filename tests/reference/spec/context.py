"""A place in a text, as sources see it: what stands before it, and what the automaton allows there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tests.reference.spec.json_path import JSON_START, JsonPath, advance
from tests.reference.spec.protocols import Automaton
from tests.reference.spec.retokenizer import Retokenizer

CONTEXT_TOKENS = 8
"""Tokens that a place remembers."""

CONTEXT_BYTES = 64
"""Bytes that a place remembers."""


@dataclass(frozen=True)
class DraftRequest:
    """What all places of one text share.

    Attributes:
        automaton: what may be said.
        pieces: how the vocabulary writes bytes.
        is_json: texts are JSON.
    """

    automaton: Automaton
    pieces: Retokenizer
    is_json: bool = True


class DraftContext:
    """The end of a text, or a node of its draft tree.

    Attributes:
        request: what the text belongs to.
        state: of the automaton.
        recent_tokens: the last tokens, at most `CONTEXT_TOKENS`; the prompt's count.
        recent_bytes: the last bytes of the text itself, at most `CONTEXT_BYTES`.
        json_path: where in a JSON value; None for other texts.
    """

    def __init__(
        self, request: DraftRequest, state: int, tail: tuple[int, ...], text: bytes, path: JsonPath | None
    ) -> None:
        self.request = request
        self.state = state
        self.recent_tokens = tail
        self.recent_bytes = text
        self.json_path = path

    @classmethod
    def start(cls, request: DraftRequest, state: int, prompt: tuple[int, ...] = ()) -> DraftContext:
        """The place before the first token.

        Args:
            request: what the text belongs to.
            state: of the automaton.
            prompt: the last tokens of the prompt.
        """
        return cls(request, state, prompt[-CONTEXT_TOKENS:], b"", JSON_START if request.is_json else None)

    def advance(self, token: int, state: int) -> DraftContext:
        """The place after one more token."""
        piece = self.request.automaton.vocabulary.tokens[token]
        path = None if self.json_path is None else advance(self.json_path, piece)
        return DraftContext(
            self.request,
            state,
            (*self.recent_tokens, token)[-CONTEXT_TOKENS:],
            (self.recent_bytes + piece)[-CONTEXT_BYTES:],
            path,
        )

    @cached_property
    def forced(self) -> bytes:
        """What every completion begins with."""
        return self.request.automaton.forced(self.state)
