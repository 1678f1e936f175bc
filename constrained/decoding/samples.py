"""Several texts for one prompt, and what they say together about the model's law over valid texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from constrained.decoding.output import Output


@dataclass(frozen=True)
class Samples(Sequence[Output]):
    """Weighted texts: a list of outputs, with estimates.

    The law they estimate is pi(w) = P(w) / P(L): the model's own law of texts, given that the text is valid. (Under
    ``local-truncated`` L is what truncation leaves of the valid texts.)

    Attributes:
        outputs: the texts, each with its `log_weight`.
        distribution: which law each of them was drawn from, before weighting; see `Output.law`.
        log_evidence: log of the estimate of P(L), the probability that a text of the model is valid (with potentials:
            of their mean); None for a sampler that does not estimate it.
        log_evidence_error: standard error of it (the relative one of the estimate, by the delta method); None where
            there is none.
        bounds: numbers between which P(L) is for certain; None where the sampler knows none.
        attempts: texts that were begun.
        accepted: texts that ended valid.
        forwards: rows of all forward passes, the prompt's included; equal beginnings are read once.
        passes: calls of the model.
        checks: questions put to the constraint.
        tokens: tokens of all texts, those that were given up included.
        seconds: time taken.
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
        """One per output, of sum 1."""
        if not self.outputs:
            return []
        top = max(output.log_weight for output in self.outputs)
        raw = [math.exp(output.log_weight - top) for output in self.outputs]
        total = math.fsum(raw)
        return [weight / total for weight in raw]

    @property
    def posterior(self) -> dict[str, float]:
        """The estimate of pi: text -> probability, the likeliest first."""
        found: dict[str, float] = {}
        for output, weight in zip(self.outputs, self.weights, strict=True):
            found[output.text] = found.get(output.text, 0.0) + weight
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def mean(self, function: Callable[[Output], float]) -> float:
        """The weighted mean of a number that each output has."""
        return math.fsum(w * function(o) for o, w in zip(self.outputs, self.weights, strict=True))

    @property
    def ess(self) -> float:
        """Effective sample size, 1 / sum of squared weights: as many equal weights would say as much."""
        return 1.0 / math.fsum(weight**2 for weight in self.weights) if self.outputs else 0.0

    @property
    def acceptance(self) -> float:
        """Accepted texts per attempt."""
        return self.accepted / self.attempts

    @property
    def checks_per_token(self) -> float:
        """Questions put to the constraint per token that was written."""
        return self.checks / max(1, self.tokens)

    @property
    def forwards_per_sample(self) -> float:
        """Rows of forward passes per output."""
        return self.forwards / max(1, len(self.outputs))

    def __repr__(self) -> str:
        evidence: Any = None if self.log_evidence is None else round(self.log_evidence, 3)
        return f"Samples({len(self)} texts, law={self.distribution!r}, ess={self.ess:.1f}, log_evidence={evidence})"
