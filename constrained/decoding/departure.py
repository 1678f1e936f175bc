"""Where a completion departs from texts that it must not write again.

A guard names texts (`Guard.avoided`), a forward pass reads them as a tree behind the completion, and the completion goes on with
the likeliest way out of that tree. So a model that would make a call twice makes the next one that it has in mind, or ends, whichever is
more likely, for one pass; where it would end, what the guard wants comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from constrained.automaton.protocol import DEAD
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.text_tree import TextTree
from constrained.sampling import Distribution
from constrained.sampling.randomness import CHOICES
from constrained.spec.scores import log_sum_exp

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.decoding.sequence import TokenSequence
    from constrained.models import Logits
    from constrained.vocabulary import Vocabulary

_WAYS_OUT = 16
"""Likely tokens that are looked at behind each node."""

_PATIENCE = 4.0
"""How much likelier an end may be than a text that the guard wants, in nats."""

_SPACE = b" \t\r\n"

_STRUCTURE = b'",:{}[]'
"""Where one text has these and the other something else, one of them says more than the other."""


def departure(sequence: TokenSequence, tree: TextTree, logits: Logits, begin: int) -> list[int]:
    """The tokens up to the first one that is in no text of a tree; none where the completion may go on as it likes.

    A greedy completion whose likeliest tokens leave the tree goes on with them. If they spell one of its texts, the likeliest departure
    is taken, and none is what says the same: in other white space, case or tokens, or with a member more or less. Where the completion
    would end, a departure that the guard wants comes before that. A drawn
    completion draws the first departure by its law, given that there is one, from the `_WAYS_OUT` likeliest tokens behind each node.

    Args:
        sequence: that goes on.
        tree: of the texts.
        logits: of the pass that has read the tree.
        begin: the row of the root in `logits`.
    """
    automaton, warp, budget = sequence.params.automaton, sequence.params.warp, sequence.remaining_tokens
    states, before = {0: sequence.state}, {0: 0.0}
    ways: list[tuple[float, int, int]] = []  # log-probability, node, token that departs
    follows: dict[int, int] = {}  # the node of the likeliest token; `len(tree)`: it ends a text
    ends: dict[int, float] = {}  # log-probability of an end that is the likeliest token
    texts = _Texts(automaton.vocabulary, tree)
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
        leading = sorted(scores, key=scores.__getitem__, reverse=True)[:_WAYS_OUT]
        others = [token for token in leading if token not in children]
        ways += [
            (scores[token], node, token) for token in others if not warp.greedy or texts.differ(node, token)
        ]
        best, spelled = leading[0], _spelled(automaton, states[node], leading[0], children)
        if best in automaton.vocabulary.eos_ids:
            ends[node] = scores[best]
        elif spelled is not None:
            follows[node] = children[spelled]
        elif texts.ends(node, best):
            follows[node] = len(tree)
        for token, child in children.items():
            state = automaton.next(states[node], token)
            if token in scores and state != DEAD:
                states[child], before[child] = state, scores[token]
    if not ways:
        return []
    if warp.greedy:
        at = 0
        while at in follows:
            at = follows[at]
        copies = at == len(tree) or not tree.children(at)
        score, node, token = max(ways)
        if (copies and token in automaton.vocabulary.eos_ids) or at in ends:
            wanted = _wanted_way(sequence, tree, ways, ends.get(at, score))
            if wanted:
                return wanted
        if not copies:
            return []
    else:
        ranks, place = np.arange(len(ways)), sequence.next_position_id
        _, node, token = ways[
            sequence.randomness.pick(np.array([way[0] for way in ways]), ranks, place, CHOICES)
        ]
    return [*tree.tokens(node), token]


def _wanted_way(
    sequence: TokenSequence, tree: TextTree, ways: Sequence[tuple[float, int, int]], end: float
) -> list[int]:
    """The tokens of the likeliest departure that the guard wants, if the end, of this log-probability, is not likelier by far."""
    assert sequence.guard is not None
    automaton = sequence.params.automaton
    for _, node, token in sorted((way for way in ways if way[0] >= end - _PATIENCE), reverse=True):
        tokens = [*tree.tokens(node), token]
        text = automaton.vocabulary.decode(tokens).decode("utf-8", "replace")
        rest = None if token in automaton.vocabulary.eos_ids else sequence.guard.wanted(text)
        if rest is not None:
            whole = [*tokens, *automaton.vocabulary.encode(rest)]
            state, budget = sequence.state, sequence.remaining_tokens
            for index, one in enumerate(whole):
                state = DEAD if state == DEAD else automaton.next_within(state, one, budget - index)
            return tokens if state == DEAD else whole
    return []


def _spelled(automaton: Automaton, state: int, token: int, children: Mapping[int, int]) -> int | None:
    """The child that a token is, or spells together with the bytes that have to follow it."""
    if token in children:
        return token
    vocabulary, after = automaton.vocabulary, automaton.next(state, token)
    text = vocabulary.decode((token,))
    spelled = b"" if after == DEAD or not text else text + automaton.forced(after)
    parts = ((child, vocabulary.decode((child,))) for child in children)
    return next((child for child, part in parts if part.startswith(text) and spelled.startswith(part)), None)


class _Texts:
    """What a token says, beside the texts of a tree."""

    def __init__(self, vocabulary: Vocabulary, tree: TextTree) -> None:
        self._vocabulary = vocabulary
        # The texts behind each node, as they are compared.
        self._rests: list[list[bytes]] = [[] for _ in tree.token]
        for node in reversed(range(1, len(tree))):
            plain = self._plain(tree.token[node])
            self._rests[tree.parent[node]] += [plain + rest for rest in self._rests[node] or [b""]]

    def _plain(self, token: int) -> bytes:
        return self._vocabulary.decode((token,)).lower().translate(None, _SPACE)

    def differ(self, node: int, token: int) -> bool:
        """Whether a token behind a node leads to something else than each text, not to a text with a member or a word more or less."""
        if token in self._vocabulary.eos_ids:
            return True
        plain = self._plain(token)
        for rest in self._rests[node]:
            pairs = zip(plain, rest, strict=False)
            parting = next((pair for pair in pairs if pair[0] != pair[1]), None)
            if parting is None or any(one in _STRUCTURE for one in parting):
                return False
        return True

    def ends(self, node: int, token: int) -> bool:
        """Whether a token behind a node ends one of the texts, and may go on behind it."""
        plain = self._plain(token)
        return any(plain.startswith(rest) for rest in self._rests[node])
