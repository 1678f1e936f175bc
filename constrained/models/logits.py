"""What a pass of a model gives: the logits of the places that it read, left where they were computed.

Where that is a device, a draw by the Gumbel-max rule needs little of them on the host: the few tokens with the largest
keys (`constrained.spec.kernels.row_stats`), 8 KB for 64 places of 131,072 tokens. A whole row is copied to the host on its first use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.spec.noise import GumbelNoise
from constrained.spec.scores import top_indices

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


@dataclass(frozen=True, slots=True)
class PlannedDraws:
    """How tokens will be drawn at some places of a pass, so that a device computes what the draws need.

    Attributes:
        places: indices of rows, ascending.
        noises: of each of these places.
        positions: absolute position of the token that is drawn at each of these places.
        temperatures: of each of these places; 0 for greedy draws, which use no noise.
        count: how many tokens `Logits.top_keys` returns.
        allowed: what may be allowed at a place, ascending, where it is so little that its logits are wanted in any case; not empty.
    """

    places: Sequence[int]
    noises: Sequence[GumbelNoise]
    positions: Sequence[int]
    temperatures: Sequence[float]
    count: int
    allowed: Mapping[int, NDArray[np.integer[Any]]] = field(default_factory=dict)

    def arrays(self) -> list[NDArray[Any]]:
        """What a device needs: keys of the noise, places, temperatures; the places and ids of what is allowed."""
        from constrained.spec.kernels import noise_keys

        counts = [len(ids) for ids in self.allowed.values()]
        return [
            noise_keys(self.noises, self.positions, "cpu").numpy(),
            np.asarray(self.places, dtype=np.int64),
            np.asarray(self.temperatures, dtype=np.float32),
            np.repeat(np.asarray(list(self.allowed), dtype=np.int64), counts),
            np.concatenate([*self.allowed.values(), np.empty(0, dtype=np.int64)]).astype(np.int64),
        ]


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
    def top_keys(self, index: int) -> TopKeys | None:
        """The tokens with the largest keys; None where the row itself is at hand, or no draw was planned."""

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

    def top_keys(self, index: int) -> TopKeys | None:
        """None: the row is at hand."""
        return None


class DeviceLogits(Logits):
    """A tensor whose rows are copied to the host on their first use.

    The first copy brings more than the row that is asked for, because a wait costs more than the bytes of a few rows: all
    rows of a pass without draft trees, and the first ones of each tree, which are the likeliest.
    """

    def __init__(
        self,
        tensor: torch.Tensor,
        trees: Sequence[int] = (),
        draws: PlannedDraws | None = None,
        uploaded: Sequence[torch.Tensor] = (),
    ) -> None:
        """Has the device compute what the draws need, and copies nothing.

        Args:
            tensor: floating [places, vocabulary.size].
            trees: places of each draft tree, one tree after the other; none: there is one place for each sequence.
            draws: those that will be made, if whole rows will hardly be needed.
            uploaded: `PlannedDraws.arrays` on the device.
        """
        self._tensor = tensor
        self._trees = trees
        self._begun = False
        self._rows: dict[int, NDArray[np.floating[Any]]] = {}
        self._draws = draws
        self._planned = frozenset(() if draws is None else draws.places)
        self._packed = None if draws is None else self._computed(draws, uploaded)
        self._top: dict[int, TopKeys] = {}
        self._allowed: dict[int, NDArray[np.floating[Any]]] = {}
        self._read = False
        self._calls: list[Callable[[], None]] = []

    def row(self, index: int) -> NDArray[np.floating[Any]]:
        """Copied once, as float32."""
        if not self._begun and self._draws is None:
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
        """Copies these alone, if neither they nor the row are on the host yet."""
        from constrained.models.upload import upload

        if index in self._rows:
            return super().some(index, ids)
        self._fetch()
        if index in self._allowed:
            known = self._draws.allowed[index]  # type: ignore[union-attr]
            at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
            if np.array_equal(known[at], ids):
                logits: NDArray[np.floating[Any]] = self._allowed[index][at]
                return logits
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
        top = self.top_keys(index)
        if top is None:
            ids: list[int] = top_indices(self.row(index), count).tolist()
            return ids
        order = np.argsort(-top.logits, kind="stable")[:count]
        return [token for token in top.ids[order].tolist() if token >= 0]

    def knows_top_tokens(self, index: int) -> bool:
        """Whether the row is on the host, or its largest keys are, or will be with those of others."""
        return index in self._planned or index in self._rows

    def _computed(self, draws: PlannedDraws, uploaded: Sequence[torch.Tensor]) -> torch.Tensor:
        """Reads the row of every planned draw once, on the device: what `_fetch` copies, float32, in one piece."""
        import torch

        from constrained.spec.kernels import row_stats

        words, index, warmth, places, ids = uploaded
        rows = self._tensor
        if len(draws.places) < len(rows):
            rows = rows.index_select(0, index)
        stats = row_stats(rows, words, warmth, top_m=draws.count)
        values = rows.gather(1, stats.ids.clamp(min=0).to(torch.int64)).to(torch.float32)
        packed = torch.cat(
            (stats.ids.view(torch.float32), values, stats.keys[:, -1:], stats.lse[:, None]), dim=1
        )
        if not draws.allowed:
            return packed
        return torch.cat((packed.flatten(), self._tensor[places, ids].to(torch.float32)))

    def _fetch(self) -> None:
        """Copies what was computed for the draws to the host, once."""
        draws, packed = self._draws, self._packed
        if draws is None or packed is None:
            return
        self._packed = None
        count, width = draws.count, 2 * draws.count + 2
        flat = self._on_host(packed).reshape(-1)
        host, few = flat[: len(draws.places) * width].reshape(-1, width), flat[len(draws.places) * width :]
        ends = np.cumsum([len(ids) for ids in draws.allowed.values()])
        self._allowed = dict(zip(draws.allowed, np.split(few, ends), strict=False))
        ids = host[:, :count].copy().view(np.int32).astype(np.int64)
        logits = np.where(ids < 0, -np.inf, host[:, count : 2 * count].astype(np.float64))
        bounds = host[:, 2 * count].astype(np.float64)
        # Greedy keys are the logits themselves, without rounding, and of equal ones the lower ids are listed.
        rounded = (bounds > -np.inf) & (np.asarray(draws.temperatures) > 0)
        bounds[rounded] += _ROUNDING * (np.abs(bounds[rounded]) + 32.0)
        totals = host[:, 2 * count + 1].astype(np.float64)
        for i, place in enumerate(draws.places):
            self._top[place] = TopKeys(ids[i], logits[i], float(bounds[i]), float(totals[i]), draws.noises[i])

    def top_keys(self, index: int) -> TopKeys | None:
        """What the device computed for a draw; None where none was planned."""
        if index in self._planned:
            self._fetch()
        return self._top.get(index)
