"""Continuous batching: sequences of different requests in one forward pass, admitted and removed between two steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from constrained.decoding.malloc_trim import MallocTrimmer
from constrained.decoding.prompt_prefix import PromptPrefix
from constrained.decoding.sequence import TokenSequence
from constrained.decoding.speculation import DraftScheduler
from constrained.decoding.step import DecodingStep
from constrained.models import LanguageModel
from constrained.sampling import Distribution

PIECE = 256
"""Tokens of a long prompt that are read at once, so that others get their steps. The same whoever waits, as pieces change rounding."""

_TRIM_PAUSE = 0.05
"""Seconds between two looks at the size of the process."""


class BatchedSequence(Protocol):
    """A member of the batch.

    Attributes:
        sequence: its tokens.
        finished: it needs no more tokens.
        top_count: how many of the tokens with the largest keys its sampler looks at; 0: it needs whole rows of logits.
    """

    @property
    def sequence(self) -> TokenSequence:
        """See above."""

    @property
    def finished(self) -> bool:
        """See above."""

    @property
    def top_count(self) -> int:
        """See above."""

    def advance(self, distribution: Distribution) -> None:
        """Draws and commits a token. Must not raise: an error of one sequence must not end the others."""


MemberT = TypeVar("MemberT", bound=BatchedSequence)


class ContinuousBatch(Generic[MemberT]):
    """Sequences of different requests in one forward pass. For one thread.

    The tokens of a sequence do not depend on the other members: its prompt is read alone, and each token is drawn from
    its own logits with its own noise. (Rounding can differ between a batch and a single sequence, see `Generator`.)

    Attributes:
        sequences: the unfinished members; member i is row i of the cache.
    """

    def __init__(
        self,
        model: LanguageModel,
        speculation: DraftScheduler | None = None,
        *,
        speculation_max_batch: int | None = None,
        share_prefixes: bool = False,
    ) -> None:
        """An empty batch.

        Args:
            model: computes the logits.
            speculation: decides how many draft tokens a pass verifies, for the sequences of all constraints; all of
                them have drafters then. None to draft nothing.
            speculation_max_batch: the largest batch in which tokens are drafted; None: any.
            share_prefixes: read what prompts have in common once, where the model allows it.
        """
        self.sequences: list[MemberT] = []
        self._model = model
        self._speculation_max_batch = speculation_max_batch
        self._step = DecodingStep(model, speculation)
        self._prefix = PromptPrefix(model) if share_prefixes else None
        self._trim = MallocTrimmer(pause=_TRIM_PAUSE)

    def add(self, sequences: Sequence[MemberT], between: Callable[[], None] | None = None) -> None:
        """Admits the sequences of one prompt: the prompt is read once, and each sequence gets its first token.

        Args:
            sequences: without tokens, with equal prompts; members that are finished already are not admitted.
            between: called between the pieces of a long prompt, of `PIECE` tokens, and the passes of its questions; it may step the others
                and admit more. None: prompts are read whole, as those of a model that does not read them in parts are.
        """
        fresh = [member for member in sequences if not member.finished]
        if not fresh:
            return
        if self._prefix is None:
            cache = self._model.cache(1)
        else:
            cache, known = self._prefix.cache_for(fresh[0].sequence.prompt)
            del fresh[0].sequence.unread[:known]
        unread = fresh[0].sequence.unread
        in_parts = self._model.reads_prompts_in_parts
        while between is not None and in_parts and len(unread) > PIECE:
            self._model.forward([unread[:PIECE]], cache)
            del unread[:PIECE]
            between()
            fresh = [member for member in fresh if not member.finished]
            if not fresh:
                return
            unread = fresh[0].sequence.unread = list(unread)
        prefill = DecodingStep(self._model, cache=cache, between=between)
        prefill.forward([[member.sequence for member in fresh]], [fresh[0].top_count])
        for member in fresh:
            while not member.finished and prefill.follow([member.sequence]):
                member.advance(prefill.distribution(member.sequence))
        unfinished = [member for member in fresh if not member.finished]
        if not unfinished:
            return
        prefill.settle([member.sequence for member in unfinished])
        assert prefill.cache is not None
        self.sequences += unfinished
        if self._step.cache is None:
            self._step.cache = prefill.cache
        else:
            self._step.cache.join(prefill.cache)
        self._number_rows()

    def step(self) -> None:
        """One token or more for every member; finished members leave."""
        self._trim()
        self.remove_finished()
        if not self.sequences:
            return
        small = self._speculation_max_batch is None or len(self.sequences) <= self._speculation_max_batch
        self._step.forward(
            [[member.sequence] for member in self.sequences],
            [member.top_count for member in self.sequences],
            speculate=small,
        )
        for member in self.sequences:
            while not member.finished and self._step.follow([member.sequence]):
                member.advance(self._step.distribution(member.sequence))
        self._settle()

    def remove_finished(self) -> None:
        """Removes the finished members, and frees their rows of the cache."""
        if any(member.finished for member in self.sequences):
            self._settle()

    def clear(self) -> None:
        """Removes all members."""
        self.sequences, self._step.cache = [], None
        if self._prefix is not None:
            self._prefix.clear()

    def _settle(self) -> None:
        """Keeps the rows of the unfinished members in the cache, and drops the others."""
        self.sequences = [member for member in self.sequences if not member.finished]
        if not self.sequences:
            self._step.cache = None
            return
        self._step.settle([member.sequence for member in self.sequences])
        self._number_rows()

    def _number_rows(self) -> None:
        for row, member in enumerate(self.sequences):
            member.sequence.cache_row = row
