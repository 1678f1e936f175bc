"""Drafters, which propose the draft tokens of one sequence.

The drafter itself is native (`spec/_core/drafter.hpp`): its sources propose tokens at a node, a calibration and a mixer turn
their proposals into probabilities, and the draft tree takes the likeliest node first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from typing import NamedTuple

from constrained.spec import _core
from constrained.spec.acceptance import AcceptanceTable
from constrained.spec.memory import ConstraintMemory, DraftMemory, retokenizer
from constrained.spec.protocols import DraftAutomaton
from constrained.spec.sources import DRAFT_SOURCES, merge_ngram_scopes, source_bits


class DraftCounts(NamedTuple):
    """Drafted and accepted tokens of one sequence.

    Attributes:
        drafted: draft tokens that the model verified.
        accepted: draft tokens that were accepted.
        by_source: (drafted, accepted) of each source that proposed any.
    """

    drafted: int = 0
    accepted: int = 0
    by_source: dict[str, tuple[int, int]] = {}  # noqa: RUF012 - a default that nobody changes


def draft_counts(drafter: _core.Drafter) -> DraftCounts:
    """The counts of a drafter."""
    pairs = zip(drafter.drafted_by_source, drafter.accepted_by_source, strict=True)
    by_source = {name: counts for name, counts in zip(DRAFT_SOURCES, pairs, strict=True) if counts[0]}
    return DraftCounts(drafter.drafted_total, drafter.accepted_total, by_source)


def proposing_sources(tree: _core.Tree, node: int) -> int:
    """The sources that proposed a node: bit i is set for the i-th name of `DRAFT_SOURCES`."""
    return merge_ngram_scopes(tree.sources[node])


class DrafterFactory:
    """Makes drafters for sequences of one automaton.

    An automaton without `automaton_table` (one that is written in Python) cannot be followed natively: decoding then runs
    without draft tokens, see `constrained.decoding.speculation.speculation_obstacle`.
    """

    def __init__(
        self,
        automaton: DraftAutomaton,
        memory: DraftMemory,
        constraint: str,
        *,
        source_names: Collection[str] = DRAFT_SOURCES,
        is_json: bool = True,
        chain_drafts: bool = False,
    ) -> None:
        """A factory.

        Args:
            automaton: draft tokens follow its transitions.
            memory: what was learned from earlier sequences.
            constraint: a key; sequences under one key learn from each other.
            source_names: the sources to use, out of `DRAFT_SOURCES`.
            is_json: completions are JSON.
            chain_drafts: draft chains, not trees.
        """
        self._automaton = automaton
        self._memory = memory
        self._constraint = constraint
        self._sources = source_bits(source_names)
        self._is_json = is_json
        self._chains = chain_drafts
        self._prime: Callable[[_core.Drafter], None] | None = None
        self._automaton_view = _core.AutomatonView(
            automaton.automaton_table, retokenizer(automaton.vocabulary)
        )

    def narrowed(self, automaton: DraftAutomaton) -> DrafterFactory:
        """A factory for an automaton of a part of the language, which shares what was learned."""
        twin = copy(self)
        twin._automaton = automaton
        twin._automaton_view = _core.AutomatonView(
            automaton.automaton_table, retokenizer(automaton.vocabulary)
        )
        return twin

    def new_drafter(self, prompt: Sequence[int]) -> _core.Drafter:
        """A drafter for the sequence after a prompt."""
        return self._made_drafter(self._scope(), prompt)

    def lazy_drafter(self, prompt: Sequence[int], *, drawn: bool = False) -> LazyDrafter:
        """A drafter for the sequence after a prompt, which is constructed at its first draft.

        Args:
            prompt: token ids.
            drawn: tokens are drawn at a temperature.
        """
        return LazyDrafter(
            lambda: self.new_drafter(prompt), lambda: self.acceptance_table(prompt, drawn=drawn)
        )

    def acceptance_table(self, prompt: Sequence[int], *, drawn: bool) -> AcceptanceTable:
        """Predicts how much of the draft trees is accepted, for a sequence after a prompt that begins now; `drawn`: at a temperature."""
        scope = self._scope()
        known, scope.begun = (scope.begun, bool(prompt), drawn), True
        return self._memory.acceptance[known]

    def _scope(self) -> ConstraintMemory:
        """What was learned under the constraint; primed again if it was evicted."""
        scope = self._memory.for_constraint(self._constraint)
        if self._prime is not None and not scope.primed:
            scope.primed = True
            self._prime(self._made_drafter(scope, ()))
        return scope

    def _made_drafter(self, scope: ConstraintMemory, prompt: Sequence[int]) -> _core.Drafter:
        tokens = len(self._automaton.vocabulary.tokens)
        return _core.Drafter(
            self._automaton_view,
            self._memory.core,
            scope.core,
            self._automaton.start,
            [token for token in prompt if token < tokens],  # others are images
            self._sources,
            self._is_json,
            list(self._automaton.vocabulary.eos_ids),
            self._chains,
        )

    def prime(
        self,
        tokens: Sequence[int],
        openings: Sequence[Sequence[int]] = (),
    ) -> None:
        """Learns the order of names from an example completion, once for each constraint.

        Args:
            tokens: the example.
            openings: completions up to the values of members: what probes ask the model about.
        """

        def prime(drafter: _core.Drafter) -> None:
            drafter.prime(list(tokens))
            drafter.set_openings([list(opening) for opening in openings])

        self._prime = prime
        self._scope()


class LazyDrafter:
    """A drafter that is constructed at the first draft; while speculation pauses, committed tokens are only recorded.

    So a sequence without drafts costs next to nothing.

    Attributes:
        active: the last forward pass had a draft.
    """

    def __init__(
        self, make: Callable[[], _core.Drafter], make_table: Callable[[], AcceptanceTable] | None = None
    ) -> None:
        """A drafter that `make` constructs at the first draft, and the table that corrects its path probabilities."""
        self._make = make
        self._make_table = make_table
        self._table: AcceptanceTable | None = None
        self._drafter: _core.Drafter | None = None
        self._tree: _core.Tree | None = None
        self._chances: list[float] = []  # path probabilities of the last tree
        self._node = self._verified = 0
        self._unlearned: list[int] = []
        self.active = False

    def draft(
        self, nodes: int, depth: int = 1 << 30, assisted: Sequence[tuple[int, float]] = ()
    ) -> _core.Tree:
        """See `_core.Drafter.draft`; first learns the tokens that were committed during a pause."""
        if self._drafter is None:
            self._drafter = self._make()
            self._table = None if self._make_table is None else self._make_table()
        for token in self._unlearned:
            self._drafter.commit(token)
        self._unlearned.clear()
        self.active = True
        self._tree, self._node, self._verified = self._drafter.draft(nodes, depth, assisted), 0, 0
        self._chances = list(self._tree.path_probability)
        return self._tree

    def predicted_acceptance(self) -> list[float]:
        """Predicted acceptance of the nodes of the last tree, without the root; falling."""
        chances = self._chances[1:]
        return chances if self._table is None else self._table.corrected(chances)

    def pause(self) -> None:
        """Tells that the next pass has no draft."""
        self.active = False

    def commit(self, token: int) -> None:
        """See `_core.Drafter.commit`."""
        if self.active and self._drafter is not None:
            self._drafter.commit(token)
            self._follow(token)
        else:
            self._unlearned.append(token)

    def _follow(self, token: int) -> None:
        """Moves to the node of a token, if the model has verified it."""
        if self._tree is None or self._table is None or self._node < 0:
            return
        node = self._tree.child(self._node, token)
        self._node = node if node <= self._verified else -1
        if self._node > 0:
            self._table.accepted(self._chances[node])

    def probe(self, nodes: int) -> _core.Tree | None:
        """See `_core.Drafter.probe`; None during a pause, and where there is nothing to ask."""
        if not self.active or self._drafter is None:
            return None
        tree = self._drafter.probe(nodes)
        return tree if len(tree) > 1 else None

    def observe_slot(self, node: int, top_tokens: list[int], probed: bool) -> None:
        """See `_core.Drafter.observe_slot`."""
        if self._drafter is not None:
            self._drafter.observe_slot(node, top_tokens, probed)

    def mark_verified(self, nodes: int) -> None:
        """See `_core.Drafter.mark_verified`."""
        self._verified = nodes
        if self._drafter is not None:
            self._drafter.mark_verified(nodes)
        if self._table is not None:
            self._table.verified(self._chances[1 : nodes + 1])

    def copy(self) -> LazyDrafter:
        """An independent drafter in the present state."""
        twin = copy(self)
        twin._drafter = None if self._drafter is None else self._drafter.copy()
        twin._unlearned = list(self._unlearned)
        twin._node = -1  # what comes of the last tree is counted once
        return twin

    def counts(self) -> DraftCounts:
        """Drafted and accepted tokens so far."""
        return DraftCounts() if self._drafter is None else draft_counts(self._drafter)
