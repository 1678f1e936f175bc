"""Drafts of many texts under one constraint: natively where the automaton is native, in Python otherwise.

The Python drafter (`spec.drafter`) is the definition; the native one (`spec/_core`) does the same in a twentieth of the
time. Tests compare their trees.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from spec.drafter import ReferenceDrafter
from spec.memory import DraftMemory
from spec.native import core as _core
from spec.pieces import Retokenizer
from spec.protocols import DraftAutomaton
from spec.sources import DRAFT_SOURCES
from spec.sources.forced import ForcedLiterals


class DraftTreeProtocol(Protocol):
    """What the decoding loop reads of a tree, see `spec.tree.DraftTree`."""

    @property
    def token(self) -> Sequence[int]:
        """Ids; -1 for the root."""

    @property
    def parent(self) -> Sequence[int]:
        """Node before it."""

    @property
    def sources(self) -> Sequence[int]:
        """By node: bit i is set if source i guessed it, see `proposing_sources`."""

    @property
    def depth(self) -> Sequence[int]:
        """Tokens after the root."""

    @property
    def path_probability(self) -> Sequence[float]:
        """Probability of the way to the node."""

    def child(self, node: int, token: int) -> int:
        """The child with a token, or -1."""

    def path(self, node: int) -> list[int]:
        """The nodes from the root to a node, the root left out."""

    def __len__(self) -> int:
        """Nodes, the root included."""


class DrafterProtocol(Protocol):
    """The drafts of one text, see `spec.drafter.ReferenceDrafter`."""

    @property
    def drafted_total(self) -> int:
        """Nodes that were read so far."""

    @property
    def accepted_total(self) -> int:
        """Of these, how many became tokens of the text."""

    @property
    def drafted_by_source(self) -> Sequence[int]:
        """Nodes that were read, by source."""

    @property
    def accepted_by_source(self) -> Sequence[int]:
        """Of these, how many became tokens of the text."""

    def draft(self, nodes: int, depth: int = ...) -> DraftTreeProtocol:
        """The best tree at the end of the text."""

    def mark_verified(self, nodes: int) -> None:
        """So many nodes of the tree were read by the model."""

    def commit(self, token: int) -> None:
        """The text went on with a token, which is no end of it."""

    def prime(self, tokens: Sequence[int]) -> None:
        """Learns the names of a made-up text of the constraint, and their order; nothing of its values."""

    def observe_top_tokens(self, top_tokens: list[int]) -> None:
        """What the model finds likely after the last token, best first."""

    def copy(self) -> DrafterProtocol:
        """Drafts for a text that begins as this one does."""


class DrafterFactory:
    """Makes drafters for texts of one automaton.

    Attributes:
        native: whether they are native.
    """

    def __init__(
        self,
        automaton: DraftAutomaton,
        memory: DraftMemory,
        constraint: str,
        *,
        source_names: Collection[str] = DRAFT_SOURCES,
        is_json: bool = True,
        native: bool = True,
        chain_drafts: bool = False,
    ) -> None:
        """Settles how.

        Args:
            automaton: what may be said.
            memory: what was learned.
            constraint: a key: texts with the same one learn from each other.
            source_names: of the sources to use.
            is_json: texts are JSON.
            native: False to draft in Python in any case.
            chain_drafts: draft chains, not trees.
        """
        self._automaton: Any = automaton
        self._memory = memory
        self._constraint = constraint
        self._names = frozenset(source_names)
        self._is_json = is_json
        self._chains = chain_drafts
        table = getattr(automaton, "automaton_table", None)
        self.native = native and table is not None and memory.core is not None
        self._literals: ForcedLiterals = {}
        if self.native:
            self._automaton_view = _core.AutomatonView(table, memory.native_retokenizer(automaton.vocabulary))
        else:
            self._pieces = Retokenizer(automaton.vocabulary)

    def new_drafter(self, prompt: Sequence[int]) -> DrafterProtocol:
        """A drafter for the text after a prompt."""
        scope = self._memory.for_constraint(self._constraint)
        if not self.native:
            return ReferenceDrafter(
                self._automaton,
                self._pieces,
                self._memory,
                scope,
                prompt=prompt,
                source_names=self._names,
                literals=self._literals,
                is_json=self._is_json,
                chain_drafts=self._chains,
            )
        bits = sum(1 << i for i, name in enumerate(DRAFT_SOURCES) if name in self._names)
        if "ngram" in self._names:
            bits |= 3 << len(DRAFT_SOURCES)
        made: DrafterProtocol = _core.Drafter(
            self._automaton_view,
            self._memory.core,
            scope.core,
            self._automaton.start,
            list(prompt),
            bits,
            self._is_json,
            list(self._automaton.vocabulary.eos_ids),
            self._chains,
        )
        return made

    def prime(self, tokens: Sequence[int]) -> None:
        """Learns the order of names from a made-up text, once for each constraint."""
        scope = self._memory.for_constraint(self._constraint)
        if not scope.primed:
            scope.primed = True
            self.new_drafter(()).prime(list(tokens))


def counts_by_source(drafting: DrafterProtocol) -> dict[str, tuple[int, int]]:
    """(drafted, accepted) of each source that guessed anything."""
    pairs = zip(
        DRAFT_SOURCES, zip(drafting.drafted_by_source, drafting.accepted_by_source, strict=True), strict=True
    )
    return {name: counts for name, counts in pairs if counts[0]}


def proposing_sources(tree: DraftTreeProtocol, node: int) -> int:
    """Who guessed a node: bit i is set for the i-th name of `DRAFT_SOURCES`, whatever its scope."""
    bits = tree.sources[node]
    own = bits & ((1 << len(DRAFT_SOURCES)) - 1)
    return own | (1 << DRAFT_SOURCES.index("ngram") if bits > own else 0)
