"""What every sampler sees and says: a `Position` in, a `Draw` out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.errors import ModelError
from constrained.sampling.warp import Warp

Ids = NDArray[np.intp]
Gumbel = Callable[[Ids], NDArray[np.float64]]
"""Noise of some token ids at one position. Tests pass orders of their own instead of random numbers."""


class Position:
    """One place in one text, where a token is to be drawn.

    Attributes:
        logits: the model's, floating [V]. Ids beyond the vocabulary have been cut off.
        allowed: ids that the constraint allows here, ascending, at least one.
        gumbel: the noise of this place.
        warp: temperature and truncations.
    """

    def __init__(self, logits: NDArray[np.floating[Any]], allowed: Ids, gumbel: Gumbel, warp: Warp) -> None:
        self.logits = logits
        self.allowed = allowed
        self.gumbel = gumbel
        self.warp = warp

    @cached_property
    def scaled(self) -> NDArray[np.float64]:
        """Logits after temperature, float64 [V]."""
        return self.warp.scale(self.logits)

    @cached_property
    def normaliser(self) -> float:
        """Log-sum-exp of `scaled` over the whole vocabulary: log p(a) = scaled[a] - normaliser.

        Raises:
            ModelError: the logits are no distribution.
        """
        total = log_sum_exp(self.scaled)
        if not np.isfinite(total):
            raise ModelError(
                f"the model's logits are no distribution: their log-sum-exp is {total}",
                action="check the model's weights, or load it in float32",
            )
        return total


@dataclass(frozen=True, slots=True)
class Draw:
    """A token, and what is known about how it came.

    Attributes:
        token: its id.
        logprob: log p(token), under the model after temperature, over the whole vocabulary (nats).
        log_weight: log W(u), see the table in `constrained.sampling`.
        checks: questions put to the automaton: a mask is one.
    """

    token: int
    logprob: float
    log_weight: float
    checks: int = field(default=1)


class Sampler(ABC):
    """A way to draw tokens: a frozen configuration with one entry point."""

    @abstractmethod
    def propose(self, position: Position) -> Draw:
        """Draws the token at one position.

        The result depends on the position alone: the same logits, allowed ids and noise give the same token.
        """

    @abstractmethod
    def law(self, warp: Warp) -> str:
        """Name of the law that finished texts follow, for `Output.law`."""


def log_sum_exp(values: NDArray[np.float64]) -> float:
    """log(sum(exp(values))), -inf for none."""
    if not len(values):
        return -np.inf
    top = float(values.max())
    if not np.isfinite(top):
        return top
    return top + float(np.log(np.exp(values - top).sum()))
