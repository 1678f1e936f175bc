"""`EngineModel`: a model inside an engine that decodes by itself, and takes requests in the place of forward passes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from constrained.decoding.request_batch import BatchedRequest
from constrained.errors import ModelError
from constrained.models import Cache, LanguageModel


class Requests(Protocol):
    """Requests that are decoded side by side, as in a `RequestBatch`.

    Attributes:
        max_rows: most of them at a time.
    """

    max_rows: int

    def __len__(self) -> int:
        """Requests that have not ended."""

    def has_room(self, tokens: int) -> bool:
        """Whether a request with so many positions can be added now."""

    def add(self, member: BatchedRequest) -> None:
        """Admits a request."""

    def step(self) -> list[BatchedRequest]:
        """Goes on; returns the requests that ended, with their outcomes."""

    def clear(self) -> None:
        """Drops all requests."""


class EngineModel(LanguageModel):
    """A model that gives no logits: it can be read by an `Extractor`, and not by a `Generator` alone."""

    no_trees = no_chains = "the engine drafts by itself"

    @abstractmethod
    def requests(self, sampler: Any, max_rows: int, *, closes: bool) -> Requests:
        """No requests yet.

        Args:
            sampler: of the generators.
            max_rows: most requests at a time.
            closes: completions that the token limit changed are wanted, closed in time; otherwise they are errors.

        Raises:
            InvalidArgument: the engine cannot draw as the sampler does.
        """

    def cache(self, rows: int) -> Cache:
        """None."""
        self._refuse()

    def forward(self, tokens: Sequence[Sequence[int]], cache: Cache) -> NoReturn:
        """None."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ModelError(
            f"a {type(self).__name__} gives no logits: its engine draws the tokens",
            action="use an Extractor, or load the model with constrained.load",
        )
