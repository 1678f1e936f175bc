"""Which law a text is drawn from, and how: the family of samplers, all in one frame.

At a prefix u the model gives token a the probability p(a) = P(a | u), after temperature; f(a) = 1 if u.a can still
become a text of the constraint (an end of sequence: if u is one); Z(u) = sum of p f. A sampler is a proposal of
tokens, a number W(u) that is properly weighted for it (E[W 1{X = x}] = p(x) f(x) for every x), and what is done
with W:

    sampler   proposal at u                     W(u)    what is done with W
    local     p f / Z                           Z(u)    reported; the law of the texts is Q = prod of p f / Z
    awrs      p f / Z, a few tokens asked about estimate  reported; the same law, unbiased weights
    rejection p                                 f        a text without f = 1 throughout is thrown away: exact
    asap      p f theta / s                     s/theta  reported; what it says is learned, and theta falls
    cars      p f theta / s                     s/theta  a coin of this bias decides whether to go on: exact
    mcmc      p f / Z from a cut on             any      accept or reject a whole text (Metropolis-Hastings)
    smc       any of the first three            any      resampling of texts that are written side by side

theta(u a) is a bound, learned from earlier texts, of the probability that a text goes on validly after u a, and s(u)
the sum of p f theta (`constrained.sampling.trie`).

`SAMPLERS` is the only place where a sampler is chosen. Must not know: grammars, models, how the loop runs.
"""

from __future__ import annotations

from constrained.sampling.asap import ASAp
from constrained.sampling.awrs import AWRS
from constrained.sampling.base import (
    CandidateList,
    Candidates,
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
from constrained.sampling.local import Local
from constrained.sampling.mcmc import MCMC
from constrained.sampling.randomness import PhiloxRandomness, Randomness
from constrained.sampling.rejection import Rejection
from constrained.sampling.smc import SMC
from constrained.sampling.trie import Trie, Tries
from constrained.sampling.warpers import LogitsWarper

SAMPLERS: dict[str, type[Sampler]] = {
    "local": Local,
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
    "Distribution",
    "Draw",
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
