"""`Samples`: weighted completions of one prompt, with estimates of the model's conditional distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from constrained.decoding.output import Output
from constrained.sampling.base import ChainMoves


@dataclass(frozen=True)
class Samples(Sequence[Output]):
    """Weighted completions: a sequence of outputs, with estimates.

    They estimate the conditional distribution pi(w) = P(w) / P(L): the model's distribution over completions,
    restricted to those that satisfy the constraint. (Under ``local-truncated`` L is what truncation leaves of them.)
    Estimates know only what was drawn: a likely completion that the proposal hardly ever draws is missing in the weights, in
    `ess` and in `log_evidence_error` alike. `bounds` are certain, so they tell how much can be missing.

    Attributes:
        outputs: the completions, each with its `log_weight`.
        distribution: the distribution that each was drawn from, before weighting; see `Output.distribution`.
        log_evidence: log of the estimate of the evidence P(L) (with potentials: of their mean); None where there is none,
            such as for one completion of ``"cars"`` or ``"rejection"``, which has only `bounds`.
        log_evidence_error: its standard error (the relative error of the estimate, by the delta method), or None.
        bounds: certain lower and upper bounds of P(L): the mass of the completions, and 1 without the mass that was refused;
            None under ``local-truncated``.
        attempts: sequences started.
        accepted: sequences that satisfied the constraint (``"mcmc"``: that a chain moved to, its first one included).
        forwards: rows of all forward passes, with the prompt's; equal prefixes are read once.
        passes: forward passes.
        checks: membership checks of the constraint.
        tokens: tokens of all sequences, also of rejected ones.
        seconds: elapsed time.
        independent: number of independent sequences that say as much, where the weights alone would say more: after
            resampling, particles have common ancestors. None otherwise.
        moves: of ``"mcmc"``: the share of proposals that were accepted, and of chains that never moved; None otherwise.
    """

    outputs: tuple[Output, ...]
    distribution: str
    log_evidence: float | None
    log_evidence_error: float | None
    bounds: tuple[float, float] | None
    attempts: int
    accepted: int
    forwards: int
    passes: int
    checks: int
    tokens: int
    seconds: float
    independent: float | None = None
    moves: ChainMoves | None = None

    @overload
    def __getitem__(self, index: int) -> Output: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Output, ...]: ...

    def __getitem__(self, index: int | slice) -> Output | tuple[Output, ...]:
        return self.outputs[index]

    def __len__(self) -> int:
        return len(self.outputs)

    def __iter__(self) -> Iterator[Output]:
        return iter(self.outputs)

    @property
    def weights(self) -> list[float]:
        """Normalised importance weights, one per output; their sum is 1."""
        if not self.outputs:
            return []
        top = max(output.log_weight for output in self.outputs)
        raw = [math.exp(output.log_weight - top) for output in self.outputs]
        total = math.fsum(raw)
        return [weight / total for weight in raw]

    @property
    def posterior(self) -> dict[str, float]:
        """The estimate of pi: a mapping of completion to probability, most probable first."""
        found: dict[str, float] = {}
        for output, weight in zip(self.outputs, self.weights, strict=True):
            found[output.text] = found.get(output.text, 0.0) + weight
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def mean(self, function: Callable[[Output], float]) -> float:
        """The weighted mean of a function of the outputs."""
        return math.fsum(w * function(o) for o, w in zip(self.outputs, self.weights, strict=True))

    @property
    def ess(self) -> float:
        """Effective sample size of what was drawn: 1 / sum of squared weights.

        After resampling at most 1 / log_evidence_error**2. It cannot tell that a likely completion was never drawn, see
        `bounds`.
        """
        if not self.outputs:
            return 0.0
        even = 1.0 / math.fsum(weight**2 for weight in self.weights)
        return even if self.independent is None else min(even, self.independent)

    @property
    def acceptance(self) -> float:
        """Accepted sequences per attempt."""
        return self.accepted / self.attempts

    @property
    def checks_per_token(self) -> float:
        """Membership checks of the constraint per drawn token."""
        return self.checks / max(1, self.tokens)

    @property
    def forwards_per_sample(self) -> float:
        """Rows of forward passes per output."""
        return self.forwards / max(1, len(self.outputs))

    def __repr__(self) -> str:
        evidence: Any = None if self.log_evidence is None else round(self.log_evidence, 3)
        bounds = "" if self.bounds is None else f", bounds=({self.bounds[0]:.3g}, {self.bounds[1]:.3g})"
        return (
            f"Samples({len(self)} completions, distribution={self.distribution!r}, "
            f"ess={self.ess:.1f} of these, log_evidence={evidence}{bounds})"
        )
