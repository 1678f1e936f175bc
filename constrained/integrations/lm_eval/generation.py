"""Generates the completions of a batch of requests, each under its own constraint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from constrained.chat.reply import reply_constraint
from constrained.constraint import json_schema
from constrained.decoding import Generator, Output
from constrained.decoding.request_batch import request_runner
from constrained.decoding.request_runner import BatchedRequest
from constrained.errors import (
    BudgetExhausted,
    ConstraintError,
    ConstraintTooLarge,
    DoesNotFit,
    InvalidArgument,
    RejectedValue,
)
from constrained.extraction.plan import value_generator
from constrained.integrations.lm_eval.requests import EvalRequest
from constrained.models import LanguageModel
from constrained.sampling import Distribution, Local, Sampler

_log = logging.getLogger(__name__)
_REFUSALS = (ConstraintError, ConstraintTooLarge, DoesNotFit, BudgetExhausted, RejectedValue)


@dataclass(slots=True)
class RequestTally:
    """Counts of constrained, unconstrained and refused requests.

    Attributes:
        constrained: completions that satisfy the schema of their document.
        free: completions for documents without a schema.
        refused: reasons of the requests whose schema was refused; their completions are empty.
    """

    constrained: int = 0
    free: int = 0
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.constrained} completions follow the schemas of their documents, {self.free} documents have none, "
            f"{len(self.refused)} schemas were refused and have empty completions"
        )


class _Member(BatchedRequest):
    """A request of the harness in a batch; the stop strings of its document end it."""

    stops: Sequence[bytes] = ()

    def advance(self, distribution: Distribution) -> None:
        """See `BatchedRequest`."""
        super().advance(distribution)
        if self.stops and not self.finished:
            # A new stop string ends in the last token, and spans at most as many tokens as it has bytes.
            last = self.sequence.tokens[-max(map(len, self.stops)) :]
            text = self.generator.model.vocabulary.decode(last)
            if any(stop in text for stop in self.stops):
                self.sequence.finish = "end"


@dataclass
class BatchWriter:
    """Generates completions.

    Attributes:
        model: the language model.
        sampler: for completions under a schema; others are drawn by `Local`.
        speculation: as for `Generator`.
        options: arguments of `json_schema`.
        encode: turns a prompt into token ids.
        context: context length in tokens.
        strict: raise if a schema is refused.
        seed: of all completions.
        tally: what became of them.
    """

    model: LanguageModel
    sampler: Sampler
    speculation: Any
    options: Mapping[str, Any]
    encode: Callable[[str], list[int]]
    context: int
    strict: bool
    seed: int
    tally: RequestTally = field(default_factory=RequestTally)

    def completions(self, batch: Sequence[EvalRequest]) -> list[str]:
        """The completion of each request, decoded as one batch.

        Raises:
            ConstrainedError: a schema is refused, if this writer is strict.
            InvalidArgument: a setting is out of range, or the sampler does not support it.
        """
        members: dict[int, _Member] = {}
        for place, request in enumerate(batch):
            try:
                members[place] = self._member(request)
            except _REFUSALS as error:
                self._refuse(error)
        if members:
            runner = request_runner(next(iter(members.values())).generator, len(batch))
            for member in members.values():
                runner.add(member)
            while len(runner):
                runner.step()
        completions = [""] * len(batch)
        for place, member in members.items():
            outcome, request = member.outcome, batch[place]
            if not isinstance(outcome, Output):
                assert outcome is not None
                self._refuse(outcome)
            elif request.schema is None:
                self.tally.free += 1
                completions[place] = truncate_at_stop(outcome.text, request.stops)
            else:
                self.tally.constrained += 1
                completions[place] = outcome.text
        return completions

    def _refuse(self, error: Exception) -> None:
        if self.strict or not isinstance(error, _REFUSALS):
            raise error
        self.tally.refused.append(str(error))
        _log.info("a completion is empty: %s", error)

    @cached_property
    def _free(self) -> Generator[Any]:
        """Generates UTF-8 strings."""
        sampler = Local(weights=False)
        return Generator(self.model, reply_constraint(), sampler=sampler, speculation=self.speculation)

    def _member(self, request: EvalRequest) -> _Member:
        """A request; its prompt is truncated from the left so that the completion fits into the context.

        Raises:
            ConstraintError, ConstraintTooLarge: the schema is refused.
            DoesNotFit: the shortest completion exceeds the token limit.
            InvalidArgument: a setting is out of range, or the sampler does not support it.
        """
        room = self.context - request.limit
        if room < 1:
            raise InvalidArgument(
                f"{request.limit} completion tokens leave no room for a prompt in a context of {self.context} tokens",
                action="pass a lower max_gen_toks",
            )
        generator = self._free
        if request.schema is not None:
            # The completion alone is wanted: the probability of an end that must come needs no forward pass.
            constraint = json_schema(request.schema, **self.options)
            generator = value_generator(self.model, constraint, self.sampler, self.speculation, None)
        settings: dict[str, Any] = {"max_tokens": request.limit, "seed": self.seed, **request.settings}
        ids = self.encode(request.prompt)[-room:]
        member = _Member(generator, generator._request(ids, sequence=request.sequence, **settings))
        member.stops = [] if request.schema is not None else [stop.encode() for stop in request.stops]
        return member


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop string."""
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]
