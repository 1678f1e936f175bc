"""`RequestBatch`: requests of generators that share a model, decoded in one continuous batch."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from constrained.decoding.continuous_batch import ContinuousBatch
from constrained.decoding.generator import Generator
from constrained.decoding.output import Output
from constrained.decoding.request import DecodingRequest
from constrained.decoding.speculation import DraftScheduler
from constrained.errors import ConstrainedError, ModelError
from constrained.models import LanguageModel
from constrained.sampling import Distribution, TokenSampler


class BatchedRequest:
    """A request in the batch: `outcome` is set when it has ended.

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
        """Ends the request with an error."""
        self.outcome = error if isinstance(error, ConstrainedError) else model_failure(error)

    def finish(self) -> None:
        """Sets the outcome of a request whose sequence has ended."""
        if self.outcome is not None or self.cancelled:
            return
        try:
            self.outcome = self.generator._finish(self.request, self.sequence, self.began)
        except Exception as error:
            self.fail(error)


class RequestBatch:
    """Requests that join a continuous batch and leave it when they end. For one thread.

    The completion of a request is that of a call of its generator alone (see `ContinuousBatch`). An error ends the
    request that it belongs to. If a forward pass of several sequences fails, they begin again in two groups, one after
    the other, and so on until each is complete or has failed alone.

    Attributes:
        max_rows: most sequences in the batch; where memory was the reason of a failure, half of those that it had then.
        max_tokens: most positions of the KV cache: the rows, each as wide as the widest; None: any number.
    """

    def __init__(
        self,
        model: LanguageModel,
        speculation: DraftScheduler | None = None,
        *,
        max_rows: int,
        max_tokens: int | None = None,
    ) -> None:
        """An empty batch.

        Args:
            model: of all generators.
            speculation: decides about draft tokens; if it is None, no request may have drafters, otherwise all.
            max_rows: see above.
            max_tokens: see above.
        """
        self.max_rows = max_rows
        self.max_tokens = max_tokens
        self._batch: ContinuousBatch[BatchedRequest] = ContinuousBatch(
            model, speculation, share_prefixes=True
        )
        self._members: list[BatchedRequest] = []
        self._groups: deque[list[BatchedRequest]] = deque()  # to be run again, each without others

    def __len__(self) -> int:
        """Requests that have not ended."""
        return len(self._members) + sum(map(len, self._groups))

    def has_room(self, tokens: int) -> bool:
        """Whether a request that may need this many positions (`BatchedRequest.tokens`) can be added now."""
        if not self:
            return True
        if self._groups or len(self._members) >= self.max_rows:
            return False
        widest = max(tokens, *(member.tokens for member in self._members))
        return self.max_tokens is None or widest * (len(self._members) + 1) <= self.max_tokens

    def add(self, member: BatchedRequest) -> None:
        """Admits a request and reads its prompt; one whose sampler draws whole sequences is decoded at once."""
        self._admit(member)

    def step(self) -> list[BatchedRequest]:
        """One token or more for every sequence.

        Returns:
            The requests that ended, with their outcomes; cancelled ones are left out.
        """
        if self._groups and not self._members:
            group = [member for member in self._groups.popleft() if not member.cancelled]
            for i, member in enumerate(group):
                if not self._admit(member):
                    self._groups += [group[i + 1 :]] if group[i + 1 :] else []
                    break
        running = list(self._batch.sequences)
        try:
            self._batch.step()
        except Exception as error:
            half = len(running) // 2
            self._split(running[:half], running[half:], error)
        done = [member for member in self._members if member.finished]
        self._members = [member for member in self._members if not member.finished]
        for member in done:
            member.finish()
        return [member for member in done if not member.cancelled]

    def clear(self) -> None:
        """Drops all requests, and the KV cache."""
        self._batch.clear()
        self._members.clear()
        self._groups.clear()

    def _admit(self, member: BatchedRequest) -> bool:
        """Whether the request could be admitted without an error, or failed alone."""
        others = [one for one in self._members if not one.finished]
        self._members.append(member)
        try:
            if isinstance(member.generator.sampler, TokenSampler):
                self._batch.add([member])
            else:
                member.outcome = member.generator._decode(member.request, member.began)
        except Exception as error:
            self._split(others, [member], error)
            return not others
        return True

    def _split(self, first: list[BatchedRequest], second: list[BatchedRequest], error: Exception) -> None:
        """After a failed pass the state of the cache is unknown: both groups begin again, without each other."""
        self._batch.clear()
        if not first:
            for member in second:
                member.fail(error)
            return
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            self.max_rows = max(1, (len(first) + len(second)) // 2)
        again = [[member for member in group if not member.finished] for group in (first, second)]
        for member in [*again[0], *again[1]]:
            member.restart()
            self._members.remove(member)
        self._groups.extendleft(group for group in reversed(again) if group)


def model_failure(error: Exception) -> ModelError:
    """The error of this library for an exception that a model, a predicate or a type's code raised in a batch."""
    reason = (" ".join(str(error).split()) or type(error).__name__)[:200]
    wrapped = ModelError(
        f"generation failed with {type(error).__name__}: {reason}",
        action="see __cause__; for a lack of memory pass a smaller batch_size or max_batch_tokens",
    )
    wrapped.__cause__ = error
    return wrapped
