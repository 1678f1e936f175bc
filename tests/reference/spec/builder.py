"""One tree out of all guesses: the likeliest node first, whoever guessed it.

The expected number of accepted tokens is the sum of pi over the nodes, so the best tree of n nodes is that of the n
largest pi, which one heap finds (OPT-Tree, DySpec). Where several sources guess the same token the surest counts:
they have mostly seen the same evidence, so that a noisy-or of them promises too much, and accepts less on recorded
values. A guess that the automaton refuses never becomes a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from tests.reference.spec.calibration import AcceptanceCalibration
from tests.reference.spec.context import DraftContext
from tests.reference.spec.protocols import DEAD
from tests.reference.spec.sources.base import DraftSource
from tests.reference.spec.tree import ROOT, ReferenceDraftTree

Proposals = list[tuple[int, int]]
"""(token, kind) of every guess at a node, the source's number in the kind's upper bits."""

_LEAST = 1e-5
"""Nodes of a smaller pi are left out."""


class ReferenceDraft:
    """A tree with what led to it.

    Attributes:
        tree: the nodes.
        proposals: by node that was looked at: what was said there, for the calibration.
        places: of the nodes.
    """

    def __init__(self, tree: ReferenceDraftTree) -> None:
        self.tree = tree
        self.proposals: dict[int, Proposals] = {}
        self.places: list[DraftContext] = []


def build_draft(
    place: DraftContext,
    sources: Sequence[DraftSource | None],
    calibration: AcceptanceCalibration,
    nodes: int,
    depth: int = 1 << 30,
    *,
    chain: bool = False,
) -> ReferenceDraft:
    """The best tree, or the best chain: then what is not the likeliest continuation of a node is left out.

    Args:
        place: the end of the text.
        sources: by number; None for one that is left out.
        calibration: corrects what they say.
        nodes: greatest number of nodes, the root not counted.
        depth: tokens from the root to a node, at most.
        chain: give each node one child at most.
    """
    automaton = place.request.automaton
    ends = frozenset(automaton.vocabulary.eos_ids)
    draft = ReferenceDraft(ReferenceDraftTree(place.state))
    tree = draft.tree
    places = draft.places = [place]
    heap: list[tuple[float, int, int, int, int]] = []
    count = 0

    def look(node: int) -> None:
        """Puts the guesses at a node on the heap."""
        nonlocal count
        fused: dict[int, tuple[float, int]] = {}
        tokens: Proposals = []
        here = places[node]
        for number, source in enumerate(sources):
            if source is None:
                continue
            for token, prior, kind in source.propose(here):
                kind |= number << 24
                p = calibration.probability(kind, prior)
                tokens.append((token, kind))
                known = fused.get(token)
                if known is None:
                    fused[token] = (1.0 - p, 1 << number)
                else:
                    fused[token] = (min(known[0], 1.0 - p), known[1] | 1 << number)
        draft.proposals[node] = tokens
        pi = tree.path_probability[node]
        for token, (missed, bits) in fused.items():
            worth = pi * (1.0 - missed)
            if worth >= _LEAST and token not in ends:
                count += 1
                heappush(heap, (-worth, count, node, token, bits))

    if depth > 0:
        look(ROOT)
    while heap and len(tree) <= nodes:
        worth, _, parent, token, bits = heappop(heap)
        state = automaton.next(tree.state[parent], token)
        if state == DEAD:
            continue
        node = tree.add(parent, token, state, -worth, bits)
        places.append(places[parent].advance(token, state))
        if chain:
            heap.clear()
        if len(tree) <= nodes and tree.depth[node] < depth:
            look(node)
    return draft
