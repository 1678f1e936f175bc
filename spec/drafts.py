"""Drafts of many texts under one constraint: natively where the automaton is native, in Python otherwise.

The Python drafter (`spec.drafter`) is the definition; the native one (`spec/_core`) does the same in a twentieth of the
time. Tests compare their trees.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from spec.drafter import Drafter
from spec.memory import Memory
from spec.native import core as _core
from spec.pieces import Pieces
from spec.protocols import Automaton
from spec.sources import SOURCES
from spec.sources.forced import Literals


class Tree(Protocol):
    """What the decoding loop reads of a tree, see `spec.tree.DraftTree`."""

    @property
    def token(self) -> Sequence[int]:
        """Ids; -1 for the root."""

    @property
    def parent(self) -> Sequence[int]:
        """Node before it."""

    @property
    def sources(self) -> Sequence[int]:
        """By node: bit i is set if source i guessed it, see `origin`."""

    @property
    def depth(self) -> Sequence[int]:
        """Tokens after the root."""

    @property
    def pi(self) -> Sequence[float]:
        """Probability of the way to the node."""

    def child(self, node: int, token: int) -> int:
        """The child with a token, or -1."""

    def path(self, node: int) -> list[int]:
        """The nodes from the root to a node, the root left out."""

    def __len__(self) -> int:
        """Nodes, the root included."""


class Drafting(Protocol):
    """The drafts of one text, see `spec.drafter.Drafter`."""

    @property
    def nodes(self) -> int:
        """Nodes that were read so far."""

    @property
    def hits(self) -> int:
        """Of these, how many became tokens of the text."""

    @property
    def drafted(self) -> Sequence[int]:
        """Nodes that were read, by source."""

    @property
    def accepted(self) -> Sequence[int]:
        """Of these, how many became tokens of the text."""

    def draft(self, nodes: int, depth: int = ...) -> Tree:
        """The best tree at the end of the text."""

    def read(self, nodes: int) -> None:
        """So many nodes of the tree were read by the model."""

    def commit(self, token: int) -> None:
        """The text went on with a token, which is no end of it."""

    def rehearse(self, tokens: Sequence[int]) -> None:
        """Learns the names of a made-up text of the constraint, and their order; nothing of its values."""

    def see(self, favourites: list[int]) -> None:
        """What the model finds likely after the last token, best first."""

    def copy(self) -> Drafting:
        """Drafts for a text that begins as this one does."""


class Drafts:
    """Makes drafters for texts of one automaton.

    Attributes:
        native: whether they are native.
    """

    def __init__(
        self,
        automaton: Automaton,
        memory: Memory,
        constraint: str,
        *,
        names: Collection[str] = SOURCES,
        is_json: bool = True,
        native: bool = True,
        chains: bool = False,
    ) -> None:
        """Settles how.

        Args:
            automaton: what may be said.
            memory: what was learned.
            constraint: a key: texts with the same one learn from each other.
            names: of the sources to use.
            is_json: texts are JSON.
            native: False to draft in Python in any case.
            chains: draft chains, not trees.
        """
        self._automaton: Any = automaton
        self._memory = memory
        self._constraint = constraint
        self._names = frozenset(names)
        self._is_json = is_json
        self._chains = chains
        table = getattr(automaton, "draft_table", None)
        self.native = native and table is not None and memory.core is not None
        self._literals: Literals = {}
        if self.native:
            self._grammar = _core.Grammar(table, memory.pieces(automaton.vocabulary))
        else:
            self._pieces = Pieces(automaton.vocabulary)

    def open(self, prompt: Sequence[int]) -> Drafting:
        """A drafter for the text after a prompt."""
        scope = self._memory.scope(self._constraint)
        if not self.native:
            return Drafter(
                self._automaton,
                self._pieces,
                self._memory,
                scope,
                prompt=prompt,
                names=self._names,
                literals=self._literals,
                is_json=self._is_json,
                chains=self._chains,
            )
        bits = sum(1 << i for i, name in enumerate(SOURCES) if name in self._names)
        if "ngram" in self._names:
            bits |= 3 << len(SOURCES)
        made: Drafting = _core.Drafter(
            self._grammar,
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

    def rehearse(self, tokens: Sequence[int]) -> None:
        """Learns the order of names from a made-up text, once for each constraint."""
        scope = self._memory.scope(self._constraint)
        if not scope.rehearsed:
            scope.rehearsed = True
            self.open(()).rehearse(list(tokens))


def by_name(drafting: Drafting) -> dict[str, tuple[int, int]]:
    """(drafted, accepted) of each source that guessed anything."""
    pairs = zip(SOURCES, zip(drafting.drafted, drafting.accepted, strict=True), strict=True)
    return {name: counts for name, counts in pairs if counts[0]}


def origin(tree: Tree, node: int) -> int:
    """Who guessed a node: bit i is set for the i-th name of `SOURCES`, whatever its scope."""
    bits = tree.sources[node]
    own = bits & ((1 << len(SOURCES)) - 1)
    return own | (1 << SOURCES.index("ngram") if bits > own else 0)
