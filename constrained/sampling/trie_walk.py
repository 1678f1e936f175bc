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

import numpy as np

from constrained.sampling.awrs import estimate_mass
from constrained.sampling.base import Draw, Particle, Position
from constrained.sampling.randomness import Ids, Scores, bernoulli
from constrained.sampling.trie import ROOT, Trie, TrieOutdated
from constrained.spec.scores import log_sum_exp

_CHECKS = 4
"""Queries at a position, at least, where membership is expensive and a weight is estimated."""

_SAME_CHILD = 0.05
"""Two readings of one model differ by less in the log-probability of a likely token."""


class TrieWalk:
    """A sequence and its node in the trie.

    Attributes:
        text: the sequence.
        policy: use of the ratio.
        node: the node of its prefix.
        drawn_theta: log theta of the node when it was drawn.
        kept: the trie is from earlier calls, so that it may be outdated.
    """

    def __init__(self, trie: Trie, text: Particle, policy: RatioPolicy, kept: bool = False) -> None:
        self.trie = trie
        self.text = text
        self.policy = policy
        self.node = ROOT
        self.drawn_theta = policy.start(trie.log_theta[ROOT])
        self.kept = kept

    def step(self, position: Position) -> None:
        """Draws the next token; at the end of the sequence, valid or not, the trie learns from it.

        With expensive membership only drawn tokens are queried, and the trie remembers a rejection; otherwise the
        mask is used.

        Raises:
            TrieOutdated: the model gives the node's children other probabilities than the trie remembers.
        """
        trie, candidates, text = self.trie, position.candidates, self.text
        ids, at, scores = self._scores(position)
        logs = position.log_probs[ids]
        surviving = log_sum_exp(scores)
        ratio = min(0.0, surviving - self.drawn_theta) if surviving > -np.inf else -np.inf
        log_weight = self.policy(position, ratio) if ratio > -np.inf else -np.inf
        token, logprob, settled = None, -np.inf, list(at)
        refused: list[int] = []
        if log_weight > -np.inf:
            if not candidates.expensive_membership:
                index = position.pick(scores, ids)
            elif self.policy.redraws:
                found, refused, share = _first_permitted(position, ids, scores - surviving)
                index, log_weight = -1 if found is None else found, log_weight + share
            else:
                index = position.pick(scores, ids)
                refused = [] if candidates.permits(int(ids[index])) else [index]
                index = -1 if refused else index
            for one in refused:
                trie.add_child(self.node, int(ids[one]), float(logs[one]), -np.inf)
            settled += refused
            if index >= 0:
                token, logprob = int(ids[index]), float(logs[index])
            else:
                log_weight = -np.inf
        drawn = logprob if token is None else position.log_prob(token)
        text.commit(Draw(token, drawn, log_weight, candidates.checks))
        parent = self.node
        if token is not None and not text.finish:
            self.node = trie.add_child(parent, token, logprob)
            self.drawn_theta = trie.log_theta[self.node]
            settled.append(index)
        left = logs.copy()
        left[settled] = -np.inf
        trie.log_rest[parent] = min(0.0, log_sum_exp(left))
        if text.finish:
            trie.propagate(parent)

    def _scores(self, position: Position) -> tuple[Ids, Ids, Scores]:
        """(tokens that can be drawn, indices of those that the trie knows, log p theta of each)."""
        candidates, trie = position.candidates, self.trie
        ids = np.arange(len(position.log_probs)) if candidates.expensive_membership else candidates.ids
        children = trie.children(self.node)
        at, children = _match_children(ids, [trie.token[child] for child in children], children)
        scores = position.log_probs[ids]
        if self.kept and _differ(scores[at], np.array([trie.log_p[child] for child in children])):
            raise TrieOutdated
        scores[at] += [trie.log_theta[child] for child in children]
        return ids, at, scores


class RatioPolicy(ABC):
    """The use that a sampler makes of the ratio s / theta_used.

    Attributes:
        redraws: where membership is expensive and a drawn token is rejected, another one is drawn at its position, and
            the weight is an estimate.
    """

    redraws = False

    @abstractmethod
    def start(self, bound: float) -> float:
        """Log of the theta_used of the first node, given the log of its bound."""

    @abstractmethod
    def __call__(self, position: Position, ratio: float) -> float:
        """Log-weight of continuing at a position, given the log of the ratio; -inf to reject the sequence."""


class AcceptByRatio(RatioPolicy):
    """CARS: a Bernoulli draw. Attempts are drawn from the upper bound of the mass of the root."""

    def start(self, bound: float) -> float:
        """The bound."""
        return bound

    def __call__(self, position: Position, ratio: float) -> float:
        """0 (continue) or -inf (reject), by a Bernoulli draw."""
        taken = bernoulli(position.randomness, float(np.exp(ratio)), position.position_id)
        return 0.0 if taken else -np.inf


class WeightByRatio(RatioPolicy):
    """ASAp: an importance weight. It starts with mass 1 at the root, so that its mean is P(L)."""

    redraws = True

    def start(self, bound: float) -> float:
        """The mass of the root without a bound: log 1."""
        return 0.0

    def __call__(self, position: Position, ratio: float) -> float:
        """The ratio."""
        return ratio


def _first_permitted(position: Position, ids: Ids, scores: Scores) -> tuple[int | None, list[int], float]:
    """The first permitted token in the order of keys, those before it, and log of an estimate of the permitted mass.

    The estimate is that of `AWRS`: properly weighted for the token.

    Args:
        position: where the token is drawn.
        ids: of all tokens, ascending.
        scores: log-probabilities, normalised, float64 [n].
    """
    possible = int(np.count_nonzero(scores > -np.inf))
    seen: list[int] = []
    permitted: list[bool] = []
    found: int | None = None
    for index in position.order(scores, ids):
        seen.append(index)
        permitted.append(position.candidates.permits(int(ids[index])))
        if found is None and permitted[-1]:
            found = len(seen)
        if len(seen) == possible or (found is not None and len(seen) >= max(_CHECKS, found + 1)):
            break
    refused = [index for index, one in zip(seen, permitted, strict=True) if not one]
    if found is None:
        return None, refused, -np.inf
    unseen = np.delete(scores, seen)
    weight = estimate_mass(
        np.exp(scores[seen]), np.array(permitted), float(np.exp(unseen).sum()), found, possible
    )
    return seen[found - 1], refused, float(np.log(weight)) if weight > 0 else float(scores[seen[found - 1]])


def _differ(now: Scores, then: Scores) -> bool:
    """Whether some log-probabilities are others than they were; tokens that were never likely do not matter."""
    likely = np.maximum(now, then) > -20.0
    return bool((np.abs(now - then)[likely] > _SAME_CHILD).any())


def _match_children(ids: Ids, tokens: list[int], children: list[int]) -> tuple[Ids, list[int]]:
    """(indices into `ids` of the children's tokens, these children), for the children whose token is among the ids."""
    if not tokens:
        return np.zeros(0, dtype=np.intp), []
    where = np.searchsorted(ids, tokens)
    good = [i for i, (w, t) in enumerate(zip(where, tokens, strict=True)) if w < len(ids) and ids[w] == t]
    return where[good], [children[i] for i in good]
