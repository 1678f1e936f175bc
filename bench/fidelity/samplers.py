"""The samplers that are compared, each as it is meant to be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from constrained.decoding import Speculation
from constrained.sampling import AWRS, CARS, MCMC, SMC, ASAp, Local, Rejection, Sampler


@dataclass(frozen=True, slots=True)
class SamplerEntry:
    """A sampler of the tables.

    Attributes:
        make: builds it, fresh: nothing is learned from another measurement.
        weighted: its texts count by their weights; otherwise each counts once.
        speculation: draft tokens; their number does not depend on measured times, so that forwards are reproducible.
    """

    make: Callable[[], Sampler]
    weighted: bool = False
    speculation: Speculation | None = None


_AWRS = AWRS(cached=False)
"""Rows that are known would make it the same as ``"local"``: here every token is checked."""

SAMPLER_ENTRIES: dict[str, SamplerEntry] = {
    "local": SamplerEntry(Local),
    "rejection": SamplerEntry(Rejection),
    "cars": SamplerEntry(CARS),
    "asap": SamplerEntry(ASAp),
    "mcmc restart": SamplerEntry(lambda: MCMC(cut="restart")),
    "mcmc uniform": SamplerEntry(lambda: MCMC(cut="uniform")),
    "mcmc priority": SamplerEntry(lambda: MCMC(cut="priority")),
    "local, weighted": SamplerEntry(Local, weighted=True),
    "awrs, weighted": SamplerEntry(lambda: _AWRS, weighted=True),
    "smc of local": SamplerEntry(lambda: SMC(proposal=Local()), weighted=True),
    "smc of awrs": SamplerEntry(lambda: SMC(proposal=_AWRS), weighted=True),
    "smc of awrs, drafts": SamplerEntry(
        lambda: SMC(proposal=_AWRS), weighted=True, speculation=Speculation(nodes=16, adapts=False)
    ),
}
"""Name -> entry, in the order of the tables."""
