"""A walk through a trie: ASAp and CARS draw a sequence, and the trie learns from it.

At the node of prefix u a token is drawn with probability p(a) theta(u a) f(a) / s(u), where s(u) is the sum of the
numerator over all a. Let theta_used be the value of theta(u) by which u itself was drawn one step before. The ratio
s(u) / theta_used is at most 1; it is the factor by which the bound at u was too high. Over a whole sequence w the
product of the draws is P(w) / theta(root) times the product of theta_used / s over the nodes: CARS continues with
probability s / theta_used and so draws w with probability P(w) / theta(root); ASAp goes on, and the ratio is its
weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from constrained.sampling.base import Draw, Particle, Position
from constrained.sampling.randomness import Ids, Scores, bernoulli
from constrained.sampling.trie import ROOT, Trie
from spec.scores import log_sum_exp


class TrieWalk:
    """A sequence and its node in the trie.

    Attributes:
        text: the sequence.
        policy: use of the ratio.
        node: the node of its prefix.
        drawn_theta: theta of the node when it was drawn.
    """

    def __init__(self, trie: Trie, text: Particle, policy: RatioPolicy) -> None:
        self.trie = trie
        self.text = text
        self.policy = policy
        self.node = ROOT
        self.drawn_theta = policy.start(trie.theta[ROOT])

    def step(self, position: Position) -> None:
        """Draws the next token; at the end of the sequence, valid or not, the trie learns from it.

        With expensive membership only the drawn token is queried, and the trie remembers a rejection; otherwise the
        mask is used.
        """
        trie, candidates, text = self.trie, position.candidates, self.text
        ids, at, scores = self._scores(position)
        logs = position.log_probs[ids]
        surviving = log_sum_exp(scores)
        ratio = min(1.0, float(np.exp(surviving)) / self.drawn_theta) if self.drawn_theta > 0 else 0.0
        log_weight = self.policy(position, ratio) if surviving > -np.inf else -np.inf
        token, logprob, settled = None, -np.inf, list(at)
        if log_weight > -np.inf:
            index = position.pick(scores, ids)
            token, logprob = int(ids[index]), float(logs[index])
            if candidates.expensive_membership and not candidates.permits(token):
                trie.add_child(self.node, token, float(np.exp(logprob)), 0.0)
                settled.append(index)
                token, logprob, log_weight = None, -np.inf, -np.inf
        draw = Draw(token, logprob, log_weight, candidates.checks)
        text.commit(replace(draw, unlimited_token=self._unlimited_token(position, token)))
        parent = self.node
        if token is not None and not text.finish:
            self.node = trie.add_child(parent, token, float(np.exp(logprob)))
            self.drawn_theta = trie.theta[self.node]
            settled.append(index)
        p = position.distribution.probs[ids]
        p[settled] = 0.0
        trie.rest[parent] = min(1.0, float(p.sum()))
        if text.finish:
            trie.propagate(parent)

    def _scores(self, position: Position) -> tuple[Ids, Ids, Scores]:
        """(tokens that can be drawn, indices of those that the trie knows, log p theta of each)."""
        candidates = position.candidates
        ids = np.arange(len(position.log_probs)) if candidates.expensive_membership else candidates.ids
        children = self.trie.children(self.node)
        at, children = _match_children(ids, [self.trie.token[child] for child in children], children)
        scores = position.log_probs[ids]
        with np.errstate(divide="ignore"):
            scores[at] += np.log([self.trie.theta[child] for child in children])
        return ids, at, scores

    def _unlimited_token(self, position: Position, token: int | None) -> int | None:
        """See `Draw.unlimited_token`; None after a rejection, which ends the sequence."""
        if token is None or not position.limit_may_change_draw:
            return None
        unlimited = position.without_limit()
        ids, _, scores = self._scores(unlimited)
        if log_sum_exp(scores) == -np.inf:
            return None
        drawn = int(ids[position.pick(scores, ids)])
        if drawn == token or not unlimited.candidates.permits(drawn):
            return None
        return drawn


class RatioPolicy(ABC):
    """The use that a sampler makes of the ratio s / theta_used."""

    @abstractmethod
    def start(self, bound: float) -> float:
        """The theta_used of the first node, given its bound."""

    @abstractmethod
    def __call__(self, position: Position, ratio: float) -> float:
        """Log-weight of continuing at a position; -inf to reject the sequence."""


class AcceptByRatio(RatioPolicy):
    """CARS: a Bernoulli draw. Attempts are drawn from the upper bound of the mass of the root."""

    def start(self, bound: float) -> float:
        """The bound."""
        return bound

    def __call__(self, position: Position, ratio: float) -> float:
        """0 (continue) or -inf (reject), by a Bernoulli draw."""
        return 0.0 if bernoulli(position.randomness, ratio, position.position_id) else -np.inf


class WeightByRatio(RatioPolicy):
    """ASAp: an importance weight. It starts with mass 1 at the root, so that its mean is P(L)."""

    def start(self, bound: float) -> float:
        """The mass of the root without a bound: 1."""
        return 1.0

    def __call__(self, position: Position, ratio: float) -> float:
        """Log of the ratio."""
        return float(np.log(ratio)) if ratio > 0 else -np.inf


def _match_children(ids: Ids, tokens: list[int], children: list[int]) -> tuple[Ids, list[int]]:
    """(indices into `ids` of the children's tokens, these children), for the children whose token is among the ids."""
    if not tokens:
        return np.zeros(0, dtype=np.intp), []
    where = np.searchsorted(ids, tokens)
    good = [i for i, (w, t) in enumerate(zip(where, tokens, strict=True)) if w < len(ids) and ids[w] == t]
    return where[good], [children[i] for i in good]
