"""Samplers: how sequences are drawn under a constraint, and from which distribution.

At a prefix u the model gives token a the probability p(a) = P(a | u), after temperature; f(a) = 1 if u.a can still
become a sequence of the constraint (an end of sequence: if u is one); Z(u) = sum of p f. A sampler consists
of a proposal for the next token, a number W(u) that is properly weighted for it (E[W 1{X = x}] = p(x) f(x) for every
x), and a use of W:

    sampler   proposal at u                     W(u)    use of W
    local     p f / Z                           Z(u)    reported; sequences follow Q = prod of p f / Z (with `slots` closed values are drawn as wholes)
    awrs      p f / Z, without a mask           estimate  reported; the same distribution, unbiased weights
    rejection p                                 f        a sequence without f = 1 throughout is rejected: exact
    asap      p f theta / s                     s/theta  reported; the trie learns from it, and theta falls
    cars      p f theta / s                     s/theta  the attempt continues with this probability: exact
    exact     the whole text, by its P          P(L)    the texts of a closed set are weighed, not proposed: exact
    mcmc      p f / Z from a cut on             any      accept or reject a whole sequence (Metropolis-Hastings)
    smc       any of the first three            any      particles are resampled

theta(u a) is a bound, learned from earlier sequences, of the probability of a valid continuation of u a, and s(u)
the sum of p f theta (`constrained.sampling.trie`).

`SAMPLERS` maps names to samplers. Must not know: grammars, models, the decoding loop.
"""

from __future__ import annotations

from constrained.sampling.asap import ASAp
from constrained.sampling.awrs import AWRS
from constrained.sampling.base import (
    CandidateList,
    Candidates,
    ChainMoves,
    Distribution,
    Draw,
    Particle,
    ParticleBatch,
    Position,
    SampleBatch,
    Sampler,
    TokenSampler,
)
from constrained.sampling.cars import CARS
from constrained.sampling.exact import Exact
from constrained.sampling.local import Local
from constrained.sampling.mcmc import MCMC
from constrained.sampling.randomness import PhiloxRandomness, Randomness
from constrained.sampling.rejection import Rejection
from constrained.sampling.smc import SMC
from constrained.sampling.trie import Trie, Tries
from constrained.sampling.warpers import LogitsWarper

SAMPLERS: dict[str, type[Sampler]] = {
    "local": Local,
    "exact": Exact,
    "awrs": AWRS,
    "rejection": Rejection,
    "asap": ASAp,
    "cars": CARS,
    "mcmc": MCMC,
    "smc": SMC,
}
"""Name -> configuration class; each can be built without arguments."""


def resolve_sampler(sampler: str | Sampler) -> Sampler:
    """A sampler by its name, or the configured one that was passed.

    Raises:
        InvalidArgument: nothing has this name.
    """
    from constrained.errors import InvalidArgument

    if isinstance(sampler, Sampler):
        return sampler
    if not isinstance(sampler, str) or sampler not in SAMPLERS:
        known = ", ".join(sorted(SAMPLERS))
        raise InvalidArgument(f"sampler {sampler!r} is not known", action=f"use one of: {known}")
    return SAMPLERS[sampler]()


__all__ = [
    "AWRS",
    "CARS",
    "MCMC",
    "SAMPLERS",
    "SMC",
    "ASAp",
    "CandidateList",
    "Candidates",
    "ChainMoves",
    "Distribution",
    "Draw",
    "Exact",
    "Local",
    "LogitsWarper",
    "Particle",
    "ParticleBatch",
    "PhiloxRandomness",
    "Position",
    "Randomness",
    "Rejection",
    "SampleBatch",
    "Sampler",
    "TokenSampler",
    "Trie",
    "Tries",
    "resolve_sampler",
]
