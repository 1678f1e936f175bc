"""One text of a request, as the scheduler writes it: its tokens become pieces that are ready to be sent."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field

import numpy as np

from constrained.decoding.sequence import TokenSequence
from constrained.sampling import Distribution, Position, TokenSampler


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token with its log-probability under the model, after temperature and before the constraint.

    Attributes:
        token: its bytes.
        logprob: in nats.
        top_logprobs: the most likely tokens at that place, if they were asked for.
    """

    token: bytes
    logprob: float
    top_logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(slots=True)
class SequenceDelta:
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
    tokens: list[TokenLogprob] = field(default_factory=list)
    finish: str | None = None
    count: int = 0
    error: Exception | None = None


class SequenceStream:
    """A text that is being written, and what has not been told of it yet.

    Args:
        index: which text of the request it is.
        sequence: fresh.
        sampler: draws its tokens.
        top: how many likely tokens to tell for each place; None: no log-probabilities at all.
    """

    def __init__(
        self, index: int, sequence: TokenSequence, sampler: TokenSampler, top: int | None = None
    ) -> None:
        self.index = index
        self.sequence = sequence
        self.cancelled = False
        self.pending_delta: SequenceDelta | None = None
        self._sampler = sampler
        self._top = top
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        if sequence.finish:
            self._tell()

    @property
    def top_count(self) -> int:
        """How many of the tokens with the largest keys a draw looks at; 0: log-probabilities need whole rows."""
        return 0 if self._top is not None else self._sampler.top_count(self.sequence.params.warp)

    @property
    def finished(self) -> bool:
        """Nothing more is wanted."""
        return self.cancelled or bool(self.sequence.finish)

    def advance(self, distribution: Distribution) -> None:
        """Draws a token; an error is told, and ends this text alone."""
        if self.cancelled:  # it was given up in the middle of a step
            return
        try:
            said = len(self.sequence.tokens)
            position = self.sequence.position(distribution)
            draw = self._sampler.propose(position)
            self.sequence.commit(draw)
            likely = None
            if self._top is not None and len(self.sequence.tokens) > said:
                likely = self._likely(position, self.sequence.tokens[-1], self._top)
            self._tell(said, likely)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Ends the text with an error."""
        self.cancelled = True
        self.pending_delta = SequenceDelta(self.index, error=error)

    def pop_delta(self) -> SequenceDelta | None:
        """The piece that has not been told yet; it counts as told from now on."""
        piece, self.pending_delta = self.pending_delta, None
        return piece

    def _tell(self, said: int = 0, likely: TokenLogprob | None = None) -> None:
        sequence = self.sequence
        if sequence.finish == "dead":
            raise RuntimeError("the constraint led into a dead end")
        piece = self.pending_delta or SequenceDelta(self.index)
        new = sequence.params.automaton.vocabulary.decode(sequence.tokens[said:])
        piece.delta += self._decoder.decode(new, final=bool(sequence.finish))
        if likely is not None:
            piece.tokens.append(likely)
        piece.count = len(sequence.tokens)
        if self.finished:
            piece.finish = "length" if sequence.finish == "limit" else "stop"
        self.pending_delta = piece

    def _likely(self, position: Position, token: int, top: int) -> TokenLogprob:
        vocabulary = self.sequence.params.automaton.vocabulary
        logs = position.log_probs
        others = np.argsort(-logs, kind="stable")[:top] if top else ()
        return TokenLogprob(
            vocabulary.decode((token,)),
            float(logs[token]),
            tuple(TokenLogprob(vocabulary.decode((int(i),)), float(logs[i])) for i in others),
        )
