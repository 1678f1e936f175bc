"""Where a completion departs from texts that it must not write again.

A guard names texts (`Guard.avoided`), a forward pass reads them as a tree behind the completion, and the completion goes on with
the likeliest way out of that tree. So a model that would make a call twice makes the next one that it has in mind, or ends, whichever is
more likely, for one pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from constrained.automaton.protocol import DEAD
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.sampling import Distribution
from constrained.sampling.randomness import CHOICES
from constrained.sampling.token_tree import TokenTree
from constrained.spec.scores import log_sum_exp

if TYPE_CHECKING:
    from constrained.decoding.sequence import TokenSequence
    from constrained.models import Logits

_WAYS_OUT = 16
"""Likely tokens that are looked at behind each node."""

_SPACE = b" \t\r\n"

_STRUCTURE = b'",:{}[]'
"""Where one text has these and the other something else, one of them says more than the other."""


class AvoidedTree:
    """Texts that are to be avoided, as a draft tree: a pass reads it as one. Node 0 is the end of the completion.

    Attributes:
        token, parent: of each node; -1 for the root.
        asked: no node.
        sources: of each node: none proposed it.
    """

    def __init__(self, tree: TokenTree) -> None:
        """The tree of their tokens."""
        self.token = [-1, *tree.tokens]
        self.parent = [-1, *(parent + 1 for parent in tree.parents)]
        self.asked: tuple[int, ...] = ()
        self.sources = [0] * len(self.token)
        self._children: list[dict[int, int]] = [{} for _ in self.token]
        for node in range(1, len(self.token)):
            self._children[self.parent[node]][self.token[node]] = node

    def __len__(self) -> int:
        return len(self.token)

    def children(self, node: int) -> dict[int, int]:
        """The nodes behind a node, by their tokens."""
        return self._children[node]

    def child(self, node: int, token: int) -> int:
        """The child with a token, or -1."""
        return self._children[node].get(token, -1)

    def path(self, node: int) -> list[int]:
        """The nodes from the root, which is left out, to the node."""
        nodes = []
        while node:
            nodes.append(node)
            node = self.parent[node]
        return nodes[::-1]

    def tokens(self, node: int) -> list[int]:
        """The tokens from the root to the node."""
        return [self.token[one] for one in self.path(node)]


NOTHING_AVOIDED = AvoidedTree(TokenTree.of([]))


def departure(sequence: TokenSequence, tree: AvoidedTree, logits: Logits, begin: int) -> list[int]:
    """The tokens up to the first one that is in no text of a tree; none where the completion may go on as it likes.

    A greedy completion whose likeliest tokens leave the tree goes on with them. If they spell one of its texts, the likeliest departure
    is taken, and none is what says the same: in other white space, case or tokens, or with a member more or less. A drawn
    completion draws the first departure by its law, given that there is one, from the `_WAYS_OUT` likeliest tokens behind each node.

    Args:
        sequence: that goes on.
        tree: of the texts.
        logits: of the pass that has read the tree.
        begin: the row of the root in `logits`.
    """
    params, budget = sequence.params, sequence.remaining_tokens
    automaton, vocabulary, warp = params.automaton, params.automaton.vocabulary, params.warp
    states, before = {0: sequence.state}, {0: 0.0}
    ways: list[tuple[float, int, int]] = []  # log-probability, node, token that departs
    best: dict[int, int] = {}  # the likeliest token behind a node
    rests = _rests(tree, [vocabulary.decode((token,)) if token >= 0 else b"" for token in tree.token])
    for node in range(len(tree)):
        children = tree.children(node)
        if node not in states or not children:
            continue
        path = tree.tokens(node)
        row = logits.row(begin + node)
        if warp.adjusts:
            row = warp.adjust(row, sequence.prompt, [*sequence.tokens, *path])
        ids = AutomatonCandidates(automaton, states[node], budget - len(path)).ids
        scaled = Distribution(row, warp).scaled_of(ids)
        kept = warp.truncation_mask(scaled)
        ids, scaled = ids[kept], scaled[kept]
        scores = dict(zip(ids.tolist(), (scaled - log_sum_exp(scaled) + before[node]).tolist(), strict=True))
        leading = ids[np.argsort(-scaled, kind="stable")].tolist()
        best[node] = leading[0]
        for token in leading[:_WAYS_OUT]:
            if token in children:
                continue
            if (
                not warp.greedy
                or token in vocabulary.eos_ids
                or _differs(vocabulary.decode((token,)), rests[node])
            ):
                ways.append((scores[token], node, token))
        for token, child in children.items():
            state = automaton.next(states[node], token)
            if token in scores and state != DEAD:
                states[child], before[child] = state, scores[token]
    if warp.greedy and not _leads_to_one(tree, best):
        return []
    if not ways:
        return []
    if warp.greedy:
        _, node, token = max(ways)
    else:
        place = sequence.next_position_id
        scores_of_ways = np.array([score for score, _, _ in ways])
        _, node, token = ways[sequence.randomness.pick(scores_of_ways, np.arange(len(ways)), place, CHOICES)]
    return [*tree.tokens(node), token]


def _leads_to_one(tree: AvoidedTree, best: dict[int, int]) -> bool:
    """Whether the likeliest tokens, by node, spell one of the tree's texts."""
    node = 0
    while node in best:
        node = tree.child(node, best[node])
    return node > 0


def _rests(tree: AvoidedTree, pieces: list[bytes]) -> list[list[bytes]]:
    """The texts of the tree behind each node, as they are compared."""
    rests: list[list[bytes]] = [[] for _ in pieces]
    for node in reversed(range(len(pieces))):
        behind = rests[node] or [b""]
        if node:
            rests[tree.parent[node]] += [_plain(pieces[node]) + rest for rest in behind]
    return rests


def _plain(text: bytes) -> bytes:
    return text.lower().translate(None, _SPACE)


def _differs(piece: bytes, rests: list[bytes]) -> bool:
    """Whether a token leads to none of these texts, and to none in which only less or more is said, such as a member or the end of a string."""
    plain = _plain(piece)
    return all(_other(plain, rest) for rest in rests)


def _other(plain: bytes, rest: bytes) -> bool:
    pairs = zip(plain, rest, strict=False)
    parting = next((pair for pair in pairs if pair[0] != pair[1]), None)
    return parting is not None and not any(one in _STRUCTURE for one in parting)
