"""Verification rules of other papers: how a token is emitted given draft tokens, so that its distribution is the target p.

A rule is a function `output_distribution(p, q, drafts)`: the distribution of the emitted token given the draft tokens, over
the randomness of the rule. Its average over the draft tokens is p, which the tests show by enumeration. An emitted token
is accepted if it is one of the draft tokens: then the draft tree has a node for it.

    recursive     Recursive rejection sampling: draft tokens without replacement (RSD: Jeon et al. 2024; Yang et al. 2024)
    specinfer     Multi-step speculative sampling: independent draft tokens (SpecInfer: Miao et al. 2024)
    spectr        k-sequential selection (SpecTr: Sun et al. 2023, algorithm 3)
    greedy        Top k - 1 and one draw (Hu et al. 2025), whose transport is optimal for such draft tokens

All arrays are float64 ``[vocabulary]`` that sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from constrained.spec.references.drafting import (
    DraftIds,
    DraftSampling,
    GreedyDrafts,
    ProbabilityVector,
    WithoutReplacement,
    WithReplacement,
    condition_without,
    split_top,
)


@dataclass(frozen=True, slots=True)
class VerificationRule:
    """A verification rule with its method of drafting.

    Attributes:
        name: of the rule.
        draft_sampling: the method that samples its draft tokens.
        output_distribution: of the emitted token, given p, q and the draft tokens.
    """

    name: str
    draft_sampling: DraftSampling
    output_distribution: Callable[[ProbabilityVector, ProbabilityVector, DraftIds], ProbabilityVector]

    def sample(
        self, p: ProbabilityVector, q: ProbabilityVector, k: int, generator: np.random.Generator
    ) -> tuple[int, DraftIds]:
        """An emitted token, and the draft tokens of its position."""
        drafts = self.draft_sampling.sample_drafts(q, k, generator)
        law = self.output_distribution(p, q, drafts)
        return int(generator.choice(len(p), p=law / law.sum())), drafts

    def enumerate_acceptance(
        self, p: ProbabilityVector, q: ProbabilityVector, k: int
    ) -> tuple[ProbabilityVector, float]:
        """The distribution of the emitted token and its probability of acceptance, by enumeration of all draft tokens."""
        emitted, accepted = np.zeros(len(p)), 0.0
        for chance, drafts in self.draft_sampling.enumerate_drafts(q, k):
            law = self.output_distribution(p, q, drafts)
            emitted += chance * law
            accepted += chance * law[list(set(drafts))].sum()
        return emitted, float(accepted)

    def estimate_acceptance(
        self, p: ProbabilityVector, q: ProbabilityVector, k: int, draws: int, generator: np.random.Generator
    ) -> tuple[float, float]:
        """The acceptance probability and its standard error, by sampling draft tokens.

        Only the draft tokens are sampled; the acceptance probability given them is exact.
        """
        chances = np.empty(draws)
        for number in range(draws):
            drafts = self.draft_sampling.sample_drafts(q, k, generator)
            chances[number] = self.output_distribution(p, q, drafts)[list(set(drafts))].sum()
        return float(chances.mean()), float(chances.std() / np.sqrt(draws))


def recursive(p: ProbabilityVector, q: ProbabilityVector, drafts: DraftIds) -> ProbabilityVector:
    """Tries draft tokens in turn; after a rejection p becomes (p - q)+, and q is conditioned on other tokens."""
    return _in_turn(p, q, drafts, again=False)


def specinfer(p: ProbabilityVector, q: ProbabilityVector, drafts: DraftIds) -> ProbabilityVector:
    """Tries draft tokens in turn; after a rejection p becomes (p - q)+, and q stays."""
    return _in_turn(p, q, drafts, again=True)


def _in_turn(
    p: ProbabilityVector, q: ProbabilityVector, drafts: DraftIds, *, again: bool
) -> ProbabilityVector:
    law, left, wanted = np.zeros(len(p)), 1.0, p
    for token in drafts:
        accepted = min(1.0, wanted[token] / q[token])
        law[token] += left * accepted
        left *= 1.0 - accepted
        over = np.maximum(wanted - q, 0.0)
        if left == 0.0 or not over.any():
            break  # no rejection where the target equals q
        wanted = over / over.sum()
        if not again:
            q = condition_without(q, token)
    return law + left * wanted


def spectr(p: ProbabilityVector, q: ProbabilityVector, drafts: DraftIds) -> ProbabilityVector:
    """Accepts every draft token with probability min(1, p / (rho q)); rho is the least that leaves a residual >= 0."""
    rho = spectr_rho(p, q, len(drafts))
    covered = np.minimum(q, p / rho)
    beta = covered.sum()
    missed = (1.0 - beta) ** len(drafts)
    law, left = np.zeros(len(p)), 1.0
    for token in drafts:
        accepted = min(1.0, p[token] / (rho * q[token]))
        law[token] += left * accepted
        left *= 1.0 - accepted
    if left == 0.0 or missed <= 0.0:
        return law
    rest = np.maximum(p - covered * ((1.0 - missed) / beta if beta else 0.0), 0.0)
    return law + left * (rest / rest.sum() if rest.any() else p)


def spectr_rho(p: ProbabilityVector, q: ProbabilityVector, k: int) -> float:
    """The root of 1 - (1 - beta)**k = rho beta in 1 .. k, with beta = sum of min(q, p / rho), by bisection."""
    return _root(p.tobytes(), q.tobytes(), k)


@lru_cache(maxsize=64)  # one value for all draft tokens of (p, q, k)
def _root(target: bytes, draft: bytes, k: int) -> float:
    p, q = np.frombuffer(target), np.frombuffer(draft)
    low, high = 1.0, float(k)
    for _ in range(60):
        rho = (low + high) / 2
        beta = np.minimum(q, p / rho).sum()
        if 1.0 - (1.0 - beta) ** k > rho * beta:
            low = rho
        else:
            high = rho
    return high


def greedy(p: ProbabilityVector, q: ProbabilityVector, drafts: DraftIds) -> ProbabilityVector:
    """The last draft token is verified alone, against q without the others; those are accepted if they are drawn."""
    best, rest = split_top(q, len(drafts))
    if drafts[:-1] != best:  # q has no more tokens: all of them are drafted, and p decides
        return p
    return _in_turn(p, rest, drafts[-1:], again=True)


VERIFICATION_RULES = (
    VerificationRule("recursive", WithoutReplacement(), recursive),
    VerificationRule("spectr", WithReplacement(), spectr),
    VerificationRule("specinfer", WithReplacement(), specinfer),
    VerificationRule("greedy", GreedyDrafts(), greedy),
)
"""All rules."""
