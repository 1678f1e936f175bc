"""Position-keyed noise: a random number depends only on seed, sequence, position and token id.

Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") keyed by the caller's seed and
counted by (token id, absolute position, sequence, purpose). There is no state, so the order of calls, the batch row,
the tree node and the device do not matter, and a completion does not depend on speculation or on the rest of its
batch. Must not know: automata, models, logits.

Layout (words of 32 bits)

    key      k0 = seed & 0xFFFFFFFF     k1 = seed >> 32
    counter  c0 = token id >> 2         c1 = absolute position (prompt included, padding never)
             c2 = sequence              c3 = purpose (`TOKEN_PURPOSE`: draws of tokens; other draws use other numbers)
    output   word (token id & 3) belongs to the token

From word w to noise, in the order of the definition:

    v = (w + 1/2) / 2**32        in (0, 1), never an end point
    E = -log1p(-v)               standard exponential, precise where it is small: at the likely winners
    G = -log E                   standard Gumbel, between -3.2 and 22.9

The reference is numpy in float64. Devices compute identical integers, and E and G in float32; there 1 - v is
computed from the word when v > 1/2 (it would round to 0 at the end), so both agree to a few float32 roundings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spec import _core

if TYPE_CHECKING:
    import torch

TOKEN_PURPOSE = 0
"""Purpose of the draws that choose a token."""

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF

T = TypeVar("T")


def philox4x32(counter: tuple[T, T, T, T], key: tuple[T | int, T | int]) -> tuple[T, T, T, T]:
    """Philox4x32 with 10 rounds.

    Written once for Python ints, uint64 numpy arrays and int64 torch tensors that hold 32-bit words. A product
    of two words needs 64 bits: in int64 it wraps, and the mask after the (arithmetic) shift restores the high word.

    Args:
        counter: four words, of any shapes that broadcast.
        key: two words, ints or of a shape that broadcasts with the counter's.

    Returns:
        Four words, of the broadcast shape.
    """
    c0: Any
    c1: Any
    c2: Any
    c3: Any
    k0: Any
    k1: Any
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0 = c0 * _MULTIPLIERS[0]
        p1 = c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _WORD) ^ c1 ^ k0,
            p1 & _WORD,
            ((p0 >> 32) & _WORD) ^ c3 ^ k1,
            p0 & _WORD,
        )
        k0 = (k0 + _KEY_STEPS[0]) & _WORD
        k1 = (k1 + _KEY_STEPS[1]) & _WORD
    return c0, c1, c2, c3


def gumbel(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Standard Gumbel noise from 32-bit words (the float64 reference), in the shape of `words`."""
    v = (words.astype(np.float64) + 0.5) * 2.0**-32
    noise: NDArray[np.float64] = -np.log(-np.log1p(-v))
    return noise


def torch_gumbel(words: torch.Tensor) -> torch.Tensor:
    """`gumbel` in float32 on a device; `words` is an int64 tensor of 32-bit words."""
    import torch

    v = (words.to(torch.float32) + 0.5) * 2.0**-32
    rest = ((_WORD - words).to(torch.float32) + 0.5) * 2.0**-32
    return -torch.log(-torch.where(v < 0.5, torch.log1p(-v), torch.log(rest)))


@dataclass(frozen=True, slots=True)
class GumbelNoise:
    """The noise of one sequence.

    Attributes:
        seed: 0 .. 2**64 - 1.
        sequence: which of the sequences drawn with this seed, 0 .. 2**32 - 1.
        purpose: what the numbers decide, 0 .. 2**32 - 1. Draws of different purposes are independent.

    Raises:
        ValueError: a number is out of range.
    """

    seed: int
    sequence: int = 0
    purpose: int = TOKEN_PURPOSE

    def __post_init__(self) -> None:
        for name, bits in (("seed", 64), ("sequence", 32), ("purpose", 32)):
            value = getattr(self, name)
            if not 0 <= value < 1 << bits:
                raise ValueError(f"{name} {value} is out of range: it must be in 0 .. 2**{bits} - 1")

    def philox_words(self, position: int, ids: NDArray[np.integer[Any]]) -> NDArray[np.uint32]:
        """Random words of some tokens at one position.

        Args:
            position: absolute position, 0 .. 2**32 - 1.
            ids: token ids, int [n], in any order.

        Returns:
            uint32 [n].

        Raises:
            ValueError: the position is out of range.
        """
        _check_position(position)
        words = np.empty(len(ids), dtype=np.uint32)
        tokens = np.ascontiguousarray(ids, dtype=np.int64)
        _core.philox_words(self.seed, self.sequence, self.purpose, position, tokens, words)
        return words

    def gumbel(self, position: int, ids: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Gumbel noise of some tokens at one position: float64 [n] for int [n] ids."""
        return gumbel(self.philox_words(position, ids))

    def torch_philox_words(self, position: int, ids: torch.Tensor) -> torch.Tensor:
        """`words` on a device: int64 [n] with identical values, for int64 [n] ids."""
        import torch

        table = torch.stack(self._blocks(position, ids >> 2))
        return table.gather(0, (ids & 3).unsqueeze(0)).squeeze(0)

    def torch_gumbel(self, position: int, ids: torch.Tensor) -> torch.Tensor:
        """`gumbel` on a device: float32 [n] for int64 [n] ids."""
        return torch_gumbel(self.torch_philox_words(position, ids))

    def _blocks(self, position: int, block: Any) -> tuple[Any, Any, Any, Any]:
        """The four words of each block of four ids, in the number or array type of `block`."""
        _check_position(position)
        rest = block * 0
        counter = (block, rest + position, rest + self.sequence, rest + self.purpose)
        return philox4x32(counter, (self.seed & _WORD, self.seed >> 32))


def _check_position(position: int) -> None:
    if not 0 <= position <= _WORD:
        raise ValueError(f"position {position} is out of range: it must be in 0 .. 2**32 - 1")
