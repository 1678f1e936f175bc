"""One way through a trie: how ASAp and CARS draw a text, and what the trie learns from it.

At the node of prefix u a token is drawn with probability p(a) theta(u a) f(a) / s(u), where s(u) is the sum of the
numerator over all a. Let theta_used be the value of theta(u) by which u itself was drawn one step before. The ratio
s(u) / theta_used is at most 1; it is what the bound at u has turned out to be too high by. Over a whole text w the
product of the draws is P(w) / theta(root) times the product of theta_used / s over the nodes: CARS keeps on with a coin
of bias s / theta_used and so draws w with probability P(w) / theta(root); ASAp goes on, and the ratio is its weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from constrained.sampling.base import Draw, Particle, Position
from constrained.sampling.randomness import Ids, bernoulli
from constrained.sampling.trie import ROOT, Trie
from spec.scores import log_sum_exp


class TrieWalk:
    """A text and where it is in the trie.

    Attributes:
        text: what is written.
        policy: what becomes of the ratio.
        node: its prefix.
        drawn_theta: theta of the node when it was drawn.
    """

    def __init__(self, trie: Trie, text: Particle, policy: RatioPolicy) -> None:
        self.trie = trie
        self.text = text
        self.policy = policy
        self.node = ROOT
        self.drawn_theta = policy.start(trie.theta[ROOT])

    def step(self, position: Position) -> None:
        """Draws the next token; at the end of the text, valid or not, the trie learns from it.

        Where one question is dear, only the drawn token is asked about, and the trie remembers a refusal; otherwise
        the whole row is looked at.
        """
        trie, candidates, text = self.trie, position.candidates, self.text
        ids = np.arange(len(position.log_probs)) if candidates.expensive_membership else candidates.ids
        logs = position.log_probs[ids]
        children = trie.children(self.node)
        at, children = _found(ids, [trie.token[child] for child in children], children)
        scores = logs.copy()
        with np.errstate(divide="ignore"):
            scores[at] += np.log([trie.theta[child] for child in children])
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
        text.commit(Draw(token, logprob, log_weight, candidates.checks))
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


class RatioPolicy(ABC):
    """What a sampler makes of the ratio s / theta_used."""

    @abstractmethod
    def start(self, bound: float) -> float:
        """The theta_used of the first node, given its bound."""

    @abstractmethod
    def __call__(self, position: Position, ratio: float) -> float:
        """Log-weight of going on at a position; -inf to give the text up."""


class AcceptByRatio(RatioPolicy):
    """CARS: a coin. Attempts are made out of the mass that the root is known to have at most."""

    def start(self, bound: float) -> float:
        """The bound."""
        return bound

    def __call__(self, position: Position, ratio: float) -> float:
        """0 or -inf."""
        return 0.0 if bernoulli(position.randomness, ratio, position.position_id) else -np.inf


class WeightByRatio(RatioPolicy):
    """ASAp: the weight. It begins with the mass of the root itself, so that its mean is P(L)."""

    def start(self, bound: float) -> float:
        """Everything."""
        return 1.0

    def __call__(self, position: Position, ratio: float) -> float:
        """Log of the ratio."""
        return float(np.log(ratio)) if ratio > 0 else -np.inf


def _found(ids: Ids, tokens: list[int], children: list[int]) -> tuple[Ids, list[int]]:
    """Which children's tokens are among the ids: (their indices, those children)."""
    if not tokens:
        return np.zeros(0, dtype=np.intp), []
    where = np.searchsorted(ids, tokens)
    good = [i for i, (w, t) in enumerate(zip(where, tokens, strict=True)) if w < len(ids) and ids[w] == t]
    return where[good], [children[i] for i in good]
