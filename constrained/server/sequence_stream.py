"""One text of a request, as the scheduler writes it: its tokens become pieces that are ready to be sent."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.sequence import Answer
from constrained.sampling import Position, TokenSampler


@dataclass(frozen=True, slots=True)
class Likely:
    """A token with its log-probability under the model, after temperature and before the constraint.

    Attributes:
        token: its bytes.
        logprob: in nats.
        others: the most likely tokens at that place, if they were asked for.
    """

    token: bytes
    logprob: float
    others: tuple[Likely, ...] = ()


@dataclass(slots=True)
class Piece:
    """What became of a text since the piece before.

    Attributes:
        index: which text of the request it is.
        delta: new characters.
        tokens: what they were made of, if it was asked for.
        finish: ``stop`` or ``length``, in the last piece.
        count: tokens of the whole text so far.
        error: why there will be no more, in place of a finish.
    """

    index: int
    delta: str = ""
    tokens: list[Likely] = field(default_factory=list)
    finish: str | None = None
    count: int = 0
    error: Exception | None = None


class Text:
    """A text that is being written, and what has not been told of it yet.

    Args:
        index: which text of the request it is.
        answer: fresh.
        sampler: draws its tokens.
        top: how many likely tokens to tell for each place; None: no log-probabilities at all.
    """

    def __init__(self, index: int, answer: Answer, sampler: TokenSampler, top: int | None = None) -> None:
        self.index = index
        self.answer = answer
        self.cancelled = False
        self.untold: Piece | None = None
        self._sampler = sampler
        self._top = top
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        if answer.finish:
            self._tell()

    @property
    def unread(self) -> Sequence[int]:
        """Ids that the model has not read yet."""
        return self.answer.unread

    @property
    def finished(self) -> bool:
        """Nothing more is wanted."""
        return self.cancelled or bool(self.answer.finish)

    def take(self, logits: NDArray[np.floating[Any]]) -> None:
        """Draws a token; an error is told, and ends this text alone."""
        if self.cancelled:  # it was given up in the middle of a step
            return
        try:
            said = len(self.answer.tokens)
            position = self.answer.position(logits)
            draw = self._sampler.propose(position)
            self.answer.commit(draw)
            likely = None
            if self._top is not None and len(self.answer.tokens) > said:
                likely = self._likely(position, self.answer.tokens[-1], self._top)
            self._tell(said, likely)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Ends the text with an error."""
        self.cancelled = True
        self.untold = Piece(self.index, error=error)

    def told(self) -> Piece | None:
        """The piece that has not been told yet; it counts as told from now on."""
        piece, self.untold = self.untold, None
        return piece

    def _tell(self, said: int = 0, likely: Likely | None = None) -> None:
        answer = self.answer
        if answer.finish == "dead":
            raise RuntimeError("the constraint led into a dead end")
        piece = self.untold or Piece(self.index)
        new = answer.rules.automaton.vocabulary.decode(answer.tokens[said:])
        piece.delta += self._decoder.decode(new, final=bool(answer.finish))
        if likely is not None:
            piece.tokens.append(likely)
        piece.count = len(answer.tokens)
        if self.finished:
            piece.finish = "length" if answer.finish == "limit" else "stop"
        self.untold = piece

    def _likely(self, position: Position, token: int, top: int) -> Likely:
        vocabulary = self.answer.rules.automaton.vocabulary
        logs = position.logs
        others = np.argsort(-logs, kind="stable")[:top] if top else ()
        return Likely(
            vocabulary.decode((token,)),
            float(logs[token]),
            tuple(Likely(vocabulary.decode((int(i),)), float(logs[i])) for i in others),
        )
