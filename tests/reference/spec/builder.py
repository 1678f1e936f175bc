"""One tree out of all guesses: the likeliest node first, whoever guessed it.

The expected number of accepted tokens is the sum of pi over the nodes, so the best tree of n nodes is that of the n
largest pi, which one heap finds (OPT-Tree, DySpec). Where several sources guess the same token the surest counts:
they have mostly seen the same evidence, so that a noisy-or of them promises too much, and accepts less on recorded
values. What they say together is mixed (`tests.reference.spec.mixer`), and the tokens of a node share their probability. A
guess that the automaton refuses never becomes a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import exp, log, log2

from tests.reference.spec.calibration import AcceptanceCalibration
from tests.reference.spec.context import DraftContext
from tests.reference.spec.mixer import (
    BOUND,
    COMPETITOR,
    CONSTANT,
    DEPTH,
    DOUBTED,
    FEATURES,
    OTHERS,
    SUREST,
    TRUSTED,
    Mixer,
    MixerPlace,
    logit,
)
from tests.reference.spec.protocols import DEAD
from tests.reference.spec.sources.base import DraftSource
from tests.reference.spec.tree import ROOT, ReferenceDraftTree

Proposals = list[tuple[int, int]]
"""(token, kind) of every guess at a node, the source's number in the kind's upper bits."""

_WORTH_ASKING = 0.02
"""From this probability the automaton is asked about a token that shares with others."""

_LEAST = 1e-5
"""Nodes of a smaller pi are left out."""


class ReferenceDraft:
    """A tree with what led to it.

    Attributes:
        tree: the nodes.
        proposals: by node that was looked at: what was said there, for the calibration.
        candidates: by node: each token with the sets of weights that count for it, and its features.
        places: of the nodes.
    """

    def __init__(self, tree: ReferenceDraftTree) -> None:
        self.tree = tree
        self.proposals: dict[int, Proposals] = {}
        self.candidates: dict[int, dict[int, tuple[MixerPlace, list[float]]]] = {}
        self.places: list[DraftContext] = []


def build_draft(
    place: DraftContext,
    sources: Sequence[DraftSource | None],
    calibration: AcceptanceCalibration,
    mixer: Mixer,
    nodes: int,
    depth: int = 1 << 30,
    *,
    chain: bool = False,
) -> ReferenceDraft:
    """The best tree, or the best chain: then what is not the likeliest continuation of a node is left out.

    Args:
        place: the end of the text.
        sources: by number; None for one that is left out.
        calibration: corrects what each of them says.
        mixer: makes one probability of what all of them say.
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
        found: dict[int, list[float]] = {}
        bits: dict[int, int] = {}
        tokens: Proposals = []
        here = places[node]
        for number, source in enumerate(sources):
            if source is None:
                continue
            for token, prior, kind in source.propose(here):
                kind |= number << 24
                sure = logit(calibration.probability(kind, prior))
                tokens.append((token, kind))
                features = found.setdefault(token, [0.0] * FEATURES)
                if token not in bits:
                    features[SUREST] = -BOUND
                bits[token] = bits.get(token, 0) | 1 << number
                features[2 * number], features[2 * number + 1] = sure, 1.0
                features[SUREST] = max(features[SUREST], sure)
        draft.proposals[node] = tokens
        total, first, second = 0.0, -BOUND, -BOUND
        for features in found.values():
            total += 1.0 / (1.0 + exp(-features[SUREST]))
            second = max(second, min(first, features[SUREST]))
            first = max(first, features[SUREST])
        places_of = {token: MixerPlace.of(here, token, bits[token]) for token in found}
        pi = tree.path_probability[node]
        worths: dict[int, float] = {}
        for token, features in found.items():
            surest = features[SUREST]
            others = total - 1.0 / (1.0 + exp(-surest))
            features[COMPETITOR] = second if surest == first else first
            features[OTHERS] = logit(min(0.999, max(0.001, others)))
            features[CONSTANT] = 1.0
            features[DEPTH] = log2(1.0 + tree.depth[node])
            features[TRUSTED if bits[token] & tree.sources[node] else DOUBTED] = min(6.0, -log(pi))
            worths[token] = mixer.probability(places_of[token], features)
        draft.candidates[node] = {token: (places_of[token], found[token]) for token in found}
        if sum(worths.values()) > 1.0:
            for token, worth in worths.items():
                if worth >= _WORTH_ASKING and automaton.next(tree.state[node], token) == DEAD:
                    worths[token] = 0.0
        share = pi / max(1.0, sum(worths.values()))
        for token, one in worths.items():
            if share * one >= _LEAST and token not in ends:
                count += 1
                heappush(heap, (-share * one, count, node, token, bits[token]))

    if depth > 0:
        look(ROOT)
    while heap and len(tree) <= nodes:
        worth, _, parent, token, proposed_by = heappop(heap)
        state = automaton.next(tree.state[parent], token)
        if state == DEAD:
            continue
        node = tree.add(parent, token, state, -worth, proposed_by)
        places.append(places[parent].advance(token, state))
        if chain:
            heap.clear()
        if len(tree) <= nodes and tree.depth[node] < depth:
            look(node)
    return draft
