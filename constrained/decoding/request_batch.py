"""`RequestBatch`: requests of generators that share a model, decoded in one continuous batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from constrained.decoding.continuous_batch import ContinuousBatch
from constrained.decoding.generator import Generator
from constrained.decoding.request_runner import BatchedRequest, RequestEngine, RequestRunner
from constrained.decoding.speculation import DraftScheduler
from constrained.models import LanguageModel
from constrained.models.memory import batch_token_limit
from constrained.sampling import TokenSampler


class RequestBatch(RequestRunner):
    """Requests that join a continuous batch and leave it when they end.

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
        between: Callable[[], None] | None = None,
    ) -> None:
        """An empty batch.

        Args:
            model: of all generators.
            speculation: decides about draft tokens; if it is None, no request may have drafters, otherwise all.
            max_rows: see above.
            max_tokens: see above.
            between: called between two prompts, and between the pieces of a long one, see `ContinuousBatch.add`; it leaves this batch alone.
        """
        self._between = between
        self.max_rows = max_rows
        self.max_tokens = max_tokens
        self._batch: ContinuousBatch[BatchedRequest] = ContinuousBatch(
            model, speculation, share_prefixes=True
        )
        self._waiting: deque[BatchedRequest] = deque()
        self._members: list[BatchedRequest] = []
        self._groups: deque[list[BatchedRequest]] = deque()  # to be run again, each without others

    def __len__(self) -> int:
        """See `RequestRunner`."""
        return len(self._waiting) + len(self._members) + sum(map(len, self._groups))

    def add(self, member: BatchedRequest) -> None:
        """See `RequestRunner`; a request whose sampler draws whole sequences is decoded at once when it begins."""
        self._waiting.append(member)

    def step(self) -> list[BatchedRequest]:
        """See `RequestRunner`; prompts are read one after the other."""
        if self._groups and not self._members:
            group = [member for member in self._groups.popleft() if not member.cancelled]
            for i, member in enumerate(group):
                if not self._admit(member):
                    self._groups += [group[i + 1 :]] if group[i + 1 :] else []
                    break
        while self._waiting and (self._waiting[0].cancelled or self._has_room(self._waiting[0].tokens)):
            member = self._waiting.popleft()
            if member.cancelled:
                continue
            self._admit(member)
            if self._between is not None and self._waiting:
                self._between()
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
        """See `RequestRunner`."""
        self._batch.clear()
        self._waiting.clear()
        self._members.clear()
        self._groups.clear()

    def _has_room(self, tokens: int) -> bool:
        """Whether a request that may need this many positions (`BatchedRequest.tokens`) can begin now."""
        if not self._members and not self._groups:
            return True
        if self._groups or len(self._members) >= self.max_rows:
            return False
        widest = max(tokens, *(member.tokens for member in self._members))
        return self.max_tokens is None or widest * (len(self._members) + 1) <= self.max_tokens

    def _admit(self, member: BatchedRequest) -> bool:
        """Whether the request could be admitted without an error, or failed alone."""
        others = [one for one in self._members if not one.finished]
        self._members.append(member)
        try:
            if isinstance(member.generator.sampler, TokenSampler):
                self._batch.add([member], self._between)
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


def request_runner(
    generator: Generator[Any], max_rows: int, max_tokens: int | None = None, *, closes: bool = False
) -> RequestRunner:
    """What decodes the requests of a generator, and of others with its model and with drafts if it has them.

    Args:
        generator: see above.
        max_rows: most requests at a time.
        max_tokens: most positions of the KV cache; None: what fits into the memory that is free now, if that is known.
        closes: see `RequestEngine.runner`.

    Raises:
        InvalidArgument: the model is in an engine that cannot draw as the sampler does.
    """
    model = generator.model
    if isinstance(model, RequestEngine):
        return model.runner(generator.sampler, max_rows, closes=closes)
    if max_tokens is None and max_rows > 1:
        max_tokens = batch_token_limit(model)
    return RequestBatch(model, generator._drafting, max_rows=max_rows, max_tokens=max_tokens)
