"""Continuous batching: sequences of different requests in one forward pass, admitted and removed between two steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, Protocol, TypeVar

from constrained.decoding.malloc_trim import MallocTrimmer
from constrained.decoding.prompt_prefix import PromptPrefix
from constrained.decoding.sequence import TokenSequence
from constrained.decoding.speculation import DraftScheduler
from constrained.decoding.step import DecodingStep
from constrained.models import Cache, LanguageModel
from constrained.sampling import Distribution

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


class Drawing(Protocol[MemberT]):
    """Draws the tokens of a step, perhaps not all of them at once."""

    def draw(
        self,
        members: Sequence[MemberT],
        distributions: Sequence[Distribution],
        follow: Callable[[MemberT], Distribution | None],
    ) -> Sequence[MemberT]:
        """Draws a token for each member, and more as long as `follow` gives a distribution.

        Returns:
            The members that are parked: they get their token later, in another thread.
        """

    def returned(self) -> Sequence[MemberT]:
        """The parked members that have got their tokens since the last call."""

    def expire(self) -> Sequence[MemberT]:
        """The parked members that have ended without a token since the last call."""


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
        drawing: Drawing[MemberT] | None = None,
    ) -> None:
        """An empty batch.

        Args:
            model: computes the logits.
            speculation: decides how many draft tokens a pass verifies, for the sequences of all constraints; all of
                them have drafters then. None to draft nothing.
            speculation_max_batch: the largest batch in which tokens are drafted; None: any.
            share_prefixes: read what prompts have in common once, where the model allows it.
            drawing: draws the tokens; None: here, one after the other.
        """
        self.sequences: list[MemberT] = []
        self._model = model
        self._speculation_max_batch = speculation_max_batch
        self._step = DecodingStep(model, speculation)
        self._prefix = PromptPrefix(model) if share_prefixes else None
        self._trim = MallocTrimmer(pause=_TRIM_PAUSE)
        self._drawing = drawing
        self._parked: dict[int, Cache] = {}  # rows of the members that wait for their token, by id
        self._held: dict[int, tuple[MemberT, Cache]] = {}  # of those that sit steps out
        self._arrived: list[Cache] = []  # of the members admitted last, whose rows are not in the cache yet

    def add(self, sequences: Sequence[MemberT]) -> None:
        """Admits the sequences of one prompt: the prompt is read once, and each sequence gets its first token.

        Args:
            sequences: without tokens, with equal prompts; members that are finished already are not admitted.
        """
        fresh = [member for member in sequences if not member.finished]
        if not fresh:
            return
        if self._prefix is None:
            cache = self._model.cache(1)
        else:
            cache, known = self._prefix.cache_for(fresh[0].sequence.prompt)
            del fresh[0].sequence.unread[:known]
        prefill = DecodingStep(self._model, cache=cache)
        prefill.forward([[member.sequence for member in fresh]], [fresh[0].top_count])
        parked = self._draw(fresh, prefill, follow=False)
        unfinished = [member for member in fresh if not (member in parked or member.finished)]
        self._park(parked, self._keep(prefill, unfinished, parked))
        if not unfinished:
            return
        assert prefill.cache is not None
        self._arrived.append(prefill.cache)
        self.sequences += unfinished
        self._join_arrived()  # the next one's prompt is read where this one's was
        self._number_rows()

    def step(self) -> None:
        """One token or more for every member; finished members leave."""
        self._trim()
        self._return_parked()
        self._join_arrived()
        self.remove_finished()
        if not self.sequences:
            return
        small = self._speculation_max_batch is None or len(self.sequences) <= self._speculation_max_batch
        self._step.forward(
            [[member.sequence] for member in self.sequences],
            [member.top_count for member in self.sequences],
            speculate=small,
        )
        self._settle(self._draw(self.sequences, self._step, follow=True))

    def remove_finished(self) -> None:
        """Removes the finished members, and frees their rows of the cache."""
        if any(member.finished for member in self.sequences):
            self._settle()

    def choose(self, members: Collection[MemberT]) -> None:
        """Says which members take part in the next steps; the others sit them out, with their rows in caches of their own.

        Args:
            members: of the `sequences` and of those that sit out.
        """
        held = [member for member in self.sequences if member not in members and not member.finished]
        if held:
            self._join_arrived()
            self.sequences = [member for member in self.sequences if member in members]
            for member, cache in zip(held, self._keep(self._step, self.sequences, held), strict=True):
                self._held[id(member)] = member, cache
            if not self.sequences:
                self._step.cache = None
        for member, cache in list(self._held.values()):
            if member.finished or (member in members and member not in self.sequences):
                del self._held[id(member)]
                if not member.finished:
                    self._arrived.append(cache)
                    self.sequences.append(member)
        self._number_rows()

    @property
    def held(self) -> int:
        """Members that sit steps out; they are none of the `sequences`."""
        return len(self._held)

    @property
    def parked(self) -> int:
        """Members that wait for their token; they are none of the `sequences`, and come back to them."""
        return len(self._parked)

    def clear(self) -> None:
        """Removes all members."""
        self.sequences, self._step.cache = [], None
        self._arrived.clear()
        self._parked.clear()
        self._held.clear()
        if self._prefix is not None:
            self._prefix.clear()

    def _join_arrived(self) -> None:
        """Gives all rows one cache: a copy of it for all that arrived together, not for each of them."""
        arrived, self._arrived = self._arrived, []
        if arrived and self._step.cache is None:
            self._step.cache = arrived.pop(0)
        if arrived:
            assert self._step.cache is not None
            self._step.cache.join(*arrived)

    def _draw(self, members: Sequence[MemberT], step: DecodingStep, *, follow: bool) -> Sequence[MemberT]:
        """Draws the tokens that a forward pass has logits for; returns the parked members."""

        def further(member: MemberT) -> Distribution | None:
            if member.finished or not (follow and step.follow([member.sequence])):
                return None
            return step.distribution(member.sequence)

        if self._drawing is not None:
            distributions = [step.distribution(member.sequence) for member in members]
            return self._drawing.draw(members, distributions, further)
        for member in members:
            distribution: Distribution | None = step.distribution(member.sequence)
            while distribution is not None:
                member.advance(distribution)
                distribution = further(member)
        return ()

    def _keep(
        self, step: DecodingStep, staying: Sequence[MemberT], leaving: Sequence[MemberT]
    ) -> list[Cache]:
        """Keeps the rows of these members; returns those of the leaving ones, each in a cache of its own."""
        if not (staying or leaving):
            return []
        step.settle([member.sequence for member in (*staying, *leaving)])
        assert step.cache is not None
        rows = [step.cache.set_aside([row]) for row in range(len(staying), len(staying) + len(leaving))]
        if leaving and staying:
            step.cache.keep(range(len(staying)))
        return rows

    def _park(self, members: Sequence[MemberT], caches: Sequence[Cache]) -> None:
        for member, cache in zip(members, caches, strict=True):
            self._parked[id(member)] = cache

    def _return_parked(self) -> None:
        if self._drawing is None:
            return
        for member in self._drawing.expire():
            self._parked.pop(id(member), None)
        for member in self._drawing.returned():
            cache = self._parked.pop(id(member), None)
            if cache is not None and not member.finished:
                self._arrived.append(cache)
                self.sequences.append(member)
        self._number_rows()

    def _settle(self, parked: Sequence[MemberT] = ()) -> None:
        self._join_arrived()
        self.sequences = [member for member in self.sequences if not (member in parked or member.finished)]
        self._park(parked, self._keep(self._step, self.sequences, parked))
        if not self.sequences:
            self._step.cache = None
            return
        self._number_rows()

    def _number_rows(self) -> None:
        for row, member in enumerate(self.sequences):
            member.sequence.cache_row = row
