"""What a forward pass reads behind one row of the cache, and its logits: after the row's end and after each draft token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from constrained.decoding.lazy_distribution import LazyDistribution
from constrained.decoding.text_tree import TextTree
from constrained.models import Logits
from constrained.sampling import Distribution, LogitsWarper
from constrained.spec import _core
from constrained.spec.drafts import LazyDrafter, proposing_sources

_FAVOURITES = 2
"""Likely tokens of a slot."""


@dataclass(slots=True)
class TreeLogits:
    """The logits of one row, by node of its draft tree. Node 0 is the end of the row.

    Attributes:
        tree: the draft tree, or that of the texts to be avoided; None where the pass reads none for this row.
        begin: index of this row's first place in `logits`.
        nodes: number of draft tokens of the tree that the pass verifies.
        chain: number of tokens that the pass reads before the tree begins.
        probe: openings of slots, which the pass reads behind the draft tokens; None where nothing is asked.
        root: the model's distribution at node 0, if an earlier pass has read it: this one then reads the tree alone.
        logits: of all rows of the pass; set when it is done.
    """

    tree: _core.Tree | TextTree | None
    begin: int
    nodes: int
    chain: int
    probe: _core.Tree | None = None
    root: Distribution | None = None
    logits: Logits = field(init=False)

    @property
    def drafts(self) -> _core.Tree | None:
        """The draft tree, where the pass reads one."""
        return None if isinstance(self.tree, TextTree) else self.tree

    def distribution(self, node: int, warp: LogitsWarper) -> Distribution:
        """The model's distribution after a node."""
        if node == 0 and self.root is not None:
            return self.root
        return LazyDistribution(self.logits, self.begin + node, warp)

    def teach(self, drafter: LazyDrafter) -> None:
        """Tells a drafter what the model finds likely at the nodes that it asked about, accepted or not."""
        if self.drafts is None:
            return
        asked = [(node, node, False) for node in self.drafts.asked if node <= self.nodes]
        if self.probe is not None:
            asked += [(node, self.nodes + node, True) for node in self.probe.asked]
        for node, place, probed in asked:
            index = self.begin + place
            if self.logits.knows_top_tokens(index):
                drafter.observe_slot(node, self.logits.top_tokens(index, _FAVOURITES), probed)

    def child(self, node: int, token: int) -> int:
        """The node of a token after another node; -1 if the pass did not verify it."""
        if self.tree is None:
            return -1
        child = self.tree.child(node, token)
        return child if child <= self.nodes else -1

    def read_nodes(self, node: int, tokens: Sequence[int]) -> list[int]:
        """The nodes of some tokens after another node, as far as the pass verified them."""
        found: list[int] = []
        for token in tokens:
            node = self.child(node, token)
            if node < 0:
                break
            found.append(node)
        return found

    def origin(self, node: int, token: int) -> int:
        """The sources that drafted a token after a node, as bits (`constrained.spec.drafts.proposing_sources`); 0 if none did."""
        child = self.child(node, token)
        return 0 if self.drafts is None or child < 0 else proposing_sources(self.drafts, child)

    def path(self, node: int) -> list[int]:
        """Indices, among the tokens of the pass, of those that lead to a node; see `Cache.keep_paths`."""
        nodes = self.tree.path(node) if self.tree is not None else []
        return [*range(self.chain), *(self.chain - 1 + node for node in nodes)]
