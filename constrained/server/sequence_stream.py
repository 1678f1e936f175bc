"""`SequenceStream`: one sequence of a request; turns its tokens into deltas that are ready to be sent."""

from __future__ import annotations

import codecs
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from constrained.chat.reply import ReplyConstraint, ReplyParser
from constrained.decoding.cut import locate_cut
from constrained.decoding.sequence import TokenSequence
from constrained.sampling import Distribution, Position, TokenSampler
from constrained.server.errors import ApiError
from constrained.server.stop_strings import StopStrings

SLOW_DRAW = 0.2
"""Processor seconds beyond which a draw counts as slow: no sampler takes as long, so a mask did."""


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


class EmittedTokens:
    """Buffers tokens with log-probabilities until their text is emitted; that of a stop string never is."""

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


@dataclass(slots=True)
class SequenceDelta:
    """The part of a completion that is new since the last delta.

    Attributes:
        index: index of the sequence in its request.
        delta: new characters.
        tokens: their tokens with log-probabilities, if requested; none of a stop string.
        finish: ``stop`` or ``length`` in the last delta.
        count: tokens of the completion so far.
        stop: the stop string that ended a completion of constrained text; None: none did, or the text itself has it.
        captures: of the finished completion, by name, in the last delta; None: there are none.
        error: the error that ended the sequence, instead of `finish`.
    """

    index: int
    delta: str = ""
    tokens: list[TokenLogprob] = field(default_factory=list)
    finish: str | None = None
    count: int = 0
    stop: str | None = None
    captures: dict[str, Any] | None = None
    error: Exception | None = None


class SequenceStream:
    """A sequence in the batch, and the delta that has not been sent yet.

    Args:
        index: index of the sequence in its request.
        sequence: a new sequence.
        sampler: draws its tokens.
        top: number of most likely tokens to report per position; None: no log-probabilities.
        stops: end the completion where the constraint permits it.
        draw_seconds: as in `ServerSettings`.

    Attributes:
        cancelled: nobody waits for it any more, or it failed.
        emitted_bytes: of the completion, in the deltas so far.
    """

    def __init__(
        self,
        index: int,
        sequence: TokenSequence,
        sampler: TokenSampler,
        top: int | None = None,
        *,
        stops: Sequence[str] = (),
        draw_seconds: float = float("inf"),
    ) -> None:
        self.index = index
        self.sequence = sequence
        self.cancelled = False
        self.emitted_bytes = 0
        self.pending_delta: SequenceDelta | None = None
        self._sampler = sampler
        self._top = top
        self._stops = StopStrings(stops, sequence.params.automaton) if stops else None
        self._emitted = EmittedTokens()
        self._slow_seconds, self._draw_seconds = 0.0, draw_seconds
        constraint = sequence.params.automaton.constraint
        # Stop strings that the grammar has are no part of the answer, and neither are their tokens.
        free = isinstance(constraint, ReplyConstraint) and constraint.content is None and top is not None
        self._reply = constraint.parser() if free and constraint.stop else None  # type: ignore[union-attr]
        self._reply_decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")(
            "replace"
        )  # tokens by number may be halves of characters
        if sequence.tokens or sequence.finish:  # what no choice is left of
            self._emit()

    @property
    def top_count(self) -> int:
        """Number of top tokens that a draw needs; 0 if it needs all logits, as log-probabilities do."""
        return 0 if self._top is not None else self._sampler.top_count(self.sequence.params.warp)

    @property
    def finished(self) -> bool:
        """Whether the sequence has ended or was cancelled."""
        return self.cancelled or bool(self.sequence.finish)

    def advance(self, distribution: Distribution) -> None:
        """Draws a token; an error is reported in the delta and ends this sequence only."""
        if self.cancelled:  # cancelled during a step
            return
        began = time.thread_time()
        try:
            start = len(self.sequence.tokens)
            position = self.sequence.position(distribution)
            draw = self._sampler.draw_token(position)
            self.sequence.commit(draw)
            likely = None
            if self._top is not None and len(self.sequence.tokens) > start:
                likely = self._likely(position, self.sequence.tokens[-1], self._top)
            self._emit(start, likely)
            self._check_time(time.thread_time() - began)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Ends the sequence with an error."""
        self.pending_delta = SequenceDelta(self.index, error=error)
        self.cancelled = True

    def _check_time(self, seconds: float) -> None:
        """Adds up the time of slow draws, for which the whole batch waits.

        Raises:
            ApiError: they took too long together.
        """
        if seconds <= SLOW_DRAW:
            return
        self._slow_seconds += seconds
        if self._slow_seconds > self._draw_seconds and not self.sequence.finish:
            raise ApiError(
                400,
                f"the masks of the constraint took more than {self._draw_seconds:g} seconds by token "
                f"{len(self.sequence.tokens)} of a completion\n  -> simplify it: fewer conditions that overlap, "
                "shorter counts, fewer ways to read one text",
                code="constraint_too_slow",
            )

    def pop_delta(self) -> SequenceDelta | None:
        """Returns and clears the delta that has not been sent yet."""
        piece, self.pending_delta = self.pending_delta, None
        return piece

    def _emit(self, start: int = 0, likely: TokenLogprob | None = None) -> None:
        sequence = self.sequence
        if sequence.finish == "dead":
            raise RuntimeError("the constraint led to a dead end")
        piece = self.pending_delta or SequenceDelta(self.index)
        new = self._certain(sequence.params.automaton.vocabulary.decode(sequence.tokens[start:]))
        self.emitted_bytes += len(new)
        piece.delta += self._decoder.decode(new, final=bool(sequence.finish))
        if likely is not None:
            self._emitted.add(likely)
        if self._top is not None:
            piece.tokens += self._emitted.take(self._emitted_end())
        piece.count = len(sequence.tokens)
        if self.sequence.finish:
            piece.finish = self._finish_reason()
            piece.stop = None if self._stops is None else self._stops.found
        self.pending_delta = piece

    def _emitted_end(self) -> float:
        """Where the tokens begin that are not emitted, or not yet, in bytes of the completion."""
        if not self.sequence.finish or (self._stops is not None and self._stops.found is not None):
            return self.emitted_bytes
        if self._reply is not None and (stop := self._reply.reply.stop) is not None:
            return self.emitted_bytes - len(stop.encode())
        return float("inf")

    def _certain(self, new: bytes) -> bytes:
        """What of the completion is certain now; ends the sequence at a stop string."""
        stops, sequence = self._stops, self.sequence
        if self._reply is not None:
            return self._read(self._reply, new)
        if stops is None:
            return new
        certain = stops.feed(new, sequence.state)
        if stops.found is not None:
            sequence.finish = "complete"
        return certain + stops.finish() if sequence.finish else certain

    def _read(self, reply: ReplyParser, new: bytes) -> bytes:
        """What the parser of a free text does not hold back, as a stop string may begin there; all of it at the end."""
        self._held += new
        reply.feed(self._reply_decoder.decode(new))
        held = len(reply.held.encode()) + len(self._reply_decoder.getstate()[0])
        end = len(self._held) if self.sequence.finish else max(0, len(self._held) - held)
        certain, self._held = self._held[:end], self._held[end:]
        return certain

    def _finish_reason(self) -> str:
        """``length`` where the token limit changed or ended the completion; calls that it has not touched are whole."""
        sequence = self.sequence
        if sequence.cut is None:
            return "stop"
        automaton = sequence.params.automaton
        cut = locate_cut(automaton, sequence.tokens, sequence.limit, *sequence.cut)
        constraint = automaton.constraint
        if isinstance(constraint, ReplyConstraint):
            text = sequence.content.decode("utf-8")
            return "stop" if constraint.has_whole_calls(text, cut.offset) else "length"
        return "length"

    def _likely(self, position: Position, token: int, top: int) -> TokenLogprob:
        vocabulary = self.sequence.params.automaton.vocabulary
        logs = position.log_probs
        others = np.argsort(-logs, kind="stable")[:top] if top else ()
        return TokenLogprob(
            vocabulary.decode((token,)),
            float(logs[token]),
            tuple(TokenLogprob(vocabulary.decode((int(i),)), float(logs[i])) for i in others),
        )
