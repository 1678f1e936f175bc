"""Texts of several requests side by side, each under its own constraint."""

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
    """What became of the requests.

    Attributes:
        constrained: texts that follow the schema of their document.
        free: texts of documents without one.
        refused: schemas that have no text here, each with the reason; their answers are empty.
    """

    constrained: int = 0
    free: int = 0
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.constrained} texts follow the schemas of their documents, {self.free} documents have none, "
            f"{len(self.refused)} schemas were refused and have empty answers"
        )


class BatchWriter:
    """Writes what is asked for.

    Args:
        model: the language model.
        sampler: of texts under a schema; free texts are drawn from the model as it is.
        speculation: as for `Generator`, for texts under a schema; they are then written one by one.
        options: for `json_schema`.
        encode: the ids of a prompt.
        context: positions that are read.
        strict: raise what refuses a schema.
        seed: of all texts.
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
        """The text of each request, in one batch.

        Raises:
            ConstrainedError: a schema is refused, if this writer is strict.
            InvalidArgument: a setting is out of range, or the sampler has no use for it.
        """
        found = [""] * len(batch)
        free: list[tuple[int, TokenSequence]] = []
        bound: list[tuple[int, TokenSequence, Constraint]] = []
        for place, one in enumerate(batch):
            if one.schema is None:
                free.append((place, self._begun(one, self._free, Local())))
                self.tally.free += 1
                continue
            try:
                constraint, automaton = compile_cached(
                    json_schema(one.schema, **self._options), self._model.vocabulary
                )
                if isinstance(self._sampler, TokenSampler) and self._speculation is None:
                    bound.append((place, self._begun(one, automaton, self._sampler), constraint))
                else:
                    found[place] = self._alone(one, constraint)
                    self.tally.constrained += 1
            except _REFUSALS as error:
                self._refuse(error)
        if isinstance(self._sampler, TokenSampler):
            self._finish([answer for _, answer, _ in bound], self._sampler)
        self._finish([answer for _, answer in free], Local(), [batch[place].stops for place, _ in free])
        for place, answer, constraint in bound:
            text = answer.content.decode()
            try:
                constraint.parse(text)  # what an option left to be checked of the finished value
                found[place] = text
                self.tally.constrained += 1
            except RejectedValue as error:
                self._refuse(error)
        for place, answer in free:
            found[place] = truncate_at_stop(answer.content.decode("utf-8", "ignore"), batch[place].stops)
        return found

    def _refuse(self, error: Exception) -> None:
        if self._strict:
            raise error
        self.tally.refused.append(str(error))
        _log.info("an answer is empty: %s", error)

    @cached_property
    def _free(self) -> Automaton:
        """Any text: of what the model may say only what is no UTF-8 is left out."""
        return compile_cached(reply_constraint(), self._model.vocabulary)[1]

    def _ids(self, one: EvalRequest) -> list[int]:
        """The prompt; of one that leaves no room for the text the beginning is left out."""
        room = self._context - one.limit
        if room < 1:
            raise InvalidArgument(
                f"{one.limit} completion tokens leave no room for a prompt in a context of {self._context} tokens",
                action="pass a lower max_gen_toks",
            )
        return self._encode(one.prompt)[-room:]

    def _begun(self, one: EvalRequest, automaton: Automaton, sampler: Sampler) -> TokenSequence:
        """A text before its first token.

        Raises:
            DoesNotFit: the limit is shorter than every complete text.
        """
        ids = self._ids(one)
        limit = limits.token_limit(self._model, automaton, len(ids), one.limit)
        rules = DecodingParams(automaton, sampler.warper(**one.settings))
        return DecodingRequest(rules, ids, limit, self._seed, one.sequence).new_sequence()

    def _alone(self, one: EvalRequest, constraint: Constraint) -> str:
        """A text by a sampler that writes many for one, or with guesses."""
        generator = Generator(self._model, constraint, sampler=self._sampler, speculation=self._speculation)
        asked = generator(
            self._ids(one), sequence=one.sequence, seed=self._seed, max_tokens=one.limit, **one.settings
        )
        return asked.text

    def _finish(
        self, answers: Sequence[TokenSequence], sampler: TokenSampler, stops: Sequence[Sequence[str]] = ()
    ) -> None:
        """Writes texts to their ends, or to the first stop of each."""
        ends = {
            id(answer): [stop.encode() for stop in some]
            for answer, some in zip(answers, stops or [()] * len(answers), strict=True)
        }
        by_warp: dict[LogitsWarper, list[TokenSequence]] = {}
        for answer in answers:
            by_warp.setdefault(answer.params.warp, []).append(answer)
        for some in by_warp.values():
            for answer in decode_sequences(self._model, some, sampler):
                if answer.finish is None and (wanted := ends[id(answer)]):
                    # A stop that is new ends with the last token: no more tokens than it has bytes can be part of it.
                    last = answer.tokens[-max(map(len, wanted)) :]
                    said = self._model.vocabulary.decode(last)
                    if any(stop in said for stop in wanted):
                        answer.finish = "end"


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """A text up to the first of the stops."""
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]
