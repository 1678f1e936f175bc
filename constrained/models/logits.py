"""What a pass of a model gives: the logits of the places that it read, left where they were computed.

Where that is a device, a draw by the Gumbel-max rule needs little of them on the host: the few tokens with the largest
keys (`spec.kernels.row_stats`), 8 KB for 64 places of 131,072 tokens. A whole row is copied to the host on its first use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
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


_AT_ONCE = 1 << 20
"""Bytes of the likeliest places of draft trees that are copied together: some 40 us, the time of two waits."""


@dataclass(frozen=True, slots=True)
class TopKeys:
    """The tokens of a place that have the largest keys.

    Attributes:
        ids: int [m], by falling keys as the device has them.
        logits: of these tokens, exactly, float64 [m].
        bound: greater than the key of every other token; -inf where no other token is possible.
        logsumexp: log-sum-exp of the logits after temperature, to float32.
        noise: the noise of the keys; sequences that share a place with another noise need the whole row.
    """

    ids: NDArray[np.int64]
    logits: NDArray[np.float64]
    bound: float
    logsumexp: float
    noise: GumbelNoise


class Logits(ABC):
    """Logits of places, one row each."""

    @abstractmethod
    def row(self, index: int) -> NDArray[np.floating[Any]]:
        """All of a place, on the host, floating [vocabulary.size]."""

    def some(self, index: int, ids: NDArray[np.integer[Any]]) -> NDArray[np.floating[Any]]:
        """The logits of a few tokens of a place, on the host, floating [len(ids)]."""
        few: NDArray[np.floating[Any]] = self.row(index)[ids]
        return few

    @abstractmethod
    def top_tokens(self, index: int, count: int) -> list[int]:
        """Some tokens that are most likely, best first: the most likely ones, or nearly."""

    def knows_top_tokens(self, index: int) -> bool:
        """Whether `top_tokens` needs no copy from a device."""
        return True

    @abstractmethod
    def prepare(
        self,
        places: Sequence[int],
        noises: Sequence[GumbelNoise],
        positions: Sequence[int],
        temperatures: Sequence[float],
        count: int,
    ) -> None:
        """Announces how tokens are drawn at some places, so that `top_keys` can be computed on the device. Called at most once.

        Args:
            places: indices of rows, ascending.
            noises: of each of these places.
            positions: absolute position of the token that is drawn at each of these places.
            temperatures: of each of these places; 0 for greedy draws, which use no noise.
            count: how many tokens `top_keys` returns.
        """

    @abstractmethod
    def top_keys(self, index: int) -> TopKeys | None:
        """The tokens with the largest keys; None where the row itself is at hand, or nothing was prepared."""

    def when_read(self, call: Callable[[], None]) -> None:
        """Calls `call` as soon as the pass is known to be done: by default it is when its logits are returned.

        A device still computes then; its pass is done when the first of its logits are on the host.
        """
        call()


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
        ids: list[int] = top_indices(self._rows[index], count).tolist()
        return ids

    def prepare(
        self,
        places: Sequence[int],
        noises: Sequence[GumbelNoise],
        positions: Sequence[int],
        temperatures: Sequence[float],
        count: int,
    ) -> None:
        """Nothing: rows are looked at when a draw is made, which is at few of the places."""

    def top_keys(self, index: int) -> TopKeys | None:
        """None: the row is at hand."""
        return None


class DeviceLogits(Logits):
    """A tensor whose rows are copied to the host on their first use.

    The first copy brings more than the row that is asked for, because a wait costs more than the bytes of a few rows: all
    rows of a pass without draft trees, and the first ones of each tree, which are the likeliest.
    """

    def __init__(self, tensor: torch.Tensor, trees: Sequence[int] = ()) -> None:
        """Copies nothing.

        Args:
            tensor: floating [places, vocabulary.size].
            trees: places of each draft tree, one tree after the other; none: there is one place for each sequence.
        """
        self._tensor = tensor
        self._trees = trees
        self._begun = False
        self._rows: dict[int, NDArray[np.floating[Any]]] = {}
        self._top: dict[int, TopKeys] = {}
        self._read = False
        self._calls: list[Callable[[], None]] = []

    def row(self, index: int) -> NDArray[np.floating[Any]]:
        """Copied once, as float32."""
        if not self._begun and not self._top:
            self._begun = True
            self._copy_first()
        if index not in self._rows:
            self._rows[index] = self._on_host(self._tensor[index])
        return self._rows[index]

    def _copy_first(self) -> None:
        """Copies the rows that are likely to be needed, in one piece."""
        import torch

        most = _AT_ONCE // (self._tensor.shape[1] * self._tensor.element_size())
        share = max(1, most // len(self._trees)) if self._trees else 1
        places: list[range] = []
        for count in self._trees or [1] * len(self._tensor):
            begin = places[-1].stop if places else 0
            places.append(range(begin, begin + count))
        chosen = [tree[:share] for tree in places]
        parts = [self._tensor[some.start : some.stop] for some in chosen]
        block = self._tensor if chosen == places else torch.cat(parts)
        rows = self._on_host(block)
        self._rows = dict(zip((place for some in chosen for place in some), rows, strict=True))

    def some(self, index: int, ids: NDArray[np.integer[Any]]) -> NDArray[np.floating[Any]]:
        """Copies these alone, if the row is not on the host yet."""
        from constrained.models.upload import upload

        if index in self._rows:
            return super().some(index, ids)
        (chosen,) = upload(self._tensor.device, np.asarray(ids, dtype=np.int64))
        return self._on_host(self._tensor[index].index_select(0, chosen))

    def when_read(self, call: Callable[[], None]) -> None:
        """At the first copy to the host, which waits for the pass."""
        if self._read:
            call()
        else:
            self._calls.append(call)

    def _on_host(self, tensor: torch.Tensor) -> NDArray[np.float32]:
        import torch

        array: NDArray[np.float32] = tensor.cpu().to(torch.float32).numpy()
        self._read = True
        while self._calls:
            self._calls.pop(0)()
        return array

    def top_tokens(self, index: int, count: int) -> list[int]:
        """The most likely of those with the largest keys, where these are known: they cost nothing."""
        top = self._top.get(index)
        if top is None:
            ids: list[int] = top_indices(self.row(index), count).tolist()
            return ids
        order = np.argsort(-top.logits, kind="stable")[:count]
        return [token for token in top.ids[order].tolist() if token >= 0]

    def knows_top_tokens(self, index: int) -> bool:
        """Whether the row, or its largest keys, are on the host."""
        return index in self._top or index in self._rows

    def prepare(
        self,
        places: Sequence[int],
        noises: Sequence[GumbelNoise],
        positions: Sequence[int],
        temperatures: Sequence[float],
        count: int,
    ) -> None:
        """Reads every row once, on the device, and copies the largest keys of all places to the host together."""
        import torch

        from constrained.models.upload import upload
        from spec.kernels import noise_keys, row_stats

        rows = self._tensor
        # The device still computes the logits: these are made and copied meanwhile.
        words, index, warmth = upload(
            rows.device,
            noise_keys(noises, positions, "cpu").numpy(),
            np.asarray(places, dtype=np.int64),
            np.asarray(temperatures, dtype=np.float32),
        )
        if len(places) < len(rows):
            rows = rows.index_select(0, index)
        stats = row_stats(rows, words, warmth, top_m=count)
        values = rows.gather(1, stats.ids.clamp(min=0).to(torch.int64)).to(torch.float32)
        packed = torch.cat(
            (stats.ids.view(torch.float32), values, stats.keys[:, -1:], stats.lse[:, None]), dim=1
        )
        host = self._on_host(packed)
        ids = host[:, :count].view(np.int32).astype(np.int64)
        logits = np.where(ids < 0, -np.inf, host[:, count : 2 * count].astype(np.float64))
        bounds = host[:, 2 * count].astype(np.float64)
        # Greedy keys are the logits themselves, without rounding, and of equal ones the lower ids are listed.
        rounded = (bounds > -np.inf) & (np.asarray(temperatures) > 0)
        bounds[rounded] += _ROUNDING * (np.abs(bounds[rounded]) + 32.0)
        totals = host[:, 2 * count + 1].astype(np.float64)
        for i, place in enumerate(places):
            self._top[place] = TopKeys(ids[i], logits[i], float(bounds[i]), float(totals[i]), noises[i])

    def top_keys(self, index: int) -> TopKeys | None:
        """What `prepare` computed."""
        return self._top.get(index)
