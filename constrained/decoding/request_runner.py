"""`RequestRunner`: what decodes requests side by side: in this process (`RequestBatch`), or in an engine."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from constrained.decoding.generator import Generator
from constrained.decoding.output import Output
from constrained.decoding.request import DecodingRequest
from constrained.errors import ConstrainedError, ModelError
from constrained.sampling import Distribution, Sampler, TokenSampler


class BatchedRequest:
    """A request of a runner: `outcome` is set when it has ended.

    Attributes:
        request: its prompt, limits and seed.
        outcome: the output, or the error that ended it; None before that.
        cancelled: nobody waits for it any more; set it to free its row before the next step.
    """

    def __init__(self, generator: Generator[Any], request: DecodingRequest) -> None:
        """A request that has not begun.

        Args:
            generator: made the request.
            request: what to decode.
        """
        self.generator = generator
        self.request = request
        self.outcome: Output[Any] | ConstrainedError | None = None
        self.cancelled = False
        self.began = time.perf_counter()
        self.restart()

    @property
    def tokens(self) -> int:
        """Positions of the KV cache that it may need: its prompt, and completions up to the token limit."""
        return len(self.request.prompt) + self.request.limit

    @property
    def finished(self) -> bool:
        """Whether it needs no more tokens."""
        return self.cancelled or self.outcome is not None or bool(self.sequence.finish)

    @property
    def top_count(self) -> int:
        """See `BatchedSequence`."""
        sampler = self.generator.sampler
        assert isinstance(sampler, TokenSampler)
        return sampler.top_count(self.sequence.params.warp)

    def restart(self) -> None:
        """Begins again, without tokens: the same request gives the same completion."""
        self.sequence = self.request.new_sequence()

    def advance(self, distribution: Distribution) -> None:
        """Draws and commits a token; an error ends this request only."""
        sampler = self.generator.sampler
        assert isinstance(sampler, TokenSampler)
        try:
            self.sequence.step(distribution, sampler)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Ends the request with an error; one that a model, a predicate or a type's code raised becomes a `ModelError`."""
        if isinstance(error, ConstrainedError):
            self.outcome = error
            return
        reason = (" ".join(str(error).split()) or type(error).__name__)[:200]
        self.outcome = ModelError(
            f"generation failed with {type(error).__name__}: {reason}",
            action="see __cause__; for a lack of memory pass a smaller batch_size or max_batch_tokens",
        )
        self.outcome.__cause__ = error

    def finish(self) -> None:
        """Sets the outcome of a request whose sequence has ended."""
        if self.outcome is not None or self.cancelled:
            return
        try:
            self.outcome = self.generator._finish(self.request, self.sequence, self.began)
        except Exception as error:
            self.fail(error)


class RequestRunner(ABC):
    """Decodes requests side by side. For one thread.

    Attributes:
        max_rows: most requests at a time; others wait.
    """

    max_rows: int

    @abstractmethod
    def __len__(self) -> int:
        """Requests that have not ended, with those that wait."""

    @abstractmethod
    def add(self, member: BatchedRequest) -> None:
        """Puts a request behind those that wait; it begins with a step."""

    @abstractmethod
    def step(self) -> list[BatchedRequest]:
        """Goes on: one token or more for every request that runs.

        Returns:
            The requests that ended, with their outcomes; cancelled ones are left out.
        """

    @abstractmethod
    def clear(self) -> None:
        """Drops all requests, and their memory."""


class RequestEngine(ABC):
    """A model whose requests are decoded elsewhere: by an engine that draws the tokens itself."""

    @abstractmethod
    def runner(self, sampler: Sampler, max_rows: int, *, closes: bool) -> RequestRunner:
        """A runner without requests.

        Args:
            sampler: of the generators.
            max_rows: most requests at a time.
            closes: completions that the token limit changed are wanted, closed in time; otherwise they are errors.

        Raises:
            InvalidArgument: the engine cannot draw as the sampler does.
        """
