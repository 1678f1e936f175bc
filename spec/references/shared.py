"""The verification rule of this library: the draft tokens and the draw share one noise.

The draft tokens are the k largest log q + G, the token is the largest log p + G, with one Gumbel noise G; so the token
has distribution p whatever the draft tokens are, and verification does not need q. With E = exp(-G), standard
exponential, the token is the first arrival of the race E / p, and it is accepted if it is among the first k of the
race E / q.
"""

from __future__ import annotations

import numpy as np

from constrained.spec.noise import GumbelNoise
from constrained.spec.references.drafting import DraftIds, ProbabilityVector


def sample_coupled(
    p: ProbabilityVector, q: ProbabilityVector, k: int, noise: GumbelNoise, position: int
) -> tuple[int, DraftIds]:
    """The token and the draft tokens of one position."""
    shared = noise.gumbel(position, np.arange(len(p)))
    with np.errstate(divide="ignore"):
        token = int(np.argmax(np.log(p) + shared))
        order = np.argsort(-(np.log(q) + shared), kind="stable")
    return token, tuple(order[: min(k, np.count_nonzero(q))].tolist())


def top_k_acceptance(p: ProbabilityVector, q: ProbabilityVector, k: int) -> float:
    """The probability that the token is one of the k most likely of q, drafted without the noise."""
    return float(p[np.argsort(-q, kind="stable")[:k]].sum())


def coupled_acceptance(p: ProbabilityVector, q: ProbabilityVector, k: int) -> float:
    """The acceptance probability, by quadrature (to about 1e-9).

    Given that v wins the race of p at time s, the others' E_u are s p_u and a fresh exponential more. So u is ahead
    of v in the race of q with probability 1 - exp(-s a_u), a_u = (p_v q_u / q_v - p_u)+, each for itself, and v was
    drafted if less than k are. s is exponential.
    """
    # s = exp(t - exp(-t)): a double-exponential rule, as fine near 0 as the largest a_u needs.
    t = np.linspace(-3.6, 4.2, 400)
    s = np.exp(t - np.exp(-t))
    weight = np.exp(-s) * s * (1.0 + np.exp(-t)) * (t[1] - t[0])
    acceptance = 0.0
    for v in np.flatnonzero((p > 0) & (q > 0)):
        ahead = 1.0 - np.exp(-np.outer(np.maximum(p[v] * q / q[v] - p, 0.0), s))
        counts = np.zeros((k, len(s)))
        counts[0] = 1.0
        for probability in np.delete(ahead, v, axis=0):
            counts[1:] = counts[1:] * (1.0 - probability) + counts[:-1] * probability
            counts[0] *= 1.0 - probability
        acceptance += p[v] * float((weight * counts.sum(axis=0)).sum())
    return acceptance
