"""What a pass of a model gives: the logits of the places that it read, left where they were computed.

Where that is a device, a draw by the Gumbel-max rule needs little of them on the host: the few tokens with the largest
keys (`spec.kernels.row_stats`), 8 KB for 64 places of 131,072 tokens. A whole row comes over when it is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spec.noise import GumbelNoise
from spec.scores import top_indices

if TYPE_CHECKING:
    import torch

_ROUNDING = 1e-6
"""What keys of a device are off by at most, relative to their size and that of noise."""


@dataclass(frozen=True, slots=True)
class TopKeys:
    """The tokens of a place that have the largest keys.

    Attributes:
        ids: int [m], by falling keys as the device has them.
        logits: of these tokens, exactly, float64 [m].
        bound: greater than the key of every other token; -inf where no other token is possible.
        logsumexp: log-sum-exp of the logits after temperature, to float32.
    """

    ids: NDArray[np.int64]
    logits: NDArray[np.float64]
    bound: float
    logsumexp: float


class Logits(ABC):
    """Logits of places, one row each."""

    @abstractmethod
    def row(self, index: int) -> NDArray[np.floating[Any]]:
        """All of a place, on the host, floating [vocabulary.size]."""

    @abstractmethod
    def top_tokens(self, index: int, count: int) -> list[int]:
        """Some tokens that are most likely, best first: the most likely ones, or nearly."""

    @abstractmethod
    def prepare(
        self, noises: Sequence[GumbelNoise], positions: Sequence[int], temperature: float, count: int
    ) -> None:
        """Says how tokens will be drawn, before they are: `best` can then answer.

        Args:
            noises: of each place.
            positions: absolute position of the token that is drawn at each place.
            temperature: 0 for greedy draws, which have no noise.
            count: how many tokens `best` gives.
        """

    @abstractmethod
    def top_keys(self, index: int) -> TopKeys | None:
        """The tokens with the largest keys; None where the row itself is at hand, or nothing was prepared."""


class HostLogits(Logits):
    """Arrays, one after the other."""

    def __init__(self, arrays: Sequence[NDArray[np.floating[Any]]]) -> None:
        """Copies nothing.

        Args:
            arrays: floating [places, vocabulary.size].
        """
        self._rows: list[NDArray[np.floating[Any]]] = [row for array in arrays for row in array]

    def row(self, index: int) -> NDArray[np.floating[Any]]:
        """The row itself."""
        return self._rows[index]

    def top_tokens(self, index: int, count: int) -> list[int]:
        """The most likely ones."""
        found: list[int] = top_indices(self._rows[index], count).tolist()
        return found

    def prepare(
        self, noises: Sequence[GumbelNoise], positions: Sequence[int], temperature: float, count: int
    ) -> None:
        """Nothing: rows are looked at when a draw is made, which is at few of the places."""

    def top_keys(self, index: int) -> TopKeys | None:
        """None: the row is at hand."""
        return None


class DeviceLogits(Logits):
    """A tensor, of which rows come to the host when they are asked for."""

    def __init__(self, tensor: torch.Tensor) -> None:
        """Copies nothing.

        Args:
            tensor: floating [places, vocabulary.size].
        """
        self._tensor = tensor
        self._rows: dict[int, NDArray[np.floating[Any]]] = {}
        self._ids: NDArray[np.int64] | None = None
        self._values: NDArray[np.float64]
        self._bounds: NDArray[np.float64]
        self._totals: NDArray[np.float64]

    def row(self, index: int) -> NDArray[np.floating[Any]]:
        """Copied once, as float32."""
        import torch

        if index not in self._rows:
            self._rows[index] = self._tensor[index].to("cpu", torch.float32).numpy()
        return self._rows[index]

    def top_tokens(self, index: int, count: int) -> list[int]:
        """The most likely of those with the largest keys, where these are known: they cost nothing."""
        if self._ids is None:
            found: list[int] = top_indices(self.row(index), count).tolist()
            return found
        order = np.argsort(-self._values[index], kind="stable")[:count]
        return [token for token in self._ids[index, order].tolist() if token >= 0]

    def prepare(
        self, noises: Sequence[GumbelNoise], positions: Sequence[int], temperature: float, count: int
    ) -> None:
        """Reads every row once, on the device, and copies what draws need of all places together."""
        import torch

        from spec.kernels import noise_keys, row_stats

        keys = noise_keys(noises, positions, self._tensor.device)
        found = row_stats(self._tensor, keys, temperature, top_m=count)
        values = self._tensor.gather(1, found.ids.clamp(min=0).to(torch.int64)).to(torch.float32)
        packed = torch.cat(
            (found.ids.view(torch.float32), values, found.keys[:, -1:], found.lse[:, None]), dim=1
        )
        host = packed.cpu().numpy()
        self._ids = host[:, :count].view(np.int32).astype(np.int64)
        self._values = np.where(self._ids < 0, -np.inf, host[:, count : 2 * count].astype(np.float64))
        cut = host[:, 2 * count].astype(np.float64)
        # Greedy keys are the logits themselves, without rounding, and of equal ones the lower ids are listed.
        if temperature:
            more = cut > -np.inf
            cut[more] += _ROUNDING * (np.abs(cut[more]) + 32.0)
        self._bounds = cut
        self._totals = host[:, 2 * count + 1].astype(np.float64)

    def top_keys(self, index: int) -> TopKeys | None:
        """What was prepared."""
        if self._ids is None:
            return None
        return TopKeys(
            self._ids[index], self._values[index], float(self._bounds[index]), float(self._totals[index])
        )
