"""Generates the completions of a batch of requests, each under its own constraint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from constrained.automaton import Automaton
from constrained.automaton.cache import compile_cached
from constrained.chat.reply import reply_constraint
from constrained.constraint import Constraint, json_schema
from constrained.decoding import Generator, limits
from constrained.decoding.request import DecodingRequest
from constrained.decoding.sequence import DecodingParams, TokenSequence
from constrained.decoding.step import decode_sequences
from constrained.errors import (
    BudgetExhausted,
    ConstraintError,
    ConstraintTooLarge,
    DoesNotFit,
    InvalidArgument,
    RejectedValue,
)
from constrained.integrations.lm_eval.requests import EvalRequest
from constrained.models import LanguageModel
from constrained.sampling import Local, LogitsWarper, Sampler, TokenSampler

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


class BatchWriter:
    """Generates completions.

    Args:
        model: the language model.
        sampler: for completions under a schema; others are drawn by `Local`.
        speculation: as for `Generator`, for completions under a schema; they are then generated one after the other.
        options: arguments of `json_schema`.
        encode: turns a prompt into token ids.
        context: context length in tokens.
        strict: raise if a schema is refused.
        seed: of all completions.
    """

    def __init__(
        self,
        model: LanguageModel,
        sampler: Sampler,
        speculation: Any,
        options: Mapping[str, Any],
        encode: Callable[[str], list[int]],
        *,
        context: int,
        strict: bool,
        seed: int,
    ) -> None:
        self.tally = RequestTally()
        self._model = model
        self._sampler = sampler
        self._speculation = speculation
        self._options = options
        self._encode = encode
        self._context = context
        self._strict = strict
        self._seed = seed

    def completions(self, batch: Sequence[EvalRequest]) -> list[str]:
        """The completion of each request, decoded as one batch.

        Raises:
            ConstrainedError: a schema is refused, if this writer is strict.
            InvalidArgument: a setting is out of range, or the sampler does not support it.
        """
        completions = [""] * len(batch)
        free: list[tuple[int, TokenSequence]] = []
        bound: list[tuple[int, TokenSequence, Constraint]] = []
        for place, request in enumerate(batch):
            if request.schema is None:
                free.append((place, self._new_sequence(request, self._free, Local())))
                self.tally.free += 1
                continue
            try:
                constraint, automaton = compile_cached(
                    json_schema(request.schema, **self._options), self._model.vocabulary
                )
                if isinstance(self._sampler, TokenSampler) and self._speculation is None:
                    bound.append((place, self._new_sequence(request, automaton, self._sampler), constraint))
                else:
                    completions[place] = self._single(request, constraint)
                    self.tally.constrained += 1
            except _REFUSALS as error:
                self._refuse(error)
        if isinstance(self._sampler, TokenSampler):
            self._finish([sequence for _, sequence, _ in bound], self._sampler)
        self._finish([sequence for _, sequence in free], Local(), [batch[place].stops for place, _ in free])
        for place, sequence, constraint in bound:
            text = sequence.content.decode()
            try:
                constraint.parse(text)  # with unsupported="check" keywords are left to validation
                completions[place] = text
                self.tally.constrained += 1
            except RejectedValue as error:
                self._refuse(error)
        for place, sequence in free:
            completions[place] = truncate_at_stop(
                sequence.content.decode("utf-8", "ignore"), batch[place].stops
            )
        return completions

    def _refuse(self, error: Exception) -> None:
        if self._strict:
            raise error
        self.tally.refused.append(str(error))
        _log.info("a completion is empty: %s", error)

    @cached_property
    def _free(self) -> Automaton:
        """The automaton of all UTF-8 strings."""
        return compile_cached(reply_constraint(), self._model.vocabulary)[1]

    def _ids(self, request: EvalRequest) -> list[int]:
        """The token ids of the prompt, truncated from the left so that the completion fits into the context."""
        room = self._context - request.limit
        if room < 1:
            raise InvalidArgument(
                f"{request.limit} completion tokens leave no room for a prompt in a context of {self._context} tokens",
                action="pass a lower max_gen_toks",
            )
        return self._encode(request.prompt)[-room:]

    def _new_sequence(self, request: EvalRequest, automaton: Automaton, sampler: Sampler) -> TokenSequence:
        """The sequence of a request, before its first token.

        Raises:
            DoesNotFit: the shortest completion exceeds the token limit.
        """
        ids = self._ids(request)
        limit = limits.token_limit(self._model, automaton, len(ids), request.limit)
        # The completion alone is wanted: the probability of an end that must come needs no forward pass.
        rules = DecodingParams(automaton, sampler.warper(**request.settings), certain_ends=True)
        return DecodingRequest(rules, ids, limit, self._seed, request.sequence).new_sequence()

    def _single(self, request: EvalRequest, constraint: Constraint) -> str:
        """The completion by a sampler that cannot be batched, or with speculation."""
        generator = Generator(self._model, constraint, sampler=self._sampler, speculation=self._speculation)
        output = generator(
            self._ids(request),
            sequence=request.sequence,
            max_tokens=request.limit,
            seed=self._seed,
            **request.settings,
        )
        return output.text

    def _finish(
        self, sequences: Sequence[TokenSequence], sampler: TokenSampler, stops: Sequence[Sequence[str]] = ()
    ) -> None:
        """Decodes the sequences to their ends, or to the first stop string of each."""
        ends = {
            id(sequence): [stop.encode() for stop in strings]
            for sequence, strings in zip(sequences, stops or [()] * len(sequences), strict=True)
        }
        by_warp: dict[LogitsWarper, list[TokenSequence]] = {}
        for sequence in sequences:
            by_warp.setdefault(sequence.params.warp, []).append(sequence)
        for group in by_warp.values():
            for sequence in decode_sequences(self._model, group, sampler):
                if sequence.finish is None and (wanted := ends[id(sequence)]):
                    # A new stop string ends in the last token, and spans at most as many tokens as it has bytes.
                    last = self._model.vocabulary.decode(sequence.tokens[-max(map(len, wanted)) :])
                    if any(stop in last for stop in wanted):
                        sequence.finish = "end"


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop string."""
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]
