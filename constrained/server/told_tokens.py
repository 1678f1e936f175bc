"""`ToldTokens`: the tokens of a completion with their log-probabilities, as far as their text is part of the answer.

A stop string is none of it, so neither are its tokens; one that begins before the stop string is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token with its log-probability under the model, after temperature and before the constraint.

    Attributes:
        token: its bytes.
        logprob: in nats.
        top_logprobs: the most likely tokens at that position, if requested.
    """

    token: bytes
    logprob: float
    top_logprobs: tuple[TokenLogprob, ...] = ()


class ToldTokens:
    """Tokens that wait until it is certain that their text is told."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, TokenLogprob]] = deque()  # each with the number of bytes before it
        self._bytes = 0

    def add(self, token: TokenLogprob) -> None:
        """Adds the next token of the completion."""
        self._waiting.append((self._bytes, token))
        self._bytes += len(token.token)

    def take(self, end: float) -> list[TokenLogprob]:
        """The tokens that begin before this byte of the completion, each once."""
        taken = []
        while self._waiting and self._waiting[0][0] < end:
            taken.append(self._waiting.popleft()[1])
        return taken
