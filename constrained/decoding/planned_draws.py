"""What is known of the draws of a forward pass before it: noise, temperatures, and what little is allowed.

It goes to a device with the tokens of the pass, and comes back with the tokens that have the largest keys. So a draw without
its weight needs no other copy, if one of these tokens is allowed, or if so few tokens are that their logits came too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.bitmask import Bitmask, unpack_ids
from constrained.automaton.forced_tokens import forced_token
from constrained.automaton.protocol import DEAD
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.sequence import TokenSequence
from constrained.decoding.tree_logits import TreeLogits
from constrained.models.logits import PlannedDraws
from constrained.sampling import CandidateList
from constrained.spec.noise import GumbelNoise

_FEW = 64
"""Allowed tokens whose logits are asked for ahead, at most."""

_MASKED_NODES = 16
"""First nodes of a tree, the likeliest, of which the host looks up what is allowed: some 4 us each."""


def plan_draws(
    sequences: Sequence[TokenSequence], rows: Sequence[TreeLogits], top_counts: Sequence[int]
) -> PlannedDraws | None:
    """The draws that need no whole rows; None where all do.

    Args:
        sequences: of the pass.
        rows: of each of them.
        top_counts: for each sequence, how many of the tokens with the largest keys its sampler looks at; 0: it needs whole
            rows.
    """
    places: list[int] = []
    noises: list[GumbelNoise] = []
    positions: list[int] = []
    temperatures: list[float] = []
    allowed: dict[int, NDArray[np.intp]] = {}
    for sequence, row, count in zip(sequences, rows, top_counts, strict=True):
        warp, noise = sequence.params.warp, sequence.randomness.noise
        if not count or (noise is None and not warp.greedy):
            continue
        depths = [0] if row.drafts is None else row.drafts.depth[: row.nodes + 1]
        places += range(row.begin, row.begin + len(depths))
        noises += [noise or GumbelNoise(0)] * len(depths)
        positions += [sequence.next_position_id + depth for depth in depths]
        temperatures += [float(warp.temperature or 0.0)] * len(depths)
        allowed |= _allowed(sequence, row, depths)
        if row.probe is not None:
            asked = [row.begin + row.nodes + node for node in row.probe.asked]
            places += asked
            noises += [noise or GumbelNoise(0)] * len(asked)
            positions += [sequence.next_position_id] * len(asked)
            temperatures += [0.0] * len(asked)
    if not places:
        return None
    return PlannedDraws(places, noises, positions, temperatures, max(top_counts), allowed)


def _allowed(sequence: TokenSequence, row: TreeLogits, depths: Sequence[int]) -> dict[int, NDArray[np.intp]]:
    """What is allowed at places where that is little, without a token limit, for the first nodes of a row.

    Only masks that are known already: all sequences wait for this, and a draw may need no mask at all.
    """
    automaton, single = sequence.params.automaton, isinstance(sequence.candidates, CandidateList)
    if automaton.expensive_membership or not (single or isinstance(sequence.candidates, AutomatonCandidates)):
        return {}
    states = [sequence.state]
    if (
        row.drafts is not None and automaton.relaxed_automaton is automaton
    ):  # else the tree has states of another one
        states += row.drafts.state[1:_MASKED_NODES]
    found = {row.begin: sequence.candidates.ids} if single else {}
    mask = automaton.new_mask()
    for node, state in enumerate(states[: len(depths)]):
        if node == 0 and single:
            continue
        forced = forced_token(automaton, state) if sequence.params.canonical and state != DEAD else None
        if forced is not None:
            found[row.begin + node] = np.array([forced], dtype=np.intp)
        elif automaton.has_mask(state):
            automaton.fill_mask(state, mask)
            ids = _few_ids(mask)
            if ids is not None and ids.size:
                found[row.begin + node] = ids
    return found


def _few_ids(mask: Bitmask) -> NDArray[np.intp] | None:
    """The ids of a mask, ascending; None where they are many."""
    words = np.flatnonzero(mask != 0)  # numpy finds booleans several times faster than integers
    if len(words) > _FEW:
        return None
    ids = unpack_ids(mask[words])
    return None if len(ids) > _FEW else words[ids // 32] * 32 + ids % 32
