"""What the kernels compute, once more in numpy and float64, from the definitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from constrained.spec.noise import GumbelNoise


@dataclass
class Row:
    """One row of logits, and what a draw from it needs."""

    z: np.ndarray
    noise: GumbelNoise
    position: int
    temperature: float
    allowed: np.ndarray

    def __post_init__(self) -> None:
        self.scaled = self.z.astype(np.float64) / (self.temperature or 1.0)
        self.keys = self.scaled.copy()
        if self.temperature:
            self.keys += self.noise.gumbel(self.position, np.arange(len(self.z)))
        self.keys[~self.allowed] = -np.inf

    def best(self, m: int) -> list[int]:
        order = np.lexsort((np.arange(len(self.keys)), -self.keys))[:m]
        found = [int(i) if self.keys[i] > -np.inf else -1 for i in order]
        return found + [-1] * (m - len(found))

    def lse(self, *, masked: bool = False) -> float:
        scaled = self.scaled[self.allowed] if masked else self.scaled
        peak = scaled.max(initial=-np.inf)
        return float(peak + np.log(np.exp(scaled - peak).sum())) if peak > -np.inf else -np.inf


def bits(allowed: np.ndarray, words: int) -> np.ndarray:
    """A mask as words, token t at bit t % 32 of word t // 32."""
    padded = np.zeros(32 * words, dtype=bool)
    padded[: min(len(allowed), 32 * words)] = allowed[: 32 * words]
    packed: np.ndarray = np.packbits(padded, bitorder="little").view(np.int32)
    return packed


def check(stats, rows: list[Row], m: int) -> None:
    """Fails where `stats` is not what the definitions say of `rows`."""
    for i, row in enumerate(rows):
        ids = stats.ids[i].tolist()
        assert ids == row.best(m)
        found = [id for id in ids if id >= 0]
        lse, log_z = row.lse(), row.lse(masked=True) - row.lse()
        assert np.allclose(stats.keys[i, : len(found)].cpu(), row.keys[found], rtol=1e-6, atol=4e-6)
        assert np.allclose(stats.log_p[i, : len(found)].cpu(), row.scaled[found] - lse, rtol=1e-6, atol=4e-6)
        assert (stats.keys[i, len(found) :] == -torch.inf).all()
        assert (stats.log_p[i, len(found) :] == -torch.inf).all()
        assert np.isclose(float(stats.lse[i]), lse, rtol=1e-6, atol=2e-6)
        expected = log_z if row.allowed.any() and lse > -np.inf else -np.inf
        assert np.isclose(float(stats.log_z[i]), expected, rtol=1e-5, atol=4e-6)
